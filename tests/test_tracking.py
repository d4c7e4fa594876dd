"""Whole recordings, end to end: simulated, reconstructed, measured."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from midline3d import Plan, Settings, evaluate_truth, open_result, simulate
from midline3d.errors import InputError
from midline3d.report import frame_figure, read_frame, telling_frame
from midline3d.tracking import walk
from midline3d.tracking.directions import follow_directions
from midline3d.tracking.reconstruct import Job, reconstruct

FRAMES = 8
SETTINGS = replace(Settings(), start=replace(Settings().start, pairs=1, apart=2, starts=5))


def quiet(doing: str, done: int, total: int) -> None:
    pass


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = Plan("clean", FRAMES, size=384, px_per_mm=115.0, seed=0, source="npy")
    return simulate(tmp_path_factory.mktemp("clean"), plan)


@pytest.fixture(scope="module")
def result(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Interrupted halfway, then resumed: every test below is one of a resumed run."""
    out = tmp_path_factory.mktemp("result") / "out"
    reported: list[tuple[str, int, int]] = []

    def interrupt(doing: str, done: int, total: int) -> None:
        reported.append((doing, done, total))
        if doing == "reconstructing" and done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reconstruct(Job(recording, out, SETTINGS), interrupt)
    growing = open_result(out)
    assert (growing.status == "pending").sum() == FRAMES - 3 and not (out / "midline.nc").exists()
    assert reported[-1] == ("reconstructing", 3, FRAMES)
    assert reconstruct(Job(recording, out, SETTINGS), quiet) == out / "midline.nc"
    return out


def test_the_error_of_a_clean_recording(recording: Path, result: Path) -> None:
    figures = evaluate_truth(result, recording / "truth.nc").summary()
    assert figures["frames"] == FRAMES and figures["lost"] == 0 and figures["swapped"] == 0
    assert figures["midline_px"] < 0.3
    assert figures["ends_px"] < 2.5


def test_the_result_keeps_its_word(result: Path) -> None:
    found = open_result(result)
    assert dict(found.sizes) == {
        "time": FRAMES, "space": 3, "keypoint": 128, "individual": 1, "camera": 3, "image": 2, "bishop": 2, "axis": 3,
        "end": 2,
    }  # fmt: skip
    assert set(found.status.values.tolist()) <= {"ok", "suspect"}
    for name, variable in found.data_vars.items():
        if name not in ("status", "reason", "edited"):
            assert np.isfinite(variable.values).all(), name
    steps = np.linalg.norm(np.diff(found.position.values[..., 0], axis=2), axis=1)
    assert np.allclose(steps.sum(1), found.length.values, rtol=1e-3)
    assert steps.max() / steps.min() < 1.05
    across, along = found.sigma_across.values, found.sigma_along.values
    assert across.min() > 0 and across[:, 60].max() < 0.02, "mm: a clean recording is known to a pixel and better"
    assert (along.mean(0)[[0, -1]] > along.mean(0)[64]).all(), "ends are the least sure along the body"
    xr.testing.assert_identical(found.load(), xr.load_dataset(result / "midline.nc"))


def test_a_resumed_run_gives_what_one_run_gives(recording: Path, result: Path, tmp_path: Path) -> None:
    reconstruct(Job(recording, tmp_path / "out", SETTINGS), quiet)
    one, two = open_result(tmp_path / "out"), open_result(result)
    for name in ("position", "projection", "curvature", "length", "sigma", "iota", "rho", "shift", "loss"):
        assert np.allclose(one[name].values, two[name].values, rtol=1e-6, atol=1e-7), name


@pytest.mark.long
def test_a_run_ahead_of_its_judgement_gives_the_same_and_is_resumed(
    recording: Path, result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, but here."""
    monkeypatch.setattr(walk, "track_directions", follow_directions)

    def interrupt(doing: str, done: int, total: int) -> None:
        if doing == "reconstructing" and done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reconstruct(Job(recording, tmp_path / "out", SETTINGS), interrupt)
    assert (open_result(tmp_path / "out").status == "pending").sum() == FRAMES - 5
    reconstruct(Job(recording, tmp_path / "out", SETTINGS), quiet)
    one, two = open_result(tmp_path / "out"), open_result(result)
    assert one.status.values.tolist() == two.status.values.tolist()
    assert np.linalg.norm(one.projection.values - two.projection.values, axis=-1).max() < 0.1
    for name in ("length", "sigma", "iota", "rho", "loss", "loss_pixels", "loss_temporal"):
        assert np.allclose(one[name].values, two[name].values, rtol=1e-2, atol=1e-3), name


def test_a_finished_run_is_not_done_again(recording: Path, result: Path) -> None:
    reported: list[str] = []
    reconstruct(Job(recording, result, SETTINGS), lambda doing, done, total: reported.append(doing))
    assert not reported


def test_another_part_is_refused_before_the_crops_are_lost(recording: Path, result: Path) -> None:
    before = (result / "crops" / "crops.npy").stat().st_mtime_ns
    with pytest.raises(InputError, match=f"frames 0:{FRAMES}, not 1:3"):
        reconstruct(Job(recording, result, SETTINGS, frames=(1, 3)), quiet)
    assert (result / "crops" / "crops.npy").stat().st_mtime_ns == before


def test_a_single_frame(recording: Path, tmp_path: Path) -> None:
    reconstruct(Job(recording, tmp_path, SETTINGS, frames=(2, 3)), quiet)
    evaluation = evaluate_truth(tmp_path, recording / "truth.nc")
    assert evaluation.frames.tolist() == [2] and not evaluation.lost.any()
    assert evaluation.summary()["midline_px"] < 0.8


def test_a_picture_of_the_result(result: Path, tmp_path: Path) -> None:
    frame = telling_frame(result)
    assert frame is not None
    picture = read_frame(result, frame)
    worm = picture.images > 0.3
    assert picture.render.shape == picture.images.shape
    # Rendered anew from what the result keeps, the worm is where it is in the pictures.
    assert np.abs(picture.residual[worm]).mean() < 0.25 * picture.images[worm].mean()
    assert frame_figure(result, frame, tmp_path / "some" / "frame.png").stat().st_size > 20_000
