"""A long recording as clips: planned, run anywhere in any number, stitched; what is the wrong way round is turned."""

import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import killing
import numpy as np
import pytest
import torch
import xarray as xr

from midline3d import Settings, open_result
from midline3d.errors import InputError
from midline3d.settings import TrackingSettings
from midline3d.store import FrameResult, Result, info
from midline3d.tracking import batch, repair, walk
from midline3d.tracking.clip_frames import ClipFrames
from midline3d.tracking.clips import clip_folder, plan_clips, run_clip, stitch
from midline3d.tracking.directions import follow_directions
from midline3d.tracking.follow import Tracked, fitted_from, outcome
from midline3d.tracking.reconstruct import Job, reconstruct
from midline3d.tracking.repair import put_right
from midline3d.tracking.spans import spans_of
from midline3d.tracking.tasks import packed, unpacked

CLIPS = import_module("midline3d.tracking.clips")
RUN = import_module("midline3d.tracking.reconstruct")
SPANS = 3
CALM = [frame for frame in range(killing.FRAMES) if min(abs(frame - bad) for bad in (4, 8, 22, 24)) > 1]
"""Away from frames in which nobody is there, or no picture, or a camera sees nobody."""


def settings() -> Settings:
    quick = killing.settings()
    return replace(quick, tracking=replace(quick.tracking, clip=10, overlap=3))


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn") / "worm"
    killing.simulated(folder)
    return folder


@pytest.fixture(scope="module")
def planned(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result in which nothing is done but the plan."""
    out = tmp_path_factory.mktemp("planned") / "out"
    spans = plan_clips(Job(recording, out, settings()))
    assert len(spans) == SPANS and [frame for span in spans for frame in span.own] == list(range(killing.FRAMES))
    assert plan_clips(Job(recording, out, settings())) == spans
    return out


@pytest.fixture(scope="module")
def stitched(recording: Path, planned: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clips run one after the other, the last first, and stitched."""
    out = Path(shutil.copytree(planned, tmp_path_factory.mktemp("stitched") / "out"))
    job = Job(recording, out, settings())
    with pytest.raises(InputError, match="these are not complete: 0 to 2; run those"):
        stitch(job)
    for index in reversed(range(SPANS)):
        assert run_clip(job, index) == clip_folder(job, index)
    assert (open_result(out).status == "pending").all(), "each has a folder of its own"
    assert (open_result(clip_folder(job, 1)).status != "pending").all()
    assert stitch(job) == out / "midline.nc"
    return out


@pytest.fixture
def out(planned: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(planned, tmp_path / "out"))


def quiet(doing: str, done: int, total: int) -> None:
    pass


def test_spans_are_cut_where_the_animal_is_gone() -> None:
    located = np.ones(1000, bool)
    even = spans_of(located, TrackingSettings(clip=250, overlap=5))
    assert [span.own.start for span in even] == [0, 250, 500, 750]
    assert even[1].reach == range(245, 505) and even[0].reach.start == 0 and even[-1].reach.stop == 1000
    located[260:280] = False
    located[480:483] = False
    cut = spans_of(located, TrackingSettings(clip=250, overlap=5))
    assert [span.own.start for span in cut] == [0, 270, 481, 750]
    assert len(spans_of(located, TrackingSettings(clip=501))) == 1, "short ones are left whole"
    assert len(spans_of(located, TrackingSettings(clip=250, fitter="adam"))) == 1, "the paper's way is the paper's"
    assert spans_of(np.zeros(40, bool), TrackingSettings(clip=10))[-1].own.stop == 40


def test_the_stitched_result_is_whole(recording: Path, stitched: Path) -> None:
    found = open_result(stitched)
    assert info(stitched).state == "complete" and not (stitched / "clips").exists()
    located = ~np.isin(found.reason.values, ["not located", "unreadable"])
    assert set(found.status.values[CALM].tolist()) == {"ok"}
    points = found.position.values[..., 0]
    ok = found.status.values == "ok"
    near = np.flatnonzero(ok[1:] & ok[:-1])
    steps = np.linalg.norm(points[near + 1] - points[near], axis=1).mean(1)
    assert steps.max() < 0.1, "mm: no jump and no swap at a seam"
    sure = found.head_confidence.values
    assert np.isfinite(sure[np.isfinite(points[:, 0, 0])]).all() and np.isnan(sure[~located]).all()
    assert ((sure[np.isfinite(sure)] >= 0) & (sure[np.isfinite(sure)] <= 1)).all()
    assert run_clip(Job(recording, stitched, settings()), 0) and not (stitched / "clips").exists(), (
        "nothing is left to do"
    )
    assert stitch(Job(recording, stitched, settings())) == stitched / "midline.nc"


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.long), 2])
def test_the_result_is_the_same_whatever_the_workers(recording: Path, stitched: Path, out: Path, workers: int) -> None:
    reported: list[tuple[str, int, int]] = []
    reconstruct(Job(recording, out, settings()), lambda *what: reported.append(what), workers)
    assert killing.differences(stitched, out) == {}
    counts = [done for doing, done, total in reported if doing == "reconstructing" and total == killing.FRAMES]
    assert counts == sorted(counts) and counts[-1] == killing.FRAMES


