"""The world of [frame]: from a camera, a board's pictures, a matrix, or two directions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import cv2
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from midline3d.calibration import Calibration, make_calibration, make_camera
from midline3d.errors import InputError
from midline3d.reading import read_toml, validated
from midline3d.recording.description import Description, load_world
from midline3d.world import CALIBRATION, World, make_world, world_of

SIZE = (480, 360)
MIDDLE = np.array([1.0, 2.0, 80.0])
TURNS = {"left": np.eye(3), "right": Rotation.from_euler("y", 40, degrees=True).as_matrix()}


def rig(focal: float = 1400.0, distance: float = 80.0) -> Calibration:
    """Two cameras that look at MIDDLE from `distance`, the first along z with v down y."""
    matrix = [[focal, 0, 239.5], [0, focal, 179.5], [0, 0, 1]]
    cameras = [
        make_camera("test", name, SIZE, matrix, [0.0] * 5, turn, np.array([0, 0, distance]) - turn @ MIDDLE)
        for name, turn in TURNS.items()
    ]
    return make_calibration(cameras, "mm", "test")


def described(text: str, folder: Path) -> World:
    """The world of a recording.toml with this [frame]."""
    folder.mkdir(exist_ok=True)
    cameras = "".join(f'[[cameras]]\nname = "{name}"\nsource = "{name}.avi"\n' for name in TURNS)
    (folder / "recording.toml").write_text(f'calibration = "c.json"\n{cameras}[frame]\n{text}\n', encoding="utf-8")
    return load_world(folder, rig())


def test_a_camera_says_what_is_up(tmp_path: Path) -> None:
    world = described('camera = "right"', tmp_path)
    up, heading = -TURNS["right"][1], TURNS["right"][0]
    assert world.directions(up) == pytest.approx([0, 0, 1]) and world.directions(heading) == pytest.approx([1, 0, 0])
    assert world.points(np.zeros(3)) == pytest.approx(np.zeros(3)) and "right" in world.source
    above = described('camera = "left"\nup = "towards"\nheading = "up"\norigin = "rig"', tmp_path)
    assert above.directions(np.array([0, 0, -1.0])) == pytest.approx([0, 0, 1])
    assert above.directions(np.array([0, -1.0, 0])) == pytest.approx([1, 0, 0])
    assert above.origin == pytest.approx(MIDDLE) and np.linalg.det(above.rotation) == pytest.approx(1)


def test_two_vectors_and_a_matrix(tmp_path: Path) -> None:
    world = described("up = [0, 0, 2]\nheading = [1, 0, 5]\norigin = [1, 2, 3]", tmp_path)
    assert world.rotation == pytest.approx(np.eye(3)) and world.points(np.array([2.0, 2, 3])) == pytest.approx(
        [1, 0, 0]
    )
    turn, move = Rotation.from_rotvec([0.3, -0.2, 1.0]).as_matrix(), np.array([4.0, 5, 6])
    rows = np.round(np.hstack([turn, move[:, None]]), 6).tolist()
    reported = described(f"matrix = {rows}", tmp_path)
    place = np.array([[0.1, 7.0, -3.0]])
    assert reported.points(place) == pytest.approx(place @ turn.T + move, abs=1e-4)
    assert described(f"matrix = {[*rows, [0, 0, 0, 1]]}", tmp_path).origin == pytest.approx(reported.origin)


def drawn(folder: Path, calibration: Calibration, tilt: np.ndarray, place: np.ndarray) -> None:
    """A chessboard of 7 x 5 inner corners, 2 mm apart, in every camera's picture."""
    cell = 40
    tile = (np.add.outer(np.arange(6), np.arange(8)) % 2 * 255).astype(np.uint8)
    texture = np.pad(tile.repeat(cell, 0).repeat(cell, 1), cell, constant_values=255)
    height, width = texture.shape
    edges = np.array([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], np.float32)
    flat = np.hstack([(edges + 0.5) / cell * 2.0 - 4.0, np.zeros((4, 1))])
    for camera in calibration.cameras:
        seen = (flat @ tilt.T + place) @ camera.rotation.T + camera.translation
        pixels = ((seen / seen[:, 2:]) @ camera.matrix.T)[:, :2].astype(np.float32)
        warp = cv2.getPerspectiveTransform(edges, pixels)
        picture = cv2.warpPerspective(texture, warp, SIZE, flags=cv2.INTER_AREA, borderValue=200)
        cv2.imwrite(str(folder / f"{camera.name}.png"), cv2.GaussianBlur(picture, (0, 0), 0.7))


TILT = Rotation.from_rotvec([0.5, -0.25, 0.1]).as_matrix()
BOARD = "grid = [7, 5]\nsquare = 2.0"


def same_board(world: World) -> None:
    """Up is the board's normal to the cameras, the heading runs along it, and the origin is one of its end corners."""
    first, last = MIDDLE - TILT @ [6, 4, 0], MIDDLE - TILT @ [6, 4, 0] + TILT @ [12, 8, 0]
    assert world.directions(-TILT[:, 2]) == pytest.approx([0, 0, 1], abs=0.01)
    assert np.abs(world.directions(TILT[:, 0])) == pytest.approx([1, 0, 0], abs=0.01)
    assert min(np.linalg.norm(world.origin - corner) for corner in (first, last)) < 0.05


