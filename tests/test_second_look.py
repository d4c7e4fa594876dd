"""Frames that are searched for once more when all has been followed."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import killing
import numpy as np
import pytest
import torch

from midline3d.recording import Prepared, load_recording
from midline3d.recording.sources import threads
from midline3d.settings import Settings
from midline3d.store import Result
from midline3d.tracking import second_look
from midline3d.tracking.checkpoint import BEGINNING, kept_beginning
from midline3d.tracking.cleaning import cleaned, dirt_of_frames
from midline3d.tracking.clip import Clip
from midline3d.tracking.clip_frames import ClipFrames
from midline3d.tracking.follow import Tracked
from midline3d.tracking.mending import KnownFrame
from midline3d.tracking.second_look import frames_to_search, searched_again


def test_places_are_spread_and_in_every_doubted_stretch() -> None:
    beginning: Any = SimpleNamespace(clip=SimpleNamespace(found=list(range(100)), settings=Settings()))
    assert frames_to_search(beginning, lambda frame: False) == [12, 37, 62, 87]
    assert frames_to_search(beginning, lambda frame: frame in (3, 4, 5, 90)) == [4, 12, 37, 62, 87, 90]
    few: Any = SimpleNamespace(clip=SimpleNamespace(found=[7, 9], settings=Settings()))
    assert frames_to_search(few, lambda frame: False) == [7, 9]


@pytest.fixture(scope="module")
def frames(worm_result: Path) -> ClipFrames:
    """A small recording that has come out right."""
    recording = load_recording(worm_result.parent / "worm")
    crops = Prepared(worm_result / "crops", recording.calibration)
    clip = Clip.of(crops, killing.settings(), torch.device("cpu"))
    beginning = kept_beginning(Result.kept_in(worm_result, BEGINNING), clip)
    assert beginning is not None
    return ClipFrames(beginning, Result.read_only(worm_result))


def test_a_right_midline_stays(frames: ClipFrames) -> None:
    assert not list(searched_again(frames.beginning, [3, 9], lambda frame: frames.known(frame, still=True)))


def test_a_wrong_midline_is_found_anew(frames: ClipFrames) -> None:
    """One that lies across the animal, and one that is missing."""

    def known(frame: int) -> KnownFrame | None:
        right = frames.known(frame, still=True)
        assert right is not None
        if frame == 9:
            return None
        away = right.state.translated(torch.tensor([[0.3, 0.0, 0.0]]))
        return KnownFrame(away, right.energy + 1e4, "ok")

    found = {tracked.frame: tracked for tracked in searched_again(frames.beginning, [3, 9], known)}
    assert sorted(found) == [3, 9]
    for frame, tracked in found.items():
        right = frames.read(frame)
        assert tracked.fit is not None and right is not None and right.position is not None
        points = frames.beginning.clip.world(tracked.fit.state, [frame])[0].numpy()
        away = min(np.linalg.norm(points - each, axis=-1).mean() for each in (right.position, right.position[::-1]))
        assert away < 0.02, "mm, from what following has found"


def test_putting_right_is_the_same_whatever_the_cores(frames: ClipFrames, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dirt, frames fitted again without it, and searches, one frame at a time and three of them at once."""
    beginning, there = frames.beginning, [frame for frame in range(14) if frames.read(frame) is not None]
    chosen = there[1::3]
    monkeypatch.setattr(second_look, "AT_ONCE", 1)
    monkeypatch.setattr("midline3d.tracking.cleaning.AT_ONCE", 2)

    def put_right(cores: int) -> tuple[list[torch.Tensor], list[Tracked]]:
        pool = ThreadPoolExecutor(cores, thread_name_prefix=threads.THREADS)
        monkeypatch.setattr(threads, "_threads", lambda: pool)
        monkeypatch.setattr("midline3d.tracking.threads.cores", lambda: cores)
        dirt = dirt_of_frames(beginning, chosen, there, frames.states)
        again = list(cleaned(beginning, dirt, chosen, frames.states))
        found = list(searched_again(beginning, chosen, lambda frame: None))
        return [dirt.frames, dirt.first, dirt.pixel, dirt.light], again + found

    one, three = put_right(1), put_right(3)
    assert all(torch.equal(here, there) for here, there in zip(one[0], three[0], strict=True))
    assert [tracked.frame for tracked in one[1]] == 2 * chosen
    for here, there in zip(one[1], three[1], strict=True):
        assert (
            here.fit is not None and there.fit is not None and (here.frame, here.status) == (there.frame, there.status)
        )
        assert torch.equal(here.fit.state.points, there.fit.state.points)
        assert torch.equal(here.fit.energy, there.fit.energy)


def test_states_read_together_are_those_read_alone(frames: ClipFrames) -> None:
    together = frames.states([3, 9])
    for row, frame in enumerate((3, 9)):
        alone = frames.state(frame)
        assert alone is not None
        assert all(
            torch.allclose(value[row], getattr(alone, name)[0], atol=1e-6) for name, value in vars(together).items()
        )
