"""What is put right some frames at a time: asked for and answered as files, to the same numbers."""

from pathlib import Path
from typing import Any

import killing
import numpy as np
import pytest
import torch

from midline3d.recording import Prepared, load_recording
from midline3d.store import Result
from midline3d.store.kept import packed, unpacked
from midline3d.tracking import repair
from midline3d.tracking.checkpoint import BEGINNING, kept_beginning
from midline3d.tracking.cleaning import clean, parts_of
from midline3d.tracking.clip import Clip
from midline3d.tracking.clip_frames import ClipFrames
from midline3d.tracking.dirt import Dirt
from midline3d.tracking.follow import Tracked
from midline3d.tracking.parts import all_tracked, as_content
from midline3d.tracking.sprung import Mending, Sprung


@pytest.fixture(scope="module")
def frames(worm_result: Path) -> ClipFrames:
    """A small recording that has come out right."""
    recording = load_recording(worm_result.parent / "worm")
    clip = Clip.of(Prepared(worm_result / "crops", recording.calibration), killing.settings(), torch.device("cpu"))
    beginning = kept_beginning(Result.kept_in(worm_result, BEGINNING), clip)
    assert beginning is not None
    return ClipFrames(beginning, Result.read_only(worm_result))


def same(one: Any, other: Any) -> None:
    """Every tensor of two records, and of those that they are made of, to the last bit."""
    for name, value in vars(one).items():
        there = getattr(other, name)
        if isinstance(value, torch.Tensor):
            assert value.dtype == there.dtype and torch.equal(value, there), name
        elif isinstance(value, dict):
            assert list(value) == list(there) and all(torch.equal(value[key], there[key]) for key in value), name
        elif hasattr(value, "__dict__"):
            same(value, there)
        else:
            assert value == there, name


def test_outcomes_come_out_of_a_file_as_they_were(frames: ClipFrames) -> None:
    there = [frame for frame in range(14) if frames.read(frame) is not None]
    done = clean(frames.beginning, there, there, frames.states)
    again = done.again or list(_refitted(frames, there[:3]))
    content = unpacked(packed(as_content(again)))
    for one, other in zip(again, all_tracked(content, frames.beginning.clip), strict=True):
        same(one, other)
    assert all_tracked(unpacked(packed(as_content([]))), frames.beginning.clip) == []


def _refitted(frames: ClipFrames, some: list[int]) -> list[Tracked]:
    found = []
    for frame in some:
        state = frames.state(frame)
        assert state is not None
        found.append(repair.outcome(frames.beginning.clip, frame, repair.fitted_from(frames.beginning, frame, state)))
    return found


def test_parts_hold_every_frame_once_with_those_that_tell_its_dirt(
    frames: ClipFrames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midline3d.tracking.cleaning.PART", 4)
    found = list(range(100))
    parts = parts_of(frames.beginning, [3, 50, 51, 52, 53, 90], found)
    assert [chosen for chosen, _ in parts] == [[3, 50, 51, 52], [53, 90]]
    assert [(told[0], told[-1]) for _, told in parts] == [(0, 92), (13, 99)]


def test_dirt_near_some_frames() -> None:
    light = torch.zeros(3, 1, 4, 4)
    for row in range(3):
        light[row, 0, row, row] = 10.0 + row
    dirt = Dirt.of([2, 5, 9], np.zeros((3, 1, 2), np.int64), light, reach=1)
    near = dirt.near([4, 9])
    assert near.frames.tolist() == [5, 9]
    for frame in (4, 5, 6, 8, 9, 10):
        place = np.zeros((1, 2), np.int64)
        one, other = dirt.in_crops(frame, place), near.in_crops(frame, place)
        assert one is not None and other is not None and torch.equal(one, other)
    assert len(dirt.near([7]).frames) == 0 and dirt.near([7]).in_crops(2, np.zeros((1, 2), np.int64)) is None


def test_springs_that_come_to_touch_the_same_frames_are_done_as_one(
    frames: ClipFrames, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever does them: what one group of springs does another must not undo."""
    asked: list[tuple[int, ...]] = []

    class Hands(repair.Here):
        def mended(self, frames: ClipFrames, groups: list[Sprung], progress: Any) -> list[Mending]:
            asked.extend(group.at for group in groups)
            assert all(not set(group.at) & set(group.others) for group in groups)
            return [Mending([], {group.at[0] + 30: 0.2} if group.at == (10,) else {}) for group in groups]

    monkeypatch.setattr(repair, "springs_among", lambda *_: [10, 35, 80, 90])
    changed, contested = repair._mended(frames, lambda *_: None, Hands())
    assert asked == [(10,), (35,), (80, 90), (10, 35)]
    assert not changed and not contested
