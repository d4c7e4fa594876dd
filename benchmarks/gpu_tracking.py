"""Follows simulated clips on a GPU: the same midlines as on the CPU, one recording alone, and many clips at once.

    PYTHONPATH=src python3 benchmarks/gpu_tracking.py [results.json] [--tiny]

Clips are drawn and begun (first frame, body) on all CPU cores first; that is not timed. Every section stands alone: one
that fails prints its traceback and the others go on. --tiny runs the same script on the CPU; its timings mean nothing.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from midline3d.bench import drawn_clip, midline_error, pixels_of, run_batch
from midline3d.evaluate import distance_to_polyline
from midline3d.fitting.second_order import evaluate, moved, normal_equations, solve
from midline3d.rendering import reach
from midline3d.settings import Settings
from midline3d.state import FrameState, merged
from midline3d.synth.scene import Plan
from midline3d.tracking.batch import Batch, Reel, record
from midline3d.tracking.begin import Beginning, begin
from midline3d.tracking.follow import follow

TINY = "--tiny" in sys.argv
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CLIPS, FRAMES = (2, 6) if TINY else (16, 80)
SIZES = (2, 4) if TINY else (64, 256, 512, 1024)
PAPER = 440_000
"""Frames of the paper's data set."""
SPECIAL = 132 * 4 * 4 * 1.98e9
"""Exponentials and the like that the chip takes at most in a second: 16 a cycle on each of 132 multiprocessors."""

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


# --- the work ---------------------------------------------------------------------------------------------------------


def clip_of(seed: int) -> bytes | str:
    """One clip drawn and begun, on one core."""
    torch.set_num_threads(1)
    settings = Settings()
    if TINY:
        settings = replace(settings, start=replace(settings.start, starts=4, steps=160, warm_up=100))
    try:
        clip = drawn_clip(Plan("swim", FRAMES, size=512, seed=seed), settings, torch.device("cpu"))
        return pickle.dumps(begin(clip, torch.Generator().manual_seed(seed), lambda doing: None))
    except Exception as fault:
        return f"clip {seed}: {type(fault).__name__}: {fault}"


def clips() -> None:
    cores = 2 if TINY else os.cpu_count() or 1
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        for outcome in pool.imap(clip_of, range(CLIPS), chunksize=1):
            if isinstance(outcome, bytes):
                begun.append(pickle.loads(outcome))
            else:
                print(outcome, flush=True)
    say(f"{len(begun)} of {CLIPS} clips drawn and begun, {FRAMES} frames each, three views of 200 px, 128 vertices")


def reels(slots: int) -> list[Reel]:
    """Both ways of every clip, over and over until the slots are full; every copy gets its own noise."""
    ways = [way for beginning in begun for way in Reel.ways(beginning)]
    ways = sorted(ways, key=lambda way: -len(way.frames))
    return [ways[slot % len(ways)] for slot in range(slots)]


def noisy(batch: Batch, distinct: int) -> None:
    """Grey levels of -2 to 2 added to what is seen of the worm and its noise in every copy but the first."""
    generator = torch.Generator(DEVICE).manual_seed(1)
    for slot in range(distinct, len(batch.reels)):
        first, last = int(batch.film.first[slot]), int(batch.film.last[slot])
        part = batch.film.images[first : last + 1]
        noise = torch.randint(-2, 3, part.shape, generator=generator, device=DEVICE, dtype=torch.int16)
        part.copy_(torch.where(part > 0, part + noise, 0).clamp(0, 255).to(torch.uint8))


# --- sections ---------------------------------------------------------------------------------------------------------


