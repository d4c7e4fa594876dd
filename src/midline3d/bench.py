"""How fast the method is on this machine: the reference and the fast path in one run, on the same simulated work."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from midline3d import cameras as rig
from midline3d import curve
from midline3d.appearance import PaperTaper
from midline3d.calibration import Calibration, make_camera
from midline3d.evaluate import distance_to_polyline
from midline3d.files import aside
from midline3d.fitting.adam import descend
from midline3d.fitting.body import average_body
from midline3d.fitting.objective import Descent
from midline3d.fitting.second_order import DAMPING, Fit, Problem, evaluate, fit, normal_equations, take_step
from midline3d.fitting.start import random_starts
from midline3d.fitting.views import Views
from midline3d.kernels import spline_basis
from midline3d.recording.crops import Log, Prepared, cut, origins
from midline3d.recording.pinholes import Pinholes
from midline3d.rendering import Objective, Reference
from midline3d.settings import Settings
from midline3d.state import FrameState
from midline3d.synth.dirt import shifted
from midline3d.synth.scene import BORDER, Plan, Scene, make_scene
from midline3d.tracking.batch import Batch, FrameSequence, record
from midline3d.tracking.begin import Beginning, begin, searched, size_of, start_pairs
from midline3d.tracking.clip import Clip, bounds_of
from midline3d.tracking.directions import Direction, track_directions

if TYPE_CHECKING:
    from rich.table import Table

Array = NDArray[np.float64]
Report = Callable[[str], None]

WINDOW = 200
"""px."""
SIGMA = 5.0
"""px, of the blobs in a timed step."""
VERTICES = (32, 64, 128, 256)
WINDOWS = (200, 300, 400)
USUAL_STEPS = 6
"""Of a tracked frame, its choice of a start and the evidence counted in."""


class Drawn(Prepared):
    """Crops of a simulated recording, drawn straight into memory: no video, no background to guess, no worm to find."""

    def __init__(self, scene: Scene, window: int) -> None:
        given = [make_camera("simulated", **camera.describe()) for camera in scene.calibration]
        self.cameras = Calibration(tuple(given)).to_cameras()
        frames, count = scene.plan.frames, len(scene.views)
        self.start, self.window, self.scale, self.side = 0, window, scene.plan.px_per_mm, "dark"
        self.gain, self.sizes = np.ones(count), np.full((count, 2), scene.plan.size)
        self.log = Log.blank(frames, count)
        self.log.location[:] = 0
        self._images = np.zeros((frames, count, window, window), np.uint8)
        self.truth = true_pixels(scene)
        middle = torch.from_numpy(self.truth[:, :, ::4].mean(2))
        self.log.centre[:] = rig.triangulate(self.cameras, middle).numpy()
        for frame in range(frames):
            self.log.origin[frame] = origins(Pinholes.of(self.cameras), self.log.centre[frame], window)
            for view in range(count):
                signal = _background(scene, frame, view) - scene.picture(frame, view)
                seen = np.clip(np.rint(signal), 0, 255).astype(np.uint8)
                self._images[frame, view] = cut(seen, self.log.origin[frame, view].astype(np.int64), window)
        edge = self._images[:, :, :8].astype(np.float32)
        self.noise = np.maximum(np.quantile(edge, 0.841, axis=(0, 2, 3)) - np.median(edge, (0, 2, 3)), 0.3)
        quiet = edge < 3 * self.noise[:, None, None]
        self.offset = edge.mean((0, 2, 3), where=quiet)


def _background(scene: Scene, frame: int, view: int) -> NDArray[np.float32]:
    shown = scene.views[view]
    density = shifted(shown.backdrop, scene.plan.size, BORDER, shown.vibration[frame])
    return shown.sensor.light * np.exp(-density)


def true_pixels(scene: Scene) -> Array:
    """(frame, camera, node, 2) px: the true midlines in the pictures, shaking included."""
    return np.stack([view.camera.project(scene.midlines) + view.vibration[:, None] for view in scene.views], 1)


def drawn_clip(plan: Plan, settings: Settings, device: torch.device, window: int = WINDOW) -> Clip:
    return Clip.of(Drawn(make_scene(plan), window), settings, device)


def midline_error(clip: Clip, frames: list[int], state: FrameState) -> float:
    """Mean distance of the midlines to the true ones in the pictures, px."""
    assert isinstance(clip.prepared, Drawn)
    seen = pixels_of(clip, frames, state)
    true = clip.prepared.truth[frames]
    away = [
        (distance_to_polyline(seen[place], true[place]).mean() + distance_to_polyline(true[place], seen[place]).mean())
        / 2
        for place in np.ndindex(seen.shape[:2])
    ]
    return float(np.mean(away))


def pixels_of(clip: Clip, frames: list[int], state: FrameState) -> Array:
    """(frame, camera, vertex, 2) px in the full pictures."""
    return rig.project(clip.cameras, clip.world(state, frames), state.shift.double().cpu()).numpy()


@dataclass(frozen=True)
class Work:
    """One frame to step and iterate on, at any number of vertices and size of the crops."""

    views: Views
    """The body's middle has the brightness 1."""
    bright: Views
    """The body's middle has the brightness `Clip.contrast`."""
    state: FrameState
    beginning: Beginning
    settings: Settings


