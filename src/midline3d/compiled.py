"""The small sums of a step in C (see _chain.c): a call each, where torch needs hundreds.

Every function here has a plain-torch twin that says what it means: it serves gradients, float64 and the GPU, and
machines on which nothing could be built. `takes` says which of the two is to be used.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

import torch

from midline3d.native import REMEDY, open_library
from midline3d.shapes import Float, Int, Tensor

_NO_MEMORY, _NO_SUCH_VERTEX, _NO_SUCH_SIZE = 1, 2, 3
_FEW = 8
"""Frames under which it does not pay to wake another thread."""
_WIDEST = -1
"""The most that is taken of the processor's instruction sets, for tests: an index of `versions`; -1 takes the best."""
_STATE = ("points", "frames", "curvature", "length", "shift", "sigma", "iota", "rho", "defocus")
_RIG = ("focal", "centre", "distortion", "rotation", "translation", "shift_basis")


def _record(integers: str, numbers: str, addresses: str) -> type[ctypes.Structure]:
    kinds = ((integers, ctypes.c_int64), (numbers, ctypes.c_double), (addresses, ctypes.c_void_p))
    fields = [(name, kind) for names, kind in kinds for name in names.split()]
    return type("Record", (ctypes.Structure,), {"_fields_": fields})


# Functions and fields in the order of _chain_body.h; the names of the fields are compared with the library's.
_RECORDS = {
    "integrate": _record("batch vertices loose", "", "position frame curvature length start points frames"),
    "moved": _record(
        "batch vertices nodes cameras axes",
        "longest_log look_log circles defocus_most "
        "length_low length_high sigma_low sigma_high iota_low iota_high rho_low rho_high",
        "step basis " + " ".join(_STATE) + " " + " ".join(f"new_{name}" for name in _STATE),
    ),
    "project": _record("batch vertices cameras axes own", "", " ".join(_RIG) + " points shift pixels"),
    "system": _record(
        "batch vertices nodes cameras axes own",
        "",
        " ".join(_RIG) + " gram slope points frames segments by_view rho hessian gradient",
    ),
    "solve": _record("batch count", "", "hessian gradient damping step"),
}


def takes(*tensors: Tensor) -> bool:
    """Whether the compiled functions serve these: float32 on the CPU, with no gradient to be had."""
    for tensor in tensors:
        if tensor.dtype is not torch.float32 or not tensor.is_cpu or type(tensor) is not Tensor:
            return False
    gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    # Within torch.func's transforms a tensor has no memory of its own.
    return not gradient and torch._C._functorch.peek_interpreter_stack() is None and _library() is not None


def integrate(
    position: Float[Tensor, "batch 3"],
    frame: Float[Tensor, "batch 3 3"],
    curvature: Float[Tensor, "batch vertex 2"],
    length: Float[Tensor, " batch"],
    start: Int[Tensor, " batch"],
    loose: bool,
) -> tuple[Float[Tensor, "batch vertex 3"], Float[Tensor, "batch vertex 3 3"]]:
    """Points and frames: `curve.integrate`, or `curve.through` where the frame is `loose`."""
    batch, vertices, _ = curvature.shape
    made = [curvature.new_empty(batch, vertices, 3), curvature.new_empty(batch, vertices, 3, 3)]
    wanted = [(position, (batch, 3)), (frame, (batch, 3, 3)), (curvature, (batch, vertices, 2)), (length, (batch,))]
    first = _starts(start, batch)
    _run("integrate", batch, [batch, vertices, int(loose)], [*_fitting(wanted), first, *made])
    return made[0], made[1]


def _starts(start: Tensor, batch: int) -> Tensor:
    if start.shape != (batch,) or not start.is_cpu:
        raise ValueError(f"start has shape {tuple(start.shape)} on {start.device}, not ({batch},) on the CPU")
    return start.to(torch.long).contiguous()


def moved(
    state: Mapping[str, Tensor],
    step: Float[Tensor, "batch unknown"],
    basis: Float[Tensor, "vertex node"],
    limits: tuple[float, ...],
) -> dict[str, Tensor]:
    """All tensors of a `FrameState` after a step: `second_order.moved`.

    `limits`: most change of log length and of the log looks, circles, defocus, then low and high of length, sigma, iota
    and rho.
    """
    vertices, nodes = basis.shape
    batch, cameras = state["sigma"].shape
    axes = state["shift"].shape[1]
    shapes = {"points": (batch, vertices, 3), "frames": (batch, vertices, 3, 3), "curvature": (batch, vertices, 2)}
    shapes |= {"length": (batch,), "shift": (batch, axes)}
    old = [(state[name], shapes.get(name, (batch, cameras))) for name in _STATE]
    wanted = [(step, (batch, 6 + 2 * nodes + axes + 4 * cameras)), (basis, (vertices, nodes)), *old]
    made = [step.new_empty(shape) for _, shape in old]
    _run("moved", batch, [batch, vertices, nodes, cameras, axes], [*_fitting(wanted), *made], limits)
    return dict(zip(_STATE, made, strict=True))


def project(
    rig: Mapping[str, Tensor], points: Float[Tensor, "batch vertex 3"], shift: Float[Tensor, "batch axis"] | None
) -> Float[Tensor, "batch camera vertex 2"]:
    """Image points: `cameras.project`; `rig` are the tensors of `Cameras`."""
    batch, vertices, _ = points.shape
    numbers, cameras = _rig(rig, batch)
    places = _fitting([(points, (batch, vertices, 3))])
    aside: Sequence[Tensor | None] = [None] if shift is None else _fitting([(shift, (batch, numbers[1]))])
    out = points.new_empty(batch, numbers[0], vertices, 2)
    _run("project", batch, [batch, vertices, *numbers], [*cameras, *places, *aside, out])
    return out


