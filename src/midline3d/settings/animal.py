"""The beginning of a recording, and what is known of an animal before it is seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from midline3d.settings.ranges import Count, Range, Share, Size, Switch, Weight


@dataclass(frozen=True)
class StartSettings:
    """The beginning: random starts of several frames in one batch, the best kept."""

    search: Literal["second-order", "adam"] = "second-order"
    """How the animal is searched for. `adam` is the paper's way, for comparison: random lines whose least length grows
    while Adam draws them onto the animal, then Adam to the end on the images themselves."""
    confirmed: Switch = True
    """Whether a beginning counts only where following it leads to what was found in another frame. Without, the best
    search is taken as it is."""
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
    size_frames: Count = 12
    """Frames all over the recording whose silhouettes tell the worm's size: coiled in some, it is open in others."""
    settled: Weight = 0.2
    """px: a frame that the body is to be learned from has been followed once a step moves its vertices by less. Rough
    is enough: all are fitted again, together with the body."""
    keep_length: Weight = 100.0
    """Of squared log length against the silhouette's while a first frame is fitted. Where a thick or blurred worm's
    image leaves room for a curve that curls up in it, one frame does not tell its length, and the longest fits best."""
    loose_length: Share = 0.01
    """Of `second_order.keep_length` before the body is known: the length may still change, but not from one frame to
    the next by what a hidden tail would gain."""
    agree: Weight = 0.7
    """Of the body's sigma: two curves whose mean distance in the views is less are the same."""
    clearer: Share = 0.05
    """Of the light: a start that explains as much more than all that were confirmed is held against others, too."""
    polish: Annotated[int, Range(1, 1000)] = 2
    """Best starts of each frame that are then fitted to the end: the coarse search ranks close ones by chance."""
    rounds: Annotated[int, Range(1, 100)] = 3
    """Times that other places are tried where no pair agrees: then the recording is begun from the best, with a
    warning."""


@dataclass(frozen=True)
class DirtSettings:
    """Light that stays where it is while the body moves on (see `tracking.dirt`)."""

    removed: Switch = True
    """Whether it is found and taken off the images. Without, what drifts beside an end becomes a part of it."""
    reach: Count = 40
    """Frames to either side that tell a frame's dirt: long enough for a body to move away from where it was, short
    enough for what drifts to have stayed. Of ten recordings of two image models none was worse than with 20, and one
    whose tail lay beside dirt from its seventh frame on lost 49 wrong frames."""
    frames: Annotated[int, Range(3, 1000)] = 24
    """Of those at most, evenly spread: neighbours show the same."""
    free: Annotated[int, Range(2, 1000)] = 4
    """Of these, in which a pixel must be free of the body: of fewer, the middle one may be a tail that passes."""
    covered: Share = 0.05
    """Of the body's brightness: where as much is drawn, light is the body's own."""
    onward: Share = 0.15
    """Of the length, straight on from either end and one width to both sides: light there may be the animal's, too. A
    tail that is as much too short, of an animal that hardly moves, would else be taken for dirt for good."""
    moving: Weight = 24.0
    """Nats a frame, by which light there must be foretold better by its place in the picture than by its place before
    the end, to be dirt after all: one tempered nat (see `BodySettings.sure`)."""
    left: Weight = 0.3
    """Pieces of light (see `JudgingSettings`) left over around the curve in any view, from which on dirt is looked for
    in the frames around."""
    beside: Weight = 0.5
    """Pieces of dirt beside an end, in two views at least, from which on the body is tried without that end: only what
    several views show can be drawn as one."""
    trimmed: Annotated[float, Range(0.01, 0.9)] = 0.3
    """Of the length, that is cut off then: as much as dirt had added to a body in the worst of 111 recordings. What is
    missing of the true end grows again."""


@dataclass(frozen=True)
class BodySettings:
    """Learning the animal's own constants: where they lie before any image is seen, and how surely."""

    learned: Switch = True
    """Whether the body's shape is learned. Without, it is that of the average animal below, as long as the frames that
    would be learned from say."""
    refine_cameras: Switch = True
    """Whether each camera's turn and magnification are learned along with the body. Without, the calibration is taken
    as it is, but for every frame's own relative shifts."""
    veil: Switch = True
    """Whether the light that a view scatters beside the animal is measured and taken off. Without, the body's own
    ghost draws the ends out."""
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
    stretch: Share = 0.02
    """Of the length: steps in which longer and shorter bodies are tried, and the mean taken by how well they fit. 0
    keeps the likeliest."""
    beyond_noise: Weight = 2.0
    """Times that lengths were farther off than their standard deviation by the noise, over 46 simulated animals of two
    image models: what a model gets wrong at the tips is the same in every frame."""
    beside: Share = 0.15
    """Of the render's peak: pixels that are drawn fainter than this lie beside the body, where what is left over tells
    how far faint light is off."""
    veil_damping: Size = 0.01
    """Of the least squares that tell the veil, as a share of their mean diagonal: neighbouring places tell nearly the
    same."""
    head_share: Annotated[float, Range(0.01, 1)] = 0.17
    """Of the length over which the head tapers: an animal's head is blunt, its tail long and pointed."""
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
    """Exponent (see `Shape`): nearly a point, where 1 is one."""
    tail_bluntness_spread: Size = 0.35
    """As wide as of the share, for the same reason."""
    head_tip: Annotated[float, Range(0.001, 0.3)] = 0.015
    """Width at which the head ends, of the middle's (see `Shape`): nothing to be seen, for its taper is blunt."""
    head_tip_spread: Size = 0.1
    """Of its log odds against the widest that an end may be. Narrow: let go, a head was once drawn 4 px beyond the true
    one."""
    tail_tip: Annotated[float, Range(0.001, 0.3)] = 0.015
    """Width at which the tail ends, of the middle's: a point, unless the images say otherwise. Drawn as a point, a tail
    that ends in a stub came out 2 to 6 px too long; drawn as a stub of 0.15, pointed ones 1 px too short."""
    tail_tip_spread: Size = 3.0
    """As wide as makes no odds: stubs are a tenth to a third as wide as the middle."""
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
    """Of the tissue at the very tips, where it could not be distinguished from the taper."""
    turn_spread: Size = 0.08
    """rad, by which a camera may be turned against its calibration. 10 px of error can be 3 degrees; with a right
    calibration a tighter prior gains nothing, because the images themselves tell turns to a tenth of a degree."""
    magnification_spread: Size = 0.03
    """Standard deviation of the logarithm of a camera's magnification against its calibration."""
