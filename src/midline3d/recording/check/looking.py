"""Bursts of frames over a recording, the worm located in them as `prepare` would locate it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from midline3d import cameras as rig
from midline3d.recording.background.signal import signal
from midline3d.recording.crops import cut, origins
from midline3d.recording.description import Recording, View
from midline3d.recording.locating.locator import Locator, Sight, crop_behind, sharpness, window_for
from midline3d.recording.locating.places import ABSENT, Decider, Found, Places, another
from midline3d.recording.sources import Picture, synchronised

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]
BURST = 3
"""Consecutive frames looked at in one place of the recording: enough to tell how fast the worm moves."""
BURSTS = 30
"""Places of the recording looked at."""
FEWEST_SPEEDS = 8
"""Bursts that show the worm in all views, below which nothing is said of cameras out of step."""


@dataclass(frozen=True, eq=False)
class Seen:
    """One frame looked at."""

    sight: Sight
    place: Found
    pixels: Array
    """(camera, 2) px: the point's projections."""
    sharpness: Array
    """(camera,)"""
    second: bool
    """Whether another thing in all views looks like a worm."""


@dataclass(frozen=True)
class Unreadable:
    """What of a camera's frames looked at is broken or black; those that are known to be dropped do not count."""

    share: float
    first: int | None
    """Frame of the recording."""
    fault: str
    """What is wrong with that one, as a clause."""


def look_around(
    recording: Recording, locator: Locator, progress: Progress | None = None
) -> tuple[list[Seen], list[Unreadable]]:
    """Bursts of frames over the recording, the worm located in them; and what of each camera's cannot be read."""
    views = recording.views
    number = min(BURSTS, max(1, recording.count // BURST))
    starts = np.unique(np.linspace(0, max(0, recording.count - BURST), number).astype(int)).tolist()
    sources, offsets = [view.source for view in views], [view.offset for view in views]
    decider = Decider(BURST * len(starts), locator.settings, locator.step())
    sights: list[Sight] = []
    places: list[Places] = []
    bad: list[list[int]] = [[] for _ in views]
    total, before = 0, 0
    for done, start in enumerate(starts):
        for frame, pictures in synchronised(sources, offsets, start, min(start + BURST, recording.count)):
            total += 1
            whole = [picture for picture in pictures if picture is not None and picture.any()]
            for view, picture, frames in zip(views, pictures, bad, strict=True):
                if (picture is None or not picture.any()) and frame + view.offset not in view.source.missing:
                    frames.append(frame)
            if len(whole) == len(views):
                sight, possible = locator.see(frame, whole)
                sights.append(sight)
                places.append(possible)
                decider.add(possible, max(1, frame - before))
                before = frame
        if progress:
            progress(done + 1, len(starts))
    decisions = decider.finish()
    seen = [_seen(recording, locator, *one) for one in zip(sights, places, decisions, strict=True)]
    return seen, [_unreadable(view, frames, total) for view, frames in zip(views, bad, strict=True)]


def _unreadable(view: View, frames: list[int], total: int) -> Unreadable:
    """frames: of the recording, those that are broken or black, of so many looked at."""
    if not frames:
        return Unreadable(0.0, None, "")
    return Unreadable(len(frames) / total, frames[0], view.source.fault(frames[0] + view.offset))


def _seen(recording: Recording, locator: Locator, sight: Sight, places: Places, place: Found) -> Seen:
    count = len(recording.views)
    if not place.found:
        return Seen(sight, place, np.full((count, 2), np.nan), np.full(count, np.nan), False)
    pixels = rig.project(locator.cameras, torch.from_numpy(place.point)[None, None])[0, :, 0].numpy()
    window = window_for(recording, locator.survey.extent, locator.settings)
    corner = origins(locator.pinholes, place.point, window)
    focus = []
    for view, picture in enumerate(sight.pictures):
        behind = crop_behind(
            locator.survey.backgrounds[view], sight.frame, corner[view], window, sight.registration[view]
        )
        crop: Picture = cut(picture, corner[view], window)
        focus.append(sharpness(signal(crop, behind, locator.survey.tones[view], sight.light[view])))
    # The whole frames are no longer needed, only what was seen in them.
    light_sight = Sight(sight.frame, [], sight.light, sight.registration, sight.seen)
    return Seen(light_sight, place, pixels, np.array(focus), another(places, place, locator.settings.second))


def frames_apart(locator: Locator, seen: Sequence[Seen]) -> tuple[Array, Array]:
    """(camera,) frames by which each camera runs behind the most of them, and the standard errors.

    A camera that is late shows the worm where it was: the views miss each other in proportion to its speed. What of
    that a wrong common point would hide is projected out, and what a wrong calibration adds is the same throughout.
    """
    count = locator.cameras.count
    speeds, misses = [], []
    for before, here, after in zip(seen, seen[1:], seen[2:], strict=False):
        whole = all((one.place.choice != ABSENT).all() for one in (before, here, after))
        if whole and after.sight.frame - before.sight.frame == 2:
            own = [here.sight.seen[view].centre[here.place.choice[view]] for view in range(count)]
            speeds.append((after.pixels - before.pixels) / 2)
            misses.append((np.stack(own) - here.pixels).ravel())
    if len(speeds) < FEWEST_SPEEDS:
        return np.zeros(count), np.full(count, np.inf)
    moves = rig.projection_jacobian(locator.cameras, torch.from_numpy(locator.survey.centre())[None, None])
    free = np.linalg.svd(moves[0, :, 0].flatten(0, 1).numpy())[0][:, 3:]
    shown = np.zeros((len(speeds), 2 * count, count))
    for view in range(count):
        shown[:, 2 * view : 2 * view + 2, view] = -np.stack(speeds)[:, view]
    design, miss = shown.transpose(0, 2, 1) @ free, np.stack(misses) @ free
    design, miss = design - design.mean(0), miss - miss.mean(0)
    matrix = design.transpose(0, 2, 1).reshape(-1, count)
    lag = np.linalg.lstsq(matrix, miss.ravel(), rcond=1e-6)[0]
    variance = float(((miss.ravel() - matrix @ lag) ** 2).mean())
    error = np.sqrt(np.diag(np.linalg.pinv(matrix.T @ matrix, rcond=1e-6)) * variance)
    return lag - np.median(lag), 2 * error  # twice: neighbouring frames share their errors
