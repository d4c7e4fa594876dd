"""A recording frame after frame: following, judging, adjusting its cameras."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from midline3d.settings.ranges import Count, Range, Share, Switch, Weight


@dataclass(frozen=True)
class TrackingSettings:
    """A recording, frame after frame."""

    fitter: Literal["second-order", "adam"] = "second-order"
    """How tracked frames are fitted. `adam` is the paper's way, with its taper, for comparison."""
    clip: Annotated[int, Range(4, 100_000)] = 400
    """Frames that are followed as one clip at least, where a recording has twice as many or more: finding the animal
    afresh in each costs as much as following it through some forty, and longer ones would leave cores without work."""
    recovery: Switch = True
    """Whether a frame that does not fit is tried again: softly, from further off, by a search of the whole crop, and
    from its other side once all have been followed."""
    second_look: Switch = True
    """Whether some frames are searched for once more when all have been followed: it finds what following has carried
    on."""
    mend: Switch = True
    """Whether the frames around an end that springs are fitted again from the other side."""
    turn: Switch = True
    """Whether head and tail are told again all along the recording, and what is the wrong way round is turned."""
    overlap: Annotated[int, Range(1, 1000)] = 6
    """Frames by which a clip reaches into its neighbours, so that it can be seen whether the two agree."""


@dataclass(frozen=True)
class JudgingSettings:
    """From when on a frame is not trusted. Pieces are pieces of the body as long as it is wide (see `Evidence`): some
    twenty are a worm."""

    explained: Share = 0.5
    """Least share of the light that image and render have in common, in every view. With less, as much of it speaks
    against the frame as for it."""
    least_explained: Share = 0.3
    """The same, under which the frame is lost: a curve that lies across the worm has as much."""
    unexplained: Weight = 4.0
    """Most pieces of light around the curve that nothing draws, in two views at once: dirt is in one."""
    most_unexplained: Weight = 12.0
    """The same in one view: half a worm, which no dirt beside it is."""
    beyond: Weight = 0.1
    """Of the body's brightness: most light beyond an end, in all views at once. Dirt is hardly ever there in all."""
    unbacked: Weight = 0.3
    """Most pieces that are drawn where there is no light, in any view: no dirt excuses it."""
    most_unbacked: Weight = 3.0
    """The same, above which the frame is lost: a seventh of the body is drawn over nothing."""
    unsure: Share = 0.03
    """Most of the body, the tips aside, at which the light is rather not there than there in all views. Of 1834 frames
    of 48 recordings of three image models that speaks against 64 % of the wrong ones and 1.6 % of the others."""
    outside: Share = 0.03
    """Most of the body that may lie outside the crop of a view: a tip touches the border without harm."""
    jump: Weight = 0.15
    """Body lengths that the vertices may lie from where they were expected, on average: a swimming animal's centre
    moves by 0.02 in a frame."""
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
    """At most, in each round: the frames start from where tracking has left them, and only the cameras have far to
    go."""
    keep_shift: Weight = 0.3
    """Of squared px by which a frame's views lie beside where the cameras say: shaking is about a pixel."""
