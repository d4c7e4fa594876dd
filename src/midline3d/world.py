"""The world that users speak of: an origin, an up and a heading, in place of wherever the calibration put them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from midline3d.errors import InputError

if TYPE_CHECKING:
    from midline3d.calibration import Calibration, Camera

Array = NDArray[np.float64]
Direction = Literal["up", "down", "left", "right", "towards", "away"]
DIRECTIONS: dict[str, tuple[int, int, int]] = {
    "right": (1, 0, 0),
    "left": (-1, 0, 0),
    "down": (0, 1, 0),
    "up": (0, -1, 0),
    "away": (0, 0, 1),
    "towards": (0, 0, -1),
}
"""As they are seen in a camera's picture, in its own axes: u to the right, v down, the third away from the camera."""
ATTRIBUTE = "frame"
"""Name under which a result keeps its world."""
CERTAIN = 2.0
"""A board's other pose, seen by one camera alone, must fit worse by this factor to be ruled out."""
FLAT = 0.1
"""Squares that a board's corners may be off after the best rigid motion."""


@dataclass(frozen=True)
class FrameEntry:
    """The [frame] table of recording.toml: a camera, a board, a matrix, or two directions."""

    camera: str | None = None
    """A camera of the rig, in whose picture up and heading are meant."""
    board: dict[str, str] | None = None
    """Pictures of a board that lies in the world, of the same moment, by camera: { cam0 = "board0.png" }."""
    matrix: list[list[float]] | None = None
    """3 x 4 or 4 x 4: from the calibration's world to this one, mm."""
    up: Direction | list[float] | None = None
    """As seen in the camera's picture, or a vector in the calibration's world."""
    heading: Direction | list[float] | None = None
    """Likewise; what of it goes up is left out."""
    origin: Literal["rig"] | list[float] | None = None
    """mm in the calibration's world; "rig": where the cameras' axes come closest to one another."""
    grid: tuple[int, int] | None = None
    """Of the board: inner corners along and down a chessboard, squares of a ChArUco board."""
    square: float | None = None
    """Side of the board's squares, mm."""
    marker: float = 0.0
    """Side of a ChArUco board's markers, mm; 0 for a chessboard."""
    dictionary: str = "DICT_4X4_50"
    """Of a ChArUco board's markers, as OpenCV names it."""


@dataclass(frozen=True, eq=False)
class World:
    """A right-handed world of mm: x along the heading, y to its left, z up."""

    rotation: Array
    """3 x 3: its rows are heading, left and up in the calibration's world."""
    origin: Array
    """3, mm in the calibration's world."""
    source: str
    """Where it comes from, in words."""

    def points(self, places: Array) -> Array:
        """Places (..., 3) of the calibration's world, mm, in this one: x' = R (x - o)."""
        return np.asarray((places - self.origin) @ self.rotation.T)

    def directions(self, vectors: Array) -> Array:
        """Vectors (..., 3) of the calibration's world in this one: v' = R v."""
        return np.asarray(vectors @ self.rotation.T)

    def pose(self, camera: Camera) -> tuple[Array, Array]:
        """Rotation and translation (mm) of a camera, from this world to the camera's axes."""
        return camera.rotation @ self.rotation.T, camera.translation + camera.rotation @ self.origin

    def as_json(self) -> str:
        """For a result's attributes."""
        return json.dumps(
            {"rotation": self.rotation.tolist(), "origin_mm": self.origin.tolist(), "source": self.source}
        )


CALIBRATION = World(np.eye(3), np.zeros(3), "the calibration's world")


def world_of(attributes: Mapping[Any, Any]) -> World:
    """The world that a result says its numbers are to be given in; the calibration's where it says none."""
    text = attributes.get(ATTRIBUTE, "")
    if not text:
        return CALIBRATION
    try:
        stored = json.loads(text)
        rotation, origin = np.array(stored["rotation"], np.float64), np.array(stored["origin_mm"], np.float64)
        return World(_rotation(rotation.reshape(3, 3), "the result"), origin.reshape(3), str(stored["source"]))
    except (ValueError, KeyError, TypeError) as fault:
        raise InputError(f"the result's frame cannot be read ({fault}); give [frame] again with --frame") from None


def make_world(entry: FrameEntry, calibration: Calibration, folder: Path, source: str) -> World:
    """What a [frame] table means. folder: of its pictures; source: opens every complaint."""
    given = [name for name in ("camera", "board", "matrix") if getattr(entry, name) is not None]
    if len(given) > 1:
        raise InputError(f"{source}: [frame] has {' and '.join(given)}; give one of them")
    loose = [name for name in ("up", "heading", "origin") if getattr(entry, name) is not None]
    if given and given[0] in ("board", "matrix") and loose:
        raise InputError(
            f"{source}: [frame] has {given[0]} and {loose[0]}, but the {given[0]} says that; leave one out"
        )
    if entry.matrix is not None:
        return _from_matrix(entry.matrix, source)
    if entry.board is not None:
        return _from_board(entry, calibration, folder, source)
    return _from_directions(entry, calibration, source)


