"""Figures over time: what became of the frames, how the animal looks, how well it is explained, how it moves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from midline3d.cameras import Cameras, shift_basis
from midline3d.report.material import Array, Material, Undrawable
from midline3d.report.style import figure, light, view

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 1400
"""Most points of a line: of more frames each stands for several, with their least and greatest shaded."""
WORST = ("ok", "pending", "suspect", "unreadable", "lost")
"""Statuses, what is worth knowing last: it is what is shown of several frames."""


def statuses(material: Material) -> Figure:
    """What became of every frame, and how surely keypoint 0 is the head."""
    drawn = figure(1.9)
    top, low = drawn.subplots(2, 1, sharex=True, height_ratios=[1, 2.2])
    _strip(top, material)
    top.set_title("what became of the frames")
    times, sure = material.seconds, np.full(len(material.seconds), np.nan)
    if "head_confidence" in material.result:
        sure = material.result.head_confidence.values.astype(np.float64)
    if np.isfinite(sure).any():
        course(low, times, sure, view(0))
    else:
        low.text(0.5, 0.5, "not given by this result", transform=low.transAxes, ha="center", color=light("faint"))
    low.axhline(0.5, color=light("faint"), linewidth=0.8, linestyle=":")
    low.set(ylim=(0, 1.04), yticks=[0, 0.5, 1], title="confidence that keypoint 0 is the head")
    _time(low, times)
    return drawn


def appearances(material: Material) -> Figure:
    """sigma, iota and rho of every view: the render parameters over time."""
    named = (("sigma", "width σ (px)"), ("iota", "brightness ι"), ("rho", "sharpness ρ"))
    variables = [(material.variable(name), label) for name, label in named]
    return _per_view(material, variables, 5.4)


def explained(material: Material) -> Figure:
    """Light that image and render have in common, in every view."""
    values = material.variable("explained")
    drawn = _per_view(material, [(values, "explained share of the light")], 2.4)
    drawn.axes[0].set_ylim(max(0.0, float(np.nanmin(values)) - 0.1), 1.0)
    return drawn


def _per_view(material: Material, variables: Sequence[tuple[Array, str]], height: float) -> Figure:
    """Variables (time, camera), one above the other."""
    drawn = figure(height)
    axes = np.atleast_1d(drawn.subplots(len(variables), 1, sharex=True))
    for ax, (values, label) in zip(axes, variables, strict=True):
        shade(ax, material)
        for index, name in enumerate(material.views):
            course(ax, material.seconds, values[:, index], view(index), name)
        ax.set_title(label)
    axes[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=6, borderaxespad=0.1)
    _time(axes[-1], material.seconds)
    return drawn


def motions(material: Material) -> Figure:
    """Length, speed and planarity with their standard deviations; without a place, what does not need one."""
    measured = material.kinematics()
    names = [name for name in ("length", "speed", "planarity") if name in measured]
    labels = {"length": "length (mm)", "speed": "speed of the centroid (mm/s)", "planarity": "planarity"}
    drawn = figure(1.75 * len(names) + 0.3)
    axes = np.atleast_1d(drawn.subplots(len(names), 1, sharex=True))
    for index, (ax, name) in enumerate(zip(axes, names, strict=True)):
        values = np.asarray(measured[name].values, np.float64)
        shade(ax, material)
        course(ax, material.seconds, values, view(index), spread=measured[f"{name}_std"].values)
        ax.set_title(labels[name])
    axes[names.index("planarity")].set_ylim(0, 1.04)
    _known_length(axes[0], material)
    _time(axes[-1], material.seconds)
    return drawn


def _known_length(ax: Axes, material: Material) -> None:
    """The animal's own length, and how surely it is known."""
    spread, lengths = material.about.facts.get("length_std"), material.quantity("length").values
    if spread is not None and np.isfinite(lengths).any():
        middle = float(np.nanmedian(lengths))
        ax.axhspan(middle - float(spread), middle + float(spread), color=light("faint"), alpha=0.14, linewidth=0)


def disagreements(material: Material) -> Figure:
    """How far the two views of every pair of cameras miss each other."""
    misses = pair_misses(material)
    drawn = figure(2.6)
    ax = drawn.subplots()
    shade(ax, material)
    for index, ((one, other), miss) in enumerate(misses.items()):
        course(ax, material.seconds, miss, view(index), f"{one} and {other}")
    ax.set_title("miss of each pair of views (px)")
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=6, borderaxespad=0.1)
    _time(ax, material.seconds)
    return drawn


