"""Calibrations in files: ours in JSON and anipose's in TOML here, OpenCV's beside."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from midline3d.calibration.opencv import OPENCV_SUFFIXES, from_folder, from_opencv, write_opencv
from midline3d.calibration.records import Calibration, Camera, make_calibration, make_camera
from midline3d.errors import InputError
from midline3d.files import check_file
from midline3d.reading import read_text, read_toml, shortened, validated


def load_calibration(path: Path | str) -> Calibration:
    """The calibration in a file of any known format, or in a folder of OpenCV files, one per camera."""
    path = Path(path)
    if path.is_dir():
        return from_folder(path)
    if not path.exists():
        raise InputError(f"{path}: there is no such calibration file; check the path")
    suffix = path.suffix.lower()
    if suffix == ".json":
        return _from_json(path)
    if suffix == ".toml":
        return _from_anipose(path)
    if suffix in OPENCV_SUFFIXES:
        return from_opencv(path)
    raise InputError(f"{path}: a calibration ends in .json, .toml (anipose) or .xml, .yml (OpenCV), not '{suffix}'")


def check_target(path: Path | str) -> None:
    """Complains about a path that no calibration can be written to, before work is done for it."""
    if Path(path).suffix.lower() not in (".json", ".toml", *OPENCV_SUFFIXES):
        raise InputError(f"{path}: a calibration is written as .json, .toml (anipose) or .xml, .yml (OpenCV)")
    check_file(Path(path))


def save_calibration(calibration: Calibration, path: Path | str) -> None:
    """Write the calibration in the format that the path's suffix names (.json, .toml, .xml, .yml)."""
    check_target(path)
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".json":
        content = {"units": calibration.units, "cameras": [_plain(camera) for camera in calibration.cameras]}
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    elif suffix == ".toml":
        path.write_text(_anipose_text(calibration), encoding="utf-8")
    else:
        write_opencv(calibration, path)


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
    text = read_text(path)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise InputError(f"{path}: is not valid JSON ({shortened(fault)}); mend it") from None
    if not isinstance(data, dict):
        raise InputError(f'{path}: begins with no {{; put the cameras into {{"units": "mm", "cameras": [...]}}')
    if "cameras" not in data and any(map(_of_opencv, data.values())):
        return _from_opencv_json(path, data)
    content = validated(_JsonCalibration, data, str(path))
    cameras = [make_camera(str(path), **{**vars(camera)}) for camera in content.cameras]
    return make_calibration(cameras, content.units, str(path))


def _of_opencv(value: Any) -> bool:
    """Whether a value of a JSON file is a matrix as OpenCV's FileStorage writes it."""
    return isinstance(value, dict) and value.get("type_id") == "opencv-matrix"


def _from_opencv_json(path: Path, data: dict[str, Any]) -> Calibration:
    """What OpenCV's FileStorage wrote as JSON; only the multi-camera file's keys say what is what."""
    if "nCameras" in data:
        return from_opencv(path)
    raise InputError(
        f"{path}: looks like a file of OpenCV's with the keys {shortened(', '.join(data))}, which may be anything; "
        "name them as OpenCV's multi-camera file does (nCameras, camera_matrix_0, camera_distortion_0, camera_pose_0 "
        "...), or give a folder with a .yml for each camera (camera_matrix, distortion_coefficients, R, T)"
    )


def _plain(camera: Camera) -> dict[str, Any]:
    """A camera in the types of JSON; the size stays out where it is not known."""
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in vars(camera).items()
        if value is not None
    }


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
    from scipy.spatial.transform import Rotation  # half a second, which no worker that follows a worm has to give

    lines = []
    for index, camera in enumerate(calibration.cameras):
        if camera.size is None:
            raise InputError(f"camera '{camera.name}' has no image size, which anipose asks for; save as .json instead")
        entry = _plain(camera) | {
            "rotation": Rotation.from_matrix(camera.rotation).as_rotvec().tolist(),
            "fisheye": False,
        }
        lines.append(f"[cam_{index}]")
        lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
        lines.append("")
    return "\n".join([*lines, "[metadata]", f'units = "{calibration.units}"', ""])
