"""A better calibration out of the recording itself: the paper's feature-free bundle adjustment as a job of its own.

Frames spread over the volume, their curves, the animal's body and all cameras are fitted together. While the animal is
followed a frame's views may move against each other freely, which hides what a turned camera does as the animal
travels; here they are held, so that this must come from the cameras.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from midline3d.calibration import Calibration
from midline3d.cameras import Cameras, project, projection_jacobian, triangulate
from midline3d.errors import InputError
from midline3d.fitting.body import Body, Rig, Shared, learn
from midline3d.reading import number_of
from midline3d.recording import load_recording
from midline3d.settings import RefineSettings
from midline3d.shapes import Float, Tensor
from midline3d.state import FrameState
from midline3d.store import open_result
from midline3d.tracking.clip import APPEARANCE, Clip, kept_body, kept_clip, stored_states
from midline3d.tracking.learning import body_taper, problem_of, shared_prior
from midline3d.tracking.reconstruct import Job, Progress, reconstruct

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Change:
    """What became of one camera, px."""

    mean: float
    """Distance between what both calibrations make of the volume that the animal swam through."""
    largest: float
    before: float
    """Reprojection error (root mean square) of the midlines by the calibration as it was."""
    after: float


@dataclass(frozen=True)
class Refinement:
    """A calibration and how it differs from the one before."""

    calibration: Calibration
    cameras: dict[str, Change]
    frames: tuple[int, ...]
    """Of the recording, that it was learned from."""
    volume: tuple[float, ...]
    """mm: extent of those frames' midlines along x, y and z."""

    def summary(self) -> dict[str, object]:
        """The figures, ready for JSON."""
        cameras = {name: vars(change) for name, change in self.cameras.items()}
        return {"frames": list(self.frames), "volume_mm": list(self.volume), "cameras": cameras}

    def table(self) -> Table:
        """The figures for people."""
        from rich.table import Table

        size = " x ".join(f"{side:.1f}" for side in self.volume)
        title = f"Adjusted to {number_of(len(self.frames), 'frame')}, over {size} mm"
        table = Table(title=title, caption="px; the common place, direction and scale of all cameras stay as they were")
        columns = ("camera", "change, mean", "largest", "reprojection before", "after")
        for index, column in enumerate(columns):
            table.add_column(column, justify="right" if index else "left")
        for name, change in self.cameras.items():
            table.add_row(name, *(f"{value:.2f}" for value in vars(change).values()))
        return table


def refine_cameras(job: Job, progress: Progress) -> Refinement:
    """Reconstructs the recording, or takes the result that `job.out` holds, and adjusts its cameras.

    A world that is turned, moved or magnified looks the same in all views: that much is held where it was.
    """
    reconstruct(job, progress)
    recording = load_recording(job.recording, shortest=job.shortest)
    dataset = open_result(job.out)
    clip, settings = kept_clip(job.out, dataset), job.settings.refine
    rows = spread_frames(dataset, settings.frames)
    frames = (dataset.frame.values[rows] - clip.prepared.start).tolist()
    adjusted = _adjusted(clip, kept_body(job.out), frames, _states(clip, dataset, rows, frames), settings, progress)
    clip, states = adjusted
    calibration = recording.calibration.with_cameras(clip.cameras)
    world = clip.world(states, frames)
    changes = _changes(recording.calibration.to_cameras(), clip.cameras, world, states.shift.double())
    extent = (world.flatten(0, 1).amax(0) - world.flatten(0, 1).amin(0)).tolist()
    named = dict(zip(calibration.names, changes, strict=True))
    return Refinement(calibration, named, tuple(dataset.frame.values[rows].tolist()), tuple(extent))


