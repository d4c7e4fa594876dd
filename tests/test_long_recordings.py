"""What a long recording needs beside the fitting grows no faster than it does: counted, not timed."""

import shutil
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import xarray as xr

from midline3d import kinematics
from midline3d.errors import InputError
from midline3d.evaluate import evaluate_truth
from midline3d.export import Choice, export_result
from midline3d.kinematics.smoothing import Window, local_quadratic
from midline3d.recording.crops import LOCATIONS, Log
from midline3d.report.picture import read_frame, telling_frame
from midline3d.settings import Settings
from midline3d.store import EditLog, FrameResult, Header, Result, ResultParts, StoredFrames, edit_of, open_result
from midline3d.store.dataset import head_confidence
from midline3d.store.frames import LARGE
from midline3d.store.manifest import Manifest
from midline3d.store.segments import SEGMENTS, Segment
from midline3d.tracking import cleaning, clips, parts
from midline3d.tracking.cleaning import parts_of
from midline3d.tracking.clip import Clip
from midline3d.tracking.dirt import Dirt
from midline3d.tracking.job import Job
from midline3d.tracking.sprung import Sprung

FRAMES = 640


def header(frames=FRAMES, **attributes):
    return Header(tuple(range(frames)), 25.0, ("a", "b"), keypoints=4, attributes=attributes)


def record(frame):
    return FrameResult("ok", position=np.full((4, 3), float(frame)), loss=1.0, doubt=0.0)


@pytest.fixture
def reads(monkeypatch):
    """Names of the segments that are read, as they are."""
    found, content = [], Segment._content
    monkeypatch.setattr(Segment, "_content", lambda self, folder: found.append(self.name) or content(self, folder))
    return found


def test_parts_read_every_segment_once(tmp_path, monkeypatch, reads):
    """Of what is put right some frames at a time, by a process that is asked for one part after the other."""
    seen = []
    asked = tmp_path / "asked"
    parts._write(asked, {"frames": [3]})
    monkeypatch.setattr(parts, "_beginning", lambda job: SimpleNamespace(clip=None))
    monkeypatch.setitem(
        parts.FROM_FRAMES, "clean", lambda frames, content: seen.append(frames.result.read(3).position[0, 0]) or {}
    )
    with Result.create(tmp_path / "out", header()) as written:
        for frame in range(FRAMES):
            written.append(frame, record(frame))
        written.flush()
        for value in (3.0, 3.0, 5.0, 7.0):
            if value != 3.0:
                written.append(3, record(value))
            parts.answer("clean", {"out": str(tmp_path / "out")}, asked, written.newest)
    assert seen == [3.0, 3.0, 5.0, 7.0]
    count = len(list((tmp_path / "out" / SEGMENTS).iterdir()))
    assert count >= FRAMES / 64 + 2
    assert len(reads) <= count + 3  # and those in which the frame lies


def test_what_was_taken_back_is_read_anew(tmp_path):
    with Result.create(tmp_path, header(20)) as written:
        written.append(0, record(0))
        written.flush()
        reading, since = Result.read_only(tmp_path), written.last
        written.append(1, record(1))
        reading.catch_up(written.newest)
        assert reading.read(1).position[0, 0] == 1
        written.back_to(since)
        written.append(1, record(2))
        reading.catch_up(written.newest)
        assert reading.done == {0, 1} and reading.read(1).position[0, 0] == 2
        for frame in (2, 3):  # more than were taken back, so that the newest is one that was not known
            written.back_to(since)
            for again in range(1, frame + 1):
                written.append(again, record(10 * frame + again))
                written.flush()
            reading.catch_up(written.newest)
            assert reading.read(1).position[0, 0] == 10 * frame + 1 and reading.read(frame) is not None


def test_a_run_is_known_by_what_it_always_was(tmp_path):
    """The words that hash to a run must stay the same: edits and what is kept are known by it."""
    made = Manifest(Header((3, 4, 5), 25.0, ("a", "b"), inputs={"calibration": "sha256:0"}, seed=2), since=7)
    assert (
        made.run == replace(made, header=replace(made.header, attributes={"length_std": 0.1})).run == "80f78398da9c3aaa"
    )
    made.write(tmp_path)
    assert Manifest.read(tmp_path) == made and Manifest.read(tmp_path).run == made.run


