"""Calibrations: formats to and fro, every bad number one sentence, boards, and the real rig's own file."""

import json
import re
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from drawn import rig
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from midline3d.calibration import load_calibration, sanity, save_calibration
from midline3d.calibration.boards import Board, calibrate
from midline3d.calibration.opencv import read_opencv
from midline3d.calibration.records import Camera
from midline3d.cameras import project
from midline3d.errors import InputError

REAL = Path(__file__).parents[2] / "shared" / "real" / "calibration-3d.xml"
PARTS = ("matrix", "distortions", "rotation", "translation")


def entry(**changes):
    camera = {
        "name": "a",
        "size": [640, 480],
        "matrix": [[1000.0, 0, 320], [0, 1000, 240], [0, 0, 1]],
        "distortions": [0.1, 0, 0, 0, 0],
        "rotation": [0.0, 0.1, 0.0],
        "translation": [0.0, 0, 100],
    }
    return camera | changes


def write_json(folder, *cameras, **top):
    path = folder / "calibration.json"
    path.write_text(json.dumps({"cameras": list(cameras)} | top))
    return path


@pytest.mark.parametrize("suffix", [".json", ".toml", ".xml", ".yml"])
def test_every_format_reads_back_what_it_wrote(tmp_path, suffix):
    save_calibration(rig(), tmp_path / f"c{suffix}")
    back = load_calibration(tmp_path / f"c{suffix}")
    assert back.names == rig().names
    for camera, same in zip(rig().cameras, back.cameras, strict=True):
        assert same.size == camera.size
        for part in PARTS:
            np.testing.assert_allclose(getattr(same, part), getattr(camera, part), atol=1e-12)


def test_units_become_mm(tmp_path):
    path = write_json(tmp_path, entry(), entry(name="b", rotation=[0.0, 1, 0]), units="um")
    np.testing.assert_allclose(load_calibration(path).cameras[0].translation, [0, 0, 0.1])


def test_single_camera_files_in_a_folder(tmp_path):
    for camera in rig().cameras:
        storage = cv2.FileStorage(str(tmp_path / f"{camera.name}.yml"), cv2.FILE_STORAGE_WRITE)
        storage.write("image_width", camera.size[0])
        storage.write("image_height", camera.size[1])
        storage.write("camera_matrix", camera.matrix)
        storage.write("distortion_coefficients", np.zeros((5, 1)))
        storage.write("R", camera.rotation)
        storage.write("T", camera.translation[:, None])
        storage.release()
    assert load_calibration(tmp_path).names == ("cam0", "cam1", "cam2")
    with pytest.raises(InputError, match="describes one camera"):
        load_calibration(tmp_path / "cam0.yml")


def test_cameras_are_found_by_name_in_any_order():
    chosen = rig().cameras_for(["cam2", "cam0"])
    assert chosen.names == ("cam2", "cam0")
    np.testing.assert_array_equal(chosen.cameras[0].rotation, rig().cameras[2].rotation)
    with pytest.raises(InputError, match=r"no camera 'left', only cam0, cam1, cam2"):
        rig().cameras_for(["cam0", "left"])


BAD = {
    "contains nan": {"matrix": [[float("nan"), 0, 320], [0, 1000, 240], [0, 0, 1]]},
    "singular": {"matrix": [[0, 0, 320], [0, 0, 240], [0, 0, 1]]},
    "transposed": {"matrix": [[1000, 0, 0], [0, 1000, 0], [320, 240, 1]]},
    "skew": {"matrix": [[1000, 5, 320], [0, 1000, 240], [0, 0, 1]]},
    "not a rotation": {"rotation": [[1, 0, 0], [0, 2, 0], [0, 0, 1]]},
    "mirrors": {"rotation": [[1, 0, 0], [0, 1, 0], [0, 0, -1]]},
    "camera 'a': the rotation vector turns by 90, .* if these are degrees, multiply them by": {
        "rotation": [0, 90.0, 0]
    },
    "translation has 2 numbers": {"translation": [0, 0]},
    "rotation has 4 numbers": {"rotation": [0, 0, 0, 1]},
    "6 or later": {"distortions": [0, 0, 0, 0, 0, 0.1, 0, 0]},
    "3 distortions": {"distortions": [0, 0, 0]},
    "whole px": {"size": [0, 480]},
    "unknown key": {"focal": 3},
}


