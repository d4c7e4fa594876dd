"""Ends that are drawn where no image shows anything are cut off, those that show are grown."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from test_batch import CPU, FRAMES, quick_settings

from midline3d.bench import drawn_clip
from midline3d.fitting.body import Shared
from midline3d.state import merged
from midline3d.synth.scene import Plan
from midline3d.tracking import seen_ends
from midline3d.tracking.begin import begin
from midline3d.tracking.clip import Clip
from midline3d.tracking.follow import follow
from midline3d.tracking.learning import Animal, Sample, resized
from midline3d.tracking.seen_ends import Ends, as_far_as_seen, left_beyond, unseen_ends


@pytest.fixture(scope="module")
def animal() -> Animal:
    """Of a recording whose cameras are right, so that nothing was learned of them."""
    settings = quick_settings()
    settings = replace(settings, body=replace(settings.body, refine_cameras=False, stretch=0.0))
    clip = drawn_clip(Plan("clean", FRAMES, size=320, px_per_mm=90.0, seed=0), settings, CPU, window=140)
    begun = begin(clip, torch.Generator().manual_seed(0), lambda *_: None)
    frames = [frame for frame in range(FRAMES) if frame >= begun.frame][:6]
    states = merged([each.fit.state for each in follow(begun, frames) if each.fit is not None])
    settings = replace(settings, body=replace(settings.body, stretch=0.02))
    there = replace(begun.clip, settings=settings)
    unchanged = Shared.unchanged(begun.body, clip.cameras.count).cameras
    return Animal(there, Sample(frames, states), begun.body, unchanged, np.inf)


def test_what_shows_is_kept(animal: Animal) -> None:
    unseen = unseen_ends(animal)
    more = left_beyond(animal)
    assert max(unseen.head, unseen.tail, more.head, more.tail) < animal.clip.settings.body.stretch
    assert as_far_as_seen(animal.clip, animal) is animal


@pytest.mark.parametrize("tail", [True, False])
def test_what_does_not_show_is_cut_off(animal: Animal, tail: bool) -> None:
    longer = resized(animal, 1.15 * animal.body.length, tail)
    unseen = unseen_ends(longer)
    drawn_out, other = (unseen.tail, unseen.head) if tail else (unseen.head, unseen.tail)
    assert drawn_out == pytest.approx(0.15 / 1.15, abs=0.03) and other < 0.02
    again = as_far_as_seen(animal.clip, longer)
    assert float(again.body.length) == pytest.approx(float(animal.body.length), rel=0.04)


@pytest.mark.parametrize("tail", [True, False])
def test_what_is_not_drawn_is_grown(animal: Animal, tail: bool) -> None:
    shorter = resized(animal, 0.9 * animal.body.length, tail)
    more = left_beyond(shorter)
    missing, other = (more.tail, more.head) if tail else (more.head, more.tail)
    assert missing > 0.03 and other < 0.02
    again = as_far_as_seen(animal.clip, shorter)
    assert float(again.body.length) == pytest.approx(float(animal.body.length), rel=0.05)


def test_light_beyond_an_end_that_the_body_cannot_take_leaves_its_length_unsure(animal: Animal) -> None:
    shorter = replace(resized(animal, 0.9 * animal.body.length, True), energy=-np.inf)  # none fits as well
    again = as_far_as_seen(animal.clip, shorter)
    assert float(again.body.length) == float(shorter.body.length)
    assert again.body.unsure == pytest.approx(math.hypot(shorter.body.unsure, left_beyond(shorter).tail))


def test_a_body_takes_as_much_of_what_is_left_over_as_is_likely(
    animal: Animal, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorter = replace(resized(animal, 0.9 * animal.body.length, True), energy=0.0)
    half = (1 + left_beyond(shorter).tail / 2) * float(shorter.body.length)

    def dearer_beyond(_: Clip, there: Animal, length: torch.Tensor, tail: bool) -> Animal:
        return replace(resized(there, length, tail), energy=0.0 if float(length) < 1.001 * half else np.inf)

    monkeypatch.setattr(seen_ends, "at_length", dearer_beyond)
    monkeypatch.setattr(seen_ends, "ROUNDS", 1)
    again = as_far_as_seen(animal.clip, shorter)
    assert float(again.body.length) == pytest.approx(half, rel=1e-5)


def test_a_head_that_falls_short_by_less_than_a_step_of_lengths_is_left_as_it_is(
    animal: Animal, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown: list[tuple[float, bool]] = []

    def noted(_: Clip, there: Animal, length: torch.Tensor, tail: bool) -> Animal:
        grown.append((float(length / there.body.length), tail))
        return there

    found = iter([Ends(0.015, 0.01), Ends(0.0, 0.0)])
    monkeypatch.setattr(seen_ends, "left_beyond", lambda _: next(found))
    monkeypatch.setattr(seen_ends, "at_length", noted)
    as_far_as_seen(animal.clip, replace(animal, energy=0.0))
    assert grown == [(pytest.approx(1.01), True)]


def test_what_lies_under_another_part_of_the_body_is_no_tail(animal: Animal, monkeypatch: pytest.MonkeyPatch) -> None:
    shorter = resized(animal, 0.9 * animal.body.length, True)
    everywhere = torch.full_like(animal.clip.signal(animal.sample.frames), 1e3)
    monkeypatch.setattr(seen_ends, "drawn_light", lambda *_: everywhere)
    assert left_beyond(shorter).tail == 0.0


def test_what_noise_may_hide_is_kept(animal: Animal) -> None:
    longer = resized(animal, 1.15 * animal.body.length, True)
    dim = replace(longer.clip, brightness=0.02 * longer.clip.brightness)
    assert unseen_ends(replace(longer, clip=dim)).tail < unseen_ends(longer).tail


def test_a_frame_or_two_do_not_tell(animal: Animal) -> None:
    longer = resized(animal, 1.15 * animal.body.length, True)
    few = Sample(longer.sample.frames[:2], longer.sample.states[:2])
    assert unseen_ends(replace(longer, sample=few)).tail == 0.0 < unseen_ends(longer).tail


def test_nothing_is_cut_off_where_nothing_is_learned(animal: Animal) -> None:
    longer = resized(animal, 1.15 * animal.body.length, True)
    own = animal.clip.settings.body
    for off in (replace(own, learned=False), replace(own, stretch=0.0)):
        fixed = replace(animal.clip, settings=replace(animal.clip.settings, body=off))
        assert as_far_as_seen(fixed, longer) is longer
