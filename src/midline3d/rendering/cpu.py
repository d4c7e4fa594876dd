"""The compiled renderer: each blob's patch once, each owned pixel once, on all of torch's threads (see _kernel.c)."""

from __future__ import annotations

import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import torch

from midline3d.native import open_library
from midline3d.rendering.contract import Blobs, Objective, Products, Rendering
from midline3d.shapes import Float, Int, Tensor

_FORWARD, _BACKWARD, _PRODUCTS = range(3)
_SUMS = (2, 5, 22)
_INTEGERS = ("job", "views", "vertices", "height", "width")
_NUMBERS = ("cutoff", "robust")
_INPUTS = ("centre", "sigma", "iota", "rho", "images", "picture", "up_image", "up_overlap", "up_mass")
_OUTPUTS = ("owner", "image", "overlap", "mass", "gram", "slope", "loss")
_OWN = ("sums", "losses")


class _Scene(ctypes.Structure):
    """A call's arguments, in the order of `scene` in _kernel.c."""

    _fields_ = (
        [(name, ctypes.c_int64) for name in _INTEGERS]
        + [(name, ctypes.c_double) for name in _NUMBERS]
        + [(name, ctypes.c_void_p) for name in (*_INPUTS, *_OUTPUTS, *_OWN)]
        + [("next", ctypes.c_int64)]
    )


class Compiled:
    """The compiled renderer behind the operator's contract. Results do not depend on the number of threads.

    float32 goes by vectors and tables and is right to about 1e-6 of a blob's peak; float64 by the C library, slower.
    `widest` holds it to a narrower instruction set than the machine has (0: the plainest).
    """

    def __init__(self, widest: int = -1) -> None:
        self._library = _library()
        self._bands: int = self._library.midline3d_bands()
        self._widest = widest

    def forward(
        self, blobs: Blobs, images: Float[Tensor, "batch camera height width"], cutoff: float
    ) -> tuple[Rendering, Int[Tensor, "batch camera height width"]]:
        image, overlap, mass = torch.empty_like(images), torch.empty_like(blobs.sigma), torch.empty_like(blobs.sigma)
        owner = torch.empty(images.shape, dtype=torch.int32)
        parts = {"image": image, "overlap": overlap, "mass": mass, "owner": owner}
        self._run(_FORWARD, blobs, images, Objective(cutoff), parts)
        return Rendering(image, overlap, mass), owner

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
        self._run(_BACKWARD, blobs, images, Objective(cutoff), {"owner": owner, "slope": slope, **above})
        return slope

    def products(
        self,
        blobs: Blobs,
        images: Float[Tensor, "batch camera height width"],
        objective: Objective,
        picture: Float[Tensor, "batch camera 4"] | None = None,
    ) -> Products:
        parts = {
            "gram": images.new_empty(*blobs.sigma.shape, 5, 5),
            "slope": images.new_empty(*blobs.sigma.shape, 5),
            "loss": torch.empty_like(blobs.rho),
            "overlap": torch.empty_like(blobs.sigma),
            "mass": torch.empty_like(blobs.sigma),
        }
        self._run(_PRODUCTS, blobs, images, objective, parts if picture is None else parts | {"picture": picture})
        return Products(**parts)

    def _scene(self, job: int, size: torch.Size, vertices: int = 0, objective: Objective | None = None) -> _Scene:
        batch, cameras, height, width = size
        o = objective or Objective(0.0)
        return _Scene(job, batch * cameras, vertices, height, width, o.cutoff, o.robust)

    def _run(self, job: int, blobs: Blobs, images: Tensor, objective: Objective, parts: dict[str, Tensor]) -> None:
        if not 0 < objective.cutoff < 1:
            raise ValueError(
                f"cutoff is {objective.cutoff}, but must lie between 0 and 1: only the reference leaves blobs uncut"
            )
        scene = self._scene(job, images.shape, blobs.sigma.shape[2], objective)
        self._fill(scene, images, {**vars(blobs), **parts})

    def _fill(self, scene: _Scene, images: Tensor, parts: dict[str, Tensor]) -> None:
        """The tensors into the scene, and the scene's job done."""
        views, points = scene.views, scene.views * scene.vertices
        pixels = views * scene.height * scene.width
        sizes = dict.fromkeys(("images", "owner", "image", "up_image"), pixels)
        sizes |= {"centre": 2 * points, "slope": 5 * points, "gram": 25 * points}
        sizes |= dict.fromkeys(("rho", "loss"), views) | {"picture": 4 * views}
        for name, tensor in {"images": images, **parts}.items():
            kind = torch.int32 if name == "owner" else images.dtype
            # The library trusts its addresses, so that nothing wrong may get there.
            fits = tensor.dtype == kind and tensor.numel() == sizes.get(name, points)
            if not (fits and tensor.is_cpu and tensor.is_contiguous()):
                raise _complaint(name, tensor, images)
            setattr(scene, name, tensor.data_ptr())
        if images.dtype not in (torch.float32, torch.float64):
            raise _complaint("images", images, images)
        sums = points * self._bands * _SUMS[scene.job] * images.element_size()
        scene.losses = _room("sums", sums + 8 * views * self._bands)
        scene.sums = scene.losses + 8 * views * self._bands
        self._on_all_threads(scene, images.dtype == torch.float64)

    def _on_all_threads(self, scene: _Scene, doubles: bool) -> None:
        """Everybody takes bands of rows from the scene until none is left, this thread too."""
        library, most = self._library, self._widest
        size = library.midline3d_room(scene, doubles, most)
        if size < 0:
            sizes = f"{scene.views} views of {scene.height} x {scene.width} px with {scene.vertices} blobs each"
            raise ValueError(f"{sizes} are more than the compiled renderer takes")

        def work() -> None:
            library.midline3d_work(scene, _room("work", size), doubles, most)

        hands = min(torch.get_num_threads(), scene.views * self._bands) - 1
        helpers = [_pool(hands).submit(work) for _ in range(hands)] if hands > 0 else []
        work()
        for helper in helpers:
            # What has not begun by now would find nothing left to do; in a forked process it would never begin.
            if not helper.cancel():
                helper.result()
        library.midline3d_gather(scene, doubles, most)


