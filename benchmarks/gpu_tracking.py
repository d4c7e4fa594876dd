"""Follows simulated clips on a GPU: the same midlines as on the CPU, one recording alone, and many clips at once.

    python3 setup.py build_ext --inplace
    PYTHONPATH=src python3 benchmarks/gpu_tracking.py [results.json] [--tiny]

Clips are drawn and begun (first frame, body) on all CPU cores first, by the compiled code that the first line builds;
that is not timed. Every section stands alone: one that fails prints its traceback and the others go on. --tiny runs the
same script on the CPU; its timings mean nothing.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import pickle
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from midline3d import bench
from midline3d.bench import drawn_clip, midline_error, pixels_of, run_batch
from midline3d.evaluate import distance_to_polyline
from midline3d.fitting import second_order
from midline3d.fitting.second_order import Fit, evaluate, normal_equations, take_step
from midline3d.kernels import TorchBackend, select_backend
from midline3d.rendering import Reference, products, reach
from midline3d.settings import JudgingSettings, Settings
from midline3d.state import FrameState, merged
from midline3d.synth.scene import Plan
from midline3d.tracking.batch import Batch, FrameSequence, record
from midline3d.tracking.begin import Beginning, begin
from midline3d.tracking.directions import follow_directions
from midline3d.tracking.follow import Tracked, follow

TINY = "--tiny" in sys.argv
CPU = torch.device("cpu")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CLIPS, FRAMES = (2, 6) if TINY else (32, 100)
SLOTS = (4,) if TINY else (256, 512, 1024)
"""Reels followed at once. A clip of 100 frames is two reels: at 512 slots that is 25,600 frames."""
PAPER = 440_000
"""Frames of the paper's data set."""
SPECIAL = 132 * 16 * 1.98e9
"""Exponentials and the like that an H200 takes at most in a second: 16 a cycle on each of 132 multiprocessors."""
MATRIX = 495e12
"""Operations a second that its matrix units do at most on float32 cut to TF32, without sparsity."""
PROTOTYPE = 400e9
"""Evaluations a second of the first, untuned kernel."""

results: dict = {"device": str(DEVICE)}
table: list[str] = []
begun: list[Beginning] = []


def section(run: Callable[[], None]) -> None:
    start = time.perf_counter()
    try:
        run()
    except Exception:
        traceback.print_exc()
        table.append(f"{run.__name__}: FAILED, see the traceback above")
    print(f"# {run.__name__}: {time.perf_counter() - start:.1f} s", flush=True)


def say(line: str) -> None:
    table.append(line)
    print(line, flush=True)


def wait() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


# --- the work ---------------------------------------------------------------------------------------------------------


def clip_of(seed: int) -> bytes | str:
    """One clip drawn and begun, on one core."""
    torch.set_num_threads(1)
    settings = Settings()
    settings = replace(settings, start=replace(settings.start, pairs=1))
    if TINY:
        settings = replace(settings, start=replace(settings.start, starts=4))
    try:
        clip = drawn_clip(Plan("swim", FRAMES, size=512, seed=seed), settings, CPU)
        return pickle.dumps(begin(clip, torch.Generator().manual_seed(seed), lambda *_: None))
    except Exception as fault:
        return f"clip {seed}: {type(fault).__name__}: {fault}"


def clips() -> None:
    if type(select_backend("cpu", torch.float32)) is TorchBackend:
        say("the compiled functions are missing: run `python3 setup.py build_ext --inplace` first")
    cores = 2 if TINY else os.cpu_count() or 1
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        for outcome in pool.imap_unordered(clip_of, range(CLIPS), chunksize=1):
            if isinstance(outcome, bytes):
                begun.append(pickle.loads(outcome))
            else:
                print(outcome, flush=True)
    say(f"{len(begun)} of {CLIPS} clips drawn and begun, {FRAMES} frames each, three views of 200 px, 128 vertices")


def on_device(beginning: Beginning) -> Beginning:
    """As `begin` leaves it where the clip itself lies on the device."""
    taper, clip = beginning.taper, beginning.clip
    shape = type(taper.shape)(**{name: value.to(DEVICE) for name, value in vars(taper.shape).items()})
    return replace(
        beginning,
        clip=replace(clip, device=DEVICE, brightness=clip.brightness.to(DEVICE), error=clip.error.to(DEVICE)),
        state=beginning.state.to(DEVICE),
        taper=replace(taper, shape=shape, sharp=taper.sharp.to(DEVICE), length=taper.length.to(DEVICE)),
    )


