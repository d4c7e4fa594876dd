"""What the renderer makes of given midlines: sigma, iota and rho of every view fitted, curve and cameras fixed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from midline3d import cameras as rig
from midline3d import midlines
from midline3d.appearance import Optics, PaperTaper, ViewAppearance
from midline3d.calibration import load_calibration
from midline3d.errors import InputError
from midline3d.evaluate.comparison import Comparison, Progress
from midline3d.evaluate.opening import by_frame, lost_in, opened
from midline3d.recording import Prepared
from midline3d.rendering import render
from midline3d.settings import stored_settings
from midline3d.shapes import Tensor
from midline3d.tracking.clip import Clip, with_kept_basis

Array = NDArray[np.float64]

KEYPOINTS = 128
"""Points with which every method's midline is drawn."""
TOGETHER = 16
"""Frames that are fitted in one batch."""
STEPS, RATE, PATIENCE = 150, 0.06, 8
"""Adam's steps at most, its rate (of logarithms), and steps without a gain after which the rate is halved."""
SETTLED = 1e-3
"""Share of the loss: a batch has converged once 2 x PATIENCE steps gain less."""
LIMITS = {"sigma": (0.7, 25.0), "iota": (0.02, 4.0), "rho": (0.5, 6.0)}
"""px, and of the body's brightness: what is fitted stays within these."""


@dataclass(frozen=True)
class Fitted:
    """A batch of frames with the appearance that suits given midlines best."""

    loss: Tensor
    """(frame,) mean squared difference of render and image."""
    parameters: dict[str, Tensor]
    """sigma, iota, rho (frame, camera)."""


@dataclass(frozen=True)
class Through:
    """How a result's own midlines come into the pictures, for midlines that have places in space alone."""

    cameras: rig.Cameras
    shifts: dict[int, Array]
    """px: how the views have moved against each other, by the frame's number."""

    def project(self, points: Array, frames: list[int]) -> Array:
        """(frame, camera, keypoint, 2) px of midlines (frame, keypoint, 3), mm."""
        none = np.zeros(self.cameras.shift_basis.shape[-1])
        shift = np.stack([self.shifts.get(frame, none) for frame in frames])
        return np.asarray(rig.project(self.cameras, torch.from_numpy(points), torch.from_numpy(shift)).numpy())


def compare(
    result: Path | str, others: dict[str, Path], name: str = "midline3d", progress: Progress | None = None
) -> Comparison:
    """Losses of a result's own midlines and of others', over the frames of the result's crops.

    others: by the name of the method, a file of midlines (see `midline3d.midlines`) or the folder of a result.
    """
    folder, tell = Path(result), progress or (lambda *_: None)
    own = by_frame(opened(folder))
    clip = _clip(folder, own)
    cameras = [str(camera) for camera in own.camera.values]
    first = clip.prepared.start
    frames = first + np.arange(len(clip.prepared))
    lines = {name: _drawn(own, frames, cameras)}
    through = Through(with_kept_basis(folder, clip.cameras), _shifts(own))
    for other, path in others.items():
        lines[other] = _others(path, frames, cameras, through)
    start = _first_parameters(own, clip)
    losses = {}
    for index, (method, seen) in enumerate(lines.items()):
        there = [int(place) for place in np.flatnonzero(np.isfinite(seen).all((1, 2, 3))) if clip.located(int(place))]
        losses[method] = np.full(len(frames), np.nan)
        for begin in range(0, len(there), TOGETHER):
            batch = there[begin : begin + TOGETHER]
            losses[method][batch] = fitted(clip, batch, seen[batch], start).loss.double().numpy()
            tell(f"drawing {method}", index * len(frames) + batch[-1] + 1, len(lines) * len(frames))
    fps = float(own.attrs.get("fps", 25.0))
    return Comparison(frames, losses, max(3, round(fps)))


def fitted(clip: Clip, frames: list[int], lines: Array, start: dict[str, Tensor]) -> Fitted:
    """The appearance that best suits midlines (frame, camera, keypoint, 2), full frames' px; Adam from `start`."""
    views = clip.plain_views(frames)
    centres = (torch.from_numpy(lines) - clip.origins(frames)[:, :, None]).float()
    settings = clip.settings.adam
    taper = PaperTaper(KEYPOINTS, settings.sigma_min, settings.iota_min)
    still = Optics(torch.ones_like(centres[..., 0]), torch.zeros_like(centres[..., 0]))
    logs = {key: value.expand(len(frames), -1).log().clone().requires_grad_() for key, value in start.items()}
    adam = torch.optim.Adam(logs.values(), lr=RATE)
    pace = torch.optim.lr_scheduler.ReduceLROnPlateau(adam, factor=0.5, patience=PATIENCE, threshold=SETTLED)
    best = torch.full((len(frames),), torch.inf)
    kept = {key: value.detach().exp() for key, value in logs.items()}
    history: list[float] = []
    for _ in range(STEPS):
        parameters = {key: value.exp().clamp(*LIMITS[key]) for key, value in logs.items()}
        drawn = taper.apply(
            ViewAppearance(parameters["sigma"], parameters["iota"], torch.zeros_like(parameters["sigma"])), still
        )
        image = render(drawn.blobs(centres, parameters["rho"]), views.images, clip.settings.pixels.cutoff).image
        loss = (image - views.images).square().mean((1, 2, 3))
        better = loss.detach() < best
        best = torch.where(better, loss.detach(), best)
        kept = {key: torch.where(better[:, None], parameters[key].detach(), kept[key]) for key in kept}
        history.append(float(best.mean()))
        if len(history) > 2 * PATIENCE and history[-2 * PATIENCE] - history[-1] < SETTLED * history[-1]:
            break
        adam.zero_grad()
        loss.sum().backward()
        adam.step()
        pace.step(float(loss.detach().mean()))
    return Fitted(best, kept)


