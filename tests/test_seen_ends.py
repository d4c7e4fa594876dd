"""Ends that are drawn where no image shows anything are cut off, those that show are grown."""

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
from midline3d.tracking.seen_ends import FADES, OPEN, Ends, as_far_as_seen, fading_ends, left_beyond, unseen_ends


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
    assert as_far_as_seen(animal.clip, animal).body.length is animal.body.length


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
    assert again.body.unsure[1] >= left_beyond(shorter).tail


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


def test_an_end_whose_light_fades_gently_is_known_less_surely(animal: Animal, monkeypatch: pytest.MonkeyPatch) -> None:
    fading = fading_ends(animal)
    known = as_far_as_seen(animal.clip, animal).body.unsure
    px = float(animal.body.length) * animal.clip.prepared.scale
    assert fading is not None and 1 < px * fading.head < 5 and 1 < px * fading.tail < 5
    assert known == pytest.approx((OPEN[0] * (fading.head - 1 / px), OPEN[1] * (fading.tail - 1 / px)))
    sharp = seen_ends.light_of
    blurred = torch.nn.AvgPool2d(9, stride=1, padding=4)
    monkeypatch.setattr(seen_ends, "light_of", lambda there: blurred(sharp(there)))
    gently = fading_ends(animal)
    assert gently is not None and gently.head > 1.5 * fading.head and gently.tail > 1.5 * fading.tail


def test_a_head_that_may_be_the_tail_is_known_as_little_as_a_tail(animal: Animal) -> None:
    known, other, open_to_both = (as_far_as_seen(animal.clip, animal, right).body.unsure for right in (1.0, 0.0, 0.5))
    assert other == pytest.approx((known[0] * OPEN[1] / OPEN[0], known[1] * OPEN[0] / OPEN[1]))
    assert known[0] < open_to_both[0] < other[0] and other[1] < open_to_both[1] < known[1]


def test_an_end_is_known_by_its_light_wherever_the_body_was_drawn_to(animal: Animal) -> None:
    fading, shorter = fading_ends(animal), fading_ends(resized(animal, 0.95 * animal.body.length, True))
    assert fading is not None and shorter is not None
    assert shorter.tail == pytest.approx(fading.tail, rel=0.3)


def test_a_frame_or_two_leave_what_is_known_of_the_length(animal: Animal) -> None:
    few = Sample(animal.sample.frames[:2], animal.sample.states[:2])
    body = replace(animal.body, unsure=(0.03, 0.03))
    there = replace(animal, sample=few, body=body)
    assert fading_ends(there) is None and as_far_as_seen(animal.clip, there).body.unsure == (0.03, 0.03)


def test_light_falls_between_two_vertices() -> None:
    light = np.array([0.2, 0.1, 0.05, 0.03, 0.002, 0.0])
    assert seen_ends._falls_to(light, FADES[0]) == pytest.approx(2.0)
    assert seen_ends._falls_to(light, 0.04) == pytest.approx(2.5)
    assert seen_ends._falls_to(light, 1.0) == 0.0 and seen_ends._falls_to(light, -1.0) == 5.0
