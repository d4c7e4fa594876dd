"""Views that wander are told from cameras that shake, drift slowly, or were never calibrated well."""

import numpy as np

from midline3d.tracking.wandering import FARTHEST, SHAKEN, WITHIN, wandering

FRAMES = 120


def test_a_view_that_wanders_off_is_found_where_it_does() -> None:
    shifts = np.zeros((FRAMES, 3))
    shifts[80:, 1] = -np.linspace(0, 2 * FARTHEST, FRAMES - 80)
    found = wandering(shifts)
    assert found[100:].all() and not found[: 80 - WITHIN].any()
    shifts[90::3] = np.nan
    assert wandering(shifts)[100:].all()


def test_cameras_that_shake_or_drift_do_not_wander() -> None:
    noise = np.random.default_rng(0).normal(size=(FRAMES, 3))
    assert not wandering(2 * noise + [30.0, 0.0, -20.0]).any()
    drifting = np.linspace(0, 5 * FARTHEST, 20 * WITHIN)[:, None] * [1.0, 0.0]
    assert not wandering(drifting).any()
    # Struck, and at once back.
    struck = np.zeros((FRAMES, 3))
    struck[50 : 50 + SHAKEN // 2] = 3 * FARTHEST
    assert not wandering(struck).any()


def test_a_camera_that_was_pushed_is_told_around_that_moment() -> None:
    pushed = np.zeros((3 * WITHIN + 1, 2))
    pushed[WITHIN + 20 :] = 3 * FARTHEST
    found = wandering(pushed)
    assert found[WITHIN + 20] and found[WITHIN + 19] and not found[0] and not found[-1]


def test_where_nothing_was_found_nothing_is_said() -> None:
    assert wandering(np.zeros((0, 3))).tolist() == []
    assert not wandering(np.full((10, 3), np.nan)).any()
    assert not wandering(np.zeros((10, 0))).any()