def make_work(beginning: Beginning, vertices: int, window: int) -> Work:
    """The beginning's own frame; larger crops are padded."""
    clip, frame, state = beginning.clip, beginning.frame, beginning.state
    pad = (window - clip.prepared.window) // 2
    bend = torch.nn.functional.interpolate(state.curvature.mT, vertices, mode="linear", align_corners=True).mT
    middle = torch.full((1,), vertices // 2, device=clip.device)
    old = state.vertices // 2
    made = curve.integrate(state.points[:, old], state.bishop[:, old], bend.contiguous(), state.length, middle)
    state = replace(state, points=made.points, bishop=made.bishop, curvature=bend.contiguous())

    def padded(views: Views) -> Views:
        images = torch.nn.functional.pad(views.images, (pad, pad, pad, pad))
        return Views(images, replace(views.cameras, centre=views.cameras.centre + pad))

    settings = replace(clip.settings, curve=replace(clip.settings.curve, vertices=vertices))
    views, bright = padded(clip.plain_views([frame])), padded(clip.views([frame]))
    return Work(views, bright, state, beginning, settings)


def step_seconds(work: Work, steps: int, reference: bool = False) -> float:
    """A step of Adam, gradient included, with blobs of 5 px: the fast way, or by the dense renderer and plain torch."""
    settings, clip = work.settings, work.beginning.clip
    adam = replace(settings.adam, steps=steps, theta=0.0, settled=0.0, patience=10**6)
    taper = PaperTaper(settings.curve.vertices, adam.sigma_min, adam.iota_min)
    renderer = Reference() if reference else None
    bounds, cutoff = clip.plain_bounds(), settings.pixels.cutoff
    descent = Descent(work.views, taper, settings.losses, bounds, adam, cutoff, renderer=renderer)
    sigma = torch.full_like(work.state.sigma, SIGMA)
    state = replace(work.state, sigma=sigma, iota=work.state.iota / clip.contrast)
    return _timed(lambda: descend(descent, state, torch.Generator().manual_seed(0)), clip.device, runs=3) / steps


@torch.no_grad()
def iteration_seconds(work: Work, count: int) -> float:
    """One second-order iteration: normal equations, solution, step, and what the images say to it."""
    settings, clip, start = work.settings, work.beginning.clip, work.state
    dtype, device = start.points.dtype, clip.device
    problem = Problem(
        views=work.bright,
        taper=replace(work.beginning.taper, vertices=start.vertices),
        basis=spline_basis(start.vertices, settings.curve.nodes, dtype, device),
        objective=Objective(settings.pixels.cutoff, robust=settings.pixels.robust),
        weights=settings.second_order,
        bounds=clip.bounds(),
        anchor=start,
    )
    at, damping = evaluate(problem, start), torch.full((1,), DAMPING.first, device=device)

    def iterate() -> None:
        step = problem.kernels.solve(normal_equations(problem, at), damping)
        evaluate(problem, take_step(problem, at.state, step))

    return statistics.median(_timed(iterate, device) for _ in range(count))


def bench(device: str, report: Report, frames: int = 40, compare: bool = False) -> dict[str, Any]:
    """All figures, ready for JSON. `compare`: the reference at every number of vertices and size of crops too."""
    where, settings = torch.device(device), Settings()
    report("drawing a swimming worm")
    clip = drawn_clip(Plan("swim", frames), settings, where)
    generator = torch.Generator().manual_seed(0)
    report("searching for the worm in one frame")
    (place, *_), *_ = next(start_pairs(clip))
    first = _timed(lambda: searched(clip, [place], size_of(clip), generator), where, warm=False)
    beginning = begin(clip, torch.Generator().manual_seed(0), lambda doing, *_: report(doing))
    report("following the worm")
    figures = tracking_figures(beginning)
    report("the same in batches")
    sizes = (1, 16, 64, 256) if device == "cuda" else (1, 8)
    figures["batch"] = [_batch_figures(beginning, size, where, frames if device == "cuda" else 8) for size in sizes]
    figures |= {"first_frame_s": first, "peak_mb": peak_megabytes(where)}
    figures["start"] = {name: getattr(settings.start, name) for name in ("starts", "kept", "pairs")}
    report("timing steps and iterations")
    work = make_work(beginning, 128, WINDOW)
    own = step_seconds(work, 20)
    figures.setdefault("iteration_ms", 1e3 * iteration_seconds(work, 20))
    report("the same step by the reference")
    reference = step_seconds(work, 1 if device == "cpu" else 3, reference=True)
    report("timing other numbers of vertices and sizes of crops")
    figures["sweeps"] = {
        "vertices": [_sweep(beginning, count, WINDOW, compare) for count in VERTICES],
        "window": [_sweep(beginning, 128, window, compare) for window in WINDOWS],
    }
    figures["step_ms"] = {"reference": 1e3 * reference, device: 1e3 * own}
    return figures | {"machine": machine(where)}


def frame_seconds(settings: Settings, cameras: rig.Cameras, centre: Array, window: int) -> float:
    """About what a tracked frame takes on this machine's CPU: the steps of a fit to crops of this size."""
    crop = torch.from_numpy(origins(Pinholes.of(cameras), centre, window)).double()[None]
    local = cameras.local(torch.from_numpy(centre)[None], crop).to(torch.float32)
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(1, cameras.count, window, window, generator=generator)
    start = random_starts(Views(images, local), 1.0, settings.body.sharp, settings.curve.vertices, generator)
    body = average_body(settings.body, start.length[0])
    taper = body.profile(settings.curve.vertices, rig.scale(local, start.points)[0], settings.pixels.floor)
    problem = Problem(
        views=Views(images, local),
        taper=taper,
        basis=spline_basis(settings.curve.vertices, settings.curve.nodes, torch.float32, "cpu"),
        objective=Objective(settings.pixels.cutoff, robust=settings.pixels.robust),
        weights=replace(settings.second_order, settled=0.0),
        bounds=bounds_of(settings.curve, torch.ones(cameras.count)),
        anchor=start,
    )
    return _timed(lambda: fit(problem, start, USUAL_STEPS), torch.device("cpu"))


def tracking_figures(beginning: Beginning) -> dict[str, Any]:
    """The clip followed both ways from its beginning, one frame after the other."""
    clip, first = beginning.clip, beginning.frame
    directions = [list(range(first, len(clip))), list(range(first - 1, -1, -1))]
    found: dict[int, FrameState] = {}
    steps: list[float] = []
    began = time.perf_counter()
    for _, tracked in track_directions([Direction.of(beginning, direction) for direction in directions]):
        if tracked.fit is not None:
            found[tracked.frame] = tracked.fit.state
            steps.append(float(tracked.fit.iterations[0]))
    taken = time.perf_counter() - began
    errors = [midline_error(clip, [frame], state) for frame, state in found.items()]
    return {
        "frames": len(clip),
        "lost": len(clip) - len(found),
        "midline_px": float(np.mean(errors)),
        "steps_per_frame": float(np.mean(steps)),
        "frame_s": taken / len(clip),
        "frames_per_s": len(clip) / taken,
    }


def _batch_figures(beginning: Beginning, size: int, device: torch.device, frames: int) -> dict[str, Any]:
    """The longer way of the clip in so many slots at once."""
    sequence = max(FrameSequence.directions(beginning), key=lambda direction: len(direction.frames))
    sequences = [replace(sequence, frames=sequence.frames[:frames])] * size
    seconds, ticks, _ = run_batch(sequences, device)
    done = sum(len(sequence.frames) for sequence in sequences)
    return {"size": size, "frames_per_s": done / seconds, "tick_ms": 1e3 * seconds / ticks}


@torch.no_grad()
def run_batch(sequences: list[FrameSequence], device: torch.device) -> tuple[float, int, list[Fit]]:
    """Seconds and ticks from the first tick after the graph's recording to the last, and what came out.

    Putting images onto the device and recording the graph are left out: both are done once for any number of frames.
    """
    batch = Batch(sequences, device)
    run = record(batch) if device.type == "cuda" else batch.tick
    _wait(device)
    began, ticks = time.perf_counter(), 0
    while batch.running():
        for _ in range(16 if device.type == "cuda" else 1):
            run()
            ticks += 1
    _wait(device)
    return time.perf_counter() - began, ticks, batch.followed()


def _sweep(beginning: Beginning, vertices: int, window: int, compare: bool) -> dict[str, float]:
    work = make_work(beginning, vertices, window)
    figures = {
        "vertices": vertices,
        "window": window,
        "step_ms": 1e3 * step_seconds(work, 10),
        "iteration_ms": 1e3 * iteration_seconds(work, 10),
    }
    return figures | ({"reference_ms": 1e3 * step_seconds(work, 1, reference=True)} if compare else {})


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _timed(run: Callable[[], object], device: torch.device, warm: bool = True, runs: int = 1) -> float:
    """Seconds of the best of some runs: what else is going on only ever adds."""
    if warm:
        run()
    taken = []
    for _ in range(runs):
        _wait(device)
        began = time.perf_counter()
        run()
        _wait(device)
        taken.append(time.perf_counter() - began)
    return min(taken)


def peak_megabytes(device: torch.device) -> float | None:
    """Most memory in use so far: the process's on the CPU (where the system tells it), torch's on a GPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    try:
        import resource  # not on Patches
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def machine(device: torch.device) -> dict[str, Any]:
    described: dict[str, Any] = {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    if device.type == "cuda":
        described["gpu"] = torch.cuda.get_device_name(device)
    return described


def table(figures: dict[str, Any]) -> Table:
    """The figures for people."""
    from rich.table import Table

    made = Table(title=f"{figures['frames']} simulated frames, three views of {WINDOW} px")
    made.add_column("what")
    made.add_column("reached", justify="right")
    own = next(name for name in figures["step_ms"] if name != "reference")
    step, reference, start = figures["step_ms"][own], figures["step_ms"]["reference"], figures["start"]
    rows = [
        ("frames a second", f"{figures['frames_per_s']:.1f}"),
        ("a frame", f"{figures['frame_s']:.4f} s"),
        ("iterations a frame", f"{figures['steps_per_frame']:.1f}"),
        ("an iteration", f"{figures['iteration_ms']:.2f} ms"),
        ("the first frame", f"{figures['first_frame_s']:.1f} s"),
        ("its random starts, and those kept", f"{start['starts']}, {start['kept']}"),
        ("places that a recording is begun from, two frames each (start.pairs)", f"{start['pairs']}"),
        ("a step of Adam", f"{step:.2f} ms"),
        ("the same by the reference", f"{reference:.0f} ms ({reference / step:.0f} times)"),
        ("memory at most", "not known" if figures["peak_mb"] is None else f"{figures['peak_mb']:.0f} MB"),
        ("distance to the true midline", f"{figures['midline_px']:.2f} px, {figures['lost']} lost"),
    ]
    rows += [
        (f"frames a second, {item['size']} clips at once", f"{item['frames_per_s']:.0f}") for item in figures["batch"]
    ]
    for kind, parts in figures["sweeps"].items():
        for part in parts:
            what = f"{kind} {part[kind]}: step, iteration"
            rows.append((what, f"{part['step_ms']:.2f}, {part['iteration_ms']:.2f} ms"))
    for row in rows:
        made.add_row(*row)
    return made


def draw(figures: dict[str, Any], path: Path) -> None:
    """A picture of a step's time against the number of vertices and the size of the crops; `bench` with `compare`."""
    from matplotlib.figure import Figure

    own = next(name for name in figures["step_ms"] if name != "reference")
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    labels = {"vertices": "vertices N, crops of 200 px", "window": "crop w, px, 128 vertices"}
    for side, (kind, label) in zip(axes, labels.items(), strict=True):
        parts = figures["sweeps"][kind]
        for name, key, colour in (("reference", "reference_ms", "0.5"), (own, "step_ms", "tab:blue")):
            times = [part[key] for part in parts]
            side.plot([part[kind] for part in parts], times, "o-", color=colour, label=name)
        side.set(xlabel=label, yscale="log", xticks=[part[kind] for part in parts])
        side.grid(alpha=0.3)
    axes[0].set_ylabel("one step of Adam, ms")
    axes[0].legend()
    with aside(path) as part:
        figure.savefig(part, dpi=150)
