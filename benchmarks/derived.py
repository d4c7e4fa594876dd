"""Whether the standard deviations of the kinematics hold, over many simulated recordings: the table of docs/trust.md.

    PYTHONPATH=src python3 benchmarks/derived.py FOLDER [FRAMES] PRESET:SEED:CAMERAS ...

Every recording that is not in the folder yet is simulated there (512 px, 60 frames) and reconstructed into its name
and -out beside it. Frames that are more than 2 px off in any view, or 8 px at an end, are wrong and left out: that a
midline is wrong is what `status` and `doubt` speak of.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import xarray as xr
from rich.console import Console

from midline3d.evaluate import evaluate_truth
from midline3d.evaluate.derived import derived_z, held, held_table
from midline3d.population.score import WRONG_END, WRONG_MIDLINE
from midline3d.store import open_result


def made(folder: Path, frames: int, word: str) -> Path:
    """The recording of a word, simulated and reconstructed where it is not there."""
    preset, seed, cameras = word.split(":")
    recording = folder / f"{preset}-{seed}-{cameras}-{frames}"
    command = [sys.executable, "-m", "midline3d"]
    if not (recording / "truth.nc").is_file():
        chosen = ["--preset", preset, "--seed", seed, "--cameras", cameras, "--frames", str(frames), "--source", "npy"]
        subprocess.run([*command, "simulate", str(recording), *chosen], check=True)
    if not Path(f"{recording}-out", "midline.nc").is_file():
        subprocess.run([*command, "reconstruct", str(recording), "-o", f"{recording}-out"], check=True)
    return recording


def without_wrong(recording: Path) -> tuple[xr.Dataset, int]:
    """The result with its wrong frames as gaps, and how many of those that are called ok are wrong."""
    result = open_result(f"{recording}-out").load()
    seen = evaluate_truth(result, recording / "truth.nc")
    wrong = (seen.midline > WRONG_MIDLINE).any(-1) | (seen.head > WRONG_END).any(-1) | (seen.tail > WRONG_END).any(-1)
    rows = np.isin(result.frame.values, seen.frames[wrong])
    fooled = int((rows & (result.status.values.astype(str) == "ok")).sum())
    result["position"] = result.position.where(xr.DataArray(~rows, dims="time"))
    return result, fooled


def main(folder: Path, frames: int, words: list[str]) -> None:
    found, wrong = [], 0
    for word in words:
        recording = made(folder, frames, word)
        result, fooled = without_wrong(recording)
        wrong += fooled
        found.append(derived_z(result, recording / "truth.nc"))
    console = Console(width=120)
    console.print(held_table(held(found), len(found)))
    console.print(f"{wrong} wrong frames that are called ok were left out")


if __name__ == "__main__":
    given = sys.argv[2:]
    count = int(given.pop(0)) if given and given[0].isdigit() else 60
    main(Path(sys.argv[1]), count, given)