def test_a_board_seen_by_two_cameras_or_one(tmp_path: Path) -> None:
    drawn(tmp_path, rig(), TILT, MIDDLE - TILT @ [6, 4, 0])
    same_board(described(f'board = {{ left = "left.png", right = "right.png" }}\n{BOARD}', tmp_path))
    same_board(described(f'board = {{ left = "left.png" }}\n{BOARD}', tmp_path))
    with pytest.raises(InputError, match=r"disagree by .* mm of 3 mm squares"):
        described('board = { left = "left.png", right = "right.png" }\ngrid = [7, 5]\nsquare = 3.0', tmp_path)
    with pytest.raises(InputError, match="shows no board of 9 x 9"):
        described('board = { left = "left.png" }\ngrid = [9, 9]\nsquare = 2.0', tmp_path)


def test_one_long_lens_cannot_tell_a_boards_tilt(tmp_path: Path) -> None:
    far = rig(focal=1.4e6, distance=80000.0)
    drawn(tmp_path, far, TILT, MIDDLE - TILT @ [6, 4, 0])
    entry = described_entry(f'board = {{ left = "left.png" }}\n{BOARD}', tmp_path)
    with pytest.raises(InputError, match=r"two tilts .* add another camera"):
        make_world(entry, far, tmp_path, "test")
    both = described_entry(f'board = {{ left = "left.png", right = "right.png" }}\n{BOARD}', tmp_path)
    same_board(make_world(both, far, tmp_path, "test"))


def described_entry(text: str, folder: Path):
    path = folder / "frame.toml"
    path.write_text(f'calibration = "c"\ncameras = []\n[frame]\n{text}\n', encoding="utf-8")
    entry = validated(Description, read_toml(path), "test").frame
    assert entry is not None
    return entry


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "says no camera, board or matrix"),
        ('camera = "left"\nmatrix = [[1]]', "camera and matrix; give one"),
        ('matrix = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]\nup = "up"', "matrix and up"),
        ("matrix = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, 0]]", "no rotation"),
        ("matrix = [[1, 0], [0, 1]]", "3 rows of 4"),
        ("matrix = [[1, 0], [0]]", "unequal length"),
        ("matrix = [[nan, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]", "not finite"),
        ('camera = "top"', "no camera 'top'"),
        ('camera = "left"\nup = "up"\nheading = "down"', "runs along"),
        ('camera = "left"\nup = "north"', "north"),
        ('up = "up"\nheading = [1, 0, 0]', "as seen in a picture"),
        ("up = [0, 0, 0]\nheading = [1, 0, 0]", "not all 0"),
        ("up = [0, 0, 1]\nheading = [1, 0, 0]\norigin = [1]", "three numbers"),
        ('board = { left = "no.png" }\ngrid = [7, 5]\nsquare = 2.0', "no.png: the picture of frame.board"),
        ('board = { left = "no.png" }', "needs its pictures, grid and square"),
        ("upp = 3", "unknown key 'frame.upp'"),
    ],
)
def test_wrong_frames_are_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        described(text, tmp_path)


def test_the_frames_in_the_documents_are_some() -> None:
    page = (Path(__file__).parents[1] / "docs" / "recording.md").read_text(encoding="utf-8")
    examples = re.findall(r"```toml\n(\[frame\].*?)```", page, re.S)
    entries = [
        validated(Description, tomllib.loads(f'calibration = ""\ncameras = []\n{text}'), "it") for text in examples
    ]
    kinds = [next(n for n in ("camera", "board", "matrix", "up") if getattr(e.frame, n) is not None) for e in entries]
    assert kinds == ["camera", "board", "matrix", "up"]
    matrix = make_world(entries[2].frame, rig(), Path(), "it")
    assert matrix.directions(np.array([0, 0, 1.0])) == pytest.approx([0, 1, 0])


def test_cameras_see_the_same_in_every_world() -> None:
    world = World(Rotation.from_rotvec([0.4, 0.2, -1.0]).as_matrix(), np.array([3.0, -2, 60]), "a test")
    place = np.array([1.5, 2.2, 81.0])
    for camera in rig().cameras:
        rotation, translation = world.pose(camera)
        assert rotation @ world.points(place) + translation == pytest.approx(
            camera.rotation @ place + camera.translation
        )


def test_a_result_keeps_its_world() -> None:
    world = World(Rotation.from_rotvec([0.4, 0.2, -1.0]).as_matrix(), np.array([3.0, -2, 60]), "a test")
    kept = world_of({"frame": world.as_json()})
    assert kept.rotation == pytest.approx(world.rotation, abs=1e-15) and (kept.origin == world.origin).all()
    assert world_of({}) is CALIBRATION and world_of({"frame": ""}) is CALIBRATION
    with pytest.raises(InputError, match="cannot be read"):
        world_of({"frame": "{}"})
