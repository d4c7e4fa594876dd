"""File formats of calibrations: our JSON, anipose's TOML, OpenCV's XML and YAML, all to one record in mm."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from midline3d import cameras as rig
from midline3d.errors import InputError
from midline3d.settings import read_toml, validated

Array = NDArray[np.float64]

MILLIMETRES = {"mm": 1.0, "um": 1e-3, "µm": 1e-3, "μm": 1e-3, "micron": 1e-3, "cm": 10.0, "m": 1e3, "in": 25.4}
"""What one of each unit is in mm."""

OPENCV_SUFFIXES = (".xml", ".yml", ".yaml")


@dataclass(frozen=True, eq=False)
class Camera:
    """One calibrated camera in OpenCV's convention: x_cam = R X + t, pixel centres at integers."""

    name: str
    size: tuple[int, int] | None
    """Width and height in px; None where the file does not say."""
    matrix: Array
    """3 x 3, px."""
    distortions: Array
    """k1, k2, p1, p2, k3."""
    rotation: Array
    """3 x 3, world to camera."""
    translation: Array
    """3, mm."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """A rig of two cameras or more, in mm whatever the file's unit was."""

    cameras: tuple[Camera, ...]
    units: str = "mm"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(camera.name for camera in self.cameras)

    def cameras_for(self, names: list[str] | tuple[str, ...]) -> Calibration:
        """The cameras of these names, in this order."""
        known = {camera.name: camera for camera in self.cameras}
        for name in names:
            if name not in known:
                raise InputError(
                    f"the calibration has no camera '{name}', only {', '.join(known)}: "
                    "give the recording's cameras the calibration's names"
                )
        return Calibration(tuple(known[name] for name in names), self.units)

    def to_cameras(self) -> rig.Cameras:
        """The rig as the method uses it, float64."""
        stacked = (
            torch.from_numpy(np.stack([getattr(camera, item) for camera in self.cameras]))
            for item in ("matrix", "distortions", "rotation", "translation")
        )
        return rig.make_cameras(*stacked)


def load_calibration(path: Path) -> Calibration:
    """The calibration in a file of any known format, or in a folder of OpenCV files, one per camera."""
    path = Path(path)
    if path.is_dir():
        return _from_folder(path)
    if not path.exists():
        raise InputError(f"{path}: there is no such calibration file; check the path")
    suffix = path.suffix.lower()
    if suffix == ".json":
        return _from_json(path)
    if suffix == ".toml":
        return _from_anipose(path)
    if suffix in OPENCV_SUFFIXES:
        return _from_opencv(path)
    raise InputError(f"{path}: a calibration ends in .json, .toml (anipose) or .xml, .yml (OpenCV), not '{suffix}'")


def save_calibration(calibration: Calibration, path: Path) -> None:
    """Write the calibration in the format that the path's suffix names (.json, .toml, .xml, .yml)."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".json":
        content = {"units": calibration.units, "cameras": [_plain(camera) for camera in calibration.cameras]}
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    elif suffix == ".toml":
        path.write_text(_anipose_text(calibration), encoding="utf-8")
    elif suffix in OPENCV_SUFFIXES:
        _write_opencv(calibration, path)
    else:
        raise InputError(f"{path}: a calibration is written as .json, .toml (anipose) or .xml, .yml (OpenCV)")


def make_calibration(cameras: list[Camera], units: str, source: str) -> Calibration:
    """Cameras of one file, checked together and brought to mm."""
    if len(cameras) < 2:
        raise InputError(f"{source}: holds {len(cameras)} camera(s), but two or more are needed to see in 3D")
    names = [camera.name for camera in cameras]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{source}: two cameras are named '{twice}'; give each its own name")
    if units not in MILLIMETRES:
        raise InputError(f"{source}: the unit '{units}' is not known; use one of {', '.join(MILLIMETRES)}")
    factor = MILLIMETRES[units]
    scaled = tuple(dataclasses.replace(camera, translation=camera.translation * factor) for camera in cameras)
    poses = [np.hstack([camera.rotation, camera.translation[:, None]]) for camera in scaled]
    if all(np.allclose(poses[0], pose, rtol=1e-9, atol=1e-9) for pose in poses[1:]):
        raise InputError(
            f"{source}: all cameras stand in the same place, so depth cannot be seen; calibrate their poses"
        )
    return Calibration(scaled)


def make_camera(
    source: str,
    name: str,
    size: ArrayLike | None,
    matrix: ArrayLike,
    distortions: ArrayLike,
    rotation: ArrayLike,
    translation: ArrayLike,
) -> Camera:
    """One camera from what a file says, each number checked; `source` opens every complaint."""
    label = f"{source}: camera '{name}'"
    return Camera(
        name=name,
        size=_size(size, label),
        matrix=_intrinsic(_numbers(matrix, (3, 3), "matrix", label), label),
        distortions=_distortions(distortions, label),
        rotation=_rotation(rotation, label),
        translation=_numbers(translation, (3,), "translation", label),
    )


def _numbers(values: ArrayLike, shape: tuple[int, ...] | None, what: str, label: str) -> Array:
    """Finite float64 numbers of a shape (None: a flat row of any length)."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{label}: the {what} is not an array of numbers; write it as a list of numbers") from None
    if array.size == (math.prod(shape) if shape else array.size):
        array = array.reshape(shape if shape else -1)
    else:
        wanted = " x ".join(map(str, shape or ()))
        raise InputError(f"{label}: the {what} has {array.size} numbers, but {wanted} are needed; correct it")
    if not np.isfinite(array).all():
        fault = array[~np.isfinite(array)][0]
        raise InputError(f"{label}: the {what} contains {fault}; calibrate again, that calibration did not converge")
    return array


