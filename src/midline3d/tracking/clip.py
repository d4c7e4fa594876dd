"""A recording's prepared crops as the fitters want them: tensors of even brightness, cameras local to each frame."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from midline3d import curve
from midline3d.appearance import KNOTS, WIDEST
from midline3d.calibration import load_calibration
from midline3d.cameras import Cameras, packed_cameras, unpacked_cameras
from midline3d.errors import InputError
from midline3d.fitting.body import TIPS, Body
from midline3d.fitting.views import Views
from midline3d.recording import Prepared
from midline3d.recording.crops import LOCATIONS
from midline3d.settings import CurveSettings, PixelSettings, Settings, stored_settings
from midline3d.shapes import Float, Tensor
from midline3d.state import Bounds, FrameState
from midline3d.store import Result
from midline3d.tracking.dirt import Dirt
from midline3d.tracking.kept_records import whole
from midline3d.tracking.veil import Veil

BRIGHTNESS_FRAMES = 20
"""Frames, spread over the recording, that tell the body's brightness: more would say the same."""
CLEAR, LIT = 6.0, 0.1
"""Standard deviations of the noise, and share of the brightest pixel, above which a pixel is the worm's."""
UPPER = 70
"""Percentile of the worm's pixels that is the body's middle: its flanks and tips are fainter, crossings brighter."""
WITHOUT_TIPS, POINTED = 9, 1e-3
"""Numbers of a body besides its tissue, as they were kept before a tail could end in a stub (see `Shape`), and the
width at which both ends are then taken to end."""
CROSSING = 2.0
"""Of the body's brightness: as much as one crossing adds up to; brighter is dirt, and cut in plain images."""


