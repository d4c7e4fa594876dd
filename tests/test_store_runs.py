"""A result over the life of a run: other runs, starting over, what is kept, full disks, damage, cost."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from small import file_system, fill
from test_store import HEADER, record, same

from midline3d.errors import InputError
from midline3d.files import aside, size, write_whole
from midline3d.store import Header, Result, open_result, ranges


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    with file_system(tmp_path / "small", 1) as place:
        yield place


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (replace(HEADER, settings="[fitting]\nsteps = 50\n"), r"fitting\.steps = 40, not 50"),
        (replace(HEADER, inputs={**HEADER.inputs, "cam0.avi": "sha256:xx"}), "another cam0.avi"),
        (replace(HEADER, inputs={**HEADER.inputs, "worm": "bright"}), "worm dark, not bright"),
        (replace(HEADER, cameras=("cam0", "cam1", "left")), "cameras cam0, cam1, cam2, not cam0, cam1, left"),
        (replace(HEADER, seed=4), "seed 3, not 4"),
        (replace(HEADER, device="cuda"), "device cpu, not cuda"),
        (replace(HEADER, version="0.2.0"), r"version 0\.1\.0, not 0\.2\.0"),
        (replace(HEADER, frames=(11, 12)), "frames 10:20, not 11:13"),
        (replace(HEADER, seed=4, device="cuda"), "seed 3, not 4; device cpu, not cuda"),
    ],
)
def test_another_run_is_refused(tmp_path: Path, other: Header, named: str) -> None:
    with Result.create(tmp_path, HEADER) as result:
        result.append(10, record(10))
    with pytest.raises(InputError, match=named):
        Result.check(tmp_path, other)
    with pytest.raises(InputError, match=named) as refusal:
        Result.resume(tmp_path, other)
    assert "--redo, or give another output folder" in str(refusal.value) and "\n" not in str(refusal.value)
    assert Result.resume(tmp_path, HEADER).done == {10}, "and nothing was harmed"


def test_what_changes_no_value_is_not_refused(tmp_path: Path) -> None:
    with Result.create(tmp_path, HEADER) as result:
        result.append(10, record(10))
    reordered = replace(HEADER, settings="# the same\n[fitting]\nsteps=40", attributes={"recording": "elsewhere"})
    assert Result.resume(tmp_path, reordered).done == {10}


def test_a_complete_result_is_the_same_on_any_machine(tmp_path: Path) -> None:
    """Nothing is left to compute; what computed it stays with it."""
    with Result.create(tmp_path, HEADER) as result:
        for frame in HEADER.frames:
            result.append(frame, record(frame))
    other = replace(HEADER, device="cuda", version="0.2.0")
    Result.check(tmp_path, other)
    with Result.resume(tmp_path, other) as result:
        assert result.complete and (result.header.device, result.header.version) == ("cpu", "0.1.0")
    with pytest.raises(InputError, match="seed"):
        Result.check(tmp_path, replace(other, seed=9))


def test_starting_over_replaces_only_when_something_new_comes(tmp_path: Path) -> None:
    with Result.create(tmp_path, HEADER) as result:
        for frame in HEADER.frames:
            result.append(frame, record(frame))
        result.keep("body", {"length": 1.0})
        result.consolidate()
    other = replace(HEADER, seed=4)
    with Result.start(tmp_path, other, redo=True) as result:
        assert not result.done and result.kept("body") is None
    same(open_result(tmp_path), 10, record(10))  # it came to nothing
    with Result.start(tmp_path, other, redo=True) as result:
        result.append(10, record(99))
    growing = open_result(tmp_path)
    same(growing, 10, record(99))
    assert growing.attrs["seed"] == 4 and (growing.status == "pending").sum() == 9
    same(open_result(tmp_path / "midline.nc"), 11, record(11))  # the old one, until the new one is complete
    with Result.start(tmp_path, other, redo=True) as result:  # the same command goes on
        assert result.done == {10}
        for frame in HEADER.frames[1:]:
            result.append(frame, record(frame + 100))
        result.consolidate()
    same(open_result(tmp_path / "midline.nc"), 11, record(111))
    assert len(list((tmp_path / "segments").iterdir())) == 2
    with Result.start(tmp_path, other, redo=True) as result:  # complete: this time over again
        assert not result.done
    (tmp_path / "manifest.json").write_text("{")
    with Result.start(tmp_path, HEADER, redo=True) as result:
        result.append(12, record(12))
    assert (open_result(tmp_path).status == "ok").sum() == 1


def test_the_cost_of_a_frame_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in bytecodes of the store and in bytes written: as many for the last frames as for the first."""
    written: list[int] = []
    home = sys.modules["midline3d.store.result"]
    whole = sys.modules["midline3d.store.segments"]
    monkeypatch.setattr(home, "SEGMENT_SECONDS", 1e9)
    monkeypatch.setattr(whole, "write_whole", lambda path, content, needed: written.append(len(content)))
    frames = 64 * 60
    result = Result.create(tmp_path, replace(HEADER, frames=tuple(range(frames)), keypoints=2))
    before, one = len(list(tmp_path.rglob("*"))), record(0, keypoints=2)
    counts = [operations(lambda block=block: fifty(result, block, one)) for block in range(60)]
    assert counts[-1] == counts[1] and max(counts) < 1.05 * min(counts)
    assert len(written) == 60 and max(written) < 1.05 * min(written)
    assert len(result._waiting) == 0 and len(result.done) == frames
    assert len(list(tmp_path.rglob("*"))) == before, "nothing else is written with a segment"