@pytest.mark.parametrize("message", BAD)
def test_every_bad_number_is_one_sentence(tmp_path, message):
    path = write_json(tmp_path, entry(**BAD[message]), entry(name="b", rotation=[0.0, 1, 0]))
    with pytest.raises(InputError, match=message) as fault:
        load_calibration(path)
    assert "\n" not in str(fault.value)
    assert "calibration.json" in str(fault.value)


def test_degrees_for_radians_in_every_format_with_vectors(tmp_path):
    folder, anipose = tmp_path / "opencv", tmp_path / "c.toml"
    folder.mkdir()
    for camera in rig().cameras:
        storage = cv2.FileStorage(str(folder / f"{camera.name}.yml"), cv2.FILE_STORAGE_WRITE)
        storage.write("camera_matrix", camera.matrix)
        storage.write("rvec", np.array([0.0, 0.0, 45.0]))
        storage.write("tvec", camera.translation)
        storage.release()
    save_calibration(rig(), anipose)
    anipose.write_text(re.sub(r"rotation = .*", "rotation = [0.0, 0.0, 45.0]", anipose.read_text()))
    for path in (folder, anipose):
        with pytest.raises(InputError, match="camera 'cam0': the rotation vector turns by 45, but in radians"):
            load_calibration(path)


KINDS = {
    "'cameras.0.size' is '512x512', but a list in [ ] is wanted; write [512, 512]": {"size": "512x512"},
    "'cameras.0.matrix' is null, but a list in [ ] is wanted; correct it": {"matrix": None},
    "'cameras.0.rotation' is 'x', but a list in [ ] is wanted; correct it": {"rotation": "x"},
    "'cameras.0.matrix.0.0' is 'f', but a number is wanted": {"matrix": [["f", 0, 1], [0, 1, 1], [0, 0, 1]]},
    "the key 'units' stands inside 'cameras.0'; move it out of there": {"units": "mm"},
    "'cameras.0.translation.2' is true, but a number is wanted": {"translation": [0, 0, True]},
}


@pytest.mark.parametrize("message", KINDS)
def test_wrong_kinds_are_said_in_plain_words(tmp_path, message):
    path = write_json(tmp_path, entry(**KINDS[message]), entry(name="b", rotation=[0.0, 1, 0]))
    with pytest.raises(InputError, match=re.escape(message)) as fault:
        load_calibration(path)
    assert "calibration.json" in str(fault.value)


def test_opencvs_multi_camera_file_in_json(tmp_path):
    save_calibration(rig(), tmp_path / "c.yml")
    read = cv2.FileStorage(str(tmp_path / "c.yml"), cv2.FILE_STORAGE_READ)
    storage = cv2.FileStorage(str(tmp_path / "c.json"), cv2.FILE_STORAGE_WRITE)
    storage.write("nCameras", 3)
    for index in range(3):
        for key in (f"camera_matrix_{index}", f"camera_pose_{index}"):
            storage.write(key, read.getNode(key).mat())
    storage.release()
    for camera, same in zip(rig().cameras, load_calibration(tmp_path / "c.json").cameras, strict=True):
        np.testing.assert_allclose(same.matrix, camera.matrix)
        np.testing.assert_allclose(same.translation, camera.translation, atol=1e-12)


def test_a_json_of_opencvs_with_keys_of_its_own(tmp_path):
    storage = cv2.FileStorage(str(tmp_path / "c.json"), cv2.FILE_STORAGE_WRITE)
    for key in ("K0", "K1", "R", "T"):
        storage.write(key, np.eye(3))
    storage.release()
    with pytest.raises(
        InputError, match=r"looks like a file of OpenCV's with the keys K0, K1, R, T, .* a .yml for each"
    ):
        load_calibration(tmp_path / "c.json")


def test_a_bare_list_of_cameras(tmp_path):
    (tmp_path / "c.json").write_text(json.dumps([entry(), entry(name="b")]))
    with pytest.raises(InputError, match=re.escape('put the cameras into {"units": "mm", "cameras": [...]}')):
        load_calibration(tmp_path / "c.json")


def test_long_distortions_that_say_nothing_more_are_taken(tmp_path):
    path = write_json(tmp_path, entry(distortions=[0.1, 0.2, 0, 0, 0, 0, 0, 0]), entry(name="b", rotation=[0.0, 1, 0]))
    np.testing.assert_array_equal(load_calibration(path).cameras[0].distortions, [0.1, 0.2, 0, 0, 0])


