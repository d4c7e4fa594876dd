"""The C backend: a call for each sum of a step, where torch needs hundreds (see _backend.h)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cache, partial
from pathlib import Path

import torch

from midline3d.appearance import CAP, LONGEST, ROUNDED, BlobAppearance, Optics, Profile, Shape, ViewAppearance, hats
from midline3d.cameras import Cameras
from midline3d.curve import Curve
from midline3d.kernels.basis import Basis
from midline3d.kernels.contract import Energy, Prior, StepLimits, System
from midline3d.kernels.layout import NUMBERS, Layout
from midline3d.kernels.reference import TorchBackend
from midline3d.native import open_library
from midline3d.rendering import Products
from midline3d.shapes import Float, Int, Tensor
from midline3d.state import Bounds, FrameState

Wanted = list[tuple[Tensor, tuple[int, ...]]]
"""Tensors and the shapes that they must have."""
NO_MEMORY, NO_SUCH_VERTEX, NO_SUCH_SIZE = 1, 2, 3
_FEW = 8
"""Frames under which it does not pay to wake another thread."""
_STATE = ("points", "bishop", "curvature", "length", "shift", "sigma", "iota", "rho", "defocus")
_LAYOUT = " ".join(f"layout_{name}" for name in NUMBERS)
_TAPER = tuple(item.name for item in fields(Shape))[:-1]
"""Of a body, in the order of views.h: all but the tissue, which has a number for every knot."""
_HELD = ("length", "shift", "sigma", "iota", "defocus")
"""What is held to the frame before, and the defocus, which is held to none, in the order of systems.h; then rho."""
_RIG = ("focal", "centre", "distortion", "rotation", "translation", "shift_basis")


def _record(integers: str, numbers: str, addresses: str) -> type[ctypes.Structure]:
    kinds = ((integers, ctypes.c_int64), (numbers, ctypes.c_double), (addresses, ctypes.c_void_p))
    fields = [(name, kind) for names, kind in kinds for name in names.split()]
    return type("Record", (ctypes.Structure,), {"_fields_": fields})


# Functions and fields in the order of _backend.h; the names of the fields are compared with the library's.
RECORDS = {
    "integrate": _record("batch vertices loose", "", "position start_bishop curvature length start points bishop"),
    "take_step": _record(
        f"batch vertices {_LAYOUT}",
        "longest_log appearance_log circles defocus_most "
        "length_low length_high sigma_low sigma_high iota_low iota_high rho_low rho_high",
        "step basis " + " ".join(_STATE) + " " + " ".join(f"new_{name}" for name in _STATE),
    ),
    "project": _record("batch vertices cameras axes own", "", " ".join(_RIG) + " points shift pixels"),
    "optics": _record("batch vertices cameras own", "longest", "rotation points tangents stretch beyond"),
    "appearance": _record(
        "batch vertices cameras knots own",
        "floor cap rounded",
        "sigma iota defocus stretch beyond sharp body_length taper tissue hats wide bright by_view",
    ),
    "energy": _record(
        f"batch vertices {_LAYOUT}",
        "pixels",
        "losses curvature stiffness keeping length shift sigma iota defocus rho "
        "old_length old_shift old_sigma old_iota old_rho total terms gradient",
    ),
    "pixel_system": _record(
        f"batch vertices {_LAYOUT} own",
        "",
        " ".join(_RIG) + " gram slope points bishop segments by_view rho hessian gradient",
    ),
    "solve": _record("batch count", "", "hessian gradient damping step"),
}

_PLACE = {name: place for place, name in enumerate(RECORDS)}


@dataclass(frozen=True)
class CBackend(TorchBackend):
    """The compiled functions behind the backends' contract: float32 on the CPU, without gradients.

    Frames are shared out among torch's threads; results do not depend on their number. OSError says why there is no
    library to call.
    """

    widest: int = -1
    """The most that is taken of the processor's instruction sets, for tests: an index of `versions`; -1 is the best."""

    def __post_init__(self) -> None:
        _library()  # Here and not in the middle of a fit: whoever chooses a backend wants to know why there is none.

    def integrate(
        self,
        position: Float[Tensor, "batch 3"],
        bishop: Float[Tensor, "batch 3 3"],
        curvature: Float[Tensor, "batch vertex 2"],
        length: Float[Tensor, " batch"],
        start: Int[Tensor, " batch"],
    ) -> Curve:
        return self._integrate(position, bishop, curvature, length, start, loose=False)

    def through(
        self,
        position: Float[Tensor, "batch 3"],
        bishop: Float[Tensor, "batch 3 3"],
        curvature: Float[Tensor, "batch vertex 2"],
        length: Float[Tensor, " batch"],
        start: Int[Tensor, " batch"],
    ) -> Curve:
        return self._integrate(position, bishop, curvature, length, start, loose=True)

    def _integrate(
        self, position: Tensor, bishop: Tensor, curvature: Tensor, length: Tensor, start: Tensor, loose: bool
    ) -> Curve:
        batch, vertices, _ = curvature.shape
        made = [curvature.new_empty(batch, vertices, 3), curvature.new_empty(batch, vertices, 3, 3)]
        wanted = [
            (position, (batch, 3)),
            (bishop, (batch, 3, 3)),
            (curvature, (batch, vertices, 2)),
            (length, (batch,)),
        ]
        tensors = [*_fitting(wanted), _starts(start, batch), *made]
        self._run("integrate", batch, [batch, vertices, int(loose)], tensors)
        return Curve(*made)

    def project(
        self, cameras: Cameras, points: Float[Tensor, "batch vertex 3"], shift: Float[Tensor, "batch axis"] | None
    ) -> Float[Tensor, "batch camera vertex 2"]:
        batch, vertices, _ = points.shape
        numbers, rig = _rig(cameras, batch)
        places = _fitting([(points, (batch, vertices, 3))])
        aside: Sequence[Tensor | None] = [None] if shift is None else _fitting([(shift, (batch, numbers[1]))])
        out = points.new_empty(batch, numbers[0], vertices, 2)
        self._run("project", batch, [batch, vertices, *numbers], [*rig, *places, *aside, out])
        return out

    def optics(
        self, cameras: Cameras, points: Float[Tensor, "batch vertex 3"], tangents: Float[Tensor, "batch vertex 3"]
    ) -> Optics:
        batch, vertices, _ = points.shape
        (count, _, own), rig = _rig(cameras, batch)
        places = _fitting([(points, (batch, vertices, 3)), (tangents, (batch, vertices, 3))])
        made = [points.new_empty(batch, count, vertices) for _ in range(2)]
        tensors = [rig[_RIG.index("rotation")], *places, *made]
        self._run("optics", batch, [batch, vertices, count, own], tensors, (LONGEST,))
        return Optics(*made)

    def appearance(self, profile: Profile, view: ViewAppearance, optics: Optics) -> BlobAppearance:
        batch, cameras, vertices = optics.stretch.shape
        own = profile.sharp.ndim == 2
        bodies = batch if own else 1
        taper = torch.stack([getattr(profile.shape, name).reshape(-1) for name in _TAPER], 1)
        matrix = hats(vertices, optics.stretch.dtype, optics.stretch.device)
        knots = matrix.shape[1]
        views, blobs = (batch, cameras), (batch, cameras, vertices)
        wanted: Wanted = [(each, views) for each in (view.sigma, view.iota, view.defocus)]
        wanted += [(optics.stretch, blobs), (optics.beyond, blobs)]
        wanted += [(each.view(bodies, -1), (bodies, cameras)) for each in (profile.sharp, profile.length)]
        wanted += [(taper, (bodies, len(_TAPER))), (profile.shape.tissue.view(bodies, -1), (bodies, knots))]
        tensors = _fitting([*wanted, (matrix, (vertices, knots))])
        made = [view.sigma.new_empty(*blobs, *more) for more in ((), (), (2, 3))]
        sizes = [batch, vertices, cameras, knots, int(own)]
        self._run("appearance", batch, sizes, [*tensors, *made], (profile.floor, CAP, ROUNDED))
        return BlobAppearance(*made)

    def energy(self, prior: Prior, state: FrameState, losses: Float[Tensor, "batch camera"]) -> Energy:
        layout, batch, vertices = prior.layout, len(state), state.vertices
        views = (batch, layout.cameras)
        sizes = {"length": (batch,), "shift": (batch, layout.axes)}
        wanted: Wanted = [(losses, views), (state.curvature, (batch, vertices, 2))]
        wanted += [(prior.stiffness, (vertices, vertices + layout.nodes))]
        wanted += [(prior.keeping, (layout.count - layout.length,))]
        wanted += [(getattr(state, name), sizes.get(name, views)) for name in (*_HELD, "rho")]
        wanted += [(getattr(prior.anchor, name), sizes.get(name, views)) for name in (*_HELD[:-1], "rho")]
        made = [losses.new_empty(shape) for shape in ((batch,), (3, batch), (batch, layout.count))]
        tensors = [*_fitting(wanted), *made]
        self._run("energy", batch, [batch, vertices, *layout.numbers()], tensors, (prior.pixels,))
        return Energy(*made)

    def pixel_system(
        self,
        products: Products,
        state: FrameState,
        appearance: BlobAppearance,
        cameras: Cameras,
        basis: Basis,
        layout: Layout,
    ) -> System:
        batch, vertices, _ = state.points.shape
        numbers, rig = _rig(cameras, batch)
        if numbers[:2] != [layout.cameras, layout.axes]:
            raise ValueError(
                f"the layout is of {layout.cameras} cameras and {layout.axes} shifts, not of {numbers[:2]}"
            )
        views = (batch, layout.cameras, vertices)
        wanted = [(products.gram, (*views, 5, 5)), (products.slope, (*views, 5)), (state.points, (batch, vertices, 3))]
        wanted += [(state.bishop, (batch, vertices, 3, 3)), (basis.segments, (vertices - 1, layout.nodes))]
        wanted += [(appearance.by_view, (*views, 2, 3)), (state.rho, views[:2])]
        made = [state.points.new_empty(batch, layout.count, layout.count), state.points.new_empty(batch, layout.count)]
        sizes = [batch, vertices, *layout.numbers(), numbers[2]]
        self._run("pixel_system", batch, sizes, [*rig, *_fitting(wanted), *made])
        return System(*made)

    def solve(self, system: System, damping: Float[Tensor, " batch"]) -> Float[Tensor, "batch unknown"]:
        batch, count = system.gradient.shape
        wanted = [(system.hessian, (batch, count, count)), (system.gradient, (batch, count)), (damping, (batch,))]
        step = torch.empty_like(system.gradient, memory_format=torch.contiguous_format)
        self._run("solve", batch, [batch, count], [*_fitting(wanted), step])
        return step

    def take_step(
        self, state: FrameState, step: Float[Tensor, "batch unknown"], basis: Basis, layout: Layout, limits: StepLimits
    ) -> FrameState:
        return self._step(state, step, basis.matrix, layout, limits)

    def clamped(self, state: FrameState, bounds: Bounds) -> FrameState:
        """By a step of 0 along no node at all."""
        layout = Layout(0, state.shift.shape[1], state.sigma.shape[1])
        still, nothing = state.length.new_zeros(len(state), layout.count), state.length.new_zeros(state.vertices, 0)
        return self._step(state, still, nothing, layout, StepLimits(0.0, 0.0, bounds))

    def _step(
        self, state: FrameState, step: Tensor, matrix: Float[Tensor, "vertex node"], layout: Layout, limits: StepLimits
    ) -> FrameState:
        batch, vertices = len(state), state.vertices
        shapes = {"points": (batch, vertices, 3), "bishop": (batch, vertices, 3, 3), "curvature": (batch, vertices, 2)}
        shapes |= {"length": (batch,), "shift": (batch, layout.axes)}
        old = [(getattr(state, name), shapes.get(name, (batch, layout.cameras))) for name in _STATE]
        wanted = [(step, (batch, layout.count)), (matrix, (vertices, layout.nodes)), *old]
        made = [step.new_empty(shape) for _, shape in old]
        sizes = [batch, vertices, *layout.numbers()]
        numbers = (limits.log_length, limits.log_appearance, *_limits(limits.bounds))
        self._run("take_step", batch, sizes, [*_fitting(wanted), *made], numbers)
        return FrameState(**dict(zip(_STATE, made, strict=True)))

    def _run(
        self,
        name: str,
        batch: int,
        integers: list[int],
        tensors: Sequence[Tensor | None],
        numbers: tuple[float, ...] = (),
    ) -> None:
        """The function over the batch, on all of torch's threads where there are frames enough."""
        addresses = [None if tensor is None else tensor.data_ptr() for tensor in tensors]
        record = RECORDS[name](*integers, *numbers, *addresses)
        function = partial(_library().midline3d_run, _PLACE[name], ctypes.byref(record))
        hands = max(1, min(torch.get_num_threads(), batch // _FEW))
        alone = hands == 1
        errors = {function(0, batch, self.widest)} if alone else _shared_out(function, batch, hands, self.widest)
        if NO_SUCH_VERTEX in errors:
            raise IndexError(f"start lies outside the curve of {integers[1]} vertices")
        if NO_SUCH_SIZE in errors:
            sizes = dict(zip((size for size, *_ in RECORDS[name]._fields_), integers, strict=False))
            raise ValueError(f"a curve needs 3 vertices or more, and nothing goes on for ever: {sizes}")
        if NO_MEMORY in errors:
            raise MemoryError("no memory left for the compiled functions")


def _shared_out(function: Callable[[int, int, int], int], batch: int, hands: int, widest: int) -> set[int]:
    """The function's errors over parts of the batch, each on a thread of its own."""
    parts = [(batch * hand // hands, batch * (hand + 1) // hands) for hand in range(hands)]
    helpers = [(part, _pool(hands - 1).submit(function, *part, widest)) for part in parts[1:]]
    errors = {function(*parts[0], widest)}
    for part, helper in helpers:
        # In a forked process the helpers are gone and nothing ever begins.
        errors.add(function(*part, widest) if helper.cancel() else helper.result())
    return errors


def _starts(start: Tensor, batch: int) -> Tensor:
    if start.shape != (batch,) or not start.is_cpu:
        raise ValueError(f"start has shape {tuple(start.shape)} on {start.device}, not ({batch},) on the CPU")
    return start.to(torch.long).contiguous()


def _limits(bounds: Bounds) -> tuple[float, ...]:
    """In the order of the record."""
    return (bounds.circles, bounds.defocus, *bounds.length, *bounds.sigma, *bounds.iota, *bounds.rho)


def _fitting(wanted: Iterable[tuple[Tensor, tuple[int, ...]]]) -> list[Tensor]:
    """The tensors in one piece each. The library trusts its addresses, so that nothing wrong may get there."""
    fitting = []
    for tensor, shape in wanted:
        if tensor.shape != shape or tensor.dtype is not torch.float32 or not tensor.is_cpu:
            raise ValueError(
                f"a tensor is {tensor.dtype} {tuple(tensor.shape)} on {tensor.device}: "
                f"the compiled functions want float32 {shape} on the CPU here"
            )
        if tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError("a tensor asks for its gradient, which the compiled functions lose: use TorchBackend")
        fitting.append(tensor.contiguous())
    return fitting


def _rig(rig: Cameras, batch: int) -> tuple[list[int], list[Tensor]]:
    """(cameras, axes, whether every frame has its own), and the tensors."""
    cameras, _, axes = rig.shift_basis.shape
    given = {name: getattr(rig, name) for name in _RIG}
    own = any(len(given[name]) > 1 for name in _RIG[:-1])
    tails = ((cameras, 2), (cameras, 2), (cameras, 5), (cameras, 3, 3), (cameras, 3))
    wanted = []
    for name, tail in zip(_RIG, tails, strict=False):
        shape = (batch if own else 1, *tail)
        wanted.append((given[name].expand(shape) if own else given[name], shape))
    return [cameras, axes, int(own)], _fitting([*wanted, (rig.shift_basis, (cameras, 2, axes))])


@cache
def _pool(hands: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(hands, thread_name_prefix="midline3d")


@cache
def _library() -> ctypes.CDLL:
    """The library that was built with the package; OSError where there is none."""
    return _opened()


def _opened() -> ctypes.CDLL:
    library = open_library(Path(__file__).parent, "_backend", list(RECORDS.values()))
    whole, flag = ctypes.c_int64, ctypes.c_int
    library.midline3d_run.argtypes = [flag, ctypes.c_void_p, whole, whole, flag]
    library.midline3d_version.argtypes, library.midline3d_version.restype = [flag], ctypes.c_char_p
    return library


def versions() -> list[str]:
    """Instruction sets that the library has for this processor, the plainest first; OSError where there is none."""
    library, names = _opened(), list[str]()
    while (name := library.midline3d_version(len(names)).decode()) not in names:
        names.append(name)
    return names
