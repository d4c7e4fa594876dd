"""Measures of a result, on curves whose errors are known beforehand."""

import io
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from rich.console import Console

from midline3d.errors import InputError
from midline3d.evaluate import (
    Click,
    agreement,
    distance_to_polyline,
    evaluate_annotations,
    evaluate_truth,
    read_clicks,
    rigid_distance,
    write_clicks,
)
from midline3d.evaluate.agreement import agreement_table
from midline3d.evaluate.annotation_figure import draw_annotations
from midline3d.store import FrameResult, Header, Result

CAMERAS = ("cam0", "cam1")
N = 33


def turned(points: np.ndarray, seed: int) -> np.ndarray:
    """Points after a random rotation and translation."""
    q, r = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    q[:, 0] *= np.sign(np.linalg.det(q))
    return points @ q.T + [0.3, -2.0, 5.0]


def hook() -> np.ndarray:
    """A midline (keypoint, 3) of equal steps that is unlike its mirror image and its reverse, mm."""
    s = np.linspace(0, 1, N)
    fine = np.linspace(0, 1, 4000)
    curve = np.stack([np.cos(4 * fine**1.5), np.sin(4 * fine**1.5), 0.5 * fine**2], -1) / 4
    way = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=-1))])
    return np.stack([np.interp(s * way[-1], way, axis) for axis in curve.T], -1)


def dataset(points: np.ndarray, pixels: np.ndarray, first: int = 0, status: list[str] | None = None) -> xr.Dataset:
    """A result of points (frame, keypoint, 3) and pixels (frame, camera, keypoint, 2)."""
    frames = first + np.arange(len(points))
    found = xr.Dataset(
        {
            "position": (("time", "space", "keypoint", "individual"), points.transpose(0, 2, 1)[..., None]),
            "projection": (("time", "camera", "keypoint", "image"), pixels),
        },
        coords={"time": frames / 25.0, "frame": ("time", frames), "camera": list(CAMERAS)},
        attrs={"fps": 25.0},
    )
    return found if status is None else found.assign(status=("time", np.array(status, dtype=object)))


def straight(frames: int) -> tuple[np.ndarray, np.ndarray]:
    """A worm lying along u, 100 px long, in both cameras."""
    points = np.repeat(hook()[None], frames, 0)
    line = np.stack([100 + np.linspace(0, 100, N), np.full(N, 50.0)], -1)
    return points, np.broadcast_to(line, (frames, 2, N, 2)).copy()


def test_truth_against_itself_is_perfect() -> None:
    truth = dataset(*straight(4))
    found = evaluate_truth(truth, truth)
    figures = found.summary()
    assert figures["frames"] == 4 and figures["lost"] == 0 and figures["swapped"] == 0
    for name in ("midline_px", "ends_px", "length_percent"):
        assert figures[name] == pytest.approx(0, abs=1e-9)
    assert figures["shape_percent"] == pytest.approx(0, abs=1e-5)


def test_distances_in_the_picture() -> None:
    points, pixels = straight(3)
    moved = pixels.copy()
    moved[:, 0, :, 1] += 4.0  # across, in one camera
    moved[:, 1, :, 0] += 10.0  # along, in the other: only what sticks out is off the line
    found = evaluate_truth(dataset(points, moved), dataset(points, pixels))
    assert found.midline[:, 0] == pytest.approx(4.0)
    beyond = np.maximum(np.linspace(0, 100, N) - 90, 0).mean()
    assert found.to_truth[:, 1] == pytest.approx(beyond) and found.from_truth[:, 1] == pytest.approx(beyond)
    assert found.head == pytest.approx(np.tile([4.0, 10.0], (3, 1)))
    assert found.summary()["cameras"]["cam1"]["tail_px"] == pytest.approx(10)


def test_shape_ignores_where_the_worm_is_and_knows_its_mirror_image() -> None:
    curve = hook()
    pixels = straight(1)[1]
    moved = evaluate_truth(dataset(turned(curve, 1)[None], pixels), dataset(curve[None], pixels))
    assert moved.shape[0] == pytest.approx(0, abs=1e-5)
    mirrored = evaluate_truth(dataset((curve * [1, 1, -1])[None], pixels), dataset(curve[None], pixels))
    assert mirrored.shape[0] > 1


