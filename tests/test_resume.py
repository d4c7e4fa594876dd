"""A run that was killed, or whose files were damaged, goes on from what it knew and ends in the same values."""

import copy
import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import killing
import numpy as np
import pytest
import torch

from midline3d import open_result
from midline3d.recording.crops import RELEASED, Log
from midline3d.state import FrameState
from midline3d.store import FrameResult, Result
from midline3d.tracking import repair
from midline3d.tracking.begin import Beginning
from midline3d.tracking.checkpoint import BEGINNING, DIRECTIONS, gaps, kept_track, plain, stored_state, track_to, whole
from midline3d.tracking.clip import Clip, kept_clip
from midline3d.tracking.clips import BEGUN_RIGHT, RIGHT
from midline3d.tracking.follow import Track
from midline3d.tracking.reconstruct import Job, reconstruct

START = 2
"""First frame of the part that is reconstructed here: numbers in the recording and in the clip differ."""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn") / "worm"
    killing.simulated(folder)
    return folder


@pytest.fixture(scope="module")
def small_segments() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(killing.RESULT, "SEGMENT_FRAMES", killing.SEGMENT)
        yield


@pytest.fixture(scope="module")
def first(recording: Path, tmp_path_factory: pytest.TempPathFactory, small_segments: None) -> tuple[Path, Beginning]:
    """A run that nobody disturbs, and how it began."""
    out, began = tmp_path_factory.mktemp("first") / "out", []
    begin, alive = killing.PLANNING.begin, []

    def remembered(*given: object) -> Beginning:
        began.append(begin(*given))
        return began[0]

    def count(doing: str, done: int, total: int) -> None:
        if doing == "reconstructing" and done % 6 == 0:
            gc.collect()
            alive.append([sum(type(each) is kind for each in gc.get_objects()) for kind in (FrameState, FrameResult)])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(killing.PLANNING, "begin", remembered)
        reconstruct(job(recording, out), count)
    states, records = np.transpose(alive)
    assert np.ptp(states) <= 2 and records.max() < killing.SEGMENT, "memory is flat"
    return out, began[0]


def job(recording: Path, out: Path) -> Job:
    return Job(recording, out, killing.settings(), frames=(START, killing.FRAMES))


