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

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray

from midline3d.settings import DirtSettings
from midline3d.shapes import Bool, Float, Int, Tensor
from midline3d.state import FrameState
from midline3d.tracking.threads import on_all_cores

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

    def near(self, frames: list[int]) -> Dirt:
        """As much of it as frames have to do with: the rows that speak for one of them."""
        rows = sorted({row for row in map(self.row_for, frames) if row is not None})
        pixels = [torch.arange(int(self.first[row]), int(self.first[row + 1])) for row in rows]
        chosen = torch.cat([torch.zeros(0, dtype=torch.long), *pixels])
        counts = self.first.diff()[rows]
        return replace(
            self,
            frames=self.frames[rows],
            places=self.places[rows],
            first=torch.cat([counts.new_zeros(1), counts.cumsum(0)]),
            pixel=self.pixel[chosen],
            light=self.light[chosen],
        )

    def row_for(self, frame: int) -> int | None:
        """The row of the nearest known frame; None where none is within reach of this one."""
        after = int(torch.searchsorted(self.frames, frame))
        rows = [row for row in (after - 1, after) if 0 <= row < len(self.frames)]
        away = {row: abs(int(self.frames[row]) - frame) for row in rows}
        row = min(rows, key=lambda each: away[each], default=None)
        return row if row is not None and away[row] <= self.reach else None

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

    @staticmethod
    def joined(parts: list[LeftOver], first: int, last: int) -> LeftOver:
        """The frames from `first` to `last` of several parts, all in order."""
        frames = [frame for part in parts for frame in part.frames]
        rows = slice(bisect_left(frames, first), bisect_right(frames, last))
        names = ("light", "beyond", "ways", "near")
        whole = {name: torch.cat([getattr(part, name) for part in parts])[rows] for name in names}
        places = np.concatenate([part.places for part in parts])[rows]
        return LeftOver(frames=frames[rows], places=places, noise=parts[0].noise, **whole)


def find_dirt(left: LeftOver, wanted: list[int], settings: DirtSettings, reach: int) -> Dirt:
    """The dirt near the body in the wanted rows of some frames, by the frames around each.

    reach: frames that each of them speaks for beside itself.
    """
    views = list(on_all_cores(lambda camera: _dirt_in_view(left, wanted, camera, settings), range(len(left.noise))))
    return Dirt.of([left.frames[row] for row in wanted], left.places[wanted], torch.stack(views, 1), reach)


