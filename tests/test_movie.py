"""Pictures and movies of a result, as the commands draw them."""

import subprocess
import sys
from pathlib import Path

import av
import killing
import numpy as np
import pytest

from midline3d.errors import InputError
from midline3d.movie import PANEL, Movie, write_movie


@pytest.fixture
def result(worm_result: Path) -> Path:
    return worm_result


def pictures(path: Path) -> list[np.ndarray]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def test_a_movie_has_every_frame_and_the_midline_in_it(result: Path, tmp_path: Path) -> None:
    reported: list[tuple[int, int]] = []
    path = write_movie(result, tmp_path / "whole.mp4", progress=lambda done, all: reported.append((done, all)))
    shown = pictures(path)
    assert len(shown) == killing.FRAMES and reported[-1] == (killing.FRAMES, killing.FRAMES)
    views = shown[0].shape[1] // PANEL - 1
    assert views >= 2
    coloured = np.ptp(shown[3].astype(int), axis=-1) > 60
    for panel in range(views + 1):
        assert coloured[:PANEL, panel * PANEL : (panel + 1) * PANEL].sum() > 50, "a midline in every view, and in 3D"


def test_a_part_of_it_at_another_speed(result: Path, tmp_path: Path) -> None:
    path = write_movie(result, tmp_path / "part.mp4", Movie((2, 6), fps=5.0))
    assert len(pictures(path)) == 4
    with av.open(str(path)) as container:
        assert container.streams.video[0].average_rate == 5


def test_what_cannot_be_shown_is_said(result: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a movie is an \.mp4"):
        write_movie(result, tmp_path / "drawn.avi")
    with pytest.raises(InputError, match=r"has no frame in 900:; it has 0 to"):
        write_movie(result, tmp_path / "drawn.mp4", Movie((900, None)))
    assert not list(tmp_path.iterdir())


def test_commands(result: Path, tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "midline3d", *words], capture_output=True, text=True, check=False, cwd=tmp_path
        )

    assert run("picture", str(result), "--frame", "3", "-o", "three.png").returncode == 0
    assert (tmp_path / "three.png").stat().st_size > 10_000
    wrong = run("picture", str(result), "--frame", "900")
    assert wrong.returncode == 2 and "has no frame 900; it has 0 to" in wrong.stderr
    assert run("picture", str(result), "-o", "three.gif").returncode == 2
    assert run("video", str(result), "--frames", "0:3", "-o", "three.mp4").returncode == 0
    assert len(pictures(tmp_path / "three.mp4")) == 3