@dataclass(frozen=True)
class Clip:
    """Frames 0 to len - 1 of the prepared part of a recording."""

    prepared: Prepared
    settings: Settings
    brightness: Float[Tensor, " camera"]
    """Signal of the body's middle in each view, in the crops' units."""
    error: Float[Tensor, " camera"]
    """a: standard deviation of faint light in each view, in the crops' units: its noise, and what the model misses."""
    cameras: Cameras
    """The whole rig, float64: the calibration's, or refined."""
    device: torch.device
    veil: Veil | None = None
    """How each view scatters light, once that has been learned."""
    dirt: Dirt | None = None
    """Light that stays where it is while the body moves on, as far as it is known."""

    @staticmethod
    def of(prepared: Prepared, settings: Settings, device: torch.device) -> Clip:
        brightness = _brightness(prepared)
        error = least_error(torch.from_numpy(prepared.noise).float(), brightness, settings.pixels)
        return Clip(prepared, settings, brightness.to(device), error.to(device), prepared.cameras, device)

    def on(self, device: torch.device) -> Clip:
        """The same clip, its images to be taken to another device."""
        return replace(self, brightness=self.brightness.to(device), error=self.error.to(device), device=device)

    def __len__(self) -> int:
        return len(self.prepared)

    @property
    def contrast(self) -> Float[Tensor, " camera"]:
        """Brightness of the body's middle in the images that are fitted: b / a (see `PixelSettings.model_error`)."""
        return self.settings.pixels.model_error * self.brightness / self.error

    @property
    def noise(self) -> Float[Tensor, " camera"]:
        """Standard deviation of faint light, of the body's brightness."""
        return self.error / self.brightness

    @property
    def found(self) -> list[int]:
        """Frames in which the worm was located."""
        return [int(frame) for frame in np.flatnonzero(self.prepared.log.located)]

    def located(self, frame: int) -> bool:
        """Whether the worm was located in a frame."""
        return self.prepared.log.is_located(frame)

    def centres(self, frames: list[int]) -> Float[Tensor, "batch 3"]:
        """World coordinates of the frames' local origins, mm, float64."""
        return torch.from_numpy(np.nan_to_num(self.prepared.log.centre[frames]))

    def origins(self, frames: list[int]) -> Float[Tensor, "batch camera 2"]:
        """First pixels of the crops in the full frames, px, float64."""
        return torch.from_numpy(self.prepared.log.origin[frames])

    def pixels(self, frames: list[int]) -> Tensor:
        """The crops, less what the views scatter and the dirt, (batch, camera, w, w), 8 bits."""
        images = torch.from_numpy(np.stack([self.prepared[frame].images for frame in frames]))
        if self.veil is None and self.dirt is None:
            return images
        offset = torch.from_numpy(self.prepared.offset).float()[:, None, None]
        signal = self.without_veil(images - offset)
        return (self.without_dirt(signal, frames) + offset).round().clamp(0, 255).to(torch.uint8)

    def without_veil(self, signal: Float[Tensor, "batch camera w w"]) -> Float[Tensor, "batch camera w w"]:
        """Light less what is known of the views' veil."""
        return signal if self.veil is None else self.veil.removed(signal)

    def without_dirt(
        self, signal: Float[Tensor, "batch camera w w"], frames: list[int]
    ) -> Float[Tensor, "batch camera w w"]:
        """Frames' light less what is known of their dirt."""
        if self.dirt is None:
            return signal
        signal = signal.clone()
        for row, (frame, place) in enumerate(zip(frames, self.places(frames), strict=True)):
            light = self.dirt.in_crops(frame, place)
            if light is not None:
                signal[row] -= light.to(signal)
        return signal

    def places(self, frames: list[int]) -> NDArray[np.int64]:
        """(frame, camera, 2) px: the crops' first pixels in pictures that have not shaken."""
        log = self.prepared.log
        return np.rint(log.origin[frames] - np.nan_to_num(log.registration[frames])).astype(np.int64)

    def signal(self, frames: list[int]) -> Float[Tensor, "batch camera w w"]:
        """The crops as they were prepared, the veil and all, less their offset."""
        images = torch.from_numpy(np.stack([self.prepared[frame].images for frame in frames])).to(self.device).float()
        return images - torch.from_numpy(self.prepared.offset).to(images)[:, None, None]

    def views(self, frames: list[int], contrast: Float[Tensor, " camera"] | None = None) -> Views:
        """Images in which the body's middle has the brightness `contrast` (else the clip's own), and their cameras."""
        contrast = self.contrast if contrast is None else contrast
        images = self.pixels(frames).to(self.device).float()
        offset = torch.from_numpy(self.prepared.offset).to(images)[:, None, None]
        images = balanced((images - offset) * (contrast / self.brightness)[:, None, None])
        return Views(images, self.local_cameras(frames), self.picture(frames))

    def picture(self, frames: list[int]) -> Float[Tensor, "batch camera 4"] | None:
        """What the cameras' pictures cover of the crops; None where that is all (see `Views.picture`)."""
        covered = self.covered(frames)
        first, last = covered[..., ::2], covered[..., 1::2]
        whole = bool((first <= 0).all() and (last >= self.prepared.window - 1).all())
        return None if whole else covered.to(self.device)

    def covered(self, frames: list[int]) -> Float[Tensor, "batch camera 4"]:
        """First and last column, first and last row of the crops, px, that the cameras' pictures cover."""
        first = -self.prepared.log.origin[frames]
        return torch.from_numpy(np.stack([first, first + self.prepared.sizes - 1], -1)).flatten(2).float()

    def local_cameras(self, frames: list[int]) -> Cameras:
        """The rig as each frame's crops see it, float32."""
        cameras = self.cameras.local(self.centres(frames), self.origins(frames)).to(torch.float32)
        if self.device.type == "cpu":
            return cameras
        # Copied at once, and side by side from then on, as the kernels there read them.
        rows, basis = packed_cameras(cameras).to(self.device), cameras.shift_basis.to(self.device)
        return unpacked_cameras(rows, basis)

    def plain_views(self, frames: list[int]) -> Views:
        """Images in which the body's middle has the brightness 1 and nothing is negative: the paper's."""
        views = self.views(frames, torch.ones_like(self.brightness))
        return replace(views, images=views.images.clamp(0, CROSSING))

    def bounds(self) -> Bounds:
        """What no parameter may leave, in the units of `views`."""
        return bounds_of(self.settings.curve, self.contrast)

    def plain_bounds(self) -> Bounds:
        """The same in the units of `plain_views`, in which the body's middle is 1."""
        return bounds_of(self.settings.curve, torch.ones_like(self.brightness))

    def measured(self, error: Float[Tensor, " camera"], veil: Veil | None) -> Clip:
        """The clip with another veil and another standard deviation of faint light, at least that of the noise."""
        noise = torch.from_numpy(self.prepared.noise).to(error)
        return replace(
            self, error=torch.maximum(error, least_error(noise, self.brightness, self.settings.pixels)), veil=veil
        )

    def carried(self, state: FrameState, old: int, new: int) -> FrameState:
        """A state of frame `old` in the local world of frame `new`."""
        offset = self.centres([old]) - self.centres([new])
        return state.translated(offset.to(state.points))

    def world(self, state: FrameState, frames: list[int]) -> Float[Tensor, "batch vertex 3"]:
        """Midlines in world coordinates, mm, float64."""
        return state.points.double().cpu() + self.centres(frames)[:, None]


DIRT = "dirt"
"""Name under which a result keeps the dirt that was taken off its frames."""
APPEARANCE = ("shift", "sigma", "iota", "rho", "defocus")
"""What a result holds of a frame's appearance; iota as a share of the animal's usual brightness."""


def stored_states(
    clip: Clip, frames: list[int], position: Float[Tensor, "batch vertex 3"], appearance: dict[str, Tensor]
) -> FrameState:
    """Frames by what a result holds of them, positions in the world (mm, float64): the same midlines, to rounding."""
    points = position - clip.centres(frames)[:, None]
    curvature, first, length = curve.recover(points)
    # The Bishop frames beyond the first are made by `rebuilt`.
    bishop = first[:, None].expand(-1, points.shape[1], -1, -1)
    appearance = appearance | {"iota": appearance["iota"] * clip.contrast.cpu()}
    made = {"points": points, "bishop": bishop, "curvature": curvature, "length": length, **appearance}
    single = FrameState(**{name: value.float() for name, value in made.items()})
    return single.rebuilt(torch.zeros(len(frames), dtype=torch.long)).to(clip.device)