def _complaint(name: str, tensor: Tensor, images: Tensor) -> Exception:
    if not tensor.is_cpu:
        return ValueError(
            f"{name} lies on {tensor.device}, but the compiled renderer works on the CPU: use another renderer"
        )
    if not tensor.is_contiguous():
        return ValueError(f"{name} is not contiguous: call .contiguous() first")
    if images.dtype not in (torch.float32, torch.float64) or tensor.is_floating_point() != (name != "owner"):
        return TypeError(f"{name} is {tensor.dtype}: the compiled renderer takes float32 or float64 (owners: int32)")
    if tensor.is_floating_point() and tensor.dtype != images.dtype:
        return TypeError(f"{name} is {tensor.dtype} and images {images.dtype}: make them one")
    return ValueError(f"{name} has shape {tuple(tensor.shape)}, which does not go with images {tuple(images.shape)}")


_local = threading.local()


def _room(purpose: str, size: int) -> int:
    """The address of at least `size` bytes that are this thread's own, kept from call to call."""
    room: Tensor | None = getattr(_local, purpose, None)
    if room is None or room.numel() < size:
        room = torch.empty(size, dtype=torch.uint8)
        setattr(_local, purpose, room)
    return room.data_ptr()


@cache
def _pool(hands: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(hands, thread_name_prefix="midline3d")


@cache
def _library() -> ctypes.CDLL:
    """The library that was built with the package; OSError where there is none."""
    library = open_library(Path(__file__).parent, "_kernel", [_Scene])
    scene, whole, flag = ctypes.POINTER(_Scene), ctypes.c_int64, ctypes.c_int
    for name, result, arguments in (
        ("bands", whole, []),
        ("version", ctypes.c_char_p, [flag, flag]),
        ("room", whole, [scene, flag, flag]),
        ("work", None, [scene, ctypes.c_void_p, flag, flag]),
        ("gather", None, [scene, flag, flag]),
    ):
        function = getattr(library, f"midline3d_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def versions() -> list[str]:
    """Instruction sets that the library has for this processor, the plainest first; OSError where there is none."""
    library, names = _library(), list[str]()
    while (name := library.midline3d_version(0, len(names)).decode()) not in names:
        names.append(name)
    return names
