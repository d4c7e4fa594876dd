"""Every tunable number, in frozen records, with its unit and the reason for its default; TOML in and out."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from midline3d.errors import InputError
from midline3d.reading import read_toml, validated


@dataclass(frozen=True)
class Range:
    """What a number of the settings may be, both ends included; of a pair, that it rises too."""

    low: float
    high: float

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema  # at the rim only, as all of pydantic

        return core_schema.no_info_after_validator_function(self.checked, handler(source))

    def checked(self, value: Any) -> Any:
        """The value, unless it is outside."""
        numbers = value if isinstance(value, tuple) else (value,)
        if not all(self.low <= number <= self.high for number in numbers):
            raise ValueError(f"{self.low:g} to {self.high:g} is possible")
        if isinstance(value, tuple) and not value[0] < value[-1]:
            raise ValueError("the first must be less than the second")
        return value


Count = Annotated[int, Range(1, 100_000)]
Whole = Annotated[int, Range(0, 100_000)]
Share = Annotated[float, Range(0, 1)]
Size = Annotated[float, Range(1e-6, 1e6)]
"""Above 0: lengths, widths, steps, spreads."""
Weight = Annotated[float, Range(0, 1e9)]
LogLikelihood = Annotated[float, Range(-1e6, 0)]


@dataclass(frozen=True)
class LocatingSettings:
    """Finding the worm in whole frames and cutting the crop around it."""

    background_frames: Annotated[int, Range(1, 1000)] = 25
    """Frames, spread evenly over the recording (or over each block of it), whose per-pixel median, the worm masked, is
    the background. 25 leave a fifth of one frame's noise, and every one costs a decoded frame."""
    block: Annotated[int, Range(2, 1_000_000)] = 3000
    """Frames after which the background is taken anew, the change between being linear: light and gel drift slowly."""
    picture: Annotated[int, Range(32, 8192)] = 512
    """px of the shrunken picture's longer side in which the worm is sought: at 2048 px a worm is still 2 px wide."""
    smoothing: Annotated[float, Range(0, 50)] = 1.0
    """px of the full frame: Gaussian taken over the signal before it is cut, so that single noisy pixels vanish."""
    low: Annotated[float, Range(0.5, 100)] = 4.0
    """Standard deviations of the noise above which a pixel belongs to a thing."""
    high: Annotated[float, Range(0.5, 100)] = 8.0
    """Standard deviations of the noise that a thing must reach somewhere."""
    bridge: Annotated[float, Range(0, 200)] = 6.0
    """px of the full frame across which fragments are one thing: about a worm's width."""
    candidates: Annotated[int, Range(1, 20)] = 6
    """Things kept in each view: among dirt the worm is seldom below third."""
    places: Annotated[int, Range(1, 1000)] = 12
    """Joint readings of the views kept in each frame."""
    tolerance: Size = 8.0
    """px by which a view's centre may well miss the common point: calibrations are off by up to 15 px."""
    mass_spread: Size = 0.35
    """Spread of the logarithm of the worm's mass: dirt touches it, focus takes some of it away."""
    absent: LogLikelihood = -10.0
    """Log-likelihood of a view without the worm: worse than a mass wrong by a factor of four."""
    stranger: LogLikelihood = -16.0
    """Least log-likelihood of a view by its thing's mass: with another view absent, worse than a frame without worm."""
    lost: LogLikelihood = -22.0
    """Log-likelihood of a frame without the worm: below one view absent and the others off by a factor of two each."""
    step: Annotated[float, Range(1e-4, 100)] = 0.08
    """Body lengths that the worm's centre may well move between frames: swimming at 25 Hz it moves 0.02."""
    jump: LogLikelihood = -30.0
    """Log-likelihood of an arbitrary jump, so that one wrong frame cannot hold the track for ever."""
    lag: Annotated[int, Range(1, 10_000)] = 60
    """Frames by which the decision on a place follows, fewer where whole frames are large."""
    memory: Annotated[float, Range(1, 1e6)] = 400.0
    """MB of frames that may wait for that decision."""
    margin: Annotated[float, Range(0, 5)] = 0.12
    """Of the worm's largest extent, added on every side of the automatic crop: it must never touch the border."""
    grow: Annotated[float, Range(0, 5)] = 0.14
    """Of the worm's reach, by which its mask is grown before the background is taken beside it: halo and faint tips."""
    fill: Annotated[float, Range(1, 1000)] = 16.0
    """px over which the light beside the worm is averaged where the background was never seen without it."""


