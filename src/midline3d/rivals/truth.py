"""The truth of a recording: our simulator's file in its folder, or another's beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.recording import load_recording

Array = NDArray[np.float64]


def truth_file(recording: Path) -> Path:
    """FOLDER/truth.nc, or FOLDER.truth.npz beside the folder."""
    folder = recording if recording.is_dir() else recording.parent
    for file in (folder / "truth.nc", folder.with_name(f"{folder.name}.truth.npz")):
        if file.is_file():
            return file
    raise InputError(
        f"{folder}: has no truth; give a simulated recording with truth.nc in it or {folder.name}.truth.npz beside it"
    )


def read_truth(recording: Path) -> xr.Dataset:
    """The truth under the names of a simulated recording's: projection (px), length (mm), inside, unreadable."""
    file = truth_file(recording)
    return xr.load_dataset(file) if file.suffix == ".nc" else _of_arrays(file, recording)


def _of_arrays(file: Path, recording: Path) -> xr.Dataset:
    """Of `projections` (frame, camera, point, 2) px and `points` (frame, point, 3) mm, both head first, the cameras in
    the recording's order. Optional: `outside` and `black` (frame, camera), `px_per_mm`."""
    try:
        with np.load(file) as kept:
            arrays: dict[str, Array] = {name: kept[name] for name in kept.files}
    except (OSError, ValueError) as fault:
        raise InputError(f"{file}: cannot be read as arrays ({fault}); write it by numpy.savez") from None
    found = load_recording(recording)
    seen, points = (_array(arrays, name, file) for name in ("projections", "points"))
    wanted = f"(frame, {len(found.views)}, point, 2)"
    if seen.ndim != 4 or seen.shape[1] != len(found.views) or seen.shape[3] != 2:
        raise InputError(f"{file}: its projections have the shape {seen.shape}; write {wanted}, in px")
    if points.shape != (len(seen), seen.shape[2], 3):
        raise InputError(
            f"{file}: its points have the shape {points.shape}; write {(len(seen), seen.shape[2], 3)}, in mm"
        )
    size = np.array([view.source.size for view in found.views])[:, None] - 1.0
    inside = ((seen >= 0) & (seen <= size)).all(-1).mean(-1)
    shape = inside.shape
    hidden = {name: np.broadcast_to(_flags(arrays, name, shape), shape) for name in ("outside", "black")}
    scales = np.broadcast_to(arrays.get("px_per_mm", np.nan), len(found.views)).tolist()
    return xr.Dataset(
        {
            "projection": (("time", "camera", "keypoint", "image"), seen.astype(np.float64)),
            "length": (("time",), np.linalg.norm(np.diff(points, axis=1), axis=-1).sum(-1)),
            "inside": (("time", "camera"), np.where(hidden["outside"], 0.0, inside)),
            "unreadable": (("time", "camera"), hidden["black"]),
        },
        coords={
            "time": np.arange(len(seen)) / found.fps,
            "frame": ("time", np.arange(len(seen))),
            "camera": [view.name for view in found.views],
        },
        attrs={"px_per_mm": scales},
    )


def _array(arrays: dict[str, Array], name: str, file: Path) -> Array:
    if name not in arrays:
        raise InputError(f"{file}: has no '{name}', only {', '.join(arrays) or 'nothing'}; write it there")
    return arrays[name]


def _flags(arrays: dict[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    flags = np.asarray(arrays.get(name, np.zeros(shape)), dtype=bool)
    return flags[:, None] if flags.ndim == 1 else flags
