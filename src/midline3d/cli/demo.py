"""`midline3d demo`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from midline3d.cli.options import Device, Seed, SettingsFile, Where, chosen_device
from midline3d.cli.terminal import own_name, say_places, working
from midline3d.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

DEMO_FRAMES = 24
DEMO_LEAVES = (
    *("recording", "calibration", "truth", "cam0", "cam1", "cam2"),
    *("manifest", "segments", "kept", "crops", "midline", "body", "log", "lock"),
    *("export", "report", "kinematics", "kinematics-summary", "kinematics-runs", "kinematics-turns", "frame-[0-9]*"),
)
"""Names, less their suffixes, of what a demo writes, and of what other commands make of its result. Corrections are not
among them: somebody's work is nothing to be cleared away."""


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for everything that is made.")] = Path("demo"),
    seed: Seed = 0,
    device: Where = Device.auto,
    settings: SettingsFile = None,
) -> None:
    """The whole job with no input: simulate a swimming worm, reconstruct it, measure the error, draw a picture."""
    from midline3d.evaluate import evaluate_truth
    from midline3d.report import frame_figure, telling_frame
    from midline3d.settings import load_settings
    from midline3d.synth import Plan, simulate
    from midline3d.tracking.reconstruct import Job, reconstruct

    chosen, where = load_settings(settings), chosen_device(device)
    recording, result, picture = out / "recording", out / "result", out / "midline.png"
    _clear(recording, result)
    began = time.monotonic()
    with working("start the demo again") as tick:
        plan = Plan(preset="swim", frames=DEMO_FRAMES, seed=seed)
        simulate(recording, plan, lambda done, total: tick("simulating a swimming worm", done, total))
        midline = reconstruct(Job(recording, result, chosen, seed, where), tick)
        tick("drawing", 0, 0)
        evaluation = evaluate_truth(result, recording / "truth.nc")
        frame = telling_frame(result)
        if frame is not None:
            frame_figure(result, frame, picture)
    console = Console()
    console.print(_accuracy(evaluation.summary()))
    console.print(f"{DEMO_FRAMES} frames, all of it in {time.monotonic() - began:.0f} s.", highlight=False)
    say_places(
        console,
        {
            "the picture": picture,
            "the midlines": midline,
            "the recording": recording,
        },
    )
    console.print("Next, your own: describe it as that recording.toml does, then", highlight=False)
    console.print(f"  {own_name()} reconstruct YOUR_RECORDING -o OUT", highlight=False)


def _accuracy(figures: dict[str, Any]) -> Table:
    """The demo's table: what was reached, and what that means."""
    from rich.table import Table

    def text(key: str, unit: str) -> str:
        return "-" if figures[key] is None else f"{figures[key]:.2f} {unit}"

    table = Table(title="How far from the truth")
    for name, side in (("metric", "left"), ("reached", "right"), ("what it means", "left")):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    rows = [
        ("midline", text("midline_px", "px"), "mean distance of the midlines in the pictures; the worm is 8 px wide"),
        ("head", text("head_px", "px"), "distance of the heads; the worm is about 150 px long"),
        ("tail", text("tail_px", "px"), "distance of the tails, which are thin and faint"),
        ("3D shape", text("shape_percent", "%"), "of the body's length, after the best rigid motion"),
        ("length", text("length_percent", "%"), "by which the length is wrong"),
        ("lost", f"{figures['lost']} of {figures['frames']}", "frames without a midline"),
        ("swapped", f"{figures['swapped']} of {figures['frames']}", "frames with head and tail exchanged"),
    ]
    for row in rows:
        table.add_row(*row)
    return table


def _clear(*folders: Path) -> None:
    """Makes room for the demo: what an earlier one left there, whole or not, goes; anything else is an error."""
    import shutil
    from fnmatch import fnmatchcase

    def known(place: Path) -> bool:
        name = place.name.lstrip(".").split(".")[0]
        return any(fnmatchcase(name, leaf) for leaf in DEMO_LEAVES)

    for folder in folders:
        for place in folder.iterdir() if folder.is_dir() else ():
            if not known(place):
                raise InputError(f"{place} was not written by a demo; give another folder with --out")
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
