"""What is said of a result that grows, is complete, or is damaged; and its log."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from small import file_system, fill
from test_store import HEADER, record

import midline3d
from midline3d.errors import InputError
from midline3d.settings import Settings, dump_settings
from midline3d.store import EDITS, REASONS, Edited, FrameResult, Reason, Result, RunLog, info
from midline3d.store.log import AFRESH

SETTINGS = replace(Settings(), tracking=replace(Settings().tracking, fitter="adam"))
RUN = replace(HEADER, settings=dump_settings(SETTINGS))


def filled(folder: Path, frames: tuple[int, ...] = RUN.frames) -> Result:
    with Result.create(folder, RUN) as result:
        for frame in frames:
            explained = np.array([0.9, 0.8, 0.7])
            result.append(frame, replace(record(frame), explained=explained))
        result.append(13, FrameResult("lost", reason="no fit"))
        for frame in (15, 16):
            result.append(frame, replace(record(frame), status="suspect", reason="jump"))
        result.note(head_confidence=0.993, frames_per_second=27.9)
    return result


def test_a_complete_result(tmp_path: Path) -> None:
    result = filled(tmp_path)
    for name in ("calibration.json", "body.json", "crops"):
        (tmp_path / name).touch()
    assert info(tmp_path).state == "growing" and "midline.nc" in info(tmp_path).missing[0]
    path = result.consolidate()
    for found in (midline3d.info(tmp_path), midline3d.info(path)):
        assert found.state == "complete" and not found.missing and not found.faults
        assert found.counts == {"ok": 7, "suspect": 2, "lost": 1, "unreadable": 0}
        assert found.reasons == {"jump": 2, "no fit": 1}
        assert found.doubtful == [13, 15, 16]
        assert found.changed == {"tracking.fitter": ("adam", "second-order")}
        assert found.frames.explained == pytest.approx({"cam0": 0.9, "cam1": 0.8, "cam2": 0.7})
        assert found.summary() == "10 frames: 7 ok, 2 suspect, 1 lost"
        assert found.warning() == "3 frames to look at: 13, 15 to 16 (jump 2, no fit 1)"
        content = json.loads(json.dumps(found.as_dict()))
        assert content["look_at"] == [[13, 13], [15, 16]] and content["head_confidence"] == 0.993
        assert content["settings"] == {"tracking.fitter": {"value": "adam", "default": "second-order"}}
        text = found.text()
        for reported in ("trial-037, frames 10:20, 0.4 s at 25 frames/s", "99.3%", "27.9 frames/s", "on cpu, seed 3",
                     "tracking.fitter = adam (default second-order)", "missing    nothing"):  # fmt: skip
            assert reported in text, reported


def test_one_frame_without_an_animal(tmp_path: Path) -> None:
    """One is counted as one; and nothing has a head, however the run took its ends to lie."""
    with Result.create(tmp_path, replace(RUN, frames=(10,))) as result:
        result.note(head_confidence=0.547)
        assert info(tmp_path).facts["head_confidence"] == 0.547
        result.append(10, FrameResult("lost", reason="not located"))
    found = info(tmp_path)
    assert found.summary() == "1 frame: 0 ok, 1 lost"
    assert found.warning() == "1 frame to look at: 10 (not located 1)"
    assert "look at    10 (not located 1)" in found.text() and "confidence" not in found.text()
    assert "head_confidence" not in found.as_dict()


def test_a_growing_result(tmp_path: Path) -> None:
    filled(tmp_path, (10, 11, 12))
    found = info(tmp_path)
    assert found.state == "growing" and found.counts["pending"] == 4
    assert found.missing == (
        "4 frames (14, 17 to 19), which the same command goes on with",
        "calibration.json (the cameras)",
        "body.json (the animal's body)",
        "crops (the prepared crops)",
    )
    assert found.as_dict()["pending"] == [[14, 14], [17, 19]]


def test_accepted_frames_need_not_be_looked_at(tmp_path: Path) -> None:
    with Result.create(tmp_path, RUN) as result:
        result.append(10, FrameResult("suspect", reason="length", edited="accepted"))
    assert not info(tmp_path).doubtful and info(tmp_path).warning() is None


def test_damaged_results(tmp_path: Path) -> None:
    result = filled(tmp_path, (10,))
    result.append(11, record(11))
    result.flush()
    broken = sorted((tmp_path / "segments").iterdir())[-1]
    broken.write_bytes(broken.read_bytes()[:-1])
    found = info(tmp_path)
    assert found.state == "damaged" and broken.name in found.faults[0] and 11 in found.frames.where("pending")
    (tmp_path / "manifest.json").write_text("{", encoding="utf-8")
    found = info(tmp_path)
    assert found.state == "damaged" and "manifest.json" in found.faults[0]
    assert found.counts["ok"] == 1 and found.doubtful == [13, 15, 16], "the frames tell what they are"
    assert "damaged" in found.text() and json.dumps(found.as_dict())


def test_a_result_whose_manifest_is_damaged_but_whose_file_is_there(tmp_path: Path) -> None:
    filled(tmp_path).consolidate()
    (tmp_path / "manifest.json").write_text("[]", encoding="utf-8")
    found = info(tmp_path)
    assert found.state == "damaged" and found.counts["ok"] == 7 and found.facts["seed"] == 3
    (tmp_path / "midline.nc").write_bytes(b"not any more")
    assert info(tmp_path).counts["ok"] == 7
    with pytest.raises(InputError, match="cannot be read as a result"):
        info(tmp_path / "midline.nc")


def test_no_result(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(InputError, match="is no result"):
            info(path)
    RunLog(tmp_path).say("locating the worm: 3 of 10")
    with pytest.raises(InputError, match="still being located"):
        info(tmp_path)


def test_the_log_tells_a_run(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    reported: list[tuple[str, int, int]] = []
    log = RunLog(tmp_path)
    with pytest.raises(InputError), log.run("midline3d 9: reconstruct"):
        tick = log.watched(lambda *words: reported.append(words))
        for done in range(5):
            tick(f"searching in frame {done}", 0, 0)
        tick("reconstructing", 3, 10)
        warnings.warn("it is dark\nin here", stacklevel=1)
        raise InputError("the disk is full")
    with log.run("again"):
        pass
    lines = [line[21:] for line in (tmp_path / "log.txt").read_text(encoding="utf-8").splitlines()]
    assert lines[:4] == [
        "midline3d 9: reconstruct",
        "searching in frame 0",
        "reconstructing: 3 of 10",
        "warning: it is dark in here",
    ]
    assert lines[4].startswith("stopped after 0.0 s: InputError: the disk is full")
    assert lines[5] == "again" and lines[6].startswith("done in") and len(reported) == 6


def test_what_a_run_warned_of_is_told(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """Of all its beginnings, each once; what was so before it started over is so no more."""
    filled(tmp_path)
    for doing, redo in (("first", False), ("second", True), ("third", False)):
        with RunLog(tmp_path).run(doing) as log:
            if redo:
                log.say(AFRESH)
            log.warn("the calibration is doubtful")
            warnings.warn(f"dark in the {doing}", stacklevel=1)
    found = info(tmp_path)
    assert found.warnings == ("the calibration is doubtful", "dark in the second", "dark in the third")
    assert "  warned of  dark in the third" in found.text() and found.as_dict()["warnings"] == list(found.warnings)


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    with file_system(tmp_path / "small", 1) as small:
        taken = fill(small, 0)
        with RunLog(small).run("x" * 10_000) as log:
            with pytest.raises(OSError, match="No space"):
                (small / "other").write_bytes(b"x" * 10_000)
            log.say("lost")
            taken.unlink()
            log.say("there is room again")
        text = (small / "log.txt").read_text(encoding="utf-8")
    assert "lost" not in text and "there is room again" in text and "done in" in text


def test_a_log_that_is_none_hides_no_fault(tmp_path: Path) -> None:
    (tmp_path / "log.txt").mkdir()
    shown = warnings.showwarning
    with pytest.raises(ValueError, match="of the run itself"), RunLog(tmp_path).run("a run"):
        raise ValueError("of the run itself")
    assert warnings.showwarning is shown and (tmp_path / "log.txt").is_dir()


def test_every_reason_is_documented() -> None:
    page = (Path(__file__).parents[1] / "docs" / "recording.md").read_text(encoding="utf-8")
    for word, meaning in REASONS.items():
        assert not word or f"| `{word}` | {meaning} |" in page, word
    assert tuple(REASONS) == get_args(Reason) and tuple(EDITS) == get_args(Edited)
