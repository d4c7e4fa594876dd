"""The job: a recording in, a result out; resumed where it was left."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import zip_longest
from pathlib import Path

import numpy as np
import torch

from midline3d.calibration import save_calibration
from midline3d.files import aside, demand, write_whole
from midline3d.recording import Prepared, Recording, adopt, load_recording, preflight, prepare
from midline3d.recording.identity import inputs_of
from midline3d.recording.prepare import chosen_frames
from midline3d.settings import RefineSettings, Settings, dump_settings
from midline3d.store import FrameResult, Header, Result, RunLog, info, locked, ranges
from midline3d.tracking.begin import Beginning, Progress, begin
from midline3d.tracking.checkpoint import WAYS, begun, gaps, stored_state, told, track_to
from midline3d.tracking.clip import Clip
from midline3d.tracking.follow import Tracked, missing
from midline3d.tracking.mending import Known, mended, springs
from midline3d.tracking.ways import track_ways
from midline3d.world import ATTRIBUTE

MENDED = "mended"
"""Name under which a run keeps that its frames have been held against one another."""


@dataclass(frozen=True)
class Job:
    """What to reconstruct and how."""

    recording: Path
    out: Path
    settings: Settings
    seed: int = 0
    device: str = "cpu"
    frames: tuple[int, int] | None = None
    """First frame and the one after the last."""
    shortest: bool = False
    """Stop at the shortest camera's end instead of refusing unequal lengths."""
    redo: bool = False
    """Start over where the folder holds a result; its frames are replaced when new ones come."""
    crops: Path | None = None
    """Another result's prepared crops of the same recording, to be used instead of decoding again."""


def reconstruct(job: Job, progress: Progress) -> Path:
    """The whole job. Returns the path of midline.nc."""
    recording = load_recording(job.recording, shortest=job.shortest)
    preflight(recording)
    what = f"midline3d {_release()}: reconstruct {job.recording} on {job.device}, seed {job.seed} ({_versions()})"
    with locked(job.out), RunLog(job.out).run(what) as log:
        return _reconstructed(job, recording, log, log.watched(progress))


def _reconstructed(job: Job, recording: Recording, log: RunLog, progress: Progress) -> Path:
    frames = chosen_frames(range(*job.frames) if job.frames else None, recording)
    header = _header(job, recording, frames)
    # Before hours are spent, and before the crops of what lies there are written over.
    if not job.redo:
        Result.check(job.out, header)
    prepared = _prepared(job, recording, frames, progress)
    with Result.start(job.out, header, job.redo) as result:
        if result.header.attributes.get(ATTRIBUTE, "") != _frame(recording):
            result.note(**{ATTRIBUTE: _frame(recording)})  # of a complete result too: the frame may have come later
        done, count = len(result.done), len(prepared)
        log.say(f"{done} of {count} frames are there, {count - done} to do")
        if not result.complete or result.kept(MENDED) is None:
            demand(job.out, result.needed, "the midlines")
            _track(job, recording, prepared, result, log, progress)
        path = result.consolidate()
    about = info(job.out)
    for line in (about.summary(), about.warning()):
        if line:
            log.say(line)
    return path


def _prepared(job: Job, recording: Recording, frames: range, progress: Progress) -> Prepared:
    folder, locating = job.out / "crops", job.settings.locating
    if job.crops is not None:
        return adopt(recording, locating, folder, job.crops, frames)
    return prepare(
        recording,
        locating,
        folder,
        progress=lambda done, total: progress("locating the worm", done, total),
        frames=frames,
    )


def _track(job: Job, recording: Recording, prepared: Prepared, result: Result, log: RunLog, progress: Progress) -> None:
    """Follows the animal through the missing frames."""
    generator = torch.Generator().manual_seed(job.seed)
    clip = Clip.of(prepared, job.settings, torch.device(job.device))
    beginning, known = begun(result, clip, lambda: begin(clip, generator, progress))
    result.note(head_confidence=float(torch.tensor(beginning.head_odds).sigmoid()))
    _keep_body(job.out, beginning, result.needed)
    # Beside the result, so that it can be drawn, looked at and corrected where the recording is not at hand.
    with aside(job.out / "calibration.json", result.needed) as part:
        save_calibration(recording.calibration.with_cameras(beginning.clip.cameras), part)
    if known:
        log.say(f"resumed with the animal as it was learned; {_left(beginning, result)}")
    with _timed(result):
        _follow(beginning, result, progress)
    again = _mend(beginning, result, progress)
    result.keep(MENDED, {"frames": again})
    log.say(f"{again} frames came out better from the other side of where an end had sprung")


@contextmanager
def _timed(result: Result) -> Iterator[None]:
    """Notes how fast frames came, once all of them have."""
    began, done = time.monotonic(), len(result.done)
    yield
    result.note(frames_per_second=(len(result.done) - done) / max(time.monotonic() - began, 1e-9))