def test_a_rig_needs_two_cameras_that_differ(tmp_path):
    with pytest.raises(InputError, match=r"holds 1 camera"):
        load_calibration(write_json(tmp_path, entry()))
    with pytest.raises(InputError, match="same place"):
        load_calibration(write_json(tmp_path, entry(), entry(name="b")))
    with pytest.raises(InputError, match="two cameras are named 'a'"):
        load_calibration(write_json(tmp_path, entry(), entry(rotation=[0.0, 1, 0])))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.json", "{"),
        ("c.json", "[]"),
        ("c.toml", "a = "),
        ("c.toml", "[cam_0]\nname = 'a'"),
        ("c.xml", "<opencv_storage>"),
        ("c.yml", "%YAML:1.0\n---\nnCameras: 3\n"),
        ("c.txt", ""),
        ("absent.json", None),
    ],
)
def test_broken_files_are_one_sentence(tmp_path, name, content):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=name):
        load_calibration(tmp_path / name)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(list(entry())), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(changes=st.dictionaries(st.sampled_from(list(entry())), json_values, max_size=3), units=json_values)
def test_only_input_errors_come_out_of_json(tmp_path_factory, changes, units):
    folder = tmp_path_factory.getbasetemp()
    path = write_json(folder, entry(**changes), entry(name="b", rotation=[0.0, 1, 0]), units=units)
    try:
        load_calibration(path)
    except InputError as fault:
        assert str(fault)


@settings(max_examples=60, deadline=None)
@given(content=st.binary(max_size=200), suffix=st.sampled_from([".json", ".toml", ".xml", ".yml"]))
def test_only_input_errors_come_out_of_bytes(tmp_path_factory, content, suffix):
    path = tmp_path_factory.getbasetemp() / f"fuzz{suffix}"
    path.write_bytes(content)
    with pytest.raises(InputError):
        load_calibration(path)


@pytest.mark.skipif(not REAL.exists(), reason="the real rig's file is not here")
def test_the_real_rigs_file_reprojects_its_own_corners():
    calibration, content = load_calibration(REAL), read_opencv(REAL)
    poses = [value for key, value in content.items() if key.startswith("pose_timestamp_")]
    errors = []
    for index, camera in enumerate(calibration.cameras):
        number = 0
        while (corners := content.get(f"image_points_cam{index}_pose_{number}")) is not None:
            board = content[f"object_points_cam{index}_pose_{number}"].reshape(-1, 3).astype(float)
            # The file does not say which moment a set of corners belongs to; it is the one that fits.
            errors.append(min(reprojection(camera, pose, board, corners.reshape(-1, 2)) for pose in poses))
            number += 1
    assert len(errors) == 64
    assert np.mean(errors) == pytest.approx(4.18, abs=0.01)


def reprojection(camera, pose, board, corners):
    points = board @ pose[:3, :3].T + pose[:3, 3]
    turn = cv2.Rodrigues(camera.rotation)[0]
    pixels = cv2.projectPoints(points, turn, camera.translation, camera.matrix, camera.distortions)[0]
    return np.linalg.norm(pixels.reshape(-1, 2) - corners, axis=1).mean()


def board_pictures(folder, count=6):
    """A chessboard in front of two cameras of known pose, drawn by warping its picture."""
    board, cell = Board("chessboard", 7, 5, 2.0), 40
    tile = (np.add.outer(np.arange(6), np.arange(8)) % 2 * 255).astype(np.uint8)
    texture = np.pad(tile.repeat(cell, 0).repeat(cell, 1), cell, constant_values=255)
    height, width = texture.shape
    edges = np.float32([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]])
    plane = np.hstack([(edges + 0.5) / cell * 2.0 - 4.0, np.zeros((4, 1))])
    matrix = np.array([[900.0, 0, 159.5], [0, 900, 119.5], [0, 0, 1]])
    turn = Rotation.from_euler("y", 30, degrees=True).as_matrix()
    middle = np.array([0, 0, 80.0])
    poses = {"left": (np.eye(3), np.zeros(3)), "right": (turn, middle - turn @ middle)}
    rng = np.random.default_rng(1)
    paths = {name: [] for name in poses}
    for number in range(count):
        tilt = Rotation.from_rotvec(rng.uniform(0.2, 0.5, 3) * rng.choice([-1, 1], 3)).as_matrix()
        place = middle + rng.normal(0, 1, 3) - tilt @ board.points().mean(0)
        for name, (rotation, translation) in poses.items():
            seen = (plane @ tilt.T + place) @ rotation.T + translation
            pixels = ((seen / seen[:, 2:]) @ matrix.T)[:, :2].astype(np.float32)
            picture = cv2.warpPerspective(
                texture, cv2.getPerspectiveTransform(edges, pixels), (320, 240), flags=cv2.INTER_AREA, borderValue=200
            )
            paths[name].append(folder / f"{name}{number}.png")
            cv2.imwrite(str(paths[name][-1]), cv2.GaussianBlur(picture, (0, 0), 0.7))
    return board, paths, poses