@dataclass(frozen=True)
class CurveSettings:
    """The curve, and what no parameter may leave."""

    vertices: Annotated[int, Range(8, 2048)] = 128
    """N."""
    nodes: Annotated[int, Range(5, 512)] = 40
    """B-spline nodes of the curvature in the second-order fitter: 40 follow any coil under k_max to 0.01 px, and a
    step costs a fifth of one with all 128."""
    circles: Annotated[float, Range(0.1, 20)] = 3.0
    """k_max: the tightest constant curvature, in full circles over the body."""
    length: Annotated[tuple[float, float], Range(0.01, 100)] = (0.3, 3.0)
    """mm. Wide on purpose: the length is learned from the recording."""
    sigma: Annotated[tuple[float, float], Range(0.1, 500)] = (0.8, 25.0)
    """px."""
    iota: Annotated[tuple[float, float], Range(1e-4, 100)] = (0.02, 3.0)
    """Of the recording's brightest body."""
    rho: Annotated[tuple[float, float], Range(0.1, 50)] = (0.6, 6.0)
    """1 is a Gaussian; under 0.6 a blob is a spike with tails, above 6 a disc, and no body is either."""
    defocus: Annotated[float, Range(0, 1000)] = 20.0
    """px of blur per mm of depth, either way: stronger than any lens of this field."""


@dataclass(frozen=True)
class PixelSettings:
    """How a render is held against the images."""

    model_error: Annotated[float, Range(0.01, 10)] = 0.6
    """b of a pixel's standard deviation a + b I. With a measured in each view (its noise, and what the model gets wrong
    of faint light), r = log(1 + b R / a) - log(1 + b I / a) has the same spread everywhere. The model is off by 0.1 to
    0.2 of the light where the body is dark, but over patches of 15 to 30 px at once: as many independent errors would
    have to be four or five times as large to say as little."""
    cutoff: Annotated[float, Range(1e-6, 0.5)] = 3e-3
    """Share of its peak under which a blob is cut: at 3e-3 what is cut is less than one grey level of a dark body."""
    robust: Size = 1.0
    """c of Cauchy's loss, in units of r: light that is wrong by more than a factor of e has less and less to say."""
    floor: Annotated[float, Range(0.05, 10)] = 0.5
    """px: least blur of a view, a pixel's own: a sensor shows nothing sharper."""


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
    scores: Weight = 0.01
    smoothness: Weight = 50.0
    temporal: Weight = 0.0
    intersections: Weight = 0.1
    size: Weight = 1.0
    """Of sum(|K|^2): without it a curve that meets nothing curls up."""


@dataclass(frozen=True)
class StartSettings:
    """The beginning: random starts of several frames in one batch, the best kept."""

    starts: Annotated[int, Range(1, 1000)] = 12
    """Of each frame. Nearly all of them reach the best minimum, in a tight coil among dirt at least half: then 12 fail
    together once in four thousand times."""
    kept: Annotated[int, Range(1, 1000)] = 4
    """Best starts of each frame, by their fit to blurred images, that are fitted to sharper ones."""
    length: Annotated[float, Range(0.05, 2)] = 0.5
    """Of the worm's length by its silhouette: of the straight line that each begins as. So short it lies on the body
    wherever it lies, and bends as it grows."""
    whole: Annotated[float, Range(0.1, 2)] = 1.05
    """Of the same: the length that each is drawn towards. Silhouettes tell it too short rather than too long."""
    pairs: Annotated[int, Range(1, 100)] = 3
    """Places of the recording, far apart, at each of which two frames are begun from: in one the worm may be coiled or
    lie on dirt, and not in another."""
    apart: Annotated[int, Range(1, 1000)] = 6
    """Frames between the two: followed from one to the other, the curves must meet. Neighbours would be misread
    alike."""
    polish: Annotated[int, Range(1, 1000)] = 2
    """Best starts of each frame that are then fitted to the end: the coarse search ranks close ones by chance."""
    rounds: Annotated[int, Range(1, 100)] = 3
    """Times that other places are tried where no pair agrees: then the recording is begun from the best, with a
    warning."""


