"""Each loss term against the paper's sums, written out."""

import math
from dataclasses import fields, replace

import pytest
import torch
from scenes import worm

from midline3d import losses
from midline3d.settings import LossWeights

DOUBLE = torch.float64


def test_pixel_loss_is_a_pyramid_of_squared_logarithms() -> None:
    render, target = torch.rand(2, 2, 3, 5, 5, dtype=DOUBLE)
    expected = torch.zeros(2, dtype=DOUBLE)
    a, b = render, target
    for _ in range(4):  # 5, 3, 2, 1
        expected = expected + (a.log1p() - b.log1p()).square().sum((1, 2, 3))
        padded = [torch.nn.functional.pad(image, (1, 1, 1, 1)) for image in (a, b)]
        a, b = (image.unfold(2, 3, 2).unfold(3, 3, 2).mean((-2, -1)) for image in padded)
    assert torch.allclose(losses.pixel_loss(render, target), expected)
    assert not losses.pixel_loss(render, render).any()


def test_pixel_loss_pulls_from_afar() -> None:
    """A render that does not touch its target yet: only the coarse levels feel which way it is."""
    target = torch.zeros(1, 1, 32, 32, dtype=DOUBLE)
    target[..., 16, 26] = 1

    def at(column: int) -> float:
        render = torch.zeros_like(target)
        render[..., 16, column] = 1
        return float(losses.pixel_loss(render, target))

    assert at(20) < at(14) < at(6)


def test_scores_loss() -> None:
    count = 9
    peaked = 0.1 + torch.rand(2, count, dtype=DOUBLE)
    for frame, found in enumerate(losses.scores_loss(peaked)):
        weighted = sum(float(peaked[frame, n]) * ((2 * n - (count - 1)) / (count - 1)) ** 2 for n in range(count))
        assert float(found) == pytest.approx(float(peaked[frame].max()) * count / weighted)
    wide = torch.ones(1, count, dtype=DOUBLE)
    narrow = wide * torch.tensor([0.1, 0.1, 0.1, 1, 1, 1, 0.1, 0.1, 0.1], dtype=DOUBLE)
    assert losses.scores_loss(wide).item() < losses.scores_loss(narrow).item()


def test_scores_loss_of_nothing_is_nothing_and_so_is_its_gradient() -> None:
    nothing = torch.zeros(1, 9, dtype=DOUBLE, requires_grad=True)
    loss = losses.scores_loss(nothing)
    loss.sum().backward()
    assert loss.item() == 0 and torch.isfinite(nothing.grad).all()


def test_smoothness_and_size() -> None:
    curvature = torch.randn(2, 6, 2, dtype=DOUBLE)
    turns = curvature / 5
    smooth, size = losses.smoothness_loss(curvature), losses.size_loss(curvature)
    for frame in range(2):
        first = sum(float((turns[frame, n] - turns[frame, n - 1]).norm() ** 2) for n in range(1, 6))
        second = sum(float((turns[frame, n] - turns[frame, n - 2]).norm() ** 2) for n in range(2, 6))
        assert float(smooth[frame]) == pytest.approx(first + second / 2)
        assert float(size[frame]) == pytest.approx(float(turns[frame].norm() ** 2))
    assert losses.smoothness_loss(torch.full((1, 128, 2), 3.0, dtype=DOUBLE)).item() == 0


def test_temporal_loss_counts_every_change() -> None:
    state = worm()
    assert losses.temporal_loss(state, state).item() == 0
    for name, change, expected in (
        ("length", 0.1, 0.01),
        ("curvature", 31.0, 2 * 32),
        ("points", 0.2, 3 * 0.04),
        ("shift", 5.0, 3 * 0.25),
        ("rho", state.rho * 0.1, 3 * 0.01),
    ):
        other = replace(state, **{name: getattr(state, name) + change})
        assert losses.temporal_loss(other, state).item() == pytest.approx(expected), name


def test_intersections_loss() -> None:
    count, circles, generator = 12, 3.0, torch.Generator().manual_seed(0)
    points = 0.05 * torch.randn(2, count, 3, dtype=DOUBLE, generator=generator)
    radius = 0.02 + 0.02 * torch.rand(2, count, dtype=DOUBLE, generator=generator)
    found = losses.intersections_loss(points, radius, circles)
    for frame in range(2):
        expected = 0.0
        for n in range(count):
            for m in range(n + int(count / circles), count):
                d = float((points[frame, n] - points[frame, m]).norm())
                allowed = float(radius[frame, n] + radius[frame, m])
                expected += allowed / d if d < allowed else 0.0
        assert float(found[frame]) == pytest.approx(expected)
        assert expected > 0


def test_a_straight_worm_meets_itself_nowhere() -> None:
    straight = torch.zeros(1, 128, 3, dtype=DOUBLE)
    straight[0, :, 0] = torch.linspace(0, 1, 128)
    assert losses.intersections_loss(straight, torch.full((1, 128), 0.04, dtype=DOUBLE), 3.0).item() == 0


def test_the_total_is_a_weighted_sum() -> None:
    names = [item.name for item in fields(losses.Losses)]
    forms = {"pixel_form", "second_neighbours"}  # how two of the terms are written, beside their weights
    assert set(names) == {item.name for item in fields(LossWeights)} - forms
    terms = losses.Losses(*(torch.tensor([float(k + 1)]) for k in range(len(names))))
    weights = LossWeights(**{name: 10.0**k for k, name in enumerate(names)})
    assert terms.weighted(weights).total().item() == pytest.approx(sum((k + 1) * 10.0**k for k in range(len(names))))
    assert math.isfinite(terms.total().item())