def sequences(slots: int) -> list[FrameSequence]:
    """Both ways of every clip, over and over until the slots are full, the long ones first."""
    directions = [direction for beginning in begun for direction in FrameSequence.directions(beginning)]
    directions.sort(key=lambda direction: -len(direction.frames))
    return [directions[slot % len(directions)] for slot in range(slots)]


def varied(batch: Batch) -> None:
    """Other pictures in every slot: -2 to 2 grey levels added where there is anything, and 0.94 to 1.06 as bright."""
    generator = torch.Generator(DEVICE).manual_seed(1)
    for slot, sequence in enumerate(batch.sequences):
        first = int(batch.bank.first[slot])
        part = batch.bank.images[first : first + len(sequence.frames)]
        noise = torch.randint(-2, 3, part.shape, generator=generator, device=DEVICE)
        bright = 0.94 + 0.12 * torch.rand((), generator=generator, device=DEVICE)
        part.copy_(torch.where(part > 0, part * bright + noise, 0.0).clamp(0, 255).to(torch.uint8))


# --- the same answer --------------------------------------------------------------------------------------------------


def backend_parity() -> None:
    """Every function of a step on the device against float64 on the CPU; what cannot run is not used further on."""
    batch = Batch(sequences(2 if TINY else 8), DEVICE)
    with torch.no_grad():
        for _ in range(3):
            batch.tick()
        problem, state = batch.problem, batch._unpacked(batch._kept[:-1])
        at = evaluate(problem, state)
        system = normal_equations(problem, at)
        step = torch.randn(len(state), problem.layout.count, device=DEVICE) * 1e-2
        there = take_step(problem, state, step)
        right_problem = as_double(problem)
        right = evaluate_double(right_problem, as_double(state))
        exact = normal_equations(right_problem, right)
        onward = take_step(right_problem, as_double(state), step.double().cpu())
    size = torch.diagonal(exact.hessian, dim1=1, dim2=2).sqrt()
    hessian = (system.hessian.double().cpu() - exact.hessian) / size[:, :, None] / size[:, None]
    gradient = (system.gradient.double().cpu() - exact.gradient) / size
    rows = {
        "energy": relative(at.energy, right.energy),
        "sigma": relative(at.appearance.sigma, right.appearance.sigma),
        "iota": relative(at.appearance.iota, right.appearance.iota),
        "gram": relative(at.products.gram, right.products.gram),
        "slope": relative(at.products.slope, right.products.slope),
        "points after a step": relative(there.points, onward.points),
        "Bishop frames after a step": relative(there.bishop, onward.bishop),
        "H (diagonal 1)": float(hessian.abs().max()),
        "g (diagonal 1)": float(gradient.abs().max()),
    }
    results["against float64"] = rows
    say(f"{DEVICE} against float64: " + ", ".join(f"{name} {value:.1e}" for name, value in rows.items()))


def evaluate_double(problem, state):
    """`evaluate` with the reference renderer."""
    from unittest.mock import patch

    def slowly(blobs, images, objective):
        return products(blobs, images, objective, Reference())

    with patch.object(second_order, "products", slowly):
        return evaluate(problem, state)