def _follow(beginning: Beginning, result: Result, progress: Progress) -> None:
    """Both ways from the beginning; where frames are there already, from the last before those that are missing."""
    clip = beginning.clip
    start, count = clip.prepared.start, len(clip)
    for frame in range(count):
        if not clip.located(frame) and start + frame not in result.done:
            result.append(start + frame, _record(clip, missing(clip, frame)))
    ways = _ways(beginning)
    holes = [list(gaps(way, lambda frame: start + frame in result.done)) for way in ways]
    for both in zip_longest(*holes, fillvalue=range(0)):
        parts = [way[hole.start : hole.stop] for way, hole in zip(ways, both, strict=True)]
        tracks = [
            track_to(beginning, result, way, hole.start, name) for way, hole, name in zip(ways, both, WAYS, strict=True)
        ]
        for tracked in track_ways(beginning, parts, tracks):
            way = 0 if tracked.frame >= beginning.frame else 1
            known = told(WAYS[way], tracks[way], tracked.frame)
            result.append(start + tracked.frame, _record(clip, tracked), known)
            progress("reconstructing", len(result.done), count)


def _mend(beginning: Beginning, result: Result, progress: Progress) -> int:
    """Fits frames again from the other side where an end has sprung; returns how many came out better."""
    clip = beginning.clip
    start, settings = clip.prepared.start, clip.settings
    if settings.tracking.fitter != "second-order":
        return 0
    ends, middle = np.full((len(clip), 2, 3), np.nan), np.full((len(clip), 3), np.nan)
    for frame, record in enumerate(map(result.read, range(start, start + len(clip)))):
        if record is not None and record.position is not None:
            ends[frame], middle[frame] = record.position[[0, -1]], record.position.mean(0)
    at = springs(ends, middle, float(beginning.body.length), settings.judging.sprung).tolist()

    def read(frame: int) -> Known | None:
        record = result.read(start + frame)
        if record is None or record.position is None or not np.isfinite(record.position).all() or record.loss is None:
            return None
        return Known(stored_state(clip, frame, record), float(record.loss))

    better: dict[int, FrameResult] = {}
    for tracked in mended(beginning, at, read):
        better[tracked.frame] = _record(clip, tracked)
        progress("fitting again where an end has sprung", len(better), 0)
    # All at once, at the end: a run that is killed before finds the frames as they were, and comes to the same.
    for frame, record in better.items():
        result.append(start + frame, record)
    result.flush()
    return len(better)


def _ways(beginning: Beginning) -> list[list[int]]:
    """The located frames in the order in which they are followed."""
    found, first = beginning.clip.found, beginning.frame
    return [[frame for frame in found if frame >= first], [frame for frame in reversed(found) if frame < first]]


def _left(beginning: Beginning, result: Result) -> str:
    """Which frames are to be followed, for the log."""
    start = beginning.clip.prepared.start
    left = [[start + frame for frame in way if start + frame not in result.done] for way in _ways(beginning)]
    return ", ".join(f"{name} {ranges(way) or 'nothing'} left" for name, way in zip(WAYS, left, strict=True))


def _keep_body(out: Path, beginning: Beginning, needed: int) -> None:
    """What was learned of the animal, in body.json: with it a frame is rendered anew from its own numbers."""
    clip = beginning.clip
    content = {
        "numbers": beginning.body.numbers().tolist(),
        "length_mm": float(beginning.body.length),
        "head_odds": beginning.head_odds,
        "brightness": clip.brightness.tolist(),
        "error": clip.error.tolist(),
        "veil": None if clip.veil is None else clip.veil.as_json(),
    }
    write_whole(out / "body.json", json.dumps(content).encode() + b"\n", needed)


def _header(job: Job, recording: Recording, span: range) -> Header:
    return Header(
        frames=tuple(span),
        fps=recording.fps,
        cameras=tuple(view.name for view in recording.views),
        keypoints=job.settings.curve.vertices,
        # How cameras are adjusted afterwards is no part of it.
        settings=dump_settings(replace(job.settings, refine=RefineSettings())),
        inputs=inputs_of(recording),
        seed=job.seed,
        device=job.device,
        version=_release(),
        attributes={
            "recording": recording.name,
            "sources": json.dumps({view.name: str(view.source.path.resolve()) for view in recording.views}),
            "versions": _versions(),
            **({} if recording.world is None else {ATTRIBUTE: _frame(recording)}),
        },
        offsets=tuple(view.offset for view in recording.views),
    )


def _frame(recording: Recording) -> str:
    """The world that results are to be told in; no part of the run itself, whose numbers stay as they are."""
    return "" if recording.world is None else recording.world.as_json()


def _release(package: str = "midline3d") -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "0"


def _versions() -> str:
    """Of all that has a part in the numbers."""
    packages = ("torch", "numpy", "scipy", "opencv-python-headless", "av")
    told = ", ".join(f"{package} {_release(package)}" for package in packages)
    return f"Python {platform.python_version()}, {told}, {platform.system()} {platform.machine()}"


def _record(clip: Clip, tracked: Tracked) -> FrameResult:
    if tracked.fit is None or tracked.projection is None or tracked.evidence is None:
        return FrameResult(tracked.status, reason=tracked.reason)
    state, told = tracked.fit.state, tracked.evidence
    return FrameResult(
        status=tracked.status,
        reason=tracked.reason,
        position=clip.world(state, [tracked.frame])[0].numpy(),
        confidence=told.confidence[0].cpu().numpy(),
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
        explained=told.explained[0].cpu().numpy(),
        unexplained=told.unexplained[0].cpu().numpy(),
        unbacked=told.unbacked[0].cpu().numpy(),
        beyond=told.beyond[0].cpu().numpy(),
    )
