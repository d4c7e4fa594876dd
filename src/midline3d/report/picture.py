"""Pictures of a result: one frame's views with the midline over them, the render, what is left, and the curve in 3D."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from midline3d.appearance import ViewAppearance, optics
from midline3d.cameras import scale
from midline3d.errors import InputError
from midline3d.files import aside, check_file
from midline3d.rendering import render
from midline3d.store import ResultParts
from midline3d.tracking.clip import Clip, kept_body, kept_clip

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from mpl_toolkits.mplot3d import Axes3D

Array = NDArray[np.float64]

PAPER, INK, FAINT, WALL = "#0e1116", "#e6e9ef", "#7d8794", "#1a1f29"
HEAD, MIDDLE, TAIL = "#ffd34e", "#ff5c8a", "#4f7bff"
TOO_DARK, TOO_BRIGHT = "#3fa7ff", "#ff7b3f"


@dataclass(frozen=True)
class Picture:
    """One frame of a result, ready to be drawn."""

    frame: int
    seconds: float
    status: str
    cameras: tuple[str, ...]
    images: Array
    """(camera, height, width) the body's middle being 1."""
    render: Array
    midlines: Array
    """(camera, keypoint, 2) px of the crops."""
    position: Array
    """(keypoint, 3) mm."""
    length: float
    """mm."""

    @property
    def residual(self) -> Array:
        return self.render - self.images


def frame_figure(result: Path | str, frame: int, path: Path | str) -> Path:
    """Draws one frame of the result in a folder and writes the picture (PNG, PDF or SVG, as the path ends)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    path = Path(path)
    check_file(path)
    figure = draw(read_frame(Path(result), frame))
    FigureCanvasAgg(figure)
    with aside(path) as part:
        figure.savefig(part, facecolor=PAPER)
    return path


def telling_frame(result: Path | str) -> int | None:
    """The frame that shows the animal best: where the view in which it is shortest shows most of it. None: all lost."""
    parts = ResultParts(result)
    spread = np.concatenate([_spread(part) for part in parts.each(("projection",))])
    return int(parts.numbers[np.nanargmax(spread)]) if np.isfinite(spread).any() else None


def _spread(part: xr.Dataset) -> Array:
    """(frame,) px: how far the midline reaches in the view in which that is least."""
    seen = part.projection.transpose("time", "camera", "keypoint", "image").values
    return np.asarray(np.ptp(seen, axis=2).max(-1).min(-1))


def read_frame(folder: Path, frame: int) -> Picture:
    """A frame of the result with its crops, rendered anew."""
    parts = ResultParts(folder)
    row = parts.of(frame)
    if row is None:
        raise InputError(f"{folder} has no frame {frame}; it has {parts.numbers[0]} to {parts.numbers[-1]}")
    if not np.isfinite(row.position.values).all():
        raise InputError(f"frame {frame} of {folder} is {row.status.item()}, so there is no midline to draw")
    clip = kept_clip(folder, row)
    return picture_of(clip, row, _rendered(folder, clip, frame - clip.prepared.start, row))


def picture_of(clip: Clip, row: xr.Dataset, rendered: Array | None = None) -> Picture:
    """A frame of a result with its crops; rendered: what the fit draws there, nothing without."""
    frame = int(row.frame)
    here = frame - clip.prepared.start
    images = clip.plain_views([here]).images[0].numpy().astype(np.float64)
    midlines = row.projection.values - clip.prepared[here].origin[:, None]
    return Picture(
        frame=frame,
        seconds=float(row.time),
        status=str(row.status.item()),
        cameras=tuple(map(str, np.atleast_1d(row.camera.values))),
        images=images,
        render=np.zeros_like(images) if rendered is None else rendered,
        midlines=np.asarray(midlines, dtype=np.float64),
        position=row.position.isel(individual=0).transpose("keypoint", "space").values,
        length=float(row.length),
    )


def _rendered(folder: Path, clip: Clip, frame: int, row: xr.Dataset) -> Array:
    """R of one frame, (camera, height, width), from what the result keeps of it."""
    settings = clip.settings
    views = clip.plain_views([frame])
    scales = scale(views.cameras, torch.zeros(1, 1, 3))[0]
    taper = kept_body(folder).profile(settings.curve.vertices, scales, settings.pixels.floor)
    world = torch.from_numpy(row.position.isel(individual=0).transpose("keypoint", "space").values)[None]
    points = (world - clip.centres([frame])[:, None]).float()
    tangents = torch.nn.functional.normalize(torch.gradient(points, dim=1)[0], dim=-1)
    sigma, iota, rho = (torch.from_numpy(row[name].values)[None].float() for name in ("sigma", "iota", "rho"))
    defocus = torch.from_numpy(row["defocus"].values)[None].float() if "defocus" in row else torch.zeros_like(sigma)
    appearance = taper.apply(ViewAppearance(sigma, iota, defocus), optics(views.cameras, points, tangents))
    centres = torch.from_numpy(row.projection.values - clip.prepared[frame].origin[:, None])[None].float()
    image = render(appearance.blobs(centres, rho), views.images, settings.pixels.cutoff).image
    return image[0].numpy().astype(np.float64)


def draw(picture: Picture) -> Figure:
    """The figure: a column of pictures for each view, the curve in 3D beside them."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    views = len(picture.cameras)
    with rc_context(_STYLE):
        figure = Figure(figsize=(2.07 * views + 5.9, 6.9), dpi=130, facecolor=PAPER)
        grid = figure.add_gridspec(
            3, views + 1, width_ratios=[1] * views + [2.95], wspace=0.04, hspace=0.06, left=0.035, right=0.985,
            top=0.895, bottom=0.05,
        )  # fmt: skip
        rows = ("view and midline", "render", "residual")
        for view in range(views):
            axes = [figure.add_subplot(grid[row, view]) for row in range(3)]
            _draw_view(picture, view, axes)
            if view == 0:
                for label, ax in zip(rows, axes, strict=True):
                    ax.set_ylabel(label, fontsize=11, labelpad=6)
        _draw_curve(picture, figure.add_subplot(grid[:, views], projection="3d"))
        figure.text(0.035, 0.962, f"frame {picture.frame}", fontsize=15, fontweight="bold", va="center")
        caption = f"{picture.seconds:.2f} s    {picture.length:.3f} mm long    {picture.status}"
        figure.text(0.985, 0.962, caption, fontsize=11, color=FAINT, va="center", ha="right")
        figure.text(0.035, 0.022, "residual:", fontsize=9, color=FAINT, va="center")
        figure.text(0.09, 0.022, "render too faint", fontsize=9, color=TOO_DARK, va="center")
        figure.text(0.19, 0.022, "render too strong", fontsize=9, color=TOO_BRIGHT, va="center")
    return figure


