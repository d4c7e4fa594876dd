"""The benchmark: what it counts, what it sums up, and one tiny run of it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from midline3d.errors import InputError
from midline3d.population import Exam, Summary, benchmark
from midline3d.population.coverage import pooled
from midline3d.population.score import Frames, score
from midline3d.settings import Settings

QUICK = replace(
    Settings(),
    start=replace(Settings().start, pairs=1, apart=2, starts=5),
    body=replace(Settings().body, stretch=0.0),
)


def recording(frames: int = 8, shift: float = 0.0, short: float = 0.0) -> tuple[xr.Dataset, xr.Dataset]:
    """A straight worm of 100 px in two views; the result lies `shift` px beside it, `short` px short of its head."""
    u = np.linspace(100, 200, 128)
    line = np.stack([u, np.full(128, 150.0)], -1)
    found = np.stack([np.linspace(100 + short, 200, 128), np.full(128, 150.0 + shift)], -1)
    coords = {"time": np.arange(frames) / 25, "frame": ("time", np.arange(frames)), "camera": ["cam0", "cam1"]}
    flags = np.zeros((frames, 2), dtype=bool)
    truth = xr.Dataset(
        {
            "projection": (("time", "camera", "keypoint", "image"), np.tile(line, (frames, 2, 1, 1))),
            "length": (("time",), np.ones(frames)),
            "inside": (("time", "camera"), np.ones((frames, 2))),
            "unreadable": (("time", "camera"), flags),
        },
        coords=coords,
    )
    result = xr.Dataset(
        {
            "projection": (("time", "camera", "keypoint", "image"), np.tile(found, (frames, 2, 1, 1))),
            "length": (("time",), np.full(frames, 1 - short / 100)),
            "confidence": (("time", "keypoint", "individual"), np.full((frames, 128, 1), 0.95)),
            "status": (("time",), np.full(frames, "ok", dtype=object)),
        },
        coords=coords,
    )
    return result, truth


def test_errors_are_signed_along_the_body() -> None:
    figures = score(*recording(shift=0.5, short=3.0)).summary()
    assert figures["head_px"] == pytest.approx(-3) and figures["tail_px"] == pytest.approx(0)
    # From the truth to the result, the last 3 px count with their distance to its end.
    assert figures["midline_px"] == pytest.approx(0.52, abs=0.02)
    assert figures["ends_px"] == pytest.approx(0.5 * (np.hypot(3, 0.5) + 0.5))
    assert figures["length_percent"] == pytest.approx(-3)
    assert figures["hidden"] == figures["lost"] == figures["alarms"] == 0 and not figures["swapped"]
    assert np.array(figures["reliability"])[9] == pytest.approx([1024, 1024 * 0.5, 0], rel=0.01)


def test_head_and_tail_exchanged_are_counted_and_nothing_else() -> None:
    result, truth = recording(short=2.0)
    result["projection"] = result.projection.isel(keypoint=slice(None, None, -1))
    figures = score(result, truth).summary()
    assert figures["swapped"] and figures["flipped"] == 8 and figures["head_px"] == pytest.approx(-2)


def test_wrong_frames_lost_frames_and_alarms() -> None:
    result, truth = recording()
    projection, status = result.projection.values, result.status.values
    projection[0] += 5  # wrong and called ok
    projection[1, :, 0, 0] -= 9  # an end is wrong and the frame is called suspect
    status[1] = "suspect"
    projection[2] = np.nan
    status[2] = "lost"
    status[3] = "suspect"  # and right
    figures = score(result, truth).summary()
    assert (figures["wrong"], figures["hidden"], figures["lost"], figures["alarms"]) == (2, 1, 1, 1)
    fewer = score(result.isel(time=slice(0, 6)), truth).summary()
    assert fewer["lost"] == 3, "frames that the result does not have are lost"


def test_a_worm_that_cannot_be_seen_is_not_lost_and_must_not_be_found() -> None:
    result, truth = recording()
    truth.inside.values[:4] = 0  # in no view
    truth.inside.values[4, 0] = 0.5  # half of it, in one of two
    truth.unreadable.values[5, 1] = True
    projection, status = result.projection.values, result.status.values
    projection[:2] = np.nan
    status[:2] = "lost"
    status[2] = "suspect"
    figures = score(result, truth).summary()
    assert figures["lost"] == 0 and figures["clear"] == 2
    assert figures["hidden"] == 2, "a midline called ok where there is no worm, and where one view alone is readable"
    assert figures["alarms"] == 0 and figures["midline_px"] == pytest.approx(0)


def row(seed: int, midline: float, reason: str | None = None, **more: object) -> dict[str, object]:
    known = {"seed": seed, "family": "plain", "length_px": 100.0, "contrast": 50.0, "noise": 2.0, "reason": reason}
    if reason is not None:
        return known
    figures = score(*recording(frames=2)).summary()
    return known | figures | {"midline_px": midline, "ends_px": 1.0, "head_px": -midline, "seconds": 3.0} | more


def test_summary() -> None:
    rows = [row(index, index / 10) for index in range(1, 10)]
    rows += [row(10, 5.0, hidden=3), row(11, 0, "not done after 600 s"), row(12, 0.9, length_px=40.0)]
    summary = Summary(tuple(rows))
    found = summary.as_dict()
    assert found["goal"] == {"fair": 11, "right": 3, "share": 3 / 11}, "failures count, small worms do not"
    assert found["figures"]["midline_px"]["worst"] == 5.0 and found["figures"]["head_px"]["worst"] == -5.0
    assert found["figures"]["midline_px"]["median"] == pytest.approx(0.6)
    assert found["failed"] == {"11": "not done after 600 s"} and found["families"]["plain"]["hidden"] == 3
    assert found["reliability"][9]["points"] == 11 * 256 and found["reliability"][0]["error_px"] is None
    json.dumps(found)
    assert [table.row_count for table in summary.tables()] == [9, 1, 10, 6, 0]


def test_doubts_are_held_against_what_is_wrong() -> None:
    result, truth = recording(frames=4, shift=3.0)
    result["doubt"] = (("time",), [0.002, 0.2, 0.2, 0.9])
    result["projection"][1] = truth.projection[1]
    row = score(result, truth).summary()
    assert row["doubts"] == [[1, 1, 2], [0, 0, 0], [0, 0, 0], [0, 0, 0], [2, 1, 400], [1, 1, 900]]
    bins = Summary((row | {"reason": None}, row | {"reason": None})).doubts()
    assert bins[4] == {"from": 0.1, "to": 0.3, "frames": 4, "doubt": pytest.approx(0.2), "share_wrong": 0.5}
    assert bins[1]["share_wrong"] is None
    assert not np.any(score(*recording()).summary()["doubts"])  # a result of before has none


def test_coverage_of_errors_that_are_as_large_as_stated() -> None:
    """Errors drawn with the standard deviations that are stated: 68 % lie within one. Twice as large, 38 % do."""
    result, truth = recording(frames=200)
    rng = np.random.default_rng(0)
    truth.attrs["px_per_mm"] = [100.0, 100.0]
    deviation = {"sigma_across": 0.002, "sigma_along": 0.01}
    for name, size in deviation.items():
        result[name] = (("time", "keypoint"), np.full((200, 128), size))
    result["projection"] = truth.projection + 100 * rng.normal(0, [0.01, 0.002], truth.projection.shape)
    right = score(result, truth).summary()["coverage"]
    found = pooled([right, right])
    assert set(found) == {"head", "middle", "tail"}
    for region in found.values():
        for one in region.values():
            assert one["mean_z2"] == pytest.approx(1, abs=0.05)
            for percent, (share, low, high) in one["within"].items():
                assert share == pytest.approx(float(percent), abs=1.5) and low <= share <= high
    result["projection"] = truth.projection + 200 * rng.normal(0, [0.01, 0.002], truth.projection.shape)
    wider = pooled([score(result, truth).summary()["coverage"]])
    assert wider["middle"]["across"]["within"]["68"][0] == pytest.approx(38, abs=1.5)


def test_frames_without_any_midline() -> None:
    result, truth = recording(frames=2)
    result["projection"] = result.projection * np.nan
    found = score(result, truth)
    assert isinstance(found, Frames) and found.summary()["midline_px"] is None and found.summary()["lost"] == 2


def test_halves_share_no_seed() -> None:
    tune, judge = Exam(5, "tune").seeds, Exam(5, "judge").seeds
    assert tune == [0, 2, 4, 6, 8] and judge == [1, 3, 5, 7, 9]


def test_a_tiny_benchmark(tmp_path: Path) -> None:
    exam = Exam(recordings=1, half="judge", frames=3, size=256, limit=300, settings=QUICK)
    summary = benchmark(tmp_path / "out", exam, jobs=1)
    (only,) = summary.rows
    assert only["reason"] is None, only["reason"]
    assert only["lost"] == 0 and only["midline_px"] < 1.0 and only["ends_px"] < 8.0
    assert (tmp_path / "out" / "benchmark.png").stat().st_size > 10_000
    assert not (tmp_path / "out" / "work" / "00001").exists(), "only the row is kept"
    written = (tmp_path / "out" / "rows" / "00001.json").stat().st_mtime_ns
    again = benchmark(tmp_path / "out", exam, jobs=1)
    assert again.rows == summary.rows and (tmp_path / "out" / "rows" / "00001.json").stat().st_mtime_ns == written
    with pytest.raises(InputError, match="frames 3, not 4"):
        benchmark(tmp_path / "out", replace(exam, frames=4))
    with pytest.raises(InputError, match="other settings"):
        benchmark(tmp_path / "out", replace(exam, settings=Settings()))


def test_a_recording_that_takes_too_long_is_a_row(tmp_path: Path) -> None:
    summary = benchmark(tmp_path / "out", Exam(recordings=1, frames=2, size=256, limit=0.2), jobs=1)
    assert summary.rows[0]["reason"] == "not done after 0.2 s" and summary.rows[0]["family"] == "plain"
    assert summary.as_dict()["goal"]["right"] == 0


def test_what_cannot_be_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="family is 'fibres'"):
        benchmark(tmp_path / "out", Exam(family="fibres"))
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "thesis.txt").write_text("")
    with pytest.raises(InputError, match="no benchmark"):
        benchmark(tmp_path / "else")
