"""One dataset, of names that xarray and `movement` users know, out of a result's segments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.store.records import DIMENSIONS, Header
from midline3d.store.segments import Segment, fingerprint

PENDING = "pending"
"""Status of a frame that a growing result does not hold yet."""

_UNITS = {
    "position": "mm",
    "projection": "px",
    "curvature": "1/body length",
    "length": "mm",
    "sigma": "px",
    "shift": "px",
}


def assemble(folder: Path, header: Header, segments: Sequence[Segment]) -> xr.Dataset:
    """One dataset out of the segments; later ones overwrite, and what no segment holds is NaN and pending."""
    place = {frame: index for index, frame in enumerate(header.frames)}
    count, sizes = len(header.frames), header.sizes
    data: dict[str, NDArray[Any]] = {
        name: np.full((count, *(sizes[dim] for dim in dims)), np.nan, np.float64 if name == "position" else np.float32)
        for name, dims in DIMENSIONS.items()
    }
    data |= {"steps": np.zeros(count, np.int32), "status": np.full(count, PENDING, object)}
    for segment in segments:
        arrays = segment.read(folder)
        if arrays is None:
            continue
        rows = [place[frame] for frame in arrays.pop("frame").tolist()]
        for name in arrays.keys() - data.keys():  # a term of the loss
            data[name] = np.full(count, np.nan, np.float32)
        for name, column in data.items():
            column[rows] = arrays.get(name, np.nan)  # a lost frame may replace a found one
    return _dataset(header, data, fingerprint(segments))


def _dataset(header: Header, data: dict[str, NDArray[Any]], content: str) -> xr.Dataset:
    variables: dict[str, tuple[Any, ...]] = {}
    for name, values in data.items():
        dims = ("time", *DIMENSIONS.get(name, ()))
        if name == "position":
            dims, values = ("time", "space", "keypoint", "individual"), values.transpose(0, 2, 1)[..., None]
        elif name == "confidence":
            dims, values = (*dims, "individual"), values[..., None]
        variables[name] = (dims, values, {"units": _UNITS[name]} if name in _UNITS else {})
    frames = np.asarray(header.frames, dtype=np.int64)
    coordinates: dict[str, Any] = {
        "time": frames / header.fps,
        "frame": ("time", frames),
        "space": ["x", "y", "z"],
        "keypoint": np.arange(header.keypoints),
        "individual": ["worm"],
        "camera": list(header.cameras),
        "image": ["u", "v"],
        "bishop": ["m1", "m2"],
    }
    attributes = {
        "source_software": "midline3d",
        "ds_type": "poses",
        "fps": header.fps,
        "time_unit": "seconds",
        "version": header.version,
        "settings": header.settings,
        "inputs": json.dumps(dict(header.inputs)),
        "seed": header.seed,
        "device": header.device,
        "segments": content,
        **header.attributes,
    }
    return xr.Dataset(variables, coordinates, attributes)