def relative(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return float((actual.double().cpu() - expected).abs().max() / expected.abs().max())


def as_double(value):
    """A record, however deep, in float64 on the CPU."""
    if isinstance(value, torch.Tensor):
        return value.double().cpu() if value.is_floating_point() else value.cpu()
    if isinstance(value, FrameState) or hasattr(value, "__dataclass_fields__"):
        names = value.__dataclass_fields__
        return type(value)(**{name: as_double(getattr(value, name)) for name in names})
    return value


def parity() -> None:
    """Some clips on the device in one batch, against the same batch on the CPU, and against `follow` there."""
    some = begun[: 1 if TINY else 4]
    directions = [direction for beginning in some for direction in FrameSequence.directions(beginning)]
    found = run_batch(directions, DEVICE)[2]
    compare("the same batch on the CPU", directions, found, run_batch(directions, CPU)[2])
    compare("follow on the CPU, unjudged", directions, found, [one_by_one(direction) for direction in directions])


def one_by_one(direction: FrameSequence) -> FrameState:
    """`follow` without its judgement, which a bare batch has not either: no frame is lost, or searched for again."""
    clip = direction.beginning.clip
    least = dict.fromkeys(("explained", "least_explained"), -math.inf)
    most = ("unexplained", "most_unexplained", "unbacked", "most_unbacked", "outside", "jump")
    trusting = JudgingSettings(**least, **dict.fromkeys(most, math.inf))
    beginning = replace(direction.beginning, clip=replace(clip, settings=replace(clip.settings, judging=trusting)))
    return merged([item.fit.state for item in follow(beginning, direction.frames) if item.fit is not None])


def compare(name: str, directions: list[FrameSequence], found: list[Fit], others: list) -> None:
    midlines: list[float] = []
    errors = []
    for direction, outcome, other in zip(directions, found, others, strict=True):
        state = other.state if isinstance(other, Fit) else other
        clip = direction.beginning.clip
        one, two = (pixels_of(clip, direction.frames, states) for states in (state, outcome.state))
        midlines += [between(one[frame], two[frame]) for frame in range(len(one))]
        errors.append([midline_error(clip, direction.frames, states) for states in (state, outcome.state)])
    report(name, midlines)
    cpu, device = np.mean(errors, 0).tolist()
    results["parity"][name]["error_px"] = {"cpu": cpu, str(DEVICE): device}
    say(f"   distance to the truth: {cpu:.4f} px (CPU), {device:.4f} px ({DEVICE})")


def between(one: np.ndarray, two: np.ndarray) -> float:
    """Mean distance of two midlines over the views, px."""
    return float(np.mean([distance_to_polyline(a, b).mean() for a, b in zip(one, two, strict=True)]))


def report(name: str, midlines: list[float]) -> None:
    row = {"frames": len(midlines), "mean_px": float(np.mean(midlines)), "worst_px": float(np.max(midlines))}
    row["over_0.1_px"] = sum(value > 0.1 for value in midlines)
    results.setdefault("parity", {})[name] = row
    say(f"{DEVICE} against {name}, {len(midlines)} frames: midlines {row['mean_px']:.5f} px apart, worst frame "
        f"{row['worst_px']:.5f}, {row['over_0.1_px']} over 0.1")  # fmt: skip


# --- one recording ----------------------------------------------------------------------------------------------------


def both_directions(beginning: Beginning) -> list[list[int]]:
    first = beginning.frame
    return [list(range(first, len(beginning.clip))), list(range(first - 1, -1, -1))]


def recordings() -> None:
    """As `reconstruct` follows a recording on the device: both ways, misfits, statuses, projections and all."""
    rows = []
    for beginning in begun[: 1 if TINY else 3]:
        there = on_device(beginning)
        for run in ("first run", "again"):
            seconds, frames = timed(follow_directions(there, both_directions(there)))
            say(f"a recording, {run}: {len(frames)} frames in {seconds:.2f} s, {len(frames) / seconds:.0f} frames/s, "
                "loading and recording the graph included; " + statuses(frames.values()))  # fmt: skip
        slow, known = timed(item for direction in both_directions(beginning) for item in follow(beginning, direction))
        report("follow on the CPU, a recording's way", [
            between(known[frame].projection.numpy(), item.projection.numpy())
            for frame, item in frames.items() if item.projection is not None and known[frame].projection is not None
        ])  # fmt: skip
        same = sum(known[frame].status == item.status for frame, item in frames.items())
        rate = len(known) / slow
        say(f"   statuses the same in {same} of {len(frames)} frames; follow on this CPU {rate:.0f} frames/s")
        rows.append({"frames_per_s": len(frames) / seconds, "same_status": same, "frames": len(frames)})
    results["recordings"] = rows


def timed(frames: Iterable[Tracked]) -> tuple[float, dict[int, Tracked]]:
    wait()
    began = time.perf_counter()
    found = {item.frame: item for item in frames}
    wait()
    return time.perf_counter() - began, found


def statuses(frames: Iterable[Tracked]) -> str:
    counts: dict[str, int] = defaultdict(int)
    for item in frames:
        counts[item.status] += 1
    return ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))


