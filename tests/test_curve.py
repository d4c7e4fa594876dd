"""The curve against closed forms."""

import math

import pytest
import torch
from torch import Tensor

from midline3d import curve

N = 128
DOUBLE = torch.float64


def helix(kappa: float, tau: float, length: float, count: int = N) -> tuple[Tensor, Tensor, Tensor]:
    """Points, frame at vertex 0 and curvature K of a helix; kappa and tau per body length."""
    turning = math.hypot(kappa, tau)
    radius, rise = kappa / turning**2, tau / turning**2
    s = torch.linspace(0, 1, count, dtype=DOUBLE)
    angle = turning * s
    points = torch.stack([radius * angle.cos(), radius * angle.sin(), rise * angle], -1) * length
    tangent = torch.tensor([0, radius * turning, rise * turning], dtype=DOUBLE)
    normal = torch.tensor([-1.0, 0, 0], dtype=DOUBLE)
    frame = torch.stack([tangent, normal, torch.linalg.cross(tangent, normal)], -1)
    # kappa and the integral of tau are polar coordinates of (m1, m2).
    curvature = kappa * torch.stack([(tau * s).cos(), (tau * s).sin()], -1)
    return points, frame, curvature


def along(points: Tensor, frame: Tensor, curvature: Tensor, length: float, dtype: torch.dtype = DOUBLE) -> curve.Curve:
    return curve.integrate(
        points[:1].to(dtype),
        frame[None].to(dtype),
        curvature[None].to(dtype),
        torch.tensor([length], dtype=dtype),
        torch.tensor([0]),
    )


def smooth(batch: int = 4, count: int = N, seed: int = 0, size: float = 8.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    place = torch.linspace(0, 1, count, dtype=DOUBLE)
    waves = torch.stack([torch.sin(math.pi * k * place + k) for k in range(1, 5)])
    return (size * torch.randn(batch, 2, 4, generator=generator, dtype=DOUBLE) @ waves).mT


@pytest.mark.parametrize("circles", [0.25, 1.0, 3.0])
def test_circle(circles: float) -> None:
    points, frame, curvature = helix(2 * math.pi * circles, 0.0, 1.3)
    made = along(points, frame, curvature, 1.3)
    assert (made.points[0] - points).norm(dim=-1).max() < 1e-4 * 1.3
    if circles == 1.0:
        assert (made.points[0, -1] - made.points[0, 0]).norm() < 1e-6


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-4), (torch.float32, 1e-4)])
@pytest.mark.parametrize(("kappa", "tau"), [(6.0, 4.0), (12.0, -9.0), (18.0, 6.0), (2.0, 20.0)])
def test_helix(kappa: float, tau: float, dtype: torch.dtype, tolerance: float) -> None:
    points, frame, curvature = helix(kappa, tau, 1.1)
    made = along(points, frame, curvature, 1.1, dtype)
    assert (made.points[0].double() - points).norm(dim=-1).max() < tolerance * 1.1
    eye = made.bishop.mT @ made.bishop
    assert (eye - torch.eye(3, dtype=dtype)).abs().max() < (1e-10 if dtype == DOUBLE else 1e-5)


def test_any_start_gives_the_same_curve() -> None:
    curvature = smooth()
    whole = curve.integrate(
        torch.randn(4, 3, dtype=DOUBLE),
        torch.eye(3, dtype=DOUBLE).repeat(4, 1, 1),
        curvature,
        torch.ones(4, dtype=DOUBLE),
        torch.zeros(4, dtype=torch.long),
    )
    for start in (1, 40, 64, N - 1):
        again = curve.integrate(
            whole.points[:, start],
            whole.bishop[:, start],
            curvature,
            torch.ones(4, dtype=DOUBLE),
            torch.full((4,), start),
        )
        assert torch.allclose(again.points, whole.points, atol=1e-12)
        assert torch.allclose(again.bishop, whole.bishop, atol=1e-12)


def test_recover_is_the_inverse_of_integrate() -> None:
    curvature, lengths = smooth(size=4.0), torch.tensor([0.6, 1.0, 1.4, 2.0], dtype=DOUBLE)
    start = torch.zeros(4, dtype=torch.long)
    made = curve.integrate(
        torch.zeros(4, 3, dtype=DOUBLE), torch.eye(3, dtype=DOUBLE).repeat(4, 1, 1), curvature, lengths, start
    )
    found, frame, length = curve.recover(made.points)
    assert torch.allclose(length, lengths, rtol=1e-5)
    assert (found.norm(dim=-1) - curvature.norm(dim=-1)).abs().max() < 0.02
    again = curve.integrate(made.points[:, 0], frame, found, length, start)
    assert ((again.points - made.points).norm(dim=-1).amax(1) / lengths).max() < 1e-4


