"""Slots that follow their clips at their own pace find what following frame after frame finds."""

import copy
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from midline3d import bench
from midline3d.bench import (
    draw,
    drawn_clip,
    frame_seconds,
    iteration_seconds,
    make_work,
    midline_error,
    pixels_of,
    run_batch,
    step_seconds,
    table,
)
from midline3d.settings import Settings
from midline3d.state import merged
from midline3d.synth.scene import Plan
from midline3d.tracking.batch import FrameSequence
from midline3d.tracking.begin import Beginning, begin
from midline3d.tracking.directions import Direction, follow_directions, track_directions
from midline3d.tracking.follow import Tracked, follow

CPU = torch.device("cpu")
FRAMES = 12


def quick_settings() -> Settings:
    settings = Settings()
    return replace(
        settings,
        start=replace(settings.start, pairs=1, apart=2, starts=4),
        body=replace(settings.body, span=6, frames=4, iterations=10),
    )


@pytest.fixture(scope="module")
def beginning() -> Beginning:
    clip = drawn_clip(Plan("clean", FRAMES, size=320, px_per_mm=90.0, seed=0), quick_settings(), CPU, window=140)
    return begin(clip, torch.Generator().manual_seed(0), lambda *_: None)


def test_slots_find_what_following_finds(beginning: Beginning) -> None:
    clip, directions = beginning.clip, FrameSequence.directions(beginning)
    assert sorted(frame for direction in directions for frame in direction.frames) == list(range(FRAMES))
    for direction, found in zip(directions, run_batch(directions, CPU)[2], strict=True):
        tracked = [item.fit for item in follow(beginning, direction.frames)]
        one_by_one = merged([fit.state for fit in tracked if fit is not None])
        assert len(one_by_one) == len(direction.frames)
        apart = pixels_of(clip, direction.frames, found.state) - pixels_of(clip, direction.frames, one_by_one)
        assert np.linalg.norm(apart, axis=-1).max() < 0.1
        assert found.iterations.tolist() == [int(fit.iterations[0]) for fit in tracked if fit is not None]
        assert midline_error(clip, direction.frames, found.state) < 0.5


def test_a_slot_does_not_mind_its_neighbours(beginning: Beginning) -> None:
    """Neither those that finish earlier nor those that wait for a place."""
    clip = beginning.clip
    direction = max(FrameSequence.directions(beginning), key=lambda direction: len(direction.frames))
    short = replace(direction, frames=direction.frames[:1])
    (alone,) = run_batch([direction], CPU)[2]
    alike = run_batch([direction] * 5, CPU)[2]
    among = run_batch([short, direction, direction, direction, short], CPU)[2]
    for found, same in zip(among, alike, strict=True):
        done = len(found.iterations)
        assert torch.allclose(found.state.points, same.state.points[:done], atol=1e-6)
        assert torch.equal(found.iterations, same.iterations[:done])
        # A batch of one rounds otherwise than a larger one, how much hangs on the processor, and iterations widen it.
        frames = direction.frames[:done]
        apart = pixels_of(clip, frames, found.state) - pixels_of(clip, frames, alone.state[:done])
        assert np.linalg.norm(apart, axis=-1).max() < 0.1


def both_directions(beginning: Beginning) -> list[list[int]]:
    return [list(range(beginning.frame, FRAMES)), list(range(beginning.frame - 1, -1, -1))]


def assert_same(one: Tracked, other: Tracked) -> None:
    assert one.status == other.status
    assert (one.fit is None) == (other.fit is None)
    if one.fit is None or other.fit is None or one.projection is None or other.projection is None:
        return
    assert (one.projection - other.projection).norm(dim=-1).max() < 0.1
    assert torch.allclose(one.fit.energy, other.fit.energy, rtol=1e-2)
    assert one.fit.terms.keys() == other.fit.terms.keys()
    assert torch.equal(one.fit.iterations, other.fit.iterations)