def _from_matrix(rows: list[list[float]], source: str) -> World:
    matrix = _numbers(rows, source, "matrix")
    if matrix.shape not in ((3, 4), (4, 4)) or (len(matrix) == 4 and not np.allclose(matrix[3], (0, 0, 0, 1))):
        raise InputError(f"{source}: frame.matrix is no rotation beside a translation; write 3 rows of 4 numbers")
    rotation = _rotation(matrix[:3, :3], source)
    return World(rotation, -rotation.T @ matrix[:3, 3], "a matrix")


def _from_directions(entry: FrameEntry, calibration: Calibration, source: str) -> World:
    camera = None if entry.camera is None else calibration.cameras_for([entry.camera]).cameras[0]
    given = {"up": entry.up, "heading": entry.heading}
    if camera is not None:
        given = {"up": entry.up or "up", "heading": entry.heading or "right"}
    if None in given.values():
        raise InputError(f"{source}: [frame] says no camera, board or matrix; add one, or up and heading as vectors")
    up, heading = (_direction(value, camera, f"{source}: frame.{name}") for name, value in given.items())
    level = heading - up * (heading @ up)
    if np.linalg.norm(level) < 1e-3:
        raise InputError(f"{source}: frame.heading runs along frame.up; give one that is level")
    level /= np.linalg.norm(level)
    by = "two vectors" if camera is None else f"the picture of {camera.name}"
    return World(np.stack([level, np.cross(up, level), up]), _origin(entry, calibration, source), by)


def _direction(value: Any, camera: Camera | None, label: str) -> Array:
    """A unit vector in the calibration's world."""
    if isinstance(value, str):
        if camera is None:
            raise InputError(f"{label} is '{value}', as seen in a picture; add camera = ..., or give three numbers")
        return np.asarray(camera.rotation.T @ np.array(DIRECTIONS[value], np.float64))
    vector = _numbers(value, label, "vector")
    if vector.shape != (3,) or not np.linalg.norm(vector) > 0:
        raise InputError(f"{label} is {value}; give three numbers that are not all 0")
    return np.asarray(vector / np.linalg.norm(vector))


def _origin(entry: FrameEntry, calibration: Calibration, source: str) -> Array:
    if entry.origin is None:
        return np.zeros(3)
    if entry.origin != "rig":
        origin = _numbers(entry.origin, source, "origin")
        if origin.shape != (3,):
            raise InputError(f"{source}: frame.origin is {entry.origin}; give three numbers, mm")
        return origin
    # The point whose squared distances from all optical axes add up to least.
    axes = np.stack([camera.rotation[2] for camera in calibration.cameras])
    centres = np.stack([-camera.rotation.T @ camera.translation for camera in calibration.cameras])
    across = np.eye(3) - axes[:, :, None] * axes[:, None, :]
    if np.linalg.cond(across.sum(0)) > 1e6:
        raise InputError(f"{source}: frame.origin is 'rig', but the cameras' axes are parallel; give three numbers, mm")
    return np.linalg.solve(across.sum(0), (across @ centres[:, :, None]).sum(0))[:, 0]


def _from_board(entry: FrameEntry, calibration: Calibration, folder: Path, source: str) -> World:
    from midline3d.calibration.boards import Board, Corners, find_corners

    if not entry.board or entry.grid is None or entry.square is None or not entry.square > 0:
        raise InputError(
            f"{source}: frame.board needs its pictures, grid and square; write square = 0.5 (mm) and so on"
        )
    board = Board(
        "charuco" if entry.marker else "chessboard", *entry.grid, entry.square, entry.marker, entry.dictionary
    )
    rig = calibration.cameras_for(list(entry.board))
    found: list[Corners] = []
    for name, picture in entry.board.items():
        corners = find_corners(_grey(folder / picture), board)
        if corners is None:
            raise InputError(f"{folder / picture}: shows no board of {entry.grid[0]} x {entry.grid[1]}; check its grid")
        if not found or len(np.intersect1d(found[0].index, corners.index)) >= 4:
            found.append(corners)
        else:
            raise InputError(f"{folder / picture}: '{name}' shares no corners with the other pictures; take others")
    flat = board.points()
    pose = _one_view(rig.cameras[0], found[0], flat, source) if len(found) == 1 else _views(rig, found, flat, source)
    turn, move = pose
    centre = np.mean([-camera.rotation.T @ camera.translation for camera in rig.cameras], 0)
    # The printed side is the one that is seen.
    up = turn[:, 2] * np.sign(turn[:, 2] @ (centre - move))
    heading = turn[:, 0]
    return World(np.stack([heading, np.cross(up, heading), up]), move, f"a board seen by {', '.join(entry.board)}")


