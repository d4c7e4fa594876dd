"""The worm's size by its silhouette, of bars that are drawn of a known length and thickness."""

import pytest
import torch
from torch import Tensor

from midline3d.tracking.silhouette import worm_size

SIZE = 160


def bar(length: float, sigma: float, turn: float = 0.4) -> Tensor:
    """(w, w): a straight body of brightness 1, its profile a Gaussian, blunt at one end, pointed at the other; px."""
    across = torch.arange(float(SIZE)) - SIZE / 2
    y, x = torch.meshgrid(across, across, indexing="ij")
    turned = torch.tensor(turn)
    along, beside = x * turned.cos() + y * turned.sin(), y * turned.cos() - x * turned.sin()
    place = along / length + 0.5
    head, tail = ((1 - (1 - (end / share).clamp(0, 1)) ** 2) for end, share in ((place, 0.17), (1 - place, 0.28)))
    width = sigma * head**0.55 * tail**0.85
    return torch.exp(-beside.square() / (2 * width.clamp(min=1e-3).square()))


@pytest.mark.parametrize("sigma", [2.5, 4.0, 7.0])
@pytest.mark.parametrize("length", [80.0, 130.0])
def test_a_bar(length: float, sigma: float) -> None:
    images = torch.stack([bar(length, sigma, turn) for turn in (0.0, 0.4, 1.1)])[None]
    size = worm_size(images, torch.full((3,), 100.0))
    assert size is not None
    assert size.length == pytest.approx(length / 100, rel=0.15)
    assert size.sigma == pytest.approx(sigma / 100, rel=0.15)


def test_the_longest_view_counts_and_dirt_does_not() -> None:
    images = torch.stack([bar(30.0, 4.0), bar(100.0, 4.0)])
    images[:, 5:9, 5:9] = 1.0
    size = worm_size(images[None], torch.tensor([50.0, 100.0]))
    assert size is not None and size.length == pytest.approx(1.0, rel=0.15)


def test_frames_without_a_worm() -> None:
    faint = 0.2 * torch.rand(2, 2, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    assert worm_size(faint, torch.ones(2)) is None
    some = worm_size(torch.cat([faint[:1], bar(90.0, 4.0).expand(1, 2, -1, -1)]), torch.full((2,), 100.0))
    assert some is not None and some.length == pytest.approx(0.9, rel=0.15)
