"""The rule of Levenberg and Marquardt, and that it is one."""

import math

import pytest
import torch

from midline3d.fitting import body, second_order
from midline3d.fitting.damping import Damping


def test_an_improvement_eases_and_all_else_raises() -> None:
    rule = Damping(first=1e-3, least=1e-6, most=1e4, eased=0.2, raised=8.0)
    before = torch.tensor([2.0, 2.0, 2.0, math.inf])
    after = torch.tensor([1.0, 2.0, math.nan, 5.0])
    better = rule.better(before, after)
    assert better.tolist() == [True, False, False, True]
    assert rule.next(torch.full((4,), 0.5), better).tolist() == pytest.approx([0.1, 4.0, 4.0, 0.1])


def test_it_stays_within_its_ends() -> None:
    rule = Damping(least=1e-3, most=10.0)
    damping = torch.tensor([1e-3, 10.0])
    assert rule.next(damping, torch.tensor([True, False])).tolist() == pytest.approx([1e-3, 10.0])


def test_it_finds_the_minimum_of_a_curved_valley() -> None:
    """Rosenbrock's function, whose normal equations are written here alone."""
    rule, place = Damping(), torch.tensor([-1.2, 1.0], dtype=torch.float64)
    damping = torch.tensor(rule.first, dtype=torch.float64)

    def residual(at: torch.Tensor) -> torch.Tensor:
        return torch.stack([10 * (at[1] - at[0] ** 2), 1 - at[0]])

    for _ in range(60):
        jacobian = torch.autograd.functional.jacobian(residual, place)
        hessian, slope = jacobian.T @ jacobian, jacobian.T @ residual(place)
        step = -torch.linalg.solve(hessian + damping * torch.diag(hessian.diagonal()), slope)
        better = rule.better(residual(place).square().sum(), residual(place + step).square().sum())
        damping, place = rule.next(damping, better), torch.where(better, place + step, place)
    assert torch.allclose(place, torch.ones(2, dtype=torch.float64), atol=1e-8)


def test_frames_and_bodies_follow_the_same_rule() -> None:
    one, other = second_order.DAMPING, body.DAMPING
    assert (one.first, one.most, one.eased, one.raised) == (other.first, other.most, other.eased, other.raised)
