"""A result against hand clicks: the ends where they are labelled, and the paper's validation along the body.

Each click is held against the nearest place of the projected midline, and each midline point against the nearest
click of the same picture; both along the body, with mean and two standard deviations, the ends apart.
"""

from __future__ import annotations

import csv
import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.evaluate.clicks import LABELS, Click, read_clicks
from midline3d.evaluate.geometry import arc_length, nearest_on_polyline
from midline3d.evaluate.opening import by_frame, in_parts, lost_in, points_of
from midline3d.evaluate.truth import CLEARLY
from midline3d.evaluate.words import mean, spread, table_of, text
from midline3d.files import write_whole
from midline3d.reading import number_of

if TYPE_CHECKING:
    from rich.table import Table

Array = NDArray[np.float64]

OUTLINE = 5
"""Clicks on one picture from which on they outline the body, so that a midline point far from all of them is wrong."""
END = 0.05
"""Share of the body that counts as an end."""
BINS = 20
"""Pieces of the body that are counted apart: one is an end."""
REGIONS = ("head end", "body", "tail end")


@dataclass(frozen=True)
class Along:
    """Distances along the body, piece by piece."""

    place: Array
    """(piece,) its middle, 0 at the head and 1 at the tail."""
    count: NDArray[np.int64]
    mean: Array
    """(piece,) px; NaN where there is none."""
    std: Array
    """(piece,) standard deviation, px; NaN where there are fewer than two."""

    @staticmethod
    def of(place: Array, distance: Array, pieces: int = BINS) -> Along:
        """place, distance: (any,) of every distance measured; what is NaN does not count."""
        good = np.isfinite(distance)
        piece = np.clip((place[good] * pieces).astype(int), 0, pieces - 1)
        groups = [distance[good][piece == index] for index in range(pieces)]
        return Along(
            place=(np.arange(pieces) + 0.5) / pieces,
            count=np.array([len(group) for group in groups]),
            mean=np.array([group.mean() if len(group) else np.nan for group in groups]),
            std=np.array([group.std(ddof=1) if len(group) > 1 else np.nan for group in groups]),
        )


@dataclass(frozen=True)
class AnnotationEvaluation:
    """A result against hand clicks; NaN wherever the frame is lost or not done."""

    clicks: tuple[Click, ...]
    distance: Array
    """(click,) of a labelled click to that end of the result, px; NaN of others."""
    reversed_distance: Array
    """(click,) to the other end."""
    to_midline: Array
    """(click,) to the nearest place of the projected midline, px."""
    place: Array
    """(click,) where along the body that is, from 0 at the head to 1 at the tail."""
    images: tuple[tuple[int, str, str], ...]
    """Frame, camera and person of every picture that was clicked on."""
    to_clicks: Array
    """(image, keypoint) of every midline point to the nearest click there, px; NaN where fewer than OUTLINE are."""
    keypoint_place: Array
    """(image, keypoint) along the body."""

    @property
    def swapped(self) -> bool:
        """Whether the labelled clicks fit the result clearly better with head and tail exchanged."""
        good = np.isfinite(self.distance)
        return bool(good.any() and self.reversed_distance[good].mean() < CLEARLY * self.distance[good].mean())

    @property
    def from_clicks(self) -> Along:
        """Distances of clicks to the midline, along the body."""
        return Along.of(self.place, self.to_midline)

    @property
    def from_midline(self) -> Along:
        """Distances of midline points to the clicks, along the body."""
        return Along.of(self.keypoint_place.ravel(), self.to_clicks.ravel())

    def image_means(self) -> Array:
        """(image, 2) each picture's mean distance of clicks to the midline, and of midline points to the clicks, px."""
        rows = {image: index for index, image in enumerate(self.images)}
        home = np.array([rows[click.image] for click in self.clicks], dtype=int)
        clicked = [mean(self.to_midline[home == index]) for index in range(len(self.images))]
        back = [mean(row) for row in self.to_clicks]
        return np.array([clicked, back], dtype=np.float64).T.reshape(-1, 2)

    def summary(self) -> dict[str, Any]:
        """The figures, ready for JSON."""
        figures: dict[str, Any] = {
            "clicks": len(self.clicks),
            "images": len(self.images),
            "people": sorted({click.who for click in self.clicks}),
            "without_result": int(np.isnan(self.to_midline).sum()),
        }
        for label in LABELS:
            rows = np.array([click.label == label for click in self.clicks], dtype=bool)
            figures[f"{label}_px"] = mean(self.distance[rows])
            figures[f"{label}_clicks"] = int(np.isfinite(self.distance[rows]).sum())
            figures[f"{label}_px_if_swapped"] = mean(self.reversed_distance[rows])
        each = self.image_means()
        for column, name in enumerate(("clicks_to_midline", "midline_to_clicks")):
            figures[f"{name}_px"] = mean(each[:, column])
            figures[f"{name}_std_px"] = spread(each[:, column])
            figures[f"{name}_images"] = int(np.isfinite(each[:, column]).sum())
        return figures | {"swapped": self.swapped, "regions": self.regions(), "along": self.rows()}

    def regions(self) -> dict[str, dict[str, Any]]:
        """The ends apart from the body between them: mean and standard deviation of both distances, px."""
        found: dict[str, dict[str, Any]] = {region: {} for region in REGIONS}
        directions = (("clicks_to_midline", self.place, self.to_midline),
                ("midline_to_clicks", self.keypoint_place.ravel(), self.to_clicks.ravel()))  # fmt: skip
        for name, place, distance in directions:
            chosen = (place < END, (place >= END) & (place <= 1 - END), place > 1 - END)
            for region, rows in zip(REGIONS, chosen, strict=True):
                found[region] |= {f"{name}_px": mean(distance[rows]), f"{name}_std_px": spread(distance[rows])}
                found[region][f"{name}_count"] = int(np.isfinite(distance[rows]).sum())
        return found

    def rows(self) -> list[dict[str, Any]]:
        """The distances along the body, a row for every piece of it."""
        one, other = self.from_clicks, self.from_midline
        return [
            {"place": round(float(one.place[index]), 4)}
            | _figures("clicks_to_midline", one, index)
            | _figures("midline_to_clicks", other, index)
            for index in range(BINS)
        ]

    def write_table(self, path: Path) -> None:
        """The distances along the body as CSV."""
        out, rows = io.StringIO(), self.rows()
        table = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        write_whole(path, out.getvalue().encode())

    def tables(self) -> list[Table]:
        """The figures for people."""
        figures = self.summary()
        missing = f"{figures['without_result']} of {figures['clicks']} clicks have no result"
        hint = "; head and tail are exchanged throughout" if self.swapped else ""
        found = []
        if figures["head_clicks"] + figures["tail_clicks"] or not figures["clicks_to_midline_images"]:
            rows = [(label, str(figures[f"{label}_clicks"]), text(figures[f"{label}_px"], "px")) for label in LABELS]
            columns = ("end", "clicks", "mean distance")
            found.append(table_of("Distance to hand clicks of the ends", columns, rows, missing + hint))
        rows = [(region, *(_within(values, name) for name in ("clicks_to_midline", "midline_to_clicks")))
                for region, values in (*figures["regions"].items(), ("mean of pictures", figures))]  # fmt: skip
        caption = f"± two standard deviations; {figures['images']} pictures; {missing}{hint}"
        columns = ("", "click to midline, px", "midline to click, px")
        return [*found, table_of("Distance to all clicks", columns, rows, caption)]


