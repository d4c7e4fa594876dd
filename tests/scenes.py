"""Small rigs, worms and pictures that tests of the method share."""

import math

import torch
from torch import Tensor

from midline3d import curve
from midline3d.cameras import Cameras, make_cameras
from midline3d.state import Bounds, FrameState

BOUNDS = Bounds(length=(0.3, 3.0), sigma=(0.5, 25.0), iota=(0.01, 30.0), rho=(0.6, 6.0), defocus=8.0, circles=3.0)
VIEWS = (
    ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
    ((1.0, 0.0, 0.0), (0.0, 0.0, -1.0)),
    ((0.0, 0.0, 1.0), (0.0, 1.0, 0.0)),
    ((0.5**0.5, 0.0, -(0.5**0.5)), (-(6**-0.5), 2 * 6**-0.5, -(6**-0.5))),
)
"""Right and down of each camera."""


def rig(count: int = 3, size: int = 64, px_per_mm: float = 40.0, distortion: float = 0.0) -> Cameras:
    """Cameras that look at the origin from 1.2 m, float64."""
    depth = 1200.0
    right, down = (torch.tensor([view[side] for view in VIEWS[:count]], dtype=torch.float64) for side in (0, 1))
    rotation = torch.stack([right, down, torch.linalg.cross(right, down)], 1)
    matrix = torch.eye(3, dtype=torch.float64).repeat(count, 1, 1)
    matrix[:, 0, 0] = matrix[:, 1, 1] = px_per_mm * depth
    matrix[:, :2, 2] = (size - 1) / 2
    bent = torch.tensor([0.3, -0.1, 0.02, -0.03, 0.05], dtype=torch.float64) * distortion
    return make_cameras(matrix, bent.repeat(count, 1), rotation, torch.tensor([[0.0, 0.0, depth]] * count).double())


def worm(batch: int = 1, vertices: int = 32, cameras: int = 3, seed: int = 0) -> FrameState:
    """Smoothly bent worms of 1 mm about the origin, float64."""
    generator = torch.Generator().manual_seed(seed)
    place = torch.linspace(0, 1, vertices, dtype=torch.float64)
    waves = torch.stack([torch.sin(math.pi * k * place + k) for k in range(1, 4)])
    weights = 4 * torch.randn(batch, 2, 3, generator=generator, dtype=torch.float64)
    curvature = (weights @ waves).mT
    frames = torch.linalg.qr(torch.randn(batch, 3, 3, generator=generator, dtype=torch.float64)).Q
    frames = frames * torch.linalg.det(frames)[:, None, None]
    length = torch.full((batch,), 1.0, dtype=torch.float64)
    middle = torch.full((batch,), vertices // 2)
    made = curve.integrate(torch.zeros(batch, 3, dtype=torch.float64), frames, curvature, length, middle)
    even = torch.ones(batch, cameras, dtype=torch.float64)
    return FrameState(
        points=made.points,
        bishop=made.bishop,
        curvature=curvature,
        length=length,
        shift=torch.zeros(batch, 2 * cameras - 3, dtype=torch.float64),
        sigma=1.6 * even + 0.1 * torch.arange(cameras),
        iota=0.9 * even,
        rho=1.15 * even,
        defocus=0.0 * even,
    )


def as_float(state: FrameState) -> FrameState:
    return FrameState(**{name: value.float() for name, value in vars(state).items()})


def relative(found: Tensor, right: Tensor) -> float:
    """Largest difference as a share of the largest value."""
    return float((found - right).abs().max() / right.abs().max().clamp(min=1e-300))
