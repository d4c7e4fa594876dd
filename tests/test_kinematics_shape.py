"""Shape, waves and postures on curves whose answers are known on paper."""

from __future__ import annotations

import curves
import numpy as np
import pytest
import torch
import xarray as xr

from midline3d import curve, kinematics
from midline3d.kinematics import shape
from midline3d.kinematics.eigenworms import eigenworms
from midline3d.kinematics.smoothing import Window, local_quadratic

RADIUS, PITCH, TURNS = 0.2, 0.5, 1.5
RISE = PITCH / (2 * np.pi)
TORSION = RISE / (RADIUS**2 + RISE**2)
CURVATURE = RADIUS / (RADIUS**2 + RISE**2)


def still(points: np.ndarray, count: int = 12) -> xr.Dataset:
    return curves.measured(curves.result(np.repeat(points[None], count, 0)))


def test_a_helix_has_its_curvature_torsion_and_handedness() -> None:
    measured = still(curves.helix(RADIUS, PITCH, TURNS))
    assert measured.curvature.values == pytest.approx(CURVATURE, rel=1e-3)
    assert measured.torsion.values[:, 4:-4] == pytest.approx(TORSION, rel=1e-3)
    assert measured.handedness.values == pytest.approx(TORSION, rel=3e-3)
    # K = |K| e^(i phase), the phase growing by tau l over the body.
    phase = TORSION * float(measured.length[0])
    assert measured.planarity.values == pytest.approx(abs(np.sin(phase) / phase), abs=2e-3)
    assert float(measured.length[0]) == pytest.approx(2 * np.pi * TURNS * np.hypot(RADIUS, RISE), rel=1e-6)


def test_a_mirror_turns_handedness_and_writhe_round() -> None:
    right, left = still(curves.helix(RADIUS, PITCH, TURNS)), still(curves.helix(RADIUS, PITCH, TURNS) * [1, 1, -1])
    for name in ("torsion", "handedness", "writhe"):
        assert right[name].values == pytest.approx(-left[name].values, rel=1e-6, abs=1e-9)
    for name in ("curvature", "planarity", "nonplanarity", "spread", "length"):
        assert right[name].values == pytest.approx(left[name].values, rel=1e-6, abs=1e-9)


def test_from_the_other_end_it_is_the_same_curve() -> None:
    points = curves.helix(RADIUS, PITCH, TURNS)
    points[:, 0] += 0.05 * np.linspace(0, 1, len(points)) ** 3
    one, other = still(points), still(points[::-1])
    for name in ("handedness", "writhe", "planarity", "nonplanarity", "length", "body_sinuosity"):
        assert one[name].values == pytest.approx(other[name].values, rel=1e-5)
    assert one.torsion.values == pytest.approx(other.torsion.values[:, ::-1], rel=1e-6)


def test_a_circle_lies_in_its_plane() -> None:
    measured = still(curves.circle(0.3, 4.0))
    assert measured.curvature.values == pytest.approx(1 / 0.3, rel=1e-3)
    assert measured.planarity.values == pytest.approx(1, abs=1e-9)
    for name in ("nonplanarity", "writhe", "handedness"):
        assert measured[name].values == pytest.approx(0, abs=1e-6)
    # Of an arc of 4 rad: mean square along and across its axis, less the mean's square.
    across = 0.3**2 * (0.5 - np.sin(4.0) / 8)
    along = 0.3**2 * (0.5 + np.sin(4.0) / 8 - (2 * np.sin(2.0) / 4) ** 2)
    assert measured.spread.values[0, :2] == pytest.approx(sorted((across, along), reverse=True), rel=1e-3)
    assert measured.body_sinuosity.values == pytest.approx(0.3 * 4 / (0.6 * np.sin(2.0)), rel=1e-4)


def test_writhe_is_gauss_integral() -> None:
    points = curves.helix(RADIUS, PITCH, TURNS)
    fine = curves.helix(RADIUS, PITCH, TURNS, 1500)
    middle, step = (fine[1:] + fine[:-1]) / 2, np.diff(fine, axis=0)
    apart = middle[:, None] - middle
    distance = np.linalg.norm(apart, axis=-1)
    np.fill_diagonal(distance, np.inf)
    double = ((np.cross(step[:, None], step) * apart).sum(-1) / distance**3).sum() / (4 * np.pi)
    assert shape.writhe(points[None])[0] == pytest.approx(double, rel=5e-3) and double > 0.1


