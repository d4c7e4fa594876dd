"""A better calibration out of good frames: the paper's feature-free bundle adjustment as a job of its own."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from midline3d.calibration import Calibration
from midline3d.cameras import project
from midline3d.recording import load_recording, prepare
from midline3d.settings import Settings
from midline3d.tracking.begin import begin
from midline3d.tracking.clip import Clip
from midline3d.tracking.reconstruct import Progress


@dataclass(frozen=True)
class Refinement:
    """A calibration and how it differs from the one before."""

    calibration: Calibration
    change_px: dict[str, float]
    """Root mean square distance, for each camera, between what both make of the worm's midline, px."""
    frames: int

    def summary(self) -> dict[str, object]:
        return {"frames": self.frames, "change_px": self.change_px}


def refine_cameras(recording: Path, settings: Settings, progress: Progress, seed: int = 0) -> Refinement:
    """Turns and magnification of every camera, learned with the animal's body from frames of the recording.

    The images of the common centre stay where they are; priors hold the common turn and magnification, which
    no image can tell.
    """
    opened = load_recording(recording)
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(
            opened,
            settings.locating,
            Path(folder),
            progress=lambda done, total: progress("locating the worm", done, total),
        )
        clip = Clip.of(prepared, settings, torch.device("cpu"))
        found = begin(clip, torch.Generator().manual_seed(seed), lambda doing: progress(doing, 0, 0))
        points = found.clip.world(found.state, [found.frame])
        before, after = project(clip.cameras, points), project(found.clip.cameras, points)
    moved = (after - before).square().sum(-1).mean(-1).sqrt()[0].tolist()
    calibration = opened.calibration.with_cameras(found.clip.cameras)
    names = [camera.name for camera in calibration.cameras]
    frames = min(settings.body.frames, len(clip.found))
    return Refinement(calibration, dict(zip(names, moved, strict=True)), frames)