def test_a_process_reads_the_plan_of_its_clips_once(tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(clips, "read_plan", lambda job, device: read.append(job) or len(read))
    (tmp_path / "kept").mkdir()
    for name in ("manifest.json", "kept/spans.npz", "kept/beginning.npz"):
        (tmp_path / name).write_text(name)
    job = Job(tmp_path, tmp_path, Settings())
    assert [clips.plan_read_once(job) for _ in range(5)] == [1] * 5
    (tmp_path / "kept" / "spans.npz").write_text("others, planned anew")
    assert clips.plan_read_once(job) == 2
    assert clips.plan_read_once(replace(job, seed=1)) == 3


def test_nothing_kept_is_known_without_a_look_at_the_manifest(tmp_path, monkeypatch):
    Result.create(tmp_path, header()).keep("there", {"a": 1})
    assert Result.kept_in(tmp_path, "there") == {"a": 1}
    monkeypatch.setattr(Manifest, "read", staticmethod(lambda folder: pytest.fail("read")))
    assert Result.kept_in(tmp_path, "elsewhere") is None


def test_one_frame_is_asked_for_without_the_others():
    """Whether it was located: hours of frames, each held against all others, would take minutes."""

    class Counted(np.ndarray):
        def __le__(self, other):
            return pytest.fail("all frames were looked at") if self.ndim else np.ndarray.__le__(self, other)

        __eq__ = __le__

    log = Log.blank(4, 2)
    for frame, word in enumerate(LOCATIONS):
        log.location[frame] = LOCATIONS.index(word)
    expected = log.located.tolist(), log.unreadable.tolist()
    log = replace(log, location=log.location.view(Counted))
    clip = Clip(SimpleNamespace(log=log), None, None, None, None, None)
    assert [clip.located(frame) for frame in range(4)] == expected[0] == [True, True, False, False]
    assert [log.is_unreadable(frame) for frame in range(4)] == expected[1] == [False, False, False, True]


def test_dirt_is_found_as_by_a_look_at_every_row():
    frames = [3, 4, 9, 10, 20]
    dirt = Dirt.of(frames, np.zeros((5, 1, 2), np.int64), torch.ones(5, 1, 2, 2), reach=4)
    for frame in range(-5, 30):
        away = [abs(each - frame) for each in frames]
        assert dirt.row_for(frame) == (away.index(min(away)) if min(away) <= 4 else None)
    assert replace(dirt, frames=dirt.frames[:0]).row_for(3) is None


def test_parts_to_clean_look_at_the_frames_near_them(monkeypatch):
    looked, within = [], cleaning._within
    monkeypatch.setattr(cleaning, "_within", lambda *given: looked.append(len(given[1])) or within(*given))
    reach = Settings().dirt.reach
    beginning = SimpleNamespace(clip=SimpleNamespace(settings=Settings()))
    found = [frame for frame in range(20_000) if frame % 7]
    chosen = [frame for frame in found if frame % 1000 < 300]
    made = parts_of(beginning, chosen, found)
    assert sum(looked) < 3 * len(found)
    for part, near in made[::5]:
        assert near == within(reach, found, part)
    assert [frame for part, _ in made for frame in part] == chosen


def test_springs_near_others_are_told_by_their_place():
    sprung = list(range(0, 100_000, 30))
    frames = SimpleNamespace(beginning=SimpleNamespace(clip=range(100_000)))
    frames.beginning.clip = type("Long", (), {"settings": Settings(), "__len__": lambda self: 100_000})()
    made = Sprung.of((3000, 3030), sprung, frames)
    low, high = made.around
    assert made.others == tuple(one for one in sprung if low <= one < high and one not in (3000, 3030))
    assert Sprung.of((0,), sprung, frames).around[0] == 0


def test_head_confidence_is_that_of_each_stretch():
    said = header(head_stretches="[[2, 3, 0.25], [6, 6, 1.0], [8, 19, 0.5]]")
    nan = np.nan
    expected = [nan, nan, 0.25, 0.25, nan, nan, 1.0, nan, 0.5, 0.5]
    np.testing.assert_array_equal(head_confidence(said, range(10)), np.float32(expected))
    np.testing.assert_array_equal(head_confidence(said, [6, 30]), np.float32([1.0, nan]))
    assert np.isnan(head_confidence(header(), range(5))).all()


@pytest.fixture(scope="module")
def long_result(tmp_path_factory):
    """A result of some thousand frames, some of them lost, one of them found bad by somebody."""
    folder, rng = tmp_path_factory.mktemp("long"), np.random.default_rng(1)
    shapes = header(1).sizes
    with Result.create(folder, replace(header(3000, recording="long"), keypoints=32)) as written:
        for frame in range(3000):
            found = FrameResult(
                "ok",
                position=rng.normal(size=(32, 3)),
                confidence=rng.random(32),
                projection=rng.uniform(0, 99, (2, 32, 2)),
                curvature=rng.normal(size=(32, 2)),
                length=1.0,
                shift=rng.normal(size=shapes["axis"]),
                loss_terms={"pixels": 0.5},
            )
            written.append(frame, FrameResult("lost", reason="not located") if frame % 50 == 7 else found)
        written.consolidate()
        EditLog(folder).append(edit_of("bad", [1500], written.run))
    return folder


@pytest.mark.parametrize("name", [".", "midline.nc", "copied.nc"])
def test_parts_of_a_result_are_all_of_it(long_result, name):
    if name == "copied.nc":
        shutil.copy(long_result / "midline.nc", long_result / name)
    whole, parts = open_result(long_result / name), ResultParts(long_result / name)
    assert len(parts) == 3000 and parts.numbers.tolist() == whole.frame.values.tolist()
    assert parts.head.attrs == whole.attrs
    found = list(parts.each(block=1700))
    assert [part.sizes["time"] for part in found] == [1700, 1300]
    for part, first in zip(found, range(0, 3000, 1700), strict=True):
        expected = whole.isel(time=slice(first, first + 1700))
        xr.testing.assert_equal(part, expected)
    assert (parts.of(1500).status == "lost") == (name != "copied.nc")  # edits lie beside the result
    assert parts.of(3000) is None
    assert parts.chosen([3, 9000, 1]).frame.values.tolist() == [1, 3]
    assert parts.chosen([9000]).sizes["time"] == 0
    assert set(parts.part(0, 2, ("confidence",))) & LARGE == {"position", "confidence"}


def test_parts_of_a_file_that_its_segments_have_left_behind_are_edited_too(tmp_path):
    with Result.create(tmp_path, header(5)) as written:
        for frame in range(5):
            written.append(frame, record(frame))
        written.consolidate()
        EditLog(tmp_path).append(edit_of("bad", [3], written.run))
    for segment in (tmp_path / SEGMENTS).iterdir():
        segment.unlink()
    parts = ResultParts(tmp_path / "midline.nc")
    assert parts.small(("confidence",)).sizes["time"] == len(parts) == 5


def test_nothing_is_made_for_a_result_that_is_not_there(tmp_path):
    for to in ("csv", "wcon", "mat"):
        with pytest.raises(InputError):
            export_result(tmp_path / "nowhere", to)
    assert not (tmp_path / "nowhere").exists()


def test_truth_whose_frames_are_not_in_order_is_refused(long_result):
    mixed = open_result(long_result).isel(time=[2, 0, 1])
    with pytest.raises(InputError, match="not in order"):
        evaluate_truth(long_result, mixed)


def test_what_is_done_is_worked_out_when_that_has_changed(tmp_path):
    with Result.create(tmp_path, header(10)) as written:
        written.append(0, record(0))
        written.flush()
        frames = StoredFrames(tmp_path)
        assert frames.done.sum() == 1 and frames.done is frames.done
        written.append(4, record(4))
        written.flush()
        assert frames.refresh() and frames.done.sum() == 2


def test_kinematics_hold_little_beside_what_they_measure():
    """Quadratics in time through many channels: a few at once."""
    values = np.random.default_rng(2).normal(size=(4000, 99))
    valid = np.arange(4000) % 90 > 3
    window = Window.of(0.4, 25.0)
    tracemalloc.start()
    found = local_quadratic(values, valid, window)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < 4.5 * values.nbytes
    alone = local_quadratic(values[:, [50]], valid, window)
    np.testing.assert_allclose(found.rate[:, [50]], alone.rate, rtol=1e-9)


def test_kinematics_read_what_they_measure(long_result, monkeypatch):
    asked, part = [], ResultParts.part
    monkeypatch.setattr(
        ResultParts, "part", lambda self, first, stop, names: asked.append(set(names)) or part(self, first, stop, names)
    )
    assert kinematics.of(long_result, kinematics.Options(draws=0)).sizes["time"] == 3000
    assert asked and not set().union(*asked) & {"projection", "confidence"}


@pytest.mark.parametrize("to", ["csv", "parquet", "wcon", "anipose", "movement", "truth", "telling frame", "one frame"])
def test_what_goes_frame_by_frame_asks_for_some_at_a_time(long_result, tmp_path, monkeypatch, to):
    asked, part = [], ResultParts.part
    monkeypatch.setattr(
        ResultParts,
        "part",
        lambda self, first, stop, *more: asked.append(stop - first) or part(self, first, stop, *more),
    )
    for name in ("store.result", "export.material", "evaluate.opening"):
        monkeypatch.setattr(f"midline3d.{name}.open_result", lambda path: pytest.fail("all frames were asked for"))
    if to == "truth":
        monkeypatch.setattr("midline3d.evaluate.truth._between", lambda points, lines: np.zeros(points.shape[:2]))
        monkeypatch.setattr("midline3d.evaluate.truth._shape_errors", lambda points, *_: (np.zeros(len(points)),) * 2)
        found = evaluate_truth(long_result, long_result / "midline.nc")
        assert found.frames.tolist() == list(range(3000)) and found.lost.sum() == 61 and np.nanmax(found.head) == 0
    elif to == "telling frame":
        assert telling_frame(long_result) is not None
    elif to == "one frame":
        with pytest.raises(InputError, match=r"frame 7 .* is lost"):
            read_frame(long_result, 7)
        assert sum(asked) == 1
    else:
        export_result(long_result, to, tmp_path, Choice(keypoints=2))
    assert max(asked) <= 1024


def test_a_mat_file_that_would_be_too_large_is_refused(long_result, tmp_path, monkeypatch):
    monkeypatch.setattr("midline3d.export.arrays.MOST", 2_000_000)
    with pytest.raises(InputError, match=r"4 GB at most, and this result has .* --keypoints"):
        export_result(long_result, "mat", tmp_path)
    assert not list(tmp_path.iterdir())
