"""How well people agree who clicked on the same pictures."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from midline3d.evaluate.clicks import LABELS, Click
from midline3d.evaluate.geometry import distance_to_segments
from midline3d.evaluate.words import mean, spread, table_of, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Agreement:
    """Two people's clicks on the pictures that both clicked on."""

    people: tuple[str, str]
    images: int
    line: Array
    """(click,) distance of either's clicks to the line through the other's, px, where those are two or more."""
    head: Array
    """(image,) distance of the two heads, px."""
    tail: Array

    def summary(self) -> dict[str, Any]:
        """The figures, ready for JSON."""
        found: dict[str, Any] = {"people": list(self.people), "images": self.images}
        for name in ("line", "head", "tail"):
            values = getattr(self, name)
            found |= {f"{name}_px": mean(values), f"{name}_std_px": spread(values), f"{name}_count": len(values)}
        return found


def agreement(clicks: Sequence[Click]) -> list[Agreement]:
    """Every pair of people, in the order of their names."""
    people = sorted({click.who for click in clicks})
    return [_between(clicks, one, other) for one, other in combinations(people, 2)]


def agreement_table(found: list[Agreement]) -> Table:
    """The figures for people."""
    rows = []
    for pair in found:
        figures = pair.summary()
        names = " and ".join(name or "(nobody)" for name in pair.people)
        rows.append((names, str(pair.images), *(text(figures[f"{name}_px"], "px") for name in ("line", *LABELS))))
    caption = "line: mean distance of either's clicks to the line through the other's"
    return table_of("How well people agree", ("people", "pictures", "line", *LABELS), rows, caption)


def _between(clicks: Sequence[Click], one: str, other: str) -> Agreement:
    mine, theirs = ({click.image[:2] for click in clicks if click.who == who} for who in (one, other))
    lines: list[Array] = []
    ends: dict[str, list[float]] = {label: [] for label in LABELS}
    common = sorted(mine & theirs)
    for image in common:
        a, b = ([click for click in clicks if click.image == (*image, who)] for who in (one, other))
        for first, second in ((a, b), (b, a)):
            if len(second) > 1:
                lines.append(distance_to_tree(_places(first), _places(second)))
        for label in LABELS:
            pair = [[click for click in side if click.label == label] for side in (a, b)]
            if all(pair):
                ends[label].append(float(np.linalg.norm(_places(pair[0])[0] - _places(pair[1])[0])))
    return Agreement(
        people=(one, other),
        images=len(common),
        line=np.concatenate(lines) if lines else np.zeros(0),
        head=np.array(ends["head"], dtype=np.float64),
        tail=np.array(ends["tail"], dtype=np.float64),
    )


def distance_to_tree(points: Array, others: Array) -> Array:
    """(point,) distance to the shortest tree that joins the others, px.

    Clicks along a body come in no order; the tree that joins them with the least way is the line that was meant
    wherever they lie closer along the body than across from one part of it to another.
    """
    from scipy.sparse.csgraph import minimum_spanning_tree

    # A hair more than 0: to scipy a distance of 0 is no edge, and two clicks may lie on one pixel.
    away = np.linalg.norm(others[:, None] - others, axis=-1) + 1e-9
    np.fill_diagonal(away, 0)
    tree = minimum_spanning_tree(away).tocoo()
    return distance_to_segments(points, others[tree.row], others[tree.col])[0].min(-1)


def _places(clicks: Sequence[Click]) -> Array:
    return np.array([(click.u, click.v) for click in clicks])