def test_straight_bodies_have_no_torsion() -> None:
    line = np.linspace(0, 1, 64)[:, None] * [1.0, 2.0, 2.0]
    measured = still(line)
    assert np.isnan(measured.torsion).all() and np.isnan(measured.frequency).all()
    assert measured.curvature.values == pytest.approx(0, abs=1e-9) and measured.writhe.values == pytest.approx(
        0, abs=1e-12
    )


def test_curvature_is_that_of_the_method() -> None:
    points = curves.helix(RADIUS, PITCH, TURNS)
    stored, _, length = curve.recover(torch.from_numpy(points)[None])
    found = shape.bishop(points[None])
    assert found.length[0] == pytest.approx(float(length[0]), rel=1e-6)
    pair = stored[0, :, 0].numpy() + 1j * stored[0, :, 1].numpy()
    turn = (found.curvature[0] / pair)[5:-5]
    assert np.abs(turn) == pytest.approx(1, rel=1e-4)
    assert np.angle(turn / turn[0]) == pytest.approx(0, abs=1e-3)


def swimmer(count: int = 200, twist: float = 1.0, noise: float = 0.0) -> np.ndarray:
    """(time, vertex, 3) a body that beats, twists and goes round, as no formula says in closed form."""
    rng = np.random.default_rng(4)
    bodies = []
    for time in np.arange(count) / curves.FPS:
        flat = curves.planar(lambda u, t=time: 6 * np.cos(2 * np.pi * (0.8 * t - u)) + 1.0)
        turned = flat @ curves.rotation((0.2 * time, 0.5 * np.sin(time), 0.3 * time)).T
        bodies.append(turned + [0.2 * time, 0.05 * time**2, 0.0] + twist * flat[:, :1] ** 2 * [0, 0, 1.0])
    return np.stack(bodies) + noise * rng.normal(size=(count, 1, 3))


def stored_result(points: np.ndarray, angles: np.ndarray) -> xr.Dataset:
    """A result with its curvature, every frame's Bishop frame turned by an angle of its own."""
    found = shape.bishop(points)
    turned = found.curvature * np.exp(1j * angles)[:, None]
    pair = np.stack([turned.real, turned.imag], -1)
    return curves.result(points).assign(curvature=(("time", "keypoint", "bishop"), pair))


def test_the_free_angle_of_the_bishop_frame_changes_nothing() -> None:
    points = swimmer()
    rng, few = np.random.default_rng(1), kinematics.Options(draws=2)
    settled = kinematics.of(stored_result(points, np.zeros(len(points))), few)
    shaken = kinematics.of(stored_result(points, rng.uniform(-np.pi, np.pi, len(points))), few)
    assert set(settled.data_vars) == set(shaken.data_vars) and np.isfinite(settled.frequency).any()
    for name, variable in settled.data_vars.items():
        if variable.dtype.kind == "f":
            close = shaken[name].values
            assert close == pytest.approx(variable.values, rel=1e-6, abs=1e-7, nan_ok=True), name
        else:
            assert (variable.values == shaken[name].values).all(), name


def test_turning_and_moving_the_world_changes_no_shape() -> None:
    points = swimmer(60)
    moved = points @ curves.rotation((0.4, 1.0, -0.7)).T + [3.0, -2.0, 900.0]
    one, other = curves.measured(curves.result(points)), curves.measured(curves.result(moved))
    for name in ("torsion", "handedness", "planarity", "spread", "writhe", "roll_rate", "speed", "forward_speed"):
        assert one[name].values == pytest.approx(other[name].values, rel=1e-4, abs=1e-6, nan_ok=True), name


@pytest.mark.parametrize("way", [1, -1])
def test_a_travelling_wave(way: int) -> None:
    frequency, waves, length = 0.9, 1.0, 1.2
    times = np.arange(250) / curves.FPS
    bend = lambda u, t: 5 * np.cos(2 * np.pi * (frequency * t - way * waves * u))  # noqa: E731
    points = np.stack([curves.planar(lambda u, t=t: bend(u, t), length) for t in times])
    measured = curves.measured(curves.result(points))
    good = np.isfinite(measured.frequency.values)
    assert good.sum() > 180 and not good[:10].any()
    assert measured.frequency.values[good] == pytest.approx(frequency, rel=0.02)
    assert measured.wavelength.values[good] == pytest.approx(length / waves, rel=0.03)
    assert measured.wave_speed.values[good] == pytest.approx(way * frequency * length / waves, rel=0.04)
    assert measured.travelling_wave_index.values[good].min() > 0.9
    assert measured.wave_amplitude.values[good] == pytest.approx(5 / length, rel=0.03)
    assert np.abs(measured.roll_rate.values).max() < 1e-6


