"""Tapers: what they do at the tips, and their derivatives against automatic differentiation."""

from dataclasses import replace

import pytest
import torch
from scenes import relative, rig, worm
from torch import Tensor

from midline3d.appearance import (
    KNOTS,
    BlobAppearance,
    Optics,
    PaperTaper,
    Profile,
    Shape,
    Taper,
    ViewAppearance,
    optics,
    shape_derivatives,
)
from midline3d.fitting.body import TIPS, Body, average_body
from midline3d.settings import Settings

DOUBLE = torch.float64
N, C = 32, 3


def flat(batch: int = 1) -> Optics:
    """Everything across the line of sight and in focus."""
    even = torch.ones(batch, C, N, dtype=DOUBLE)
    return Optics(even, 0 * even)


def views(sigma: float = 3.0, iota: float = 0.8, defocus: float = 0.0, batch: int = 1) -> ViewAppearance:
    even = torch.ones(batch, C, dtype=DOUBLE)
    return ViewAppearance(sigma * even, iota * even, defocus * even)


def profile(lopsided: bool = True) -> Taper:
    body = average_body(Settings().body, torch.tensor(1.1, dtype=DOUBLE))
    if lopsided:
        shape = replace(body.shape, head_share=torch.tensor(0.12).double(), tail_share=torch.tensor(0.3).double())
        body = replace(body, shape=shape)
    return body.profile(N, torch.tensor([40.0, 41.0, 39.0], dtype=DOUBLE), 0.5)


def tapers() -> list[Taper]:
    return [PaperTaper(N, 1.5, 0.15), profile()]


def test_the_papers_taper() -> None:
    appearance = PaperTaper(51, 1.5, 0.15).apply(views(), Optics(*torch.ones(2, 1, C, 51, dtype=DOUBLE)))
    for values, least, most in ((appearance.sigma[0, 0], 1.5, 3.0), (appearance.iota[0, 0], 0.15, 0.8)):
        assert values[0].item() == pytest.approx(least) and values[-1].item() == pytest.approx(least)
        assert values[10:41].tolist() == pytest.approx([most] * 31)
        assert values[:11].tolist() == pytest.approx([least + (most - least) * n / 10 for n in range(11)])
        assert torch.allclose(values, values.flip(0))


def test_a_view_thinner_than_the_minimum_keeps_its_own() -> None:
    appearance = PaperTaper(N, 1.5, 0.15).apply(views(sigma=1.0, iota=0.1), flat())
    assert appearance.sigma.unique().tolist() == [1.0] and appearance.iota.unique().tolist() == pytest.approx([0.1])


