"""Whether each camera has its own pictures, the right way up: in the right order all views move like one point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import torch
from numpy.typing import NDArray

from midline3d import cameras as rig

Array = NDArray[np.float64]

FEWEST = 5
"""Frames that show something in every view, below which nothing is said."""
ALIKE = 1.5
"""Times the least drift up to which another turn of a view explains it as well."""
MOST_CAMERAS = 4
"""Of which all orders are tried: of five there would be 120."""
FITTING = 4.0
"""px: views that drift apart by more do not fit in that order either; a camera out of step does that."""
TURNS = {
    "mirrored left to right": (-1.0, 1.0),
    "mirrored top to bottom": (1.0, -1.0),
    "upside down (turned by 180 degrees)": (-1.0, -1.0),
}
"""How one view's pictures can be turned, by the signs of u and v."""


@dataclass(frozen=True)
class Order:
    """The order of the pictures, or the turn of one view, in which the views fit together best, and the given one."""

    best: tuple[int, ...]
    """For every camera, the view whose pictures fit it."""
    turned: tuple[tuple[int, str], ...]
    """The view that seems turned, and how; several where any of them would do as well."""
    best_px: float
    given_px: float
    """How far the views drift apart as the worm moves, px: in the best order and in the given one."""
    frames: int

    def wrong(self, limit: float, share: float) -> bool:
        """Whether the views drift apart by more than `limit` px, and in another order by less than this share of it."""
        return self.given_px > limit and self.best_px < min(share * self.given_px, FITTING)

    def remedy(self, names: Sequence[str], sources: Sequence[str]) -> str:
        """What to change, in the words of recording.toml."""
        if self.turned:
            seems = ", or ".join(f"{names[view]} seems {how}" for view, how in self.turned)
            return (
                f"{seems}: as the worm moves the views drift {self.given_px:.1f} px apart, but {self.best_px:.1f} px "
                "with its pictures turned back; turn them back, or calibrate with them as they are"
            )
        proposed = ", ".join(f"{name} = {sources[place]}" for name, place in zip(names, self.best, strict=True))
        return (
            f"the cameras seem mixed up: as the worm moves the views drift {self.given_px:.1f} px apart, but "
            f"{self.best_px:.1f} px as {proposed}; correct the sources in recording.toml, or the calibration's names"
        )


def best_order(cameras: rig.Cameras, heaviest: Array) -> Order | None:
    """The order in which the heaviest things of all views, (frame, camera, 2) px, move most like one point.

    What the views miss each other by throughout is the calibration's error, and left out: turned pictures differ
    from the right ones by such a constant too. None where some view shows nothing in nearly every frame.
    """
    whole = heaviest[np.isfinite(heaviest).all((1, 2))]
    if len(whole) < FEWEST:
        return None
    pixels = torch.from_numpy(whole)
    given = tuple(range(cameras.count))
    orders = permutations(given) if cameras.count <= MOST_CAMERAS else [given]
    mixed = {order: _drift(cameras, pixels[:, list(order)]) for order in orders}
    turns: dict[tuple[int, str], float] = {}
    middle = pixels.flatten(0, 1).median(0).values
    for view in given:
        for turn, signs in TURNS.items():
            turned = pixels.clone()
            turned[:, view] = middle + (pixels[:, view] - middle) * torch.tensor(signs, dtype=pixels.dtype)
            turns[view, turn] = _drift(cameras, turned)
    best, least = min(mixed, key=lambda order: mixed[order]), min(turns.values())
    if mixed[best] <= least:
        return Order(best, (), mixed[best], mixed[given], len(whole))
    alike = tuple(turn for turn, missed in turns.items() if missed <= ALIKE * least)
    return Order(given, alike, least, mixed[given], len(whole))


def _drift(cameras: rig.Cameras, pixels: torch.Tensor) -> float:
    """px: how far views drift apart, the median frame's."""
    gap = rig.project(cameras, rig.triangulate(cameras, pixels)[:, None])[:, :, 0] - pixels
    return float((gap - gap.median(0).values).square().sum(-1).mean(-1).sqrt().median())
