"""Standard deviations of the kinematics: what is drawn, how it is taken together, and that it holds against truth."""

from __future__ import annotations

from pathlib import Path

import curves
import numpy as np
import pytest
import xarray as xr
from curves import FPS
from numpy.typing import NDArray

from midline3d import kinematics
from midline3d.errors import InputError
from midline3d.evaluate.derived import Held, derived_z, held, held_table
from midline3d.evaluate.geometry import evenly
from midline3d.kinematics import Options, draws
from midline3d.kinematics.deviations import Deviations, deviations_of
from midline3d.kinematics.draws import Cloud, cloud
from midline3d.kinematics.grid import Midlines, midlines_of
from midline3d.kinematics.quantities import DEVIATIONS, MEASURED
from midline3d.kinematics.smoothing import Window
from midline3d.kinematics.spread import change, matched
from midline3d.world import world_of

Array = NDArray[np.float64]
ACROSS, ALONG = 0.002, 0.008
"""mm: what results of small worms state in the middle of the body."""


def swimmer(count: int) -> Array:
    """(time, vertex, 3) a body that beats, twists and goes on."""
    bodies = []
    for time in np.arange(count) / FPS:
        flat = curves.planar(lambda u, t=time: 6 * np.cos(2 * np.pi * (0.8 * t - u)) + 1.0)
        turned = flat @ curves.rotation((0.2 * time, 0.3 * np.sin(time), 0.3 * time)).T
        line = turned + [0.2 * time, 0.05 * time, 0.0] + flat[:, :1] ** 2 * [0, 0, 0.8]
        bodies.append(evenly(line, curves.VERTICES))
    return np.stack(bodies)


def stating(points: Array, across: float = ACROSS, along: float = ALONG, cameras: int = 3) -> xr.Dataset:
    """A result with standard deviations of its own, and room for as many cameras."""
    result = curves.result(points)
    for name, size in (("sigma_across", across), ("sigma_along", along)):
        result[name] = (("time", "keypoint"), np.full(points.shape[:2], size))
    result["projection"] = (
        ("time", "camera", "keypoint", "image"),
        np.zeros((len(points), cameras, points.shape[1], 2)),
    )
    return result


def lines_of(result: xr.Dataset) -> Midlines:
    return midlines_of(result, world_of(result.attrs), ())


def drawn_from(result: xr.Dataset, whole: float = 0.0) -> Cloud:
    lines = lines_of(result)
    found = deviations_of(result, lines, Window.of(0.25, lines.fps))
    assert found is not None
    return cloud(lines, Deviations(found.across, found.along, whole, found.calibration, found.stated))


def own_parts(made: Cloud, count: int = 40) -> Array:
    """(draw, time, 3, keypoint) mm that draws are off along the body and to both sides."""
    off = np.stack([made.points(number) - made.lines.points for number in range(count)])
    return np.einsum("dtki,taki->dtak", off, made.axes)


def test_draws_are_as_far_off_as_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TURN", "STRAIN", "TIP_BEND", "TIP_FLAT"):
        monkeypatch.setattr(draws, name, 0.0)
    off = own_parts(drawn_from(stating(swimmer(60))))
    along, sides = off[:, :, 0], off[:, :, 1:]
    assert along.std() == pytest.approx(ALONG, rel=0.15) and sides.std() == pytest.approx(ACROSS, rel=0.1)
    near = (sides[..., 8:] * sides[..., :-8]).mean() / np.square(sides).mean()
    far = (sides[..., 40:] * sides[..., :-40]).mean() / np.square(sides).mean()
    assert 0.55 < near < 0.75 and abs(far) < 0.1
    later = (sides[:, 1:] * sides[:, :-1]).mean() / np.square(sides).mean()
    much = (sides[:, 25:] * sides[:, :-25]).mean() / np.square(sides).mean()
    assert later == pytest.approx(1 - draws.FAST, abs=0.04) and much == pytest.approx(draws.STEADY_ACROSS, abs=0.1)


def test_a_tip_is_bent_by_what_its_curvature_may_be_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TURN", "STRAIN", "TIP_FLAT"):
        monkeypatch.setattr(draws, name, 0.0)
    made = drawn_from(stating(swimmer(30), across=1e-6, along=1e-6))
    sides = own_parts(made)[:, :, 1:]
    middle = slice(20, -20)
    assert np.abs(sides[..., middle]).max() < 1e-3 * np.abs(sides[..., [0, -1]]).max()
    expected = draws.TIP_BEND * draws.TIP**2 / 6 * float(np.median(made.lines.length))
    assert sides[..., 0].std() == pytest.approx(expected, rel=0.2)
    assert sides[..., -1].std() == pytest.approx(expected, rel=0.2)


