"""The two fitters: second order, and the paper's Adam with its losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from midline3d.settings.ranges import Count, Range, Share, Weight, Whole

Held = Annotated[tuple[float, ...], Range(1e-6, 1e6, rising=False)]


@dataclass(frozen=True)
class SecondOrderSettings:
    """The Levenberg-Marquardt fitter."""

    iterations: Count = 15
    """At most, for a tracked frame; 3 to 5 are usual."""
    first_iterations: Count = 60
    """At most, for a first frame."""
    settled: Weight = 0.03
    """px: a frame has converged once a step moves its vertices by less (root mean square)."""
    pixels: Weight = 0.1
    """Weight of the pixels against all other terms."""
    smoothness: Weight = 50.0
    """Of squared change of angle per segment between neighbours."""
    size: Weight = 1.0
    """Of squared angle per segment."""
    keep_shift: Weight = 1e-2
    """Of squared px of change of the relative shifts since the frame before."""
    keep_look: Weight = 0.3
    """Of squared change of log sigma, log iota, log rho since the frame before: focus and light change slowly."""
    small_defocus: Weight = 1e-3
    """Of squared defocus, in px per mm: lenses of this field have up to 10. Held tightly, the world would be made
    larger so that a mm blurs less."""
    keep_length: Weight = 3e4
    """Of squared change of log length, once the body has been learned: it is the animal's own."""


@dataclass(frozen=True)
class AdamSettings:
    """The paper's optimiser: steps of each kind of parameter, when to stop. The hierarchy is the paper's: the curve
    learns fastest, then the look, then the cameras."""

    steps: Count = 200
    """At most: most frames converge before."""
    position: Weight = 2e-3
    """mm a step."""
    frame: Weight = 1e-2
    """Of the entries of T, M1 and M2."""
    curvature: Weight = 0.127
    """Per body length: 1e-3 rad per segment."""
    length: Weight = 2e-3
    """mm."""
    shift: Weight = 2e-2
    """px: the cameras' parameters by their effect in the image."""
    sigma: Weight = 2e-2
    """px."""
    iota: Weight = 2e-3
    """Of the brightest body."""
    rho: Weight = 2e-3
    """Of the exponent itself."""
    held_sigma: Held = ()
    """px of each view: held instead of fitted, for comparison with a fixed look. Empty: fitted."""
    held_iota: Held = ()
    """Of the brightest body, the same for intensity."""
    held_rho: Held = ()
    """The same for the exponent."""
    decay: Annotated[float, Range(0.01, 1)] = 0.8
    """Of all rates, after `patience` steps without improvement."""
    patience: Whole = 5
    """Steps: the paper's."""
    smallest: Share = 1e-3
    """Share of its rate under which no parameter falls."""
    settled: Weight = 2e-3
    """Share of the loss: a frame has converged once `window` steps gain less than that on the `window` before. The
    original waits for two slow averages to meet and idles through two thirds of its steps."""
    window: Count = 12
    """Steps: as many as level out the noise of a drawn start vertex."""
    spread: Share = 0.125
    """Standard deviation of the start vertex n_0 about the middle, as a share of N."""
    theta: Share = 0.1
    """Theta, the mask's threshold; 0 masks nothing."""
    outside: Share = 0.2
    """Mask elsewhere."""
    shift_every: Whole = 4
    """alpha: steps between centre-shifts; 0 never shifts."""
    shift_sensitivity: Share = 0.05
    """beta, as a share of N."""
    shift_largest: Whole = 2
    """gamma, vertices."""
    first_steps: Count = 200
    """For every start of a first frame: 80 behind the warm-up, in which the curves settle and are told apart by their
    loss."""
    warm_up: Count = 120
    """Steps over which a first frame's least length grows to its final value: slowly, so that the ends feel their
    way."""
    shortest: Annotated[float, Range(0.05, 2)] = 0.27
    """Of the worm's length by its silhouette: of the straight line that a first frame begins as."""
    longest: Annotated[float, Range(0.1, 2)] = 1.15
    """Of the same: the least length at the end of the warm-up. Too long rather than too short: a short curve is
    content with a part of the body, a long one is shortened by what it draws in vain."""
    sigma_min: Weight = 1.5
    """px, the paper's taper."""
    iota_min: Weight = 0.15
    """Of the brightest body, the paper's taper."""


@dataclass(frozen=True)
class LossWeights:
    """omega of every term for Adam (the weights that the paper lists with its losses), in the units of `losses`."""

    pixels: Weight = 0.1
    """omega_px, of a sum over all pixels of the pyramid. The paper's."""
    pixel_form: Literal["log-pyramid", "squares"] = "log-pyramid"
    """How render and image are compared: `squares` is the paper's mean of squared differences, as printed. The default
    compares logarithms, summed over a pyramid of ever larger pixels: it weighs faint tips against the dark middle, and
    draws in a curve that does not touch the animal yet."""
    scores: Weight = 0.01
    """omega_sc. The paper's: enough to keep the ends from sliding along the body, too little to bend them."""
    smoothness: Weight = 50.0
    """omega_sm, of angles per segment. The paper has 10 to 100."""
    second_neighbours: Share = 0.5
    """Of the smoothness, counted again between second neighbours: keeps the curvature from alternating. The paper
    prints none."""
    temporal: Weight = 0.0
    """omega_t. None: where the curve starts says enough, and held to the frame before it would lag behind. The paper
    has 10 to 100."""
    intersections: Weight = 0.1
    """omega_i. The paper has 0.1 to 1: the least that keeps coils from crossing themselves."""
    size: Weight = 1.0
    """Of sum(|K|^2): without it a curve that meets nothing curls up."""
