"""The Triton renderer against the reference: on a GPU if there is one, else tiny scenes by Triton's interpreter."""

import math
import os
import sys

import pytest
import torch

ON_GPU = torch.cuda.is_available()
if not ON_GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read once, when Triton is imported
pytest.importorskip("triton", reason="Triton is not installed: there is no wheel of it for this system")

from midline3d.rendering import Blobs, Objective, Patches, Reference, Rendering, render, select_renderer  # noqa: E402
from midline3d.rendering.gpu import Triton  # noqa: E402

DEVICE = "cuda" if ON_GPU else "cpu"
CUTOFF = 2**-8
# Relative to the largest value of a tensor. float32: a few hundred roundings of sums over a window; the chip's own
# log2 and exp2 are right to 2^-22.
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-10}
# The interpreter is numpy, which warns of the logarithm of no intensity and of the square of a far-off centre.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def scene(dtype, batch=1, cameras=2, vertices=5, height=24, width=20):
    """Blobs in and around the images, some of them cut by an edge; images of noise."""
    generator = torch.Generator().manual_seed(3)

    def uniform(low, high, *shape):
        values = low + (high - low) * torch.rand(*shape, generator=generator, dtype=torch.float64)
        return values.to(dtype).to(DEVICE)

    views = (batch, cameras)
    size = torch.tensor([width, height], device=DEVICE)
    blobs = Blobs(
        uniform(-0.1, 1.1, *views, vertices, 2) * size.to(dtype),
        uniform(1.0, 3.0, *views, vertices),
        uniform(0.3, 0.9, *views, vertices),
        uniform(0.7, 1.5, *views),
    )
    return blobs, uniform(0, 1, *views, height, width)


def assert_same(actual, expected, dtype):
    for name, value in vars(expected).items():
        error = (getattr(actual, name) - value).abs().max() / value.abs().max().clamp(min=1)
        assert error < TOLERANCE[dtype], f"{name}: {error:.2e}"


SCENES = [{}] + ([{"batch": 3, "cameras": 3, "vertices": 77, "height": 97, "width": 113}] if ON_GPU else [])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", SCENES, ids=str)
def test_forward_and_backward_agree_with_the_reference(dtype, sizes):
    blobs, images = scene(dtype, **sizes)
    expected, expected_owner = Reference().forward(blobs, images, CUTOFF)
    actual, owner = Triton().forward(blobs, images, CUTOFF)
    assert_same(actual, expected, dtype)
    assert (owner == expected_owner).float().mean() > 0.999  # two blobs may be equal but for rounding

    upstream = Rendering(torch.sin(9 * images), torch.cos(expected.overlap), torch.sin(expected.mass))
    gradient = Triton().backward(blobs, images, expected_owner, upstream, CUTOFF)
    expected_gradient = Reference().backward(blobs, images, expected_owner, upstream, CUTOFF)
    scale = expected_gradient.abs().amax((0, 1, 2))
    assert ((gradient - expected_gradient).abs() / scale).max() < TOLERANCE[dtype]


@pytest.mark.parametrize(
    ("dtype", "objective"),
    [
        (torch.float32, Objective(CUTOFF, robust=0.125)),
        (torch.float64, Objective(CUTOFF, robust=0.125)),
        (torch.float64, Objective(CUTOFF)),
    ],
)
@pytest.mark.parametrize("sizes", SCENES, ids=str)
def test_products_agree_with_the_reference(dtype, objective, sizes):
    blobs, images = scene(dtype, **sizes)
    actual = Triton().products(blobs, images, objective)
    assert_same(actual, Reference().products(blobs, images, objective), dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_contradicts_the_render_beyond_the_picture(dtype):
    blobs, images = scene(dtype, **SCENES[0])
    height, width = images.shape[-2:]
    picture = torch.tensor([3.0, width - 6.0, -2.0, height / 2], dtype=dtype, device=DEVICE)
    picture = picture.expand(*images.shape[:2], 4).contiguous()
    objective = Objective(CUTOFF, robust=0.125)
    actual = Triton().products(blobs, images, objective, picture)
    assert_same(actual, Reference().products(blobs, images, objective, picture), dtype)


def test_gradients_flow_through_the_operator():
    blobs, images = scene(torch.float64, cameras=1, vertices=3, height=12, width=12)
    blobs = Blobs(*(tensor.requires_grad_() for tensor in blobs.tensors()))
    gradients = []
    for renderer in (Triton(), Reference()):
        rendering = render(blobs, images, CUTOFF, renderer)
        total = (rendering.image - images).square().sum() + (rendering.overlap / (1 + rendering.mass)).sum()
        gradients.append(torch.autograd.grad(total, blobs.tensors()))
    for actual, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)