def test_a_calibration_turns_and_stretches_all_frames_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "TIP_BEND", 0.0)
    monkeypatch.setattr(draws, "TIP_FLAT", 0.0)
    two, three = (drawn_from(stating(swimmer(20), 1e-9, 1e-9, cameras)) for cameras in (2, 3))
    points = three.lines.points
    maps = np.stack(
        [
            np.linalg.lstsq((points - points.mean((0, 1))).reshape(-1, 3), (made.points(n) - points).reshape(-1, 3))[0]
            for made in (three, two)
            for n in range(30)
        ]
    ).reshape(2, 30, 3, 3)
    turn, strain = (maps - maps.swapaxes(-1, -2)) / 2, (maps + maps.swapaxes(-1, -2)) / 2
    assert turn[0][:, [0, 0, 1], [1, 2, 2]].std() == pytest.approx(draws.TURN, rel=0.25)
    assert strain[0][:, [0, 1, 2], [0, 1, 2]].std() == pytest.approx(draws.STRAIN, rel=0.25)
    assert maps[1] == pytest.approx(2 * maps[0], rel=1e-3, abs=1e-5), "two cameras have no third to hold them"


def test_the_same_result_has_the_same_deviations() -> None:
    result = stating(swimmer(40))
    one, other = (kinematics.of(result, Options(draws=3)) for _ in range(2))
    xr.testing.assert_identical(one, other)
    assert "sigma_across" in one.attrs["uncertainty_from"] and one.attrs["draws"] == 3


def test_larger_errors_make_larger_deviations_and_none_make_none() -> None:
    points = swimmer(60)
    small, large = (kinematics.of(stating(points, size, ALONG), Options(draws=8)) for size in (ACROSS, 5 * ACROSS))
    for name in ("torsion", "planarity", "roll_rate", "writhe", "eigenworm_amplitude", "handedness"):
        assert float(large[name + "_std"].median()) > 2 * float(small[name + "_std"].median()), name
    slide = points[0] + np.arange(60)[:, None, None] / FPS * np.array([0.3, 0.0, 0.1])
    exact = kinematics.of(curves.result(slide), Options(draws=2))
    assert "scatter" in exact.attrs["uncertainty_from"] and float(exact.speed_std.max()) < 1e-9


def test_values_that_are_not_known_have_no_deviation() -> None:
    result = stating(swimmer(60))
    result.position[20:24] = np.nan
    result.sigma_across[10] = np.nan
    measured = kinematics.of(result, Options(draws=2))
    few = kinematics.of(curves.result(swimmer(3)), Options(draws=2))
    assert np.isnan(few.curvature_std).all() and "too few frames" in few.attrs["uncertainty_from"]
    for name in DEVIATIONS:
        if name in measured and "time" in measured[name].dims:
            value = measured[name.removesuffix("_std")]
            assert not np.isfinite(measured[name].values[~np.isfinite(value.values)]).any(), name
    assert np.isfinite(measured.curvature_std.values[10]).all(), "frames that state nothing have the others' median"
    assert np.isnan(measured.length_std.values[20:24]).all()