def _size(size: ArrayLike | None, label: str) -> tuple[int, int] | None:
    if size is None:
        return None
    width, height = _numbers(size, (2,), "size", label)
    if width < 1 or height < 1 or width != int(width) or height != int(height) or max(width, height) > 1e6:
        raise InputError(f"{label}: the size is {width:g} x {height:g}; give the images' width and height in whole px")
    return int(width), int(height)


def _intrinsic(matrix: Array, label: str) -> Array:
    if not np.allclose(matrix[2], (0, 0, 1)) or matrix[1, 0] != 0:
        raise InputError(f"{label}: the matrix is not [[fx, 0, cx], [0, fy, cy], [0, 0, 1]]; is it transposed?")
    if not (1e-6 < matrix[0, 0] < 1e12 and 1e-6 < matrix[1, 1] < 1e12):
        raise InputError(
            f"{label}: the matrix is singular (focal lengths {matrix[0, 0]:g} and {matrix[1, 1]:g} px); calibrate again"
        )
    if abs(matrix[0, 1]) > 1e-6 * matrix[0, 0]:
        raise InputError(f"{label}: the matrix has a skew of {matrix[0, 1]:g} px; calibrate with the skew fixed at 0")
    return matrix


def _distortions(values: ArrayLike, label: str) -> Array:
    """k1, k2, p1, p2, k3; OpenCV's longer models only where they say no more than that."""
    given = _numbers(values, None, "distortions", label)
    if given.size not in (0, 4, 5, 8, 12, 14):
        raise InputError(f"{label}: {given.size} distortions were given, but OpenCV's are k1, k2, p1, p2, k3")
    if given[5:].any():
        raise InputError(
            f"{label}: distortion number 6 or later is {given[5:][given[5:] != 0][0]:g}, but only k1, k2, p1, p2, k3 "
            "are modelled; calibrate without the rational, thin-prism and tilted models"
        )
    distortions = np.zeros(5)
    distortions[: min(given.size, 5)] = given[:5]
    return distortions


def _rotation(values: ArrayLike, label: str) -> Array:
    """A rotation matrix from a matrix or from Rodrigues' vector, made exactly orthonormal."""
    given = _numbers(values, None, "rotation", label)
    if given.size == 3:
        return _rodrigues(given)
    matrix = _numbers(given, (3, 3), "rotation", label)
    left, spread, right = np.linalg.svd(matrix)
    if np.abs(spread - 1).max() > 1e-2:
        raise InputError(
            f"{label}: the rotation is not a rotation matrix (its singular values are "
            f"{', '.join(f'{value:.3g}' for value in spread)} instead of 1); correct it"
        )
    if np.linalg.det(matrix) < 0:
        raise InputError(f"{label}: the rotation mirrors space (determinant -1); flip the sign of one axis")
    # Files carry few digits: the nearest rotation is what was meant.
    return np.asarray(left @ right)