@dataclass(frozen=True)
class BodySettings:
    """Learning the animal's own constants: where they lie before any image is seen, and how surely."""

    frames: Count = 16
    """Learned from at most so many, spread evenly over `span`: neighbours tell the same, and each costs as much."""
    span: Count = 48
    """Frames tracked for learning before the recording itself is: they show the animal from many sides."""
    iterations: Count = 90
    """At most: learning ends by itself, once an iteration gains hardly any energy. Of 57 animals 30 iterations left 4
    the wrong way round, because one way was learned to its end and the other was not; 90 left 2, for a tenth more
    time."""
    first_iterations: Count = 8
    """Before the veil and the spread of faint light are measured by what the body leaves over: rough is enough."""
    rounds: Annotated[int, Range(0, 100)] = 2
    """Times that they are measured: the second time by a body that was learned without the veil. 0 measures neither."""
    sure: Weight = 24.0
    """Times that the priors below count. What the model gets wrong repeats itself in every frame, so that the frames
    together say less than their number; over 13 animals of three image models and real frames, 1 left the ends up to
    four times as far off as 24, 8 up to three times, and 60 was better for some and worse for as many."""
    head_share: Annotated[float, Range(0.01, 1)] = 0.17
    """Of the length over which the head tapers: an animal's head is blunt, its tail long and pointed. Both ways round
    are tried, and the better one tells head from tail."""
    head_share_spread: Size = 0.25
    """Standard deviation of the logarithm, here and below."""
    head_bluntness: Size = 0.55
    """Exponent (see `Shape`): nearly an ellipse."""
    head_bluntness_spread: Size = 0.12
    """Narrow: a head is round. Let go, a head shorter than usual was drawn as a long needle that nobody sees, 8 px
    beyond the true one."""
    tail_share: Annotated[float, Range(0.01, 1)] = 0.28
    """Of the length over which the tail tapers."""
    tail_share_spread: Size = 0.3
    """A little wider than the head's: a pointed end fades before it is over."""
    tail_bluntness: Size = 0.85
    """Exponent: nearly a point."""
    tail_bluntness_spread: Size = 0.35
    """As of the share."""
    opacity: Size = 1.0
    """Exponent of the opacity at both ends (see `Shape`): 1 where the tissue absorbs evenly."""
    opacity_spread: Size = 0.2
    """The tissue along the body, below, tells the rest."""
    depth: Size = 0.5
    """Exponent. Absorption saturates: twice the way through the body is not twice as dark."""
    depth_spread: Size = 0.3
    """Light tissue hardly saturates, dark tissue does."""
    sharp: Size = 0.019
    """sigma of the body's middle in perfect focus, as a share of the length: a worm is 15 times as long as thick."""
    sharp_spread: Size = 0.2
    """Larvae are slimmer, gravid adults thicker."""
    tissue_spread: Size = 0.3
    """Of the tissue's opacity along the body: the gut is darker than the pharynx, eggs than both."""
    tip_spread: Size = 0.15
    """Of the tissue at the very tips, where it could not be told from the taper."""
    turn_spread: Size = 0.08
    """rad, by which a camera may be turned against its calibration. 10 px of error can be 3 degrees; with a right
    calibration a tighter prior gains nothing, because the images themselves tell turns to a tenth of a degree."""
    magnification_spread: Size = 0.03
    """Standard deviation of the logarithm of a camera's magnification against its calibration."""


@dataclass(frozen=True)
class TrackingSettings:
    """A recording, frame after frame."""

    fitter: Literal["second-order", "adam"] = "second-order"
    """How tracked frames are fitted: `adam` is the paper's way, for comparison."""
    clip: Annotated[int, Range(4, 100_000)] = 400
    """Frames that are followed as one clip at least, where a recording has twice as many or more: finding the animal
    afresh in each costs as much as following it through some forty, and longer ones would leave cores without work."""
    overlap: Annotated[int, Range(1, 1000)] = 6
    """Frames by which a clip reaches into its neighbours, so that it can be seen whether the two agree."""


