"""A long recording cut into spans that are followed side by side: the same cuts wherever and by whomever they run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from midline3d.settings import TrackingSettings


@dataclass(frozen=True)
class Span:
    """Some frames in a row; numbers as in the prepared part of the recording, which begins with 0."""

    own: range
    """The frames that this span gives to the result: every frame is some span's own."""
    reach: range
    """The frames that it follows: its own, and some of its neighbours', by which the two are held together."""


def spans_of(located: NDArray[np.bool_], settings: TrackingSettings) -> list[Span]:
    """The spans of a recording: `settings.clip` frames each or some more, cut where the animal is gone if that is near.

    A recording that is not twice as long is one span. located: (frame,) whether the animal was found there.
    """
    count = len(located)
    pieces = how_many(count, settings)
    even = [round(count * place / pieces) for place in range(1, pieces)]
    reach = round(settings.gap_reach * settings.clip)
    cuts = [0, *(_gap(located, cut, reach) for cut in even), count]
    return [
        Span(range(first, end), range(max(0, first - settings.overlap), min(count, end + settings.overlap)))
        for first, end in pairwise(cuts)
    ]


def how_many(count: int, settings: TrackingSettings) -> int:
    """Spans that so many frames are cut into."""
    # The paper's way is followed as the paper does.
    return max(1, count // settings.clip) if settings.fitter == "second-order" else 1


def _gap(located: NDArray[np.bool_], cut: int, reach: int) -> int:
    """The middle of the longest stretch without the animal around a cut; the cut itself where there is none."""
    first = max(1, cut - reach)
    gone = ~located[first : cut + reach]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], gone, [False]]).astype(np.int8)))
    begins, ends = edges[::2], edges[1::2]
    if not len(begins):
        return cut
    longest = int(np.argmax(ends - begins))
    return first + int(begins[longest] + ends[longest]) // 2