def _clip(folder: Path, result: xr.Dataset) -> Clip:
    """The crops that a result was made of as they are: what scatters light is part of the picture for all alike."""
    for name in ("crops", "calibration.json"):
        if not (folder / name).exists():
            raise InputError(f"{folder} has no {name}, which is needed here; give the folder of a result")
    settings = stored_settings(result.attrs.get("settings", ""), f"the settings of {folder}")
    prepared = Prepared(folder / "crops", load_calibration(folder / "calibration.json"))
    return Clip.of(prepared, settings, torch.device("cpu"))


def _first_parameters(result: xr.Dataset, clip: Clip) -> dict[str, Tensor]:
    """(1, camera) the appearance to begin from, the same for all methods: the result's usual one, else a plain one."""
    plain = {"sigma": 0.02 * clip.prepared.scale, "iota": 0.8, "rho": 1.1}
    found = {}
    for key, usual in plain.items():
        values = np.full(len(result.camera), usual)
        if key in result and np.isfinite(result[key].values).any():
            median = np.nanmedian(result[key].transpose("frame", "camera").values, axis=0)
            values = np.where(np.isfinite(median), median, usual)
        found[key] = torch.from_numpy(values)[None].float().clamp(*LIMITS[key])
    return found


def _drawn(result: xr.Dataset, frames: NDArray[np.int64], cameras: list[str]) -> Array:
    """(frame, camera, keypoint, 2) px of the full frames; NaN where there is no midline."""
    lost = lost_in(result)
    seen = result.projection.sel(camera=cameras).transpose("frame", "camera", "keypoint", "image").values
    seen = np.where(lost[:, None, None, None], np.nan, seen.astype(np.float64))
    found = np.full((len(frames), *seen.shape[1:]), np.nan)
    places = {int(frame): place for place, frame in enumerate(result.frame.values)}
    for row, frame in enumerate(frames):
        if int(frame) in places:
            found[row] = seen[places[int(frame)]]
    return _resampled(found)


def _shifts(result: xr.Dataset) -> dict[int, Array]:
    """Those of the frames that have any."""
    if "shift" not in result:
        return {}
    known = result["shift"].transpose("frame", ...).values.astype(np.float64)
    listed = zip(result.frame.values.tolist(), known, strict=True)
    return {int(frame): shift for frame, shift in listed if np.isfinite(shift).all()}


def _others(path: Path, frames: NDArray[np.int64], cameras: list[str], through: Through) -> Array:
    """The same of another method: its own projections where it has some, else its midlines as the result's are seen."""
    file = path / "midline.nc" if path.is_dir() else path
    found = midlines.read(file).swap_dims(time="frame")
    if "projection" in found and set(cameras) <= set(map(str, found.camera.values)):
        return _drawn(found, frames, cameras)
    found = found.drop_dims("camera", errors="ignore")
    if file.suffix == ".nc":
        with xr.open_dataset(file, engine="h5netcdf") as whole:
            if "projection" in whole and set(cameras) <= set(map(str, whole.camera.values)):
                return _drawn(by_frame(whole.load()), frames, cameras)
    points = found.position.isel(individual=0).transpose("frame", "keypoint", "space").values
    seen = through.project(points, found.frame.values.tolist())
    return _drawn(
        found.assign(projection=(("frame", "camera", "keypoint", "image"), seen), camera=cameras), frames, cameras
    )


def _resampled(lines: Array) -> Array:
    """Polylines (frame, camera, keypoint, 2) with as many points as all are drawn with."""
    count = lines.shape[2]
    if count == KEYPOINTS:
        return lines
    goal, steps = np.linspace(0, count - 1, KEYPOINTS), np.arange(count)
    low = np.minimum(goal.astype(int), count - 2)
    share = (goal - steps[low])[:, None]
    return lines[:, :, low] * (1 - share) + lines[:, :, low + 1] * share
