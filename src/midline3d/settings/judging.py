"""What is thought of a frame, and what is put right once all are there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from midline3d.settings.ranges import Count, Range, Share, Size, Weight


@dataclass(frozen=True)
class EvidenceSettings:
    """How light is counted for and against a curve (see `tracking.evidence`)."""

    faint: Share = 0.12
    """Of the body's brightness: light under it belongs to the veil's leftovers and to blur, and is not counted."""
    doubt: Weight = 3.0
    """Standard deviations of the noise, averaged over 3 x 3 px, under which light is not counted either."""
    slack: Annotated[float, Range(1, 100)] = 1.6
    """Factor by which brightness may be wrong before it counts as left over or lacking: texture, granules, focus."""
    brightest: Annotated[float, Range(0.1, 100)] = 1.3
    """Of the body's brightness: where the body crosses itself its light adds up, and is cut there."""
    reach: Annotated[float, Range(0.1, 100)] = 2.5
    """Widths of the body around the curve within which light that nothing explains counts as the animal's."""
    width: Annotated[float, Range(0.1, 100)] = 2.4
    """Width of the body, in sigmas of its middle in perfect focus: what a Gaussian has at half its height."""
    texture: Share = 0.2
    """Of the light that is drawn: how far a right model is off at a vertex, beside the noise."""


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
    """Most pieces of light around the curve that nothing draws, in half of the views and one more: dirt is in fewer."""
    beyond: Weight = 0.1
    """Of the body's brightness: most light beyond an end, in all views at once. Dirt is hardly ever there in all."""
    unbacked: Weight = 1.0
    """Most pieces that are drawn where there is no light, in any view. Less counts for the doubt."""
    most_unbacked: Weight = 3.0
    """The same, above which the frame is lost: a seventh of the body is drawn over nothing."""
    doubt: Share = 0.1
    """Largest probability of being wrong (see `tracking.doubt`) that is still trusted of a frame by itself: with more,
    it is searched for."""
    doubt_together: Share = 0.25
    """The same, with what the frames around it say, when all are there: with more, the frame is suspect in the end. Of
    86 simulated recordings of two image models at first sight 300 of 354 wrong frames are, as with 0.15, and 17 % of
    the right ones, with 0.15 22 %; with 0.4 247 and 15 %."""
    through: Share = 0.05
    """Most of the midline that may lie inside another part of its own body: where bodies touch, midlines are a whole
    width from each other."""
    outside: Share = 0.03
    """Most of the body that may lie outside the crop of a view, or be shown by fewer than two pictures: a tip touches
    the border without harm."""
    jump: Weight = 0.15
    """Body lengths that the vertices may lie from where they were expected, on average: a swimming animal's centre
    moves by 0.02 in a frame."""
    sprung: Weight = 0.05
    """Body lengths that an end may move from one frame to the next more than the body's middle does: where it springs
    further, the frames on either side are fitted again from the other."""


@dataclass(frozen=True)
class HeadSettings:
    """Telling head from tail: once when the body is learned, and again all along the recording (`tracking.heads`)."""

    step: Size = 0.03
    """Body lengths that the midline may well move in one frame, root mean square: a swimming animal's centre moves by
    0.02."""
    link: Weight = 12.0
    """Log odds that a link between two frames is worth at most: a curve that slides along a coil is turned without a
    jump."""
    weak: Weight = 4.0
    """Log odds of a link under which it ties two stretches together no more, and each is asked for itself."""
    nats: Size = 15.0
    """Nats of one frame that are worth one of log odds: what the model gets wrong is the same in frame after frame."""
    vote: Weight = 3.0
    """Log odds that one frame is worth at most, for the same reason."""
    least_votes: Count = 4
    """Votes of a stretch at least: one frame may be coiled, four seldom are."""
    frames_per_vote: Count = 32
    """Frames that one vote stands for in a long stretch: neighbours say the same, and each costs two fits."""
    blunter: Size = 0.5
    """Natural logarithm of how much longer light takes to rise at one end than at the other that is worth one of log
    odds (see `tracking.blunter_end`)."""
    wider: Size = 0.5
    """Natural logarithm of one learned end's width against the other's that is worth one of log odds; half as much is
    worth a quarter."""
    most_width_odds: Weight = 0.75
    """Log odds that this is worth at most beside the light, which says the wrong thing of the one real animal. Of 24 of
    another image model width told all."""
    most_shape_odds: Weight = 0.6
    """Log odds that the body's shape is worth at most: how blunt, bright or wide an end looks tells the head in one
    kind of picture and the tail in the next. Over 107 animals of three image models 0.5 to 1 cost the fewest nats."""
    most_odds: Weight = 4.0
    """Log odds that the way it moves is worth at most, however long it is seen to: more than any shape."""
    at_once: Weight = 1.7
    """Log odds that the way it moves at one moment is worth at most, as if worms went backwards for a sixth of the
    time."""
    reversal: Size = 3.0
    """Body lengths that bends run along a worm by which it is a time less likely that it goes backwards all the while:
    some four beats, as is supposed. All of a recording of a second or two may be one reversal."""


@dataclass(frozen=True)
class RepairSettings:
    """What is put right once all frames are there (`tracking.repair`, `mending`, `second_look`)."""

    least_gain: Weight = 0.2
    """Energy that a frame must gain to be replaced: less is how far two descents into one minimum differ."""
    farthest: Count = 200
    """Frames that are followed again from one spring, gap or seam at most: what is wrong for longer is not mended by
    its neighbours."""
    looks: Count = 4
    """Frames of a recording that are searched for again at least: spread over it, one of them shows a lasting
    mistake."""
    frames_per_look: Count = 25
    """Frames that one look stands for in a long recording: a mistake is carried on for some dozens."""
    look_gain: Weight = 2.0
    """Nats that a look must leave less: less is how far two descents into one minimum differ."""
    look_apart: Weight = 1.0
    """Of the body's sigma: a midline that was found nearer than that on average is the same."""
    meeting: Share = 0.03
    """Body lengths: two clips whose midlines lie nearer to each other, on average, have found the same."""
