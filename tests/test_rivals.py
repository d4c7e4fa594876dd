"""Methods side by side: truths of two kinds, how a condition is counted, and one tiny contest."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from midline3d import InputError, Plan, simulate
from midline3d.rivals import METHODS, Contest, Standing, hold_contest
from midline3d.rivals.run import condition_of
from midline3d.rivals.table import Entry
from midline3d.rivals.truth import read_truth


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings") / "clean-1"
    return simulate(folder, Plan("clean", 3, size=256, px_per_mm=80.0, source="npy"))


def as_arrays(recording: Path, folder: Path) -> Path:
    """The same recording with its truth as another simulator would leave it: arrays beside the folder."""
    folder.mkdir()
    for file in recording.iterdir():
        if file.name != "truth.nc":
            (folder / file.name).write_bytes(file.read_bytes())
    truth = xr.load_dataset(recording / "truth.nc")
    points = truth.position.isel(individual=0).transpose("time", "keypoint", "space").values
    seen = truth.projection.transpose("time", "camera", "keypoint", "image").values
    np.savez(folder.with_name(f"{folder.name}.truth.npz"), projections=seen, points=points, px_per_mm=80.0)
    return folder


def test_truth_of_another_simulator(recording: Path, tmp_path: Path) -> None:
    other, own = read_truth(as_arrays(recording, tmp_path / "tube-1")), read_truth(recording)
    for name in ("projection", "length", "inside", "unreadable", "frame"):
        np.testing.assert_allclose(other[name].values.astype(float), own[name].values.astype(float), rtol=1e-4)
    assert other.camera.values.tolist() == own.camera.values.tolist() and other.attrs["px_per_mm"] == [80.0] * 3


def test_a_truth_that_does_not_fit_is_said(recording: Path, tmp_path: Path) -> None:
    folder = as_arrays(recording, tmp_path / "tube-1")
    file = tmp_path / "tube-1.truth.npz"
    with np.load(file) as kept:
        good = dict(kept)
    for change, said in (
        ({"projections": good["projections"][:, :2]}, r"write \(frame, 3, point, 2\)"),
        ({"points": good["points"][:, :5]}, "its points have the shape"),
    ):
        np.savez(file, **(good | change))
        with pytest.raises(InputError, match=said):
            read_truth(folder)
    np.savez(file, points=good["points"])
    with pytest.raises(InputError, match="has no 'projections'"):
        read_truth(folder)
    file.write_text("midlines")
    with pytest.raises(InputError, match="cannot be read"):
        read_truth(folder)
    file.unlink()
    with pytest.raises(InputError, match=r"has no truth.*tube-1\.truth\.npz"):
        read_truth(folder)


def entry(name: str, method: str, midline: list[float], right: int, **more: Any) -> Entry:
    row = {"frames": 4, "midline": midline, "ends": [2 * value for value in midline], "right": right, "lost": 0}
    return Entry(condition_of(name), name, method, row | {"seconds": 8.0, "reason": None} | more)


def test_conditions_are_pooled_over_their_recordings() -> None:
    failed = Entry("swim", "swim-2", "kwon", {"frames": 4, "reason": "no worm"})
    standing = Standing(
        (
            entry("swim-1", "midline3d", [0.1, 0.2, 0.3, 0.4], 4),
            entry("swim-2", "midline3d", [0.5, 0.6, 9.0], 2, lost=1),
            entry("swim-1", "kwon", [1.0, 1.0, 1.0, 1.0], 4),
            failed,
            entry("coil-1", "kwon", [1.0, 1.0, 1.0, 1.0], 4),
        ),
        METHODS,
        12,
    )
    ours, kwon, other = standing.figures()
    assert (ours["condition"], ours["method"], other["condition"]) == ("swim", "midline3d", "coil")
    assert ours["midline_px"] == pytest.approx(0.4) and ours["midline_worst_px"] == 9.0 and ours["lost"] == 1
    assert ours["right_percent"] == 75 and ours["seconds_per_frame"] == 2 and ours["ends_px"] == pytest.approx(0.8)
    assert kwon["right_percent"] == 50 and kwon["failed"] == 1 and kwon["lost"] == 4, "a run that failed is not right"
    assert [table.row_count for table in standing.tables()] == [2, 1]
    assert standing.csv().splitlines()[1].startswith("swim,midline3d,2,0,8,")
    json.dumps(standing.as_dict())


def test_names_of_conditions() -> None:
    assert [condition_of(name) for name in ("swim-12", "tube-coil_3", "hard", "007")] == [
        "swim", "tube-coil", "hard", "007",
    ]  # fmt: skip


def test_a_tiny_contest_goes_on(recording: Path, tmp_path: Path) -> None:
    """A cheap rival on the same pictures with both kinds of truth: the figures are the same."""
    contest = Contest((recording, as_arrays(recording, tmp_path / "tube-1")), ("paths",), (0, 2))
    found = hold_contest(tmp_path / "out", contest, jobs=1)
    first, second = found.entries
    assert first.row["reason"] is None, first.row["reason"]
    assert first.row["frames"] == 2 and first.row["midline"] == pytest.approx(second.row["midline"], abs=1e-3)
    assert max(first.row["midline"]) < 4 and first.row["seconds"] > 0
    assert not (tmp_path / "out" / "work" / "clean-1.paths").exists(), "only the row is kept"
    written = (tmp_path / "out" / "rows" / "clean-1.paths.json").stat().st_mtime_ns
    again = hold_contest(tmp_path / "out", contest, jobs=1)
    assert again.entries == found.entries
    assert (tmp_path / "out" / "rows" / "clean-1.paths.json").stat().st_mtime_ns == written
    with pytest.raises(InputError, match=r"frames \[0, 2\], not None"):
        hold_contest(tmp_path / "out", replace(contest, frames=None))


def test_a_run_that_takes_too_long_is_not_right(recording: Path, tmp_path: Path) -> None:
    found = hold_contest(tmp_path / "out", Contest((recording,), ("paths",), (0, 2), limit=0.2), jobs=1)
    (figures,) = found.figures()
    assert (
        figures["right_percent"] == 0 and figures["lost"] == 2 and found.entries[0].row["reason"].startswith("not done")
    )


def test_the_slow_method_and_the_first_of_each_condition_come_first(recording: Path, tmp_path: Path) -> None:
    names = ("swim-1", "swim-2", "coil-1")
    contest = Contest(tuple(tmp_path / name / "recording.toml" for name in names), ("kwon", "paper"))
    order = [task.out.name for task in contest.tasks(tmp_path)]
    assert order[:4] == ["swim-1.paper", "coil-1.paper", "swim-1.kwon", "coil-1.kwon"] and len(order) == 6


def test_what_cannot_be_run_is_said(recording: Path, tmp_path: Path) -> None:
    for contest, said in (
        (Contest((recording,), ("magic",)), "the method is 'magic'"),
        (Contest((recording, recording)), "two recordings have the name 'clean-1'"),
        (Contest((recording,), ()), "a method at least"),
        (Contest((recording,), limit=-1.0), "limit is -1 s"),
    ):
        with pytest.raises(InputError, match=said):
            hold_contest(tmp_path / "out", contest)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "thesis.txt").write_text("")
    with pytest.raises(InputError, match="no contest"):
        hold_contest(tmp_path / "else", Contest((recording,)))
