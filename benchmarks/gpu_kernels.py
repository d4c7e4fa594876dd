"""Checks and times the Triton renderer on a GPU, and prints one short table last.

    PYTHONPATH=src python3 benchmarks/gpu_kernels.py [results.json] [--tiny]

Every section stands alone: one that fails prints its traceback and the others go on. --tiny runs the same script on
scenes for Triton's interpreter (TRITON_INTERPRET=1), without a GPU; its timings mean nothing.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
import triton

from midline3d.rendering import Blobs, Objective, Patches, Reference, Rendering, reach
from midline3d.rendering.gpu import Triton

TINY = "--tiny" in sys.argv
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CUTOFF = 3e-3
OBJECTIVE = Objective(CUTOFF, robust=1.0)
CAMERAS, VERTICES, WIDTH, SIGMA = (1, 5, 24, 1.5) if TINY else (3, 128, 200, 5.0)
BATCHES = (1,) if TINY else (1, 16, 64, 256, 512)
TUNED = (1,) if TINY else (1, 256)
TILES = [((16, 16), 1), ((16, 16), 2), ((16, 16), 4), ((8, 16), 1), ((8, 16), 2), ((8, 32), 1), ((8, 32), 2),
         ((8, 8), 1), ((16, 32), 2), ((16, 32), 4), ((32, 32), 4), ((32, 32), 8)]  # fmt: skip
BLOCKS = [(32, 1), (64, 1), (128, 1), (256, 1), (64, 2), (128, 2), (256, 2), (128, 4), (256, 4), (512, 4)]
TUNING_LIMIT_S = 240.0

results: dict = {}
table: list[str] = []


def section(run: Callable[[], None]) -> None:
    start = time.perf_counter()
    try:
        run()
    except Exception:
        traceback.print_exc()
        table.append(f"{run.__name__}: FAILED, see the traceback above")
    print(f"# {run.__name__}: {time.perf_counter() - start:.1f} s", flush=True)


# --- the work ---------------------------------------------------------------------------------------------------------


def worms(batch: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> tuple[Blobs, torch.Tensor]:
    """Smooth curves across the crops, 1.3 px from blob to blob; images of them moved by a pixel, and noise."""
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, CAMERAS)
    heading = 2 * math.pi * torch.rand(*shape, 1, generator=generator)
    along = torch.linspace(0, 2 * math.pi, VERTICES)
    bend = torch.randn(*shape, 3, generator=generator) * torch.tensor([1.0, 0.6, 0.3])
    waves = torch.stack([torch.sin((k + 1) * along / 2 + k) for k in range(3)])
    angle = heading + bend @ waves
    steps = 0.0065 * WIDTH * torch.stack([angle.cos(), angle.sin()], -1)
    centre = steps.cumsum(2)
    centre = centre - centre.mean(2, keepdim=True) + WIDTH / 2 + 10 * torch.rand(*shape, 1, 2, generator=generator)
    sigma = SIGMA * (0.9 + 0.2 * torch.rand(*shape, VERTICES, generator=generator))
    iota = 0.7 + 0.2 * torch.rand(*shape, VERTICES, generator=generator)
    rho = 1.05 + 0.1 * torch.rand(*shape, generator=generator)
    noise = 0.05 * torch.rand(*shape, WIDTH, WIDTH, generator=generator)
    blobs = Blobs(*(tensor.to(DEVICE, dtype) for tensor in (centre, sigma, iota, rho)))
    moved = replace(blobs, centre=blobs.centre + 1)
    images = (
        noise.to(DEVICE, dtype)
        + Triton().forward(moved, torch.zeros_like(noise, device=DEVICE, dtype=dtype), CUTOFF)[0].image
    )
    return blobs, images


def evaluations(blobs: Blobs) -> int:
    """Pixels of all windows, inside the images."""
    radius = reach(blobs.sigma, blobs.rho, CUTOFF)[..., None]
    first, last = (blobs.centre - radius).ceil().clamp(min=0), (blobs.centre + radius).floor().clamp(max=WIDTH - 1)
    return int((last - first + 1).clamp(min=0).prod(-1).sum())


def upstream_of(blobs: Blobs, images: torch.Tensor) -> Rendering:
    return Rendering(torch.sin(9 * images), torch.cos(blobs.centre[..., 0]), torch.sin(blobs.centre[..., 1]))


def calls(renderer: Triton | Patches, batch: int) -> dict[str, Callable[[], object]]:
    blobs, images = worms(batch)
    _, owner = renderer.forward(blobs, images, CUTOFF)
    upstream = upstream_of(blobs, images)
    return {
        "forward": lambda: renderer.forward(blobs, images, CUTOFF),
        "backward": lambda: renderer.backward(blobs, images, owner, upstream, CUTOFF),
        "products": lambda: renderer.products(blobs, images, OBJECTIVE),
    }


# --- timing -----------------------------------------------------------------------------------------------------------


def launched_us(call: Callable[[], object], inner: int = 5, outer: int = 9) -> float:
    """Median time of a call, launched plainly (microseconds)."""
    if DEVICE == "cpu":
        start = time.perf_counter()
        call()
        return 1e6 * (time.perf_counter() - start)
    for _ in range(3):
        call()
    times = []
    for _ in range(outer):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(inner):
            call()
        end.record()
        end.synchronize()
        times.append(1e3 * start.elapsed_time(end) / inner)
    return statistics.median(times)


def replayed_us(call: Callable[[], object]) -> float:
    """Median time of a call, replayed from a CUDA graph (microseconds)."""
    if DEVICE == "cpu":
        return math.nan
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return launched_us(graph.replay, inner=20)


# --- sections ---------------------------------------------------------------------------------------------------------


def machine() -> None:
    results["machine"] = {"torch": torch.__version__, "triton": triton.__version__, "device": DEVICE}
    if DEVICE == "cuda":
        properties = torch.cuda.get_device_properties(0)
        results["machine"] |= {"gpu": properties.name, "multiprocessors": properties.multi_processor_count}
    print(results["machine"])


def compared(name: str, actual: object, expected: object) -> None:
    for part, value in vars(expected).items():
        value, other = value.double(), getattr(actual, part).double()
        norm = float((other - value).norm() / value.norm())
        worst = float((other - value).abs().max() / value.abs().max())
        results.setdefault("errors", {})[f"{name} {part}"] = {"norm": norm, "worst": worst}
        flag = "" if norm < 1e-4 else "   <-- LARGE"
        print(f"{name:34s} {part:8s} norm {norm:.1e}  worst {worst:.1e}{flag}")
        if flag:
            table.append(f"PARITY {name} {part}: {norm:.1e}")


def parity() -> None:
    truth = Reference()
    for seed in (1, 2):
        exact = worms(1, torch.float64, seed)
        rounded = Blobs(*(t.float() for t in exact[0].tensors())), exact[1].float()
        expected, owner = truth.forward(*exact, CUTOFF)
        upstream = upstream_of(*exact)
        gradient = truth.backward(*exact, owner, upstream, CUTOFF)
        normal = truth.products(*exact, OBJECTIVE)
        plain = truth.products(*exact, Objective(CUTOFF))
        for name, renderer, (blobs, images) in (
            ("Triton float32", Triton(), rounded),
            ("Triton float64", Triton(), exact),
            ("Patches float32", Patches(), rounded),
        ):
            rendering, owned = renderer.forward(blobs, images, CUTOFF)
            compared(f"{name} forward", rendering, expected)
            differ = int((owned != owner).sum())
            print(f"{name} owners that differ: {differ} of {owner.numel()}")
            parts = Rendering(*(part.to(images.dtype) for part in vars(upstream).values()))
            got = renderer.backward(blobs, images, owner, parts, CUTOFF)
            for column, symbol in enumerate(("u", "v", "sigma", "iota", "rho")):
                error = float((got - gradient)[..., column].norm() / gradient[..., column].norm())
                results.setdefault("errors", {})[f"{name} backward {symbol}"] = {"norm": error}
                print(f"{name} backward {symbol}: {error:.1e}")
            compared(f"{name} products", renderer.products(blobs, images, OBJECTIVE), normal)
            compared(f"{name} products, plain", renderer.products(blobs, images, Objective(CUTOFF)), plain)
    largest = max(e["norm"] for key, e in results["errors"].items() if key.startswith("Triton float32"))
    table.append(f"largest relative error of Triton float32 against the float64 reference: {largest:.1e}")


def repeats() -> None:
    """The same bits twice, and from another batch size."""
    blobs, images = worms(2, seed=5)
    once, twice = (Triton().products(blobs, images, OBJECTIVE) for _ in range(2))
    alone = Triton().products(Blobs(*(t[:1].contiguous() for t in blobs.tensors())), images[:1], OBJECTIVE)
    same = all(torch.equal(getattr(once, k), getattr(twice, k)) for k in vars(once))
    batched = all(torch.equal(getattr(once, k)[:1], getattr(alone, k)) for k in vars(once))
    table.append(f"same bits twice: {same}; in another batch: {batched}")


def times() -> None:
    table.append("batch  call      launch us   graph us   us/frame   G evaluations/s")
    for batch in BATCHES:
        count = evaluations(worms(batch)[0])
        for name, call in calls(Triton(), batch).items():
            plain, graph = launched_us(call), replayed_us(call)
            rate = count / graph / 1e3
            results.setdefault("times", []).append(
                {
                    "batch": batch,
                    "call": name,
                    "launch_us": plain,
                    "graph_us": graph,
                    "evaluations": count,
                    "rate": rate,
                }
            )
            table.append(f"{batch:5d}  {name:8s} {plain:10.1f} {graph:10.1f} {graph / batch:10.2f} {rate:12.1f}")
            print(table[-1], flush=True)


def portable() -> None:
    for batch in BATCHES[:2]:
        for name, call in calls(Patches(), batch).items():
            plain = launched_us(call, inner=2, outer=3)
            results.setdefault("windows", []).append({"batch": batch, "call": name, "launch_us": plain})
            table.append(f"Patches, batch {batch:3d}  {name:8s} {plain:10.1f} us")


def kernels() -> None:
    """Time of each kernel by itself."""
    from torch.profiler import ProfilerActivity, profile

    for batch in TUNED:
        work = calls(Triton(), batch)
        for call in work.values():
            call()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
            for _ in range(10):
                for call in work.values():
                    call()
        for event in recorded.key_averages():
            if event.key in ("render_tile", "sum_blob", "differentiate_blob", "residual_tile", "multiply_blob"):
                each = event.device_time_total / event.count
                results.setdefault("kernels", []).append({"batch": batch, "kernel": event.key, "us": each})
                table.append(f"batch {batch:3d}  {event.key:20s} {each:10.1f} us")


def tuning() -> None:
    """products with other program shapes: tiles change the pixel pass alone, blocks the blob pass alone."""
    start = time.perf_counter()
    for batch in TUNED:
        work = worms(batch)
        tiles = [replace(Triton(), tile=tile, tile_warps=warps) for tile, warps in TILES]
        blocks = [replace(Triton(), block=b, blob_warps=w) for b, w in BLOCKS]
        for kind, renderers in (("tile", tiles), ("block", blocks)):
            found = []
            for renderer in renderers[:2] if TINY else renderers:
                if time.perf_counter() - start > TUNING_LIMIT_S:
                    print("tuning stopped at its time limit")
                    break
                try:
                    spent = replayed_us(partial(renderer.products, *work, OBJECTIVE))
                except Exception as error:
                    print(renderer, "failed:", error)
                    continue
                found.append((spent, renderer))
                results.setdefault("tuning", []).append({"batch": batch, "renderer": repr(renderer), "us": spent})
                print(f"batch {batch:3d} {spent:9.1f} us  {renderer}", flush=True)
            found.sort(key=lambda pair: pair[0])
            for spent, renderer in found[:3]:
                table.append(f"best {kind}, batch {batch:3d}: {spent:9.1f} us  {renderer}")


def objectives() -> None:
    """What the robust weights cost."""
    work = worms(TUNED[-1])
    for name, objective in (("plain", Objective(CUTOFF)), ("robust", OBJECTIVE)):
        spent = replayed_us(partial(Triton().products, *work, objective))
        results.setdefault("objectives", {})[name] = spent
        table.append(f"products, batch {TUNED[-1]}, {name}: {spent:.1f} us")


def limits() -> None:
    """How near the products come to the chip: special functions (2 in the pixel pass, 3 in the blob pass) and bytes."""
    properties = torch.cuda.get_device_properties(0)
    clock = 1e3 * getattr(properties, "clock_rate", 1.98e6)  # kHz; an H200 under load where torch does not say
    last = [row for row in results["times"] if row["call"] == "products"][-1]
    seconds = last["graph_us"] * 1e-6
    share = 5 * last["evaluations"] / (properties.multi_processor_count * 16 * clock) / seconds
    rate = last["batch"] * CAMERAS * WIDTH * WIDTH * 4 / seconds
    results["limits"] = {"clock_hz": clock, "special_share": share, "image_bytes_per_s": rate}
    table.append(f"products, batch {last['batch']}: {100 * share:.0f} % of the special-function rate at")
    table[-1] += f" {clock / 1e9:.2f} GHz (tiles' excess aside); images read at {rate / 1e12:.2f} TB/s"


def main() -> None:
    for run in (machine, parity, repeats, times, kernels, objectives, portable, limits, tuning):
        section(run)
        paths = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
        if paths:
            Path(paths[0]).write_text(json.dumps(results | {"table": table}, indent=1))
    print("\n".join(["", "=" * 100, *table]))


if __name__ == "__main__":
    main()