@pytest.mark.parametrize("stretch", [3, 100])
def test_ways_run_ahead_end_as_following_does(beginning: Beginning, stretch: int) -> None:
    """Also over frames that show no worm, or that it was not found in, and cut into stretches."""
    directions = both_directions(beginning)
    spoiled = copy.deepcopy(beginning.clip.prepared)
    missing, empty = directions[0][-2], directions[0][-4]
    spoiled.log.location[missing] = 3
    spoiled._images[empty] = np.random.default_rng(0).integers(0, 4, spoiled._images[empty].shape)
    beginning = replace(beginning, clip=replace(beginning.clip, prepared=spoiled))
    paths = [Direction.of(beginning, direction) for direction in directions]
    found = {tracked.frame: tracked for _, tracked in follow_directions(paths, stretch=stretch)}
    assert sorted(found) == list(range(FRAMES))
    for _, tracked in track_directions([Direction.of(beginning, direction) for direction in directions]):
        assert_same(found[tracked.frame], tracked)
    assert found[missing].status == "unreadable" and found[empty].status == "lost"
    assert found[directions[0][-1]].status == "ok"


def test_clips_of_other_settings_are_refused(beginning: Beginning) -> None:
    direction = FrameSequence.directions(beginning)[0]
    other = replace(beginning.clip.settings, curve=replace(beginning.clip.settings.curve, nodes=30))
    strange = replace(direction, beginning=replace(beginning, clip=replace(beginning.clip, settings=other)))
    with pytest.raises(ValueError, match="share their settings"):
        run_batch([direction, strange], CPU)


def test_the_work_of_the_benchmark_has_any_size(beginning: Beginning) -> None:
    work = make_work(beginning, 64, 180)
    assert work.views.images.shape == (1, 3, 180, 180) and work.state.vertices == 64
    ends = torch.stack([work.state.points[0, 0], work.state.points[0, -1]])
    known = torch.stack([beginning.state.points[0, 0], beginning.state.points[0, -1]])
    assert (ends - known).norm(dim=-1).max() < 0.02
    assert step_seconds(work, 1) > 0 and iteration_seconds(work, 1) > 0
    clip = beginning.clip
    assert frame_seconds(clip.settings, clip.cameras, clip.centres([0])[0].numpy(), 140) > 0


@pytest.mark.long
def test_the_benchmark_runs_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every figure that its table and its plot show, at the smallest sizes."""
    monkeypatch.setattr(bench, "Settings", quick_settings)
    monkeypatch.setattr(bench, "VERTICES", (32,))
    monkeypatch.setattr(bench, "WINDOW", 100)
    monkeypatch.setattr(bench, "WINDOWS", (100,))
    said: list[str] = []
    figures = json.loads(json.dumps(bench.bench("cpu", said.append, frames=6, compare=True)))
    assert figures["frames"] == 6 and figures["lost"] == 0 and figures["midline_px"] < 0.5
    assert [row["size"] for row in figures["batch"]] == [1, 8]
    assert figures["start"] == {"starts": 4, "kept": 4, "pairs": 1}
    assert set(figures["step_ms"]) == {"reference", "cpu"} and figures["step_ms"]["cpu"] > 0
    assert "following the worm" in said and said[-1].startswith("timing other numbers")
    shown = table(figures)
    assert str(shown.title).startswith("6 simulated frames") and shown.row_count == 11 + len(figures["batch"]) + 2
    draw(figures, tmp_path / "t.png")
    assert (tmp_path / "t.png").stat().st_size > 1000


def test_the_table_tells_what_the_figures_say() -> None:
    sweep = {"vertices": 128, "window": 200, "step_ms": 4.0, "iteration_ms": 2.0}
    figures = {
        "frames": 40, "lost": 0, "midline_px": 0.12, "steps_per_frame": 5.0, "frame_s": 0.04, "frames_per_s": 25.0,
        "iteration_ms": 2.0, "first_frame_s": 9.0, "peak_mb": 700.0, "step_ms": {"reference": 800.0, "cpu": 4.0},
        "start": {"starts": 8, "kept": 4, "pairs": 3},
        "batch": [{"size": 8, "frames_per_s": 26.0}], "sweeps": {"vertices": [sweep], "window": [sweep]},
    }  # fmt: skip
    rows = list(table(figures).columns[1].cells)
    assert "25.0" in rows and "800 ms (200 times)" in rows and "0.12 px, 0 lost" in rows
    assert "8, 4" in rows and "3" in rows


def test_the_plot_is_a_picture(tmp_path: Path) -> None:
    parts = [
        {"vertices": 64 * k, "window": 100 * k, "step_ms": 4.0 * k, "iteration_ms": 2.0, "reference_ms": 800.0 * k}
        for k in (1, 2)
    ]
    draw(
        {"step_ms": {"reference": 800.0, "cpu": 4.0}, "sweeps": {"vertices": parts, "window": parts}},
        tmp_path / "t.png",
    )
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
