"""The compiled body: each blob's window once, each owned pixel once, on all of torch's threads (see _kernel.c)."""

from __future__ import annotations

import ctypes
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

import torch

from midline3d.rendering.contract import Blobs, Objective, Products, Rendering
from midline3d.shapes import Float, Int, Tensor

_FORWARD, _BACKWARD, _PRODUCTS = range(3)
_SUMS = (2, 5, 22)
_INTEGERS = ("job", "views", "cameras", "vertices", "height", "width")
_NUMBERS = ("cutoff", "threshold", "outside", "robust")
_INPUTS = ("centre", "sigma", "iota", "rho", "images", "shares", "up_image", "up_overlap", "up_mass")
_OUTPUTS = ("owner", "image", "overlap", "mass", "gram", "slope", "loss", "sums", "losses")


class _Scene(ctypes.Structure):
    """A call's arguments, in the order of `scene` in _kernel.c."""

    _fields_ = (
        [(name, ctypes.c_int64) for name in _INTEGERS]
        + [(name, ctypes.c_double) for name in _NUMBERS]
        + [(name, ctypes.c_void_p) for name in (*_INPUTS, *_OUTPUTS)]
        + [("next", ctypes.c_int64)]
    )


class Compiled:
    """The compiled body behind the operator's contract. Results do not depend on the number of threads.

    float32 goes by vectors and tables and is right to about 1e-6 of a blob's peak; float64 by the C library, slower.
    `widest` holds it to a narrower instruction set than the machine has (0: the plainest).
    """

    def __init__(self, widest: int = -1) -> None:
        self._library = _library()
        self._widest = widest

    def forward(
        self, blobs: Blobs, images: Float[Tensor, "batch camera height width"], cutoff: float
    ) -> tuple[Rendering, Int[Tensor, "batch camera height width"]]:
        rendering = Rendering(torch.empty_like(images), torch.empty_like(blobs.sigma), torch.empty_like(blobs.sigma))
        owner = torch.empty(images.shape, dtype=torch.int32)
        parts = {"image": rendering.image, "overlap": rendering.overlap, "mass": rendering.mass, "owner": owner}
        self._run(_FORWARD, blobs, images, cutoff, parts)
        return rendering, owner

    def backward(
        self,
        blobs: Blobs,
        images: Float[Tensor, "batch camera height width"],
        owner: Int[Tensor, "batch camera height width"],
        upstream: Rendering,
        cutoff: float,
    ) -> Float[Tensor, "batch camera vertex 5"]:
        slope = images.new_empty(*blobs.sigma.shape, 5)
        above = {"up_image": upstream.image, "up_overlap": upstream.overlap, "up_mass": upstream.mass}
        self._run(_BACKWARD, blobs, images, cutoff, {"owner": owner, "slope": slope, **above})
        return slope

    def products(
        self,
        blobs: Blobs,
        images: Float[Tensor, "batch camera height width"],
        shares: Float[Tensor, "batch vertex"],
        objective: Objective,
    ) -> Products:
        products = Products(
            gram=images.new_empty(*blobs.sigma.shape, 5, 5),
            slope=images.new_empty(*blobs.sigma.shape, 5),
            loss=torch.empty_like(blobs.rho),
            overlap=torch.empty_like(blobs.sigma),
            mass=torch.empty_like(blobs.sigma),
        )
        self._run(_PRODUCTS, blobs, images, objective.cutoff, {"shares": shares, **vars(products)}, objective)
        return products

    def _run(
        self,
        job: int,
        blobs: Blobs,
        images: Tensor,
        cutoff: float,
        parts: dict[str, Tensor],
        objective: Objective | None = None,
    ) -> None:
        if not 0 < cutoff < 1:
            raise ValueError(
                f"cutoff is {cutoff}, but must lie between 0 and 1: only the reference renders uncut blobs"
            )
        batch, cameras, vertices = blobs.sigma.shape
        tensors = {**vars(blobs), "images": images, **parts}
        # Kept in this dictionary until the end: the library sees bare addresses.
        tensors["sums"] = images.new_empty(batch * cameras, self._library.midline3d_bands(), vertices, _SUMS[job])
        tensors["losses"] = torch.empty(batch * cameras, self._library.midline3d_bands(), dtype=torch.float64)
        scene = _Scene(job, batch * cameras, cameras, vertices, *images.shape[-2:], cutoff, 0.0, 1.0, math.inf)
        if objective is not None:
            scene.threshold, scene.outside, scene.robust = objective.threshold, objective.outside, objective.robust
        for name, tensor in tensors.items():
            _check(name, tensor, images)
            setattr(scene, name, tensor.data_ptr())
        self._on_all_threads(scene, images.dtype == torch.float64)

    def _on_all_threads(self, scene: _Scene, doubles: bool) -> None:
        """Everybody takes bands of rows from the scene until none is left, this thread too."""
        library, most = self._library, self._widest
        room = library.midline3d_room(scene, doubles, most)

        def work() -> None:
            library.midline3d_work(scene, _room(room), doubles, most)

        hands = min(torch.get_num_threads(), scene.views * library.midline3d_bands()) - 1
        helpers = [_pool(hands).submit(work) for _ in range(hands)] if hands > 0 else []
        work()
        for helper in helpers:
            # What has not begun by now would find nothing left to do; in a forked process it would never begin.
            if not helper.cancel():
                helper.result()
        library.midline3d_gather(scene, doubles, most)


def _check(name: str, tensor: Tensor, images: Tensor) -> None:
    """The library trusts its addresses, so that nothing wrong may get there."""
    if tensor.device.type != "cpu":
        raise ValueError(
            f"{name} lies on {tensor.device}, but the compiled renderer works on the CPU: use another body"
        )
    kind = {"owner": torch.int32, "losses": torch.float64}.get(name, images.dtype)
    if tensor.dtype != kind or images.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"{name} is {tensor.dtype}, images {images.dtype}: all must be float32, or all float64")
    if not tensor.is_contiguous():
        raise ValueError(f"{name} is not contiguous: call .contiguous() first")


_local = threading.local()


def _room(size: int) -> int:
    """The address of at least `size` bytes that are this thread's own, kept from call to call."""
    room: Tensor | None = getattr(_local, "room", None)
    if room is None or room.numel() < size:
        _local.room = room = torch.empty(size, dtype=torch.uint8)
    return room.data_ptr()


@cache
def _pool(hands: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(hands, thread_name_prefix="midline3d")


@cache
def _library() -> ctypes.CDLL:
    """The library that was built with the package; OSError where there is none."""
    spec = PathFinder.find_spec(f"{__package__}._kernel", [str(Path(__file__).parent)])
    if spec is None or spec.origin is None:
        raise OSError("the compiled renderer was not built with this installation")
    library = ctypes.CDLL(spec.origin)
    scene, whole, flag = ctypes.POINTER(_Scene), ctypes.c_int64, ctypes.c_int
    for name, result, arguments in (
        ("bands", whole, []),
        ("scene_size", whole, []),
        ("version", ctypes.c_char_p, [flag, flag]),
        ("room", whole, [scene, flag, flag]),
        ("work", None, [scene, ctypes.c_void_p, flag, flag]),
        ("gather", None, [scene, flag, flag]),
    ):
        function = getattr(library, f"midline3d_{name}")
        function.restype, function.argtypes = result, arguments
    if library.midline3d_scene_size() != ctypes.sizeof(_Scene):
        raise OSError("the compiled renderer is of another version of midline3d: install the package again")
    return library