def _dirt_in_view(
    left: LeftOver, wanted: list[int], camera: int, settings: DirtSettings
) -> Float[Tensor, "wanted w w"]:
    """The light of dirt in one view; what of an end's stays is told for half a reach of frames at once."""
    times, light, stretch = np.array(left.frames), list[Tensor](), max(1, settings.reach // 2)
    images, places, noise = left.light[:, camera].numpy(), left.places[:, camera], np.float32(left.noise[camera])
    finite = np.isfinite(images)
    for part, rows in groupby(wanted, lambda row: left.frames[row] // stretch):
        telling = _around(times, (part + 0.5) * stretch, settings)
        moving = [end for end in (0, 1) if not _stays(left, telling, camera, end, settings)]
        free = finite.copy()
        for end in moving:
            free &= ~left.beyond[:, camera, end].numpy()
        there = _Free(images, places, free, noise)
        for row in rows:
            near, some = left.near[row, camera].numpy(), _around(times, times[row], settings)
            light.append(_middle(there, near, row, some, settings))
    return torch.stack(light)


@dataclass(frozen=True)
class _Free:
    """What one view leaves over in some frames, and where that is none of the body's."""

    light: NDArray[np.float32]
    """(frame, w, w) in the crops' units."""
    places: NDArray[np.int64]
    """(frame, 2) px, as `Dirt.places`."""
    free: NDArray[np.bool_]
    """(frame, w, w): where light is none of the body's."""
    noise: np.float32
    """Standard deviation of the light, in the crops' units."""

    @cached_property
    def lit(self) -> NDArray[np.bool_]:
        """(frame, w, w): where free light stands out of the noise."""
        return self.free & (self.light > self.noise)

    def counts(self, row: int, some: NDArray[np.int64], masks: NDArray[np.bool_]) -> NDArray[np.unsignedinteger]:
        """(w, w): how many of some frames have each pixel of a row's crop in their mask."""
        # Whole pictures of bytes, one laid over the other: pixel by pixel it would take ten times as long.
        size, total = masks.shape[-1], np.zeros(masks.shape[1:], np.min_scalar_type(len(some)))
        for frame in some.tolist():
            u, v = (self.places[row] - self.places[frame]).tolist()
            if abs(u) < size and abs(v) < size:
                there = masks[frame, max(0, v) : size + min(0, v), max(0, u) : size + min(0, u)]
                total[max(0, -v) : size - max(0, v), max(0, -u) : size - max(0, u)] += there.view(np.uint8)
        return total

    @cached_property
    def known(self) -> _Bordered:
        """The free light, NaN where there is none."""
        return _Bordered.of(np.where(self.free, self.light, np.float32(np.nan)))

    def values(
        self, row: int, some: NDArray[np.int64], u: NDArray[np.int64], v: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """The free light (some, pixel) of some frames at pixels of a row's crop; NaN where there is none."""
        moves = self.places[row] - self.places[some]
        return self.known.at(some, u + moves[:, :1], v + moves[:, 1:])


def _middle(
    there: _Free, near: NDArray[np.bool_], row: int, some: NDArray[np.int64], settings: DirtSettings
) -> Float[Tensor, "w w"]:
    """The middle one of some frames' free light at each pixel near the body of a row, above the noise; else 0."""
    count, lit = (there.counts(row, some, masks) for masks in (there.free, there.lit))
    # The middle one is lit where half of them are: few pixels have to be asked further.
    v, u = (near & (count >= settings.free) & (lit >= count - lit)).nonzero()
    light = torch.zeros(near.shape)
    if len(u):
        middle = _middle_of(there.values(row, some, u, v)) - there.noise
        light[v, u] = torch.from_numpy(middle.clip(min=0))
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
    images, beyond = left.light[rows, camera].numpy(), left.beyond[rows, camera, end].numpy()
    noise = np.float32(left.noise[camera])
    if len(rows) <= settings.free or not ((images > BRIGHT * noise) & beyond).any():
        return False
    places, known, asked = left.places[rows, camera], _Bordered.of(images), beyond & np.isfinite(images)
    start, stop = left.ways[rows, camera, end].numpy().swapaxes(0, 1)
    way = (stop - start) / np.maximum(np.linalg.norm(stop - start, axis=-1, keepdims=True), np.float32(1e-12))
    side = np.stack([-way[:, 1], way[:, 0]], -1)
    gained, every = 0.0, np.arange(len(rows))
    for row in range(len(rows)):
        v, u = np.divmod(np.flatnonzero(asked[row]), images.shape[-1])
        from_end = np.stack([u, v], -1).astype(np.float32) - start[row]
        on, aside = from_end @ way[row], from_end @ side[row]
        moved = start[:, :, None] + way[:, :, None] * on + side[:, :, None] * aside
        moved_u, moved_v = np.rint(np.nan_to_num(moved, nan=-1.0)).astype(np.int64).swapaxes(0, 1)
        shift = places[row] - places
        there, along = known.at(every, u + shift[:, :1], v + shift[:, 1:]), known.at(every, moved_u, moved_v)
        there[row], along[row] = np.nan, np.nan
        both = (np.isfinite(there).sum(0) >= settings.free - 1) & (np.isfinite(along).sum(0) >= settings.free - 1)
        value = images[row, v[both], u[both]]
        wrong = [np.square(value - _middle_of(other[:, both])).sum() for other in (there, along)]
        gained += float(wrong[1] - wrong[0]) / float(noise) ** 2 / 2
    return gained > settings.moving * len(rows)


def _middle_of(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The middle one of each column, NaN left out: `nanmedian`, in a fraction of its time."""
    ordered = np.sort(values.T, axis=1)
    middle = ((~np.isnan(ordered)).sum(1) - 1).clip(min=0) // 2
    return np.take_along_axis(ordered, middle[:, None], axis=1)[:, 0]


@dataclass(frozen=True)
class _Bordered:
    """Images in a frame of nothing, so that pixels can be asked for that lie outside."""

    values: NDArray[np.float32]
    """All rows of all images behind each other."""
    size: int
    """px: of an image, without the frame."""

    @staticmethod
    def of(images: NDArray[np.float32]) -> _Bordered:
        """Of images (frame, w, w)."""
        return _Bordered(np.pad(images, ((0, 0), (1, 1), (1, 1)), constant_values=np.nan).ravel(), images.shape[-1])

    def at(self, frames: NDArray[np.int64], u: NDArray[np.int64], v: NDArray[np.int64]) -> NDArray[np.float32]:
        """Pixels (frame, n) of some of the images, each image's own; NaN outside it."""
        wide = self.size + 2
        rows, columns = np.clip(v, -1, self.size), np.clip(u, -1, self.size)
        return self.values[rows * wide + columns + (frames * wide**2 + wide + 1)[:, None]]


def straight_on(state: FrameState, share: float) -> Float[Tensor, "batch point 3"]:
    """Points straight on from the head, then from the tail, mm: `STEPS` of each, up to a share of the length."""
    steps = torch.linspace(0, share, STEPS + 1, device=state.points.device)[1:, None]
    way = steps * state.length[:, None, None]
    head = state.points[:, :1] - way * state.bishop[:, :1, :, 0]
    tail = state.points[:, -1:] + way * state.bishop[:, -1:, :, 0]
    return torch.cat([head, tail], 1)