def fifty(result: Result, block: int, one: Any) -> None:
    """What a run does with every frame: is it done? then add it."""
    for frame in range(64 * block, 64 * block + 64):
        assert frame not in result.done
        result.append(frame, one)


def operations(work: Any) -> int:
    """Bytecodes that the store executes."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if "midline3d" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


STATE = {
    "body": np.linspace(0, 1, 7, dtype=np.float32),
    "ways": [{"frame": 12, "states": np.arange(6.0).reshape(2, 3)}, {"frame": 3, "states": np.zeros((0, 3))}],
    "head_odds": 0.1 + 0.2,
    "veil": None,
    "name": "Müller",
}


def test_what_is_kept_comes_back_number_for_number(tmp_path: Path) -> None:
    with Result.create(tmp_path, HEADER) as result:
        assert result.kept("track") is None
        result.keep("track", STATE)
        result.note(more="later")
    found = Result.resume(tmp_path, HEADER).kept("track")
    assert found is not None and found.keys() == STATE.keys()
    assert found["head_odds"] == 0.1 + 0.2 and found["veil"] is None and found["name"] == "Müller"
    assert found["body"].dtype == np.float32 and np.array_equal(found["body"], STATE["body"])
    assert found["ways"][1]["states"].shape == (0, 3) and found["ways"][0]["frame"] == 12
    with pytest.raises(ValueError, match="no name"):
        result.keep("../track", {})


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_what_was_kept_and_is_damaged_is_nothing(tmp_path: Path, share: float) -> None:
    result = Result.create(tmp_path, HEADER)
    result.keep("track", STATE)
    path = tmp_path / "kept" / "track.npz"
    content, place = path.read_bytes(), int(share * path.stat().st_size)
    for damaged in (content[:place], content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]):
        path.write_bytes(damaged)
        assert result.kept("track") is None
    path.write_bytes(content)
    assert result.kept("track") is not None
    path.unlink()
    path.mkdir()
    assert result.kept("track") is None


def test_what_was_known_lies_with_its_frames(tmp_path: Path) -> None:
    """In the segment itself: whole or not there, as the frames are; of two of a name the last."""
    with Result.create(tmp_path, HEADER) as result:
        result.append(10, record(10), {"forwards": {"passed": 10}})
        result.append(11, record(11), {"forwards": {"passed": 11, "states": STATE["body"]}})
        result.append(19, record(19), {"backwards": lambda: {"passed": 19}})
        assert result.known(10) == {}, "nothing is on the disk yet"
        result.flush()
        result.append(12, record(12))
    result = Result.resume(tmp_path, HEADER)
    known = result.known(10)
    assert known.keys() == {"forwards", "backwards"} and known["forwards"]["passed"] == 11
    assert known["forwards"]["states"].dtype == np.float32
    assert result.known(12) == {} and result.known(13) == {}
    same(open_result(tmp_path), 11, record(11))
    found = result.read(11)
    assert found is not None and found.status == "ok"
    path = min((tmp_path / "segments").iterdir())
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert result.known(10) == {} and Result.resume(tmp_path, HEADER).done == {12}


KEEPER = """
import sys, itertools
from pathlib import Path
import numpy as np
import test_store
from midline3d.store import Result
out = Result.start(Path(sys.argv[1]), test_store.HEADER)
for turn in itertools.count(1):
    out.keep("track", {"turn": turn, "states": np.full(20_000, float(turn))})
    print(turn, flush=True)
