"""Recordings other than clean ones, end to end, and the paper's own optimiser: no benchmark, but nothing is broken."""

from pathlib import Path

import pytest

import midline3d

QUICK = {"pairs": 1, "apart": 2, "starts": 5}
"""A shorter search for the first frame than the default's: enough for recordings of some frames."""


def figures(folder: Path, preset: str, settings: dict, frames: int = 6) -> dict:
    """What a preset's recording of some frames comes to."""
    plan = midline3d.Plan(preset=preset, frames=frames, size=384, px_per_mm=115.0, seed=3, source="npy")
    recording = midline3d.simulate(folder / "recording", plan)
    midline3d.reconstruct(recording, folder / "out", device="cpu", settings=settings)
    return midline3d.evaluate_truth(folder / "out", recording / "truth.nc").summary()


@pytest.mark.parametrize("preset", ["swim", "blur", "dirt", "coil", "hard"])
def test_presets(preset: str, tmp_path: Path) -> None:
    """Limits are many times what the method reaches: a worm of 120 px, found and followed."""
    found = figures(tmp_path, preset, {"start": QUICK})
    assert found["frames"] == 6 and found["lost"] == 0
    assert found["midline_px"] < LIMITS[preset], found


LIMITS = {"swim": 1.0, "blur": 1.5, "dirt": 4.0, "coil": 2.0, "hard": 4.0}
"""px: mean distance of the midlines. Dirt can take a frame's end with it in so short a recording."""


def test_the_papers_optimiser(tmp_path: Path) -> None:
    """Adam over whole frames instead of second order."""
    settings = {"start": QUICK, "tracking": {"fitter": "adam"}, "adam": {"steps": 150}}
    found = figures(tmp_path, "clean", settings, frames=3)
    assert found["frames"] == 3 and found["lost"] == 0 and found["midline_px"] < 2.0, found
