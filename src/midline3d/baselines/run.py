"""A rival's method over a whole recording, on the same crops and cameras, into a result like any other."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from midline3d.baselines.kwon import Kwon
from midline3d.baselines.lines import KEYPOINTS, arc_length
from midline3d.baselines.paths import Paths
from midline3d.baselines.reconst import Reconst
from midline3d.baselines.scene import Frame, Frames, Method, Traced, frames_of
from midline3d.baselines.wt3d import WT3D
from midline3d.calibration import save_calibration
from midline3d.errors import InputError
from midline3d.files import aside
from midline3d.recording import Recording, load_recording, preflight, prepare
from midline3d.settings import Settings
from midline3d.store import FrameResult, Header, Result, RunLog, locked
from midline3d.tracking.job import Job, header_of, keep_apart
from midline3d.tracking.job import frames_of as frames_asked

Progress = Callable[[str, int, int], None]

METHODS: dict[str, Callable[[Frames], Method]] = {
    "kwon": lambda frames: Kwon.of(frames.some()),
    "reconst": lambda frames: Reconst.of(frames.some()),
    "wt3d": lambda frames: WT3D.of(frames.some()),
    "paths": lambda frames: Paths(),
}
"""By name; each is made for a recording by a look at some of its frames."""


def baseline(
    recording: Path | str, out: Path | str, method: str, frames: tuple[int, int] | None = None,
    shortest: bool = False, progress: Progress | None = None,
) -> Path:  # fmt: skip
    """Midlines of a recording by a rival's method; returns the path of `midline.nc`. What is there whole is kept."""
    if method not in METHODS:
        raise InputError(f"the method is '{method}'; choose {', '.join(METHODS)}")
    tell = progress or (lambda *_: None)
    job = Job(Path(recording), Path(out), Settings(), frames=frames, shortest=shortest)
    found = load_recording(job.recording, shortest=shortest)
    keep_apart(job)
    preflight(found)
    header = _header(job, found, method)
    with locked(job.out), RunLog(job.out).run(f"baseline {method} of {job.recording}"):
        Result.check(job.out, header)
        prepared = prepare(
            found, job.settings.locating, job.out / "crops",
            progress=lambda done, total: tell("locating the worm", done, total), frames=frames_asked(job, found),
        )  # fmt: skip
        with Result.start(job.out, header) as result:
            if not result.complete:
                with aside(job.out / "calibration.json") as part:
                    save_calibration(found.calibration, part)
                _followed(result, frames_of(prepared), METHODS[method], tell)
            return result.consolidate()


def _header(job: Job, recording: Recording, method: str) -> Header:
    made = header_of(job, recording, frames_asked(job, recording))
    return replace(made, keypoints=KEYPOINTS, inputs={**made.inputs, "method": method})


def _followed(result: Result, frames: Frames, make: Callable[[Frames], Method], tell: Progress) -> None:
    """Every frame from first to last, each beginning from the one before. Which end is the head none of them tells."""
    began = time.process_time()
    located = set(frames.located.tolist())
    method = make(frames) if located else None
    before: Traced | None = None
    for place in range(len(frames)):
        number = frames.prepared.start + place
        found = None
        if method is not None and place in located:
            frame = frames[place]
            found = method.trace(frame, _carried(frames, place, before))
        if found is None:
            result.append(number, FrameResult("lost", reason="no fit" if place in located else "not located"))
        else:
            result.append(number, _record(frame, found))
        before = found
        tell("following the worm", place + 1, len(frames))
    result.note(seconds_per_frame=(time.process_time() - began) / max(1, len(frames)))


def _carried(frames: Frames, place: int, before: Traced | None) -> Traced | None:
    """The midline of the frame before, in this frame's local world."""
    if before is None:
        return None
    centres = frames.prepared.log.centre
    return Traced(before.points + centres[place - 1] - centres[place], before.shift)


def _record(frame: Frame, found: Traced) -> FrameResult:
    moves = frame.moves(found.shift) + frame.origin
    return FrameResult(
        "ok",
        position=found.points + frame.centre,
        projection=frame.project(found.points) + moves[:, None],
        length=float(arc_length(found.points)[-1]),
        shift=found.shift,
    )