def balanced(images: Tensor) -> Tensor:
    """Images whose log(1 + I) is odd in the signal: noise below 0 says as much as noise above it."""
    # Both halves added up: torch chooses between them three times as slowly.
    return images.clamp(min=0) + (1 / (1 - images.clamp(max=0)) - 1)


def least_error(
    noise: Float[Tensor, " camera"], brightness: Float[Tensor, " camera"], settings: PixelSettings
) -> Float[Tensor, " camera"]:
    """The noise, or where there is hardly any a share of the body's signal."""
    return torch.maximum(noise, settings.least_error * brightness)


def bounds_of(settings: CurveSettings, contrast: Float[Tensor, " camera"]) -> Bounds:
    """What no parameter may leave where the body's middle has the brightness `contrast`."""
    low, high = settings.iota[0] * float(contrast.min()), settings.iota[1] * float(contrast.max())
    return Bounds(
        length=settings.length,
        sigma=settings.sigma,
        iota=(low, high),
        rho=settings.rho,
        defocus=settings.defocus,
        circles=settings.circles,
    )


def kept_clip(folder: Path, dataset: xr.Dataset) -> Clip:
    """The clip that a result was made of, from what lies beside it, its cameras as they were refined."""
    return clip_beside(folder, dataset.attrs["settings"])


def clip_beside(folder: Path, resolved: str) -> Clip:
    """The same, by the run's resolved settings (TOML)."""
    settings = stored_settings(resolved, f"the settings of {folder}")
    for name in ("crops", "calibration.json", "body.json"):
        if not (folder / name).exists():
            raise InputError(f"{folder} has no {name}, which is needed here; reconstruct into a new folder")
    prepared = Prepared(folder / "crops", load_calibration(folder / "calibration.json"))
    clip, kept = Clip.of(prepared, settings, torch.device("cpu")), _kept(folder)
    veil = None if kept["veil"] is None else Veil.of_json(kept["veil"])
    return replace(
        clip,
        cameras=with_kept_basis(folder, clip.cameras),
        error=torch.tensor(kept["error"]),
        veil=veil,
        dirt=_kept_dirt(folder),
    )


def _kept_dirt(folder: Path) -> Dirt | None:
    """The dirt that was taken off a result's frames."""
    content = Result.kept_in(folder, DIRT)
    try:
        return None if content is None else whole(content, {Dirt.__name__: Dirt}, torch.device("cpu"))
    except (KeyError, TypeError):
        raise InputError(
            f"{folder} keeps its dirt in the way of another version of midline3d; reconstruct it again, with --redo"
        ) from None


def with_kept_basis(folder: Path, cameras: Cameras) -> Cameras:
    """The cameras with the directions that a result's relative shifts are counted in.

    Two, four and more cameras have many bases of them; made anew out of refined cameras it would be another.
    """
    basis = _kept(folder).get("shift_basis") if (folder / "body.json").exists() else None
    return cameras if basis is None else replace(cameras, shift_basis=torch.tensor(basis, dtype=torch.float64))


def kept_body(folder: Path) -> Body:
    """The animal as a result's body.json keeps it, its tissue at the knots of this version."""
    kept = _kept(folder)
    knots, numbers = kept.get("knots", KNOTS), kept["numbers"]
    tissue, others = np.interp(KNOTS, knots, numbers[: len(knots)]).tolist(), numbers[len(knots) :]
    if len(others) == WITHOUT_TIPS:
        others[TIPS.start : TIPS.start] = [math.log(POINTED / (WIDEST - POINTED))] * 2
    unsure = kept.get("unsure", 0.0)
    head, tail = unsure if isinstance(unsure, list) else (unsure, unsure)  # one number until ends had their own
    return replace(Body.of(torch.tensor([*tissue, *others])), unsure=(head, tail))


def _kept(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "body.json").read_text(encoding="utf-8"))


def _brightness(prepared: Prepared) -> Float[Tensor, " camera"]:
    """About the upper third of what stands clear of the noise, over frames spread through the recording."""
    located = np.flatnonzero(prepared.log.location == LOCATIONS.index("located"))
    if not len(located):
        located = np.arange(len(prepared))
    chosen = located[np.linspace(0, len(located) - 1, min(BRIGHTNESS_FRAMES, len(located))).round().astype(int)]
    images = np.stack([prepared[int(frame)].images for frame in chosen]).astype(np.float32)
    levels = []
    for camera, (noise, offset) in enumerate(zip(prepared.noise, prepared.offset, strict=True)):
        view = images[:, camera] - offset
        body = view[view > max(CLEAR * noise, LIT * view.max())]
        levels.append(float(np.percentile(body, UPPER)) if len(body) else 255.0)
    return torch.tensor(levels)
