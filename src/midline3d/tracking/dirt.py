"""Dirt: light that stays where it is while the body moves on.

A speck or a bubble that drifts is in no background picture, and beside an end of the worm it looks like more of the
worm. What tells them apart is time: dirt was there before the worm came, and is there once it has gone. So the dirt of
a frame is, pixel by pixel, what the body leaves over in the frames around it, in the middle of all those in which
nothing of the body lies there.

Straight on from its ends it may be longer than is known, and light there its own. That moves as the end does, and dirt
does not: so such light is dirt where the other frames' light at the same place of the picture foretells it, and not the
light at the same place before the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray

from midline3d.recording.sources import side_by_side
from midline3d.settings import DirtSettings
from midline3d.shapes import Bool, Float, Int, Tensor
from midline3d.state import FrameState

STEPS = 16
"""Points straight on from an end: closer together than the body is wide."""
BRIGHT = 5.0
"""Standard deviations of the noise: where no pixel is brighter, there is no light to tell apart."""


@dataclass(frozen=True)
class Dirt:
    """The light of dirt in the crops of some frames, pixels that have any."""

    frames: Int[Tensor, " known"]
    """Within the clip, in order."""
    places: Int[Tensor, "known camera 2"]
    """px: the crops' first pixels in pictures that have not shaken."""
    first: Int[Tensor, " known_and_one"]
    """Where each frame's pixels begin, and where the last one's end."""
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
        """The dirt of some frames whose crops begin at these places, by its light in the crops' units."""
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

    def row_for(self, frame: int) -> int | None:
        """The row of the nearest known frame; None where none is within reach of this one."""
        away = (self.frames - frame).abs()
        row = int(away.argmin()) if len(away) else 0
        return row if len(away) and int(away[row]) <= self.reach else None

    def in_crops(self, frame: int, places: NDArray[np.int64]) -> Float[Tensor, "camera w w"] | None:
        """The light of dirt in a frame's crops, in their units; None where there is none.

        places: (camera, 2) px, the crops' first pixels, as in `places`.
        """
        row = self.row_for(frame)
        if row is None or int(self.first[row]) == int(self.first[row + 1]):
            return None
        part = slice(int(self.first[row]), int(self.first[row + 1]))
        cameras = self.places.shape[1]
        light = torch.zeros(cameras * self.window**2)
        light[self.pixel[part].long()] = self.light[part].float()
        light = light.view(cameras, self.window, self.window)
        moves = torch.from_numpy(places) - self.places[row]
        return torch.stack([further_on(one, by.tolist()) for one, by in zip(light, moves, strict=True)])


def further_on(crop: Float[Tensor, "w w"], by: list[int]) -> Float[Tensor, "w w"]:
    """The crop that begins `by` (u, v) px further on; 0 where nothing is known."""
    (u, v), size, out = by, len(crop), torch.zeros_like(crop)
    if abs(u) < size and abs(v) < size:
        out[max(0, -v) : size - max(0, v), max(0, -u) : size - max(0, u)] = crop[
            max(0, v) : size + min(0, v), max(0, u) : size + min(0, u)
        ]
    return out


@dataclass(frozen=True)
class LeftOver:
    """The light that a body leaves over in the crops of some frames."""

    frames: list[int]
    """Within the clip, in order."""
    places: NDArray[np.int64]
    """(frame, camera, 2) px: as `Dirt.places`."""
    light: Float[Tensor, "frame camera w w"]
    """In the crops' units, NaN where the body lies itself."""
    beyond: Bool[Tensor, "frame camera end w w"]
    """Pixels straight on from the head and from the tail."""
    ways: Float[Tensor, "frame camera end 2 2"]
    """px: from where to where they lie, the end first."""
    near: Bool[Tensor, "frame camera w w"]
    """Pixels near the body, whose dirt is asked for."""
    noise: Float[Tensor, " camera"]
    """Standard deviation of the light, in the crops' units."""


def find_dirt(left: LeftOver, wanted: list[int], settings: DirtSettings, reach: int) -> Dirt:
    """The dirt near the body in the wanted rows of some frames, by the frames around each.

    reach: frames that each of them speaks for beside itself.
    """
    views = side_by_side(lambda camera: _dirt_in_view(left, wanted, camera, settings), range(left.light.shape[1]))
    return Dirt.of([left.frames[row] for row in wanted], left.places[wanted], torch.stack(views, 1), reach)


