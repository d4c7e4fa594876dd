"""Motion, paths and bouts whose answers are known on paper; gaps, doubtful frames, and images without a place."""

from __future__ import annotations

import json

import curves
import numpy as np
import pytest
import xarray as xr

from midline3d import kinematics
from midline3d.errors import InputError
from midline3d.kinematics import Options
from midline3d.kinematics.path import path, sinuosity
from midline3d.world import World

BODY = curves.planar(lambda u: 6 * np.sin(2 * np.pi * u))


def sliding(velocity: tuple[float, float, float], count: int = 100, noise: float = 0.0) -> np.ndarray:
    """(time, vertex, 3) a body that is moved along without a change."""
    times = np.arange(count)[:, None, None] / curves.FPS
    jitter = np.random.default_rng(2).normal(scale=noise, size=(count, 1, 3)) if noise else 0.0
    return BODY + times * np.array(velocity) + jitter


def crawler(count: int = 250, speed: float = 0.3, back: slice | None = None) -> np.ndarray:
    """(time, vertex, 3) a body of length 1 that follows a wavy track exactly, head first; backwards in `back`."""
    track = curves.planar(lambda s: 12 * 5 * np.cos(2 * np.pi * 12 * s), 12.0, 12001)
    steps = np.full(count, speed / curves.FPS)
    if back is not None:
        steps[back] *= -1
    head = 3.0 + np.cumsum(steps)
    at = head[:, None] - np.linspace(0, 1, 128)
    along = np.linspace(0, 12, len(track))
    return np.stack([np.interp(at, along, track[:, axis]) for axis in range(3)], -1)


def test_a_rigid_slide() -> None:
    measured = curves.measured(curves.result(sliding((0.3, -0.4, 1.2))))
    assert measured.speed.values == pytest.approx(1.3, rel=1e-9)
    assert measured.velocity.values == pytest.approx(np.tile([0.3, -0.4, 1.2], (100, 1)), abs=1e-9)
    assert float(measured.path_length[-1]) == pytest.approx(1.3 * 99 / curves.FPS)
    assert float(measured.straightness) == pytest.approx(1) and float(measured.sinuosity) == pytest.approx(0, abs=1e-5)
    assert measured.mean_squared_displacement.values == pytest.approx((1.3 * measured.lag.values) ** 2)
    assert measured.direction_correlation.values == pytest.approx(1) and np.isnan(measured.persistence_time)
    assert "local quadratic over 7 frames (0.28 s)" in measured.speed.attrs["smoothing"]


@pytest.mark.parametrize(("way", "forward", "sideways"), [((-1, 0, 0), 1, 0), ((1, 0, 0), -1, 0), ((0, 0, 1), 0, 1)])
def test_forward_is_head_first(way: tuple[float, float, float], forward: float, sideways: float) -> None:
    line = np.linspace(0, 1, 64)[:, None] * [1.0, 0, 0]
    points = line + np.arange(40)[:, None, None] / curves.FPS * np.array(way)
    measured = curves.measured(curves.result(points))
    assert measured.forward_speed.values == pytest.approx(forward, abs=1e-9)
    assert measured.sideways.values == pytest.approx(sideways, abs=1e-9)


def test_noise_does_not_make_it_faster() -> None:
    """Frame-to-frame differences of the centroid would: here by a fifth and more."""
    points = sliding((0.3, 0.0, 0.0), 400, noise=0.005)
    measured = curves.measured(curves.result(points))
    plain = np.linalg.norm(np.diff(points.mean(1), axis=0), axis=-1).mean() * curves.FPS
    assert plain > 1.15 * 0.3
    assert float(measured.speed.mean()) == pytest.approx(0.3, rel=0.02)


def test_a_body_on_its_own_track_does_not_slip() -> None:
    measured = curves.measured(curves.result(crawler()))
    assert measured.forward_speed.values == pytest.approx(0.3, rel=5e-3)
    assert measured.sideways.values == pytest.approx(0, abs=1e-2)
    slip = measured.slip.values[np.isfinite(measured.slip.values)]
    assert len(slip) > 100 and slip == pytest.approx(0, abs=0.05)
    assert (measured.motion.values == "forward").all()
    assert measured.run_kind.values.tolist() == ["forward"] and measured.sizes["turn"] == 0


def test_a_wave_that_runs_in_place_slips_all_the_way() -> None:
    times = np.arange(200) / curves.FPS
    points = np.stack([curves.planar(lambda u, t=t: 5 * np.cos(2 * np.pi * (0.9 * t - u))) for t in times])
    slip = curves.measured(curves.result(points)).slip.values
    # Its points still go to and fro along the body: in the mean they come nowhere.
    assert np.nanmean(slip) == pytest.approx(1, abs=0.15)