def _draw_view(picture: Picture, view: int, axes: list[Axes]) -> None:
    top = float(max(1.0, np.percentile(picture.images[view], 99.9)))
    seen, drawn, left = axes
    seen.imshow(picture.images[view], cmap="gray", vmin=0, vmax=top, interpolation="nearest")
    drawn.imshow(picture.render[view], cmap="gray", vmin=0, vmax=top, interpolation="nearest")
    left.imshow(picture.residual[view], cmap=_diverging(), vmin=-0.6, vmax=0.6, interpolation="nearest")
    seen.set_title(picture.cameras[view], fontsize=11, pad=5)
    line = picture.midlines[view]
    seen.add_collection(_coloured(line, 1.7))
    seen.plot(*line[0], "o", color=HEAD, markersize=6, markeredgecolor=PAPER, markeredgewidth=0.8)
    (left_most, right_most), (top_most, bottom_most) = window(picture, view)
    for ax in axes:
        ax.set(xticks=[], yticks=[], xlim=(left_most, right_most), ylim=(bottom_most, top_most))
        for spine in ax.spines.values():
            spine.set_visible(False)


def window(picture: Picture, view: int) -> Array:
    """((left, right), (top, bottom)) of the part of a crop to show: around the worm, of one size in all views."""
    extent = np.ptp(picture.midlines, axis=1).max()
    half = min(0.57 * extent + 5, min(picture.images.shape[1:]) / 2)
    line = picture.midlines[view]
    middle = (line.max(0) + line.min(0)) / 2
    size = np.array(picture.images.shape[:0:-1])
    middle = np.clip(middle, half - 0.5, size - 0.5 - half)
    return np.stack([middle - half, middle + half], -1)


def _draw_curve(picture: Picture, ax: Axes3D) -> None:
    """The curve, and its shadows on the three walls of a cube around it."""
    from mpl_toolkits.mplot3d.art3d import Line3DCollection

    points = picture.position - (picture.position.max(0) + picture.position.min(0)) / 2
    half = 0.62 * float(np.ptp(points, axis=0).max())
    walls = (-half, half, -half)
    for axis, wall in enumerate(walls):
        shadow = points.copy()
        shadow[:, axis] = wall
        ax.plot(*shadow.T, color=FAINT, linewidth=1.8, alpha=0.75, solid_capstyle="round")
    segments = np.stack([points[:-1], points[1:]], 1)
    colours = _along()(np.linspace(0, 1, len(segments)))
    ax.add_collection3d(Line3DCollection(segments, colors=colours, linewidths=5.0, capstyle="round"))
    ax.scatter(*points[0], color=HEAD, s=90, depthshade=False, edgecolors=PAPER, linewidths=1.0)
    ax.text(*(points[0] + [0, 0, 0.09 * half]), "head", color=HEAD, fontsize=11, ha="center", zorder=9)
    step = _round_step(half)
    ticks = np.arange(-np.floor(half / step), np.floor(half / step) + 1) * step
    for name, axis in zip("xyz", (ax.xaxis, ax.yaxis, ax.zaxis), strict=True):
        getattr(ax, f"set_{name}lim")(-half, half)
        axis.set_ticks(ticks)
        axis.set_pane_color(WALL)
        axis.line.set_color(WALL)
        axis._axinfo["grid"].update(color="#2a3140", linewidth=0.7)
        axis.set_label_text(f"{name} (mm)", fontsize=10, color=FAINT)
        axis.set_tick_params(labelsize=8, labelcolor=FAINT, color=FAINT, pad=1)
    ax.set_box_aspect((1, 1, 1), zoom=0.97)
    ax.view_init(elev=22, azim=-56)
    ax.patch.set_alpha(0)


def _round_step(half: float) -> float:
    """A round distance of which some four fit across."""
    rough = half / 2
    size = 10 ** np.floor(np.log10(rough))
    return float(min((1, 2, 5, 10), key=lambda times: abs(times * size - rough)) * size)


def _coloured(line: Array, width: float) -> Any:
    from matplotlib.collections import LineCollection

    segments = np.stack([line[:-1], line[1:]], 1)
    colours = _along()(np.linspace(0, 1, len(segments)))
    return LineCollection(list(segments), colors=colours, linewidths=width, capstyle="round")


def _along() -> Any:
    """Colours from head to tail."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("along", [HEAD, MIDDLE, TAIL])


def _diverging() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("diverging", [TOO_DARK, "black", TOO_BRIGHT])


_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.facecolor": "black",
    "axes.titlecolor": INK,
}
