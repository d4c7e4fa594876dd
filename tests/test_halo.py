"""Scattered light: found where there is some, taken off, and not made up where there is none."""

from __future__ import annotations

import pytest
import torch
from midline3d.tracking.halo import scattering, without

from midline3d.shapes import Tensor

WIDTH = 4.0


def bodies(places: list[float]) -> Tensor:
    """A bent bar of brightness 1 in two views, (batch, camera, w, w), a frame for each place."""
    across = torch.arange(96.0)
    y, x = torch.meshgrid(across, across, indexing="ij")
    frames = []
    for place in places:
        middle = 48 + place + 18 * torch.sin((x - 48) / 22 + place)
        bar = torch.exp(-((y - middle) ** 2) / (2 * WIDTH**2)) * torch.sigmoid((30 - (x - 48).abs()) / 2)
        frames.append(torch.stack([bar, bar.mT]))
    return torch.stack(frames)


def ghost(images: Tensor, share: float, by: tuple[int, int]) -> Tensor:
    return images + share * torch.roll(images, by, (2, 3))


PLACES = [-6.0, -2.0, 1.0, 5.0]


def test_a_ghost_is_found_and_taken_off() -> None:
    right = bodies(PLACES)
    seen = ghost(right, 0.12, (0, 14))
    kernel = scattering(seen, right, WIDTH)
    assert kernel is not None
    assert kernel.sum((1, 2)).tolist() == pytest.approx([0.12, 0.12], abs=0.05)
    beside = right < 0.05
    before, after = ((each - right)[beside].square().mean().sqrt() for each in (seen, without(seen, kernel)))
    assert after < 0.6 * before


def test_only_the_view_that_scatters_is_changed() -> None:
    right = bodies(PLACES)
    seen = right.clone()
    seen[:, 1] = ghost(right, 0.15, (10, 10))[:, 1]
    kernel = scattering(seen, right, WIDTH)
    assert kernel is not None and not kernel[0].any() and kernel[1].any()
    assert torch.equal(without(seen, kernel)[:, 0], seen[:, 0])


def test_dirt_is_no_ghost() -> None:
    right = bodies(PLACES)
    seen = right.clone()
    seen[..., 20:26, 40:46] += 0.8
    seen[..., 70:75, 60:64] += 0.6
    assert scattering(seen, right, WIDTH) is None


def test_none_where_the_images_are_right() -> None:
    right = bodies(PLACES)
    noise = 0.02 * torch.randn(right.shape, generator=torch.Generator().manual_seed(0))
    assert scattering(right + noise, right, WIDTH) is None