def _rodrigues(vector: Array) -> Array:
    angle = float(np.linalg.norm(vector))
    if angle == 0:
        return np.eye(3)
    x, y, z = vector / angle
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross


def _rotation_vector(rotation: Array) -> Array:
    from scipy.spatial.transform import Rotation

    return np.asarray(Rotation.from_matrix(rotation).as_rotvec())


# --- ours -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _JsonCamera:
    name: str
    matrix: list[list[float]]
    rotation: list[list[float]] | list[float]
    translation: list[float]
    size: tuple[int, int] | None = None
    distortions: list[float] = dataclasses.field(default_factory=list)


@dataclass(frozen=True)
class _JsonCalibration:
    cameras: list[_JsonCamera]
    units: str = "mm"


def _from_json(path: Path) -> Calibration:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as fault:
        raise InputError(f"{path}: cannot be read as text ({fault}); is it the right file?") from None
    except (ValueError, RecursionError) as fault:
        raise InputError(f"{path}: is not valid JSON ({fault}); mend it") from None
    content = validated(_JsonCalibration, data, str(path))
    cameras = [make_camera(str(path), **{**vars(camera)}) for camera in content.cameras]
    return make_calibration(cameras, content.units, str(path))


def _plain(camera: Camera) -> dict[str, Any]:
    """A camera in the types of JSON; the size stays out where it is not known."""
    entry = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in vars(camera).items()
        if value is not None
    }
    return entry


# --- anipose --------------------------------------------------------------------------------------------------------


def _from_anipose(path: Path) -> Calibration:
    data = read_toml(path)
    metadata = data.get("metadata", {})
    units = metadata.get("units", "mm") if isinstance(metadata, dict) else "mm"
    cameras = []
    for key, entry in data.items():
        if key == "metadata" or not isinstance(entry, dict):
            continue
        label = str(entry.get("name", key))
        missing = [item for item in ("matrix", "rotation", "translation") if item not in entry]
        if missing:
            raise InputError(f"{path}: the camera [{key}] has no {missing[0]}; write the file with anipose again")
        if entry.get("fisheye"):
            raise InputError(f"{path}: camera '{label}' is a fisheye, which is not modelled; calibrate it as a pinhole")
        values = (entry.get("size"), entry["matrix"], entry.get("distortions", []), entry["rotation"])
        cameras.append(make_camera(str(path), label, *values, entry["translation"]))
    return make_calibration(cameras, str(units), str(path))


def _anipose_text(calibration: Calibration) -> str:
    lines = []
    for index, camera in enumerate(calibration.cameras):
        if camera.size is None:
            raise InputError(f"camera '{camera.name}' has no image size, which anipose asks for; save as .json instead")
        entry = _plain(camera) | {"rotation": _rotation_vector(camera.rotation).tolist(), "fisheye": False}
        lines.append(f"[cam_{index}]")
        lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
        lines.append("")
    return "\n".join([*lines, "[metadata]", f'units = "{calibration.units}"', ""])


# --- OpenCV ---------------------------------------------------------------------------------------------------------

_MATRIX = ("camera_matrix", "cameraMatrix", "CameraMatrix", "Camera_Matrix", "K", "matrix")
_DISTORTION = ("distortion_coefficients", "Distortion_Coefficients", "distCoeffs", "dist_coeffs", "distortion", "D")
_ROTATION = ("rotation", "R", "rvec", "rotation_vector", "rotation_matrix")
_TRANSLATION = ("translation", "T", "t", "tvec", "translation_vector")
_POSE = ("camera_pose", "pose", "extrinsic", "extrinsics", "extrinsic_matrix")


def _read_opencv(path: Path) -> dict[str, Any]:
    """The matrices, numbers and words at the top of an OpenCV file."""
    import cv2

    content: dict[str, Any] = {}
    try:
        storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_READ)
        root = storage.root()
        for key in root.keys():  # noqa: SIM118: a FileNode is no dictionary
            node = root.getNode(key)
            if node.isMap():
                content[key] = node.mat()
            elif node.isInt() or node.isReal():
                content[key] = node.real()
            elif node.isString():
                content[key] = node.string()
        storage.release()
    except (cv2.error, SystemError, UnicodeDecodeError) as fault:
        reason = str(fault).strip().splitlines()[0] if str(fault).strip() else "OpenCV does not read it"
        raise InputError(f"{path}: is not a file of OpenCV's ({reason}); is it the right file?") from None
    return {key: value for key, value in content.items() if value is not None}