def test_shape_error_of_a_longer_worm() -> None:
    s = np.linspace(-0.5, 0.5, N)
    line = np.stack([s, 0 * s, 0 * s], -1)
    pixels = straight(1)[1]
    found = evaluate_truth(dataset((1.1 * line)[None], pixels), dataset(line[None], pixels))
    assert found.length[0] == pytest.approx(10)
    even = np.linspace(-0.5, 0.5, 128)
    assert found.shape[0] == pytest.approx(100 * 0.1 * np.sqrt(np.mean(even**2)), rel=1e-6)


def test_polyline_distance_against_dense_sampling() -> None:
    rng = np.random.default_rng(0)
    line, points = rng.normal(size=(9, 2)), rng.normal(size=(40, 2))
    dense = np.concatenate([a + np.linspace(0, 1, 3000)[:, None] * (b - a) for a, b in pairwise(line)])
    expected = np.linalg.norm(points[:, None] - dense, axis=-1).min(1)
    assert distance_to_polyline(points, line) == pytest.approx(expected, abs=2e-3)
    assert distance_to_polyline(line[:1], np.repeat(line[:1], 3, 0)) == pytest.approx(0)


def test_rigid_distance_is_the_least() -> None:
    rng = np.random.default_rng(4)
    a = rng.normal(size=(20, 3))
    b = turned(a, 2) + 0.1 * rng.normal(size=(20, 3))
    best = rigid_distance(a, b)
    for trial in range(50):
        rotated = turned(a, trial + 10)
        rotated += b.mean(0) - rotated.mean(0)
        assert best <= np.sqrt(np.square(rotated - b).sum(-1).mean())
    assert best == pytest.approx(0.1 * np.sqrt(3), rel=0.25)


def test_swapped_lost_and_partial() -> None:
    points, pixels = straight(6)
    truth = dataset(points, pixels)
    seen, shown = points[2:].copy(), pixels[2:].copy()
    seen[1], shown[1] = seen[1, ::-1], shown[1, :, ::-1]
    seen[2] = np.nan
    shown[2] = np.nan
    found = evaluate_truth(dataset(seen, shown, first=2, status=["ok", "ok", "ok", "lost"]), truth)
    assert found.frames.tolist() == [2, 3, 4, 5]
    assert found.swapped.tolist() == [False, True, False, False]
    assert found.lost.tolist() == [False, False, True, True]
    assert np.isnan(found.midline[2:]).all() and found.midline[:2] == pytest.approx(0)
    assert found.summary()["head_px"] == pytest.approx(50), "the swapped frame's head is 100 px off"


def test_frames_are_matched_by_time_where_they_are_not_numbered() -> None:
    points, pixels = straight(5)
    late = dataset(points[3:], pixels[3:], first=3).drop_vars("frame")
    assert evaluate_truth(late, dataset(points, pixels)).frames.tolist() == [3, 4]


def test_a_growing_result(tmp_path: Path) -> None:
    points, pixels = straight(5)
    truth = dataset(points, pixels)
    with Result.create(tmp_path, Header(frames=tuple(range(5)), fps=25.0, cameras=CAMERAS, keypoints=N)) as result:
        result.append(0, FrameResult("ok", position=points[0], projection=pixels[0] + [0, 3.0]))
        result.append(1, FrameResult("lost"))
    found = evaluate_truth(tmp_path, truth)
    assert found.frames.tolist() == [0, 1] and found.lost.tolist() == [False, True]
    assert found.summary()["midline_px"] == pytest.approx(3.0, rel=1e-5)


def test_a_result_that_found_nothing() -> None:
    points, pixels = straight(2)
    nothing = evaluate_truth(dataset(points * np.nan, pixels * np.nan), dataset(points, pixels))
    assert nothing.summary()["lost"] == 2 and nothing.summary()["midline_px"] is None
    assert "NaN" not in json.dumps(nothing.summary())
    assert "-" in rendered(nothing.table())


def rendered(table: object) -> str:
    console = Console(width=100, record=True, quiet=False, file=io.StringIO())
    console.print(table)
    return console.export_text()


