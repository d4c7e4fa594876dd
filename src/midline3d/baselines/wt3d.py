"""Yuval (2022), "WT3D": head and tail are found in 3D, and a curve between them climbs to smoothness and light.

Their network that finds head and tail is replaced by the ends of the longest way through every view's silhouette, put
together in 3D where they meet best and taken on from the frame before where they do not. The curve is climbed in
rounds: of many random changes of a control point, the best is kept if it scores higher.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.interpolate import BSpline

from midline3d.baselines.alignment import constant_shift, silhouettes
from midline3d.baselines.lines import evenly, smoothed
from midline3d.baselines.pictures import traced_path
from midline3d.baselines.scene import Array, Frame, Traced, sampled
from midline3d.baselines.voxels import TOUCHING, box, intersection, longest_path, thinned

CONTROLS = 14
"""Control points of the curve."""
SAMPLES = 72
"""Points at which it is held against the pictures."""
ROUNDS, TRIALS = 160, 24
"""Rounds of the climb, and changes that are tried in each."""
BENT = 0.04
"""Weight of the mean squared bend between samples, in radians per segment times their number."""
UNEVEN = 2.0
"""Weight of the squared unevenness of the control points' spacing."""
DARK = 0.03
"""Of the body's brightness: light below which a point counts as lying beside the animal, however far."""
MET = 5.0
"""px: how far ends may be from meeting in 3D, and LEAP how far they may come from one frame to the next."""
LEAP = 20.0


@dataclass(frozen=True, eq=False)
class WT3D:
    """Head and tail in 3D, a curve between them by hill climbing."""

    shift: Array
    """(axis,) px: one alignment of the views for the recording."""
    spline: Array
    """(sample, control) the curve's points by its control points."""

    @staticmethod
    def of(frames: Sequence[Frame]) -> WT3D:
        """frames: some of the recording's, by which the views are aligned."""
        knots = np.concatenate([[0.0] * 3, np.linspace(0, 1, CONTROLS - 2), [1.0] * 3])
        spline = BSpline.design_matrix(np.linspace(0, 1, SAMPLES), knots, 3).toarray()
        return WT3D(constant_shift(frames), spline)

    def trace(self, frame: Frame, before: Traced | None) -> Traced | None:
        ends = found_ends(frame, self.shift, before)
        if ends is None:
            return None
        start = self._start(frame, ends, before)
        if start is None:
            return None
        controls = np.asarray(np.linalg.lstsq(self.spline, evenly(start, SAMPLES), rcond=None)[0], dtype=np.float64)
        controls[[0, -1]] = ends
        rng = np.random.default_rng(frame.number)
        pictures = [ndimage.gaussian_filter(image, 1.2) for image in frame.images]
        best = self._climbed(frame, pictures, controls, rng)
        return Traced(evenly(self.spline @ best), self.shift)

    def _start(self, frame: Frame, ends: Array, before: Traced | None) -> Array | None:
        """A curve between the ends: the one before, drawn along with them; else the longest line of the silhouettes."""
        if before is not None:
            change = ends - before.points[[0, -1]]
            share = np.linspace(0, 1, len(before.points))[:, None]
            return before.points + (1 - share) * change[0] + share * change[1]
        masks = silhouettes(frame)
        grid = box(frame, masks, self.shift, pitch=1.0)
        if grid is None:
            return None
        voxels = thinned(intersection(frame, grid, masks, self.shift))
        way = smoothed(longest_path(grid.places(voxels), TOUCHING * grid.pitch), 1.0 / frame.scale)
        if way is None:
            return None
        return way if np.linalg.norm(way[[0, -1]] - ends) < np.linalg.norm(way[[-1, 0]] - ends) else way[::-1]

    def _climbed(
        self, frame: Frame, pictures: list[Array], controls: Array, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Control points (control, 3) from which no change that was tried leads higher."""
        best = self._scores(frame, pictures, controls[None])[0]
        step = 4.0 / frame.scale
        for _ in range(ROUNDS):
            place, reach = rng.integers(1, CONTROLS - 1, TRIALS), rng.choice([0.6, 1.5, 3.0], TRIALS)
            bump = np.exp(-0.5 * np.square((np.arange(CONTROLS) - place[:, None]) / reach[:, None]))
            bump[:, [0, -1]] = 0
            size = step * rng.lognormal(0, 0.7, (TRIALS, 1, 1))
            trials = controls + size * bump[:, :, None] * rng.standard_normal((TRIALS, 1, 3))
            scores = self._scores(frame, pictures, trials)
            winner = int(scores.argmax())
            if scores[winner] > best:
                controls, best = trials[winner], scores[winner]
            else:
                step = max(0.9 * step, 0.2 / frame.scale)
        return controls

    def _scores(self, frame: Frame, pictures: list[Array], controls: Array) -> Array:
        """(trial,) how smooth curves of control points (trial, control, 3) are, and how much light they meet."""
        points = self.spline @ controls
        light = np.zeros(len(controls))
        moves = frame.moves(self.shift)
        for picture, base, slope, move in zip(pictures, frame.base, frame.slope, moves, strict=True):
            seen = sampled(picture, base + move + points @ slope.T)
            light += np.log(DARK + np.clip(seen, 0, 1)).mean(-1)
        segments = np.diff(points, axis=1)
        length = np.linalg.norm(segments, axis=-1)
        bends = np.diff(segments / np.maximum(length, 1e-12)[..., None], axis=1) * SAMPLES
        spacing = np.linalg.norm(np.diff(controls[:, 1:-1], axis=1), axis=-1)
        uneven = spacing.var(-1) / np.square(spacing.mean(-1))
        return light / len(pictures) - BENT * np.square(bends).sum(-1).mean(-1) / SAMPLES - UNEVEN * uneven


def found_ends(frame: Frame, shift: Array, before: Traced | None) -> Array | None:
    """(2, 3) mm: both ends in 3D, in the order of the frame before; None where nothing is known of them."""
    paths = [traced_path(image, noise) for image, noise in zip(frame.images, frame.noise, strict=True)]
    if any(path is None for path in paths):
        return None if before is None else before.points[[0, -1]]
    tips = np.stack([path[[0, -1]] for path in paths if path is not None]) - frame.moves(shift)[:, None]
    orders = [(False, *turns) for turns in product((False, True), repeat=len(tips) - 1)]
    best, away = np.zeros((2, 3)), np.inf
    for turns in orders:
        pixels = np.stack([tip[::-1] if turn else tip for tip, turn in zip(tips, turns, strict=True)])
        points = frame.triangulate(pixels)
        rest = float(np.linalg.norm(frame.project(points) - pixels, axis=-1).mean())
        if rest < away:
            best, away = points, rest
    if before is None:
        return best
    old = before.points[[0, -1]]
    if np.linalg.norm(best[::-1] - old) < np.linalg.norm(best - old):
        best = best[::-1]
    # An end that does not meet, or leaps, is not believed: the one before is.
    leapt = np.linalg.norm(best - old, axis=-1) * frame.scale > LEAP
    return np.where((leapt | (away > MET))[:, None], old, best)
