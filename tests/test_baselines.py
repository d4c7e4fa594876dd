"""The rivals: their parts on shapes whose answer is known, and each of them on easy pictures."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy.ndimage import gaussian_filter

from midline3d import InputError, Plan, Settings, evaluate_truth, load_recording, open_result, simulate
from midline3d.baselines.lines import smoothed
from midline3d.baselines.paths import walked
from midline3d.baselines.pictures import midline_pixels, silhouette, traced_path
from midline3d.baselines.run import METHODS, baseline
from midline3d.baselines.voxels import longest_path, thinned
from midline3d.evaluate.comparison import Comparison
from midline3d.evaluate.comparison_figure import draw_comparison
from midline3d.evaluate.rendered import compare
from midline3d.export import Choice, export_result
from midline3d.recording import prepare

FRAMES = 3
BOUNDS = {"kwon": (1.5, 9.0), "reconst": (2.0, 12.0), "wt3d": (1.2, 8.0), "paths": (1.0, 5.0)}
"""px: mean distance of the midlines and of the ends."""


def arc(size: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """A picture of half a circle of radius 25 px, and its line (point, 2)."""
    angle = np.linspace(0, np.pi, 400)
    line = np.stack([40 + 25 * np.cos(angle), 50 - 25 * np.sin(angle)], -1)
    v, u = np.mgrid[:size, :size]
    away = np.linalg.norm(np.stack([u, v], -1)[:, :, None] - line[::8], axis=-1).min(-1)
    noise = np.random.default_rng(0).normal(0, 0.02, (size, size))
    return gaussian_filter(np.clip(1 - (away / 4) ** 2, 0, 1), 1.0) + noise, line


def test_a_path_follows_the_middle_from_end_to_end() -> None:
    image, line = arc()
    path = traced_path(image, 0.02)
    assert path is not None
    away = np.linalg.norm(path[:, None] - line, axis=-1).min(1)
    assert np.median(away) < 0.8 and away.max() < 5  # the body ends round
    ends = sorted(path[[0, -1]].tolist())
    assert np.linalg.norm(np.array(ends) - [[15, 50], [65, 50]], axis=-1).max() < 5
    assert traced_path(image * 0, 0.02) is None


def test_midline_pixels_lie_on_the_midline() -> None:
    image, line = arc()
    v, u = np.nonzero(midline_pixels(image, 0.02, silhouette(image, 0.02)))
    away = np.linalg.norm(np.stack([u, v], -1)[:, None] - line, axis=-1).min(1)
    assert len(u) > 60 and np.median(away) < 0.5 and away.mean() < 1.2


def test_a_tube_is_thinned_to_its_axis_and_followed_along_it() -> None:
    z, y, x = np.mgrid[:20, :20, :60]
    tube = ((z - 9) ** 2 + (y - 8) ** 2 < 16) & (x > 4) & (x < 55)
    tube[2:4, 2:4, 2:4] = True  # a speck beside it
    way = longest_path(thinned(tube).astype(float), 1.8)
    assert np.abs(np.median(way, axis=0)[:2] - [9, 8]).max() <= 1 and np.ptp(way[:, 2]) > 38
    assert np.all(np.diff(way[:, 2]) * np.sign(way[-1, 2] - way[0, 2]) >= -1)
    assert len(thinned(tube & False)) == 0


def test_gaps_are_crossed_where_there_is_nothing_else() -> None:
    line = np.stack([np.arange(30.0), np.zeros(30), np.zeros(30)], -1)
    broken = np.delete(line, [12, 13, 14], axis=0)
    assert len(longest_path(broken, 1.8)) == 15 and len(longest_path(broken, 6.0, power=2.0)) == 27


def test_two_walks_are_matched_at_the_least_cost() -> None:
    a, b = np.linspace(0, 1, 40), np.linspace(0, 1, 60) ** 2
    total, steps = walked(100 * np.square(a[:, None] - b))
    assert steps[0].tolist() == [0, 0] and steps[-1].tolist() == [39, 59]
    assert np.all(np.diff(steps, axis=0) >= 0) and np.all(np.diff(steps, axis=0).sum(1) >= 1)
    assert np.abs(a[steps[:, 0]] - b[steps[:, 1]]).mean() < 0.05 and total < 2


def test_smoothing_takes_noise_away() -> None:
    s = np.linspace(0, 3, 90)
    curve = np.stack([np.cos(s), np.sin(s), 0.2 * s], -1)
    noisy = curve + np.random.default_rng(2).normal(0, 0.03, curve.shape)
    found = smoothed(noisy, 0.03)
    assert found is not None
    away = np.linalg.norm(found[:, None] - curve, axis=-1).min(1)
    assert away.mean() < 0.02 and smoothed(noisy[:4], 0.03) is None


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(tmp_path_factory.mktemp("clean"), Plan("clean", 12, size=256, px_per_mm=90.0, source="npy"))


@pytest.fixture(scope="module")
def crops(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Decoded once for all."""
    folder = tmp_path_factory.mktemp("crops") / "crops"
    prepare(load_recording(recording), Settings().locating, folder, frames=range(FRAMES))
    return folder


