"""The probability that a midline is wrong: every sign raises it, and where nothing speaks against it there is none."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from midline3d.tracking.doubt import Signs, doubt, together

VERTICES = 32
RIGHT = Signs(
    across=torch.full((1, VERTICES), 0.2),
    along=torch.full((1, VERTICES), 1.0),
    confidence=torch.ones(1, VERTICES),
    unbacked=torch.zeros(1, 3),
)


def at(values: torch.Tensor, places: slice | int, value: float) -> torch.Tensor:
    changed = values.clone()
    changed[:, places] = value
    return changed


def test_a_frame_that_is_known_exactly_is_hardly_doubted() -> None:
    assert float(doubt(RIGHT)) < 0.002


@pytest.mark.parametrize(
    "signs",
    [
        replace(RIGHT, across=at(RIGHT.across, 16, 4.0)),
        replace(RIGHT, across=at(RIGHT.across, -1, 12.0)),
        replace(RIGHT, across=at(RIGHT.across, 0, 12.0)),
        replace(RIGHT, along=at(RIGHT.along, -1, 15.0)),
        replace(RIGHT, confidence=at(RIGHT.confidence, slice(8, 24), 0.1)),
        replace(RIGHT, unbacked=at(RIGHT.unbacked, 1, 2.0)),
    ],
)
def test_every_sign_raises_it(signs: Signs) -> None:
    assert float(doubt(signs)) > 2 * float(doubt(RIGHT))


def test_a_faint_tip_is_no_sign() -> None:
    assert torch.equal(doubt(replace(RIGHT, confidence=at(RIGHT.confidence, 0, 0.1))), doubt(RIGHT))


def test_a_tail_that_may_lie_anywhere_in_a_body_that_is_hardly_known_is_not_trusted() -> None:
    vague = replace(RIGHT, across=at(at(RIGHT.across, slice(None), 3.0), -1, 12.0))
    assert 0.25 < float(doubt(vague)) < 1


def test_what_is_not_a_number_stays_so() -> None:
    assert math.isnan(float(doubt(replace(RIGHT, across=at(RIGHT.across, 16, math.nan)))))
    batch = Signs(**{name: torch.cat([value, value]) for name, value in vars(RIGHT).items()})
    assert doubt(batch).shape == (2,)


def test_a_frame_among_frames_that_are_doubted_is_doubted_as_they_are() -> None:
    alone = np.full(40, 0.002)
    alone[10:30] = 0.14
    alone[20] = 0.03
    found = together(alone)
    assert found[20] > 0.2 and found[5] < 0.2 and found[0] < 0.02


def test_neighbours_clear_a_frame_that_is_doubted_a_little_but_not_one_that_is_doubted_much() -> None:
    alone = np.full(40, 0.001)
    alone[12], alone[30] = 0.14, 0.4
    found = together(alone)
    assert found[12] < 0.05 and found[30] >= 0.4


def test_frames_without_a_midline_say_nothing_and_have_no_doubt() -> None:
    alone = np.full(21, 0.1)
    alone[8:13] = np.nan
    found = together(alone)
    assert np.isnan(found[8:13]).all()
    np.testing.assert_allclose(found[:8], found[0])
    np.testing.assert_allclose(found[13:], found[0])


def test_doubts_together_do_not_depend_on_the_direction_of_time() -> None:
    alone = np.random.default_rng(3).uniform(0, 0.5, 50)
    np.testing.assert_allclose(together(alone), together(alone[::-1])[::-1], rtol=1e-12)


def test_certainty_either_way_is_a_probability_still() -> None:
    found = together(np.array([0.0, 1.0, 0.0]))
    assert ((found >= 0) & (found <= 1)).all() and found[1] == 1.0