@dataclass(frozen=True)
class JudgingSettings:
    """From when on a frame is not trusted. Pieces are pieces of the body as long as it is wide (see `Evidence`): some
    twenty are a worm."""

    explained: Share = 0.5
    """Least share of the light that image and render have in common, in every view."""
    least_explained: Share = 0.3
    """The same, under which the frame is lost."""
    unexplained: Weight = 4.0
    """Most pieces of light around the curve that nothing draws, in two views at once."""
    most_unexplained: Weight = 12.0
    """The same in one view."""
    beyond: Weight = 0.1
    """Of the body's brightness: most light beyond an end, in all views at once. Dirt is hardly ever there in all."""
    unbacked: Weight = 0.3
    """Most pieces that are drawn where there is no light, in any view."""
    most_unbacked: Weight = 3.0
    """The same, above which the frame is lost."""
    unsure: Share = 0.03
    """Most of the body, the tips aside, at which the light is rather not there than there in all views. Of 1834 frames
    of 48 recordings of three image models that speaks against 64 % of the wrong ones and 1.6 % of the others."""
    outside: Share = 0.03
    """Most of the body that may lie outside the crop of a view."""
    jump: Weight = 0.15
    """Body lengths that the vertices may lie from where they were expected, on average."""
    sprung: Weight = 0.05
    """Body lengths that an end may move from one frame to the next more than the body's middle does: where it springs
    further, the frames on either side are fitted again from the other."""


@dataclass(frozen=True)
class RefineSettings:
    """Adjusting the cameras to frames of a whole recording (`refine-cameras`)."""

    frames: Count = 40
    """Chosen so that they fill the volume: their cost grows in proportion, what they tell hardly beyond this."""
    rounds: Count = 3
    """Of adjusting all together; between them the frames' common shift becomes the cameras' own."""
    iterations: Count = 15
    """At most, in each round."""
    keep_shift: Weight = 0.3
    """Of squared px by which a frame's views lie beside where the cameras say: shaking is about a pixel."""


@dataclass(frozen=True)
class Settings:
    """The whole tree. A settings file is TOML with one table per field here."""

    locating: LocatingSettings = field(default_factory=LocatingSettings)
    curve: CurveSettings = field(default_factory=CurveSettings)
    pixels: PixelSettings = field(default_factory=PixelSettings)
    second_order: SecondOrderSettings = field(default_factory=SecondOrderSettings)
    adam: AdamSettings = field(default_factory=AdamSettings)
    losses: LossWeights = field(default_factory=LossWeights)
    start: StartSettings = field(default_factory=StartSettings)
    body: BodySettings = field(default_factory=BodySettings)
    tracking: TrackingSettings = field(default_factory=TrackingSettings)
    judging: JudgingSettings = field(default_factory=JudgingSettings)
    refine: RefineSettings = field(default_factory=RefineSettings)


def load_settings(path: Path | str | None) -> Settings:
    """The settings in a TOML file; the defaults without one."""
    if path is None:
        return Settings()
    return validated(Settings, read_toml(Path(path)), str(path))


def stored_settings(text: str, source: str) -> Settings:
    """The settings that a result was made with (TOML), whatever version made it.

    Keys that have been removed since are left out with a warning: what was computed stays as it is, and can be looked
    at. source: what the warning and a fault call them.
    """
    import tomllib
    import warnings

    known = {
        section.name: {item.name for item in dataclasses.fields(getattr(Settings(), section.name))}
        for section in dataclasses.fields(Settings)
    }
    try:
        stored = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise InputError(f"{source}: are not valid TOML ({fault}); restore manifest.json") from None
    gone = [f"[{section}]" for section in stored if section not in known]
    kept: dict[str, Any] = {}
    for section, keys in stored.items():
        if section in known and isinstance(keys, dict):
            gone += [f"{section}.{key}" for key in keys if key not in known[section]]
            kept[section] = {key: value for key, value in keys.items() if key in known[section]}
    if gone:
        warnings.warn(f"{source}: this version no longer has {', '.join(gone)}; ignored", stacklevel=2)
    return validated(Settings, kept, source)


def dump_settings(settings: Settings) -> str:
    """The settings as TOML that `load_settings` reads back to the same record."""
    lines: list[str] = []
    for section in dataclasses.fields(settings):
        lines.append(f"[{section.name}]")
        for name, value in dataclasses.asdict(getattr(settings, section.name)).items():
            if value is not None:
                lines.append(f"{name} = {_toml_value(value)}")
        lines.append("")
    return "\n".join(lines)


def _toml_value(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return json.dumps(value)  # TOML and JSON write booleans, numbers and strings alike
