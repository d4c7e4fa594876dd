"""Calls of every entry point of the compiled libraries: plausible ones to compare processors by, odd ones to break it.

A case names a function, the sizes it is called with, and an array of exactly the size that goes with them for every
address of its record. `tests/native/driver.c` runs a file of them, in a process without Python.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from midline3d.kernels import Layout
from midline3d.kernels import cpu as backend
from midline3d.kernels.layout import PLACES
from midline3d.rendering import cpu

FUNCTIONS = tuple(backend.RECORDS)
JOBS = ("forward", "backward", "products")
ODD = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e-30, 1e6, 1e18, -1e18, 1e30, -1e38, np.inf, -np.inf, np.nan)
"""Numbers that nobody means, each of which has broken something somewhere."""
Sizes = dict[str, int]
Array = NDArray[np.generic]


@dataclass(frozen=True)
class Case:
    """One call: of a function of the backend, or a job of the renderer."""

    name: str
    sizes: Sizes
    numbers: dict[str, float]
    arrays: dict[str, Array]
    """By the record's field; those that are missing are NULL."""
    results: tuple[str, ...]
    """Which of the arrays the function fills."""
    doubles: bool = False

    @property
    def is_backend(self) -> bool:
        return self.name in FUNCTIONS

    def encoded(self, most: int) -> bytes:
        """For the driver; `most` as in `CBackend.widest`."""
        if self.is_backend:
            record = backend.RECORDS[self.name](**self.sizes, **self.numbers)
            which, end = FUNCTIONS.index(self.name), self.sizes["batch"]
        else:
            record = cpu._Scene(job=JOBS.index(self.name), **self.sizes, **self.numbers)
            which, end = int(self.doubles), 0
        parts = [struct.pack("<iiiiqq", which, most, ctypes.sizeof(record), len(self.arrays), 0, end), bytes(record)]
        for field, array in self.arrays.items():
            parts += [struct.pack("<qq", getattr(type(record), field).offset, array.nbytes), array.tobytes()]
        return b"".join(parts)


def encode(cases: Sequence[Case], path: Path, most: int = -1) -> None:
    path.write_bytes(b"".join(case.encoded(most) for case in cases))


def decode(cases: Sequence[Case], path: Path) -> list[tuple[int, dict[str, Array]]]:
    """Of each case its status, and the arrays that it was to fill."""
    content, at, found = path.read_bytes(), 0, []
    for case in cases:
        (status,) = struct.unpack_from("<i", content, at)
        at += 4
        filled = {}
        for field, array in case.arrays.items():
            if field in case.results:
                filled[field] = np.frombuffer(content, array.dtype, array.size, at).copy()
            at += array.nbytes
        found.append((status, filled))
    assert at == len(content)
    return found


def with_places(name: str, sizes: Sizes) -> Sizes:
    """Sizes with the places of the unknowns that go with them, where the function has any."""
    if name == "solve":
        return sizes
    layout = Layout(sizes["nodes"], sizes["axes"], sizes["cameras"])
    places = {**vars(layout), **dict(zip(PLACES, layout.places(), strict=True))}
    return {**sizes, **{f"layout_{place}": value for place, value in places.items()}}


