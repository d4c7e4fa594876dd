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
    """At most, for a tracked frame: 3 to 5 are usual, and what has not settled by then wants another start."""
    retry_iterations: Count = 30
    """At most, for a frame that is tried again, turned round or corrected: it starts further off, and there are few."""
    first_iterations: Count = 60
    """At most, for a first frame, which starts further off than any tracked one."""
    settled: Weight = 0.03
    """px: a frame has converged once a step moves its vertices by less (root mean square): far less than the midline's
    error."""
    pixels: Weight = 0.1
    """Weight of the pixels against all other terms: the paper's omega_px, so that its other weights keep their
    sense."""
    smoothness: Weight = 50.0
    """Of squared change of angle per segment between neighbours: the paper's omega_sm, in the middle of its range."""
    size: Weight = 1.0
    """Of squared angle per segment: straight is likelier than bent where the images say nothing."""
    keep_shift: Weight = 1e-2
    """Of squared px of change of the relative shifts since the frame before: gel and table shake by a pixel or so."""
    keep_appearance: Weight = 0.3
    """Of squared change of log sigma, log iota, log rho since the frame before: focus and light change slowly."""
    small_defocus: Weight = 1e-3
    """Of squared defocus, in px per mm: lenses of this field have up to 10. Held tightly, the world would be made
    larger so that a mm blurs less."""
    keep_length: Weight = 3e4
    """Of squared change of log length, once the body has been learned: it is the animal's own."""


@dataclass(frozen=True)
class AdamSettings:
    """The paper's optimiser: steps of each kind of parameter, when to stop. The hierarchy is the paper's: the curve
    learns fastest, then the appearance, then the cameras."""

    steps: Count = 200
    """At most: most frames converge before."""
    position: Weight = 2e-3
    """mm a step: a quarter of a pixel at 130 px a mm, a tenth of the body's width."""
    bishop: Weight = 1e-2
    """Of the entries of T, M1 and M2: half a degree a step."""
    curvature: Weight = 0.127
    """Per body length: 1e-3 rad per segment, the paper's rate in the unit in which its bound is 0.148."""
    length: Weight = 2e-3
    """mm a step, as of the position."""
    shift: Weight = 2e-2
    """px a step, the slowest of all: what the curve can take up must not become the cameras'."""
    sigma: Weight = 2e-2
    """px a step: less than a tenth of the curve's, lest the renderer blurs itself towards pixels that it should move
    to."""
    iota: Weight = 2e-3
    """Of the brightest body, a step, for the same reason."""
    rho: Weight = 2e-3
    """Of the exponent itself, a step, for the same reason."""
    held_sigma: Held = ()
    """px of each view: held instead of fitted, for comparison with a fixed appearance. Empty: fitted."""
    held_iota: Held = ()
    """Of the brightest body, the same for intensity."""
    held_rho: Held = ()
    """The same for the exponent."""
    decay: Annotated[float, Range(0.01, 1)] = 0.8
    """Of all rates, after `patience` steps without improvement: the paper's."""
    patience: Whole = 5
    """Steps without improvement after which the rates fall: the paper's."""
    smallest: Share = 1e-3
    """Share of its rate under which no parameter falls: the paper's 1e-6 of 1e-3."""
    settled: Weight = 2e-3
    """Share of the loss: a frame has converged once `window` steps gain less than that on the `window` before. The
    original waits for two slow averages to meet and idles through two thirds of its steps."""
    window: Count = 12
    """Steps: as many as level out the noise of a drawn start vertex."""
    spread: Share = 0.125
    """Standard deviation of the start vertex n_0 about the middle, as a share of N: drawn anew for each step, no kink
    grows at one place."""
    theta: Share = 0.1
    """Theta, the mask's threshold; 0 masks nothing. The paper's: what the blobs reach at 1.5 sigma still counts."""
    outside: Share = 0.2
    """Mask elsewhere, the paper's: not 0, so that a curve that misses the worm is still drawn to it."""
    shift_every: Whole = 4
    """alpha: steps between centre-shifts; 0 never shifts. The paper has 3 to 6: new vertices need time to settle."""
    shift_sensitivity: Share = 0.05
    """beta, as a share of N. The paper has 0.05 to 0.1: no profile is balanced for long."""
    shift_largest: Whole = 2
    """gamma, vertices. The paper has 1 to 2: a large shift would destroy a part of the curve."""
    first_steps: Count = 200
    """For every start of a first frame: 80 behind the warm-up, in which the curves settle and differ in their
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
    """px: sigma at the tips by the paper's taper, which prints 2 to 4 for its larger pictures; the tip is thinner."""
    iota_min: Weight = 0.15
    """Of the brightest body: intensity at the tips by the paper's taper, the least that it prints."""


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
