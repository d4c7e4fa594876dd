"""What people did to a result: kept in a log that only grows, laid over the frames, taken back."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_store import HEADER, record

from midline3d.store import Edit, EditLog, Header, Pin, Result, StoredFrames, edit_of, info, open_result
from midline3d.store.edits import last_redoable, last_undoable, standing
from midline3d.store.manifest import Manifest

FRAMES = range(10, 20)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    with Result.create(tmp_path, HEADER) as result:
        for frame in FRAMES:
            result.append(
                frame,
                replace(record(frame), status="suspect" if frame == 15 else "ok", reason="jump" if frame == 15 else ""),
            )
        result.consolidate()
    return tmp_path


def run_of(folder: Path) -> str:
    return Manifest.read(folder).run


def swapped(out: Path, frames: list[int], run: str = "") -> Edit:
    """An exchange of head and tail, as the viewer writes it: with where the ends are afterwards."""
    position = open_result(out).position.isel(individual=0)
    rows = [frame - FRAMES.start for frame in frames]
    ends = {
        "frame": np.array(frames),
        "head": position.isel(time=rows, keypoint=-1).values,
        "tail": position.isel(time=rows, keypoint=0).values,
    }
    return EditLog(out).append(edit_of("swap", frames, run or run_of(out)), ends)


def untouched(folder: Path) -> str:
    """A fingerprint of all that an edit must leave alone."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.relative_to(folder).as_posix().startswith("edits"):
            digest.update(path.as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


@pytest.mark.parametrize("grown", [True, False])
def test_each_kind_of_edit(out: Path, grown: bool) -> None:
    """In the finished file and in the segments alike; what the program found stays as it is."""
    if not grown:
        (out / "midline.nc").unlink()
    before, plain = untouched(out), open_result(out)
    run, log = run_of(out), EditLog(out)
    other = record(3)
    pin = Pin(12, "cam1", 100.5, 20.25, "head")
    log.append(edit_of("refit", [12, 13], run, pins=(pin,)), {12: other, 13: replace(other, status="suspect")})
    swapped(out, [16, 17])
    log.append(edit_of("bad", [18], run))
    log.append(edit_of("accept", [14, 15], run))
    found = open_result(out)
    assert untouched(out) == before
    edited = ["automatic"] * 2 + ["pinned", "refitted"] + ["accepted"] * 2 + ["pinned"] * 3 + ["automatic"]
    assert found.edited.values.tolist() == edited
    assert np.array_equal(found.position.values[2, ..., 0].T, other.position) and found.loss.values[3] == np.float32(
        other.loss
    )
    assert found.status.values.tolist()[3] == "suspect" and found.status.values.tolist()[5] == "suspect"
    assert np.array_equal(found.position.values[6:8], plain.position.values[6:8, :, ::-1])
    assert np.array_equal(found.projection.values[6], plain.projection.values[6, :, ::-1])
    assert np.array_equal(found.curvature.values[6], plain.curvature.values[6, ::-1] * [1, -1])
    assert np.isnan(found.position.values[8]).all() and np.isnan(found.loss.values[8])
    assert (found.status.values[8], found.reason.values[8]) == ("lost", "marked bad")
    assert found.source_frame.values[8].tolist() == plain.source_frame.values[8].tolist()
    rest = [0, 1, 4, 9]
    assert np.array_equal(found.position.values[rest], plain.position.values[rest])
    reported = info(out)
    assert reported.frames.edited == tuple(found.edited.values.tolist()) and reported.doubtful == [13, 18]


def test_parts_of_a_result_have_its_edits(out: Path) -> None:
    frames = StoredFrames(out)
    version = frames.version
    assert not frames.refresh()
    swapped(out, [11])
    EditLog(out).append(edit_of("bad", [18], run_of(out)))
    assert frames.refresh() and frames.version != version
    whole, part = open_result(out), frames.part(1, 9)
    for name in part.data_vars:
        wanted, found = whole[name].values[1:9], part[name].values
        same = (wanted.astype(str) == found.astype(str)).all() if found.dtype.kind in "OU" else None
        assert np.array_equal(wanted, found, equal_nan=True) if same is None else same, name
    assert np.isnan(frames.small(["loss"]).loss.values[8])
    (out / "midline.nc").unlink()
    growing = StoredFrames(out).part(1, 9)
    assert np.array_equal(growing.position.values, part.position.values, equal_nan=True)


def test_a_result_that_grows_is_read_as_it_grows(tmp_path: Path) -> None:
    with Result.create(tmp_path, HEADER) as result:
        result.append(10, record(10))
        result.flush()
        frames = StoredFrames(tmp_path)
        assert frames.done.sum() == 1 and not frames.complete
        for frame in FRAMES[1:]:
            result.append(frame, record(frame))
        result.append(12, replace(record(30), status="suspect"))
        result.flush()
        assert frames.refresh() and frames.done.all()
        assert np.array_equal(frames.part(2, 3).position.values[0, ..., 0].T, record(30).position)
        assert frames.small().status.values[2] == "suspect"
        result.consolidate()
    assert frames.refresh() and frames.complete
    assert np.array_equal(frames.part(2, 3).position.values[0, ..., 0].T, record(30).position)


def test_exchanged_twice_is_as_it_was(out: Path) -> None:
    before = open_result(out)
    swapped(out, [12, 13, 15])
    swapped(out, [13])
    found = open_result(out)
    assert np.array_equal(found.position.values[2], before.position.values[2, :, ::-1])
    assert np.array_equal(found.position.values[3], before.position.values[3])
    assert np.array_equal(found.position.values[4], before.position.values[4])
    assert np.array_equal(found.curvature.values[5], before.curvature.values[5, ::-1] * [1, -1])


def test_undo_and_redo(out: Path) -> None:
    log, run = EditLog(out), run_of(out)
    bad, fine = log.append(edit_of("bad", [11], run)), log.append(edit_of("accept", [12], run))
    assert last_undoable(log.read()) == fine and last_redoable(log.read()) is None
    undo = log.append(edit_of("undo", [], run, of=fine.id))
    assert standing(log.read()) == [bad] and last_redoable(log.read()) == undo
    assert open_result(out).edited.values[2] == "automatic"
    redo = log.append(edit_of("undo", [], run, of=undo.id))
    assert standing(log.read()) == [bad, fine] and last_redoable(log.read()) is None
    assert open_result(out).edited.values[2] == "accepted"
    log.append(edit_of("undo", [], run, of=fine.id))
    log.append(edit_of("undo", [], run, of=bad.id))
    assert standing(log.read()) == [] and redo.of == undo.id
    assert (open_result(out).edited.values == "automatic").all()


def test_the_log_says_who_when_and_by_what(out: Path) -> None:
    pin = Pin(12, "cam0", 1.5, 2.5, "tail")
    log = EditLog(out)
    made = log.append(edit_of("refit", [12, 13, 15], run_of(out), pins=(pin,)), {12: record(12)})
    line = json.loads((out / "edits.jsonl").read_text())
    assert (
        line["who"] and line["when"].endswith("+00:00") and line["version"] and line["frames"] == [[12, 13], [15, 15]]
    )
    assert line["pins"] == [{"frame": 12, "camera": "cam0", "u": 1.5, "v": 2.5, "part": "tail"}]
    assert log.read() == [made] and made.numbers == [12, 13, 15]
    first = (out / "edits.jsonl").read_bytes()
    log.append(edit_of("accept", [11], run_of(out)))
    assert (out / "edits.jsonl").read_bytes().startswith(first), "lines are only added"


def test_a_line_cut_short_by_a_crash_harms_no_other(out: Path) -> None:
    log, run = EditLog(out), run_of(out)
    kept = log.append(edit_of("accept", [11], run))
    with log.path.open("ab") as file:
        file.write(b'{"kind": "bad", "frames": [[1')
    assert log.read() == [kept]
    after = log.append(edit_of("bad", [13], run))
    assert log.read() == [kept, after]
    with log.path.open("ab") as file:
        file.write(
            b'{"kind": "burn"}\n[1]\n{"kind": "bad", "frames": [[9, 1]], "id": "aa"}\n'
            b'{"kind": "bad", "id": "../x"}\n\xff\n'
        )
    assert log.read() == [kept, after]


def test_numbers_that_were_damaged_or_point_elsewhere_are_not_taken(out: Path) -> None:
    log, plain = EditLog(out), open_result(out)
    made = log.append(edit_of("refit", [12], run_of(out)), {12: record(3)})
    file = out / "edits" / made.content
    file.write_bytes(file.read_bytes()[:-3])
    assert np.array_equal(open_result(out).position.values, plain.position.values)
    log.append(replace(edit_of("refit", [13], run_of(out)), content="../midline.nc"))
    assert log.content(log.read()[-1]) is None
    assert np.array_equal(open_result(out).position.values, plain.position.values)


def test_what_a_new_run_makes_of_edits(out: Path, tmp_path: Path) -> None:
    """Fits and acceptances are of the run that they were made on; exchanges say where the head is, whatever the run."""
    run, log = run_of(out), EditLog(out)
    log.append(edit_of("refit", [12], run, pins=(Pin(12, "cam0", 1, 2),)), {12: record(3)})
    log.append(edit_of("accept", [14], run))
    swapped(out, [16, 17])
    plain = {frame: record(frame) for frame in FRAMES}
    turned = replace(plain[17], position=plain[17].position[::-1])  # type: ignore[index]
    again: Header = replace(HEADER, seed=HEADER.seed + 1)
    with Result.redo(out, again) as result:
        for frame in FRAMES:
            result.append(frame, turned if frame == 17 else plain[frame])
    found = open_result(out)
    assert found.edited.values.tolist() == [*["automatic"] * 6, "pinned", "pinned", *["automatic"] * 2]
    assert np.array_equal(found.position.values[6, ..., 0].T, plain[16].position[::-1])  # type: ignore[index]
    assert np.array_equal(found.position.values[7, ..., 0].T, turned.position), "found rightly by itself this time"
    first = log.read()[0]
    log.append(edit_of("again", [12], run_of(out), of=first.id), {12: record(4)})
    found = open_result(out)
    assert np.array_equal(found.position.values[2, ..., 0].T, record(4).position) and found.edited.values[2] == "pinned"
    log.append(edit_of("undo", [], run_of(out), of=first.id))
    assert np.array_equal(open_result(out).position.values[2, ..., 0].T, plain[12].position)  # type: ignore[arg-type]
