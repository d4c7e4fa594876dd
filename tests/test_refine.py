"""A calibration that is wrong by ten pixels: midlines as good as with a right one, and a better calibration."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

from midline3d import InputError, Plan, Settings, evaluate_truth, load_calibration, simulate
from midline3d.cameras import Cameras, project, triangulate
from midline3d.refine import Refinement, refine_cameras, spread_frames
from midline3d.tracking.reconstruct import Job, reconstruct

FRAMES = 6
SETTINGS = replace(Settings(), start=replace(Settings().start, pairs=1, apart=2, starts=4))
DIRECTIONS = ((1.0, 0.0), (-0.6, 0.8), (0.0, -1.0))
"""In which each view is wrong by 10 px; every one is also turned by half a degree, to and fro."""


def quiet(doing: str, done: int, total: int) -> None:
    pass


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = simulate(
        tmp_path_factory.mktemp("clean"), Plan("clean", FRAMES, size=384, px_per_mm=115.0, seed=0, source="npy")
    )
    content = json.loads((folder / "calibration.json").read_text(encoding="utf-8"))
    (folder / "true.json").write_text(json.dumps(content), encoding="utf-8")
    for index, (camera, way) in enumerate(zip(content["cameras"], DIRECTIONS, strict=True)):
        angle = (-1) ** index * np.radians(0.5)
        turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
        camera["rotation"] = (turn @ camera["rotation"]).tolist()
        per_px = camera["translation"][2] / camera["matrix"][0][0]
        camera["translation"] = (np.array(camera["translation"]) + 10 * per_px * np.array([*way, 0.0])).tolist()
    (folder / "calibration.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def result(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("result")
    reconstruct(Job(recording, out, SETTINGS), quiet)
    return out


@pytest.fixture(scope="module")
def refinement(recording: Path, result: Path) -> Refinement:
    return refine_cameras(Job(recording, result, replace(SETTINGS, refine=replace(SETTINGS.refine, frames=5))), quiet)


def test_midlines_are_as_good_as_with_a_right_calibration(recording: Path, result: Path) -> None:
    figures = evaluate_truth(result, recording / "truth.nc").summary()
    assert figures["lost"] == 0 and figures["swapped"] == 0
    assert figures["midline_px"] < 0.3
    assert figures["ends_px"] < 2.5
    assert figures["head_confidence"] > 0.5


def test_the_new_calibration_is_right_up_to_the_world_it_is_told_in(recording: Path, refinement: Refinement) -> None:
    right = load_calibration(recording / "true.json").to_cameras()
    points = 0.4 * torch.rand(50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 0.2

    def missed(cameras: Cameras) -> float:
        """px by which views miss each other that really see the same point."""
        seen = project(right, points[:, None])[:, :, 0]
        found = project(cameras, triangulate(cameras, seen)[:, None])[:, :, 0]
        return float((found - seen).square().sum(-1).mean().sqrt())

    assert missed(load_calibration(recording / "calibration.json").to_cameras()) > 4
    assert missed(refinement.calibration.to_cameras()) < 0.5


def test_what_it_reports(refinement: Refinement) -> None:
    assert len(refinement.frames) == 5 and list(refinement.cameras) == ["cam0", "cam1", "cam2"]
    for change in refinement.cameras.values():
        assert change.before > 4 and change.after < 0.3
        assert 1 < change.mean <= change.largest < 20
    assert json.loads(json.dumps(refinement.summary()))["cameras"]["cam1"]["after"] < 0.3
    assert refinement.table().row_count == 3


def along(places: list[float], status: list[str]) -> xr.Dataset:
    position = np.zeros((len(places), 3, 4, 1))
    position[:, 0] = np.array(places)[:, None, None]
    names = ("time", "space", "keypoint", "individual")
    return xr.Dataset({"position": (names, position), "status": (("time",), status)})


def test_frames_fill_the_volume() -> None:
    places = [0.0, 0.1, 0.2, 5.0, 5.1, 9.9, 10.0, 99.0]
    chosen = spread_frames(along(places, ["ok"] * 7 + ["suspect"]), 3)
    assert chosen.tolist() == [0, 3, 6]
    assert spread_frames(along(places, ["ok"] * 8), 100).tolist() == list(range(8))
    with pytest.raises(InputError, match="1 frame"):
        spread_frames(along(places, ["ok"] + ["lost"] * 7), 3)