def parity() -> None:
    """The first clips on the CPU, frame after frame as `reconstruct` does, and on the device in one batch."""
    ways = [way for beginning in begun[: 2 if TINY else 4] for way in Reel.ways(beginning)]
    _, _, found = run_batch(ways, DEVICE)
    same = run_batch(ways, torch.device("cpu"))[2]
    for name, others in (("the same batch on the CPU", same), ("reconstruct's own way on the CPU", None)):
        vertices, midlines, errors = [], [], []
        for place, (way, outcome) in enumerate(zip(ways, found, strict=True)):
            frames, state = (way.frames, others[place].state) if others else one_by_one(way)
            places = [way.frames.index(frame) for frame in frames]
            clip = way.beginning.clip
            one, other = (pixels_of(clip, frames, states) for states in (state, outcome.state[places]))
            vertices += np.linalg.norm(one - other, axis=-1).mean((1, 2)).tolist()
            midlines += [np.mean([distance_to_polyline(one[frame, view], other[frame, view]).mean()
                                  for view in range(one.shape[1])]) for frame in range(len(one))]  # fmt: skip
            errors.append([midline_error(clip, frames, states) for states in (state, outcome.state[places])])
        cpu, gpu = np.mean(errors, 0).tolist()
        row = {"frames": len(vertices), "vertices_px": float(np.mean(vertices)), "vertices_worst_px": max(vertices),
               "midline_px": float(np.mean(midlines)), "midline_worst_px": float(max(midlines)),
               "midlines_over_0.1_px": sum(value > 0.1 for value in midlines),
               "error_px": {"cpu": cpu, str(DEVICE): gpu}}  # fmt: skip
        results.setdefault("parity", {})[name] = row
        say(f"{DEVICE} against {name}, {len(vertices)} frames: midlines {np.mean(midlines):.4f} px apart, worst frame "
            f"{max(midlines):.4f}, {row['midlines_over_0.1_px']} over 0.1; vertices {np.mean(vertices):.4f}, "
            f"worst {max(vertices):.3f}; to the truth {cpu:.3f} (CPU), {gpu:.3f} px")  # fmt: skip


def one_by_one(way: Reel) -> tuple[list[int], FrameState]:
    tracked = [item for item in follow(way.beginning, way.frames) if item.fit is not None]
    return [item.frame for item in tracked], merged([item.fit.state for item in tracked if item.fit is not None])


def alone(fused: bool = False) -> None:
    """One slot: all frames of one clip after another, from the first."""
    rates = []
    for beginning in begun[: 1 if TINY or fused else 3]:
        ways = Reel.ways(beginning)
        back = run_batch([ways[-1]], DEVICE)[2][0]
        found = beginning.clip.found
        reel = Reel(beginning, found, back.state[[len(back.state) - 1]], ways[-1].frames[-1])
        seconds, ticks, (outcome,) = run_batch([reel], DEVICE, fused)
        rate = len(found) / seconds
        rates.append({"frames_per_s": rate, "tick_ms": 1e3 * seconds / ticks, "ticks_per_frame": ticks / len(found),
                      "iterations": float(outcome.iterations.float().mean()),
                      "midline_px": midline_error(beginning.clip, found, outcome.state)})  # fmt: skip
        told = "{frames_per_s:.0f} frames/s, {tick_ms:.3f} ms a tick, {iterations:.1f} iterations, {midline_px:.3f} px"
        say(f"alone{', fused' * fused}: " + told.format(**rates[-1]))
    results["alone, fused" if fused else "alone"] = rates


def alone_fused() -> None:
    alone(True)