@pytest.fixture
def out(first: tuple[Path, Beginning], tmp_path: Path) -> Path:
    """A copy of the whole result, to be damaged."""
    return Path(shutil.copytree(first[0], tmp_path / "out"))


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Frames of the clip that are followed, as they come; lost ones are not tried from their other side again."""
    frames: list[int] = []
    fit = killing.follow._fitted

    def reported(beginning: Beginning, frame: int, track: Track) -> object:
        frames.append(frame)
        return fit(beginning, frame, track)

    monkeypatch.setattr(killing.follow, "_fitted", reported)
    monkeypatch.setattr(repair, "follow", lambda *_: iter(()))
    return frames


def quiet(doing: str, done: int, total: int) -> None:
    pass


def never(*_: object) -> Beginning:
    raise AssertionError("the animal is known")


def segment_of(out: Path, frame: int) -> Path:
    """The file that a frame of the recording came in first."""
    for path in sorted((out / "segments").iterdir()):
        with np.load(path) as arrays:
            if frame in arrays["frame"]:
                return path
    raise LookupError(frame)


def before_putting_right(result: Result) -> None:
    """Takes a result back to what was followed."""
    begun_right = result.kept(BEGUN_RIGHT)
    assert begun_right is not None
    result.back_to(begun_right["since"])
    result.forget(BEGUN_RIGHT, RIGHT)


def spoil(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:300] + bytes([content[300] ^ 1]) + content[301:])


def test_killed_at_any_moment_it_ends_in_the_same_values(tmp_path: Path) -> None:
    """SIGKILL in every phase, followed frame after frame and run ahead: the same to the bit, no stored frame twice."""
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")])
    command = [sys.executable, str(Path(killing.__file__)), str(tmp_path)]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600, env={**os.environ, "PYTHONPATH": paths}
    )
    assert run.returncode == 0, run.stderr
    reported = json.loads(run.stdout.splitlines()[-1])
    assert reported["different"] == {} and reported["needless"] == 0
    assert all(reported[phase] for phase in killing.PHASES), reported
    # Of what was not on the disk yet, at most a segment of each way and the frame in hand are done again.
    assert reported["again"] <= reported["kills"] * (killing.SEGMENT + 2)
    log = (tmp_path / "alone0" / "log.txt").read_text()
    assert "resumed with the animal as it was learned" in log and "  forwards " in log


@pytest.mark.parametrize(
    "place", ["first", *(pytest.param(place, marks=pytest.mark.long) for place in ("middle", "end"))]
)
def test_a_damaged_segment_is_filled_from_the_one_before(
    recording: Path,
    first: tuple[Path, Beginning],
    out: Path,
    fitted: list[int],
    place: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(killing.PLANNING, "begin", never)
    start = first[1].frame
    frame = START + {"first": start, "middle": 8, "end": 0}[place]
    path = segment_of(out, frame)
    with np.load(path) as arrays:
        gone = arrays["frame"].tolist()
    spoil(path)
    reconstruct(job(recording, out), quiet)
    located = first[1].clip.located
    assert sorted(fitted) == [each - START for each in gone if located(each - START)]
    assert killing.differences(first[0], out) == {}
    assert "left" in (out / "log.txt").read_text()


def test_damage_to_what_was_put_right_is_put_right_again(
    recording: Path, first: tuple[Path, Beginning], out: Path, fitted: list[int]
) -> None:
    with Result.resume(out) as result:  # a frame that putting right had found otherwise
        record = result.read(START + first[1].frame)
        assert record is not None and record.length is not None
        result.append(START + first[1].frame, replace(record, length=record.length + 1))
        result.flush()
        result.keep(RIGHT, {"done": "", "segments": result.segments})
    changed, whole_result = open_result(out), open_result(first[0])
    assert not np.array_equal(changed.length, whole_result.length, equal_nan=True)
    spoil(max((out / "segments").iterdir()))
    reconstruct(job(recording, out), quiet)
    assert not fitted, "what was followed is still there"
    assert killing.differences(first[0], out) == {}


@pytest.mark.long
def test_a_damaged_beginning_is_begun_anew(
    recording: Path, first: tuple[Path, Beginning], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins: list[object] = []

    def begin(*_: object) -> Beginning:
        begins.append(None)
        return first[1]

    monkeypatch.setattr(killing.PLANNING, "begin", begin)
    for harm in (spoil, Path.unlink):
        segment_of(out, killing.FRAMES - 1).unlink()
        harm(out / "kept" / "beginning.npz")
        reconstruct(job(recording, out), quiet)
        assert killing.differences(first[0], out) == {}
    assert len(begins) == 2


def test_a_corrected_frame_is_gone_on_from_as_it_is_stored(
    recording: Path, first: tuple[Path, Beginning], out: Path, fitted: list[int]
) -> None:
    """What was known after it is not what it says any more."""
    with Result.resume(out) as result:
        before_putting_right(result)  # as if it had been corrected while it ran
        way = [frame for frame in reversed(first[1].clip.found) if frame < first[1].frame]
        last = [frame for frame in way[2:-1] if result.known(START + frame)[DIRECTIONS[1]]["passed"] == frame]
        records = {frame: result.read(START + frame) for frame in last}
        before, record = next((frame, each) for frame, each in records.items() if each and each.status == "ok")
        result.append(START + before, replace(record, edited="accepted"))
    gone = segment_of(out, START + way[way.index(before) + 1])
    with np.load(gone) as arrays:
        frames = arrays["frame"].tolist()
    gone.unlink()
    reconstruct(job(recording, out), quiet)
    assert sorted(fitted) == [each - START for each in sorted(frames) if first[1].clip.located(each - START)]
    here, there = open_result(out), open_result(first[0])
    assert here.status.values.tolist() == there.status.values.tolist()
    away = np.linalg.norm(here.projection.values - there.projection.values, axis=-1)
    assert np.nanmean(away[[each - START for each in frames]]) < 0.1, "px: the fit ends where it would have"


def alike(one: object, other: object, where: str = "") -> None:
    """Every number of two records is the same, however deep, but what a clip is lent."""
    if isinstance(one, torch.Tensor):
        assert isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other), where
    elif isinstance(one, torch.Generator):
        assert isinstance(other, torch.Generator) and torch.equal(one.get_state(), other.get_state())
    elif is_dataclass(one):
        assert type(one) is type(other)
        for item in fields(one):
            alike(getattr(one, item.name), getattr(other, item.name), f"{where}.{item.name}")
    elif isinstance(one, tuple | list) or type(one).__name__ == "deque":
        assert len(one) == len(other), where
        for mine, theirs in zip(one, other, strict=True):
            alike(mine, theirs, where)
    elif where.split(".")[-1] != "prepared":
        assert one == other, where


def test_what_is_known_comes_back_number_for_number(first: tuple[Path, Beginning]) -> None:
    out, beginning = first
    bare = Clip.of(beginning.clip.prepared, beginning.clip.settings, torch.device("cpu"))
    result = Result(out, killing.RESULT.Manifest.read(out))
    alike(beginning, whole(result.kept(BEGINNING), bare))
    track = Track.of(beginning)
    track.lost, track.doubted = 3, True
    torch.rand(5, generator=track.generator)
    again = whole(plain(copy.deepcopy(track)), bare)
    alike(track, again)
    assert again.states.maxlen == 2 and isinstance(again.states[0], tuple)
    later = kept_track(DIRECTIONS[0], track, 5)[DIRECTIONS[0]]
    track.states.append(track.states[0])
    torch.rand(5, generator=track.generator)
    alike(again, whole(later()["track"], bare))
    with pytest.raises(TypeError, match="cannot keep a set"):
        plain({1})


def test_a_stored_frame_is_a_state_again(first: tuple[Path, Beginning], out: Path) -> None:
    beginning, result = first[1], Result.resume(out)
    before_putting_right(result)
    way = [frame for frame in beginning.clip.found if frame >= beginning.frame]
    known = track_to(beginning, result, way, _kept_place(result, way), DIRECTIONS[0])
    frame, state = known.states[-1]
    record = result.read(START + frame)
    assert record is not None
    again = stored_state(beginning.clip, frame, record)
    assert (state.points - again.points).norm(dim=-1).max() < 2e-4  # mm
    for name in ("length", "sigma", "iota", "rho", "defocus", "shift"):
        assert torch.allclose(getattr(state, name), getattr(again, name), rtol=1e-3, atol=1e-6), name


def test_shifts_are_read_in_the_directions_they_were_counted_in(first: tuple[Path, Beginning], out: Path) -> None:
    """Two and four cameras have many bases of them, and refined cameras another than calibrated ones."""
    result = open_result(out)
    basis = kept_clip(out, result).cameras.shift_basis
    assert torch.equal(basis, first[1].clip.cameras.shift_basis.double())
    body = json.loads((out / "body.json").read_text())
    (out / "body.json").write_text(json.dumps(body | {"shift_basis": (-basis).tolist()}))
    assert torch.equal(kept_clip(out, result).cameras.shift_basis, -basis)
    del body["shift_basis"]  # of an older version
    (out / "body.json").write_text(json.dumps(body))
    assert kept_clip(out, result).cameras.shift_basis.shape == basis.shape


def _kept_place(result: Result, way: list[int]) -> int:
    """A place whose frame before was the last of its segment."""
    held = (result.known(START + frame).get(DIRECTIONS[0], {}).get("passed") == frame for frame in way)
    return 1 + list(held).index(True)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is counted on Linux alone")
def test_crops_that_were_read_are_not_memory_in_use(first: tuple[Path, Beginning], tmp_path: Path) -> None:
    prepared, count = copy.copy(first[1].clip.prepared), 4 * RELEASED
    np.lib.format.open_memmap(tmp_path / "crops.npy", "w+", np.uint8, (count, 3, 150, 150))[:] = 1
    prepared._images, prepared.log = np.load(tmp_path / "crops.npy", mmap_mode="r"), Log.blank(count, 3)

    def mapped() -> int:
        (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssFile"))
        return 1024 * int(line.split()[1])

    before = mapped()
    used = [mapped() - before for crops in prepared if crops.images.all()]
    assert len(used) == count and max(used) < 1.5 * RELEASED * 3 * 150**2


def test_gaps_of_a_way() -> None:
    there: Callable[[int], bool] = {7, 6, 2}.__contains__
    assert list(gaps([9, 7, 6, 5, 4, 2, 1], there)) == [range(0, 1), range(3, 5), range(6, 7)]
    assert list(gaps([], there)) == []