def spread_frames(dataset: xr.Dataset, count: int) -> NDArray[np.int64]:
    """Rows of well-fitted frames, each as far as can be from those before it: they fill the volume."""
    centre = dataset.position.isel(individual=0).transpose("time", "keypoint", "space").values.mean(1)
    good = np.flatnonzero((dataset.status.values.astype(str) == "ok") & np.isfinite(centre).all(-1))
    if len(good) < 2:
        raise InputError(f"{len(good)} frame(s) of the recording fit well, but two or more are needed to see more")
    first = int(np.linalg.norm(centre[good] - np.median(centre[good], 0), axis=-1).argmin())
    chosen = [first]
    away = np.full(len(good), np.inf)
    while len(chosen) < min(count, len(good)):
        away = np.minimum(away, np.linalg.norm(centre[good] - centre[good[chosen[-1]]], axis=-1))
        away[chosen[-1]] = -1.0
        chosen.append(int(away.argmax()))
    return np.sort(good[chosen])


def _states(clip: Clip, dataset: xr.Dataset, rows: NDArray[np.int64], frames: list[int]) -> FrameState:
    """The chosen frames as the result keeps them."""
    some = dataset.isel(time=rows)
    world = torch.from_numpy(some.position.isel(individual=0).transpose("time", "keypoint", "space").values)
    return stored_states(clip, frames, world, {name: torch.from_numpy(some[name].values) for name in APPEARANCE})


def _adjusted(
    clip: Clip, body: Body, frames: list[int], states: FrameState, settings: RefineSettings, progress: Progress
) -> tuple[Clip, FrameState]:
    """The clip with better cameras, and the frames as those see them."""
    weights = replace(clip.settings.second_order, keep_length=0.0, keep_shift=settings.keep_shift)
    prior = shared_prior(clip.settings, body, clip.cameras.count)
    for done in range(settings.rounds):
        progress(f"adjusting the cameras to {len(frames)} frames", done, settings.rounds)
        clip, states = _centred(clip, frames, states)
        anchor = replace(states, shift=torch.zeros_like(states.shift))
        problem = problem_of(clip, frames, body_taper(clip, frames[0], body), anchor, weights)
        rig = Rig(clip.cameras, clip.centres(frames), clip.origins(frames))
        found = learn(problem, rig, states, Shared.unchanged(body, clip.cameras.count), prior, settings.iterations)
        clip, states, body = replace(clip, cameras=found.cameras), found.state, found.body
    return _centred(clip, frames, states)


def _centred(clip: Clip, frames: list[int], states: FrameState) -> tuple[Clip, FrameState]:
    """The shifts that the frames have in common become the cameras' own, but for what a move of the world would do."""
    cameras = clip.cameras
    common = states.shift.median(0).values.double()
    pixels = cameras.shift_basis @ common
    pivot = clip.centres(frames).mean(0)
    moves = projection_jacobian(cameras, pivot[None, None])[0, :, 0]
    move = torch.linalg.lstsq(moves.flatten(0, 1), pixels.flatten()[:, None]).solution.squeeze(-1)
    centre = cameras.centre + (pixels - moves @ move)
    states = replace(states, shift=states.shift - common.to(states.shift)).translated(move.to(states.points)[None])
    return replace(clip, cameras=replace(cameras, centre=centre)), states


def _changes(
    before: Cameras, after: Cameras, world: Float[Tensor, "batch vertex 3"], shift: Float[Tensor, "batch axis"]
) -> list[Change]:
    """Every camera's, over the midlines of all chosen frames."""
    travel = (project(after, world) - project(before, world)).norm(dim=-1)
    seen = project(after, world, shift).transpose(1, 2).flatten(0, 1)
    errors = [_reprojection(cameras, seen) for cameras in (before, after)]
    mean, largest = travel.mean((0, 2)), travel.amax((0, 2))
    columns = (mean, largest, *errors)
    return [Change(*(float(column[camera]) for column in columns)) for camera in range(after.count)]


def _reprojection(cameras: Cameras, seen: Float[Tensor, "point camera 2"]) -> Float[Tensor, " camera"]:
    """Root mean square distance, px, of image points from the projections of the world points nearest to them."""
    points = triangulate(cameras, seen)
    return (project(cameras, points[:, None])[:, :, 0] - seen).square().sum(-1).mean(0).sqrt()
