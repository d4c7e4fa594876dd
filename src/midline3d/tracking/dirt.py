"""Dirt: light that stays where it is while the body moves on.

A speck or a bubble that drifts is in no background picture, and beside an end of the worm it looks like more of the
worm. What tells them apart is time: dirt was there before the worm came, and is there once it has gone. So the dirt of
a frame is, pixel by pixel, what the body leaves over in the frames around it, in the middle of all those in which
nothing of the body lies there, nor straight on from its ends, where it may be longer than is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import max_pool2d

from midline3d.settings import DirtSettings
from midline3d.shapes import Bool, Float, Int, Tensor
from midline3d.state import FrameState

STEPS = 16
"""Points straight on from an end: closer together than the body is wide."""


@dataclass(frozen=True)
class Dirt:
    """The light of dirt in the crops of some frames, pixels that have any."""

    frames: Int[Tensor, " known"]
    """In order."""
    places: Int[Tensor, "known camera 2"]
    """px: the crops' first pixels in pictures that have not shaken."""
    first: Int[Tensor, " known_and_one"]
    """Where each frame's pixels begin."""
    pixel: Int[Tensor, " pixel"]
    """Number of the pixel in the frame's crops, all views one after the other."""
    light: Tensor
    """(pixel,) in the crops' units, 8 bits."""
    window: int
    """px: size of the crops."""
    reach: int
    """Frames that a known one speaks for beside itself."""

    @staticmethod
    def of(frames: list[int], places: NDArray[np.int64], light: Float[Tensor, "known camera w w"], reach: int) -> Dirt:
        whole = light.round().clamp(0, 255).to(torch.uint8).flatten(1)
        row, pixel = whole.nonzero(as_tuple=True)
        counts = torch.bincount(row, minlength=len(frames))
        first = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        where = torch.from_numpy(places)
        return Dirt(torch.tensor(frames), where, first, pixel.int(), whole[row, pixel], light.shape[-1], reach)

    @staticmethod
    def joined(parts: list[Dirt]) -> Dirt:
        """The dirt of several stretches of a recording, in order."""
        counts = torch.cat([part.first.diff() for part in parts])
        return Dirt(
            frames=torch.cat([part.frames for part in parts]),
            places=torch.cat([part.places for part in parts]),
            first=torch.cat([counts.new_zeros(1), counts.cumsum(0)]),
            pixel=torch.cat([part.pixel for part in parts]),
            light=torch.cat([part.light for part in parts]),
            window=parts[0].window,
            reach=parts[0].reach,
        )

    def plain(self) -> dict[str, Any]:
        """As a result keeps it."""
        return {name: value.numpy() if isinstance(value, Tensor) else value for name, value in vars(self).items()}

    @staticmethod
    def of_plain(content: dict[str, Any]) -> Dirt:
        """What `plain` gave."""
        made: dict[str, Any] = {
            name: torch.from_numpy(value) if isinstance(value, np.ndarray) else int(value)
            for name, value in content.items()
        }
        return Dirt(**made)

    def known(self, frame: int) -> int | None:
        """The row of the nearest known frame, if it speaks for this one."""
        away = (self.frames - frame).abs()
        row = int(away.argmin()) if len(away) else 0
        return row if len(away) and int(away[row]) <= self.reach else None

    def around(self, frame: int, places: NDArray[np.int64]) -> Float[Tensor, "camera w w"] | None:
        """The dirt in a frame's crops, which begin at these places; None where there is none."""
        row = self.known(frame)
        if row is None or int(self.first[row]) == int(self.first[row + 1]):
            return None
        part = slice(int(self.first[row]), int(self.first[row + 1]))
        cameras = self.places.shape[1]
        light = torch.zeros(cameras * self.window**2)
        light[self.pixel[part].long()] = self.light[part].float()
        light = light.view(cameras, self.window, self.window)
        moves = torch.from_numpy(places) - self.places[row]
        return torch.stack([moved(one, by.tolist()) for one, by in zip(light, moves, strict=True)])


