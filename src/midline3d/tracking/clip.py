"""A recording's prepared crops as the fitters want them: tensors of even brightness, cameras local to each frame."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from midline3d.calibration import load_calibration
from midline3d.cameras import Cameras
from midline3d.errors import InputError
from midline3d.fitting.body import Body
from midline3d.fitting.views import Views
from midline3d.recording import Prepared
from midline3d.settings import CurveSettings, Settings, validated
from midline3d.shapes import Float, Tensor
from midline3d.state import Bounds, FrameState
from midline3d.tracking.halo import without


@dataclass(frozen=True)
class Clip:
    """Frames 0 to len - 1 of the prepared part of a recording."""

    prepared: Prepared
    settings: Settings
    """With the contrast that the recording's noise allows."""
    brightness: Float[Tensor, " camera"]
    """Signal of the body's middle in each view, in the crops' units."""
    cameras: Cameras
    """The whole rig, float64: the calibration's, or refined."""
    device: torch.device
    halo: Float[Tensor, "camera k k"] | None = None
    """How each view scatters light (see `tracking.halo`), where it does."""

    @staticmethod
    def of(prepared: Prepared, settings: Settings, device: torch.device) -> Clip:
        brightness = _brightness(prepared)
        noise = float((torch.from_numpy(prepared.noise) / brightness).max())
        contrast = min(settings.pixels.contrast, max(1.0, settings.pixels.noise / max(noise, 1e-6)))
        settings = replace(settings, pixels=replace(settings.pixels, contrast=contrast))
        return Clip(prepared, settings, brightness.to(device), prepared.cameras, device)

    def __len__(self) -> int:
        return len(self.prepared)

    @property
    def found(self) -> list[int]:
        """Frames in which the worm was located."""
        return [frame for frame, status in enumerate(self.prepared.log.status) if status <= 1]

    def centres(self, frames: list[int]) -> Float[Tensor, "batch 3"]:
        """World coordinates of the frames' local origins, mm, float64."""
        return torch.from_numpy(np.nan_to_num(self.prepared.log.centre[frames]))

    def origins(self, frames: list[int]) -> Float[Tensor, "batch camera 2"]:
        """First pixels of the crops in the full frames, px, float64."""
        return torch.from_numpy(self.prepared.log.origin[frames])

    def pixels(self, frames: list[int]) -> Tensor:
        """The crops, less what the views scatter, (batch, camera, w, w), 8 bits."""
        images = torch.from_numpy(np.stack([self.prepared[frame].images for frame in frames]))
        if self.halo is None:
            return images
        offset = torch.from_numpy(self.prepared.offset).float()[:, None, None]
        return (without(images - offset, self.halo.cpu()) + offset).round().clamp(0, 255).to(torch.uint8)

    def views(self, frames: list[int], contrast: float) -> Views:
        """Images in which the body's middle has the brightness `contrast`, and their cameras."""
        images = self.pixels(frames).to(self.device).float()
        offset = torch.from_numpy(self.prepared.offset).to(images)[:, None, None]
        images = ((images - offset) / self.brightness[:, None, None]).clamp(0, 2) * contrast
        cameras = self.cameras.local(self.centres(frames), self.origins(frames))
        return Views(images, cameras.to(torch.float32).to(self.device))

    def bounds(self, contrast: float) -> Bounds:
        return bounds_of(self.settings.curve, contrast)

    def carried(self, state: FrameState, old: int, new: int) -> FrameState:
        """A state of frame `old` told in the local world of frame `new`."""
        offset = self.centres([old]) - self.centres([new])
        return state.moved(offset.to(state.points))

    def world(self, state: FrameState, frames: list[int]) -> Float[Tensor, "batch vertex 3"]:
        """Midlines in world coordinates, mm, float64."""
        return state.points.double().cpu() + self.centres(frames)[:, None]


def bounds_of(curve: CurveSettings, contrast: float) -> Bounds:
    """What no parameter may leave where the body's middle has the brightness `contrast`."""
    low, high = curve.iota
    return Bounds(
        length=curve.length,
        sigma=curve.sigma,
        iota=(low * contrast, high * contrast),
        rho=curve.rho,
        defocus=curve.defocus,
        circles=curve.circles,
    )


def kept_clip(folder: Path, dataset: xr.Dataset) -> Clip:
    """The clip that a result was made of, from what lies beside it, its cameras as they were refined."""
    settings = validated(Settings, tomllib.loads(dataset.attrs["settings"]), f"the settings of {folder}")
    for name in ("crops", "calibration.json", "body.json"):
        if not (folder / name).exists():
            raise InputError(f"{folder} has no {name}, which is needed here; reconstruct into a new folder")
    prepared = Prepared(folder / "crops", load_calibration(folder / "calibration.json"))
    halo = _kept(folder)["halo"]
    clip = Clip.of(prepared, settings, torch.device("cpu"))
    return clip if halo is None else replace(clip, halo=torch.tensor(halo))


def kept_body(folder: Path) -> Body:
    """The animal as a result's body.json keeps it."""
    return Body.of(torch.tensor(_kept(folder)["numbers"]))


def _kept(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "body.json").read_text(encoding="utf-8"))


def _brightness(prepared: Prepared) -> Float[Tensor, " camera"]:
    """The upper third of what stands clear of the noise, over frames spread through the recording."""
    located = np.flatnonzero(prepared.log.status == 0)
    if not len(located):
        located = np.arange(len(prepared))
    chosen = located[np.linspace(0, len(located) - 1, min(20, len(located))).round().astype(int)]
    images = np.stack([prepared[int(frame)].images for frame in chosen]).astype(np.float32)
    levels = []
    for camera, (noise, offset) in enumerate(zip(prepared.noise, prepared.offset, strict=True)):
        view = images[:, camera] - offset
        body = view[view > max(6 * noise, 0.1 * view.max())]
        levels.append(float(np.percentile(body, 70)) if len(body) else 255.0)
    return torch.tensor(levels)
