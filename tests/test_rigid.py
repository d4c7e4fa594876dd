"""What never changes its shape is told from a worm that lies still, one that is curled up, and one that moves."""

import numpy as np
import pytest

from midline3d.tracking.rigid import FEWEST, evenly, rigid_thing

FRAMES, VERTICES = 30, 128


def lines(turns: float, wave: float = 0.0) -> list[np.ndarray]:
    """A worm of 1 mm that is wound into an arc, drifts and turns about; wave: by how much of its angle it bends."""
    along, found = np.linspace(0, 1, VERTICES), []
    for frame in range(FRAMES):
        angle = 2 * np.pi * turns * along + wave * np.sin(2 * np.pi * (along - frame / 10)) + 0.1 * frame
        way = np.stack([np.cos(angle), np.sin(angle), 0 * angle], -1) / VERTICES
        found.append(np.cumsum(way, 0) + frame * np.array([0.01, 0.0, 0.02]))
    return found


def test_a_ring_that_drifts_and_turns_is_a_bubble() -> None:
    assert rigid_thing(lines(1.0)) == "bubble"


@pytest.mark.parametrize("turns", [0.0, 0.1, 0.5])
def test_what_drifts_and_stays_as_it_is_is_a_fibre(turns: float) -> None:
    drifting = lines(turns)
    assert rigid_thing(drifting) == "fibre"
    noise = np.random.default_rng(0).normal(size=(FRAMES, VERTICES, 3)) * 3e-4
    assert rigid_thing([line + off for line, off in zip(drifting, noise, strict=True)]) == "fibre"


@pytest.mark.parametrize(
    "moving", [lines(0.3, wave=0.05), lines(1.0, wave=0.2), lines(0.7, wave=0.5), [lines(0.3)[0]] * FRAMES]
)
def test_a_worm_that_moves_or_lies_still_is_neither(moving: list[np.ndarray]) -> None:
    assert rigid_thing(moving) is None


def test_what_glides_along_itself_is_a_worm() -> None:
    """One that is nearly straight and gets on by its own length; a fibre drifts to its side as well."""
    along = np.linspace(0, 1, VERTICES)
    line = np.stack([along, 0.05 * np.sin(np.pi * along), 0 * along], -1)
    ways = [np.array([place, aside * place, 0.0]) for aside in (0.1, 0.6) for place in np.linspace(0, 1, FRAMES)]
    assert rigid_thing([line + way for way in ways[:FRAMES]]) is None
    assert rigid_thing([line + way for way in ways[FRAMES:]]) == "fibre"


def test_a_few_midlines_and_those_of_a_point_tell_nothing() -> None:
    assert rigid_thing(lines(1.0)[: FEWEST - 1]) is None
    assert rigid_thing([np.zeros((8, 3))] * FRAMES) is None


def test_places_are_spread_evenly() -> None:
    assert evenly(5, 200).tolist() == [0, 1, 2, 3, 4]
    assert evenly(101, 3).tolist() == [0, 50, 100]