def test_reversed_is_the_same_curve_from_the_other_end() -> None:
    curvature = smooth()
    ones = torch.ones(4, dtype=DOUBLE)
    made = curve.integrate(
        torch.zeros(4, 3, dtype=DOUBLE),
        torch.eye(3, dtype=DOUBLE).repeat(4, 1, 1),
        curvature,
        ones,
        torch.zeros(4, dtype=torch.long),
    )
    other = curve.integrate(
        made.points[:, -1],
        curve.reversed_bishop(made.bishop[:, -1]),
        curve.reversed_curvature(curvature),
        ones,
        torch.zeros(4, dtype=torch.long),
    )
    # Not to the last digit: a chord is the fourth-order one of its walk, and the walks differ.
    assert (other.points.flip(1) - made.points).abs().max() < 1e-4
    assert (curve.reversed_bishop(other.bishop.flip(1)) - made.bishop).abs().max() < 1e-6


@pytest.mark.parametrize("by", [-5, -1, 0, 3])
def test_shifted_falls_to_zero_at_the_new_end(by: int) -> None:
    count = 16
    curvature = torch.randn(1, count, 2, dtype=DOUBLE)
    moved = curve.shifted(curvature, torch.tensor([by]))[0]
    for n in range(count):
        wanted = n + by
        if 0 <= wanted < count:
            assert torch.equal(moved[n], curvature[0, wanted])
        else:
            beyond = wanted - (count - 1) if by > 0 else -wanted
            last = curvature[0, -1 if by > 0 else 0]
            assert torch.allclose(moved[n], last * (1 - beyond / abs(by)))
    if by:
        assert not moved[-1 if by > 0 else 0].any()


def test_bounded_shortens_and_keeps_direction() -> None:
    curvature = 40 * torch.randn(3, N, 2, dtype=DOUBLE)
    inside = curve.bounded(curvature, 3.0)
    limit = 6 * math.pi
    assert inside.norm(dim=-1).max() <= limit * (1 + 1e-12)
    short = curvature.norm(dim=-1) < limit
    assert torch.equal(inside[short], curvature[short])
    assert (inside[..., 0] * curvature[..., 1] - inside[..., 1] * curvature[..., 0]).abs().max() < 1e-9


def test_rotations() -> None:
    turn = torch.randn(5, 3, dtype=DOUBLE)
    matrix = curve.rotation_exp(turn)
    assert torch.allclose((matrix @ turn[..., None]).squeeze(-1), turn)
    assert torch.allclose(matrix.diagonal(dim1=1, dim2=2).sum(-1), 1 + 2 * turn.norm(dim=-1).cos())
    for small in (1e-9, 0.5):
        turned = small * torch.nn.functional.normalize(turn, dim=-1)
        assert torch.allclose(curve.rotation_log(curve.rotation_exp(turned)), turned, rtol=1e-6, atol=1e-15)
    frame = curve.orthonormal(matrix + 0.05 * torch.randn(5, 3, 3, dtype=DOUBLE))
    assert torch.allclose(frame.mT @ frame, torch.eye(3, dtype=DOUBLE).expand(5, 3, 3), atol=1e-12)
    assert torch.allclose(torch.linalg.det(frame), torch.ones(5, dtype=DOUBLE))


@pytest.mark.parametrize("straight", [False, True])
def test_gradients_of_integrate(straight: bool) -> None:
    curvature = smooth(2, 9) * (0.0 if straight else 1.0)
    inputs = (
        torch.randn(2, 3, dtype=DOUBLE),
        torch.linalg.qr(torch.randn(2, 3, 3, dtype=DOUBLE)).Q,
        curvature,
        torch.tensor([0.9, 1.2], dtype=DOUBLE),
    )
    inputs = tuple(value.detach().requires_grad_() for value in inputs)
    start = torch.tensor([0, 5])

    def integrated(*values: Tensor) -> tuple[Tensor, Tensor]:
        made = curve.integrate(*values, start)
        return made.points, made.bishop

    assert torch.autograd.gradcheck(integrated, inputs)
