"""How sure the head is by the whole recording, where it is longer than what the body was learned from."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from midline3d.settings import Settings
from midline3d.store import FrameResult, Header, Result
from midline3d.tracking import repair
from midline3d.tracking.clip_frames import ClipFrames
from midline3d.tracking.heads import Links, Reading

COUNT, KEYPOINTS = 120, 32
SETTINGS = Settings()


class _Clip:
    """As much of a clip as telling head from tail asks for."""

    settings = SETTINGS
    prepared = SimpleNamespace(start=0)

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count


def crawling(folder: Path, count: int, backwards: bool, first: int = 0) -> ClipFrames:
    """A worm of 1 mm that crawls along a wave, its keypoint 0 first, or last from frame `first` on; its body was
    learned at odds of 2, half of them by its shape."""
    header = Header(
        frames=tuple(range(count)), fps=25.0, cameras=("a", "b"), keypoints=KEYPOINTS, settings="", inputs={}
    )
    result = Result.start(folder, header)
    for frame in range(count):
        along = np.linspace(0, 1, KEYPOINTS) - 0.03 * frame
        line = np.stack([along, 0.1 * np.sin(2 * np.pi * along / 0.7), 0 * along], -1)
        position = line[::-1] if backwards and frame >= first else line
        result.append(frame, FrameResult(status="ok", position=position, loss=1.0, doubt=0.0))
    result.flush()
    beginning: Any = SimpleNamespace(
        clip=_Clip(count), frame=0, head_odds=2.0, shape_odds=1.0, body=SimpleNamespace(length=1.0)
    )
    return ClipFrames(beginning, result)


def turned_round(frames: ClipFrames, monkeypatch: pytest.MonkeyPatch, turned: list[int]) -> float:
    """The head's confidence once frames are read, of which these are the wrong way round."""
    reading = Reading(np.array(turned, np.int64), np.ones(len(frames.beginning.clip)))
    monkeypatch.setattr(repair, "read_heads", lambda *_: reading)
    monkeypatch.setattr(repair, "_reversed", lambda *_: iter(()))
    links = Links(np.arange(len(frames.beginning.clip)), np.full(len(frames.beginning.clip), 12.0))
    monkeypatch.setattr(ClipFrames, "links", lambda *_: links)
    repair._turn(frames, {}, lambda *_: None)
    return float(frames.result.header.attributes["head_confidence"])


def test_one_that_goes_forwards_all_along_is_surer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert turned_round(crawling(tmp_path / "out", COUNT, backwards=False), monkeypatch, []) > 0.95


def test_one_that_goes_backwards_all_along_is_doubted_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(UserWarning, match="goes tail first"):
        assert turned_round(crawling(tmp_path / "out", COUNT, backwards=True), monkeypatch, []) < 0.2


def test_frames_that_will_be_turned_are_read_as_they_will_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = crawling(tmp_path / "out", COUNT, backwards=True, first=COUNT // 2)
    assert turned_round(frames, monkeypatch, list(range(COUNT // 2, COUNT))) > 0.95


def test_a_short_recording_says_no_more_than_its_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = crawling(tmp_path / "out", SETTINGS.body.span, backwards=True)
    assert turned_round(frames, monkeypatch, []) == pytest.approx(1 / (1 + np.exp(-2.0)))
