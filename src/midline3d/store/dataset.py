"""One dataset, of names that xarray and `movement` users know, out of a result's segments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.files import claim
from midline3d.store.records import DIMENSIONS, EDITS, REASONS, STATUSES, Header
from midline3d.store.segments import WORDS, Segment, fingerprint

PENDING = "pending"
"""Status of a frame that a growing result does not hold yet."""
STRETCHES = "head_stretches"
"""Attribute of a run: JSON, [first frame, last frame, confidence that keypoint 0 is the head] between gaps."""
BLOCK = 2048
"""Frames that are in memory at once while the finished file is written: some 30 MB."""


def listed(words: dict[str, str]) -> str:
    """Words with what they mean."""
    return "; ".join(f"'{word}': {meaning}" for word, meaning in words.items())


_MEANINGS: dict[str, tuple[str, str]] = {
    "position": ("mm", "midline from head (keypoint 0) to tail, in the calibration's world"),
    "confidence": ("1", "how well each point of the midline is seen in all views"),
    "projection": ("px", "midline in each camera's full picture, shifts included, pixel centres at integers"),
    "curvature": ("1/body length", "curvature along both axes of the Bishop frame, times the body's length"),
    "length": ("mm", "length of the midline"),
    "sigma": ("px", "width of the animal's image"),
    "iota": ("1", "brightness of the animal's image, 1 for this animal's usual"),
    "rho": ("1", "sharpness of the animal's image: the exponent of its profile"),
    "defocus": ("px/mm", "blur of the animal's image per depth"),
    "shift": ("px", "how the views have moved against each other"),
    "loss": ("1", "what the fit has left over, all terms together"),
    "steps": ("1", "iterations that the fit took"),
    "explained": (
        "1",
        "light that image and render have in common, as a share of what either has around the midline; of a view that "
        "shows less than half of the body none",
    ),
    "unexplained": ("1", "light around the midline that nothing draws, in pieces of the body as long as it is wide"),
    "unbacked": ("1", "what is drawn where there is no light, in pieces of the body as long as it is wide"),
    "beyond": ("1", "light beyond the head and the tail that nothing draws, of the body's brightness"),
    "end": ("none", "end of the animal"),
    "sigma_across": ("mm", "standard deviation of the midline to its side"),
    "sigma_along": ("mm", "standard deviation of the midline along itself"),
    "doubt": ("1", "probability that the midline is more than 2 px off, or an end more than 8 px"),
    "head_confidence": (
        "1",
        "probability that keypoint 0 is the head, decided anew where the animal was lost in between",
    ),
    "source_frame": ("1", "number of the frame in each camera's own source, dropped frames counted; -1: unknown"),
    "status": ("none", f"what became of the frame: {', '.join((*STATUSES, PENDING))}"),
    "reason": ("none", f"why the status is what it is: {listed(REASONS)}"),
    "edited": ("none", f"what people did to the frame: {listed(EDITS)}"),
    "time": ("s", "time since the recording's first frame"),
    "frame": ("1", "number of the frame in the recording"),
    "space": ("none", "axis of the calibration's world"),
    "keypoint": ("1", "place along the midline, 0 the head"),
    "individual": ("none", "the animal"),
    "camera": ("none", "name of the camera"),
    "image": ("none", "axis of a picture: u to the right, v down"),
    "bishop": ("none", "axis of the Bishop frame"),
}
"""Unit and meaning of every variable and coordinate but the terms of the loss."""


@dataclass(frozen=True)
class Part:
    """Some frames of a result."""

    frames: tuple[int, ...]
    content: str
    """Fingerprint of all segments of the whole."""
    terms: frozenset[str] = frozenset()
    """Of the loss, in the whole."""


def assemble(folder: Path, header: Header, segments: Sequence[Segment], part: Part | None = None) -> xr.Dataset:
    """One dataset out of the segments; later ones overwrite, and what no segment holds is NaN and pending.

    part: some of the frames, all without.
    """
    part = part or Part(header.frames, fingerprint(segments))
    chosen = part.frames
    place = {frame: row for row, frame in enumerate(chosen)}
    data = blank(header, chosen)
    data |= {name: np.full(len(chosen), np.nan, np.float32) for name in sorted(part.terms)}
    for segment in segments:
        arrays = segment.read(folder)
        if arrays is None:
            continue
        there = arrays.pop("frame").tolist()
        taken = [row for row, frame in enumerate(there) if frame in place]
        rows = [place[there[row]] for row in taken]
        source = arrays.pop("source_frame", None)
        if source is not None:
            data["source_frame"][rows] = np.where(source[taken] < 0, data["source_frame"][rows], source[taken])
        for name in arrays.keys() - data.keys():  # a term of the loss
            data[name] = np.full(len(chosen), np.nan, np.float32)
        for name in data.keys() - {"source_frame"}:
            # A lost frame may replace a found one.
            data[name][rows] = arrays[name][taken] if name in arrays else np.nan
    nowhere = np.isnan(data["position"]).any((1, 2))
    data["head_confidence"] = np.where(nowhere, np.float32(np.nan), head_confidence(header, chosen))
    return dataset_of(header, chosen, data).assign_attrs(attributes_of(header, part.content))


def blocks(header: Header) -> Iterator[tuple[int, ...]]:
    """The header's frames, some at a time."""
    for first in range(0, len(header.frames), BLOCK):
        yield header.frames[first : first + BLOCK]


