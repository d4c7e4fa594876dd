"""The job: a recording in, a result out; resumed where it was left."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from midline3d.calibration import save_calibration
from midline3d.cameras import Cameras
from midline3d.recording import Prepared, Recording, load_recording, preflight, prepare
from midline3d.recording.prepare import chosen_frames, fingerprint_of
from midline3d.settings import RefineSettings, Settings, dump_settings
from midline3d.store import FrameResult, Header, Result, locked
from midline3d.tracking.begin import Beginning, Progress, begin
from midline3d.tracking.clip import Clip
from midline3d.tracking.follow import Tracked
from midline3d.tracking.ways import track_ways


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


def reconstruct(job: Job, progress: Progress) -> Path:
    """The whole job. Returns the path of midline.nc."""
    recording = load_recording(job.recording, shortest=job.shortest)
    preflight(recording)
    with locked(job.out):
        return _reconstructed(job, recording, progress)


def _reconstructed(job: Job, recording: Recording, progress: Progress) -> Path:
    frames = chosen_frames(range(*job.frames) if job.frames else None, recording)
    header = _header(job, recording, frames)
    # Before hours are spent, and before the crops of what lies there are written over.
    Result.check(job.out, header)
    prepared = prepare(
        recording,
        job.settings.locating,
        job.out / "crops",
        progress=lambda done, total: progress("locating the worm", done, total),
        frames=frames,
    )
    with Result.start(job.out, header) as result:
        missing = [frame for frame in range(len(prepared)) if prepared.start + frame not in result.done]
        if missing:
            cameras = _track(job, prepared, result, missing, progress)
            # Beside the result, so that it can be drawn, looked at and corrected where the recording is not at hand.
            save_calibration(recording.calibration.with_cameras(cameras), job.out / "calibration.json")
        return result.consolidate()


def _track(job: Job, prepared: Prepared, result: Result, missing: list[int], progress: Progress) -> Cameras:
    """Follows the animal through the missing frames; returns the rig as it was refined."""
    generator = torch.Generator().manual_seed(job.seed)
    clip = Clip.of(prepared, job.settings, torch.device(job.device))
    beginning = begin(clip, generator, progress)
    _keep_body(job.out, beginning)
    result.note(head_confidence=float(torch.tensor(beginning.head_odds).sigmoid()))
    clip, first = beginning.clip, beginning.frame
    ways = [list(range(first, len(clip))), list(range(first - 1, -1, -1))]
    done = len(clip) - len(missing)
    for tracked in track_ways(beginning, [_needed(way, set(missing)) for way in ways]):
        if prepared.start + tracked.frame not in result.done:
            result.append(prepared.start + tracked.frame, _record(clip, tracked))
            done += 1
        progress("reconstructing", done, len(clip))
    return clip.cameras


def _needed(way: list[int], missing: set[int]) -> list[int]:
    """A frame that is there already is fitted again only where the ones that are missing need it as their start."""
    last = max((place for place, frame in enumerate(way) if frame in missing), default=-1)
    return way[: last + 1]


def _keep_body(out: Path, beginning: Beginning) -> None:
    """What was learned of the animal, in body.json: with it a frame is rendered anew from its own numbers."""
    clip = beginning.clip
    content = {
        "numbers": beginning.body.numbers().tolist(),
        "length_mm": float(beginning.body.length),
        "head_odds": beginning.head_odds,
        "brightness": clip.brightness.tolist(),
        "halo": None if clip.halo is None else clip.halo.tolist(),
    }
    (out / "body.json").write_text(json.dumps(content) + "\n", encoding="utf-8")


def _header(job: Job, recording: Recording, span: range) -> Header:
    try:
        release = version("midline3d")
    except PackageNotFoundError:
        release = "0"
    return Header(
        frames=tuple(span),
        fps=recording.fps,
        cameras=tuple(view.name for view in recording.views),
        keypoints=job.settings.curve.vertices,
        # How cameras are adjusted afterwards is no part of it.
        settings=dump_settings(replace(job.settings, refine=RefineSettings())),
        inputs={"recording": fingerprint_of(recording, job.settings.locating, span)},
        seed=job.seed,
        device=job.device,
        version=release,
    )


def _record(clip: Clip, tracked: Tracked) -> FrameResult:
    if tracked.fit is None or tracked.projection is None:
        return FrameResult(tracked.status)
    state = tracked.fit.state
    contrast = clip.settings.pixels.contrast
    return FrameResult(
        status=tracked.status,
        position=clip.world(state, [tracked.frame])[0].numpy(),
        confidence=tracked.fit.shares[0].cpu().numpy(),
        projection=tracked.projection.numpy(),
        curvature=state.curvature[0].cpu().numpy(),
        length=float(state.length[0]),
        sigma=state.sigma[0].cpu().numpy(),
        iota=(state.iota[0] / contrast).cpu().numpy(),
        rho=state.rho[0].cpu().numpy(),
        defocus=state.defocus[0].cpu().numpy(),
        shift=state.shift[0].cpu().numpy(),
        loss=float(tracked.fit.energy[0]),
        loss_terms={name: float(value[0]) for name, value in tracked.fit.terms.items()},
        steps=int(tracked.fit.iterations[0]),
    )
