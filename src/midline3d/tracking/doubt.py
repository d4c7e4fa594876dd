"""How likely a midline is to be wrong: a probability, from how exactly it is known and what speaks against it.

Wrong is a midline more than 2 px off, or an end more than 8 px, on average over the views, as the benchmark counts it.
A frame is judged by its own pictures while it is followed. When all are there, those around it have their say: every
frame starts from the one before, so that what is wrong stays wrong for a while, now more to be seen and now less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from midline3d.shapes import Float, Tensor

TIPS = 0.0625
"""Of the body at each end: light may be too faint there to speak for or against the midline."""
SIDE, END, UNSURE, UNBACKED, NEITHER = 1.68, 1.63, 0.58, 0.26, -2.0
"""Log odds of a wrong midline: for every factor of e in the largest deviation to the side (px), in the deviation of the
worse end (px), in the share of the body whose light is rather not there, and in the pieces that are drawn without
light; and where all of them are 1. A logistic regression over 2,868 frames of 74 simulated recordings of two image
models, 98 of them wrong in 10 recordings; carried over to deviations that were measured anew by least squares over
3,804 frames of 97 others. There, at 2 % of the right frames it finds 85 % of the 206 wrong ones (before: 83 %). The
last was moved when the ends' deviations came to say how gently their light fades (`Body.unsure`): of 3,765 right frames
of 100 recordings 838 had been suspect, and 8 of 159 wrong ones were not; by these 488 and 6."""
LEAST_SHARE, LEAST_PIECES = 0.02, 0.05
"""Added to the share and to the pieces: less of either says nothing."""
FADES = 6.0
"""Frames over which one's word for those around it fades by a factor of e. With 4 to 10 the same wrong frames are found
to a twentieth."""
AROUND, ALL = 1.95, 4.10
"""Log odds of a wrong midline for every one of log odds that the frames around it have by themselves on average, and
where these are even. A logistic regression over 6,835 frames of 174 simulated recordings of three image models, 476 of
them wrong in 24 recordings; what a frame says by itself adds nothing to it, nor do the light that is explained, the
length's deviation, the cameras' number or the animal's size. Left out by recordings, at 2 % of the right frames it
finds 87 % of the wrong ones, at 4 % 96 %; frames by themselves, 80 and 91 %."""
WRONG_END = 8.0
"""px: an end that is farther off makes a frame wrong."""
CLEAREST, DIREST = -7.0, 5.0
"""Bounds of the log odds of a frame by itself: beyond them they are no longer measured, and one frame must not outvote
all others."""
ENOUGH = 0.15
"""Doubt of a frame by itself that its neighbours do not take away: a mistake may be short."""


@dataclass(frozen=True)
class Signs:
    """What tells a wrong midline from a right one, of a batch of frames."""

    across: Float[Tensor, "batch vertex"]
    """Standard deviation to the side of the body, px."""
    along: Float[Tensor, "batch vertex"]
    """Standard deviation along the body, px."""
    confidence: Float[Tensor, "batch vertex"]
    """Probability that the light that is drawn at the vertex is there in all views."""
    unbacked: Float[Tensor, "batch camera"]
    """What is drawn where there is no light, in pieces of the body as long as it is wide."""


def doubt(signs: Signs) -> Float[Tensor, " batch"]:
    """Probability that the midline is wrong; NaN where a deviation is none."""
    tip = max(1, int(TIPS * signs.across.shape[1]))
    side = signs.across[:, tip:-tip].amax(1)
    # Two directions to the side, one along.
    ends = 2 * signs.across.square() + signs.along.square()
    end = torch.maximum(ends[:, 0], ends[:, -1]).sqrt()
    unsure = (signs.confidence[:, tip:-tip] < 0.5).to(side).mean(1) + LEAST_SHARE
    pieces = signs.unbacked.amax(1) + LEAST_PIECES
    odds = SIDE * side.log() + END * end.log() + UNSURE * unsure.log() + UNBACKED * pieces.log() + NEITHER
    return torch.sigmoid(odds)


def together(alone: NDArray[np.float64]) -> NDArray[np.float64]:
    """(frame,) the probability that each midline is wrong by what it and those around it say by themselves (frame,);
    NaN, and no word for others, where that is NaN."""
    known = np.isfinite(alone)
    share = np.clip(np.where(known, alone, 0.5), 1e-9, 1 - 1e-9)
    odds = np.clip(np.log(share / (1 - share)), CLEAREST, DIREST)
    weights = _spread(known.astype(np.float64))
    around = _spread(np.where(known, odds, 0.0)) / np.maximum(weights, 1e-9)
    found = 1 / (1 + np.exp(-AROUND * around - ALL))
    found = np.where(alone > ENOUGH, np.maximum(found, alone), found)
    return np.where(known, found, np.nan)


def more_likely(probability: NDArray[np.float64], odds: float) -> NDArray[np.float64]:
    """Probabilities after something that adds so much to their log odds."""
    times = np.exp(odds)
    return times * probability / (1 + (times - 1) * probability)


def end_missed(deviation: float) -> float:
    """Probability that an end is too far off in all frames alike, by the standard deviation of where the worse of the
    two lies (`Body.unsure`), px.

    Of a frame by itself that is one sign among others, and a midline known to a tenth of a px outweighs it. But the
    middle of a body says nothing of where its tail ends.
    """
    return math.erfc(WRONG_END / (math.sqrt(2) * max(deviation, 1e-9)))


def _spread(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums over all frames, each fading with its distance on either side."""
    fade = np.exp(-1 / FADES)
    before, after = np.array(values), np.array(values)
    for frame in range(1, len(values)):
        before[frame] += fade * before[frame - 1]
        after[-1 - frame] += fade * after[-frame]
    return before + after - values
