"""The yardstick of an ablation: the paper's L_px of its own curve, shifts and appearance, without masks and scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from midline3d.appearance import PaperTaper, ViewAppearance, optics
from midline3d.rendering import render
from midline3d.report import read_frame
from midline3d.store import open_result
from midline3d.tracking.clip import Clip, kept_clip

Array = NDArray[np.float64]


def pixel_losses(folder: Path) -> Array:
    """(frame,) mean squared difference of render and image, the body's middle being 1; NaN where the worm is lost."""
    result = open_result(folder)
    clip = kept_clip(folder, result)
    there = np.isfinite(result.position.values).all((1, 2, 3))
    losses = np.full(len(there), np.nan)
    for place in np.flatnonzero(there):
        frame = int(result.frame.values[place])
        if clip.settings.tracking.fitter == "adam":
            losses[place] = _as_the_paper_draws(clip, frame - clip.prepared.start, result.isel(time=int(place)))
        else:
            losses[place] = float(np.square(read_frame(folder, frame).residual).mean())
    return losses


def _as_the_paper_draws(clip: Clip, frame: int, row: xr.Dataset) -> float:
    """With its taper over a fifth of the body at either end."""
    adam = clip.settings.adam
    views = clip.plain_views([frame])
    values = {name: torch.from_numpy(row[name].values)[None].float() for name in ("sigma", "iota", "rho")}
    seen = torch.from_numpy(row["projection"].values)
    centres = (seen - torch.from_numpy(clip.prepared[frame].origin)[:, None])[None].float()
    world = torch.from_numpy(row["position"].isel(individual=0).transpose("keypoint", "space").values)[None]
    points = (world - clip.centres([frame])[:, None]).float()
    tangents = torch.nn.functional.normalize(torch.gradient(points, dim=1)[0], dim=-1)
    taper = PaperTaper(points.shape[1], adam.sigma_min, adam.iota_min)
    appearance = taper.apply(
        ViewAppearance(values["sigma"], values["iota"], torch.zeros_like(values["sigma"])),
        optics(views.cameras, points, tangents),
    )
    image = render(appearance.blobs(centres, values["rho"]), views.images, clip.settings.pixels.cutoff).image
    return float((image - views.images).square().mean())