def _dirt_in_view(
    left: LeftOver, wanted: list[int], camera: int, settings: DirtSettings
) -> Float[Tensor, "wanted w w"]:
    """The light of dirt in one view; what of an end's stays is told for half a reach of frames at once."""
    times, light, stretch = np.array(left.frames), list[Tensor](), max(1, settings.reach // 2)
    for part, rows in groupby(wanted, lambda row: left.frames[row] // stretch):
        free = _free_light(left, _around(times, (part + 0.5) * stretch, settings), camera, settings)
        light += [_middle(left, free, row, _around(times, times[row], settings), camera, settings) for row in rows]
    return torch.stack(light)


def _free_light(
    left: LeftOver, telling: NDArray[np.int64], camera: int, settings: DirtSettings
) -> Float[Tensor, "frame w w"]:
    """What one view leaves over, NaN where it may be the body's, as the frames that tell say of the ends."""
    moving = [end for end in (0, 1) if not _stays(left, telling, camera, end, settings)]
    return left.light[:, camera].masked_fill(left.beyond[:, camera, moving].any(1), torch.nan)


def _middle(
    left: LeftOver, free: Float[Tensor, "frame w w"], row: int, some: NDArray[np.int64], camera: int,
    settings: DirtSettings,
) -> Float[Tensor, "w w"]:  # fmt: skip
    """The middle one of some frames' free light at each pixel near the body of a row, above the noise; else 0."""
    noise, light = left.noise[camera], torch.zeros_like(free[0])
    v, u = left.near[row, camera].nonzero(as_tuple=True)
    moves = torch.from_numpy(left.places[row, camera] - left.places[some, camera])
    values = _pixels(free[some], u + moves[:, :1], v + moves[:, 1:])
    count, lit = values.isfinite().sum(0), (values > noise).sum(0)
    # The middle one is lit where half of them are: few pixels have to be asked further.
    asked = ((count >= settings.free) & (2 * lit >= count)).nonzero().squeeze(1)
    light[v[asked], u[asked]] = (values[:, asked].nanmedian(0).values - noise).clamp(min=0)
    return light


def _around(times: NDArray[np.int64], time: float, settings: DirtSettings) -> NDArray[np.int64]:
    """Rows of the frames that tell the dirt of a time."""
    around = np.flatnonzero(np.abs(times - time) <= settings.reach)
    return around[np.linspace(0, len(around) - 1, min(settings.frames, len(around))).round().astype(int)]


def _stays(left: LeftOver, rows: NDArray[np.int64], camera: int, end: int, settings: DirtSettings) -> bool:
    """Whether the light straight on from an end stays where it is, while the end moves.

    Each frame's is foretold by the others' in two ways: at the same pixels of the picture, and as far on from the end
    and to its side. What the first foretells better, by `moving` in every frame, stays.
    """
    images, beyond, noise = left.light[rows, camera], left.beyond[rows, camera, end], float(left.noise[camera])
    lit = ((images > BRIGHT * noise) & beyond).flatten(1).any(1)
    if len(rows) <= settings.free or not lit.any():
        return False
    places, (start, stop) = torch.from_numpy(left.places[rows, camera]), left.ways[rows, camera, end].unbind(1)
    way = torch.nn.functional.normalize(stop - start, dim=-1)
    side = torch.stack([-way[:, 1], way[:, 0]], -1)
    gained = 0.0
    for row in range(len(rows)):
        v, u = (beyond[row] & images[row].isfinite()).nonzero(as_tuple=True)
        from_end = torch.stack([u, v], -1) - start[row]
        moved = (
            start[:, None]
            + (from_end @ way[row])[:, None] * way[:, None]
            + (from_end @ side[row])[:, None] * side[:, None]
        )
        moved_u, moved_v = torch.nan_to_num(moved, nan=-1.0).round().long().unbind(-1)
        shift = places[row] - places
        there, along = _pixels(images, u + shift[:, :1], v + shift[:, 1:]), _pixels(images, moved_u, moved_v)
        there[row], along[row] = torch.nan, torch.nan
        both = (there.isfinite().sum(0) >= settings.free - 1) & (along.isfinite().sum(0) >= settings.free - 1)
        value = images[row, v[both], u[both]]
        wrong = [(value - other[:, both].nanmedian(0).values).square().sum() for other in (there, along)]
        gained += float(wrong[1] - wrong[0]) / noise**2 / 2
    return gained > settings.moving * len(rows)


def _pixels(
    images: Float[Tensor, "frame w w"], u: Int[Tensor, "frame n"], v: Int[Tensor, "frame n"]
) -> Float[Tensor, "frame n"]:
    """Pixels of the images, each image's own; NaN outside it."""
    size = images.shape[-1]
    inside = (u >= 0) & (u < size) & (v >= 0) & (v < size)
    flat = (v * size + u).clamp(0, size * size - 1)
    return torch.where(inside, images.flatten(1).gather(1, flat), torch.nan)


def straight_on(state: FrameState, share: float) -> Float[Tensor, "batch point 3"]:
    """Points straight on from the head, then from the tail, mm: `STEPS` of each, up to a share of the length."""
    steps = torch.linspace(0, share, STEPS + 1, device=state.points.device)[1:, None]
    way = steps * state.length[:, None, None]
    head = state.points[:, :1] - way * state.bishop[:, :1, :, 0]
    tail = state.points[:, -1:] + way * state.bishop[:, -1:, :, 0]
    return torch.cat([head, tail], 1)
