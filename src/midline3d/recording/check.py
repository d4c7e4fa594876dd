"""Preflight: everything that will go wrong with a recording, found before hours are spent on it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from midline3d import cameras as rig
from midline3d.errors import InputError
from midline3d.recording.crops import cut, origins
from midline3d.recording.description import Recording, load_recording
from midline3d.recording.findings import Finding, Limits, timing_findings, worm_findings
from midline3d.recording.locating import ABSENT, Decider, Found, Places, another
from midline3d.recording.order import best_order
from midline3d.recording.passing import Looker, Progress, Sight, crop_behind, reach_of, sharpness, window_for
from midline3d.recording.signal import signal
from midline3d.recording.sources import Picture, synchronised
from midline3d.recording.survey import heaviest, survey
from midline3d.settings import LocatingSettings

Array = NDArray[np.float64]
Pace = Callable[[rig.Cameras, Array, int], float]
"""Seconds that a frame takes to reconstruct, by the rig, the worm's place (mm) and the crops' size (px)."""
BURST = 3
"""Consecutive frames looked at in one place of the recording: enough to tell how fast the worm moves."""
BURSTS = 30
"""Places of the recording looked at."""
RESULT_BYTES = 20_000
"""What a frame takes in the result, beside its crops."""
BEGINNING = 1000
"""Frames whose time finding the first one and learning the body take."""


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


@dataclass(frozen=True, eq=False)
class Report:
    """What was found: for people as text, for machines as a dictionary."""

    facts: dict[str, Any]
    findings: tuple[Finding, ...]
    recording: Recording
    looker: Looker | None = None
    seen: tuple[Seen, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether nothing is beyond its limit."""
        return not any(finding.severity == "error" for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """All of it, in the types of JSON."""
        return {"ok": self.ok, **self.facts, "findings": [asdict(finding) for finding in self.findings]}

    def text(self) -> str:
        """All of it, for people."""
        from midline3d.recording.report import report_text

        return report_text(self)

    def picture(self, path: Path | str) -> None:
        """Draw the views with what was found in them, and how it went over time."""
        from midline3d.recording.report import draw_report

        draw_report(self, Path(path))


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
    facts: dict[str, Any] = {
        "name": recording.name,
        "frames": recording.count,
        "fps": recording.fps,
        "limits": asdict(limits),
        "cameras": [_camera_facts(recording, index) for index in range(len(recording.views))],
    }
    findings = list(timing_findings(recording, limits, shortest))
    if recording.centre == "fixed":
        findings.append(Finding("warning", "the images are worm-centred crops already, so nothing was sought in them"))
        return Report(facts | _needs(recording, recording.crop, None, None), tuple(findings), recording)
    cameras = recording.calibration.to_cameras()
    try:
        looker = Looker(cameras, survey(recording, cameras, settings, range(recording.count)), settings)
    except InputError as fault:
        findings.append(Finding("error", str(fault)))
        return Report(facts, tuple(findings), recording)
    started = time.perf_counter()
    seen, unreadable = look_around(recording, looker, progress)
    cost = (time.perf_counter() - started) / max(1, len(seen))
    for entry, number in zip(facts["cameras"], unreadable.tolist(), strict=True):
        entry["unreadable_share"] = number
    facts |= _worm_facts(recording, looker, seen, facts["cameras"])
    window = facts["worm"]["window"]
    facts |= _needs(recording, window, cost, None if pace is None else pace(cameras, looker.look.centre(), window))
    findings += worm_findings(facts, limits)
    return Report(facts, tuple(findings), recording, looker, tuple(seen))


def look_around(
    recording: Recording, looker: Looker, progress: Progress | None = None
) -> tuple[list[Seen], NDArray[np.float64]]:
    """Bursts of frames over the recording, the worm located in them; and each camera's share of unreadable frames."""
    views = recording.views
    number = min(BURSTS, max(1, recording.count // BURST))
    starts = np.unique(np.linspace(0, max(0, recording.count - BURST), number).astype(int)).tolist()
    sources, offsets = [view.source for view in views], [view.offset for view in views]
    decider = Decider(BURST * len(starts), looker.settings, looker.step())
    sights: list[Sight] = []
    places: list[Places] = []
    bad, total, before = np.zeros(len(views)), 0, 0
    for done, start in enumerate(starts):
        for frame, pictures in synchronised(sources, offsets, start, min(start + BURST, recording.count)):
            total += 1
            whole = [picture for picture in pictures if picture is not None and picture.any()]
            bad += [picture is None or not picture.any() for picture in pictures]
            if len(whole) == len(views):
                sight, possible = looker.see(frame, whole)
                sights.append(sight)
                places.append(possible)
                decider.add(possible, max(1, frame - before))
                before = frame
        if progress:
            progress(done + 1, len(starts))
    decisions = decider.finish()
    seen = [_seen(recording, looker, *one) for one in zip(sights, places, decisions, strict=True)]
    return seen, bad / max(1, total)


def _seen(recording: Recording, looker: Looker, sight: Sight, places: Places, place: Found) -> Seen:
    count = len(recording.views)
    if not place.found:
        return Seen(sight, place, np.full((count, 2), np.nan), np.full(count, np.nan), False)
    pixels = rig.project(looker.cameras, torch.from_numpy(place.point)[None, None])[0, :, 0].numpy()
    window = window_for(recording, looker.look.extent, looker.settings)
    corner = origins(looker.cameras, place.point, window)
    focus = []
    for view, picture in enumerate(sight.pictures):
        behind = crop_behind(looker.look.backgrounds[view], sight.frame, corner[view], window, sight.shake[view])
        crop: Picture = cut(picture, corner[view], window)
        focus.append(sharpness(signal(crop, behind, looker.look.tones[view], sight.light[view])))
    # The whole frames are no longer needed, only what was seen in them.
    light_sight = Sight(sight.frame, [], sight.light, sight.shake, sight.seen)
    return Seen(light_sight, place, pixels, np.array(focus), another(places, place))


def _camera_facts(recording: Recording, index: int) -> dict[str, Any]:
    view = recording.views[index]
    return {
        "name": view.name,
        "source": str(view.source.path.name),
        "size": list(view.source.size),
        "frames": view.source.count,
        "offset": view.offset,
        "rate": view.source.rate,
        "dropped": len(view.source.missing),
        "jitter": round(view.source.jitter, 4),
    }


def _worm_facts(recording: Recording, looker: Looker, seen: Sequence[Seen], cameras: list[Any]) -> dict[str, Any]:
    found = [one for one in seen if one.place.found]
    residual = np.array([one.place.residual for one in found])
    for view, entry in enumerate(cameras):
        focus = np.array([one.sharpness[view] for one in found if one.place.choice[view] != ABSENT])
        absent = [one.sight.frame for one in found if one.place.choice[view] == ABSENT]
        entry |= {
            "contrast": float(looker.look.peak[view] / looker.look.noise[view]),
            "peak": float(looker.look.peak[view] / 255),
            "seen": 1 - len(absent) / max(1, len(found)),
            "not_seen_first": absent[0] if absent else None,
            "focus": float(np.median(focus)) if focus.size else None,
            "focus_low": float(np.quantile(focus, 0.02)) if focus.size else None,
            "focus_course": [_rounded(one.sharpness[view]) for one in seen],
            "light": [_rounded(one.sight.light[view]) for one in seen],
        }
    lag, error = frames_apart(looker, found)
    for view, entry in enumerate(cameras):
        entry |= {"lag": round(float(lag[view]), 2), "lag_error": round(float(error[view]), 2)}
    lost = [one.sight.frame for one in seen if not one.place.found]
    order = best_order(
        looker.cameras, np.array([heaviest(one.sight.seen) for one in seen]).reshape(-1, len(cameras), 2)
    )
    return {
        "looked_at": len(seen),
        "looked_at_frames": [one.sight.frame for one in seen],
        "worm": {
            "side": looker.look.tones[0].side,
            "aside": looker.look.aside,
            "found": len(found) / max(1, len(seen)),
            "lost_first": lost[0] if lost else None,
            "window": window_for(recording, looker.look.extent, looker.settings),
            "extent_px": looker.look.extent,
            "scale": looker.scale(),
            "residual_median": float(np.median(residual)) if residual.size else None,
            "residual_high": float(np.quantile(residual, 0.95)) if residual.size else None,
            "residual_course": [_rounded(one.place.residual) for one in seen],
            "length_mm": 2 * looker.look.extent / looker.scale(),
            "order": None if order is None else asdict(order),
            "second": sum(one.second for one in found) / max(1, len(found)),
            "reach_max": max((reach_of(looker.cameras, one.sight.seen, one.place) for one in found), default=None),
        },
    }


def _rounded(value: float) -> float | None:
    """As JSON can have it."""
    return round(float(value), 4) if np.isfinite(value) else None


def frames_apart(looker: Looker, seen: Sequence[Seen]) -> tuple[Array, Array]:
    """(camera,) frames by which each camera runs behind the most of them, and the standard errors.

    A camera that is late shows the worm where it was: the views miss each other in proportion to its speed. What of
    that a wrong common point would hide is projected out, and what a wrong calibration adds is the same throughout.
    """
    count = looker.cameras.count
    speeds, misses = [], []
    for before, here, after in zip(seen, seen[1:], seen[2:], strict=False):
        whole = all((one.place.choice != ABSENT).all() for one in (before, here, after))
        if whole and after.sight.frame - before.sight.frame == 2:
            own = [here.sight.seen[view].centre[here.place.choice[view]] for view in range(count)]
            speeds.append((after.pixels - before.pixels) / 2)
            misses.append((np.stack(own) - here.pixels).ravel())
    if len(speeds) < 8:
        return np.zeros(count), np.full(count, np.inf)
    moves = rig.projection_jacobian(looker.cameras, torch.from_numpy(looker.look.centre())[None, None])
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


def _needs(recording: Recording, window: Any, cost: float | None, seconds_per_frame: float | None) -> dict[str, Any]:
    """Disk and time."""
    window = window if isinstance(window, int) else max(max(view.source.size) for view in recording.views)
    frame = len(recording.views) * window**2 + RESULT_BYTES
    return {
        "disk_needed": recording.count * frame,
        "disk_free": shutil.disk_usage(recording.path).free,
        "preparation_s": None if cost is None else cost * recording.count,
        "reconstruction_s": None if seconds_per_frame is None else seconds_per_frame * (recording.count + BEGINNING),
    }
