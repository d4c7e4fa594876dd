"""Every format is read back by the library that people will read it with."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.io import loadmat
from scipy.spatial.transform import Rotation

from midline3d import export_result, midlines, open_result
from midline3d.calibration import make_calibration, make_camera, save_calibration
from midline3d.cli.products import Target
from midline3d.errors import InputError
from midline3d.export import FORMATS, Choice
from midline3d.store import FrameResult, Header, Result
from midline3d.world import CALIBRATION, World

FRAMES, KEYPOINTS, CAMERAS, LOST, SUSPECT = range(40, 52), 16, ("cam0", "cam1", "cam2"), 45, 47
WORLD = World(Rotation.from_rotvec([0.3, -1.0, 0.6]).as_matrix(), np.array([1.0, -2.0, 3.0]), "a test")
START = datetime(2025, 3, 31, 14, 0, tzinfo=UTC)


def record(frame: int) -> FrameResult:
    rng = np.random.default_rng(frame)
    if frame == LOST:
        return FrameResult("lost", reason="not located")
    return FrameResult(
        status="suspect" if frame == SUSPECT else "ok",
        reason="length" if frame == SUSPECT else "",
        position=rng.normal(size=(KEYPOINTS, 3)),
        confidence=rng.random(KEYPOINTS),
        projection=rng.uniform(0, 100, size=(3, KEYPOINTS, 2)),
        curvature=rng.normal(size=(KEYPOINTS, 2)),
        length=1.0 + frame / 1000,
        sigma=rng.random(3),
        loss_terms={"pixels": 0.1},
    )


def made(folder: Path, world: World | None = WORLD) -> Path:
    """A small result with a lost frame, a suspect one, and a world of its own."""
    sources = json.dumps({name: str(folder / f"{name}.avi") for name in CAMERAS})
    attributes = {"recording": "trial-037", "sources": sources} | ({} if world is None else {"frame": world.as_json()})
    header = Header(tuple(FRAMES), 25.0, CAMERAS, KEYPOINTS, version="0.1.0", attributes=attributes)
    with Result.create(folder, header) as result:
        for frame in FRAMES:
            result.append(frame, record(frame))
        result.consolidate()
    turns = Rotation.from_euler("y", [[0], [90], [45]], degrees=True).as_matrix()
    matrix = [[1000.0, 0, 50], [0, 1000, 50], [0, 0, 1]]
    cameras = [
        make_camera("t", name, (90, 90), matrix, [0.1, 0, 0, 0, 0], turn, [0, 0, 100.0])
        for name, turn in zip(CAMERAS, turns, strict=True)
    ]
    save_calibration(make_calibration(cameras, "mm", "t"), folder / "calibration.json")
    return folder


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("result") / "out")


@pytest.fixture(scope="module")
def truth(out: Path) -> np.ndarray:
    """(time, keypoint, 3) what should be read, in the world."""
    position = open_result(out).position.isel(individual=0).transpose("time", "keypoint", "space").values
    return (position - WORLD.origin) @ WORLD.rotation.T


def meets(found: np.ndarray, truth: np.ndarray, digits: float = 1e-6) -> None:
    assert found.shape == truth.shape and np.isnan(truth[LOST - FRAMES[0]]).all()
    assert found == pytest.approx(truth, abs=digits, nan_ok=True)


def test_the_command_knows_every_format() -> None:
    assert [target.value for target in Target] == list(FORMATS)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_long_tables(out: Path, truth: np.ndarray, kind: str, tmp_path: Path) -> None:
    path = export_result(out, kind, tmp_path)
    table = pd.read_csv(path) if kind == "csv" else pd.read_parquet(path)
    assert table.frame.unique().tolist() == list(FRAMES) and len(table) == len(FRAMES) * KEYPOINTS
    assert table.keypoint.tolist() == list(range(KEYPOINTS)) * len(FRAMES)
    meets(table[["x", "y", "z"]].to_numpy().reshape(-1, KEYPOINTS, 3), truth)
    result = open_result(out)
    for name in CAMERAS:
        seen = result.projection.sel(camera=name).values.reshape(-1, 2)
        assert table[[f"u_{name}", f"v_{name}"]].to_numpy() == pytest.approx(seen, abs=1e-3, nan_ok=True)
    assert table.time.to_numpy() == pytest.approx(np.repeat(list(FRAMES), KEYPOINTS) / 25)
    assert set(table.status[table.frame == LOST]) == {"lost"} and table.x[table.frame == LOST].isna().all()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_wide_tables(out: Path, truth: np.ndarray, kind: str, tmp_path: Path) -> None:
    path = export_result(out, kind, tmp_path, Choice(wide=True, without=("suspect",)))
    table = pd.read_csv(path) if kind == "csv" else pd.read_parquet(path)
    assert path.name == f"midline-wide.{kind}" and table.frame.tolist() == list(FRAMES)
    columns = [f"{axis}_{place}" for place in range(KEYPOINTS) for axis in "xyz"]
    expected = truth.copy()
    expected[SUSPECT - FRAMES[0]] = np.nan
    meets(table[columns].to_numpy().reshape(-1, KEYPOINTS, 3), expected)
    assert np.isnan(table.length[SUSPECT - FRAMES[0]]) and table.status[SUSPECT - FRAMES[0]] == "suspect"
    assert table.source_frame_cam1.tolist() == list(FRAMES)


def test_blocks_make_one_table(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = export_result(out, "csv", tmp_path / "whole.csv").read_text(encoding="utf-8")
    rows = pd.read_parquet(export_result(out, "parquet", tmp_path / "whole.parquet"))
    names = export_result(out, "anipose", tmp_path / "names.csv").read_text(encoding="utf-8")
    poses = xr.load_dataset(export_result(out, "movement", tmp_path / "whole.nc"))
    monkeypatch.setattr("midline3d.export.material.BLOCK", 5)
    monkeypatch.setattr("midline3d.export.wcon.BLOCK", 5)
    assert export_result(out, "csv", tmp_path / "parts.csv").read_text(encoding="utf-8") == whole
    pd.testing.assert_frame_equal(pd.read_parquet(export_result(out, "parquet", tmp_path / "parts.parquet")), rows)
    assert export_result(out, "anipose", tmp_path / "parts.csv").read_text(encoding="utf-8") == names
    xr.testing.assert_identical(xr.load_dataset(export_result(out, "movement", tmp_path / "parts.nc")), poses)
    entries = json.loads(export_result(out, "wcon", tmp_path).read_text(encoding="utf-8"))["data"]
    assert [len(entry["t"]) for entry in entries] == [5, 5, 2]


def test_anipose(out: Path, truth: np.ndarray, tmp_path: Path) -> None:
    table = pd.read_csv(export_result(out, "anipose", tmp_path))
    for name in ("x", "y", "z", "error", "ncams", "score"):
        assert f"k000_{name}" in table and f"k015_{name}" in table
    assert table.fnum.tolist() == list(FRAMES)
    # As Anipose itself turns points: p = (x - center) M^T.
    turn = table[[f"M_{row}{column}" for row in range(3) for column in range(3)]].to_numpy().reshape(-1, 3, 3)
    centre = table[[f"center_{axis}" for axis in range(3)]].to_numpy()
    reported = table[[f"k{place:03d}_{axis}" for place in range(KEYPOINTS) for axis in "xyz"]].to_numpy()
    reported = reported.reshape(-1, KEYPOINTS, 3)
    meets(reported, truth)
    position = open_result(out).position.isel(individual=0).transpose("time", "keypoint", "space").values
    assert reported @ turn + centre[:, None] == pytest.approx(position, abs=1e-5, nan_ok=True)
    pixels = open_result(out).projection.values
    assert table.k003_ncams.tolist() == (pixels[:, :, 3] <= 89.5).all(-1).sum(1).tolist()


def test_wcon(out: Path, truth: np.ndarray, tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    content = json.loads(export_result(out, "wcon", tmp_path).read_text(encoding="utf-8"))
    number, row = {"type": ["number", "null"]}, {"type": "array", "items": {"type": ["number", "null"]}}
    entry = {
        "type": "object",
        "required": ["id", "t", "x", "y"],
        "properties": {
            "id": {"type": "string"},
            "t": {"type": "array", "items": number},
            "x": {"type": "array", "items": row},
            "y": {"type": "array", "items": row},
            "head": {"enum": ["L", "R", "?"]},
        },
        "patternProperties": {"^@": {}},
        "additionalProperties": False,
    }
    units = {"type": "object", "required": ["t", "x", "y"], "additionalProperties": {"type": "string"}}
    words = {"type": "object", "properties": {"name": {"const": "midline3d"}, "version": {"type": "string"}}}
    software = {"type": "object", "required": ["tracker"], "properties": {"tracker": words}}
    rules = {
        "type": "object",
        "required": ["units", "data"],
        "properties": {
            "tracker-commons": {"const": True},
            "units": units,
            "metadata": {"type": "object", "properties": {"software": software}},
            "data": {"type": "array", "items": entry},
        },
        "patternProperties": {"^@": {}},
        "additionalProperties": False,
    }
    jsonschema.Draft7Validator(rules).validate(content)
    reported = content["data"][0]
    points = np.array([reported["x"], reported["y"], reported["@midline3d"]["z"]], np.float64).transpose(1, 2, 0)
    meets(points, truth)
    assert reported["head"] == "L" and reported["@midline3d"]["frame"] == list(FRAMES)
    assert (
        reported["@midline3d"]["status"][LOST - FRAMES[0]] == "lost"
        and reported["x"][LOST - FRAMES[0]] == [None] * KEYPOINTS
    )
    # Every number beside t, x and y has its unit, as the notation asks.
    numbers = {name for name, values in reported["@midline3d"].items() if not isinstance(values[0], str)}
    assert numbers <= set(content["units"])


def test_movement(out: Path, truth: np.ndarray, tmp_path: Path) -> None:
    for version, keypoint in (("0.17.1", "keypoint"), ("0.15", "keypoints")):
        path = export_result(out, "movement", tmp_path / f"{keypoint}.nc", Choice(movement=version))
        found = xr.load_dataset(path)
        assert found.position.dims[1:3] == ("space", keypoint) and found.attrs["ds_type"] == "poses"
        meets(found.position.values[..., 0].transpose(0, 2, 1), truth)
        assert found.frame.values.tolist() == list(FRAMES) and str(found[keypoint].values[3]) == "k003"
        assert "a test" in found.position.attrs["long_name"] and "frame" not in found.attrs
    with pytest.raises(InputError, match="no version of movement"):
        export_result(out, "movement", tmp_path, Choice(movement="new"))


def test_movement_itself_takes_it(out: Path, tmp_path: Path) -> None:
    validators = pytest.importorskip("movement.validators.datasets")
    from movement.io import load_poses
    from movement.kinematics import compute_velocity

    found = xr.load_dataset(export_result(out, "movement", tmp_path))
    validators.ValidPosesInputs.validate(found)
    speed = np.diff(found.position.values, axis=0)[0] * 25
    assert compute_velocity(found.position).values[0] == pytest.approx(speed, rel=1e-6)
    poses = load_poses.from_anipose_file(export_result(out, "anipose", tmp_path), fps=25)
    assert poses.position.values == pytest.approx(found.position.values, abs=1e-6, nan_ok=True)


def test_nwb(out: Path, truth: np.ndarray, tmp_path: Path) -> None:
    pynwb = pytest.importorskip("pynwb")
    pytest.importorskip("ndx_pose")
    path = export_result(out, "nwb", tmp_path, Choice(start=START, keypoints=4))
    faults = pynwb.validate(path=str(path))
    assert not faults, faults
    some = [0, 5, 10, 15]
    with pynwb.NWBHDF5IO(path, "r", load_namespaces=True) as io:
        file = io.read()
        poses = file.processing["behavior"]["midline"]
        names = [f"k{place:03d}" for place in some]
        assert list(poses.skeleton.nodes[:]) == names and file.session_start_time == START
        found = np.stack([poses.pose_estimation_series[name].data[:] for name in names], 1)
        meets(found, truth[:, some])
        assert poses.pose_estimation_series["k005"].unit == "millimeters"
        assert poses.pose_estimation_series["k005"].timestamps[:] == pytest.approx(np.array(FRAMES) / 25)
        view = poses.pose_estimations["cam1"]
        pixels = open_result(out).projection.sel(camera="cam1").values
        assert view.pose_estimation_series["k010"].data[:] == pytest.approx(pixels[:, 10], abs=1e-4, nan_ok=True)
        assert view.device.intrinsic_matrix[0, 0] == 1000 and view.source_video.external_file[0].endswith("cam1.avi")
        # The camera stands in the exported world.
        point = np.array([0.2, 0.1, -0.3])
        turn, move = view.device.rotation_matrix[:], view.device.translation_vector[:]
        old = Rotation.from_euler("y", 90, degrees=True).as_matrix()
        assert turn @ WORLD.points(point) + move == pytest.approx(old @ point + [0, 0, 100], abs=1e-9)
        table = file.processing["behavior"]["frames"].to_dataframe()
        assert table.frame.tolist() == list(FRAMES) and table.status[LOST - FRAMES[0]] == "lost"


def test_nwb_asks_for_a_start(out: Path, tmp_path: Path) -> None:
    for start in (None, datetime(2025, 3, 31)):
        with pytest.raises(InputError, match="--start"):
            export_result(out, "nwb", tmp_path, Choice(start=start))
    assert not list(tmp_path.iterdir())


def test_matlab(out: Path, truth: np.ndarray, tmp_path: Path) -> None:
    found = loadmat(export_result(out, "mat", tmp_path), simplify_cells=True)["midline"]
    meets(found["position"], truth, 1e-12)
    assert found["frame"].tolist() == list(FRAMES) and found["status"].tolist()[LOST - FRAMES[0]] == "lost"
    assert found["units"]["position"] == "mm" and "head" in found["meaning"]["position"]
    assert found["world"]["rotation"] == pytest.approx(WORLD.rotation) and found["projection"].shape == (12, 3, 16, 2)


def test_keypoints_and_world_can_be_chosen(out: Path, tmp_path: Path) -> None:
    table = pd.read_csv(export_result(out, "csv", tmp_path, Choice(keypoints=2, world=CALIBRATION)))
    assert table.keypoint.unique().tolist() == [0, KEYPOINTS - 1]
    position = open_result(out).position.values[0, :, -1, 0]
    assert table[["x", "y", "z"]].to_numpy()[1] == pytest.approx(position, abs=1e-6)
    with pytest.raises(InputError, match="give 2 to 16"):
        export_result(out, "csv", tmp_path, Choice(keypoints=17))


def test_where_it_goes(out: Path, tmp_path: Path) -> None:
    assert export_result(out / "midline.nc", "wcon") == out / "export" / "midline.wcon"
    assert export_result(out, "csv", tmp_path / "new") == tmp_path / "new" / "midline.csv"
    assert export_result(out, "csv", tmp_path / "mine.csv").is_file() and not list(tmp_path.glob("*.part*"))
    for to, place, words in (
        ("xls", None, "not known; export to one of csv"),
        ("csv", tmp_path / "a.txt", r"ends in \.csv"),
        ("movement", out / "midline.nc", "is the result itself"),
    ):
        with pytest.raises(InputError, match=words):
            export_result(out, to, place)
    with pytest.raises(InputError, match="no wide form"):
        export_result(out, "wcon", None, Choice(wide=True))


def test_a_growing_result_can_be_exported(tmp_path: Path) -> None:
    header = Header(tuple(FRAMES), 25.0, CAMERAS, KEYPOINTS)
    with Result.create(tmp_path / "out", header) as result:
        result.append(41, record(41))
    table = pd.read_csv(export_result(tmp_path / "out", "csv", None, Choice(wide=True)))
    assert table.frame.tolist() == list(FRAMES) and table.x_0.notna().tolist() == [f == 41 for f in FRAMES]
    assert set(table.status) == {"ok", "pending"}


# --- midlines of other programs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "wide"), [("csv", False), ("csv", True), ("parquet", True), ("anipose", False), ("movement", False)]
)
def test_what_was_exported_is_read(out: Path, truth: np.ndarray, to: str, wide: bool, tmp_path: Path) -> None:
    found = midlines.read(export_result(out, to, tmp_path, Choice(wide=wide)), fps=25)
    assert found.frame.values.tolist() == list(FRAMES) and found.attrs["fps"] == pytest.approx(25)
    back = truth @ WORLD.rotation + WORLD.origin if to in ("anipose", "movement") else truth
    points = found.position.isel(individual=0).transpose("time", "keypoint", "space").values
    meets(points, back, 1e-5)
    assert str(found.status.values[LOST - FRAMES[0]]) == "lost" and found.position.attrs["units"] == "mm"


def test_arrays_are_read_and_can_be_measured(tmp_path: Path) -> None:
    from midline3d import kinematics

    points = np.random.default_rng(0).normal(size=(6, 12, 3)).cumsum(1)
    np.savez(tmp_path / "a.npz", position=points, frame=[9, 3, 4, 5, 6, 7], fps=10.0)
    found = midlines.read(tmp_path / "a.npz")
    assert found.frame.values.tolist() == [3, 4, 5, 6, 7, 9]
    assert found.time.values == pytest.approx(found.frame.values / 10)
    assert pytest.approx(points[0]) == found.position.values[-1, :, :, 0].T
    assert kinematics.of(found).sizes["time"] == 6


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.txt", b"", "are read from .csv"),
        ("a.csv", b"", "cannot be read as a table"),
        ("a.csv", b"frame,a,b\n1,2,3\n", "are no midlines"),
        ("a.csv", b"frame,keypoint,x,y,z\n1,0,1,2,3\n1,0,1,2,3\n", "keypoint 0 twice"),
        ("a.csv", b"frame,keypoint,x,y,z\n1.5,0,1,2,3\n", "whole numbers"),
        ("a.csv", b"frame,keypoint,x,y,z\n1,0,head,2,3\n", "more than numbers"),
        ("a.csv", b"frame,keypoint,x,y,z\n1,0,1,2,3\n", "(frame, keypoint, 3) is needed"),
        ("a.csv", b"frame,x_0,y_0,z_0,x_1,y_1\n1,0,1,2,3,4\n", "'z_1' is missing"),
        ("a.csv", b"frame,x_0,y_0,z_0,x_1,y_1,z_1\n1,0,1,2,3,4,5\n1,0,1,2,3,4,5\n", "number every frame once"),
        ("a.csv", b"fnum,a_x,a_y\n1,2,3\n", "'a_z' is missing"),
        ("a.npz", b"no", "cannot be read as .npz"),
        ("a.nc", b"no", "cannot be read as netCDF"),
        ("a.parquet", b"no", "cannot be read as a table"),
    ],
)
def test_wrong_midlines_are_one_sentence(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as fault:
        midlines.read(tmp_path / name)
    assert words in str(fault.value) and "\n" not in str(fault.value)
    with pytest.raises(InputError, match="no such file"):
        midlines.read(tmp_path / "none.csv")
