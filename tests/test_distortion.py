"""What a lens does to an image is undone, and told where it cannot be."""

import cv2
import numpy as np
import pytest
import torch

from midline3d.distortion import distorted, slopes, undistorted

EPS = 4 * np.finfo(np.float64).eps
LENSES = [
    (0.0, 0.0, 0.0, 0.0, 0.0),
    (-0.3, 0.1, 1e-3, -2e-3, 0.02),
    (3.0, 0.0, 0.0, 0.0, 0.0),
    (30.0, 0.0, 0.01, 0.0, 0.0),
    (-1.9, 0.0, 0.0, 0.0, 0.0),
]
"""The last folds at 0.42."""


def points() -> tuple[np.ndarray, np.ndarray]:
    """Some within 0.4 of the middle."""
    radius, angle = np.meshgrid(np.linspace(0, 0.4, 9), np.linspace(0, 6, 13))
    return (radius * np.cos(angle)).ravel(), (radius * np.sin(angle)).ravel()


@pytest.mark.parametrize("lens", LENSES)
def test_undistorting_gives_back_what_was_distorted(lens: tuple[float, ...]) -> None:
    x, y = points()
    back = undistorted(*distorted(x, y, *lens), lens, EPS)
    assert np.abs(np.stack(back) - np.stack([x, y])).max() < 1e-12
    tensors = undistorted(*distorted(torch.tensor(x), torch.tensor(y), *lens), lens, EPS)
    assert np.abs(torch.stack(tensors).numpy() - np.stack(back)).max() < 1e-12


def test_it_is_opencvs_distortion() -> None:
    x, y = points()
    space = np.stack([x, y, np.ones_like(x)], -1)
    seen = cv2.projectPoints(space, np.zeros(3), np.zeros(3), np.eye(3), np.array(LENSES[1]))[0][:, 0]
    assert np.abs(np.stack(distorted(x, y, *LENSES[1]), -1) - seen).max() < 1e-12


def test_slopes_are_the_derivatives() -> None:
    x, y = (torch.tensor(each, requires_grad=True) for each in points())
    u, v = distorted(x, y, *LENSES[1])
    xx, xy, yy = slopes(x, y, *LENSES[1])
    by_u = torch.autograd.grad(u.sum(), (x, y), retain_graph=True)
    by_v = torch.autograd.grad(v.sum(), (x, y))
    for known, found in zip((*by_u, *by_v), (xx, xy, xy, yy), strict=True):
        assert torch.allclose(known, found, atol=1e-12)


def test_a_place_beyond_a_fold_comes_out_at_the_fold() -> None:
    """The lens shows nothing farther out than at 0.28, which it shows of 0.42."""
    lens = LENSES[-1]
    u, v = np.array([0.5, 0.0, 5.0, 0.1]), np.array([0.0, -0.9, 5.0, 0.1])
    x, y = undistorted(u, v, lens, EPS)
    assert np.hypot(x, y)[:3] == pytest.approx(3 * [(3 * 1.9) ** -0.5], rel=1e-3)
    assert np.stack(distorted(x, y, *lens))[:, 3] == pytest.approx([0.1, 0.1])
