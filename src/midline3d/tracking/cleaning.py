"""Frames fitted again without their dirt, once all have been followed.

Where light was left over beside the curve, the frames around tell whether it stayed in its place while the body moved
on (see `dirt`). What did is taken off the images, and the frames are fitted again from where they were. An end that was
caught on it springs free in some of them; `mending` carries that on to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch

from midline3d.state import FrameState, merged
from midline3d.tracking.begin import Beginning, Progress
from midline3d.tracking.clip import Clip
from midline3d.tracking.dirt import Dirt
from midline3d.tracking.evidence import body_width
from midline3d.tracking.follow import Tracked, each_fitted_from, outcome
from midline3d.tracking.learning import Sample, body_taper, dirt_beside, drawn_light

BLOCK = 100
"""Frames whose dirt is found at once: with those around them, at three views of 200 px, they take some 300 MB."""
CLEARLY = 0.05
"""Pieces of light (see `JudgingSettings`) by which a frame must change in any view before it is fitted again."""
AT_ONCE = 16
"""Frames drawn or fitted in one batch."""

ReadState = Callable[[int], FrameState | None]
"""The state of a frame (within the clip), a batch of one; None where it has no midline."""


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


def dirt_of_frames(
    beginning: Beginning, chosen: list[int], found: list[int], read: ReadState, progress: Progress
) -> Dirt:
    """The dirt of chosen frames, by all that have a midline (`found`) within reach; both in order."""
    clip, parts = beginning.clip.on(torch.device("cpu")), list[Dirt]()
    taper, reach = body_taper(clip, chosen[0], beginning.body.on(clip.device)), clip.settings.dirt.reach
    for first in range(0, len(chosen), BLOCK):
        progress("looking for dirt", first, len(chosen))
        part = chosen[first : first + BLOCK]
        frames = [frame for frame in found if part[0] - reach <= frame <= part[-1] + reach]
        sample = Sample(frames, _states(read, frames, clip.device))
        batches = [list(range(len(frames)))[low : low + AT_ONCE] for low in range(0, len(frames), AT_ONCE)]
        some = [Sample([frames[row] for row in rows], sample.states[rows]) for rows in batches]
        drawn = torch.cat([drawn_light(clip, each, taper) for each in some])
        wanted = [row for row, frame in enumerate(frames) if frame in set(part)]
        parts.append(dirt_beside(clip, sample, taper, drawn, wanted, reach=0))
    return Dirt.joined(parts)


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


def cleaned(
    beginning: Beginning, dirt: Dirt, changed: list[int], read: ReadState, progress: Progress
) -> Iterator[Tracked]:
    """Some frames fitted again to images without this dirt, from where they were."""
    clean = replace(beginning, clip=replace(beginning.clip, dirt=dirt))
    for first in range(0, len(changed), AT_ONCE):
        progress("fitting again without the dirt", first, len(changed))
        part = changed[first : first + AT_ONCE]
        starts = _states(read, part, beginning.clip.device)
        for frame, found in zip(part, each_fitted_from(clean, part, starts), strict=True):
            yield outcome(clean.clip, frame, found)


def _states(read: ReadState, frames: list[int], device: torch.device) -> FrameState:
    """The states of frames that have a midline."""
    states = [state for state in map(read, frames) if state is not None]
    assert len(states) == len(frames), "only frames that have a midline are asked for"
    return merged([state.to(device) for state in states])
