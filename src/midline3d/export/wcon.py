"""WCON, the worm trackers' common notation: x and y as it knows them, and under @midline3d what it does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from midline3d.export.material import Choice, Material, axes

TAG = "@midline3d"
BLOCK = 512
"""Frames of one entry: a reader need not hold a long recording in one piece of text."""
UNITS = {
    "t": "s",
    "x": "mm",
    "y": "mm",
    "z": "mm",
    "length": "mm",
    "confidence": "1",
    "sigma_across": "mm",
    "sigma_along": "mm",
    "frame": "1",
}


def write_wcon(parts: Iterator[Material], path: Path, choice: Choice) -> None:
    """A WCON file; frames without a midline are null."""
    del choice  # one form there is
    material = next(parts)
    software = {"name": "midline3d", "version": str(material.result.attrs.get("version", ""))}
    head = {
        "tracker-commons": True,
        "units": UNITS,
        "metadata": {
            # Under `tracker` as the schema has it, and beside it as the examples of the notation do.
            "software": {"tracker": software, **software, "featureID": TAG},
            "settings": str(material.result.attrs.get("settings", "")),
        },
        TAG: _about(material),
    }
    with path.open("w", encoding="utf-8") as file:
        # The entries come last, one after the other, so that no more than one is in memory.
        file.write(json.dumps(head, ensure_ascii=False)[:-1] + ', "data": [\n')
        for number, entry in enumerate(entry for part in chain([material], parts) for entry in _entries(part)):
            file.write((",\n" if number else "") + json.dumps(entry, allow_nan=False))
        file.write("\n]}\n")


def _about(material: Material) -> dict[str, Any]:
    attributes = material.result.attrs
    return {
        "recording": str(attributes.get("recording", "")),
        "fps": float(attributes["fps"]),
        "axes": axes(material.world),
        "world": json.loads(material.world.as_json()),
        "z": "third coordinate of every point, beside x and y",
        "status": "what became of the frame: ok, suspect, lost, unreadable or pending",
    }


def _entries(material: Material) -> Iterator[dict[str, Any]]:
    points, result = material.points, material.result
    confidence = result.confidence.isel(individual=0).transpose("time", "keypoint").values
    names = ("sigma_across", "sigma_along")
    deviations = {name: result[name].transpose("time", "keypoint").values for name in names if name in result}
    times, status = result.time.values, material.words("status")
    for first in range(0, len(points), BLOCK):
        part = slice(first, first + BLOCK)
        x, y, z = (_plain(points[part, :, axis], 6) for axis in range(3))
        yield {
            "id": str(result.individual.values[0]),
            "t": _plain(times[part], 9),
            "x": x,
            "y": y,
            "head": "L",
            TAG: {
                "z": z,
                "frame": material.frames[part].tolist(),
                "status": status[part],
                "length": _plain(result.length.values[part], 6),
                "confidence": _plain(confidence[part], 4),
                **{name: _plain(values[part], 6) for name, values in deviations.items()},
            },
        }


def _plain(values: np.ndarray, decimals: int) -> list[Any]:
    """Nested lists with None for NaN: JSON knows no NaN."""
    rounded = values.astype(np.float64).round(decimals)
    plain = rounded.astype(object)
    plain[~np.isfinite(rounded)] = None
    return list(plain.tolist())
