"""Scores, masks and centre-shift against loops that follow the paper word for word."""

import pytest
import torch
from torch import Tensor

from midline3d import scoring
from midline3d.rendering import Blobs, render
from midline3d.rendering.reference import blob_stack

DOUBLE = torch.float64


def blobs(batch: int = 2, cameras: int = 3, vertices: int = 9, size: int = 24, seed: int = 0) -> tuple[Blobs, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=DOUBLE)

    made = Blobs(
        centre=size * draw(batch, cameras, vertices, 2),
        sigma=1 + 2 * draw(batch, cameras, vertices),
        iota=0.2 + draw(batch, cameras, vertices),
        rho=0.8 + draw(batch, cameras),
    )
    return made, draw(batch, cameras, size, size)


def test_raw_scores() -> None:
    made, images = blobs()
    stack = blob_stack(made, images.shape[-2:])
    found = scoring.raw_scores(render(made, images, 1e-9).overlap, made)
    for frame in range(2):
        for n in range(9):
            by_view = [
                float((stack[frame, c, n] * images[frame, c]).sum() / (made.sigma * made.iota)[frame, c, n])
                for c in range(3)
            ]
            assert float(found[frame, n]) == pytest.approx(min(by_view), rel=1e-6)


@pytest.mark.parametrize("count", [7, 8])
def test_single_peak_and_relative(count: int) -> None:
    raw = torch.rand(3, count, dtype=DOUBLE)
    expected = raw.clone()
    middle = count // 2
    for n in range(middle - 1, -1, -1):
        expected[:, n] = torch.minimum(raw[:, n], expected[:, n + 1])
    for n in range(middle + 1, count):
        expected[:, n] = torch.minimum(raw[:, n], expected[:, n - 1])
    found = scoring.single_peak(raw)
    assert torch.equal(found, expected)
    assert scoring.relative(found).amax(1).tolist() == [1.0] * 3


def test_a_curve_that_meets_nothing_scores_nothing() -> None:
    nothing = scoring.relative(scoring.single_peak(torch.zeros(1, 8, dtype=DOUBLE)))
    assert torch.equal(nothing, torch.zeros(1, 8, dtype=DOUBLE))
    assert scoring.imbalance(nothing).item() == 0
    assert scoring.centre_shift(nothing, 0.05, 2).item() == 0


def test_masks_reach_the_threshold_where_the_worm_is() -> None:
    made, images = blobs()
    shares = torch.rand(2, 9, dtype=DOUBLE)
    stack = blob_stack(made, images.shape[-2:])
    # Normalised by the peak: divided by its sum no pixel would reach the threshold.
    peaks = (stack / made.iota[..., None, None] * shares[:, None, :, None, None]).amax(2)
    mask = render(scoring.mask_blobs(made, shares), images, 1e-9).image
    assert torch.allclose(mask, peaks, atol=1e-7)
    target = scoring.masked(images, mask, 0.1, 0.2)
    assert torch.equal(target, torch.where(mask >= 0.1, images, 0.2 * images))
    assert (mask >= 0.1).any() and (mask < 0.1).any()


def test_masks_pass_no_gradient() -> None:
    made, _ = blobs()
    made.sigma.requires_grad_()
    assert not any(part.requires_grad for part in scoring.mask_blobs(made, torch.rand(2, 9, dtype=DOUBLE)).tensors())


def test_imbalance_and_centre_shift() -> None:
    shares = torch.zeros(4, 100, dtype=DOUBLE)
    shares[0, 20:80] = 1  # in the middle
    shares[1, 50:] = 1  # towards the tail by 25
    shares[2, :50] = 1  # towards the head
    shares[3, 23:83] = 1  # hardly off
    assert scoring.imbalance(shares).tolist() == pytest.approx([0, 25, -25, 3])
    assert scoring.centre_shift(shares, 0.05, 2).tolist() == [0, 2, -2, 0]
    assert scoring.centre_shift(shares, 0.01, 30).tolist() == [0, 25, -25, 3]
