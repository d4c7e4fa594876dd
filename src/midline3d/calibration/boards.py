"""A calibration from pictures of a chessboard or ChArUco board, by OpenCV's own functions, with its errors.

Every camera sees the board in the same poses: picture i of one camera was taken together with picture i of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from midline3d import cameras as rig
from midline3d.calibration.records import Calibration, make_calibration, make_camera
from midline3d.errors import InputError
from midline3d.files import visible

Array = NDArray[Any]
"""float64."""

FEWEST_CORNERS = 8
"""A picture with fewer corners says too little about the board's pose."""
FEWEST_PICTURES = 3
"""Pictures in which a camera must see the board, and in which two cameras must see it together."""

PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".pgm")
"""Names of pictures that are looked for in a camera's folder."""


@dataclass(frozen=True)
class Board:
    """The pattern that was filmed."""

    kind: Literal["chessboard", "charuco"]
    columns: int
    """Inner corners along a row of a chessboard; squares along a row of a ChArUco board."""
    rows: int
    square: float
    """mm."""
    marker: float = 0.0
    """mm: ChArUco only."""
    dictionary: str = "DICT_4X4_50"
    """ChArUco only: the name of OpenCV's dictionary."""

    def points(self) -> Array:
        """(corner, 3) mm, in OpenCV's order."""
        columns, rows = (self.columns, self.rows) if self.kind == "chessboard" else (self.columns - 1, self.rows - 1)
        grid = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), -1).reshape(-1, 2) * self.square
        if self.kind == "charuco":
            grid = grid + self.square  # its origin is the outer corner of the first square
        return np.hstack([grid, np.zeros((len(grid), 1))]).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Corners:
    """The corners found in one picture."""

    index: NDArray[np.int64]
    """(corner,) which of the board's."""
    pixels: Array
    """(corner, 2) px."""


@dataclass(frozen=True, eq=False)
class CalibrationReport:
    """A calibration and how well it fits its pictures."""

    calibration: Calibration
    single: dict[str, dict[str, float]]
    """Per camera and picture, px: root mean square error of the camera by itself."""
    joint: dict[str, dict[str, float]]
    """Per camera and picture, px: the same of corners triangulated from all cameras."""
    without: dict[str, tuple[str, ...]]
    """Per camera, the pictures in which no board was found."""

    def as_dict(self) -> dict[str, Any]:
        """The errors, in the types of JSON."""
        without = {name: list(pictures) for name, pictures in self.without.items()}
        return {"single_px": self.single, "joint_px": self.joint, "no_board": without}

    def text(self) -> str:
        """A table for people."""
        lines = []
        for name in self.calibration.names:
            single, joint = self.single[name], self.joint[name]
            means = [float(np.mean(list(errors.values()))) if errors else float("nan") for errors in (single, joint)]
            lines.append(f"{name}: {means[0]:.2f} px by itself, {means[1]:.2f} px together, {len(single)} pictures")
            lines += [
                f"    {picture}: {error:.2f} px, together {joint.get(picture, float('nan')):.2f} px"
                for picture, error in single.items()
            ]
            if self.without[name]:
                lines.append(f"    no board in {', '.join(self.without[name])}")
        return "\n".join(lines)


def calibrate(pictures: Mapping[str, Sequence[Path]], board: Board, focal: float | None = None) -> CalibrationReport:
    """Calibrate cameras from pictures {camera: paths} of a board, those of one moment at the same place in every list.

    focal: px, to start from; needed for telecentric lenses, whose focal length hardly shows in the pictures.
    The world is the first camera's: its origin in the camera, z along its axis.
    """
    _check(pictures, board)
    found, sizes = {}, {}
    for name, paths in pictures.items():
        found[name], sizes[name] = _find_all(name, paths, board)
    inner = {name: _intrinsics(name, found[name], sizes[name], board, focal) for name in pictures}
    poses = _poses(found, inner, sizes, board)
    cameras = [
        make_camera("calibrate", name, sizes[name], inner[name][0], inner[name][1], *poses[name]) for name in pictures
    ]
    calibration = make_calibration(cameras, "mm", "calibrate")
    names = {name: [Path(path).name for path in paths] for name, paths in pictures.items()}
    return CalibrationReport(
        calibration=calibration,
        single={
            name: dict(zip(_seen_names(names[name], found[name]), inner[name][2], strict=True)) for name in pictures
        },
        joint=_joint_errors(calibration, found, names),
        without={
            name: tuple(label for label, corners in zip(names[name], found[name], strict=True) if corners is None)
            for name in pictures
        },
    )


