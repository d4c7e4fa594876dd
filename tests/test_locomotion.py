"""Head and tail by the way a worm moves: crawling, swimming without getting on, at rest, and among gaps."""

import numpy as np
import pytest

from midline3d.settings import HeadSettings
from midline3d.tracking.locomotion import forward_odds

VERTICES, FRAMES = 96, 30
HEADS = HeadSettings()
LONG = HeadSettings(at_once=HEADS.most_odds)
"""As if each were seen for long."""
MOST = HEADS.most_odds


def swimming(wave: float, headway: float, turn: float = 0.0, noise: float = 0.0) -> np.ndarray:
    """(frame, vertex, 3) mm: a worm of 1 mm, head first; its bends run by `wave` and it moves by `headway` of its
    length a frame, towards its head; turn: rad a frame as a whole."""
    along, found = np.linspace(0, 1, VERTICES), []
    for frame in range(FRAMES):
        angle = 0.9 * np.cos(2 * np.pi * (along - 0.5 - wave * frame) / 0.7)
        way = np.stack([np.cos(angle), np.sin(angle), 0.2 * np.sin(angle)], -1) / VERTICES
        line = np.cumsum(way, 0)
        cosine, sine = np.cos(turn * frame), np.sin(turn * frame)
        turned = np.array([[cosine, -sine, 0], [sine, cosine, 0], [0, 0, 1]])
        found.append((line - line.mean(0) - [headway * frame, 0, 0]) @ turned.T)
    return np.stack(found) + noise * np.random.default_rng(0).normal(size=(FRAMES, VERTICES, 3))


@pytest.mark.parametrize(
    "moving",
    [
        pytest.param(swimming(0.01, 0.01), id="crawling"),
        pytest.param(swimming(0.03, 0.0), id="swimming on the spot"),
        pytest.param(swimming(0.03, 0.002, turn=0.02, noise=1e-4), id="swimming in a curve"),
    ],
)
def test_a_worm_that_moves_on_is_read_head_first_whichever_way_it_is_given(moving: np.ndarray) -> None:
    frames = list(range(FRAMES))
    assert forward_odds(moving, frames, LONG) == pytest.approx(MOST)
    assert forward_odds(moving[:, ::-1], frames, LONG) == pytest.approx(-MOST)
    # Backwards it goes the other way.
    assert forward_odds(moving[::-1], frames, LONG) == pytest.approx(-MOST)


def test_one_that_lies_still_says_nothing() -> None:
    assert abs(forward_odds(swimming(0.0, 0.0, noise=1e-5), list(range(FRAMES)), LONG)) < 0.3


def test_one_that_turns_as_a_whole_does_not_bend() -> None:
    assert abs(forward_odds(swimming(0.0, 0.0, turn=0.05), list(range(FRAMES)), LONG)) < 0.3


def test_neighbours_are_compared_where_there_are_any() -> None:
    moving = swimming(0.03, 0.01)
    assert forward_odds(moving[:1], [4], LONG) == 0.0
    assert forward_odds(moving[[0, 3, 6]], [0, 3, 6], LONG) > 1
    lost = moving.copy()
    lost[::7] = np.nan
    assert forward_odds(lost, list(range(FRAMES)), LONG) == pytest.approx(MOST)
    assert forward_odds(np.full_like(moving, np.nan), list(range(FRAMES)), LONG) == 0.0
    # Behind a gap stands another worm.
    gap = np.concatenate([moving[:10], moving[:10][:, ::-1]])
    assert abs(forward_odds(gap, [*range(10), *range(50, 60)], HeadSettings(most_odds=10.0, at_once=10.0))) < 1


def test_a_moment_says_less_than_a_long_way_for_worms_go_backwards_too() -> None:
    short = forward_odds(swimming(0.03, 0.01)[:4], list(range(4)), HEADS)
    whole = forward_odds(swimming(0.03, 0.01), list(range(FRAMES)), HEADS)
    assert HEADS.at_once < short < whole < MOST
    assert short == pytest.approx(HEADS.at_once + 0.03 * 3 / HEADS.reversal, rel=0.02)
