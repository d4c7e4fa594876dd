"""The commands kinematics and export: what they write, say and refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import curves
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from test_cli import Command, midline3d, refused  # noqa: F401
from test_export import made
from test_kinematics_motion import crawler

from midline3d.kinematics import Options, of, write
from midline3d.store import FrameResult, Header, Result
from midline3d.world import world_of


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawling animal as a result, its calibration beside it, a suspect frame in it."""
    folder = made(tmp_path_factory.mktemp("calibration") / "out", None)
    place = tmp_path_factory.mktemp("result") / "out"
    header = Header(tuple(range(5, 105)), curves.FPS, ("cam0", "cam1", "cam2"), 128)
    with Result.create(place, header) as result:
        for frame, points in zip(header.frames, crawler(100), strict=True):
            found = FrameResult(
                "suspect" if frame == 50 else "ok", points, np.ones(128), np.ones((3, 128, 2)), length=1.0
            )
            result.append(frame, found)
        result.consolidate()
    (place / "calibration.json").write_bytes((folder / "calibration.json").read_bytes())
    return place


def test_kinematics(out: Path, midline3d: Command, refused: Callable[..., str], tmp_path: Path) -> None:  # noqa: F811
    run = midline3d("kinematics", out, "-o", tmp_path, "--without-suspect", "--draws", "2")
    assert run.status == 0 and "forward_speed" in run.out and "kinematics.nc" in run.out and "Traceback" not in run.err
    reported = xr.load_dataset(tmp_path / "kinematics.nc")
    assert np.isnan(reported.speed.values[45]) and reported.frame.values[45] == 50
    assert float(reported.forward_speed.mean()) == pytest.approx(0.3, rel=0.02)
    table = pd.read_csv(tmp_path / "kinematics.csv")
    assert len(table) == 100 and {"speed_std", "velocity_z_std", "planarity_std"} <= set(table.columns)
    assert "whole number from 0" in refused("kinematics", out, "--draws", "-3")
    assert {"kinematics-runs.csv", "kinematics-turns.csv"} < {place.name for place in tmp_path.iterdir()}
    places = write(reported.drop_dims(["run", "turn"]), tmp_path)
    assert set(places.values()) == set(tmp_path.iterdir()) and len(places) == 3
    run = midline3d("kinematics", out, "--window", "100")
    assert run.status == 2 and "window of the kinematics is 100 s, but the recording lasts 4 s (100 frames)" in run.err
    run = midline3d("kinematics", out / "midline.nc", "--window", "0.6", "--draws", "0", "--json")
    figures = json.loads(run.out)
    assert figures["summary"]["speed"]["units"] == "mm/s" and figures["summary"]["frequency"]["values"] >= 0
    assert "15 frames (0.6 s)" in xr.load_dataset(out / "kinematics.nc").speed.attrs["smoothing"]


def test_whether_deviations_hold(out: Path, midline3d: Command) -> None:  # noqa: F811
    """Of a result that is its own truth, but for the steps at which its points are put."""
    run = midline3d("evaluate", out, "--truth", out / "midline.nc", "--kinematics", "--json")
    assert run.status == 0, run.err
    figures = json.loads(run.out)
    assert figures["forward_speed"]["values"] > 90 and figures["forward_speed"]["mean_z2"] < 4
    assert figures["length"]["within"].keys() == {"68", "95"}
    assert "mean z²" in midline3d("evaluate", out, "--truth", out / "midline.nc", "--kinematics").out


def test_a_frame_of_another_day(out: Path, midline3d: Command, refused: Callable[..., str], tmp_path: Path) -> None:  # noqa: F811
    """The world of a recording.toml that got its [frame] later; its videos need not be there."""
    tables = "".join(f'[[cameras]]\nname = "cam{n}"\nsource = "cam{n}.avi"\n' for n in range(3))
    text = f'calibration = "c.json"\n{tables}'
    (tmp_path / "recording.toml").write_text(text, encoding="utf-8")
    assert "has no [frame]" in refused("kinematics", out, "--frame", tmp_path)
    (tmp_path / "recording.toml").write_text(
        text + "[frame]\nup = [0, 1, 0]\nheading = [1, 0, 0]\norigin = [1, 2, 3]\n", encoding="utf-8"
    )
    assert midline3d("kinematics", out, "--frame", tmp_path, "-o", tmp_path, "--draws", "0").status == 0
    reported, plain = xr.load_dataset(tmp_path / "kinematics.nc"), of(out, Options(draws=0))
    turned = plain.velocity.values @ np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]]).T
    assert reported.velocity.values == pytest.approx(turned, abs=1e-9) and "elevation" in reported
    assert midline3d("export", out, "--to", "movement", "--frame", tmp_path, "-o", tmp_path / "a.nc").status == 0
    applied = xr.load_dataset(tmp_path / "a.nc").attrs["applied_frame"]
    assert world_of({"frame": applied}).origin.tolist() == [1, 2, 3]
    assert "leave one out" in refused("kinematics", out, "--frame", tmp_path, "--no-frame")


def test_export(out: Path, midline3d: Command, tmp_path: Path) -> None:  # noqa: F811
    run = midline3d("export", out, "--to", "csv", "--to", "mat", "-o", tmp_path, "--json")
    assert run.status == 0, run.err
    assert json.loads(run.out)["files"] == {"csv": str(tmp_path / "midline.csv"), "mat": str(tmp_path / "midline.mat")}
    assert len(pd.read_csv(tmp_path / "midline.csv")) == 100 * 128
    run = midline3d("export", out, "--to", "csv", "--wide", "--keypoints", 3, "--without-suspect")
    assert str(out / "export" / "midline-wide.csv") in run.out
    table = pd.read_csv(out / "export" / "midline-wide.csv")
    assert table.columns[-1] == "z_127" and np.isnan(table.x_0[45]) and table.x_0.notna().sum() == 99


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--to", "csv", "--to", "nwb"), "--start"),
        (("--to", "nwb", "--start", "yesterday"), "--start is 'yesterday'"),
        (("--to", "nwb", "--start", "2025-03-31T14:00:00"), "without its time zone"),
        (("--to", "csv", "--to", "wcon", "-o", "a.csv"), "give a folder"),
        (("--to", "xls"), "xls"),
        ((), "--to"),
        (("--to", "csv", "--keypoints", "1"), "give 2 to 128"),
    ],
)
def test_what_cannot_be_exported_is_said(
    out: Path,
    refused: Callable[..., str],  # noqa: F811
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(out.rglob("*"))
    assert words in refused("export", out, *arguments)
    assert set(out.rglob("*")) == before and not list(tmp_path.iterdir())


def test_no_result_is_said(refused: Callable[..., str], tmp_path: Path) -> None:  # noqa: F811
    for command in (("kinematics",), ("export", "--to", "csv")):
        assert "is no result" in refused(command[0], tmp_path, *command[1:])
    assert "window" in refused("kinematics", made(tmp_path / "out"), "--window", "-1")
