"""Preflight: everything that will go wrong with a recording, found before hours are spent on it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from midline3d import cameras as rig
from midline3d.errors import InputError
from midline3d.recording.check.facts import CameraFacts, Facts, Needs, ViewFacts, WormFacts
from midline3d.recording.check.issues import Issue, timing_issues, worm_issues
from midline3d.recording.check.limits import Limits
from midline3d.recording.check.looking import Progress, Seen, Unreadable, frames_apart, look_around
from midline3d.recording.check.report import Report
from midline3d.recording.description import Recording, View, load_recording
from midline3d.recording.locating.locator import Locator, reach_of, window_for
from midline3d.recording.locating.order import best_order
from midline3d.recording.locating.places import ABSENT
from midline3d.recording.locating.sighting import heaviest
from midline3d.recording.locating.survey import survey
from midline3d.settings import LocatingSettings

Array = NDArray[np.float64]
Pace = Callable[[rig.Cameras, Array, int], float]
"""Seconds that a frame takes to reconstruct, by the rig, the worm's place (mm) and the crops' size (px)."""
RESULT_BYTES = 20_000
"""What a frame takes in the result, beside its crops."""
BEGINNING, LEARNING, LEARNED = 120, 5, 40
"""Frames whose time finding the first one takes, however few there are; and learning the body, by every frame that it
is learned from, of which there are so many at most. At 0.055 s each, 2 frames took 7 s and 40 took 20 s."""


def check(
    path: Path | str,
    settings: LocatingSettings | None = None,
    limits: Limits | None = None,
    pace: Pace | None = None,
    progress: Progress | None = None,
    shortest: bool = False,
) -> Report:
    """Look at a recording as `prepare` would, but only here and there, and say what is wrong with it.

    shortest: that longer cameras lose their tails is wanted.
    pace: how long the reconstruction of a frame takes on this machine, for the estimate of the time.
    """
    settings, limits = settings or LocatingSettings(), limits or Limits()
    recording = load_recording(path, shortest=True)
    sources = tuple(map(_camera_facts, recording.views))
    facts = Facts(recording.name, recording.count, recording.fps, limits, sources)
    issues = list(timing_issues(recording, limits, shortest))
    if recording.centre == "fixed":
        issues.append(Issue("warning", "the images are worm-centred crops already, so nothing was sought in them"))
        return Report(replace(facts, needs=_needs(recording, recording.crop, None, None)), tuple(issues), recording)
    cameras = recording.calibration.to_cameras()
    try:
        locator = Locator(cameras, survey(recording, cameras, settings, range(recording.count)), settings)
    except InputError as fault:
        issues.append(Issue("error", str(fault)))
        return Report(facts, tuple(issues), recording)
    started = time.perf_counter()
    seen, unreadable = look_around(recording, locator, progress)
    cost = (time.perf_counter() - started) / max(1, len(seen))
    worm = _worm_facts(recording, locator, seen)
    seconds = None if pace is None else pace(cameras, locator.survey.centre(), worm.window)
    facts = replace(
        facts,
        cameras=_with_views(sources, locator, seen, unreadable),
        looked_at_frames=tuple(one.sight.frame for one in seen),
        worm=worm,
        needs=_needs(recording, worm.window, cost, seconds),
    )
    return Report(facts, (*issues, *worm_issues(facts)), recording, tuple(seen))


def _camera_facts(view: View) -> CameraFacts:
    source = view.source
    return CameraFacts(
        name=view.name,
        source=source.path.name,
        size=list(source.size),
        frames=source.count,
        offset=view.offset,
        rate=source.rate,
        dropped=len(source.missing),
        jitter=round(source.jitter, 4),
    )


def _with_views(
    cameras: Sequence[CameraFacts], locator: Locator, seen: Sequence[Seen], unreadable: Sequence[Unreadable]
) -> tuple[CameraFacts, ...]:
    """The cameras with what their views show."""
    found = [one for one in seen if one.place.found]
    lag, error = frames_apart(locator, found)
    views = []
    for view in range(len(cameras)):
        focus = np.array([one.sharpness[view] for one in found if one.place.choice[view] != ABSENT])
        absent = [one.sight.frame for one in found if one.place.choice[view] == ABSENT]
        views.append(
            ViewFacts(
                unreadable_share=unreadable[view].share,
                unreadable_first=unreadable[view].first,
                unreadable_fault=unreadable[view].fault,
                contrast=float(locator.survey.peak[view] / locator.survey.noise[view]),
                peak=float(locator.survey.peak[view] / 255),
                seen=1 - len(absent) / max(1, len(found)),
                not_seen_first=absent[0] if absent else None,
                focus=float(np.median(focus)) if focus.size else None,
                focus_low=float(np.quantile(focus, 0.02)) if focus.size else None,
                focus_course=[_rounded(one.sharpness[view]) for one in seen],
                light=[_rounded(one.sight.light[view]) for one in seen],
                lag=round(float(lag[view]), 2),
                lag_error=round(float(error[view]), 2),
            )
        )
    return tuple(replace(camera, view=view) for camera, view in zip(cameras, views, strict=True))


def _worm_facts(recording: Recording, locator: Locator, seen: Sequence[Seen]) -> WormFacts:
    found = [one for one in seen if one.place.found]
    residual = np.array([one.place.residual for one in found])
    lost = [one.sight.frame for one in seen if not one.place.found]
    places = np.array([heaviest(one.sight.seen) for one in seen]).reshape(-1, len(recording.views), 2)
    return WormFacts(
        side=locator.survey.tones[0].side,
        aside=locator.survey.aside,
        strangers=sum(map(len, locator.survey.strangers)),
        found=len(found) / max(1, len(seen)),
        lost_first=lost[0] if lost else None,
        window=window_for(recording, locator.survey.extent, locator.settings),
        extent_px=locator.survey.extent,
        scale=locator.scale(),
        residual_median=float(np.median(residual)) if residual.size else None,
        residual_high=float(np.quantile(residual, 0.95)) if residual.size else None,
        residual_course=[_rounded(one.place.residual) for one in seen],
        length_mm=2 * locator.survey.extent / locator.scale(),
        order=best_order(locator.cameras, places),
        second=sum(one.second for one in found) / max(1, len(found)),
        reach_max=max((reach_of(locator.pinholes, one.sight.seen, one.place) for one in found), default=None),
    )


def _rounded(value: float) -> float | None:
    """As JSON can have it."""
    return round(float(value), 4) if np.isfinite(value) else None


def _paces(count: int) -> int:
    """Frames whose time the whole reconstruction of so many takes."""
    return count + BEGINNING + LEARNING * min(count, LEARNED)


def _needs(recording: Recording, window: int | str, cost: float | None, seconds_per_frame: float | None) -> Needs:
    """Disk and time; cost: seconds that preparing a frame takes."""
    window = window if isinstance(window, int) else max(max(view.source.size) for view in recording.views)
    frame = len(recording.views) * window**2 + RESULT_BYTES
    return Needs(
        disk_needed=recording.count * frame,
        disk_free=shutil.disk_usage(recording.path).free,
        preparation_s=None if cost is None else cost * recording.count,
        reconstruction_s=None if seconds_per_frame is None else seconds_per_frame * _paces(recording.count),
    )
