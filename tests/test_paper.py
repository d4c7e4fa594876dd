"""The paper's method end to end, and the switches that lead from the default to it, one by one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import midline3d
from midline3d import Plan, Settings, load_settings, open_result, simulate
from midline3d.errors import InputError
from midline3d.recording import load_recording, prepare
from midline3d.settings import NAMED
from midline3d.tracking import begin, follow, learning, paper, repair
from midline3d.tracking.begin import Beginning
from midline3d.tracking.clip import Clip
from midline3d.tracking.reconstruct import Job, reconstruct

FRAMES = 3
FEWER_STEPS = {"start": {"starts": 3, "polish": 1}, "adam": {"first_steps": 110, "warm_up": 80, "steps": 30}}


def quiet(doing: str, done: int, total: int) -> None:
    pass


def changed(settings: Settings, changes: dict[str, dict[str, Any]]) -> Settings:
    return replace(settings, **{name: replace(getattr(settings, name), **each) for name, each in changes.items()})


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = Plan("clean", FRAMES, size=256, px_per_mm=80.0, seed=1, source="npy")
    return simulate(tmp_path_factory.mktemp("clean") / "worm", plan)


@pytest.fixture(scope="module")
def clip(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Clip:
    prepared = prepare(load_recording(recording), Settings().locating, tmp_path_factory.mktemp("crops"))
    return Clip.of(prepared, Settings(), torch.device("cpu"))


@pytest.fixture(scope="module")
def sample(clip: Clip) -> learning.Sample:
    """The animal in all frames, by a quick search."""
    quick = replace(clip, settings=changed(Settings(), {"start": {"starts": 5, "confirmed": False, "pairs": 1}}))
    start = begin.find_start(quick, torch.Generator().manual_seed(0), quiet)
    return begin.follow_sample(quick, start.frame, start.state, quiet)


def beginning(clip: Clip, sample: learning.Sample) -> Beginning:
    return begin._as_found(clip, begin.Start(sample.frames[0], sample.states[[0]], 1.0), clip.device)


def test_the_papers_method_end_to_end(recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a single step of second order."""
    for module in (begin, follow, learning, repair):
        for name in ("fit", "learn", "search"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, lambda *_: pytest.fail("second order has no part in the paper"))
    settings = changed(load_settings("paper"), FEWER_STEPS)
    reconstruct(Job(recording, tmp_path / "out", settings), quiet)
    found = open_result(tmp_path / "out")
    assert set(found.status.values.tolist()) <= {"ok", "suspect"}
    figures = midline3d.evaluate_truth(tmp_path / "out", recording / "truth.nc").summary()
    assert figures["midline_px"] < 1.5 and figures["ends_px"] < 12
    assert found.attrs["head_confidence"] == 0.5 and "length_std" not in found.attrs
    terms = {name for name in found.data_vars if str(name).startswith("loss_")}
    assert {"loss_scores", "loss_temporal", "loss_intersections"} <= terms
    assert (found.loss_size == 0).all() and (found.loss_pixels > 0).all() and np.abs(found["shift"].values).max() > 0


def test_paper_is_found_by_its_name_and_a_file_of_that_name_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = load_settings("paper")
    assert named == load_settings(NAMED["paper"]) == midline3d.api.chosen_settings("paper")
    assert named.tracking.fitter == named.start.search == "adam" and not named.body.learned
    Path("paper").write_text("[start]\nstarts = 3\n", encoding="utf-8")
    assert load_settings("paper").start.starts == 3
    with pytest.raises(InputError, match=r"^papr: there is no such file, nor .* that name; .*: paper$"):
        load_settings("papr")


@pytest.mark.parametrize("switch", ["learned", "refine_cameras", "veil"])
def test_what_is_not_to_be_learned_stays(clip: Clip, sample: learning.Sample, switch: str) -> None:
    settings = changed(clip.settings, {"body": {switch: False, "iterations": 3, "first_iterations": 2, "rounds": 1}})
    animal = learning.learned(replace(clip, settings=settings), sample)
    average = learning.average_body(settings.body, sample.states.length.median()).numbers()
    same = {
        "learned": torch.allclose(animal.body.numbers(), average, atol=1e-4),
        "refine_cameras": bool(animal.change.abs().max() < 1e-6),
        "veil": animal.clip.veil is None,
    }
    assert same == {name: name == switch for name in same}


