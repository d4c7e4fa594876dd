"""Which way round: links from frame to frame, votes of some frames, and the likeliest reading of both."""

import numpy as np
import pytest
import torch

from midline3d.settings import HeadSettings
from midline3d.tracking import heads
from midline3d.tracking.heads import Links, links_of, read_heads, voters

LENGTH = 1.0
HEADS = HeadSettings()


def worm(frame: int, turned: bool = False) -> np.ndarray:
    """A bent line that swims along x, mm."""
    along = np.linspace(0, LENGTH, 20)
    points = np.stack([along + 0.01 * frame, 0.1 * np.sin(5 * along - 0.2 * frame), 0 * along], -1)
    return points[::-1] if turned else points


def chain(count: int, turned: range, gone: range = range(0)) -> Links:
    """A worm followed through frames, the wrong way round in some, gone in others."""
    frames = ((frame, None if frame in gone else worm(frame, frame in turned)) for frame in range(count))
    return links_of(frames, LENGTH, HEADS)


def test_a_link_says_same_other_or_nothing() -> None:
    links = chain(10, turned=range(6, 10), gone=range(2, 4))
    assert links.frames.tolist() == [0, 1, 4, 5, 6, 7, 8, 9]
    assert links.odds[0] == 0 and links.odds[1] == HEADS.link
    assert links.odds[4] == -HEADS.link, "the curve turned from frame 5 to 6"
    assert links.odds[5:].tolist() == [HEADS.link] * 3
    far = links_of([(0, worm(0)), (100, worm(0))], LENGTH, HEADS)
    assert 0 < far.odds[1] < 1, "after a long gap an animal may have turned"
    assert [stretch.tolist() for stretch in links.stretches(HEADS.weak)][-1] == [6, 7, 8, 9]


def test_a_swap_between_two_frames_is_found_and_a_lone_wrong_vote_is_not_believed() -> None:
    links = chain(80, turned=range(40, 80))
    frames = voters(links, HEADS)
    votes = np.where(np.array(frames) < 40, 3.0, -3.0)
    reading = read_heads(links, frames, votes)
    assert reading.turned.tolist() == list(range(40, 80)) and reading.sure.min() > 0.999
    calm = chain(80, turned=range(0))
    frames = voters(calm, HEADS)
    votes = np.full(len(frames), 2.0)
    votes[1] = -3.0
    reading = read_heads(calm, frames, votes)
    assert not len(reading.turned) and reading.sure.min() > 0.5


def test_after_a_gap_the_votes_decide_anew() -> None:
    links = chain(80, turned=range(40, 80), gone=range(20, 40))
    frames = voters(links, HEADS)
    assert sum(frame < 20 for frame in frames) >= 4 and sum(frame >= 40 for frame in frames) >= 4
    votes = np.where(np.array(frames) < 20, 2.0, -2.0)
    assert read_heads(links, frames, votes).turned.tolist() == list(range(40, 80))
    unsure = read_heads(links, frames, np.where(np.array(frames) < 20, 2.0, 0.0))
    behind = unsure.sure[links.frames >= 40]
    assert behind.min() >= 0.5 and behind.max() < 0.8 and unsure.sure[0] > 0.99, "nothing tells: nothing is claimed"


def test_a_worm_that_slides_round_in_a_coil_is_turned_at_its_weakest_link() -> None:
    odds = np.full(100, HEADS.link)
    odds[0], odds[53] = 0.0, 2.0
    links = Links(np.arange(100), odds)
    frames = [10, 20, 30, 40, 60, 70, 80, 90]
    votes = np.array([3.0] * 4 + [-3.0] * 4)
    assert read_heads(links, frames, votes).turned.tolist() == list(range(53, 100))


def test_what_the_body_was_learned_from_is_not_turned_whatever_the_votes_say() -> None:
    links = Links(np.arange(100), np.where(np.arange(100) == 60, 0.0, HEADS.link))
    votes = np.array([-3.0] * 4 + [3.0] * 4)
    reading = read_heads(links, [10, 20, 30, 40, 65, 70, 80, 90], votes)
    assert reading.turned.tolist() == list(range(60))
    # Learned from the first frames, or from the last.
    assert heads.as_learned(reading, links, 20, 16).turned.tolist() == list(range(60, 100))
    assert heads.as_learned(reading, links, 80, 16) is reading
    nothing = links_of([], LENGTH, HEADS)
    assert not len(heads.as_learned(read_heads(nothing, [], np.zeros(0)), nothing, 0, 16).turned)


def test_nothing_to_read() -> None:
    empty = links_of([], LENGTH, HEADS)
    assert voters(empty, HEADS) == [] and not len(read_heads(empty, [], np.zeros(0)).turned)
    one = links_of([(3, worm(3))], LENGTH, HEADS)
    assert voters(one, HEADS) == [3] and read_heads(one, [3], np.array([-1.0])).turned.tolist() == [3]


@pytest.mark.parametrize("seed", range(5))
def test_the_reading_is_the_likeliest_of_all(seed: int) -> None:
    """Held against every reading there is, and its certainty against their sum."""
    rng = np.random.default_rng(seed)
    votes, ties = rng.normal(0, 2, 7), rng.normal(0, 3, 6)
    readings = (np.arange(2**7)[:, None] >> np.arange(7)) & 1 == 1
    same = readings[:, 1:] == readings[:, :-1]
    weight = (~readings * votes).sum(1) + (same * ties).sum(1)
    assert heads._likeliest(votes, ties).tolist() == readings[weight.argmax()].tolist()
    share = torch.tensor(weight).softmax(0).numpy()
    assert np.allclose(heads._marginals(votes, ties), (~readings * share[:, None]).sum(0))