def test_the_animals_own_taper() -> None:
    appearance = profile(lopsided=False).apply(views(), flat())
    middle = N // 2
    # The body's middle has the view's own width and brightness; tips are thinner and fainter; both ends alike.
    assert appearance.sigma[0, :, middle].tolist() == pytest.approx([3.0] * C, rel=1e-2)
    assert appearance.iota[0, :, middle].tolist() == pytest.approx([0.8] * C, rel=1e-2)
    assert (appearance.sigma[..., [0, -1]] < appearance.sigma[..., [middle]]).all()
    assert (appearance.iota[..., [0, -1]] < 0.3 * appearance.iota[..., [middle]]).all()
    tail = N - 1 - N // 10
    assert (appearance.sigma[..., N // 10] > appearance.sigma[..., tail]).all(), "the head is the blunter end"


def test_the_same_worm_read_from_either_end() -> None:
    body = average_body(Settings().body, torch.tensor(1.1, dtype=DOUBLE))
    shape = replace(body.shape, head_share=torch.tensor(0.1).double(), tail_opacity=torch.tensor(1.4).double())
    shape = replace(shape, tissue=torch.linspace(-0.2, 0.3, len(shape.tissue)).double())
    scales = torch.tensor([40.0, 41.0, 39.0], dtype=DOUBLE)
    there = replace(body, shape=shape).profile(N, scales, 0.5).apply(views(), flat())
    turned = {
        name.replace("head", "tail") if "head" in name else name.replace("tail", "head"): value
        for name, value in vars(shape).items()
    }
    turned["tissue"] = shape.tissue.flip(0)
    back = replace(body, shape=Shape(**turned)).profile(N, scales, 0.5).apply(views(), flat())
    assert torch.allclose(there.sigma, back.sigma.flip(-1)) and torch.allclose(there.iota, back.iota.flip(-1))


def test_a_tail_may_end_in_a_stub() -> None:
    """It is bright right before its end, and then over; the other half of the body knows nothing of it."""
    body = average_body(Settings().body, torch.tensor(1.1, dtype=DOUBLE))
    stub = replace(body, shape=replace(body.shape, tail_tip=torch.tensor(0.25).double()))
    scales, fine = torch.full((C,), 100.0, dtype=DOUBLE), torch.ones(1, C, 128, dtype=DOUBLE)
    pointed, blunt = (each.profile(128, scales, 0.5).apply(views(2.1), Optics(fine, 0 * fine)) for each in (body, stub))
    assert (pointed.iota[..., 125] < 0.15 * pointed.iota[..., 112]).all()
    assert (blunt.iota[..., 125] > 0.35 * blunt.iota[..., 112]).all()
    assert (blunt.iota[..., -1] < 1e-3).all() and (blunt.sigma >= pointed.sigma).all()
    assert torch.allclose(blunt.iota[..., :64], pointed.iota[..., :64])


def test_blur_spreads_the_light_and_keeps_it() -> None:
    """Out of focus a part is wider and fainter; what it takes away, sigma times iota across it, hardly changes."""
    sharp, blurred = (profile().apply(views(sigma=sigma), flat()) for sigma in (2.0, 6.0))
    assert (blurred.sigma > sharp.sigma).all()
    ratio = (blurred.sigma * blurred.iota) / (sharp.sigma * sharp.iota)
    inner = slice(N // 3, 2 * N // 3)
    assert torch.allclose(ratio[..., inner], ratio[..., [N // 2]], rtol=0.1)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("sigma", [2.0, 4.0])
def test_derivatives_by_view(kind: int, sigma: float) -> None:
    taper, cameras, state = tapers()[kind], rig(), worm()
    seen = optics(cameras, state.points, state.bishop[..., 0])
    base = views(sigma=sigma, iota=0.8, defocus=0.6)

    def appearance(values: Tensor) -> Tensor:
        view = ViewAppearance(
            base.sigma * values[:, 0].exp(), base.iota * values[:, 1].exp(), base.defocus + values[:, 2]
        )
        there: BlobAppearance = taper.apply(view, seen)
        return torch.stack([there.sigma[0], there.iota[0]], -1)

    slopes = torch.autograd.functional.jacobian(appearance, torch.zeros(C, 3, dtype=DOUBLE))
    own = torch.stack([slopes[c, :, :, c] for c in range(C)])
    found = taper.apply(base, seen).by_view[0]
    inner = slice(N // 4, N // 2)
    assert relative(found[:, inner], own[:, inner]) < 1e-9
    # How far blur moves the last visible part of a tip is held fixed within a step.
    assert relative(found, own) < 0.2


def test_optics() -> None:
    cameras = rig()
    points = torch.zeros(1, 2, 3, dtype=DOUBLE)
    points[0, :, 2] = torch.tensor([-0.3, 0.3], dtype=DOUBLE).double()
    along_z = torch.tensor([[[0.0, 0.0, 1.0]] * 2], dtype=DOUBLE)
    seen = optics(cameras, points, along_z, longest=3.0)
    # Seen end on in the first view, from the side in the others.
    assert seen.stretch[0, :, 0].tolist() == pytest.approx([3.0, 1.0, 1.0])
    assert seen.beyond[0, 0].tolist() == pytest.approx([-0.3, 0.3], abs=1e-9)
    assert seen.beyond[0, 1:].abs().max() < 1e-9


@pytest.mark.parametrize("stub", [0.0, 3.0])
def test_looks_by_the_bodys_numbers(stub: float) -> None:
    """Against differences, for views in focus and out of it, sharper than the body can be and blurred; of a body that
    ends in points, and of one that ends in stubs."""
    generator = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=DOUBLE)

    numbers = average_body(Settings().body, torch.tensor(1.1, dtype=DOUBLE)).numbers()
    numbers = numbers + 0.1 * noise(len(numbers))
    numbers[len(KNOTS) :][TIPS] += stub
    scales = torch.tensor([100.0, 110.0, 90.0], dtype=DOUBLE)
    view = ViewAppearance(
        torch.tensor([[2.5, 4.0, 1.0], [3.0, 2.2, 5.0]], dtype=DOUBLE), noise(2, C).exp(), 3 * noise(2, C)
    )
    seen = Optics(1 + noise(2, C, N).abs(), 0.2 * noise(2, C, N))

    def taper(values: Tensor) -> Profile:
        return Body.of(values).profile(N, scales, 0.5)

    def appearance(values: Tensor) -> Tensor:
        there = taper(values).apply(view, seen)
        return torch.stack([there.sigma, there.iota], -1)

    found = shape_derivatives(taper(numbers), view, seen)
    assert found.shape[-1] == len(numbers) - 1
    for number, move in enumerate(1e-6 * torch.eye(len(numbers), dtype=DOUBLE)[:-1]):
        right = (appearance(numbers + move) - appearance(numbers - move)) / 2e-6
        assert torch.allclose(found[..., number], right, atol=1e-7), number