def test_nothing_is_tried_again_without_recovery(
    clip: Clip, sample: learning.Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    for name in ("_fitted_softly", "_fitted_from_many"):
        real = getattr(follow, name)
        monkeypatch.setattr(follow, name, lambda *given, name=name, real=real: tried.append(name) or real(*given))
    # Nothing is ever ok.
    never = {"judging": {"doubt": 0.0, "beyond": 0.0, "unbacked": 0.0}}
    for recovery in (True, False):
        settings = changed(clip.settings, {**never, "tracking": {"recovery": recovery}})
        there = beginning(replace(clip, settings=settings), sample)
        assert len(list(follow.follow(there, sample.frames[1:2]))) == 1
        assert bool(tried) is recovery
        tried.clear()


def test_other_starts_are_tried_ever_less_often_in_frames_that_stay_uncertain(
    clip: Clip, sample: learning.Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed, tried = [0], list[int]()
    real = follow._fitted_from_many
    monkeypatch.setattr(follow, "_fitted_from_many", lambda *given: tried.append(passed[0]) or real(*given))
    # However well a frame is known, that is not enough.
    there = beginning(replace(clip, settings=changed(clip.settings, {"judging": {"doubt": 0.0}})), sample)
    frames = [sample.frames[1 + place % 2] for place in range(8)]
    for tracked in follow.follow(there, frames):
        assert (tracked.status, tracked.reason) == ("suspect", "uncertain")
        passed[0] += 1
    assert tried == [0, 1, 3, 6]


@pytest.mark.parametrize("switch", ["second_look", "mend", "turn", "recovery"])
def test_what_is_not_to_be_put_right_stays(
    clip: Clip, sample: learning.Sample, switch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    parts = {"second_look": "searched_again", "mend": "_mended", "turn": "head_votes", "recovery": "_closed"}
    answers: dict[str, Any] = {"searched_again": (), "_mended": (set(), {}), "head_votes": {}, "_closed": {}}
    for name, answer in answers.items():
        monkeypatch.setattr(repair, name, lambda *_, name=name, answer=answer: done.append(name) or answer)
    settings = changed(clip.settings, {"tracking": {switch: False}})

    class Nothing:
        """A result without a frame."""

        last = 0

        def read(self, frame: int) -> None: ...
        def kept(self, name: str) -> None: ...
        def keep(self, name: str, content: object) -> None: ...
        def note(self, **facts: object) -> None: ...
        def flush(self) -> None: ...

    repair.put_right(beginning(replace(clip, settings=settings), sample), Nothing(), quiet)  # type: ignore[arg-type]
    assert set(done) == set(parts.values()) - {parts[switch]}


def test_a_held_look_is_held(clip: Clip, sample: learning.Sample) -> None:
    held = {"held_sigma": (3.0, 4.0, 5.0), "held_iota": (0.7, 0.8, 0.9), "held_rho": (1.0, 1.1, 1.2)}
    settings = changed(load_settings("paper"), {"adam": {**held, "steps": 5}})
    there = replace(clip, settings=settings)
    state = paper.descended(there, sample.frames[0], sample.states[[0]]).state
    assert state.sigma[0].tolist() == pytest.approx(held["held_sigma"])
    assert (state.iota / there.contrast)[0].tolist() == pytest.approx(held["held_iota"])
    assert state.rho[0].tolist() == pytest.approx(held["held_rho"])
    with pytest.raises(InputError, match=r"'adam.held_rho' has 1 numbers for 3 cameras; give one for each camera"):
        paper.descended(
            replace(clip, settings=changed(settings, {"adam": {"held_rho": (1.0,)}})),
            sample.frames[0],
            sample.states[[0]],
        )