def test_tables_are_for_people() -> None:
    points, pixels = straight(2)
    text = rendered(evaluate_truth(dataset(points, pixels + np.array([0, 1.5])), dataset(points, pixels)).table())
    assert "1.50 px" in text and "cam1" in text and "2 frames, 0 lost" in text


def test_what_is_no_truth_is_told_what_one_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("none")
    xr.Dataset({"position": ("time", [1.0])}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    for name in ("notes.txt", "other.nc", "nowhere", "."):
        with pytest.raises(InputError, match=r"is no truth; give truth\.nc of a simulated recording"):
            evaluate_truth(dataset(*straight(3)), tmp_path / name)


def test_clicks_beyond_the_result_are_told_its_frames(tmp_path: Path) -> None:
    clicks = tmp_path / "clicks.csv"
    clicks.write_text("frame,camera,u,v\n900,cam0,10,10\n")
    with pytest.raises(InputError, match="frame 900 is not among the result's, which has frames 0 to 2"):
        evaluate_annotations(dataset(*straight(3)), clicks)
    clicks.write_text("frame,camera,u,v\n900,cam0,10,10\n0,cam0,10,10\n")
    with pytest.warns(UserWarning, match="1 click on other frames left out"):
        evaluate_annotations(dataset(*straight(3)), clicks)


def test_unlike_recordings_are_refused() -> None:
    points, pixels = straight(2)
    truth = dataset(points, pixels)
    with pytest.raises(InputError, match="no frame in common"):
        evaluate_truth(dataset(points, pixels, first=100), truth)
    with pytest.raises(InputError, match="left, right"):
        evaluate_truth(truth.assign_coords(camera=["left", "right"]), truth)
    with pytest.raises(InputError, match="has no 'projection'"):
        evaluate_truth(truth.drop_vars("projection"), truth)


CLICKS = """frame,camera,u,v,label
0,cam0,103,54,head
0,cam0,200,52,tail
1,cam1,100,50,head
7,cam1,100,50,head
"""


def test_annotations(tmp_path: Path) -> None:
    path = tmp_path / "clicks.csv"
    path.write_text(CLICKS)
    points, pixels = straight(3)
    found = evaluate_annotations(dataset(points, pixels), path)
    assert found.distance == pytest.approx([5, 2, 0, np.nan], nan_ok=True)
    figures = found.summary()
    assert figures["head_px"] == pytest.approx(2.5) and figures["tail_px"] == pytest.approx(2)
    assert figures["head_clicks"] == 2 and figures["without_result"] == 1 and not figures["swapped"]
    backwards = evaluate_annotations(dataset(points[:, ::-1], pixels[:, :, ::-1]), path)
    assert backwards.swapped and backwards.summary()["head_px_if_swapped"] == pytest.approx(2.5)
    assert "exchanged" in rendered(backwards.tables()[0])


def clicked(path: Path, clicks: list[Click]) -> Path:
    write_clicks(path, clicks)
    return path


def test_unordered_clicks_both_ways_along_the_body(tmp_path: Path) -> None:
    """Clicks every 10 px, 2 px beside the midline, in no order, and one 8 px beyond the tail."""
    points, pixels = straight(3)
    u = np.random.default_rng(3).permutation(np.arange(100, 201, 10.0))
    clicks = [Click(0, "cam0", x, 52.0) for x in u] + [Click(0, "cam0", 208.0, 50.0), Click(2, "cam1", 150.0, 53.0)]
    found = evaluate_annotations(dataset(points, pixels), clicked(tmp_path / "clicks.csv", clicks))
    assert found.to_midline == pytest.approx([2.0] * 11 + [8.0, 3.0])
    # The hook's keypoints lie at equal steps along the body, and so do these on the straight line.
    assert found.place == pytest.approx([*((u - 100) / 100), 1.0, 0.5], abs=1e-3)
    along = np.linspace(0, 100, N)
    away = np.hypot(2, np.abs(along[:, None] - np.arange(0, 101, 10)).min(1))
    assert found.to_clicks[0] == pytest.approx(np.minimum(away, np.hypot(108 - along, 0)), abs=1e-9)
    assert np.isnan(found.to_clicks[1]).all(), "a single click does not outline the body"
    figures = found.summary()
    assert figures["images"] == 2 and figures["clicks_to_midline_px"] == pytest.approx(0.5 * (30 / 12 + 3))
    ends = figures["regions"]["tail end"]
    assert ends["clicks_to_midline_px"] == pytest.approx(5) and ends["clicks_to_midline_count"] == 2
    assert figures["regions"]["body"]["clicks_to_midline_px"] == pytest.approx(21 / 10)
    assert figures["head_px"] is None and "8" in rendered(found.tables()[0])
    rows = found.rows()
    assert len(rows) == 20 and rows[-1]["clicks_to_midline_std_px"] == pytest.approx(np.std([2, 8], ddof=1))
    json.dumps(figures, allow_nan=False)


def test_the_validation_as_figure_and_table(tmp_path: Path) -> None:
    points, pixels = straight(2)
    clicks = [Click(frame, "cam0", x, 51.0) for frame in (0, 1) for x in np.arange(100, 201, 5.0)]
    found = evaluate_annotations(dataset(points, pixels), clicked(tmp_path / "clicks.csv", clicks))
    found.write_table(tmp_path / "along.csv")
    head, *rows = (tmp_path / "along.csv").read_text().splitlines()
    assert head.startswith("place,clicks_to_midline_px") and len(rows) == 20 and rows[3].split(",")[1] == "1.0"
    draw_annotations(found, tmp_path / "along.png")
    assert (tmp_path / "along.png").stat().st_size > 10_000
    nothing = evaluate_annotations(dataset(points * np.nan, pixels * np.nan), tmp_path / "clicks.csv")
    draw_annotations(nothing, tmp_path / "nothing.png")
    assert nothing.summary()["clicks_to_midline_px"] is None and "42 of 42" in rendered(nothing.tables()[0])


def test_how_well_people_agree(tmp_path: Path) -> None:
    """Both click along the same arc, at other places and in another order, one of them 1.5 px further out."""
    angle = np.linspace(0, 3, 25)
    ada = [Click(0, "cam0", 50 * np.cos(a), 50 * np.sin(a), "head" if a == 0 else "", "ada") for a in angle]
    turned_angle = np.random.default_rng(1).permutation(np.linspace(0, 3, 31))
    bob = [Click(0, "cam0", 51.5 * np.cos(a), 51.5 * np.sin(a), "head" if a == 0 else "", "bob") for a in turned_angle]
    alone = [Click(1, "cam0", 3.0, 4.0, "", "bob")]
    (pair,) = agreement(read_clicks(clicked(tmp_path / "clicks.csv", ada + bob + alone)))
    assert pair.people == ("ada", "bob") and pair.images == 1 and len(pair.line) == 56
    assert pair.line == pytest.approx(1.5, abs=0.12) and pair.head == pytest.approx([1.5], abs=1e-3)
    assert "ada and bob" in rendered(agreement_table([pair])) and pair.summary()["tail_px"] is None


def test_clicks_come_back_as_they_were_written(tmp_path: Path) -> None:
    clicks = [Click(3, "cam1", 12.125, 0.5, "tail", "Ada, L."), Click(3, "cam1", 1.0, 2.0)]
    assert read_clicks(clicked(tmp_path / "clicks.csv", clicks)) == clicks
    (tmp_path / "bare.csv").write_text("frame,camera,u,v\n3,cam1,1,2\n")
    assert read_clicks(tmp_path / "bare.csv") == clicks[1:]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("frame,camera,u,label\n0,cam0,1,head\n", "column 'v'"),
        ("frame,camera,u,v,label\n0,cam9,1,2,head\n", "line 2: the camera is 'cam9'"),
        ("frame,camera,u,v,label\n0,cam0,1,2,head\n0,cam0,1,2,nose\n", "line 3: the label is 'nose'"),
        ("frame,camera,u,v,label\n0,cam0,one,2,head\n", "line 2: .* not a number"),
        ("frame,camera,u,v,label\n0,cam0,nan,2,\n", "line 2: u, v is nan"),
    ],
)
def test_faulty_clicks_are_named(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "clicks.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=named):
        evaluate_annotations(dataset(*straight(1)), path)
    with pytest.raises(InputError, match="cannot be read"):
        evaluate_annotations(dataset(*straight(1)), tmp_path / "none.csv")