class Maker:
    """Draws cases; the same seed gives the same."""

    def __init__(self, seed: int, odd: float) -> None:
        """`odd`: share of numbers that are replaced by one of `ODD`."""
        self._random, self._odd = np.random.default_rng(seed), odd

    def call(self, name: str, sizes: Sizes) -> Case:
        """A call of one of the backend's functions; what of `sizes` its record does not have is left out."""
        record = backend.RECORDS[name]
        fields = [(field, kind) for field, kind in record._fields_]
        sizes = with_places(name, sizes)
        own = {field: sizes[field] for field, kind in fields if kind is ctypes.c_int64}
        numbers = {field: LIMITS[field] for field, kind in fields if kind is ctypes.c_double}
        arrays: dict[str, Array] = {}
        given = {field for field, kind in fields if kind is ctypes.c_void_p} - self._left_out(name)
        for field, kind in fields:
            if kind is ctypes.c_void_p and field in given:
                arrays[field] = self._call_array(name, field, sizes)
        return Case(name, own, numbers, arrays, tuple(field for field in arrays if field in RESULTS[name]))

    def _left_out(self, name: str) -> set[str]:
        """Addresses that may be NULL, and are."""
        if name == "project":
            return set() if self._random.random() < 0.5 else {"shift"}
        return set()

    def _call_array(self, name: str, field: str, sizes: Sizes) -> Array:
        count = _count(name, field, sizes)
        if field == "start":
            span = max(1, sizes["vertices"])
            return self._random.integers(-span, span, count, dtype=np.int64)
        if field in RESULTS[name]:
            return np.full(count, 7e7, np.float32)
        if field in ("start_bishop", "bishop", "rotation"):
            turns = np.linalg.qr(self._random.standard_normal((max(1, count // 9), 3, 3)))[0]
            return self._oddly(turns.ravel()[:count].astype(np.float32))
        if field == "hessian":
            side = sizes["count"]
            root = self._random.standard_normal((sizes["batch"], side, side + 5)) / 3
            return self._oddly((root @ root.transpose(0, 2, 1)).astype(np.float32).ravel())
        middle, spread = CENTRES.get(field.removeprefix("old_"), (0.0, 1.0))
        return self._oddly((middle + spread * self._random.standard_normal(count)).astype(np.float32))

    def scene(self, job: str, sizes: Sizes, doubles: bool, cutoff: float = 3e-3) -> Case:
        """A job of the renderer."""
        kind = np.float64 if doubles else np.float32
        views, blobs = sizes["views"], sizes["views"] * sizes["vertices"]
        pixels, width, height = sizes["views"] * sizes["height"] * sizes["width"], sizes["width"], sizes["height"]
        counts = dict.fromkeys(("images", "owner", "image", "up_image"), pixels)
        counts |= {"centre": 2 * blobs, "slope": 5 * blobs, "gram": 25 * blobs, "rho": views, "loss": views}
        bands = views * cpu._library().midline3d_bands()
        sums = cpu._SUMS[JOBS.index(job)]
        arrays: dict[str, Array] = {}
        inputs, results = SCENES[job]
        for field in inputs:
            if field == "owner":
                arrays[field] = self._random.integers(-2, sizes["vertices"] + 2, pixels).astype(np.int32)
                continue
            low, high = UNIFORM.get(field, (0.0, 1.0))
            values = low + (high - low) * self._random.random(counts.get(field, blobs))
            if field == "centre":
                values = (values.reshape(-1, 2) * [width, height]).ravel()
            arrays[field] = self._oddly(values.astype(kind))
        for field in results:
            arrays[field] = np.full(counts.get(field, blobs), 77, np.int32 if field == "owner" else kind)
        arrays["sums"] = np.full(bands * sizes["vertices"] * sums, 7e7, kind)
        arrays["losses"] = np.full(bands, 7e7)
        return Case(job, sizes, {"cutoff": cutoff, "robust": 0.2}, arrays, tuple(results), doubles)

    def _oddly(self, values: Array) -> Array:
        where = self._random.random(values.shape) < self._odd
        values[where] = self._random.choice(ODD, int(where.sum()))
        return values

    def some(self, choices: Sequence[int]) -> int:
        return int(self._random.choice(choices))


LIMITS = {
    "longest_log": 0.2, "appearance_log": 0.3, "circles": 3.0, "defocus_most": 8.0,
    "length_low": 0.3, "length_high": 3.0,
    "longest": 3.0, "pixels": 0.1, "floor": 0.5, "cap": 0.35, "rounded": 0.03,
    "sigma_low": 0.5, "sigma_high": 25.0, "iota_low": 0.01, "iota_high": 30.0, "rho_low": 0.6, "rho_high": 6.0,
}  # fmt: skip
CENTRES = {
    "focal": (48000.0, 100.0), "centre": (32.0, 3.0), "distortion": (0.0, 0.05), "translation": (1200.0, 5.0),
    "curvature": (0.0, 4.0), "length": (1.0, 0.1), "sigma": (2.0, 0.1), "iota": (0.9, 0.05), "rho": (1.2, 0.05),
    "sharp": (1.5, 0.1), "body_length": (100.0, 5.0), "taper": (0.6, 0.05), "tissue": (0.0, 0.2), "stretch": (1.5, 0.1),
    "hats": (0.2, 0.05), "beyond": (0.0, 0.2), "defocus": (0.0, 0.5),
    "damping": (0.1, 0.01), "step": (0.0, 0.05), "points": (0.0, 0.3),
}  # fmt: skip
"""Mean and spread of what is not drawn around 0 with a spread of 1."""
UNIFORM = {"centre": (-0.2, 1.2), "sigma": (0.8, 4.0), "iota": (0.3, 0.9), "rho": (0.8, 2.0), "up_image": (-1.0, 1.0)}
RESULTS: dict[str, tuple[str, ...]] = {
    "integrate": ("points", "bishop"),
    "take_step": tuple(f"new_{name}" for name in backend._STATE),
    "project": ("pixels",),
    "optics": ("stretch", "beyond"),
    "appearance": ("wide", "bright", "by_view"),
    "energy": ("total", "terms", "gradient"),
    "pixel_system": ("hessian", "gradient"),
    "solve": ("step",),
}
_BLOBS = ("centre", "sigma", "iota", "rho", "images")
SCENES = {
    "forward": (_BLOBS, ("owner", "image", "overlap", "mass")),
    "backward": ((*_BLOBS, "owner", "up_image", "up_overlap", "up_mass"), ("slope",)),
    "products": (_BLOBS, ("gram", "slope", "loss", "overlap", "mass")),
}
"""What each job of the renderer takes and fills."""


def _count(name: str, field: str, sizes: Sizes) -> int:
    """Numbers in an array of the backend."""
    s = {key: max(0, value) for key, value in sizes.items()}
    batch, vertices, cameras, axes, nodes = (s[key] for key in ("batch", "vertices", "cameras", "axes", "nodes"))
    rig, blobs, field = (
        cameras * (batch if s["own"] else 1),
        batch * cameras * vertices,
        field.removeprefix("new_").removeprefix("old_"),
    )
    unknowns, bodies = Layout(nodes, axes, cameras).count, batch if s["own"] else 1
    if name == "solve":
        return batch * {"hessian": s["count"] ** 2, "damping": 1}.get(field, s["count"])
    counts = {
        "focal": 2 * rig, "centre": 2 * rig, "distortion": 5 * rig, "rotation": 9 * rig, "translation": 3 * rig,
        "shift_basis": 2 * cameras * axes, "position": 3 * batch, "start_bishop": 9 * batch,
        "length": batch, "start": batch,
        "points": 3 * batch * vertices, "bishop": 9 * batch * vertices, "curvature": 2 * batch * vertices,
        "step": batch * unknowns, "basis": vertices * nodes, "segments": max(0, vertices - 1) * nodes,
        "shift": batch * axes, "pixels": 2 * blobs, "gram": 25 * blobs, "slope": 5 * blobs, "by_view": 6 * blobs,
        "hessian": batch * unknowns**2, "gradient": batch * unknowns,
        "losses": batch * cameras, "stiffness": vertices * (vertices + nodes),
        "keeping": max(0, unknowns - 5 - 2 * nodes),
        "total": batch, "terms": 3 * batch,
        "tangents": 3 * batch * vertices, "stretch": blobs, "beyond": blobs, "wide": blobs, "bright": blobs,
        "sharp": rig, "body_length": rig, "taper": bodies * 9, "tissue": bodies * s.get("knots", 0),
        "hats": vertices * s.get("knots", 0),
    }  # fmt: skip
    if field in ("sigma", "iota", "rho", "defocus"):
        return batch * cameras
    return counts[field]


FAINT = 1e-6
"""A cut at which a pixel on a blob's rim weighs nothing: rounding decides whether it is counted, on each processor."""


def plausible(maker: Maker) -> tuple[list[Case], list[Case]]:
    """Calls such as the package makes: of the backend, and of the renderer in float32 and float64."""
    sizes = {"batch": 2, "vertices": 31, "cameras": 3, "axes": 3, "nodes": 9, "knots": 11, "loose": 0, "own": 1}
    calls = [maker.call(name, {**sizes, "count": 37}) for name in FUNCTIONS for _ in range(3)]
    scenes = [
        maker.scene(job, {"views": 2, "vertices": blobs, "height": height, "width": width}, doubles, FAINT)
        for job in JOBS
        for doubles in (False, True)
        for blobs, height, width in ((12, 40, 40), (7, 37, 53), (1, 5, 3), (40, 30, 17), (5, 1, 64))
    ]
    return calls, scenes


def odd(maker: Maker, count: int) -> tuple[list[Case], list[Case]]:
    """`count` calls of every entry point with sizes that are 0, 1 or odd and numbers that nobody means."""
    few, calls, scenes = (0, 1, 1, 2, 3), list[Case](), list[Case]()
    for _ in range(count):
        for name in FUNCTIONS:
            sizes = {key: maker.some(few) for key in ("batch", "cameras", "axes", "loose")}
            sizes |= {"vertices": maker.some((0, 1, 2, 3, 4, 5, 17)), "nodes": maker.some((0, 1, 2, 5))}
            sizes |= {"knots": maker.some((0, 1, 2, 11))}
            sizes |= {
                "own": maker.some((0, 1)),
                "count": maker.some((0, 1, 2, 7)),
            }
            calls.append(maker.call(name, sizes))
        for job in JOBS:
            side = (0, 0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
            sizes = {"views": maker.some(few), "vertices": maker.some((0, 1, 2, 5, 9))}
            sizes |= {"height": maker.some(side), "width": maker.some(side)}
            scenes.append(maker.scene(job, sizes, bool(maker.some((0, 1)))))
    return calls, scenes


def impossible() -> tuple[list[Case], list[Case]]:
    """Sizes that have to be refused before anything is touched: the arrays are empty."""
    nothing = np.zeros(0, np.float32)
    calls, scenes = [], []
    fine = {
        "batch": 1,
        "vertices": 5,
        "cameras": 2,
        "axes": 1,
        "nodes": 3,
        "knots": 4,
        "loose": 0,
        "own": 0,
        "count": 3,
    }
    for name in FUNCTIONS:
        record = backend.RECORDS[name]
        own = [field for field, kind in record._fields_ if kind is ctypes.c_int64]
        arrays = {field: nothing for field, kind in record._fields_ if kind is ctypes.c_void_p}
        numbers = {field: LIMITS[field] for field, kind in record._fields_ if kind is ctypes.c_double}
        right = with_places(name, fine)
        for field in {
            "vertices",
            "cameras",
            "axes",
            "count",
            "knots",
            *(f"layout_{place}" for place in ("nodes", *PLACES)),
        } & set(own):
            for wrong in (-1, -(2**62), 2**31, 2**62):
                calls.append(Case(name, {**{key: right[key] for key in own}, field: wrong}, numbers, arrays, ()))
    for job in JOBS:
        for field in ("views", "vertices", "height", "width"):
            for wrong in (-1, -(2**62), 2**31, 2**62):
                sizes = {"views": 1, "vertices": 2, "height": 3, "width": 4, field: wrong}
                scenes.append(Case(job, sizes, {"cutoff": 3e-3, "robust": 0.2}, {}, ()))
    return calls, scenes