def test_calibrating_from_a_chessboard(tmp_path):
    board, paths, poses = board_pictures(tmp_path)
    report = calibrate(paths, board)
    assert all(np.mean(list(report.joint[name].values())) < 0.5 for name in poses)
    right = report.calibration.cameras[1]
    turn = Rotation.from_matrix(right.rotation @ poses["right"][0].T).magnitude()
    assert np.degrees(turn) < 2
    assert "left0.png" in report.text()
    assert json.dumps(report.as_dict())


def test_calibrating_says_what_is_wrong(tmp_path):
    _, paths, _ = board_pictures(tmp_path, count=3)
    with pytest.raises(InputError, match=r"shows the 9 x 9 board in 0 of 3 pictures"):
        calibrate(paths, Board("chessboard", 9, 9, 2.0))
    with pytest.raises(InputError, match="unequal numbers"):
        calibrate(paths | {"right": paths["right"][:2]}, Board("chessboard", 7, 5, 2.0))
    with pytest.raises(InputError, match="cannot be read"):
        calibrate({name: [tmp_path / "no.png"] * 3 for name in paths}, Board("chessboard", 7, 5, 2.0))
    with pytest.raises(InputError, match="markers of 0 mm"):
        calibrate(paths, Board("charuco", 7, 5, 2.0))


@pytest.mark.parametrize("distortions", [[-7250.0, 1.5e9, 0, 0, 0.0], [0, 0, 0, 0, 2e14]])
def test_a_long_lens_has_large_numbers_and_bends_its_image_little(tmp_path: Path, distortions: list[float]) -> None:
    long = entry(matrix=[[250_000.0, 0, 320], [0, 250_000, 240], [0, 0, 1]], translation=[0.0, 0, 1300])
    bent_by = {**long, "distortions": distortions}
    found = load_calibration(write_json(tmp_path, bent_by, {**bent_by, "name": "b", "rotation": [0.0, 1, 0]}))
    sanity.check_rig(found, [(640, 480)] * 2, "calibration.json")
    without = replace(found, cameras=[replace(each, distortions=np.zeros(5)) for each in found.cameras])
    corners = torch.tensor([[[1.6, 1.2, 0.0], [-1.6, -1.2, 0.0]]])
    for dtype in (torch.float64, torch.float32):
        shown, straight = (project(each.to_cameras().to(dtype), corners.to(dtype))[:, 0] for each in (found, without))
        moved = (shown - straight).norm(dim=-1)
        assert ((moved > 0.2) & (moved < 5)).all()


def bent(radial: float) -> Camera:
    """A camera of 640 x 480 px whose corners lie 0.4 from the middle, at f = 1."""
    return replace(
        rig(2).cameras[0],
        matrix=np.array([[1000.0, 0, 320], [0, 1000, 240], [0, 0, 1]]),
        distortions=np.array([radial, 0, 0, 0, 0.0]),
    )


@pytest.mark.parametrize("radial", [-0.9, -0.6, 3.0, 6.0])
def test_a_strong_distortion_is_no_fold(radial: float, recwarn: pytest.WarningsRecorder) -> None:
    """By -0.9 the corners are moved by a fifth of their distance from the middle, by 6 by half of it."""
    sanity._check_distortion(bent(radial), (640, 480), "calibration.json")
    assert not recwarn.list


def test_a_fold_in_the_corners_is_told_and_one_where_the_animal_is_refused() -> None:
    with pytest.warns(UserWarning, match=r"fold its image .* over, 3\d\d px from the principal point"):
        sanity._check_distortion(bent(-1.6), (640, 480), "calibration.json")
    with pytest.raises(InputError, match="fold its image"):
        sanity._check_distortion(bent(-4.0), (640, 480), "calibration.json")
    with pytest.raises(InputError, match=r"bend its image .* by up to 1\d\d px"):
        sanity._check_distortion(bent(300.0), (640, 480), "calibration.json")
