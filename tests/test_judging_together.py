"""Frames judged anew by what those around them say, once all are there."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from midline3d.settings import Settings
from midline3d.store import FrameResult, Header, Result
from midline3d.tracking.clip_frames import ClipFrames
from midline3d.tracking.judging_together import judged_together

COUNT, START = 40, 100


class _Clip:
    """As much of a clip as judging asks for."""

    settings = Settings()
    prepared = SimpleNamespace(start=START, scale=100.0)

    def __len__(self) -> int:
        return COUNT


def frames_with(
    folder: Path, records: dict[int, FrameResult], keypoints: int = 8, unsure: float = 0.0, fps: float = 25.0
) -> ClipFrames:
    header = Header(
        frames=tuple(range(START, START + COUNT)),
        fps=fps,
        cameras=("a", "b"),
        keypoints=keypoints,
        settings="",
        inputs={},
    )
    result = Result.start(folder, header)
    for frame, record in records.items():
        result.append(START + frame, record)
    result.flush()
    beginning: Any = SimpleNamespace(clip=_Clip(), body=SimpleNamespace(unsure=(0.0, unsure), length=1.2))
    return ClipFrames(beginning, result)


def record(doubt: float, **more: Any) -> FrameResult:
    return replace(FrameResult(status="ok", position=np.zeros((8, 3)), loss=1.0, doubt=doubt), **more)


def test_an_ok_frame_among_uncertain_ones_is_uncertain_and_a_single_uncertain_one_is_cleared(tmp_path: Path) -> None:
    doubted = {"status": "suspect", "reason": "uncertain"}
    records = {frame: record(0.001) for frame in range(COUNT)}
    records |= {frame: record(0.5, **doubted) for frame in range(5, 20)}
    records[12] = record(0.05)
    records[33] = record(0.12, **doubted)
    frames = frames_with(tmp_path / "out", records)
    assert judged_together(frames) == 2
    inside, single, far = (frames.read(frame) for frame in (12, 33, 39))
    assert inside is not None and (inside.status, inside.reason) == ("suspect", "uncertain")
    assert inside.doubt is not None and inside.doubt > 0.2
    assert single is not None and (single.status, single.reason) == ("ok", "")
    assert far is not None and far.status == "ok"


def test_what_other_reasons_say_stands_and_a_quiet_recording_is_not_written_again(tmp_path: Path) -> None:
    records = {frame: record(0.001) for frame in range(COUNT)}
    records[7] = record(0.001, status="suspect", reason="light unexplained")
    frames = frames_with(tmp_path / "out", records)
    before = frames.result.last
    assert judged_together(frames) == 0
    assert frames.result.last == before
    kept = frames.read(7)
    assert kept is not None and kept.reason == "light unexplained"


def test_frames_without_a_midline_stay_as_they_are(tmp_path: Path) -> None:
    records = {frame: record(0.4, status="suspect", reason="uncertain") for frame in range(COUNT)}
    records[20] = FrameResult(status="lost", reason="no fit")
    frames = frames_with(tmp_path / "out", records)
    assert judged_together(frames) == 0
    lost = frames.result.read(START + 20)
    assert lost is not None and (lost.status, lost.reason) == ("lost", "no fit")


def test_all_frames_of_what_is_round_and_never_changes_are_suspect(tmp_path: Path) -> None:
    angle = np.linspace(0, 6.2, 32)
    ring = np.stack([np.cos(angle), np.sin(angle), 0 * angle], -1)
    moved = {frame: 0.05 * ring + frame * np.array([0.02, 0.01, 0.0]) for frame in range(COUNT)}
    for opened, expected in ((range(0), "suspect"), (range(10, 20), "ok")):
        lines = {
            frame: line * ([1.3, 0.8, 1.0] if frame in opened else [1.0, 1.0, 1.0]) for frame, line in moved.items()
        }
        frames = frames_with(
            tmp_path / expected, {frame: record(0.001, position=line) for frame, line in lines.items()}, keypoints=32
        )
        if expected == "suspect":
            with pytest.warns(UserWarning, match="as a bubble does"):
                assert judged_together(frames) == COUNT
        else:
            assert judged_together(frames) == 0
        found = [frames.read(frame) for frame in range(COUNT)]
        assert {each.status for each in found if each is not None} == {expected}


def test_what_does_not_change_in_a_moment_may_be_a_worm(tmp_path: Path) -> None:
    angle = np.linspace(0, 6.2, 32)
    ring = 0.05 * np.stack([np.cos(angle), np.sin(angle), 0 * angle], -1)
    records = {frame: record(0.001, position=ring + 0.02 * frame) for frame in range(COUNT)}
    assert judged_together(frames_with(tmp_path / "out", records, keypoints=32, fps=200.0)) == 0


def test_views_that_wander_off_make_frames_suspect_that_were_not_clearly_right(tmp_path: Path) -> None:
    away = {frame: np.array([max(0.0, frame - 20.0)]) for frame in range(COUNT)}
    for doubt, expected in ((0.02, "suspect"), (0.001, "ok")):
        records = {frame: record(doubt, shift=shift) for frame, shift in away.items()}
        frames = frames_with(tmp_path / expected, records)
        with pytest.warns(UserWarning, match=f"in {COUNT} frames between {START} and {START + COUNT - 1} the views"):
            judged_together(frames)
        last = frames.read(COUNT - 1)
        assert last is not None and last.status == expected


@pytest.mark.parametrize(("unsure", "expected"), [(0.03, "ok"), (0.065, "suspect")])
def test_frames_of_an_animal_whose_tail_may_end_elsewhere_are_suspect(
    tmp_path: Path, unsure: float, expected: str
) -> None:
    """However exactly the rest of it is known: 120 px long, its tail is known to 3.6 or 7.8 px."""
    frames = frames_with(tmp_path / "out", {frame: record(0.001) for frame in range(COUNT)}, unsure=unsure)
    judged_together(frames)
    assert {each.status for each in map(frames.read, range(COUNT)) if each is not None} == {expected}