def pair_misses(material: Material) -> dict[tuple[str, str], Array]:
    """(time,) px by which one view of a pair sees the animal beside the line on which the other puts it, signed.

    Of the four image coordinates that two views have of a point, three are spent on the point's place. What is left is
    one number, the distance from the epipolar line: the pair's own direction of `shift_basis`, a unit vector over four
    coordinates, times the square root of 2 for the distance in one view, the other being taken as exact.
    """
    if material.cameras is None:
        raise Undrawable(f"The cameras are not known: {material.missing['cameras']}")
    shift = material.variable("shift")
    cameras = material.cameras
    apart = np.einsum("kia,ta->tki", cameras.shift_basis.numpy(), shift)
    found = {}
    for pair in combinations(range(cameras.count), 2):
        way = shift_basis(_pair(cameras, pair))[..., 0].numpy()
        found[material.views[pair[0]], material.views[pair[1]]] = np.sqrt(2) * np.einsum(
            "tki,ki->t", apart[:, list(pair)], way
        )
    return found


def _pair(cameras: Cameras, pair: tuple[int, int]) -> Cameras:
    """Two of the cameras, as a rig of their own."""
    chosen = list(pair)
    return Cameras(
        focal=cameras.focal[:, chosen],
        centre=cameras.centre[:, chosen],
        distortion=cameras.distortion[:, chosen],
        rotation=cameras.rotation[:, chosen],
        translation=cameras.translation[:, chosen],
        shift_basis=torch.zeros(2, 2, 0, dtype=cameras.focal.dtype),
    )


def course(ax: Axes, times: Array, values: Array, colour: str, label: str = "", spread: Array | None = None) -> None:
    """A line over time with gaps where there is nothing, single frames among gaps as dots; its deviation shaded."""
    low, middle, high = _columns(values)
    when = _columns(times)[1]
    if len(values) > COLUMNS:
        ax.fill_between(when, low, high, color=colour, alpha=0.25, linewidth=0)
    if spread is not None:
        wide = _columns(np.asarray(spread, np.float64))[1]
        ax.fill_between(when, middle - wide, middle + wide, color=colour, alpha=0.22, linewidth=0)
    ax.plot(when, middle, color=colour, label=label or None)
    there = np.isfinite(middle)
    alone = there & ~np.roll(there, 1) & ~np.roll(there, -1)
    ax.plot(when[alone], middle[alone], ".", color=colour, markersize=3)


def _columns(values: Array) -> tuple[Array, Array, Array]:
    """Least, median and greatest of as many stretches as a line has points."""
    if len(values) <= COLUMNS:
        return values, values, values
    edges = np.linspace(0, len(values), COLUMNS + 1).astype(int)
    found = np.full((3, COLUMNS), np.nan)
    for column in range(COLUMNS):
        part = values[edges[column] : edges[column + 1]]
        part = part[np.isfinite(part)]
        if len(part):
            found[:, column] = part.min(), np.median(part), part.max()
    return found[0], found[1], found[2]


def shade(ax: Axes, material: Material) -> None:
    """Stretches that are not ok, behind a plot."""
    for word, first, last in stretches(material.status):
        if word != "ok":
            start, end = _ends(material.seconds, first, last)
            ax.axvspan(start, end, color=light(word), alpha=0.16, linewidth=0)


def _strip(ax: Axes, material: Material) -> None:
    """Every frame in the colour of its status."""
    for word in WORST:
        ends = [
            _ends(material.seconds, first, last) for kind, first, last in stretches(material.status) if kind == word
        ]
        if ends:
            bars = [(start, end - start) for start, end in ends]
            ax.broken_barh(bars, (0, 1), color=light(word), linewidth=0, label=word)
    ax.set(yticks=[], ylim=(0, 1))
    ax.grid(False)
    ax.spines["left"].set_visible(False)
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=5, borderaxespad=0.1)


def stretches(status: NDArray[np.str_]) -> list[tuple[str, int, int]]:
    """(status, first place, last place) of every stretch, in as many columns as a line has points at most: of
    several frames in one column the worst."""
    rank = np.array([WORST.index(word) if word in WORST else 0 for word in status.tolist()])
    edges = np.linspace(0, len(rank), min(len(rank), COLUMNS) + 1).astype(int)
    worst_rank = np.maximum.reduceat(rank, edges[:-1]) if len(rank) else rank
    found: list[tuple[str, int, int]] = []
    for column, worst in enumerate(worst_rank.tolist()):
        first, last = int(edges[column]), int(edges[column + 1]) - 1
        if found and found[-1][0] == WORST[worst]:
            found[-1] = WORST[worst], found[-1][1], last
        else:
            found.append((WORST[worst], first, last))
    return found


def _ends(times: Array, first: int, last: int) -> tuple[float, float]:
    """A stretch of frames as a stretch of time: half a frame more on either side."""
    half = 0.5 * float(np.median(np.diff(times))) if len(times) > 1 else 0.5
    return float(times[first]) - half, float(times[last]) + half


def _time(ax: Axes, times: Array) -> None:
    ax.set_xlabel("time (s)")
    if len(times):
        ax.set_xlim(*_ends(times, 0, len(times) - 1))
