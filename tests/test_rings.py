"""A ring that never changes is told from a worm that lies still, one that is curled up, and one that moves."""

import numpy as np
import pytest

from midline3d.tracking.rings import FEWEST, evenly, is_rigid_ring

FRAMES, VERTICES = 30, 128


def lines(turns: float, wave: float = 0.0) -> list[np.ndarray]:
    """A worm of 1 mm that is wound into an arc, drifts and turns about; wave: by how much of its angle it bends."""
    along, found = np.linspace(0, 1, VERTICES), []
    for frame in range(FRAMES):
        angle = 2 * np.pi * turns * along + wave * np.sin(2 * np.pi * (along - frame / 10)) + 0.1 * frame
        way = np.stack([np.cos(angle), np.sin(angle), 0 * angle], -1) / VERTICES
        found.append(np.cumsum(way, 0) + frame * np.array([0.01, 0.0, 0.02]))
    return found


def test_a_ring_that_drifts_and_turns_is_one() -> None:
    assert is_rigid_ring(lines(1.0))


@pytest.mark.parametrize("moving", [lines(0.0), lines(0.5), lines(1.0, wave=0.2), lines(0.7, wave=0.5), lines(2.5)[:5]])
def test_a_worm_is_none(moving: list[np.ndarray]) -> None:
    assert not is_rigid_ring(moving)


def test_a_few_midlines_and_those_of_a_point_tell_nothing() -> None:
    assert not is_rigid_ring(lines(1.0)[: FEWEST - 1])
    assert not is_rigid_ring([np.zeros((8, 3))] * FRAMES)


def test_places_are_spread_evenly() -> None:
    assert evenly(5, 200).tolist() == [0, 1, 2, 3, 4]
    assert evenly(101, 3).tolist() == [0, 50, 100]