def test_a_reversal_is_found_where_it_is() -> None:
    measured = curves.measured(curves.result(crawler(300, back=slice(120, 180)), first=50))
    assert measured.run_kind.values.tolist() == ["forward", "backward", "forward"]
    start, end = float(measured.run_start[1]), float(measured.run_end[1])
    assert start == pytest.approx((50 + 120) / curves.FPS, abs=0.5) and end == pytest.approx(230 / curves.FPS, abs=0.5)
    assert measured.turn_reversal.values.tolist() == [1]
    assert float(measured.forward_speed[150]) == pytest.approx(-0.3, rel=0.01)


def test_a_turn_has_its_angle_and_its_roll() -> None:
    """A straight way, a quick turn by 70 degrees to the side while the body rolls by half a radian, and straight on."""
    count, angle, roll = 240, np.radians(70), 0.5
    share = np.clip((np.arange(count) - 110) / 20, 0, 1)
    heading = angle * share
    steps = np.stack([-np.cos(heading), -np.sin(heading), 0 * heading], -1) * 0.4 / curves.FPS
    places = np.cumsum(steps, 0)
    bodies = [BODY @ curves.rotation((roll * s, 0, 0)).T @ curves.rotation((0, 0, angle * s)).T for s in share]
    measured = curves.measured(curves.result(np.stack(bodies) + places[:, None]))
    assert measured.sizes["turn"] == 1
    assert float(measured.turn_angle[0]) == pytest.approx(angle, abs=0.05)
    assert float(measured.turn_roll[0]) == pytest.approx(roll, abs=0.1)
    assert float(measured.turn_start[0]) < 120 / curves.FPS < float(measured.turn_end[0])


def test_a_random_walk_spreads_as_it_must() -> None:
    steps = np.random.default_rng(3).normal(scale=0.02, size=(20000, 3))
    places = np.cumsum(steps, 0)
    way = path(places, steps * curves.FPS, np.ones(len(steps), bool), curves.FPS, 1.0)
    few = way.lags < 200
    expected = 3 * 0.02**2 * way.lags[few]
    assert way.displacement[few] == pytest.approx(expected, rel=0.15)
    assert (np.abs(way.displacement - 3 * 0.02**2 * way.lags)[few] < 5 * way.displacement_error[few]).all()
    assert way.correlation[0] == pytest.approx(0, abs=0.02)


def test_persistence_of_a_circling_animal() -> None:
    rate, times = 0.9, np.arange(500) / curves.FPS
    places = np.stack([np.cos(rate * times), np.sin(rate * times), 0 * times], -1)
    velocity = rate * np.stack([-np.sin(rate * times), np.cos(rate * times), 0 * times], -1)
    way = path(places, velocity, np.ones(500, bool), curves.FPS, 1.0)
    assert way.correlation == pytest.approx(np.cos(rate * way.lags / curves.FPS), abs=1e-9)
    assert way.persistence_time == pytest.approx(np.arccos(np.exp(-1)) / rate, rel=0.02)


def test_sinuosity_of_a_zigzag() -> None:
    angle, step = 0.6, 0.25
    headings = angle / 2 * (-1.0) ** np.arange(40)
    steps = step * np.stack([np.cos(headings), np.sin(headings), 0 * headings], -1)
    expected = 2 / np.sqrt(step * (1 + np.cos(angle)) / (1 - np.cos(angle)))
    assert sinuosity(np.cumsum(steps, 0)) == pytest.approx(expected, rel=1e-9)


def test_lost_frames_are_gaps_and_suspect_ones_can_be() -> None:
    points = crawler(200)
    points[60:66] += 5.0  # a wild guess
    result = curves.result(points)
    result.status[60:66] = "suspect"
    result.position[100:104] = np.nan
    result.status[100:104] = "lost"
    measured = curves.measured(result, Options(without=("suspect",)))
    wild = curves.measured(result)
    assert float(wild.speed.max()) > 3 > float(np.nanmax(measured.speed)) < 0.5
    gone = [*range(60, 66), *range(100, 104)]
    for name in ("length", "speed", "forward_speed", "torsion", "planarity", "wave_speed", "path_length"):
        assert np.isnan(measured[name].values[gone]).all(), name
    assert np.isfinite(measured.forward_speed.values[104:110]).all()
    assert measured.attrs["frames_used"] == 190 and (measured.frame.values == result.frame.values).all()


def test_frames_that_are_left_out_of_the_file_are_gaps_too() -> None:
    points = crawler(120)
    some = np.delete(np.arange(120), [40, 41, 42])
    whole = curves.measured(curves.result(points))
    measured = curves.measured(curves.result(points).isel(time=some))
    assert measured.frame.values.tolist() == some.tolist()
    assert measured.forward_speed.values == pytest.approx(whole.forward_speed.values[some], abs=0.01)