@pytest.mark.parametrize("method", METHODS)
def test_every_rival_follows_an_easy_worm(recording: Path, crops: Path, tmp_path: Path, method: str) -> None:
    out = tmp_path / "out"
    shutil.copytree(crops, out / "crops")
    baseline(recording, out, method, (0, FRAMES))
    found, truth = open_result(out), xr.load_dataset(recording / "truth.nc")
    assert found.status.values.tolist() == ["ok"] * FRAMES and found.sizes["keypoint"] == 128
    measured = evaluate_truth(found, truth)
    turned = evaluate_truth(found.isel(keypoint=slice(None, None, -1)), truth)
    midline, ends = measured.summary()["midline_px"], min(each.summary()["ends_px"] for each in (measured, turned))
    assert midline < BOUNDS[method][0] and ends < BOUNDS[method][1], f"{midline} {ends}"
    written = (out / "midline.nc").stat().st_mtime_ns
    with pytest.raises(InputError, match="method"):
        baseline(recording, out, "paths" if method != "paths" else "kwon", (0, FRAMES))
    assert (out / "midline.nc").stat().st_mtime_ns == written


def test_losses_under_one_renderer(recording: Path, crops: Path, tmp_path: Path) -> None:
    """The truth is drawn better than the same curve 2 px beside it, whatever the look of either."""
    out = tmp_path / "out"
    shutil.copytree(crops, out / "crops")
    baseline(recording, out, "paths", (0, FRAMES))
    truth = xr.load_dataset(recording / "truth.nc")
    points = truth.position.isel(individual=0).transpose("time", "keypoint", "space").values
    np.savez(tmp_path / "true.npz", position=points, fps=25.0)
    np.savez(
        tmp_path / "beside.npz",
        position=points[1:] + np.array([0.0, 0.02, 0.02]),
        frame=np.arange(1, len(points)),
        fps=25.0,
    )
    others = {name: tmp_path / f"{name}.npz" for name in ("true", "beside")}
    found = compare(out, others, name="paths")
    figures = found.summary()["methods"]
    assert list(figures) == ["paths", "true", "beside"] and np.isnan(found.losses["beside"][0])
    assert 0 < figures["true"]["loss"] < 0.9 * figures["paths"]["loss"] and figures["true"]["ratio"] < 0.9
    assert (
        figures["beside"]["loss"] > 1.3 * figures["true"]["loss"] and figures["beside"]["common_frames"] == FRAMES - 1
    )
    found.write_table(tmp_path / "losses.csv")
    assert (tmp_path / "losses.csv").read_text().splitlines()[1].endswith(",,,")
    draw_comparison(found, tmp_path / "losses.png")
    assert (tmp_path / "losses.png").stat().st_size > 10_000


@pytest.mark.parametrize("form", ["csv", "wide", "movement", "npz"])
def test_a_results_own_export_scores_like_the_result(worm_result: Path, tmp_path: Path, form: str) -> None:
    """By the image columns of a table, or by its points through the cameras with the frame's own shifts."""
    if form == "npz":
        points = open_result(worm_result).position.isel(individual=0).transpose("time", "keypoint", "space").values
        file = tmp_path / "points.npz"
        np.savez(file, position=points, frame=open_result(worm_result).frame.values, fps=25.0)
    else:
        choice = Choice(wide=form == "wide")
        file = export_result(worm_result, "csv" if form == "wide" else form, tmp_path, choice)
    figures = compare(worm_result, {"exported": file}).summary()["methods"]["exported"]
    assert figures["ratio"] == pytest.approx(1.0, abs=0.02) and figures["common_frames"] > 10


def test_moving_averages_do_not_reach_over_what_is_missing() -> None:
    loss = np.array([1.0, 2.0, 3.0, np.nan, 5.0, 6.0])
    middle, std = Comparison(np.arange(6), {"ours": loss}, window=3).moving("ours")
    assert middle == pytest.approx([1.5, 2.0, 2.5, np.nan, 5.5, 5.5], nan_ok=True) and std[1] == pytest.approx(1.0)


def test_an_unknown_rival_is_named(recording: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'ours'; choose kwon, reconst, wt3d, paths"):
        baseline(recording, tmp_path / "out", "ours")