def evaluate_annotations(result: xr.Dataset | Path | str, clicks: Path | str) -> AnnotationEvaluation:
    """Measures a result against hand clicks: a CSV of frame, camera, u, v and, if known, label and who."""
    parts = in_parts(result)
    cameras = [str(name) for name in parts.head.camera.values]
    found = read_clicks(clicks, cameras)
    _check_frames(found, parts.numbers, clicks)
    result = by_frame(parts.chosen({click.frame for click in found}))
    lines = result.projection.transpose("frame", "camera", "keypoint", "image").values.astype(np.float64)
    lines[lost_in(result)] = np.nan
    points = points_of(result)
    frames = {int(frame): index for index, frame in enumerate(result.frame.values)}
    images = tuple(dict.fromkeys(click.image for click in found))
    distance, near = np.full((len(found), 2), np.nan), np.full((len(found), 2), np.nan)
    back, places = (np.full((len(images), lines.shape[2]), np.nan) for _ in range(2))
    for row, image in enumerate(images):
        line = lines[frames[image[0]], cameras.index(image[1])] if image[0] in frames else lines[:0]
        if not len(line) or not np.isfinite(line).all():
            continue
        chosen = [index for index, click in enumerate(found) if click.image == image]
        here = np.array([(found[index].u, found[index].v) for index in chosen])
        way = arc_length(points[frames[image[0]]])
        places[row] = way / way[-1]
        away, node = nearest_on_polyline(here, line)
        near[chosen] = np.stack([away, np.interp(node, np.arange(len(line)), places[row])], -1)
        distance[chosen] = _to_ends(here, line, [found[index].label for index in chosen])
        if len(chosen) >= OUTLINE:
            back[row] = np.linalg.norm(line[:, None] - here, axis=-1).min(-1)
    return AnnotationEvaluation(
        tuple(found), distance[:, 0], distance[:, 1], near[:, 0], near[:, 1], images, back, places
    )


def _check_frames(clicks: list[Click], numbers: NDArray[np.int64], source: Path | str) -> None:
    """Says which frames the result has, where clicks are on others."""
    beyond = [click.frame for click in clicks if click.frame not in numbers]
    if not beyond:
        return
    has = f"frame {beyond[0]} is not among the result's, which has frames {numbers[0]} to {numbers[-1]}"
    if len(beyond) == len(clicks):
        raise InputError(f"{source}: {has}; give clicks of the same recording")
    warnings.warn(f"{source}: {has}; {number_of(len(beyond), 'click')} on other frames left out", stacklevel=3)


def _to_ends(clicks: Array, line: Array, labels: list[str]) -> Array:
    """(click, 2) distance to the end that a click is labelled as, and to the other one; NaN without a label."""
    away = np.linalg.norm(clicks[:, None] - line[[0, -1]], axis=-1)
    known = np.array([[label in LABELS] for label in labels])
    tail = np.array([[label == "tail"] for label in labels])
    return np.where(known, np.where(tail, away[:, ::-1], away), np.nan)


def _within(values: dict[str, Any], name: str) -> str:
    middle, std = values[f"{name}_px"], values[f"{name}_std_px"]
    return "-" if middle is None else f"{middle:.2f}" + ("" if std is None else f" ± {2 * std:.2f}")


def _figures(name: str, along: Along, index: int) -> dict[str, Any]:
    middle, std = (None if np.isnan(value) else float(value) for value in (along.mean[index], along.std[index]))
    return {f"{name}_px": middle, f"{name}_std_px": std, f"{name}_count": int(along.count[index])}
