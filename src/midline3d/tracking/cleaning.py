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

from midline3d.fitting.second_order import fit
from midline3d.state import FrameState, merged
from midline3d.tracking.begin import Beginning, Progress
from midline3d.tracking.clip import Clip
from midline3d.tracking.dirt import Dirt
from midline3d.tracking.evidence import body_width, evidence
from midline3d.tracking.follow import Candidate, Tracked, outcome
from midline3d.tracking.judging import judge
from midline3d.tracking.learning import body_taper, dirt_beside, drawn_light, problem_of

BLOCK = 100
"""Frames whose dirt is found at once: with those around them, at three views of 200 px, they take some 300 MB."""
CLEARLY = 0.05
"""Pieces of light (see `JudgingSettings`) by which a frame must change in any view before it is fitted again."""
FITTED_AT_ONCE = 16
"""Frames fitted in one batch."""

Read = Callable[[int], FrameState | None]
"""The state of a frame (within the clip); None where it has no midline."""


def to_clean(clip: Clip, unexplained: dict[int, float]) -> list[int]:
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
        asked[frame] |= clip.dirt is not None and clip.dirt.known(frame) is not None
    return [frame for frame in sorted(unexplained) if asked[frame]]


def dirt_of_frames(beginning: Beginning, chosen: list[int], found: list[int], read: Read, progress: Progress) -> Dirt:
    """The dirt of chosen frames, by all that have a midline within reach."""
    clip, parts = beginning.clip.on(torch.device("cpu")), list[Dirt]()
    taper, reach = body_taper(clip, chosen[0], beginning.body.on(clip.device)), clip.settings.dirt.reach
    for first in range(0, len(chosen), BLOCK):
        progress("looking for dirt", first, len(chosen))
        part = chosen[first : first + BLOCK]
        frames = [frame for frame in found if part[0] - reach <= frame <= part[-1] + reach]
        states = merged([_there(read, frame).to(clip.device) for frame in frames])
        drawn = torch.cat(
            [
                drawn_light(clip, frames[low : low + FITTED_AT_ONCE], states[_rows(low, len(frames))], taper)
                for low in range(0, len(frames), FITTED_AT_ONCE)
            ]
        )
        wanted = [row for row, frame in enumerate(frames) if frame in set(part)]
        parts.append(dirt_beside(clip, frames, states, taper, drawn, wanted, reach=0))
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
        light = [None if known is None else known.around(frame, place[0]) for known in (clip.dirt, dirt)]
        old, new = (nothing if each is None else each for each in light)
        clearly = bool((((new - old) / piece).abs().sum((1, 2)) > CLEARLY).any())
        kept.append(Dirt.of([frame], place, (new if clearly else old)[None], reach=0))
        changed += [frame] if clearly else []
    return Dirt.joined(kept), changed


def cleaned(beginning: Beginning, dirt: Dirt, changed: list[int], read: Read, progress: Progress) -> Iterator[Tracked]:
    """Some frames fitted again to images without this dirt."""
    clip, new = beginning.clip, replace(beginning.clip, dirt=dirt)
    weights = clip.settings.second_order
    for first in range(0, len(changed), FITTED_AT_ONCE):
        progress("fitting again without the dirt", first, len(changed))
        part = changed[first : first + FITTED_AT_ONCE]
        starts = merged([_there(read, frame).to(clip.device) for frame in part])
        problem = problem_of(new, part, beginning.taper, starts, weights)
        done = fit(problem, starts, weights.retry_iterations)
        seen = evidence(problem, done.state, new.contrast, new.noise, new.settings.evidence)
        for row, frame in enumerate(part):
            verdict = judge(seen[[row]], 0.0, clip.settings.judging)
            yield outcome(new, frame, Candidate(done[[row]], seen[[row]], verdict))


def _there(read: Read, frame: int) -> FrameState:
    state = read(frame)
    assert state is not None, "only frames that have a midline are asked for"
    return state


def _rows(low: int, count: int) -> list[int]:
    return list(range(low, min(low + FITTED_AT_ONCE, count)))
