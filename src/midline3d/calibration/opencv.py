"""OpenCV's XML and YAML: the multi-camera file, and folders with one file per camera."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from midline3d.calibration.records import Calibration, Camera, make_calibration, make_camera, numbers
from midline3d.errors import InputError
from midline3d.files import visible
from midline3d.reading import read_text, shortened

OPENCV_SUFFIXES = (".xml", ".yml", ".yaml")

_MATRIX = ("camera_matrix", "cameraMatrix", "CameraMatrix", "Camera_Matrix", "K", "matrix")
_DISTORTION = ("distortion_coefficients", "Distortion_Coefficients", "distCoeffs", "dist_coeffs", "distortion", "D")
_ROTATION = ("rotation", "R", "rvec", "rotation_vector", "rotation_matrix")
_TRANSLATION = ("translation", "T", "t", "tvec", "translation_vector")
_POSE = ("camera_pose", "pose", "extrinsic", "extrinsics", "extrinsic_matrix")


DEEPEST = 24
"""Levels of nesting that a file may have: matrices lie three deep, and OpenCV's parser ends the process some way on."""


def nesting(text: str) -> int:
    """How deep a text in XML, YAML or JSON is nested, at least: by tags, by brackets, and by indents and dashes."""
    tags = np.cumsum([-1 if tag.startswith("</") else 1 for tag in re.findall(r"</?[A-Za-z_](?:[^<>]*[^<>/])?>", text)])
    brackets = np.cumsum([1 if bracket in "[{" else -1 for bracket in re.findall(r"[\[\]{}]", text)])
    deepest, levels = 0, [-1]
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith(("%", "#")):
            continue
        lead = re.match(r"(?:[ \t]*-(?=[ \t-]|$))*[ \t]*", line)
        indent = len(lead.group()) if lead else 0
        while levels[-1] >= indent:
            levels.pop()
        levels.append(indent)
        deepest = max(deepest, len(levels), lead.group().count("-") if lead else 0)
    return max(deepest, *(int(course.max()) if course.size else 0 for course in (tags, brackets)))


def read_opencv(path: Path) -> dict[str, Any]:
    """The matrices, numbers and words at the top of an OpenCV file."""
    import cv2

    depth = nesting(read_text(path))
    if depth > DEEPEST:
        raise InputError(
            f"{path}: is nested {depth} levels deep, but a file of OpenCV's {DEEPEST} at most; is it the right file?"
        )
    content: dict[str, Any] = {}
    try:
        storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_READ)
        root = storage.root()
        for key in root.keys():  # noqa: SIM118 - a FileNode is no dictionary
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
        raise InputError(f"{path}: is not a file of OpenCV's ({shortened(reason)}); is it the right file?") from None
    return {key: value for key, value in content.items() if value is not None}


def from_opencv(path: Path) -> Calibration:
    content = read_opencv(path)
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
    pose = numbers(pose, (rows if rows in (3, 4) else 4, 4), "pose", label)
    distortion = [] if distortion is None else distortion
    return make_camera(source, name, size, matrix, distortion, pose[:3, :3], pose[:3, 3])


def from_folder(folder: Path) -> Calibration:
    """One OpenCV file per camera; a camera's name is its file's."""
    paths = sorted(path for path in visible(folder) if path.suffix.lower() in OPENCV_SUFFIXES)
    if not paths:
        raise InputError(f"{folder}: the folder holds no .xml or .yml of OpenCV's; give one per camera")
    return make_calibration([_single(path) for path in paths], "mm", str(folder))


def _single(path: Path) -> Camera:
    content = read_opencv(path)

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


def write_opencv(calibration: Calibration, path: Path) -> None:
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
