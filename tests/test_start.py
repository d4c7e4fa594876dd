"""The search for the worm: coarse views and fine ones tell the same, and it is found whatever its size."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scenes import BOUNDS, as_float, rig, worm
from torch import Tensor
from torch.nn.functional import avg_pool2d

from midline3d.bench import Drawn, drawn_clip, midline_error
from midline3d.cameras import project, scale
from midline3d.errors import InputError
from midline3d.fitting import warm_up
from midline3d.fitting.start import blurred, coarser, random_starts, refined, search
from midline3d.fitting.views import Views
from midline3d.settings import Settings
from midline3d.synth.scene import Plan, make_scene
from midline3d.tracking import begin
from midline3d.tracking.begin import find_start, searched, size_of, start_pairs
from midline3d.tracking.clip import Clip, balanced

CPU = torch.device("cpu")
SETTINGS = replace(Settings(), start=replace(Settings().start, starts=5, pairs=1, apart=2))
N, SIZE = 32, 48


def quiet(doing: str, done: int, total: int) -> None:
    pass


def test_random_starts_are_short_straight_lines_through_the_middle() -> None:
    cameras = rig(3, SIZE, 30.0).to(torch.float32)
    views = Views(torch.zeros(5, 3, SIZE, SIZE), cameras)
    starts = random_starts(views, 0.3, 0.02, N, torch.Generator().manual_seed(0))
    assert not starts.curvature.any()
    ends = (starts.points[:, -1] - starts.points[:, 0]).norm(dim=-1)
    assert ends.tolist() == pytest.approx([0.3] * 5, rel=1e-4)
    assert starts.points[:, N // 2].abs().max() < 1e-6
    assert torch.allclose(torch.linalg.det(starts.bishop[:, 0]), torch.ones(5))
    assert starts.sigma.flatten().tolist() == pytest.approx([0.02 * 30] * 15, rel=1e-2)


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_coarser_views_show_the_same_curve(factor: int) -> None:
    """A pixel of the coarse image is the mean of those that it covers, and lies in their middle."""
    cameras = rig(3, SIZE, 30.0, distortion=0.5).to(torch.float32)
    images = torch.rand(1, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    state = as_float(replace(worm(1, N), shift=torch.tensor([[1.0, -2.0, 3.0]], dtype=torch.float64)))
    small = coarser(Views(images, cameras), factor)
    fine, coarse = (project(each, state.points, state.shift) for each in (cameras, small.cameras))
    covered = factor * coarse + (factor - 1) / 2
    assert torch.allclose(covered, fine, atol=1e-3)
    assert torch.allclose(small.images, avg_pool2d(images, factor))
    at = small.images[0, 1, 5, 7]
    rows, columns = slice(5 * factor, 6 * factor), slice(7 * factor, 8 * factor)
    assert float(at) == pytest.approx(float(images[0, 1, rows, columns].mean()), rel=1e-5)


def test_blurred_views_keep_their_light_and_its_place() -> None:
    images = torch.zeros(1, 3, SIZE, SIZE)
    images[0, 1, 20, 30] = 5.0
    soft = blurred(Views(images, rig(3, SIZE, 30.0).to(torch.float32)), 2.0).images
    assert float(soft[0, 1].sum()) == pytest.approx(5.0, rel=1e-5) and not soft[0, 0].any()
    place = torch.arange(SIZE, dtype=torch.float32)
    for axis, at in ((1, 20.0), (0, 30.0)):
        share = soft[0, 1].sum(axis) / 5.0
        assert float((share * place).sum()) == pytest.approx(at, abs=1e-3)
        assert float((share * (place - at).square()).sum()) == pytest.approx(4.0, rel=0.05)
    views = Views(images, rig(3, SIZE, 30.0).to(torch.float32))
    assert blurred(views, 0.0) is views


def test_states_of_more_vertices_are_the_same_curve() -> None:
    """Up to a part of a coarse segment: the middle vertices of two even numbers lie that far apart along the body."""
    count = 64
    state = as_float(worm(2, count, seed=4))
    state = replace(state, curvature=0.6 * state.curvature).rebuilt(state.middle())
    fine = refined(state, 2 * count)
    assert fine.vertices == 2 * count and torch.equal(fine.length, state.length)
    for old, new in zip(state.points, fine.points, strict=True):
        segment = 1.0 / (count - 1)
        assert torch.cdist(old, new).amin(1).max() < 0.8 * segment
        assert (old[[0, -1]] - new[[0, -1]]).norm(dim=-1).max() < 0.8 * segment


def test_balanced_images_are_odd_in_the_signal() -> None:
    """Their logarithms, which are what is compared."""
    signal = torch.linspace(0, 30, 301, dtype=torch.float64)
    assert torch.equal(balanced(signal), signal)
    assert torch.allclose(balanced(-signal).log1p(), -signal.log1p(), atol=1e-12)


def clip_of(plan: Plan, window: int, settings: Settings = SETTINGS, shrunk: float = 1.0) -> Clip:
    """A simulated clip; `shrunk`: the world in which it looks the same is so many times as large."""
    prepared = Drawn(make_scene(plan), window)
    prepared.cameras = replace(prepared.cameras, translation=shrunk * prepared.cameras.translation)
    prepared.log.centre[:] *= shrunk
    return Clip.of(prepared, settings, CPU)


def length_px(clip: Clip) -> float:
    """The true length in the view in which it looks longest."""
    assert isinstance(clip.prepared, Drawn)
    return float(np.linalg.norm(np.diff(clip.prepared.truth, axis=2), axis=-1).sum(-1).max())


def per_mm(clip: Clip) -> float:
    return float(scale(clip.cameras, clip.centres([0])[:, None]).mean())


def test_a_search_finds_the_worm_in_a_clean_frame() -> None:
    clip = drawn_clip(Plan("clean", 1, size=256, px_per_mm=80.0, seed=1), SETTINGS, CPU, window=140)
    views, size = clip.plain_views([0]), size_of(clip)
    assert size.length * per_mm(clip) == pytest.approx(length_px(clip), rel=0.25)
    guesses = search(views, size.length, size.sigma, SETTINGS, clip.plain_bounds(), torch.Generator().manual_seed(0))
    assert guesses.loss.shape == (1, 4) and (guesses.loss.diff(dim=1) >= 0).all()
    best = guesses.best(1)
    assert len(best) == 1 and best.vertices == SETTINGS.curve.vertices
    assert midline_error(clip, [0], best) < 2.0
    assert midline_error(clip, [0], searched(clip, [0], size, torch.Generator().manual_seed(0))[0].state) < 0.5


def test_a_coil_is_found_by_most_starts() -> None:
    """Of a worm that meets itself in the pictures; each frame keeps four of its starts."""
    clip = drawn_clip(Plan("coil", 12, size=256, px_per_mm=80.0, seed=4), SETTINGS, CPU, window=140)
    frames, size = [0, 6, 11], size_of(clip)
    views, generator = clip.plain_views(frames), torch.Generator().manual_seed(0)
    guesses = search(views, size.length, size.sigma, SETTINGS, clip.plain_bounds(), generator)
    rows = [frame for frame in frames for _ in range(guesses.loss.shape[1])]
    errors = [midline_error(clip, [frame], guesses.state[[row]]) for row, frame in enumerate(rows)]
    assert sum(error < 3.0 for error in errors) >= 0.75 * len(errors)


def test_the_paper_s_search_finds_the_worm_too() -> None:
    """By Adam, from a short line whose least length grows."""
    adam = replace(SETTINGS.adam, first_steps=120, warm_up=70)
    settings = replace(SETTINGS, adam=adam, start=replace(SETTINGS.start, starts=4))
    clip = drawn_clip(Plan("clean", 1, size=256, px_per_mm=80.0, seed=1), settings, CPU, window=140)
    views, size, generator = clip.plain_views([0]), size_of(clip), torch.Generator().manual_seed(0)
    guesses = warm_up.search(views, size.length, size.sigma, settings, clip.plain_bounds(), generator)
    assert guesses.loss.shape == (1, 4) and (guesses.loss.diff(dim=1) >= 0).all()
    # In fewer steps than it takes to come to rest: a curve that lies elsewhere is twenty off.
    assert midline_error(clip, [0], guesses.best(1)) < 6.0


def test_the_best_of_every_frame() -> None:
    views = Views(torch.zeros(2, 3, SIZE, SIZE), rig(3, SIZE, 30.0).to(torch.float32).local(*origin(2)))
    few = replace(SETTINGS, start=replace(SETTINGS.start, starts=5, kept=3))
    guesses = search(views, 1.0, 0.03, few, BOUNDS, torch.Generator().manual_seed(0))
    best = guesses.best(2)
    rows = [0, 1, 3, 4]
    assert len(best) == 4 and torch.equal(best.points, guesses.state[rows].points)


def origin(frames: int) -> tuple[Tensor, Tensor]:
    return torch.zeros(frames, 3), torch.zeros(frames, 3, 2)


@pytest.mark.parametrize(
    ("plan", "window", "shrunk", "expected"),
    [
        # 0.4 mm long and 60 px; 1.1 mm long and 300 px.
        (Plan("clean", 4, size=192, px_per_mm=55.0, seed=2), 100, 0.36, 0.4),
        (Plan("clean", 4, size=640, px_per_mm=270.0, seed=3), 400, 1.0, 1.1),
    ],
    ids=["larva", "large"],
)
def test_a_worm_of_another_size_is_found_and_confirmed(plan: Plan, window: int, shrunk: float, expected: float) -> None:
    clip = clip_of(plan, window, shrunk=shrunk)
    start = find_start(clip, torch.Generator().manual_seed(0), quiet)
    assert start.confirmed and start.explained > 0.6
    assert float(start.state.length) == pytest.approx(expected, rel=0.1)
    assert midline_error(clip, [start.frame], start.state) < 0.008 * length_px(clip)


def test_pairs_are_far_apart_and_reached_through_located_frames() -> None:
    settings = replace(SETTINGS, start=replace(SETTINGS.start, pairs=2, apart=3))
    clip = clip_of(Plan("clean", 24, size=192, px_per_mm=55.0, seed=2), 100, settings)
    clip.prepared.log.location[10:14] = 2
    rounds = list(start_pairs(clip))
    assert all(len(pairs) <= 2 for pairs in rounds)
    chosen = [pair for pairs in rounds for pair in pairs]
    assert len({pair[0] for pair in chosen}) == len(chosen)
    for pair in chosen:
        assert not {10, 11, 12, 13} & set(range(min(pair), max(pair) + 1))
        assert len(pair) == 1 or abs(pair[1] - pair[0]) == 3
    first = [pair[0] for pair in rounds[0]]
    assert abs(first[0] - first[1]) > 6


def test_a_clearer_start_is_confirmed_by_others_than_its_partner(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worm is found in frames 9 and 12, each paired with one where it is not; something else is found twice."""
    settings = replace(SETTINGS, start=replace(SETTINGS.start, pairs=3, apart=6))
    clip = clip_of(Plan("clean", 24, size=192, px_per_mm=55.0, seed=2), 100, settings)
    nowhere = random_starts(clip.plain_views([0]), 0.3, 0.02, N, torch.Generator().manual_seed(0))
    explained = {3: 0.5, 9: 0.8, 15: 0.6, 21: 0.6, 12: 0.79, 18: 0.5}
    asked = []

    def found(clip: Clip, frames: list[int], *others: object) -> list[begin.Start]:
        return [begin.Start(frame, nowhere, explained[frame]) for frame in frames]

    def confirmed(clip: Clip, pairs: list[list[begin.Start]]) -> list[begin.Start]:
        asked.append([tuple(start.frame for start in pair) for pair in pairs])
        alike = [abs(one.explained - other.explained) < 0.05 for one, other in pairs]
        return [replace(start, confirmed=same) for pair, same in zip(pairs, alike, strict=True) for start in pair]

    monkeypatch.setattr(begin, "start_pairs", lambda clip: iter([[(3, 9), (15, 21), (12, 18)]]))
    monkeypatch.setattr(begin, "searched", found)
    monkeypatch.setattr(begin, "_confirmed", confirmed)
    start = find_start(clip, torch.Generator().manual_seed(0), quiet)
    assert asked == [[(3, 9), (15, 21), (12, 18)], [(9, 12), (12, 9)]]
    assert (start.frame, start.confirmed) == (9, True)
    clip.prepared.log.location[10] = 2  # the worm is not located between them
    assert find_start(clip, torch.Generator().manual_seed(0), quiet).frame == 15


def test_crops_that_show_nothing_are_named() -> None:
    clip = clip_of(Plan("clean", 2, size=192, px_per_mm=55.0, seed=2), 100)
    clip.prepared._images[:] = 0
    with pytest.raises(InputError, match="nothing stands out"):
        size_of(clip)
    clip.prepared.log.location[:] = 2
    with pytest.raises(InputError, match="found in no frame"):
        size_of(clip)