def alone() -> None:
    """One slot: all frames of one clip after another, from its first; and two slots, as a recording has."""
    rows = []
    for beginning in begun[: 1 if TINY else 3]:
        directions = FrameSequence.directions(beginning)
        back = run_batch([directions[-1]], DEVICE)[2][0]
        found = beginning.clip.found
        one = [FrameSequence(beginning, found, back.state[[len(back.state) - 1]], directions[-1].frames[-1])]
        for name, chosen in (("one slot", one), ("two slots", directions)):
            seconds, ticks, outcomes = run_batch(chosen, DEVICE)
            frames = sum(len(sequence.frames) for sequence in chosen)
            iterations = float(torch.cat([outcome.iterations for outcome in outcomes]).float().mean())
            error = midline_error(chosen[0].beginning.clip, chosen[0].frames, outcomes[0].state)
            rows.append({"slots": len(chosen), "frames_per_s": frames / seconds, "tick_ms": 1e3 * seconds / ticks,
                         "ticks_per_frame": ticks / frames, "iterations": iterations, "midline_px": error})  # fmt: skip
            say(f"{name}: {frames / seconds:.0f} frames/s, {1e3 * seconds / ticks:.3f} ms a tick, "
                f"{iterations:.1f} iterations, {error:.3f} px")  # fmt: skip
    results["alone"] = rows


# --- many clips -------------------------------------------------------------------------------------------------------


@torch.no_grad()
def batches() -> None:
    for slots in SLOTS:
        began = time.perf_counter()
        batch = Batch(sequences(slots), DEVICE)
        varied(batch)
        run = record(batch) if DEVICE.type == "cuda" else batch.tick
        wait()
        prepared = time.perf_counter() - began
        began, ticks = time.perf_counter(), 0
        while batch.running():
            for _ in range(16 if DEVICE.type == "cuda" else 1):
                run()
                ticks += 1
        wait()
        describe(batch, time.perf_counter() - began, ticks, prepared)
        del batch, run
        if DEVICE.type == "cuda":
            torch.cuda.empty_cache()


def describe(batch: Batch, seconds: float, ticks: int, prepared: float) -> None:
    slots, frames = len(batch.sequences), sum(len(sequence.frames) for sequence in batch.sequences)
    found = batch.followed()
    some = np.linspace(0, slots - 1, min(slots, 16)).round().astype(int)
    error = np.mean([midline_error(batch.sequences[slot].beginning.clip, batch.sequences[slot].frames[::5],
                                   found[slot][list(range(0, len(batch.sequences[slot].frames), 5))].state)
                     for slot in some])  # fmt: skip
    finite = all(bool(torch.isfinite(item.state.points).all()) for item in found)
    evaluations = window_evaluations(batch) * ticks / seconds
    rate = system_operations(batch) * ticks / seconds
    row = {"slots": slots, "frames": frames, "seconds": seconds, "frames_per_s": frames / seconds,
           "tick_ms": 1e3 * seconds / ticks, "ticks": ticks, "prepared_s": prepared, "all_finite": finite,
           "iterations": float(torch.cat([item.iterations for item in found]).float().mean()),
           "midline_px": float(error), "minutes_for_440000": PAPER * seconds / frames / 60,
           "evaluations_per_s": evaluations, "system_flops": rate}  # fmt: skip
    if DEVICE.type == "cuda":
        row["peak_mb"] = torch.cuda.max_memory_allocated() / 1e6
    results.setdefault("batches", []).append(row)
    say(f"{slots:5d} slots: {frames} frames in {seconds:.2f} s, {frames / seconds:.0f} frames/s, "
        f"{1e3 * seconds / ticks:.2f} ms a tick, {row['iterations']:.1f} iterations, {error:.3f} px to the truth, "
        f"all finite: {finite}; 440,000 frames in {row['minutes_for_440000']:.2f} min; "
        f"prepared in {prepared:.1f} s")  # fmt: skip
    say(f"      {evaluations / 1e9:.1f} G evaluations/s ({evaluations / PROTOTYPE:.1%} of the prototype's, "
        f"{2 * evaluations / SPECIAL:.2%} of the special-function rate); normal equations {rate / 1e12:.2f} TFLOP/s "
        f"({rate / MATRIX:.2%} of the matrix rate)")  # fmt: skip


def window_evaluations(batch: Batch) -> float:
    """Pixels inside the blobs' reach of all slots, each of which a tick's products evaluate at least once."""
    problem = batch.problem
    at = evaluate(problem, batch._unpacked(batch._kept[:-1]))
    radius = reach(at.appearance.sigma, at.state.rho, problem.objective.cutoff)
    return float((2 * radius + 1).square().sum())


def system_operations(batch: Batch) -> float:
    """Of a tick's P' (G P, C) over all slots: a multiplication and an addition for each entry and row."""
    layout = batch.problem.layout
    vertices = batch.settings.curve.vertices
    return 2.0 * len(batch.sequences) * layout.shape_count * 3 * vertices * (layout.count + 1)


# --- where the time goes ----------------------------------------------------------------------------------------------