@pytest.mark.long
def test_clips_in_slots_of_one_device_find_the_same(
    recording: Path, stitched: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, but here; resumed, and with memory for two slots only."""
    monkeypatch.setattr(walk, "track_directions", follow_directions)
    monkeypatch.setattr(RUN, "_side_by_side", lambda run, plan, workers: RUN._in_slots(run, plan))
    monkeypatch.setattr(RUN, "groups_of", lambda count, device: CLIPS.groups_of(count, "cuda"))
    monkeypatch.setattr(killing.RESULT, "SEGMENT_FRAMES", 1)
    slots: list[int] = []
    make = batch.Batch.__init__

    def small(own: batch.Batch, sequences: list[batch.FrameSequence], device: torch.device) -> None:
        slots.append(len(sequences))
        if len(sequences) > 3:
            raise torch.cuda.OutOfMemoryError("simulated")
        make(own, sequences, device)

    monkeypatch.setattr(batch.Batch, "__init__", small)

    def interrupt(doing: str, done: int, total: int) -> None:
        if doing == "reconstructing" and done > 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning, match="no memory for 6 slots at once: .* 3"):
        reconstruct(Job(recording, out, settings()), interrupt)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of memory again, where more than three ways are left
        reconstruct(Job(recording, out, settings()), quiet)
    assert {6, 3} <= set(slots)
    one, two = open_result(stitched), open_result(out)
    assert one.status.values.tolist() == two.status.values.tolist()
    away = np.linalg.norm(one.projection.values - two.projection.values, axis=-1)
    # Begun from other frames of a clip, a frame comes out the same to what a settled fit leaves open.
    assert np.nanmedian(away) < 0.1 and np.nanmean(away) < 0.5


def test_a_gpu_without_any_memory_says_so(recording: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.cuda.OutOfMemoryError("simulated")

    monkeypatch.setattr(walk, "track_directions", follow_directions)
    monkeypatch.setattr(RUN, "_side_by_side", lambda run, plan, workers: RUN._in_slots(run, plan))
    monkeypatch.setattr(batch.Batch, "__init__", full)
    with pytest.raises(InputError, match="no memory left for a single slot"), pytest.warns(UserWarning):
        reconstruct(Job(recording, out, settings()), quiet)


def numbers(result: xr.Dataset, name: str) -> np.ndarray:
    """A variable, or how much the body bends: the axes of the Bishop frame are anybody's choice."""
    return np.linalg.norm(result.curvature.values, axis=-1) if name == "bend" else result[name].values


def backwards(frames: ClipFrames, some: range) -> Iterator[Tracked]:
    """Frames as they come out when the animal was taken up the wrong way round."""
    for frame in some:
        state = frames.state(frame)
        if state is not None:
            yield outcome(frames.beginning.clip, frame, fitted_from(frames.beginning, frame, state.reversed()))


@pytest.mark.parametrize("some", [range(14, 21), range(23, 30)], ids=["among others", "behind a gap"])
def test_a_swap_is_found_and_repaired(recording: Path, stitched: Path, tmp_path: Path, some: range) -> None:
    out = Path(shutil.copytree(stitched, tmp_path / "out"))
    job, right = Job(recording, out, settings()), open_result(stitched)
    plan = CLIPS.read_plan(job)
    for name in (CLIPS.RIGHT, repair.HEADS):
        (out / "kept" / f"{name}.npz").unlink()
    with Result.resume(out) as result:
        frames = ClipFrames(plan.beginning, result)
        for tracked in list(backwards(frames, some)):
            frames.write(tracked)
        result.flush()
        wrong = [frame for frame in some if frames.read(frame) is not None]
        swapped = open_result(out).position.values[wrong, :, :, 0]
        assert np.linalg.norm(swapped - right.position.values[wrong, :, :, 0], axis=1).mean() > 0.2, "mm"
        reported = put_right(plan.beginning, result, quiet)
    assert reported.startswith(f"{len(wrong)} frames turned round")
    found = open_result(out)
    for name, far in (("position", 0.01), ("projection", 0.6), ("bend", 0.5), ("length", 0.01)):
        away = np.abs(numbers(found, name)[wrong] - numbers(right, name)[wrong])
        # Half of them: one is hidden from a camera, and comes out elsewhere along its line of sight.
        assert np.median(away) < far, name
    assert {found.status.values[frame] for frame in wrong if frame in CALM} == {"ok"}


def test_what_one_side_lost_the_other_finds_and_what_does_not_meet_is_suspect(
    recording: Path, stitched: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(stitched, tmp_path / "out"))
    plan, right = CLIPS.read_plan(Job(recording, out, settings())), open_result(stitched)
    for name in (CLIPS.RIGHT, repair.HEADS):
        (out / "kept" / f"{name}.npz").unlink()
    lost, seam = [11, 12, 13], 17
    with Result.resume(out) as result:
        for frame in lost:
            result.append(frame, FrameResult("lost", reason="no fit"))
        for frame in range(seam, 21):
            record = result.read(frame)
            assert record is not None and record.position is not None
            # Somewhere else, and so well fitted that nothing is better.
            result.append(frame, replace(record, position=record.position + 0.5, loss=-1e6))
        result.flush()
        votes = dict.fromkeys([9, 10, 14, 15, 18, 19, 25, 26], 3.0)
        clip = plan.beginning.clip
        as_they_are = replace(clip.settings, dirt=replace(clip.settings.dirt, removed=False))
        beginning = replace(plan.beginning, clip=replace(clip, settings=as_they_are))
        reported = put_right(beginning, result, quiet, votes, (seam,))
    assert "0 frames turned round" in reported and "do not meet" in reported
    found = open_result(out)
    away = np.abs(found.position.values - right.position.values)[lost]
    assert np.median(away) < 0.01 and found.status.values[lost].tolist() == right.status.values[lost].tolist()
    around = found.reason.values[seam - 3 : seam + 3].tolist()
    assert around == ["directions disagree"] * 6, "two clips, and nothing tells which is right"


@pytest.mark.long
def test_killed_while_clips_run_it_ends_in_the_same_values(recording: Path, stitched: Path, out: Path) -> None:
    """The process that gives the work is killed; its workers end by themselves, and the next goes on."""
    code = (
        "import sys, test_clips as t; from pathlib import Path\n"
        "def say(doing, done, total): print(doing, done, flush=True)\n"
        "if __name__ == '__main__': t.reconstruct(t.Job(Path(sys.argv[1]), Path(sys.argv[2]), t.settings()), say, 2)"
    )
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")])
    with subprocess.Popen(
        [sys.executable, "-c", code, str(recording), str(out)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if line.startswith("reconstructing") and int(line.split()[1]) >= 14:
                break
        run.send_signal(signal.SIGKILL)
    growing = open_result(out)
    assert (growing.status == "pending").any()
    started = time.monotonic()
    reconstruct(Job(recording, out, settings()), quiet, 2)
    assert killing.differences(stitched, out) == {}
    assert time.monotonic() - started < 600


def test_a_clip_that_another_process_runs_is_left_to_it(
    recording: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(recording, out, settings())
    monkeypatch.setattr(CLIPS, "PATIENCE", 0.3)
    with CLIPS.locked(clip_folder(job, 1)), pytest.raises(InputError, match="is being written by process"):
        run_clip(job, 1)


def test_steps_out_of_order_are_refused(recording: Path, out: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no plan yet"):
        run_clip(Job(recording, tmp_path / "nothing", settings()), 0)
    with pytest.raises(InputError, match=r"there is no clip 3: .* clips 0 to 2"):
        run_clip(Job(recording, out, settings()), SPANS)
    with pytest.raises(InputError, match="seed 0, not 5"):
        run_clip(Job(recording, out, settings(), seed=5), 0)
    (out / "kept" / "beginning.npz").unlink()
    with pytest.raises(InputError, match="plan the clips again"):
        run_clip(Job(recording, out, settings()), 0)


def test_a_job_is_the_same_job_in_another_process(recording: Path, tmp_path: Path) -> None:
    for job in (
        Job(recording, tmp_path, settings(), 3, "cpu", (2, 9), True, True, tmp_path / "crops"),
        Job(recording, tmp_path, Settings()),
    ):
        assert unpacked(packed(job)) == job