def test_a_standing_wave_has_no_wavelength() -> None:
    times = np.arange(250) / curves.FPS
    points = np.stack(
        [curves.planar(lambda u, t=t: 6 * np.cos(2 * np.pi * 0.9 * t) * np.sin(2 * np.pi * u)) for t in times]
    )
    measured = curves.measured(curves.result(points))
    good = np.isfinite(measured.frequency.values)
    assert measured.frequency.values[good] == pytest.approx(0.9, rel=0.02)
    assert measured.travelling_wave_index.values[good].max() < 0.1
    assert np.isnan(measured.wavelength).all() and np.isnan(measured.wave_speed).all() and np.isnan(measured.slip).all()


def test_a_rigid_spin_is_roll() -> None:
    rate = 1.3
    # An S whose tangent in the middle runs along the axis that it is turned about.
    body = curves.planar(lambda u: 6 * np.sin(2 * np.pi * u))
    points = np.stack([body @ curves.rotation((rate * t, 0, 0)).T for t in np.arange(80) / curves.FPS])
    measured = curves.measured(curves.result(points))
    assert measured.roll_rate.values == pytest.approx(rate, rel=1e-3)
    assert float(measured.bending_angle[-1] - measured.bending_angle[0]) == pytest.approx(
        rate * 79 / curves.FPS, rel=1e-3
    )
    flat = np.stack([np.zeros(80), -np.sin(rate * measured.time.values), np.cos(rate * measured.time.values)], -1)
    assert np.abs((measured.bending_normal.values * flat).sum(-1)) == pytest.approx(1, abs=1e-4)


def test_tumbling_in_the_bending_plane_is_no_roll() -> None:
    body = curves.planar(lambda u: 6 * np.sin(2 * np.pi * u))
    points = np.stack([body @ curves.rotation((0, 0, 2.0 * t)).T for t in np.arange(80) / curves.FPS])
    assert curves.measured(curves.result(points)).roll_rate.values == pytest.approx(0, abs=1e-6)


def test_eigenworms_find_what_was_mixed() -> None:
    rng = np.random.default_rng(5)
    u = np.linspace(0, 1, 101)
    pure = np.stack([np.sqrt(2) * np.cos(2 * np.pi * u), np.exp(2j * np.pi * 2 * u)])
    mixed = (rng.normal(size=(400, 2)) + 1j * rng.normal(size=(400, 2))) * [3.0, 1.0]
    found = eigenworms(mixed @ pure, 3)
    assert found.share[:2] == pytest.approx([0.9, 0.1], abs=0.02) and found.share[2] < 1e-10
    for mode, true in zip(found.modes, pure, strict=False):
        assert abs((np.conj(mode) * true)[1:].mean()) == pytest.approx(1, abs=0.02)
    shaken = eigenworms(mixed @ pure * np.exp(1j * rng.uniform(0, 6, 400))[:, None], 3)
    assert shaken.amplitude == pytest.approx(found.amplitude, abs=1e-9)
    assert np.cos(shaken.phase[:, :2] - found.phase[:, :2]) == pytest.approx(1, abs=1e-6)


def test_a_quadratic_is_met_exactly_over_gaps() -> None:
    times = np.arange(60) / curves.FPS
    values = np.stack([3 + 2 * times - 4 * times**2, np.sin(times)], -1)
    valid = np.ones(60, bool)
    valid[[10, 11, 30]] = False
    values[~valid] = np.nan
    fit = local_quadratic(values, valid, Window.of(0.3, curves.FPS))
    assert np.isnan(fit.rate[~valid]).all()
    assert fit.value[valid, 0] == pytest.approx(values[valid, 0], abs=1e-9)
    assert fit.rate[valid, 0] == pytest.approx(2 - 8 * times[valid], abs=1e-9)
    assert fit.scatter[0] == pytest.approx(0, abs=1e-9)


def test_scatter_is_what_single_frames_are_off_by() -> None:
    noise = np.random.default_rng(6).normal(scale=0.01, size=(4000, 3))
    fit = local_quadratic(noise, np.ones(4000, bool), Window.of(0.3, curves.FPS))
    assert fit.scatter == pytest.approx(0.01, rel=0.1)