def pictures_in(folder: Path) -> dict[str, list[Path]]:
    """The pictures of each camera, in the order of their names, from a folder with a folder for each."""
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder; give one with a folder of pictures for each camera")
    cameras = sorted(place for place in folder.iterdir() if place.is_dir() and not place.name.startswith("."))
    if len(cameras) < 2:
        raise InputError(f"{folder}: holds {len(cameras)} folder(s), but needs one of pictures for each of two cameras")
    found = {}
    for camera in cameras:
        found[camera.name] = sorted(file for file in visible(camera) if file.suffix.lower() in PICTURES)
        if not found[camera.name]:
            raise InputError(f"{camera}: holds no picture ({', '.join(PICTURES)}); put this camera's pictures there")
    return found


def find_corners(picture: NDArray[Any], board: Board) -> Corners | None:
    """The board's corners in a grey picture, to a fraction of a pixel."""
    if board.kind == "charuco":
        layout = cv2.aruco.getPredefinedDictionary(getattr(cv2.aruco, board.dictionary))
        pattern = cv2.aruco.CharucoBoard((board.columns, board.rows), board.square, board.marker, layout)
        corners, ids, _, _ = cv2.aruco.CharucoDetector(pattern).detectBoard(picture)
        if ids is None or len(ids) < FEWEST_CORNERS:
            return None
        return Corners(ids.reshape(-1).astype(np.int64), corners.reshape(-1, 2).astype(np.float64))
    good, corners = cv2.findChessboardCornersSB(picture, (board.columns, board.rows), flags=cv2.CALIB_CB_ACCURACY)
    if not good:
        return None
    return Corners(np.arange(board.columns * board.rows), corners.reshape(-1, 2).astype(np.float64))


def _check(pictures: Mapping[str, Sequence[Path]], board: Board) -> None:
    counts = {name: len(paths) for name, paths in pictures.items()}
    if len(counts) < 2:
        raise InputError(f"calibrate was given {len(counts)} camera(s), but two or more are needed; add their pictures")
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InputError(f"the cameras have unequal numbers of pictures ({listed}); give pictures taken together")
    if board.columns < 3 or board.rows < 3 or not board.square > 0:
        raise InputError(
            f"the board is {board.columns} x {board.rows} of {board.square:g} mm; give 3 x 3 or more, of a size above 0"
        )
    if board.kind == "charuco" and not (0 < board.marker < board.square and hasattr(cv2.aruco, board.dictionary)):
        raise InputError(
            f"the ChArUco board has markers of {board.marker:g} mm from {board.dictionary}; "
            "give a size below the square's, and one of OpenCV's dictionaries such as DICT_4X4_50"
        )


def _find_all(name: str, paths: Sequence[Path], board: Board) -> tuple[list[Corners | None], tuple[int, int]]:
    found: list[Corners | None] = []
    size: tuple[int, int] | None = None
    for path in paths:
        content = np.fromfile(path, np.uint8) if Path(path).is_file() else np.zeros(0, np.uint8)
        picture = cv2.imdecode(content, cv2.IMREAD_GRAYSCALE) if content.size else None
        if picture is None:
            raise InputError(f"{path}: the picture of '{name}' cannot be read; is it there, and whole?")
        if size is not None and picture.shape[::-1] != size:
            raise InputError(
                f"{path}: is {picture.shape[1]} x {picture.shape[0]} px, but the pictures before it are {size[0]} x "
                f"{size[1]}; give pictures of one size"
            )
        size = (picture.shape[1], picture.shape[0])
        found.append(find_corners(picture, board))
    seen = sum(corners is not None for corners in found)
    if seen < FEWEST_PICTURES or size is None:
        raise InputError(
            f"'{name}' shows the {board.columns} x {board.rows} board in {seen} of {len(paths)} pictures, but "
            f"{FEWEST_PICTURES} are needed; check the board's numbers (inner corners of a chessboard), light and focus"
        )
    return found, size


def _seen_names(names: Sequence[str], found: Sequence[Corners | None]) -> list[str]:
    return [name for name, corners in zip(names, found, strict=True) if corners is not None]