def write_netcdf(path: Path, parts: Iterable[xr.Dataset]) -> None:
    """One netCDF file out of datasets that follow one another in time, two of them in memory at a time."""
    import h5netcdf

    written, ends = 0, list[xr.Dataset | None]([None])
    for part, more in pairwise(chain(parts, ends)):
        assert part is not None
        count = part.sizes["time"]
        claim(path.parent, 500_000 + part.nbytes * 5 // 4)  # HDF5 crashes on a full disk
        if not written:
            # Only where more is to come: of an axis that can grow readers ask every variable for its length, often.
            growing = [] if more is None else ["time"]
            part.to_netcdf(path, engine="h5netcdf", encoding=_packing(part), unlimited_dims=growing)
        else:
            with h5netcdf.File(path, "a") as file:
                file.resize_dimension("time", written + count)
                for name, variable in part.variables.items():
                    if "time" in variable.dims:
                        file.variables[str(name)][written : written + count] = variable.values
        written += count


def _packing(dataset: xr.Dataset) -> dict[str, dict[str, Any]]:
    packing: dict[str, dict[str, Any]] = {}
    for name, variable in dataset.variables.items():
        if "time" not in variable.dims:
            continue
        count = len(variable)
        chunks = (min(64, count) if variable.ndim > 1 else count, *variable.shape[1:])
        squeezed = {"zlib": True, "complevel": 4, "shuffle": True} if variable.ndim > 1 else {}
        packing[str(name)] = {"chunksizes": chunks, **squeezed}
    return packing


def blank(
    header: Header, frames: Sequence[int], wanted: Callable[[str], bool] = lambda name: True
) -> dict[str, NDArray[Any]]:
    """What is known of frames that no segment holds. wanted: tells by its name whether a variable is."""
    count, sizes = len(frames), header.sizes
    data: dict[str, NDArray[Any]] = {
        name: np.full((count, *(sizes[dim] for dim in dims)), np.nan, np.float64 if name == "position" else np.float32)
        for name, dims in DIMENSIONS.items()
        if wanted(name)
    }
    data |= {name: np.full(count, "", object) for name in WORDS}
    data["status"][:], data["edited"][:] = PENDING, "automatic"
    offsets = np.array(header.offsets or [0] * len(header.cameras), np.int64)
    data["source_frame"] = np.asarray(frames, np.int64)[:, None] + offsets
    data["steps"] = np.zeros(count, np.int32)
    return data


def head_confidence(header: Header, frames: Sequence[int]) -> NDArray[np.float32]:
    """Of every frame, by the stretches that the run has noted, which do not overlap; NaN elsewhere."""
    number = np.asarray(frames, np.int64)
    stretches = json.loads(str(header.attributes.get(STRETCHES, "[]")))
    if not stretches:
        return np.full(len(number), np.nan, np.float32)
    first, last, sure = np.array(sorted(stretches)).T
    # Each frame is looked up: held against every stretch, hours of gaps would take minutes.
    which = np.searchsorted(first, number, side="right") - 1
    inside = (which >= 0) & (number <= last[which])
    return np.where(inside, sure[which], np.nan).astype(np.float32)


def dataset_of(header: Header, frames: Sequence[int], data: dict[str, NDArray[Any]]) -> xr.Dataset:
    """Arrays that lead with an axis of frames as a dataset, each variable with its unit and meaning."""
    variables: dict[str, tuple[Any, ...]] = {}
    for name, values in data.items():
        dims = ("time", "camera") if name == "source_frame" else ("time", *DIMENSIONS.get(name, ()))
        if name == "position":
            dims, values = ("time", "space", "keypoint", "individual"), values.transpose(0, 2, 1)[..., None]
        elif name == "confidence":
            dims, values = (*dims, "individual"), values[..., None]
        variables[name] = (dims, values, _meaning(name))
    numbers = np.asarray(frames, dtype=np.int64)
    coordinates: dict[str, Any] = {
        "time": numbers / header.fps,
        "frame": numbers,
        "space": ["x", "y", "z"],
        "keypoint": np.arange(header.keypoints),
        "individual": ["worm"],
        "camera": list(header.cameras),
        "image": ["u", "v"],
        "bishop": ["m1", "m2"],
        "end": ["head", "tail"],
    }
    placed = {
        name: ("time" if name == "frame" else name, values, _meaning(name)) for name, values in coordinates.items()
    }
    return xr.Dataset(variables, placed)


def _meaning(name: str) -> dict[str, str]:
    if name not in _MEANINGS:
        return {"units": "1", "long_name": f"part of the loss: {name.removeprefix('loss_')}"}
    units, meaning = _MEANINGS[name]
    return {"units": units, "long_name": meaning}


def attributes_of(header: Header, content: str) -> dict[str, Any]:
    """What stands with the numbers. content: the segments' fingerprint."""
    return {
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
