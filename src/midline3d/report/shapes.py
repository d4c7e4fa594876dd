"""Figures of the body: how it bends over time, where it goes, and a gallery of its postures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.kinematics.grid import midlines_of
from midline3d.kinematics.options import Options
from midline3d.kinematics.plane import bending_plane
from midline3d.kinematics.smoothing import Window
from midline3d.report.courses import COLUMNS
from midline3d.report.material import Array, Material, Undrawable
from midline3d.report.style import BENT, BODY, bare, colours_between, figure, light
from midline3d.world import CALIBRATION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POSTURES = 12
"""Of the gallery."""
ALONG_PATH = 7
"""Midlines that are drawn on the trajectory."""
DRAWN = 49
"""Points of a posture."""
PIECES = 1000
"""Of the trajectory, about."""
PLACES = 64
"""Rows of the kymograph."""


def kymograph(material: Material) -> Figure:
    """Curvature along the body over time, in the plane in which the body bends."""
    try:
        lines = midlines_of(material.result, CALIBRATION, ())
    except InputError as fault:
        raise Undrawable(str(fault)) from None
    bent = bending_plane(lines.body, lines.valid, Window.of(Options().window, lines.fps)).bending
    rows = np.linspace(0, bent.shape[1] - 1, min(PLACES, bent.shape[1])).round().astype(int)
    columns = np.linspace(0, len(bent) - 1, min(COLUMNS, len(bent))).round().astype(int)
    shown = np.ma.masked_invalid(bent[columns][:, rows].T)
    if shown.mask.all():
        raise Undrawable("In no frame does the body bend in one plane enough to tell the curvature in it.")
    largest = float(np.nanpercentile(np.abs(bent), 99))
    start, step = material.seconds[0], 1 / lines.fps
    drawn = figure(2.6)
    ax = drawn.subplots()
    image = ax.imshow(
        shown,
        cmap=colours_between(*BENT),
        vmin=-largest,
        vmax=largest,
        extent=(start - step / 2, start + (len(bent) - 0.5) * step, 1, 0),
        aspect="auto",
        interpolation="nearest",
    )
    ax.grid(False)
    ax.set(yticks=[0, 0.5, 1], yticklabels=["head", "middle", "tail"], xlabel="time (s)")
    bar = drawn.colorbar(image, ax=ax, pad=0.012, fraction=0.03)
    bar.set_label("curvature (1/body length)")
    bar.outline.set_visible(False)
    return drawn


def trajectory(material: Material) -> Figure:
    """The centroid's way in 3D and from three sides, coloured by time, with some midlines on it."""
    centroid, midlines = np.asarray(material.quantity("centroid").values), _world_midlines(material)
    there = np.flatnonzero(np.isfinite(centroid).all(1))
    if len(there) < 2:
        raise Undrawable("Fewer than two frames have a place, so that there is no trajectory.")
    some = there[np.linspace(0, len(there) - 1, min(ALONG_PATH, len(there))).round().astype(int)]
    drawn = figure(4.2)
    grid = drawn.add_gridspec(2, 3, width_ratios=[1.7, 1, 1])
    space = drawn.add_subplot(grid[:, 0], projection="3d")
    space.add_collection3d(_coloured(centroid, material.seconds))
    _in_space(space, centroid, midlines, some)
    shown = grid[0, 1], grid[0, 2], grid[1, 1]
    for place, (across, up) in zip(shown, ((0, 1), (0, 2), (1, 2)), strict=True):
        ax = drawn.add_subplot(place)
        for frame in some:
            ax.plot(*midlines[frame][:, [across, up]].T, color=light("faint"), linewidth=1.0, alpha=0.8)
            ax.plot(*midlines[frame][0, [across, up]], "o", color=BODY[0], markersize=2.5)
        path = _coloured(centroid[:, [across, up]], material.seconds)
        ax.add_collection(path)
        ax.set_aspect("equal", adjustable="datalim")
        ax.autoscale_view()
        ax.set(xlabel=f"{'xyz'[across]} (mm)", ylabel=f"{'xyz'[up]} (mm)")
    bar = drawn.colorbar(path, cax=_key(drawn.add_subplot(grid[1, 2])), orientation="horizontal")
    bar.set_label("time (s)")
    bar.outline.set_visible(False)
    return drawn


def _world_midlines(material: Material) -> Array:
    """(time, keypoint, 3) mm, in the world that kinematics tell places in."""
    from midline3d.world import world_of

    position = material.result.position.isel(individual=0).transpose("time", "keypoint", "space").values
    return world_of(material.result.attrs).points(position.astype(np.float64))


def _key(ax: Axes) -> Axes:
    """A place for the key to colours in the middle of empty axes."""
    ax.axis("off")
    return ax.inset_axes((0.05, 0.5, 0.9, 0.09))