def test_without_draws_there_are_no_deviations() -> None:
    measured = kinematics.of(stating(swimmer(20)), Options(draws=0))
    assert not set(DEVIATIONS) & set(measured.data_vars) and "uncertainty" not in measured.speed.attrs
    for wrong in (-1, 10**6, 2.5):
        with pytest.raises(InputError, match="draws"):
            kinematics.of(stating(swimmer(20)), Options(draws=wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize(("window", "fps"), [(0.25, 25.0), (0.6, 25.0), (0.25, 60.0)])
def test_scatter_becomes_the_deviation_of_the_velocity(window: float, fps: float) -> None:
    """A body that trembles: its slope's deviation is known on paper, for white noise and the slow part beside it."""
    rng, count, noise = np.random.default_rng(3), 300, 0.003
    line = np.linspace(0, 1, 32)[:, None] * [1.0, 0, 0]
    points = line + rng.normal(scale=noise, size=(count, 1, 3))
    measured = kinematics.of(curves.result(points, fps), Options(window=window, draws=16))
    chosen = Window.of(window, fps)
    offsets = np.arange(-chosen.half, chosen.half + 1) / fps
    weights = offsets / np.square(offsets).sum()
    alike = np.exp(-np.square((offsets[:, None] - offsets) / draws.SLOW) / 2)
    expected = noise * np.sqrt(np.square(weights).sum() + draws.WANDER * weights @ alike @ weights)
    inner = slice(2 * chosen.half, -2 * chosen.half)
    said = np.sqrt(np.square(measured.velocity_std.values[inner]).mean())
    assert said == pytest.approx(expected, rel=0.15)
    assert said > 0.9 * measured.velocity.values[inner].std()


def test_angles_and_signs_that_mean_the_same_are_the_same() -> None:
    angle, normal = MEASURED["bending_angle"], MEASURED["bending_normal"]
    assert change(angle, np.array([np.pi + 0.1]), np.array([0.0])) == pytest.approx(0.1)
    assert change(MEASURED["azimuth"], np.array([3.1]), np.array([-3.1])) == pytest.approx(6.2 - 2 * np.pi)
    one = np.array([[0.0, 0.6, 0.8], [1.0, 0.0, 0.0]])
    assert change(normal, one * [[-1], [1]], one) == pytest.approx(0)


def test_runs_are_held_against_those_at_the_same_time() -> None:
    stated = {"run_start": np.array([0.0, 50]), "run_end": np.array([40.0, 90]), "run_speed": np.array([1.0, 2])}
    drawn = {
        "run_start": np.array([2.0, 20, 95]),
        "run_end": np.array([15.0, 41, 99]),
        "run_speed": np.array([5.0, 1.1, 7]),
    }
    found = matched(stated, drawn)
    assert found["run_speed"] == pytest.approx([1.1, np.nan], nan_ok=True)
    assert matched(stated, {})["run_end"] == pytest.approx([np.nan, np.nan], nan_ok=True)


HOLDS = ("length", "curvature", "torsion", "planarity", "writhe", "roll_rate", "bending_normal", "velocity", "speed")


def test_they_hold_for_errors_of_the_kind_that_is_drawn() -> None:
    """Truth that was moved by one draw of its own: z^2 is about 1, and not ten times more or less."""
    true = swimmer(75)
    made = drawn_from(stating(true), whole=0.002)
    found = []
    for number in (1001, 1002, 1003, 1004):
        found.append(derived_z(stating(made.points(number)), stating(true), Options(draws=12)))
    rows = held(found)
    for name in HOLDS:
        assert 0.3 < rows[name].mean_z2 < 3, (name, rows[name])
        assert rows[name].within[95] > 80, (name, rows[name])
    # Over all quantities they are neither too wide nor too narrow.
    assert 0.6 < np.median([row.mean_z2 for row in rows.values()]) < 1.6


def test_the_truth_may_be_the_other_way_round_and_somewhere_else() -> None:
    true = swimmer(40)
    found = stating(drawn_from(stating(true)).points(77))
    few = Options(draws=3)
    one = derived_z(found, stating(true), few)
    other = derived_z(found, stating(true[:, ::-1] + [3.0, -2.0, 1.0]), few)
    assert one.keys() == other.keys() and len(one["speed"]) == 40
    for name in ("speed", "curvature", "centroid"):
        assert other[name] == pytest.approx(one[name], rel=1e-6, abs=1e-6), name
    with pytest.raises(InputError, match="no frame 39"):
        derived_z(found, stating(true[:39]), few)


def test_the_table_counts_recordings_alike() -> None:
    rows = held([{"speed": np.array([2.0])}, {"speed": np.zeros(99), "length": np.array([])}])
    assert rows.keys() == {"speed"}
    assert rows["speed"] == Held(values=100, mean_z2=2.0, median_z2=2.0, within={68: 50.0, 95: 50.0})
    assert held_table(rows, 2).row_count == 1


@pytest.mark.long
def test_they_hold_for_a_reconstruction(tmp_path: Path) -> None:
    from midline3d import Plan, reconstruct, simulate

    simulate(tmp_path / "swim", Plan("swim", 40, seed=71, source="npy"))
    reconstruct(tmp_path / "swim", tmp_path / "out", device="cpu")
    rows = held([derived_z(tmp_path / "out", tmp_path / "swim" / "truth.nc")])
    for name in ("curvature", "torsion", "velocity", "speed", "forward_speed", "nonplanarity", "spread"):
        assert rows[name].mean_z2 < 4 and rows[name].within[95] > 75, (name, rows[name])
    assert 0.1 < np.median([row.mean_z2 for row in rows.values()]) < 2.5