def batches(sizes: tuple[int, ...] = SIZES, fused: bool = False) -> None:
    distinct = sum(len(Reel.ways(beginning)) for beginning in begun)
    for slots in sizes:
        chosen = reels(slots)
        with torch.no_grad():
            batch = Batch(chosen, DEVICE)
            noisy(batch, distinct)
            run = record(batch, fused) if DEVICE.type == "cuda" else batch.tick
            wait()
            began, ticks = time.perf_counter(), 0
            while batch.running():
                for _ in range(16 if DEVICE.type == "cuda" else 1):
                    run()
                    ticks += 1
            wait()
        seconds = time.perf_counter() - began
        frames = sum(len(reel.frames) for reel in chosen)
        found = batch.followed()
        error = np.mean([midline_error(reel.beginning.clip, reel.frames, item.state)
                         for reel, item in list(zip(chosen, found, strict=True))[-4:]])  # fmt: skip
        evaluations = window_evaluations(batch) * ticks / seconds
        row = {"slots": slots, "fused": fused, "frames": frames, "seconds": seconds, "frames_per_s": frames / seconds,
               "tick_ms": 1e3 * seconds / ticks, "ticks": ticks,
               "iterations": float(np.mean([item.iterations.float().mean() for item in found])),
               "midline_px_of_the_last_4": float(error), "minutes_for_440000": PAPER * seconds / frames / 60,
               "evaluations_per_s": evaluations}  # fmt: skip
        if DEVICE.type == "cuda":
            row["peak_mb"] = torch.cuda.max_memory_allocated() / 1e6
        results.setdefault("batches", []).append(row)
        say(f"{slots:5d} slots{', fused' * fused}: {frames} frames in {seconds:.2f} s, "
            f"{frames / seconds:.0f} frames/s, {1e3 * seconds / ticks:.2f} ms a tick, "
            f"{row['iterations']:.1f} iterations, {error:.3f} px; "
            f"440,000 frames in {row['minutes_for_440000']:.2f} min; {evaluations / 1e9:.0f} G evaluations/s "
            f"({2 * evaluations / SPECIAL:.1%} of the special-function rate)")  # fmt: skip
        del batch, run
        if DEVICE.type == "cuda":
            torch.cuda.empty_cache()


def batches_fused() -> None:
    batches((2,) if TINY else (512,), True)


def window_evaluations(batch: Batch) -> float:
    """Pixels inside the blobs' reach of all slots, each of which a tick's products evaluate at least once."""
    at, objective = batch.at, batch.problem.objective
    radius = reach(at.look.sigma, at.state.rho, objective.cutoff)
    return float((2 * radius + 1).square().sum())


def wait() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


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
        batch = Batch(reels(slots), DEVICE)
        for _ in range(4):
            batch.tick()
        problem, at = batch.problem, batch.at
        system = normal_equations(problem, at)
        step = solve(system, batch.damping)
        nobody = torch.zeros_like(batch.waiting)
        timed = {
            "tick": milliseconds(batch.tick),
            "evaluate": milliseconds(lambda p=problem, a=at: evaluate(p, a.state)),
            "normal equations": milliseconds(lambda p=problem, a=at: normal_equations(p, a)),
            "solve": milliseconds(lambda s=system, b=batch: solve(s, b.damping)),
            "step": milliseconds(lambda p=problem, a=at, s=step: moved(p, a.state, s)),
            "write": milliseconds(lambda b=batch, n=nobody: b._write(n)),
            "next frame": milliseconds(lambda b=batch: b._renew()),
        }
        results["parts"].append({"slots": slots, **timed})
        say(f"{slots} slots, ms: " + ", ".join(f"{name} {value:.3f}" for name, value in timed.items()))


@torch.no_grad()
def kernels() -> None:
    """The kernels that a tick spends its time in."""
    from torch.profiler import ProfilerActivity, profile

    for slots in (1, 2) if TINY else (1, 256):
        batch = Batch(reels(slots), DEVICE)
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
                spent[event.name[:70]][0] += event.device_time if DEVICE.type == "cuda" else event.cpu_time
                spent[event.name[:70]][1] += 1
        total, count = sum(value[0] for value in spent.values()) / 5, sum(value[1] for value in spent.values()) / 5
        say(f"{slots} slots: {count:.0f} kernels a tick, {total:.0f} us together")
        for name, (time_us, calls) in sorted(spent.items(), key=lambda item: -item[1][0])[:14]:
            print(f"   {time_us / 5:9.1f} us {calls / 5:6.1f} x {name}")
        most = sorted(spent.items(), key=lambda item: -item[1][0])[:40]
        names = {name: value[0] / 5 for name, value in most}
        results.setdefault("kernels", []).append({"slots": slots, "count": count, "us": total, "names": names})


def main() -> None:
    for run in (clips, alone, batches, parity, parts, kernels, alone_fused, batches_fused):
        section(run)
    print("=" * 100)
    print("\n".join(table))
    paths = [Path(word) for word in sys.argv[1:] if not word.startswith("--")]
    if paths:
        paths[0].write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