def moved(window: Float[Tensor, "w w"], by: list[int]) -> Float[Tensor, "w w"]:
    """The window that begins `by` (u, v) px further on; 0 where nothing is known."""
    (u, v), size, out = by, len(window), torch.zeros_like(window)
    if abs(u) < size and abs(v) < size:
        out[max(0, -v) : size - max(0, v), max(0, -u) : size - max(0, u)] = window[
            max(0, v) : size + min(0, v), max(0, u) : size + min(0, u)
        ]
    return out


def find_dirt(
    frames: list[int],
    wanted: list[int],
    places: NDArray[np.int64],
    left: Float[Tensor, "frame camera w w"],
    near: Bool[Tensor, "frame camera w w"],
    noise: Float[Tensor, " camera"],
    settings: DirtSettings,
    reach: int,
) -> Dirt:
    """The dirt near the body in the wanted rows of some frames, by the frames around each.

    left: light that the body leaves over, NaN where it lies itself; noise: its standard deviation; reach: of the dirt
    that is found.
    """
    times, light = np.array(frames), torch.zeros(len(wanted), *left.shape[1:])
    for place, row in enumerate(wanted):
        around = np.flatnonzero(np.abs(times - times[row]) <= settings.reach)
        some = around[np.linspace(0, len(around) - 1, min(settings.frames, len(around))).round().astype(int)]
        for camera in range(left.shape[1]):
            v, u = near[row, camera].nonzero(as_tuple=True)
            moves = torch.from_numpy(places[row, camera] - places[some, camera])
            values = _at(left[torch.from_numpy(some), camera], u + moves[:, :1], v + moves[:, 1:])
            free, lit = values.isfinite().sum(0), (values > noise[camera]).sum(0)
            # The middle one is lit where half of them are: few pixels have to be asked further.
            asked = ((free >= settings.free) & (2 * lit >= free)).nonzero().squeeze(1)
            stays = values[:, asked].nanmedian(0).values - noise[camera]
            light[place, camera, v[asked], u[asked]] = stays.clamp(min=0)
    return Dirt.of([frames[row] for row in wanted], places[wanted], light, reach)


def _at(images: Float[Tensor, "frame w w"], u: Int[Tensor, "frame n"], v: Int[Tensor, "frame n"]) -> Tensor:
    """Images at pixels of their own, NaN outside."""
    size = images.shape[-1]
    inside = (u >= 0) & (u < size) & (v >= 0) & (v < size)
    flat = (v * size + u).clamp(0, size * size - 1)
    return torch.where(inside, images.flatten(1).gather(1, flat), torch.nan)


def straight_on(state: FrameState, share: float) -> Float[Tensor, "batch point 3"]:
    """Points straight on from both ends, by a share of the length."""
    steps = torch.linspace(0, share, STEPS + 1, device=state.points.device)[1:, None]
    way = steps * state.length[:, None, None]
    head = state.points[:, :1] - way * state.bishop[:, :1, :, 0]
    tail = state.points[:, -1:] + way * state.bishop[:, -1:, :, 0]
    return torch.cat([head, tail], 1)


def marked(seen: Float[Tensor, "batch camera point 2"], size: int, radius: int) -> Bool[Tensor, "batch camera w w"]:
    """Pixels within a square around any of the points."""
    there = torch.zeros(*seen.shape[:2], size, size, dtype=torch.bool, device=seen.device)
    across = torch.arange(-radius, radius + 1, device=seen.device)
    square = torch.cartesian_prod(across, across)
    far = torch.nan_to_num(seen, nan=-2.0 * size).clamp(-2 * size, 3 * size).round().long()
    u, v = (far[..., None, :] + square).unbind(-1)
    inside = (u >= 0) & (u < size) & (v >= 0) & (v < size)
    batch, camera, _, _ = inside.nonzero(as_tuple=True)
    there[batch, camera, v[inside], u[inside]] = True
    return there


def grown(mask: Bool[Tensor, "batch camera w w"], radius: int) -> Bool[Tensor, "batch camera w w"]:
    """All pixels within a square around any of the mask's, in two passes of one dimension."""
    wide = max_pool2d(mask.float(), (2 * radius + 1, 1), 1, (radius, 0))
    return max_pool2d(wide, (1, 2 * radius + 1), 1, (0, radius)) > 0