def system(
    rig: Mapping[str, Tensor],
    gram: Float[Tensor, "batch camera vertex 5 5"],
    slope: Float[Tensor, "batch camera vertex 5"],
    points: Float[Tensor, "batch vertex 3"],
    frames: Float[Tensor, "batch vertex 3 3"],
    segments: Float[Tensor, "segment node"],
    by_view: Float[Tensor, "batch camera vertex 2 3"],
    rho: Float[Tensor, "batch camera"],
) -> tuple[Float[Tensor, "batch unknown unknown"], Float[Tensor, "batch unknown"]]:
    """H and g: `normal.pixel_system`."""
    batch, vertices, _ = points.shape
    nodes = segments.shape[1]
    numbers, cameras = _rig(rig, batch)
    views = (batch, numbers[0], vertices)
    wanted = [(gram, (*views, 5, 5)), (slope, (*views, 5)), (points, (batch, vertices, 3))]
    wanted += [(frames, (batch, vertices, 3, 3)), (segments, (vertices - 1, nodes))]
    wanted += [(by_view, (*views, 2, 3)), (rho, views[:2])]
    count = 6 + 2 * nodes + numbers[1] + 4 * numbers[0]
    made = [points.new_empty(batch, count, count), points.new_empty(batch, count)]
    _run("system", batch, [batch, vertices, nodes, *numbers], [*cameras, *_fitting(wanted), *made])
    return made[0], made[1]


def solve(
    hessian: Float[Tensor, "batch unknown unknown"],
    gradient: Float[Tensor, "batch unknown"],
    damping: Float[Tensor, " batch"],
) -> Float[Tensor, "batch unknown"]:
    """The damped step: `second_order.solve`."""
    batch, count = gradient.shape
    wanted = [(hessian, (batch, count, count)), (gradient, (batch, count)), (damping, (batch,))]
    step = torch.empty_like(gradient, memory_format=torch.contiguous_format)
    _run("solve", batch, [batch, count], [*_fitting(wanted), step])
    return step


def _fitting(wanted: Iterable[tuple[Tensor, tuple[int, ...]]]) -> list[Tensor]:
    """The tensors in one piece each. The library trusts its addresses, so that nothing wrong may get there."""
    fitting = []
    for tensor, shape in wanted:
        if tensor.shape != shape or tensor.dtype is not torch.float32 or not tensor.is_cpu:
            raise ValueError(
                f"a tensor is {tensor.dtype} {tuple(tensor.shape)} on {tensor.device}: "
                f"the compiled functions want float32 {shape} on the CPU here"
            )
        fitting.append(tensor.contiguous())
    return fitting


def _rig(rig: Mapping[str, Tensor], batch: int) -> tuple[list[int], list[Tensor]]:
    """(cameras, axes, whether every frame has its own), and the tensors."""
    cameras, _, axes = rig["shift_basis"].shape
    own = any(len(rig[name]) > 1 for name in _RIG[:-1])
    tails = ((cameras, 2), (cameras, 2), (cameras, 5), (cameras, 3, 3), (cameras, 3))
    wanted = []
    for name, tail in zip(_RIG, tails, strict=False):
        shape = (batch if own else 1, *tail)
        wanted.append((rig[name].expand(shape) if own else rig[name], shape))
    return [cameras, axes, int(own)], _fitting([*wanted, (rig["shift_basis"], (cameras, 2, axes))])


def _run(
    name: str, batch: int, integers: list[int], tensors: Sequence[Tensor | None], numbers: tuple[float, ...] = ()
) -> None:
    """The function over the batch, on all of torch's threads where there are frames enough."""
    library = _library()
    if library is None:
        raise OSError("the compiled functions were not built with this installation: ask `takes` first")
    addresses = [None if tensor is None else tensor.data_ptr() for tensor in tensors]
    record = _RECORDS[name](*integers, *numbers, *addresses)
    function = partial(library.midline3d_run, list(_RECORDS).index(name), ctypes.byref(record))
    hands = max(1, min(torch.get_num_threads(), batch // _FEW))
    parts = [(batch * hand // hands, batch * (hand + 1) // hands) for hand in range(hands)]
    helpers = [(part, _pool(hands - 1).submit(function, *part, _WIDEST)) for part in parts[1:]]
    errors = {function(*parts[0], _WIDEST)}
    for part, helper in helpers:
        # In a forked process the helpers are gone and nothing ever begins.
        errors.add(function(*part, _WIDEST) if helper.cancel() else helper.result())
    if _NO_SUCH_VERTEX in errors:
        raise IndexError(f"start lies outside the curve of {integers[1]} vertices")
    if _NO_SUCH_SIZE in errors:
        sizes = dict(zip((field for field, *_ in _RECORDS[name]._fields_), integers, strict=False))
        raise ValueError(f"a curve needs 3 vertices or more, and nothing goes on for ever: {sizes}")
    if _NO_MEMORY in errors:
        raise MemoryError("no memory left for the compiled functions")


@cache
def _pool(hands: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(hands, thread_name_prefix="midline3d")


@cache
def _library() -> ctypes.CDLL | None:
    """The library that was built with the package, or None, saying so once."""
    try:
        return _opened()
    except OSError as reason:
        warnings.warn(
            f"curves and normal equations go by plain torch, several times slower on the CPU: {reason} ({REMEDY})",
            stacklevel=4,
        )
        return None


def _opened() -> ctypes.CDLL:
    library = open_library(Path(__file__).parent, "_chain", list(_RECORDS.values()))
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