def _intrinsics(
    name: str, found: Sequence[Corners | None], size: tuple[int, int], board: Board, focal: float | None
) -> tuple[Array, Array, list[float]]:
    """Matrix, distortions and the error of each picture that shows the board."""
    points = board.points()
    seen = [corners for corners in found if corners is not None]
    # Long lenses show no more distortion than k1: the rest would only fit the noise.
    flags = cv2.CALIB_ZERO_TANGENT_DIST | cv2.CALIB_FIX_K2 | cv2.CALIB_FIX_K3 | cv2.CALIB_FIX_ASPECT_RATIO
    start = np.eye(3)
    if focal is not None:
        start = np.array([[focal, 0, (size[0] - 1) / 2], [0, focal, (size[1] - 1) / 2], [0, 0, 1]])
        # Without perspective the principal point cannot be distinguished from a shift of the board.
        flags |= cv2.CALIB_USE_INTRINSIC_GUESS | cv2.CALIB_FIX_PRINCIPAL_POINT
    try:
        result = cv2.calibrateCameraExtended(
            [points[corners.index].astype(np.float32) for corners in seen],
            [corners.pixels.astype(np.float32) for corners in seen],
            size,
            start,
            np.zeros(5),
            flags=flags,
        )
    except cv2.error as fault:
        raise InputError(f"'{name}' cannot be calibrated ({fault.err}); turn the board more between pictures") from None
    matrix, distortions, errors = result[1], result[2].reshape(-1)[:5], result[-1].reshape(-1)
    return matrix, distortions, [float(error) for error in errors]


def _poses(
    found: Mapping[str, Sequence[Corners | None]],
    inner: Mapping[str, tuple[Array, Array, list[float]]],
    sizes: Mapping[str, tuple[int, int]],
    board: Board,
) -> dict[str, tuple[Array, Array]]:
    """Each camera's rotation and translation from the first one's, along the pairs that share most pictures."""
    names = list(found)
    poses: dict[str, tuple[Array, Array]] = {names[0]: (np.eye(3), np.zeros(3))}
    shared = {(a, b): _together(found[a], found[b]) for a in names for b in names if a != b}
    while len(poses) < len(names):
        links = [(len(shared[a, b]), a, b) for a in poses for b in names if b not in poses]
        number, known, new = max(links)
        if number < FEWEST_PICTURES:
            raise InputError(
                f"'{new}' and '{known}' show the board together in {number} pictures, but {FEWEST_PICTURES} are "
                "needed; take more with the board in both views"
            )
        rotation, translation = _between(shared[known, new], inner[known], inner[new], sizes[known], board)
        turn, move = poses[known]
        poses[new] = (rotation @ turn, rotation @ move + translation)
    return poses


def _together(
    one: Sequence[Corners | None], other: Sequence[Corners | None]
) -> list[tuple[NDArray[np.int64], Array, Array]]:
    """Corners that both cameras see at the same moment."""
    result = []
    for left, right in zip(one, other, strict=True):
        if left is None or right is None:
            continue
        index, at_left, at_right = np.intersect1d(left.index, right.index, return_indices=True)
        if len(index) >= FEWEST_CORNERS:
            result.append((index, left.pixels[at_left], right.pixels[at_right]))
    return result


def _between(
    shared: Sequence[tuple[NDArray[np.int64], Array, Array]],
    known: tuple[Array, Array, list[float]],
    new: tuple[Array, Array, list[float]],
    size: tuple[int, int],
    board: Board,
) -> tuple[Array, Array]:
    points = board.points()
    result = cv2.stereoCalibrate(
        [points[index].astype(np.float32) for index, _, _ in shared],
        [pixels.astype(np.float32) for _, pixels, _ in shared],
        [pixels.astype(np.float32) for _, _, pixels in shared],
        *(known[0], known[1], new[0], new[1]),
        size,
        flags=cv2.CALIB_FIX_INTRINSIC,
    )
    return result[5], result[6].reshape(3)


def _joint_errors(
    calibration: Calibration, found: Mapping[str, Sequence[Corners | None]], names: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, float]]:
    """Errors of corners that all cameras see, triangulated and projected back."""
    cameras = calibration.to_cameras()
    result: dict[str, dict[str, float]] = {name: {} for name in calibration.names}
    for moment, views in enumerate(zip(*(found[name] for name in calibration.names), strict=True)):
        if any(view is None for view in views):
            continue
        whole = [view for view in views if view is not None]
        index = whole[0].index
        for view in whole[1:]:
            index = np.intersect1d(index, view.index)
        if not len(index):
            continue
        pixels = np.stack([_picked(view, index) for view in whole], 1)
        points = rig.triangulate(cameras, torch.from_numpy(pixels))
        gap = rig.project(cameras, points[:, None])[:, :, 0].numpy() - pixels
        for camera, name in enumerate(calibration.names):
            error = np.sqrt((gap[:, camera] ** 2).sum(-1).mean())
            result[name][names[name][moment]] = float(error)
    return result


def _picked(view: Corners, index: NDArray[np.int64]) -> Array:
    place = {int(corner): row for row, corner in enumerate(view.index)}
    return view.pixels[[place[int(corner)] for corner in index]]