def milliseconds(run: Callable[[], object], repeats: int = 10) -> float:
    """Median time of a call; on a GPU that of a replay of its graph."""
    run()
    wait()
    if DEVICE.type == "cuda":
        graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            run()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            run()
        run = graph.replay
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        wait()
        taken.append(1e3 * (time.perf_counter() - began))
    return float(np.median(taken))


@torch.no_grad()
def parts() -> None:
    """What a tick is made of."""
    results["parts"] = []
    for slots in (1, 2) if TINY else (1, 256):
        batch = Batch(sequences(slots), DEVICE)
        for _ in range(4):
            batch.tick()
        problem = batch.problem
        at = evaluate(problem, batch._unpacked(batch._kept[:-1]))
        system = normal_equations(problem, at)
        step = problem.kernels.solve(system, batch.damping)
        nobody = torch.zeros_like(batch.waiting)
        measured = {
            "tick": milliseconds(batch.tick),
            "evaluate": milliseconds(lambda p=problem, a=at: evaluate(p, a.state)),
            "normal equations": milliseconds(lambda p=problem, a=at: normal_equations(p, a)),
            "solve": milliseconds(lambda p=problem, s=system, b=batch: p.kernels.solve(s, b.damping)),
            "step": milliseconds(lambda p=problem, a=at, s=step: take_step(p, a.state, s)),
            "write": milliseconds(lambda b=batch, n=nobody: b._write(n)),
            "next frame": milliseconds(lambda b=batch: b._renew()),
        }
        results["parts"].append({"slots": slots, **measured})
        say(f"{slots} slots, ms: " + ", ".join(f"{name} {value:.3f}" for name, value in measured.items()))


@torch.no_grad()
def kernels() -> None:
    """The kernels that a tick spends its time in."""
    from torch.profiler import ProfilerActivity, profile

    for slots in (1, 2) if TINY else (1, 256):
        batch = Batch(sequences(slots), DEVICE)
        for _ in range(6):
            batch.tick()
        wait()
        kinds = [ProfilerActivity.CUDA if DEVICE.type == "cuda" else ProfilerActivity.CPU]
        with profile(activities=kinds) as taken:
            for _ in range(5):
                batch.tick()
            wait()
        spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
        for event in taken.events():
            if event.device_type.name == DEVICE.type.upper():
                spent[event.name[:90]][0] += event.device_time if DEVICE.type == "cuda" else event.cpu_time
                spent[event.name[:90]][1] += 1
        total, count = sum(value[0] for value in spent.values()) / 5, sum(value[1] for value in spent.values()) / 5
        say(f"{slots} slots: {count:.0f} kernels a tick, {total:.0f} us together")
        most = sorted(spent.items(), key=lambda item: -item[1][0])[:24]
        for name, (time_us, calls) in most:
            print(f"   {time_us / 5:9.1f} us {calls / 5:6.1f} x {name}", flush=True)
        names = {name: [value[0] / 5, value[1] / 5] for name, value in most}
        results.setdefault("kernels", []).append({"slots": slots, "count": count, "us": total, "names": names})


def plain_torch() -> None:
    """One slot by plain torch: what the Triton backend saves."""
    if DEVICE.type != "cuda":
        return
    kept = second_order.select_backend
    second_order.select_backend = lambda *_: TorchBackend()
    try:
        seconds, ticks, _ = run_batch(FrameSequence.directions(begun[0])[:1], DEVICE)
        say(f"one slot by plain torch: {1e3 * seconds / ticks:.3f} ms a tick")
    finally:
        second_order.select_backend = kept


def command() -> None:
    """What `midline3d bench` says of tracking, from a beginning that lies on the device."""
    figures = bench.tracking_figures(on_device(begun[0]))
    say("bench: " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()))


def probe() -> None:
    """If the Triton backend does not run here, everything goes by plain torch: half a table is better than none."""
    try:
        onward = FrameSequence.directions(begun[0])[0]
        run_batch([replace(onward, frames=onward.frames[:2])], DEVICE)
    except Exception:
        traceback.print_exc()
        say("the Triton backend FAILED: all that follows goes by plain torch")
        second_order.select_backend = lambda *_: TorchBackend()


def main() -> None:
    for run in (clips, probe, backend_parity, alone, batches, recordings, parity, parts, kernels, plain_torch, command):
        section(run)
        save()
    print("=" * 100)
    print("\n".join(table), flush=True)


def save() -> None:
    paths = [Path(word) for word in sys.argv[1:] if not word.startswith("--")]
    if paths:
        paths[0].write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