def _coloured(path: Array, times: Array) -> Any:
    """A way in two or three dimensions, coloured by time."""
    from matplotlib.collections import LineCollection
    from mpl_toolkits.mplot3d.art3d import Line3DCollection

    every = max(1, len(path) // PIECES)
    path, times = path[::every], times[::every]
    kind = Line3DCollection if path.shape[1] == 3 else LineCollection
    made = kind(list(np.stack([path[:-1], path[1:]], 1)), cmap="viridis", linewidths=2.0)
    made.set_array(times[:-1])
    made.set_clim(times[0], times[-1])
    return made


def _in_space(ax: Any, centroid: Array, midlines: Array, some: NDArray[np.intp]) -> None:
    for frame in some:
        ax.plot(*midlines[frame].T, color=light("faint"), linewidth=1.2, alpha=0.85)
        ax.scatter(*midlines[frame][0], color=BODY[0], s=9, depthshade=False)
    both = np.concatenate([centroid, midlines[some].reshape(-1, 3)])
    low, high = np.nanmin(both, 0), np.nanmax(both, 0)
    middle, half = (low + high) / 2, 0.52 * float((high - low).max())
    for name, axis, centre in zip("xyz", (ax.xaxis, ax.yaxis, ax.zaxis), middle, strict=True):
        getattr(ax, f"set_{name}lim")(centre - half, centre + half)
        axis.set_pane_color((0, 0, 0, 0))
        axis.line.set_color(light("faint"))
        axis._axinfo["grid"].update(color=light("grid"), linewidth=0.6)
        axis.set_label_text(f"{name} (mm)", fontsize=8.5)
        axis.set_tick_params(labelsize=7, pad=0)
        axis.set_major_locator(_few())
    ax.set_box_aspect((1, 1, 1), zoom=1.12)
    ax.view_init(elev=24, azim=-56)


def _few() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(4)


def postures(material: Material) -> Figure:
    """Midlines spread evenly through the recording, each onto the plane in which it bends most, and from its side."""
    there = np.flatnonzero(material.found)
    if not len(there):
        raise Undrawable("No frame of this result has a midline.")
    chosen = there[np.linspace(0, len(there) - 1, min(POSTURES, len(there))).round().astype(int)]
    across = min(6, len(chosen))
    down = -(-len(chosen) // across)
    drawn = figure(1.95 * down + 0.25)
    axes = np.atleast_1d(drawn.subplots(down, across, squeeze=False)).ravel()
    position = material.result.position.isel(individual=0).transpose("time", "keypoint", "space").values
    flat = [_laid_flat(position[frame]) for frame in chosen]
    half = 0.55 * max(float(np.ptp(each[:, :2], axis=0).max()) for each in flat)
    for ax, frame, each in zip(axes, chosen, flat, strict=False):
        _posture(ax, each, half)
        ax.set_title(f"{material.frames[frame]}", fontsize=8, loc="center", pad=1)
    for ax in axes[len(chosen) :]:
        ax.axis("off")
    _scale_bar(axes[0], half)
    return drawn


def _laid_flat(points: Array) -> Array:
    """(keypoint, 3): the midline about its middle, in the axes of its own spread, the widest first."""
    centred = points - points.mean(0)
    axes = np.linalg.svd(centred, full_matrices=False)[2]
    # The head to the right: of the two ways to lay it down, always the same.
    turned = centred @ axes.T
    return np.asarray(turned * np.where(turned[0] < 0, -1.0, 1.0) * [1, np.sign(np.linalg.det(axes)) or 1, 1])


def _posture(ax: Axes, points: Array, half: float) -> None:
    from matplotlib.collections import LineCollection

    points = points[np.linspace(0, len(points) - 1, min(DRAWN, len(points))).round().astype(int)]
    colours = colours_between(*BODY)(np.linspace(0, 1, len(points) - 1))
    for line, width, lift in ((points[:, :2], 2.6, 0.0), (points[:, [0, 2]], 1.4, -1.45 * half)):
        shown = line - [0, (line[:, 1].max() + line[:, 1].min()) / 2] + [0, lift]
        pieces = list(np.stack([shown[:-1], shown[1:]], 1))
        ax.add_collection(LineCollection(pieces, colors=colours, linewidths=width, capstyle="round"))
        ax.plot(*shown[0], "o", color=BODY[0], markersize=1.7 * width)
    bare(ax)
    ax.set(xlim=(-half, half), ylim=(-1.95 * half, 1.0 * half), aspect="equal")


def _scale_bar(ax: Axes, half: float) -> None:
    size = float(10 ** np.floor(np.log10(half)))
    ax.plot([-half, -half + size], [-1.9 * half] * 2, color=light("ink"), linewidth=1.6, solid_capstyle="butt")
    ax.text(-half + size / 2, -1.84 * half, f"{size:g} mm", ha="center", va="bottom", fontsize=7)
