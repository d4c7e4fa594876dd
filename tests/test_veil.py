"""Scattered light: found where there is some, taken off, and not made up where there is none."""

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter, shift
from scipy.signal import fftconvolve
from torch import Tensor

from midline3d.tracking.veil import Veil, learn_veil

WIDTH, NOISE = 3.0, 0.004
PLACES = [-6.0, -2.0, 1.0, 5.0]


def bodies() -> Tensor:
    """A bent bar of brightness 1 in two views, (batch, camera, w, w), a frame for each place."""
    across = torch.arange(96.0)
    y, x = torch.meshgrid(across, across, indexing="ij")
    frames = []
    for place in PLACES:
        middle = 48 + place + 14 * torch.sin((x - 48) / 22 + place)
        bar = torch.exp(-((y - middle) ** 2) / (2 * WIDTH**2)) * torch.sigmoid((24 - (x - 48).abs()) / 2)
        frames.append(torch.stack([bar, bar.mT]))
    return torch.stack(frames)


def ghost(images: Tensor, share: float, by: tuple[float, float], blur: float) -> Tensor:
    """The images' light again, moved and blurred, by scipy."""
    moved = shift(images.double().numpy(), (0, 0, *by), order=3, mode="constant")
    return share * torch.from_numpy(gaussian_filter(moved, (0, 0, blur, blur))).float()


def noise(images: Tensor) -> Tensor:
    return NOISE * torch.randn(images.shape, generator=torch.Generator().manual_seed(0))


def learned(seen: Tensor, right: Tensor) -> Veil:
    return learn_veil(seen, right, NOISE + 0.1 * right, WIDTH, 0.01)


def place_of(kernel: Tensor, cell: int) -> np.ndarray:
    """(v, u) px of a kernel's centre of mass."""
    half = kernel.shape[-1] // 2
    rows, columns = np.mgrid[-half : half + 1, -half : half + 1]
    mass = kernel.double().numpy()
    return cell * np.array([(mass * rows).sum(), (mass * columns).sum()]) / mass.sum()


def test_a_known_veil_is_found() -> None:
    """One view scatters to the right, the other all around."""
    right = bodies()
    seen = right + noise(right)
    seen[:, 0] += ghost(right, 0.12, (0.0, 4 * WIDTH), 0.45 * 4 * WIDTH)[:, 0]
    seen[:, 1] += ghost(right, 0.08, (0.0, 0.0), 4 * WIDTH)[:, 1]
    veil = learned(seen, right)
    assert veil.shares() == pytest.approx([0.12, 0.08], abs=0.02)
    assert place_of(veil.kernel[0], veil.cell) == pytest.approx([0.0, 4 * WIDTH], abs=0.25 * WIDTH)
    assert place_of(veil.kernel[1], veil.cell) == pytest.approx([0.0, 0.0], abs=0.6 * WIDTH)
    beside = right < 0.05
    before, after = ((each - right)[beside].square().mean().sqrt() for each in (seen, veil.removed(seen)))
    assert after < 1.2 * NOISE and before > 1.7 * NOISE


def test_no_veil_is_made_up() -> None:
    right = bodies()
    assert max(learned(right + noise(right), right).shares()) < 0.005


def test_dirt_is_no_veil() -> None:
    right = bodies()
    seen = right + noise(right)
    seen[..., 20:26, 40:46] += 0.8
    seen[..., 70:75, 60:64] += 0.6
    assert max(learned(seen, right).shares()) < 0.02


def test_what_is_scattered_is_taken_off_up_to_the_third_power() -> None:
    """S + V * S goes to S + V * V * V * S, convolved here by scipy."""
    sharp = bodies()[:1].double()
    rows, columns = np.mgrid[-15:16, -15:16]
    kernels = [np.exp(-((rows - 3) ** 2 + columns**2) / 40), np.exp(-(rows**2 + (columns + 6) ** 2) / 18)]
    kernels = [share * kernel / kernel.sum() for share, kernel in zip((0.1, 0.2), kernels, strict=True)]

    def scattered(images: Tensor) -> Tensor:
        views = [fftconvolve(images[0, view].numpy(), kernel, mode="same") for view, kernel in enumerate(kernels)]
        return torch.from_numpy(np.stack(views))[None]

    found = Veil(torch.from_numpy(np.stack(kernels)), cell=1).removed(sharp + scattered(sharp))
    assert torch.allclose(found - sharp, scattered(scattered(scattered(sharp))), atol=1e-9)
    for view, share in enumerate((0.1, 0.2)):
        assert (found - sharp)[0, view].abs().max() <= share**3


def test_a_veil_is_kept_as_it_is() -> None:
    veil = learned(bodies() + ghost(bodies(), 0.1, (9.0, 0.0), 4.0), bodies())
    again = Veil.of_json(veil.as_json())
    assert again.cell == veil.cell and torch.equal(again.kernel, veil.kernel)
