"""Frames from best to worst, drawn on the crops, so that everybody can see what the numbers mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from midline3d.report.material import Array, Material, Undrawable
from midline3d.report.picture import Picture, picture_of, window
from midline3d.report.style import BODY, bare, colours_between, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = 6
"""Frames from the best to the worst."""


def ranked(material: Material) -> tuple[NDArray[np.intp], Array]:
    """Places of all frames with a midline, the best first, and of every frame the share it is ranked by: that of the
    light that is explained in the view in which that is least."""
    shares = material.variable("explained")
    share = np.where(np.isfinite(shares).any(1), np.where(np.isfinite(shares), shares, np.inf).min(1), np.nan)
    there = np.flatnonzero(np.isfinite(share) & material.found)
    if not len(there):
        raise Undrawable("No frame of this result has a midline.")
    order: NDArray[np.intp] = there[np.argsort(-share[there], kind="stable")]
    return order, share


def chosen(material: Material) -> list[tuple[int, float]]:
    """(place, share) of some frames from the best to the worst, at equal steps of rank."""
    order, share = ranked(material)
    places = np.linspace(0, len(order) - 1, min(SHOWN, len(order))).round().astype(int)
    return [(int(order[place]), float(share[order[place]])) for place in places]


def best_to_worst(material: Material) -> Figure:
    """A column for each frame, a row for each view: the crop with the midline over it."""
    if material.clip is None:
        raise Undrawable(f"The crops are not there to draw on: {material.missing['clip']}")
    frames = chosen(material)
    views = len(material.views)
    side = 9.6 / SHOWN
    drawn = figure(side * views + 0.55, side * len(frames) + 0.25)
    axes = drawn.subplots(views, len(frames), squeeze=False, gridspec_kw={"wspace": 0.02, "hspace": 0.02})
    for column, (place, share) in enumerate(frames):
        row = material.result.isel(time=place)
        picture = picture_of(material.clip, row)
        for index in range(views):
            _view(axes[index, column], picture, index)
            if column == 0:
                axes[index, 0].set_ylabel(material.views[index], fontsize=8.5)
        title = f"frame {picture.frame}\n{share:.0%} {'' if picture.status == 'ok' else picture.status}"
        axes[0, column].set_title(title.rstrip(), fontsize=8.5, loc="center")
    return drawn


def _view(ax: Axes, picture: Picture, index: int) -> None:
    from matplotlib.collections import LineCollection

    image, line = picture.images[index], picture.midlines[index]
    top = float(max(1.0, np.percentile(image, 99.9)))
    ax.imshow(image, cmap="gray", vmin=0, vmax=top, interpolation="nearest")
    colours = colours_between(*BODY)(np.linspace(0, 1, len(line) - 1))
    pieces = list(np.stack([line[:-1], line[1:]], 1))
    ax.add_collection(LineCollection(pieces, colors=colours, linewidths=1.1, capstyle="round"))
    ax.plot(*line[0], "o", color=BODY[0], markersize=3.2, markeredgecolor="black", markeredgewidth=0.4)
    (left, right), (top_most, bottom) = window(picture, index)
    bare(ax)
    ax.set(xlim=(left, right), ylim=(bottom, top_most))
