"""What a run knows, to go on from after a crash: read number for number, never derived again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import torch

from midline3d.appearance import Profile, Shape
from midline3d.cameras import Cameras
from midline3d.fitting.body import Body
from midline3d.state import FrameState
from midline3d.store import FrameResult, Result
from midline3d.tracking import kept_records
from midline3d.tracking.begin import Beginning
from midline3d.tracking.clip import APPEARANCE, Clip, stored_states
from midline3d.tracking.dirt import Dirt
from midline3d.tracking.evidence import SHOWN, Evidence
from midline3d.tracking.follow import Track, Tracked
from midline3d.tracking.veil import Veil

BEGINNING = "beginning"
"""Name under which a run keeps how it began."""
DIRECTIONS = ("forwards", "backwards")
"""From the frame that a run begins with."""
_NOT_KEPT = ("prepared", "settings", "device")
"""Of a clip: what a run has before it begins."""


def _track(states: list[list[Any]], **known: Any) -> Track:
    track = Track(deque(((frame, state) for frame, state in states), maxlen=2))
    for name, value in known.items():
        setattr(track, name, value)
    return track


_RECORDS: dict[str, Callable[..., Any]] = {
    record.__name__: record for record in (Beginning, Body, Cameras, Dirt, Evidence, FrameState, Profile, Shape, Veil)
} | {Track.__name__: _track}


def plain(value: Any) -> Any:
    """Records and tensors as nested mappings of arrays and what JSON can say."""
    return kept_records.plain(value, (*_RECORDS, Clip.__name__), _NOT_KEPT)


def whole(content: Any, clip: Clip) -> Any:
    """What `plain` took apart, put together on the device of a clip, which lends what a kept one lacks."""
    return kept_records.whole(content, _RECORDS | {Clip.__name__: partial(replace, clip)}, clip.device)


def on_cpu(beginning: Beginning) -> Beginning:
    """The same beginning, on the CPU: a few frames at a time are all launches on a GPU, and take ten times as long."""
    if beginning.clip.device.type == "cpu":
        return beginning
    here = whole(plain(beginning), beginning.clip.on(torch.device("cpu")))
    assert isinstance(here, Beginning)
    return here


def begun(result: Result, clip: Clip, begin: Callable[[], Beginning]) -> tuple[Beginning, bool]:
    """How the run began, and whether that was known; where it was not kept, or is damaged, it begins now.

    clip: as it was prepared, before anything was learned of it.
    """
    known = kept_beginning(result.kept(BEGINNING), clip)
    if known is not None:
        return known, True
    content = plain(begin())
    result.keep(BEGINNING, content)
    # What goes on is what would be read.
    return whole(content, clip), False


def kept_beginning(content: dict[str, Any] | None, clip: Clip) -> Beginning | None:
    """How a run began by what it kept; None where that is nothing. clip: as in `begun`."""
    known = _read(content, clip)
    return known if isinstance(known, Beginning) else None


def kept_track(direction: str, track: Track, passed: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """What `Result.append` keeps of a way along with frame `passed`, the last that the track has settled.

    Put into words only for the last frame of a segment, but as it is now: the track goes on meanwhile.
    """
    now = copy(track)
    now.states, now.generator = track.states.copy(), torch.Generator()
    now.generator.set_state(track.generator.get_state())
    return {direction: lambda: {"passed": passed, "track": plain(now)}}


def gaps(direction: list[int], there: Callable[[int], bool]) -> Iterator[range]:
    """Places in a way at which frames are missing, one after the other."""
    for missing, group in groupby(range(len(direction)), lambda place: not there(direction[place])):
        if missing:
            places = list(group)
            yield range(places[0], places[-1] + 1)


def track_to(beginning: Beginning, result: Result, direction: list[int], place: int, name: str) -> Track:
    """What following the way had come to know before the frame at a place: as it was then, number for number.

    Where the frame before was not the last of its segment (people may have corrected it since), by what is stored.
    """
    if not place:
        return Track.of(beginning)
    clip, before = beginning.clip, direction[place - 1]
    content = result.known(clip.prepared.start + before).get(name)
    if content is not None and content["passed"] == before:
        known = _read(content["track"], clip)
        if isinstance(known, Track):
            return known
    return _stored(beginning, result, direction[:place])


def _read(content: dict[str, Any] | None, clip: Clip) -> Any:
    """None where there is nothing, or what another program wrote."""
    try:
        return whole(content, clip)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError):
        return None


def _stored(beginning: Beginning, result: Result, direction: list[int]) -> Track:
    """A track by what the result holds of the frames that it has passed."""
    clip, track = beginning.clip, Track.of(beginning)
    states: list[tuple[int, FrameState]] = []
    for frame in reversed(direction):
        record = result.read(clip.prepared.start + frame)
        if record is None or record.position is None or not np.isfinite(record.position).all():
            track.lost += not states
        else:
            states.append((frame, stored_state(clip, frame, record)))
        track.doubted |= frame == direction[-1] and (record is None or record.status != "ok")
        if len(states) == 2:
            break
    track.states.extend(reversed(states))
    return track


def stored_state(clip: Clip, frame: int, record: FrameResult) -> FrameState:
    """A found frame's state, a batch of one, by what a result holds of it."""
    return states_of_records(clip, [frame], [record])


def states_of_records(clip: Clip, frames: list[int], records: list[FrameResult]) -> FrameState:
    """The states of found frames, a row each, by what a result holds of them: many cost little more than one."""
    appearance = {
        name: torch.from_numpy(np.stack([getattr(record, name) for record in records])) for name in APPEARANCE
    }
    position = np.stack([np.asarray(record.position) for record in records])
    return stored_states(clip, frames, torch.from_numpy(position), appearance)


def recorded(clip: Clip, tracked: Tracked) -> FrameResult:
    """A frame's outcome as a result holds it."""
    if tracked.fit is None or tracked.projection is None or tracked.evidence is None:
        return FrameResult(tracked.status, reason=tracked.reason)
    state, seen = tracked.fit.state, tracked.evidence
    return FrameResult(
        status=tracked.status,
        reason=tracked.reason,
        position=clip.world(state, [tracked.frame])[0].numpy(),
        confidence=seen.confidence[0].cpu().numpy(),
        projection=tracked.projection.numpy(),
        curvature=state.curvature[0].cpu().numpy(),
        length=float(state.length[0]),
        sigma=state.sigma[0].cpu().numpy(),
        iota=(state.iota[0].cpu() / clip.contrast.cpu()).numpy(),
        rho=state.rho[0].cpu().numpy(),
        defocus=state.defocus[0].cpu().numpy(),
        shift=state.shift[0].cpu().numpy(),
        loss=float(tracked.fit.energy[0]),
        loss_terms={name: float(value[0]) for name, value in tracked.fit.terms.items()},
        steps=int(tracked.fit.iterations[0]),
        explained=seen.explained.masked_fill(seen.shown < SHOWN, torch.nan)[0].cpu().numpy(),
        unexplained=seen.unexplained[0].cpu().numpy(),
        unbacked=seen.unbacked[0].cpu().numpy(),
        beyond=seen.beyond[0].cpu().numpy(),
        sigma_across=seen.across[0].cpu().numpy(),
        sigma_along=seen.along[0].cpu().numpy(),
        doubt=float(seen.doubt[0]),
    )
