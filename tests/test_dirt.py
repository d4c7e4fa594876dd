"""Light that stays where it is while the body moves on: found, kept, taken off; and ends that lay on it."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scenes import as_float, worm

from midline3d.errors import InputError
from midline3d.fitting.body import average_body
from midline3d.population.score import score
from midline3d.settings import DirtSettings, Settings
from midline3d.synth import Plan, simulate
from midline3d.tracking import caught_ends, clip
from midline3d.tracking.checkpoint import plain, whole
from midline3d.tracking.cleaning import changed_by, frames_to_clean
from midline3d.tracking.dirt import Dirt, LeftOver, find_dirt, further_on, straight_on
from midline3d.tracking.learning import Animal, Sample
from midline3d.tracking.masks import averaged, grown, grown_in_cells, squares_around
from midline3d.tracking.reconstruct import Job, reconstruct

SIZE, FRAMES = 40, 12
SPECK = (slice(18, 22), slice(24, 28))
"""Rows and columns of a speck of 50 grey levels, in the crops of the first frame."""


def passing(step: int) -> tuple[torch.Tensor, np.ndarray]:
    """What a body leaves over that passes a speck from left to right, its crops moving along by `step` px a frame."""
    left = torch.zeros(FRAMES, 1, SIZE, SIZE)
    places = np.zeros((FRAMES, 1, 2), np.int64)
    for frame in range(FRAMES):
        places[frame, 0, 0] = step * frame
        rows, columns = SPECK
        left[frame, 0, rows, columns.start - step * frame : columns.stop - step * frame] = 50.0
        body = 3 * frame - step * frame
        left[frame, 0, 15:25, max(0, body) : body + 6] = torch.nan
    return left, places


def found(left: torch.Tensor, places: np.ndarray, **changed: int) -> Dirt:
    return dirt_of(left, places, torch.zeros(FRAMES, 1, 2, 2, 2), **changed)


def dirt_of(left: torch.Tensor, places: np.ndarray, ways: torch.Tensor, **changed: int) -> Dirt:
    """By what lies over, where nothing lies beyond an end but within 3 px of its way."""
    settings = replace(DirtSettings(), **changed)
    frames, near = list(range(FRAMES)), torch.ones_like(left, dtype=torch.bool)
    beyond = torch.stack([_along(way) for way in ways.unbind(2)], 2)
    over = LeftOver(frames, places, left, beyond, ways, near, torch.tensor([2.0]))
    return find_dirt(over, frames, settings, settings.reach)


def _along(ways: torch.Tensor) -> torch.Tensor:
    """(frame, camera, w, w) pixels around ways (frame, camera, 2, 2); none around those of no length."""
    steps = torch.linspace(0, 1, 16)[:, None]
    points = ways[:, :, :1] + steps * (ways[:, :, 1:] - ways[:, :, :1])
    there = (ways[:, :, 1] - ways[:, :, 0]).norm(dim=-1) > 0
    return squares_around(points, SIZE, 3) & there[..., None, None]


def swinging(speck: bool, swing: float) -> tuple[torch.Tensor, torch.Tensor]:
    """What is left over above an end that swings from side to side, up to which light reaches that is not drawn: a
    speck's, which stays, or the animal's own."""
    generator = torch.Generator().manual_seed(4)
    left = 2 * torch.randn(FRAMES, 1, SIZE, SIZE, generator=generator)
    ways = torch.zeros(FRAMES, 1, 2, 2, 2)
    for frame in range(FRAMES):
        u = 20 + round(swing * math.sin(frame))
        left[frame, 0, 25:, u - 3 : u + 4] = torch.nan
        ways[frame, 0, 1] = torch.tensor([[u, 24.0], [u, 14.0]])
        at = 20 if speck else u
        left[frame, 0, 17:22, at - 2 : at + 3] += 40
    return left, ways


@pytest.mark.parametrize(("speck", "swing", "is_dirt"), [(True, 4.0, True), (False, 4.0, False), (True, 0.0, False)])
def test_light_beyond_an_end_is_dirt_where_it_stays_while_the_end_moves(
    speck: bool, swing: float, is_dirt: bool
) -> None:
    """And where the end does not move either, nothing tells."""
    left, ways = swinging(speck, swing)
    places = np.zeros((FRAMES, 1, 2), np.int64)
    light = dirt_of(left, places, ways).in_crops(5, places[5])
    taken = 0.0 if light is None else float(light[0, 17:22, 18:23].mean())
    assert (taken > 30) if is_dirt else (taken < 2)


@pytest.mark.parametrize("step", [0, 1])
def test_what_stays_is_dirt_also_where_the_body_lies(step: int) -> None:
    left, places = passing(step)
    dirt = found(left, places)
    for frame in range(FRAMES):
        light = dirt.in_crops(frame, places[frame])
        assert light is not None
        rows, columns = SPECK
        there = light[0, rows, columns.start - step * frame : columns.stop - step * frame]
        assert torch.equal(there, torch.full_like(there, 48.0)), "less the noise"
        assert float(light.sum()) == 48.0 * there.numel(), "and nothing else"


def test_what_moves_along_with_the_body_is_not() -> None:
    left, places = passing(0)
    left[:, 0, 18:22, 24:28] = 0.0
    for frame in range(FRAMES):  # the light of a tail that is not drawn, right behind the body
        left[frame, 0, 18:22, 3 * frame + 6 : 3 * frame + 10] = 50.0
    assert all(found(left, places).in_crops(frame, places[frame]) is None for frame in range(FRAMES))


def test_a_pixel_that_is_hardly_ever_free_says_nothing() -> None:
    left, places = passing(0)
    left[3:, 0, 18:22, 24:28] = torch.nan
    dirt = found(left, places)
    assert all(dirt.in_crops(frame, places[frame]) is None for frame in range(FRAMES))
    assert found(left, places, free=3).in_crops(0, places[0]) is not None


def test_dirt_speaks_for_the_frames_around_it_and_in_their_crops() -> None:
    light = torch.zeros(2, 2, 8, 8)
    light[0, 1, 3, 4], light[1, 0, 0, 0] = 7.4, 300.0
    places = np.array([[[10, 20], [30, 40]], [[11, 20], [30, 41]]])
    dirt = Dirt.of([5, 30], places, light, reach=3)
    assert dirt.in_crops(9, places[0]) is None and dirt.in_crops(8, places[0]) is not None
    shifted = dirt.in_crops(5, places[0] + np.array([1, -2]))
    assert shifted is not None and shifted.nonzero().tolist() == [[1, 5, 3]] and float(shifted.max()) == 7.0
    bright = dirt.in_crops(31, places[1])
    assert bright is not None and float(bright.max()) == 255.0
    nothing: Any = SimpleNamespace(device=torch.device("cpu"))
    again = whole(plain(dirt), nothing)
    for name, value in vars(dirt).items():
        kept = getattr(again, name)
        assert torch.equal(kept, value) if isinstance(value, torch.Tensor) else kept == value
    joined = Dirt.joined([Dirt.of([5], places[:1], light[:1], 3), Dirt.of([30], places[1:], light[1:], 3)])
    assert all(
        torch.equal(getattr(joined, name), getattr(dirt, name)) for name in ("frames", "first", "pixel", "light")
    )


def test_a_result_gives_its_dirt_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dirt = Dirt.of([5], np.zeros((1, 1, 2), np.int64), torch.full((1, 1, 4, 4), 9.0), reach=0)
    kept: dict[str, Any] = plain(dirt)
    monkeypatch.setattr(clip.Result, "kept_in", lambda folder, name: kept)
    again = clip._kept_dirt(tmp_path)
    assert again is not None and torch.equal(again.light, dirt.light) and again.window == 4
    kept = {"frames": np.arange(3), "window": 200}
    with pytest.raises(InputError, match="another version of midline3d; reconstruct it again, with --redo"):
        clip._kept_dirt(tmp_path)


def test_a_window_that_begins_elsewhere() -> None:
    window = torch.arange(9.0).view(3, 3)
    assert further_on(window, [1, 0]).tolist() == [[1, 2, 0], [4, 5, 0], [7, 8, 0]]
    assert further_on(window, [0, -2]).tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 2]]
    assert not further_on(window, [3, 0]).any()


def test_straight_on_from_both_ends() -> None:
    state = as_float(worm(2, 41, seed=3))
    points = straight_on(state, 0.2)
    count = points.shape[1] // 2
    for end, outward, part in ((0, -1, points[:, :count]), (-1, 1, points[:, count:])):
        way = part - state.points[:, [end]]
        tangent = outward * state.bishop[:, end, :, 0]
        assert torch.allclose(way[:, -1], 0.2 * state.length[:, None] * tangent, atol=1e-5)
        assert torch.allclose(way[:, 0], way[:, -1] / count, atol=1e-5), "in even steps"


def test_pixels_around_points() -> None:
    seen = torch.tensor([[[[2.2, 5.0], [-30.0, 4.0], [torch.nan, 0.0]]]])
    there = squares_around(seen, 9, 1)
    assert there[0, 0].nonzero().tolist() == [[v, u] for v in (4, 5, 6) for u in (1, 2, 3)]
    assert torch.equal(grown(there, 0), there)


def test_pixels_around_points_at_the_border_and_outside() -> None:
    generator = torch.Generator().manual_seed(3)
    points = 50 * torch.rand(2, 3, 8, 2, generator=generator) - 10
    there = squares_around(points, 31, 4)
    v, u = torch.meshgrid(torch.arange(31), torch.arange(31), indexing="ij")
    near = (points.round()[..., None, None, :] - torch.stack([u, v], -1)).abs().amax(-1) <= 4
    assert torch.equal(there, near.any(2))


@pytest.mark.parametrize("size", [(21, 30), (16, 1), (1, 1)])
def test_means_over_neighbours_are_those_of_torch(size: tuple[int, int]) -> None:
    images = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1))
    right = torch.nn.functional.avg_pool2d(images, 3, stride=1, padding=1, count_include_pad=False)
    assert torch.equal(averaged(images), right), "to the last bit"


def test_parts_of_what_is_left_over_are_joined_in_time() -> None:
    left, places = passing(1)
    ways, near = torch.zeros(FRAMES, 1, 2, 2, 2), torch.ones_like(left, dtype=torch.bool)
    beyond = torch.zeros(FRAMES, 1, 2, SIZE, SIZE, dtype=torch.bool)
    noise = torch.tensor([2.0])
    whole = LeftOver(list(range(FRAMES)), places, left, beyond, ways, near, noise)
    parts = [
        LeftOver(whole.frames[part], places[part], left[part], beyond[part], ways[part], near[part], noise)
        for part in (slice(0, 5), slice(5, 9), slice(9, 12))
    ]
    joined = LeftOver.joined(parts, 2, 10)
    assert joined.frames == list(range(2, 11)) and np.array_equal(joined.places, places[2:11])
    assert torch.equal(joined.light.nan_to_num(-1), left[2:11].nan_to_num(-1)) and joined.near.shape == left[2:11].shape


def test_pixels_around_a_mask() -> None:
    mask = torch.zeros(1, 2, 21, 30, dtype=torch.bool)
    mask[0, 0, 9, 12] = True
    near = grown(mask, 2)
    assert near[0, 0].nonzero().tolist() == [[v, u] for v in range(7, 12) for u in range(10, 15)]
    assert not near[0, 1].any()
    # The pixel's cell has its first pixel at (8, 12); two cells more on every side, cut off where the picture ends.
    coarse = grown_in_cells(mask, 8.0)
    assert coarse.shape == mask.shape and not coarse[0, 1].any()
    assert coarse[0, 0].nonzero().tolist() == [[v, u] for v in range(20) for u in range(4, 24)]


class _Clip(SimpleNamespace):
    """As much of a clip as choosing frames asks for."""

    def __len__(self) -> int:
        return 100


def test_frames_around_those_that_leave_light_over_are_cleaned() -> None:
    clip: Any = _Clip(settings=Settings(), dirt=None)
    left = dict.fromkeys(range(0, 100, 2), 0.1)
    assert frames_to_clean(clip, left) == []
    left[40] = 0.5
    assert frames_to_clean(clip, left) == list(range(0, 81, 2))
    light, place = torch.zeros(1, 1, 4, 4), np.zeros((1, 1, 2), np.int64)
    known: Any = _Clip(settings=Settings(), dirt=Dirt.of([90], place, light, reach=4))
    assert frames_to_clean(known, left) == [*range(0, 81, 2), 86, 88, 90, 92, 94], "those that had some taken off, too"
    off: Any = _Clip(settings=replace(Settings(), dirt=DirtSettings(removed=False)), dirt=None)
    assert frames_to_clean(off, left) == []


def test_only_frames_whose_light_changes_clearly_are_fitted_again() -> None:
    count, size = 3, 20
    place = np.zeros((count, 2, 2), np.int64)
    before, after = torch.zeros(count, 2, size, size), torch.zeros(count, 2, size, size)
    before[:, 1, 4:6, 4:6] = 40.0
    after[0], after[1] = before[0], before[1]
    after[1, 0, 3, 3] = 2.0
    after[2, 0, 8:16, 8:16] = 60.0
    old, new = (Dirt.of([5, 6, 7], place, light, reach) for light, reach in ((before, 9), (after, 0)))
    clip: Any = SimpleNamespace(
        settings=Settings(),
        dirt=old,
        brightness=torch.tensor([100.0, 100.0]),
        places=lambda frames: place[: len(frames)],
    )
    beginning: Any = SimpleNamespace(clip=clip, taper=SimpleNamespace(sharp=torch.tensor([2.0, 2.0])))
    kept, changed = changed_by(beginning, new)
    assert changed == [7] and kept.reach == 0
    for frame, right in ((5, before[0]), (6, before[1]), (7, after[2])):
        light = kept.in_crops(frame, place[0])
        assert light is not None and torch.equal(light, right), frame


@pytest.mark.parametrize(("gained", "length"), [(100.0, 0.7), (10.0, 1.0)])
def test_an_end_comes_off_where_the_rest_leaves_clearly_less_over(
    gained: float, length: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings()
    states = as_float(worm(1, 41, seed=3))
    body = average_body(settings.body, torch.tensor(1.0))
    monkeypatch.setattr(caught_ends, "with_dirt", lambda animal: animal)
    monkeypatch.setattr(caught_ends, "_doubtful", lambda animal, tail, _: tail and float(animal.body.length) == 1.0)

    def fitted(clip: Any, animal: Animal, iterations: int, settled: float) -> Animal:
        shorter = float(animal.body.length) < 1
        return replace(animal, energy=-gained * caught_ends.nat(settings) if shorter else 0.0)

    monkeypatch.setattr(caught_ends, "fitted", fitted)
    clip: Any = SimpleNamespace(settings=settings)
    animal = Animal(clip, Sample([0], states), body, torch.zeros(3, 4), 5.0)
    found = caught_ends.without_dirt(clip, animal)
    assert float(found.body.length) == pytest.approx(length)
    assert float(found.sample.states.length) == pytest.approx(length * float(states.length))


@pytest.mark.long
def test_an_end_beside_dirt_is_the_worms_own(tmp_path: Path) -> None:
    """A larva whose tail lies beside drifting dirt in every view: it was drawn a third too long, on through it."""
    simulate(tmp_path / "recording", Plan("varied", frames=40, size=512, seed=80))
    reconstruct(Job(tmp_path / "recording", tmp_path / "out", Settings()), lambda *_: None)
    frames = score(tmp_path / "out", tmp_path / "recording" / "truth.nc")
    assert np.nanmean(frames.midline) < 0.4 and np.nanmean(frames.ends) < 3
    assert frames.wrong.sum() <= 4