def _from_opencv(path: Path) -> Calibration:
    content = _read_opencv(path)
    if "nCameras" not in content:
        found = "one camera" if any(key in content for key in _MATRIX) else "no camera that we know"
        raise InputError(
            f"{path}: describes {found}; for several, give OpenCV's multi-camera file, "
            "or a folder with one such file, pose included, for each camera"
        )
    cameras = []
    count = content["nCameras"]
    if not isinstance(count, float) or not 0 <= count <= 1000:
        raise InputError(f"{path}: nCameras is {count}; give the number of cameras")
    for index in range(int(count)):
        parts = {
            part: content.get(f"camera_{part}_{index}") for part in ("matrix", "distortion", "pose", "size", "name")
        }
        if parts["matrix"] is None or parts["pose"] is None:
            missing = "matrix" if parts["matrix"] is None else "pose"
            raise InputError(f"{path}: nCameras is {int(count)}, but camera_{missing}_{index} is missing; add it")
        name = str(parts["name"] or f"cam{index}")
        cameras.append(_posed(str(path), name, parts["size"], parts["matrix"], parts["distortion"], parts["pose"]))
    return make_calibration(cameras, str(content.get("units", "mm")), str(path))


def _posed(source: str, name: str, size: Any, matrix: Any, distortion: Any, pose: Any) -> Camera:
    """A camera whose pose is a 4 x 4 (or 3 x 4) matrix, world to camera."""
    label = f"{source}: camera '{name}'"
    rows = np.shape(pose)[0] if np.ndim(pose) == 2 else 4
    pose = _numbers(pose, (rows if rows in (3, 4) else 4, 4), "pose", label)
    distortion = [] if distortion is None else distortion
    return make_camera(source, name, size, matrix, distortion, pose[:3, :3], pose[:3, 3])


def _from_folder(folder: Path) -> Calibration:
    """One OpenCV file per camera; a camera's name is its file's."""
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in OPENCV_SUFFIXES)
    if not paths:
        raise InputError(f"{folder}: the folder holds no .xml or .yml of OpenCV's; give one per camera")
    return make_calibration([_single(path) for path in paths], "mm", str(folder))


def _single(path: Path) -> Camera:
    content = _read_opencv(path)

    def first(keys: tuple[str, ...]) -> Any:
        return next((content[key] for key in keys if key in content), None)

    matrix, pose, rotation, translation = first(_MATRIX), first(_POSE), first(_ROTATION), first(_TRANSLATION)
    if matrix is None:
        raise InputError(f"{path}: holds no camera_matrix; is it a calibration?")
    width, height = content.get("image_width"), content.get("image_height")
    size = None if width is None or height is None else (width, height)
    distortion = first(_DISTORTION)
    name = str(content.get("camera_name", path.stem))
    if pose is not None:
        return _posed(str(path), name, size, matrix, distortion, pose)
    if rotation is None or translation is None:
        raise InputError(
            f"{path}: has no pose (camera_pose, or R and T, world to camera), so this camera's place is "
            "not known; add it from stereoCalibrate, or run midline3d calibrate"
        )
    distortion = [] if distortion is None else distortion
    return make_camera(str(path), name, size, matrix, distortion, rotation, translation)


def _write_opencv(calibration: Calibration, path: Path) -> None:
    import cv2

    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE)
    storage.write("nCameras", len(calibration.cameras))
    storage.write("camera_type", 0)
    storage.write("units", calibration.units)
    for index, camera in enumerate(calibration.cameras):
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = camera.rotation, camera.translation
        storage.write(f"camera_name_{index}", camera.name)
        storage.write(f"camera_matrix_{index}", camera.matrix)
        storage.write(f"camera_distortion_{index}", camera.distortions[None])
        storage.write(f"camera_pose_{index}", pose)
        if camera.size is not None:
            storage.write(f"camera_size_{index}", np.asarray(camera.size, np.float64)[None])
    storage.release()