def test_images_without_a_place_give_shapes_alone() -> None:
    result = curves.result(crawler(100), inputs=json.dumps({"centre": "fixed"}))
    measured = curves.measured(result)
    assert "speed" not in measured and "path_length" not in measured and "run_start" not in measured
    assert "centre" in measured.attrs["left_out"] and np.isfinite(measured.curvature).all()
    moving = [name for name, quantity in kinematics.QUANTITIES.items() if quantity.place]
    assert (
        not set(moving) & set(measured.data_vars)
        and "left_out" not in curves.measured(curves.result(crawler(100))).attrs
    )


def test_the_world_is_the_results_own() -> None:
    points = sliding((0.0, 0.0, -0.5))
    turn = curves.rotation((np.pi / 2, 0, 0))  # old -y is up
    world = World(turn, np.array([1.0, 2.0, 3.0]), "a test")
    measured = curves.measured(curves.result(points, frame=world.as_json()))
    assert measured.velocity.values[10] == pytest.approx(turn @ [0, 0, -0.5], abs=1e-9)
    assert measured.attrs["world"] == "a test" and "elevation" in measured
    assert measured.centroid.values[0] == pytest.approx(turn @ (points[0].mean(0) - [1, 2, 3]), abs=1e-2)
    head = (points[0, 0] - points[0, -1]) / np.linalg.norm(points[0, 0] - points[0, -1])
    assert float(measured.elevation[0]) == pytest.approx(np.arcsin((turn @ head)[2]))
    assert "elevation" not in curves.measured(curves.result(points))


def test_every_quantity_is_there_with_its_unit() -> None:
    world = World(curves.rotation((0.1, 0, 0)), np.zeros(3), "a test")
    moving = curves.result(crawler(300, back=slice(120, 180)), frame=world.as_json())
    measured = kinematics.of(moving, Options(draws=2))
    assert set(measured.data_vars) == set(kinematics.QUANTITIES)
    for name, variable in measured.variables.items():
        assert variable.attrs["units"] and variable.attrs["long_name"], name
    for name, quantity in kinematics.QUANTITIES.items():
        assert measured[name].dims == quantity.dims, name
        assert ("uncertainty" in measured[name].attrs) == (not quantity.counted), name
        assert (name + "_std" in measured) == (not quantity.counted), name


def test_tables_say_the_same(tmp_path) -> None:
    import pandas as pd

    result = curves.result(crawler(300, back=slice(120, 180)), first=7)
    result.position[100:104] = np.nan
    measured = kinematics.of(result, Options(draws=2))
    places = kinematics.write(measured, tmp_path)
    read = xr.load_dataset(tmp_path / "kinematics.nc", engine="h5netcdf")
    xr.testing.assert_allclose(read.drop_vars("motion"), measured.drop_vars("motion"))
    table = pd.read_csv(tmp_path / "kinematics.csv")
    assert table.frame.tolist() == measured.frame.values.tolist() and len(table) == 300
    assert table.speed.values == pytest.approx(measured.speed.values, rel=1e-8, nan_ok=True)
    assert np.isnan(table.speed.values[100:104]).all() and table.velocity_x.notna().sum() == 296
    summary = pd.read_csv(tmp_path / "kinematics-summary.csv").set_index("quantity")
    assert summary.loc["speed", "units"] == "mm/s" and summary.loc["speed", "uncertainty"] > 0
    assert "speed_std" not in summary.index
    assert table.velocity_x_std.values == pytest.approx(measured.velocity_std.values[:, 0], rel=1e-8, nan_ok=True)
    runs = pd.read_csv(tmp_path / "kinematics-runs.csv")
    assert len(runs) == 3 and runs.speed_std.values == pytest.approx(measured.run_speed_std.values, rel=1e-8)
    assert sorted(path.name for path in places.values()) == sorted(path.name for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.drop_vars("position"), "no 'position'"),
        (lambda d: d.isel(keypoint=slice(4)), "4 keypoints"),
        (lambda d: d.isel(time=slice(None, None, -1)), "order of time"),
        (lambda d: d.assign(position=d.position * np.nan), "no frame with a midline"),
    ],
)
def test_what_cannot_be_measured_is_said(change, words: str) -> None:
    with pytest.raises(InputError, match=words):
        curves.measured(change(curves.result(crawler(20))))
    with pytest.raises(InputError, match="above 0"):
        curves.measured(curves.result(crawler(20)), Options(window=-1))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_short_results_say_what_they_can(count: int) -> None:
    measured = curves.measured(curves.result(crawler(count)))
    assert np.isfinite(measured.curvature).all() and np.isnan(measured.frequency).all()
