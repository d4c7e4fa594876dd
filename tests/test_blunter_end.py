"""Which end is the blunter, by how steeply light rises there."""

import numpy as np
import pytest
import torch
from test_seen_ends import animal as animal  # a fixture

from midline3d.tracking import blunter_end
from midline3d.tracking.blunter_end import BEYOND, MOST, _longer_tail, blunter_head, light_across
from midline3d.tracking.learning import Animal, Sample, resized

FRAMES, CAMERAS, VERTICES = 12, 3, 121


def drawn(head: float, tail: float, noise: float = 0.0) -> torch.Tensor:
    """(frame, camera, vertex) light that rises over these shares of the length, under noise."""
    place = np.linspace(-BEYOND, 1 + BEYOND, VERTICES)
    light = np.minimum(1, np.clip(np.minimum(place / head, (1 - place) / tail), 0, None))
    rows = np.random.default_rng(0).normal(0, noise, (FRAMES, CAMERAS, VERTICES))
    return torch.from_numpy((light + rows).astype(np.float32))


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_the_end_at_which_light_rises_more_steeply_is_the_blunter(noise: float) -> None:
    assert _longer_tail(drawn(0.3, 0.9, noise)) == pytest.approx(np.log(3), abs=0.2)
    assert _longer_tail(drawn(0.9, 0.3, noise)) == pytest.approx(-np.log(3), abs=0.2)
    assert abs(_longer_tail(drawn(0.5, 0.5, noise))) < 0.1


def test_what_is_not_seen_says_nothing() -> None:
    nothing = drawn(0.3, 0.9)
    nothing[:, :, :40] = torch.nan
    assert _longer_tail(nothing) == 0
    assert _longer_tail(torch.zeros(FRAMES, CAMERAS, VERTICES)) == 0
    assert _longer_tail(torch.full((FRAMES, CAMERAS, VERTICES), torch.nan)) == 0
    assert _longer_tail(drawn(0.3, 0.9)[:2]) == 0  # too few frames


def test_a_view_that_does_not_tell_is_left_to_the_others_and_none_says_too_much() -> None:
    light = drawn(0.3, 0.9)
    light[:, 0] = torch.nan
    assert _longer_tail(light) == pytest.approx(np.log(3), abs=0.2)
    assert _longer_tail(drawn(0.01, 0.9)) == MOST


def test_it_is_the_same_end_whichever_way_round_the_animal_is_read(animal: Animal) -> None:
    sample, body = animal.sample, animal.body
    turned = Animal(animal.clip, Sample(sample.frames, sample.states.reversed()), body.reversed(), animal.change, 0.0)
    blunter = blunter_head(animal, turned)
    assert blunter > 0.1  # the simulator's head is blunt
    assert blunter_head(turned, animal) == pytest.approx(-blunter)


def test_the_end_is_where_light_is_wherever_the_body_was_drawn_to(animal: Animal) -> None:
    known = _longer_tail(light_across(animal))
    shorter = resized(animal, 0.95 * animal.body.length, True)
    assert _longer_tail(light_across(shorter)) == pytest.approx(known, abs=0.25)


def test_where_the_body_lies_beside_itself_no_end_is_seen(animal: Animal) -> None:
    width = torch.full((1, CAMERAS, 1, 1), 4.0)
    angle = torch.linspace(-1, 1, VERTICES) * np.pi * (1 + 2 * BEYOND)  # a ring, whose ends meet
    ring = 40 * torch.stack([angle.cos(), angle.sin()], -1).expand(1, CAMERAS, -1, -1)
    hidden = blunter_end._beside_itself(ring, width)[0, 0]
    assert hidden[:16].all() and hidden[-16:].all() and not hidden[50:70].any()
    line = torch.stack([torch.linspace(0, 300, VERTICES), torch.zeros(VERTICES)], -1).expand(1, CAMERAS, -1, -1)
    assert not blunter_end._beside_itself(line, width).any()