def _one_view(camera: Camera, corners: Any, flat: Array, source: str) -> tuple[Array, Array]:
    """The board's pose in the world out of one picture, where perspective tells its tilt."""
    import cv2

    _, turns, moves, errors = cv2.solvePnPGeneric(
        flat[corners.index], corners.pixels, camera.matrix, camera.distortions, flags=cv2.SOLVEPNP_IPPE
    )
    wrong = np.ravel(errors)
    if len(wrong) > 1 and wrong[1] < CERTAIN * wrong[0]:
        raise InputError(
            f"{source}: two tilts of frame.board fit the picture of '{camera.name}' alike ({wrong[0]:.2f} and "
            f"{wrong[1]:.2f} px); add another camera's picture of the same moment"
        )
    seen = cv2.Rodrigues(turns[0])[0]
    return camera.rotation.T @ seen, camera.rotation.T @ (moves[0].ravel() - camera.translation)


def _views(rig: Calibration, found: list[Any], flat: Array, source: str) -> tuple[Array, Array]:
    """The board's pose in the world out of several pictures: corners triangulated, then the best rigid motion."""
    import torch

    from midline3d import cameras

    best: tuple[float, Array, Array] | None = None
    # A plain chessboard may be read from either end, by every camera anew.
    for ends in itertools.product((False, True), repeat=len(found) - 1):
        index, pixels = _shared(found, (False, *ends), len(flat))
        if len(index) < 4:
            continue
        points = cameras.triangulate(rig.to_cameras(), torch.from_numpy(pixels)).numpy()
        turn, move, off = _rigid(flat[index], points)
        if best is None or off < best[0]:
            best = (off, turn, move)
    square = float(np.linalg.norm(flat[1] - flat[0]))
    if best is None or best[0] > FLAT * square:
        off = float("nan") if best is None else best[0]
        raise InputError(
            f"{source}: the pictures of frame.board disagree by {off:.3g} mm of {square:g} mm squares; give pictures "
            "of one moment, and the square's side in mm"
        )
    return best[1], best[2]


def _shared(found: list[Any], turned: tuple[bool, ...], count: int) -> tuple[NDArray[np.int64], Array]:
    """Corners that all pictures show, (corner,) and (corner, camera, 2) px; the turned ones are read backwards."""
    views = [
        {
            (count - 1 - int(index) if back else int(index)): pixel
            for index, pixel in zip(view.index, view.pixels, strict=True)
        }
        for view, back in zip(found, turned, strict=True)
    ]
    common = sorted(set.intersection(*(set(view) for view in views)))
    return np.array(common, np.int64), np.array([[view[index] for view in views] for index in common])


def _rigid(flat: Array, points: Array) -> tuple[Array, Array, float]:
    """The rotation and translation from `flat` to `points`, and the rms distance that is left, mm."""
    a, b = flat - flat.mean(0), points - points.mean(0)
    u, _, vt = np.linalg.svd(b.T @ a)
    turn = u @ np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))]) @ vt
    left = b - a @ turn.T
    return turn, points.mean(0) - turn @ flat.mean(0), float(np.sqrt(np.square(left).sum(-1).mean()))


def _grey(path: Path) -> NDArray[np.uint8]:
    import cv2

    content = np.fromfile(path, np.uint8) if path.is_file() else np.zeros(0, np.uint8)
    picture = cv2.imdecode(content, cv2.IMREAD_GRAYSCALE) if content.size else None
    if picture is None:
        raise InputError(f"{path}: the picture of frame.board cannot be read; check the path")
    return np.asarray(picture, np.uint8)


def _rotation(matrix: Array, source: str) -> Array:
    """The nearest rotation to one written with few digits."""
    u, spread, vt = np.linalg.svd(matrix)
    if not np.abs(spread - 1).max() < 1e-2 or np.linalg.det(matrix) < 0:
        raise InputError(
            f"{source}: the matrix of the frame is no rotation; its axes must be right-handed unit vectors"
        )
    return np.asarray(u @ vt)


def _numbers(values: Any, source: str, what: str) -> Array:
    try:
        array = np.array(values, np.float64)
    except ValueError:
        raise InputError(f"{source}: the {what} of the frame has rows of unequal length; correct it") from None
    if not np.isfinite(array).all():
        raise InputError(f"{source}: the {what} of the frame contains a number that is not finite; correct it")
    return array
