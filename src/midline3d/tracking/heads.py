"""Which way round the animal was followed, all along a recording: what is found to be swapped can then be turned.

Two things tell. From one frame to the next the animal moves little, so that head and tail are where they were (a link);
after a gap, a spring or a mistake among coils that says little. And the learned body is not the same from both ends, so
that every frame fits better one way round than the other (a vote). Over a whole recording the two are a chain of frames
with votes, held together by links, of which the likeliest reading is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from midline3d.fitting.second_order import fit
from midline3d.settings import HeadSettings
from midline3d.state import FrameState, merged
from midline3d.tracking.begin import Beginning
from midline3d.tracking.learning import nat, problem_of

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Links:
    """The frames that have a midline, and what ties each to the one before."""

    frames: NDArray[np.int64]
    odds: Array
    """Log odds that it is the same way round as the frame before in `frames`; 0 for the first."""

    def stretches(self, weak: float) -> list[NDArray[np.int64]]:
        """The frames between links of less than `weak` log odds."""
        return np.split(self.frames, np.flatnonzero(self.odds < weak)[1:]) if len(self.frames) else []


@dataclass(frozen=True)
class Reading:
    """Which frames are to be turned round, and how sure that is."""

    turned: NDArray[np.int64]
    """Frames that were followed the wrong way round."""
    sure: Array
    """(frame of the links,) probability that a frame is the body's way round once those are turned."""


def links_of(
    midlines: Iterable[tuple[int, NDArray[np.floating] | None]], length: float, settings: HeadSettings
) -> Links:
    """The links of frames in their order, by midlines (vertex, 3) in mm; length: the body's."""
    frames: list[int] = []
    odds: list[float] = []
    before: NDArray[np.floating] | None = None
    for frame, points in midlines:
        if points is None or not np.isfinite(points).all():
            continue
        if before is None:
            odds.append(0.0)
        else:
            same, other = (np.square(points - old).sum(-1).mean() / length**2 for old in (before, before[::-1]))
            spread = settings.step * (frame - frames[-1])
            odds.append(float(np.clip((other - same) / (2 * spread**2), -settings.link, settings.link)))
        frames.append(frame)
        before = points
    return Links(np.array(frames, np.int64), np.array(odds))


def voters(links: Links, settings: HeadSettings) -> list[int]:
    """The frames to be asked which way round they fit: some of every stretch."""
    chosen: list[int] = []
    for stretch in links.stretches(settings.weak):
        count = min(len(stretch), max(settings.least_votes, len(stretch) // settings.frames_per_vote))
        places = (np.arange(count) + 0.5) * len(stretch) / count
        chosen += stretch[places.astype(int)].tolist()
    return chosen


def votes(beginning: Beginning, frames: list[int], states: list[FrameState]) -> Array:
    """Log odds that each of the frames is the body's way round: what it fits better by than when it is reversed."""
    if not frames:
        return np.zeros(0)
    clip, weights = beginning.clip, beginning.clip.settings.second_order
    as_is = merged(states)
    both = merged([as_is, as_is.reversed()])
    problem = problem_of(clip, frames * 2, beginning.taper, both, weights)
    energy = fit(problem, both, weights.retry_iterations).energy.double().cpu().view(2, -1)
    nats = torch.nan_to_num((energy[1] - energy[0]) / nat(clip.settings), nan=0.0)
    heads = clip.settings.heads
    return (nats / heads.nats).clamp(-heads.vote, heads.vote).numpy()


def read_heads(links: Links, frames: list[int], log_odds: Array) -> Reading:
    """The likeliest way round of every frame, by its links and by the votes of some (frames in rising order)."""
    if not frames:
        return Reading(np.zeros(0, np.int64), np.full(len(links.frames), 0.5))
    places = np.searchsorted(links.frames, frames)
    ties = [_tie(links.odds[one + 1 : other + 1]) for one, other in pairwise(places)]
    wrong = _likeliest(log_odds, np.array([tie for _, tie in ties]))
    sure = _marginals(log_odds, np.array([tie for _, tie in ties]))
    sure = np.where(wrong, 1 - sure, sure)
    # A frame belongs to the vote that no weaker link parts it from than the other.
    ends = [one + 1 + where for one, (where, _) in zip(places, ties, strict=False)]
    owner = np.searchsorted(ends, np.arange(len(links.frames)), side="right")
    # On the way from there the curve may have turned.
    turns = np.cumsum(links.odds < 0)
    swapped = wrong[owner] ^ ((turns - turns[places][owner]) % 2 == 1)
    return Reading(links.frames[swapped], sure[owner])


def as_learned(reading: Reading, links: Links, start: int, span: int) -> Reading:
    """The reading, or its opposite where it would turn most frames, and most of those around the one that following
    began from, by `span` at most. The body was learned from those, the way round that they are: a body whose ends are
    nearly alike may fit them all better from behind, and head would become tail."""
    turned = np.isin(links.frames, reading.turned)
    around = turned[np.abs(links.frames - start) <= span]
    if 2 * int(turned.sum()) <= len(turned) or 2 * int(around.sum()) <= len(around):
        return reading
    return Reading(np.setdiff1d(links.frames, reading.turned), reading.sure)


def _tie(odds: Array) -> tuple[int, float]:
    """The weakest of several links in a row, and what they tie together: no more than that one does."""
    weakest = int(np.abs(odds).argmin())
    return weakest, float(np.abs(odds[weakest]) * np.prod(np.where(odds < 0, -1.0, 1.0)))


def _likeliest(log_odds: Array, ties: Array) -> NDArray[np.bool_]:
    """Which votes' frames are reversed in the likeliest reading of all together (Viterbi's)."""
    best, came = np.array([log_odds[0], 0.0]), np.zeros((len(log_odds), 2), np.int64)
    for place in range(1, len(log_odds)):
        # From (as it is, reversed) before to (as it is, reversed) now.
        paths = best[:, None] + np.array([[ties[place - 1], 0.0], [0.0, ties[place - 1]]])
        came[place] = paths.argmax(0)
        best = paths.max(0) + np.array([log_odds[place], 0.0])
    reading = [int(best.argmax())]
    for place in range(len(log_odds) - 1, 0, -1):
        reading.append(int(came[place][reading[-1]]))
    return np.array(reading[::-1], bool)


def _marginals(log_odds: Array, ties: Array) -> Array:
    """Probability that each frame is as it is, all readings weighed (forward and backward)."""

    def passed(odds: float, tie: float) -> float:
        """Log odds of a neighbour by these odds and the tie between the two."""
        return float(np.logaddexp(odds + tie, 0.0) - np.logaddexp(odds, tie))

    count = len(log_odds)
    ahead, behind = np.zeros(count), np.zeros(count)
    for place in range(1, count):
        ahead[place] = passed(log_odds[place - 1] + ahead[place - 1], ties[place - 1])
        back = count - 1 - place
        behind[back] = passed(log_odds[back + 1] + behind[back + 1], ties[back])
    return np.asarray(1 / (1 + np.exp(-(log_odds + ahead + behind))))