def corners(dtype, kept=9):
    """Nine blobs, of which the last four are nowhere: two far off, one not a number, one without intensity."""
    centre = [(6, 5), (6, 5), (9, 5), (-1, 13), (60, 5), (1e30, 5), (-1e30, -1e30), (math.nan, 5), (5, 5)]
    iota = [0.75] * 8 + [0.0]
    blobs = Blobs(
        torch.tensor(centre, dtype=dtype, device=DEVICE)[None, None, :kept],
        torch.full((1, 1, kept), 1.5, dtype=dtype, device=DEVICE),
        torch.tensor(iota, dtype=dtype, device=DEVICE)[None, None, :kept],
        torch.full((1, 1), 0.75, dtype=dtype, device=DEVICE),
    )
    images = torch.linspace(0, 1, 14 * 12, dtype=dtype, device=DEVICE).view(1, 1, 14, 12)
    return blobs, images


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_corners_of_the_contract(dtype):
    blobs, images = corners(dtype)
    plain, _ = corners(dtype, kept=5)  # the reference cannot take the rest
    rendering, owner = Triton().forward(blobs, images, CUTOFF)
    expected, expected_owner = Reference().forward(plain, images, CUTOFF)
    torch.testing.assert_close(rendering.image, expected.image)
    assert torch.equal(owner, expected_owner)
    assert owner[0, 0, 5, 6] == 0  # on the centre of two equal blobs
    assert not (owner == 1).any()  # the lowest vertex takes every tie
    assert owner[0, 0, 5, 8] == 2  # beside the centre, where rho < 1 is steep
    assert owner[0, 0, 0, 0] == -1 and rendering.image[0, 0, 0, 0] == 0
    nowhere = [rendering.overlap[..., 4:], rendering.mass[..., 4:]]

    ones = Rendering(*(torch.ones_like(part) for part in vars(rendering).values()))
    gradient = Triton().backward(blobs, images, owner, ones, CUTOFF)
    plain_ones = Rendering(ones.image, ones.overlap[..., :5], ones.mass[..., :5])
    expected_gradient = Reference().backward(plain, images, expected_owner, plain_ones, CUTOFF)
    torch.testing.assert_close(gradient[..., :5, :], expected_gradient, rtol=1e-4, atol=TOLERANCE[dtype])
    nowhere.append(gradient[..., 4:8, :])

    objective = Objective(CUTOFF, robust=0.125)
    products = Triton().products(blobs, images, objective)
    expected_products = Reference().products(plain, images, objective)
    for name in ("gram", "slope", "overlap", "mass"):
        part, expected_part = getattr(products, name), getattr(expected_products, name)
        torch.testing.assert_close(part[:, :, :5], expected_part, rtol=1e-4, atol=TOLERANCE[dtype])
        nowhere.append(part[:, :, 4:])
    assert all(torch.equal(part, torch.zeros_like(part)) for part in nowhere)


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
def test_same_bits_every_time_also_from_a_graph():
    blobs, images = scene(torch.float32, 4, 3, 128, 200, 200)
    objective = Objective(CUTOFF, robust=0.125)
    expected = Triton().products(blobs, images, objective)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        actual = Triton().products(blobs, images, objective)
    graph.replay()
    for name, value in vars(expected).items():
        assert torch.equal(getattr(actual, name), value), name


def test_the_portable_body_stands_in_where_triton_is_missing(monkeypatch):
    choose = select_renderer.__wrapped__  # each time anew
    assert isinstance(choose("cuda"), Triton)
    monkeypatch.setitem(sys.modules, "midline3d.rendering.gpu", None)
    with pytest.warns(UserWarning, match="plain torch"):
        assert isinstance(choose("cuda"), Patches)
