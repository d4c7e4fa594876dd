"""Frames fitted again without their dirt, once all have been followed.

Where light was left over beside the curve, the frames around tell whether it stayed in its place while the body moved
on (see `dirt`). What did is taken off the images, and the frames are fitted again from where they were. An end that was
caught on it springs free in some of them; `mending` carries that on to the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import torch

from midline3d.state import FrameState
from midline3d.tracking.begin import Beginning
from midline3d.tracking.clip import Clip
from midline3d.tracking.dirt import Dirt, LeftOver, find_dirt
from midline3d.tracking.evidence import body_width
from midline3d.tracking.follow import Tracked, each_fitted_from, outcome
from midline3d.tracking.learning import Sample, body_taper, drawn_light, light_left_over
from midline3d.tracking.threads import on_all_cores

PART = 200
"""Frames that are cleaned as one part (see `parts`): with those around them whose light is drawn, too, 280."""
BLOCK = 100
"""Frames whose dirt is found at once: with those around them, at three views of 200 px, they take some 300 MB."""
CLEARLY = 0.05
"""Pieces of light (see `JudgingSettings`) by which a frame must change in any view before it is fitted again."""
AT_ONCE = 16
"""Frames drawn or fitted in one batch."""

ReadStates = Callable[[list[int]], FrameState]
"""The states of frames (within the clip) that all have a midline, a row each."""


def frames_to_clean(clip: Clip, unexplained: dict[int, float]) -> list[int]:
    """Frames whose dirt is asked for: around those that leave light over, and those that had any taken off before.

    unexplained: pieces of light (see `Evidence`) of every frame that has a midline, in the view that has the most.
    """
    settings = clip.settings.dirt
    if not settings.removed:
        return []
    count, asked = len(clip), np.zeros(len(clip), bool)
    for frame, pieces in unexplained.items():
        if pieces > settings.left:
            asked[max(0, frame - settings.reach) : min(count, frame + settings.reach + 1)] = True
        asked[frame] |= clip.dirt is not None and clip.dirt.row_for(frame) is not None
    return [frame for frame in sorted(unexplained) if asked[frame]]


def dirt_of_frames(beginning: Beginning, chosen: list[int], found: list[int], read: ReadStates) -> Dirt:
    """The dirt of chosen frames, by all that have a midline (`found`) within reach; both in order."""
    clip, reach = beginning.clip.on(torch.device("cpu")), beginning.clip.settings.dirt.reach
    asked = _within(reach, found, chosen)
    waiting, parts = deque[LeftOver](), list[Dirt]()
    with closing(_left_over(beginning, clip, asked, read)) as coming:
        for first in range(0, len(chosen), BLOCK):
            part = chosen[first : first + BLOCK]
            low, high = part[0] - reach, part[-1] + reach
            while not waiting or waiting[-1].frames[-1] < min(high, asked[-1]):
                waiting.append(next(coming))
            while waiting[0].frames[-1] < low:
                waiting.popleft()
            left = LeftOver.joined(list(waiting), low, high)
            wanted = [row for row, frame in enumerate(left.frames) if frame in set(part)]
            parts.append(find_dirt(left, wanted, clip.settings.dirt, reach=0))
    return Dirt.joined(parts)


@dataclass(frozen=True)
class Cleaned:
    """What became of some frames of which it was asked whether they show dirt."""

    dirt: Dirt
    """That is taken off them."""
    again: list[Tracked]
    """Those that were fitted again for it."""


def parts_of(beginning: Beginning, chosen: list[int], found: list[int]) -> list[tuple[list[int], list[int]]]:
    """Chosen frames, some at a time, each with those of all that have a midline (`found`) that tell their dirt; in
    order. Always the same ones: other batches may round otherwise."""
    parts = [chosen[first : first + PART] for first in range(0, len(chosen), PART)]
    reach, known = beginning.clip.settings.dirt.reach, np.array(found, dtype=np.int64)

    def near(part: list[int]) -> list[int]:
        first, stop = np.searchsorted(known, (part[0] - reach, part[-1] + reach + 1))
        return _within(reach, found[first:stop], part)

    return [(part, near(part)) for part in parts]


def clean(beginning: Beginning, chosen: list[int], found: list[int], read: ReadStates) -> Cleaned:
    """Chosen frames without their dirt, by all that have a midline (`found`) within reach; both in order."""
    dirt, changed = changed_by(beginning, dirt_of_frames(beginning, chosen, found, read))
    return Cleaned(dirt, list(cleaned(beginning, dirt, changed, read)))


def _within(reach: int, frames: list[int], others: list[int]) -> list[int]:
    """Those of the frames that are no further than `reach` from one of the others, which are in order."""
    places = np.searchsorted(others, np.array(frames) - reach)
    return [
        frame
        for frame, place in zip(frames, places.tolist(), strict=True)
        if place < len(others) and others[place] <= frame + reach
    ]


def _left_over(
    beginning: Beginning, clip: Clip, frames: list[int], read: ReadStates
) -> Generator[LeftOver, None, None]:
    """What the body leaves over in frames, some at a time, in order."""
    taper = body_taper(clip, frames[0], beginning.body.on(clip.device))
    batches = [frames[first : first + AT_ONCE] for first in range(0, len(frames), AT_ONCE)]
    samples = (Sample(batch, read(batch).to(clip.device)) for batch in batches)
    return on_all_cores(lambda some: light_left_over(clip, some, taper, drawn_light(clip, some, taper)), samples)


def changed_by(beginning: Beginning, dirt: Dirt) -> tuple[Dirt, list[int]]:
    """The frames whose light changes clearly by taking off this dirt instead of what was taken off before; and the dirt
    that is taken off, which in all others is as before."""
    clip, settings = beginning.clip, beginning.clip.settings
    width = float(body_width(beginning.taper, settings.evidence).mean())
    piece = (clip.brightness.cpu() * width**2)[:, None, None]
    kept, changed = list[Dirt](), list[int]()
    for frame in dirt.frames.tolist():
        place, nothing = clip.places([frame]), torch.zeros(len(piece), dirt.window, dirt.window)
        light = [None if known is None else known.in_crops(frame, place[0]) for known in (clip.dirt, dirt)]
        old, new = (nothing if each is None else each for each in light)
        clearly = bool((((new - old) / piece).abs().sum((1, 2)) > CLEARLY).any())
        kept.append(Dirt.of([frame], place, (new if clearly else old)[None], reach=0))
        changed += [frame] if clearly else []
    return Dirt.joined(kept), changed


def cleaned(beginning: Beginning, dirt: Dirt, changed: list[int], read: ReadStates) -> Iterator[Tracked]:
    """Some frames fitted again to images without this dirt, from where they were."""
    bare = replace(beginning, clip=replace(beginning.clip, dirt=dirt))
    batches = [changed[first : first + AT_ONCE] for first in range(0, len(changed), AT_ONCE)]

    def fitted(sample: Sample) -> list[Tracked]:
        found = each_fitted_from(bare, sample.frames, sample.states)
        return [outcome(bare.clip, frame, one) for frame, one in zip(sample.frames, found, strict=True)]

    samples = (Sample(batch, read(batch)) for batch in batches)
    for tracked in on_all_cores(fitted, samples, bare.clip.device):
        yield from tracked
