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
    """Whether head and tail are identified again all along the recording, and what is the wrong way round is turned."""
    softer: Annotated[float, Range(1, 1000)] = 6.0
    """How many times less exactly faint light is known while a frame is fitted softly: about as in the paper."""
    fewer_starts: Annotated[int, Range(1, 1000)] = 3
    """Times fewer starts that the first pair of frames of a clip is searched with: what is found is held against the
    known body, and then confirmed or not; mostly a few are enough."""
    gap_reach: Share = 0.25
    """Of a clip's length: how far a cut between clips may be moved to where the animal is gone anyway."""
    overlap: Annotated[int, Range(1, 1000)] = 6
    """Frames by which a clip reaches into its neighbours, so that it can be seen whether the two agree."""


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