"""


def test_killed_while_keeping(tmp_path: Path) -> None:
    """SIGKILL at an arbitrary moment, five times: what is kept is whole, and no older than what was said to be."""
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")])
    for turns in (1, 3, 7, 20, 50):
        command = [sys.executable, "-c", KEEPER, str(tmp_path)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
        ) as writer:
            assert writer.stdout is not None
            said = [int(writer.stdout.readline()) for _ in range(turns)]
            writer.kill()
        found = Result.resume(tmp_path, HEADER).kept("track")
        assert found is not None and found["turn"] >= said[-1]
        assert np.array_equal(found["states"], np.full(20_000, float(found["turn"])))


def test_a_really_full_disk_is_said_and_harms_nothing(small: Path) -> None:
    header = replace(HEADER, frames=tuple(range(10, 500)))
    result = Result.create(small, header)
    for frame in range(10, 20):
        result.append(frame, record(frame))
    result.flush()
    other = fill(small, 8192)
    for frame in range(20, 40):
        result.append(frame, record(frame))
    for attempt in (result.flush, lambda: result.keep("track", STATE | {"many": np.ones(9999)})):
        with pytest.raises(InputError, match=r"disk is full \(about .*B are needed there and .*; make room") as refusal:
            attempt()
        assert "the same command goes on" in str(refusal.value) and "\n" not in str(refusal.value)
    assert not list(small.rglob("*.part.*"))
    assert (open_result(small).status == "ok").sum() == 10
    other.unlink()
    with Result.resume(small, header) as again:
        assert again.done == set(range(10, 20))
    result.flush()  # or in the same run
    same(open_result(small), 39, record(39))


def test_a_disk_too_full_for_the_finished_file(small: Path) -> None:
    with Result.create(small, HEADER) as result:
        for frame in HEADER.frames:
            result.append(frame, record(frame))
        result.flush()
        other = fill(small, 200_000)
        with pytest.raises(InputError, match=r"disk is full \(about .* make room, and the same command goes on"):
            result.consolidate()
        assert not list(small.glob("*.nc"))
        other.unlink()
        same(open_result(result.consolidate()), 14, record(14))


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "body.json"
    write_whole(path, b"old")
    with pytest.raises(KeyError), aside(path) as part:
        part.write_bytes(b"half of the n")
        raise KeyError
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match="is a file, or lies in one"):
        write_whole(path / "beneath", b"")
    assert [size(count) for count in (12, 1500, 20_000_000)] == ["12 B", "1.5 kB", "20.0 MB"]


@pytest.mark.parametrize("change", ["less", "more", "frames", "fps", "since"])
def test_a_damaged_manifest_is_one_sentence(tmp_path: Path, change: str) -> None:
    Result.create(tmp_path, HEADER)
    content = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    if change == "less":
        del content["header"]["seed"]
    elif change == "more":
        content["header"]["colour"] = 3
    elif change == "frames":
        content["header"]["frames"] = [[0, 10**15]]
    elif change == "fps":
        content["header"]["fps"] = -1
    else:
        del content["since"]
    (tmp_path / "manifest.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError, match=r"manifest\.json: is damaged .*--redo"):
        open_result(tmp_path)


def test_a_damaged_finished_file_is_made_again(tmp_path: Path) -> None:
    with Result.create(tmp_path, HEADER) as result:
        for frame in HEADER.frames:
            result.append(frame, record(frame))
        path = result.consolidate()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    same(open_result(tmp_path), 14, record(14))
    with Result.resume(tmp_path, HEADER) as result:
        result.consolidate()
        before = path.stat().st_mtime_ns
        same(open_result(path), 14, record(14))
        result.consolidate()
        assert path.stat().st_mtime_ns == before, "what is there already is not written again"
        result.note(head_confidence=0.9)
        result.consolidate()
    assert open_result(path).attrs["head_confidence"] == 0.9


def test_ranges_for_people() -> None:
    assert ranges([3, 4, 5, 9, 1]) == "1, 3 to 5, 9"
    assert ranges(range(0, 40, 2)) == "0, 2, 4, 6, 8, 10, 12, 14 and 12 more stretches"
