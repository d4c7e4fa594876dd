"""The renderer: the reference against plain loops, every renderer against it, and each corner of the contract."""

import math
import warnings
from functools import partial

import numpy as np
import pytest
import torch

from midline3d.rendering import (
    Blobs,
    Compiled,
    Objective,
    Patches,
    Reference,
    Rendering,
    covered,
    cpu,
    operator,
    products,
    reference,
    render,
    select_renderer,
)

CUTOFF = 3e-3
# Largest error of a tensor, relative to its largest value. float32: the one in C reads exp(-x^rho) from a table
# that is right to 1e-6, and sums thousands of pixels; float64 is rounding alone.
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-11}
DTYPES = list(TOLERANCE)
RHOS = [0.6, 1.0, 1.3, 2.5]
# (batch, cameras, vertices, height, width): odd sizes, smaller than a vector, wider than high, one of everything.
SIZES = [(1, 3, 12, 40, 40), (2, 2, 7, 37, 53), (3, 1, 1, 5, 3), (1, 1, 40, 90, 17), (1, 2, 5, 1, 64)]
OBJECTIVES = {
    "plain": Objective(CUTOFF),
    "robust": Objective(CUTOFF, robust=0.2),
    "very robust": Objective(CUTOFF, robust=0.05),
}

try:
    VERSIONS, MISSING = cpu.versions(), ""
except OSError as reason:
    VERSIONS, MISSING = [], str(reason)
needs_kernel = pytest.mark.skipif(bool(MISSING), reason=MISSING)
RENDERERS = [
    pytest.param(Patches, id="patches"),
    *(
        pytest.param(partial(Compiled, widest), id=f"compiled-{name}", marks=needs_kernel)
        for widest, name in enumerate(VERSIONS or ["none"])
    ),
]


def scene(size=SIZES[0], rho=1.1, dtype=torch.float64, seed=0):
    """Blobs in and around the images, cut by edges or wholly outside; images of noise."""
    batch, cameras, vertices, height, width = size
    generator = torch.Generator().manual_seed(seed)

    def uniform(low, high, *shape):
        return (low + (high - low) * torch.rand(*shape, generator=generator, dtype=torch.float64)).to(dtype)

    blobs = Blobs(
        uniform(-0.2, 1.2, batch, cameras, vertices, 2) * torch.tensor([width, height], dtype=dtype),
        uniform(0.8, 4.0, batch, cameras, vertices),
        uniform(0.3, 0.9, batch, cameras, vertices),
        rho * uniform(0.97, 1.03, batch, cameras),
    )
    return blobs, uniform(0, 1, batch, cameras, height, width)


def single(u, v, sigma=2.0, iota=0.8, rho=1.1, size=(16, 20), dtype=torch.float32):
    """One view of the given blobs and an image of ones."""
    u, v = torch.atleast_1d(torch.as_tensor(u, dtype=dtype)), torch.atleast_1d(torch.as_tensor(v, dtype=dtype))
    sigma, iota = torch.as_tensor(sigma, dtype=dtype), torch.as_tensor(iota, dtype=dtype)
    blobs = Blobs(
        torch.stack([u, v], -1)[None, None],
        sigma.expand(len(u))[None, None].contiguous(),
        iota.expand(len(u))[None, None].contiguous(),
        torch.tensor([[rho]], dtype=dtype),
    )
    return blobs, torch.ones(1, 1, *size, dtype=dtype)


def upstream_of(images, blobs, sums=True):
    generator = torch.Generator().manual_seed(7)
    shapes = [images.shape, blobs.sigma.shape, blobs.sigma.shape]
    parts = [torch.randn(shape, generator=generator, dtype=torch.float64).to(images.dtype) for shape in shapes]
    return Rendering(parts[0], *(part if sums else torch.zeros_like(part) for part in parts[1:]))


def assert_close(actual, expected, dtype, name=""):
    error = (actual - expected).abs().max() / expected.abs().max().clamp(min=1e-6)
    assert error < TOLERANCE[dtype], f"{name}: {error:.2e}"


def loops(blobs, images, objective):
    """The contract, pixel by pixel, in Python numbers: (image, owner, overlap, mass, loss) of the first view."""
    centre, sigma, iota = (tensor[0, 0].numpy() for tensor in (blobs.centre, blobs.sigma, blobs.iota))
    rho, image = float(blobs.rho[0, 0]), images[0, 0].numpy()
    height, width = image.shape
    best, owner = np.zeros((height, width)), np.full((height, width), -1)
    overlap, mass, loss = np.zeros(len(sigma)), np.zeros(len(sigma)), 0.0
    for j in range(height):
        for i in range(width):
            for n, (u, v) in enumerate(centre):
                shape = math.exp(-((((i - u) ** 2 + (j - v) ** 2) / (2 * sigma[n] ** 2)) ** rho))
                if shape < objective.cutoff:
                    continue
                overlap[n] += iota[n] * shape * image[j, i]
                mass[n] += iota[n] * shape
                if iota[n] * shape > best[j, i]:
                    best[j, i], owner[j, i] = iota[n] * shape, n
            residual = math.log1p(best[j, i]) - math.log1p(image[j, i])
            c = objective.robust
            loss += residual**2 if math.isinf(c) else c**2 * math.log1p((residual / c) ** 2)
    return best, owner, overlap, mass, np.array(loss)


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_reference_is_the_equations(rho, objective):
    blobs, images = scene((1, 1, 4, 11, 9), rho)
    image, owner, overlap, mass, loss = map(torch.as_tensor, loops(blobs, images, objective))
    rendering, owners = Reference().forward(blobs, images, CUTOFF)
    result = Reference().products(blobs, images, objective)
    torch.testing.assert_close(rendering.image[0, 0], image)
    assert torch.equal(owners[0, 0].long(), owner)
    for part in (rendering, result):
        torch.testing.assert_close(part.overlap[0, 0], overlap)
        torch.testing.assert_close(part.mass[0, 0], mass)
    torch.testing.assert_close(result.loss[0, 0], loss)


@pytest.mark.parametrize("rho", RHOS)
def test_products_are_those_of_the_jacobian(rho):
    """J' W J and J' W r, with J the derivative of log(1 + R) by all numbers of all blobs, taken automatically."""
    blobs, images = scene((1, 1, 3, 9, 8), rho)
    objective = OBJECTIVES["robust"]

    def log_render(centre, sigma, iota, rhos):
        # An exponent for each blob, as the contract counts its derivative blob by blob.
        stacks = [
            reference.blob_stack(
                Blobs(centre[:, :, n : n + 1], sigma[:, :, n : n + 1], iota[:, :, n : n + 1], rhos[:, :, n]),
                images.shape[-2:],
                CUTOFF,
            )
            for n in range(3)
        ]
        return torch.cat(stacks, 2).amax(2).log1p().flatten()

    numbers = (blobs.centre, blobs.sigma, blobs.iota, blobs.rho[..., None].repeat(1, 1, 3))
    parts = torch.autograd.functional.jacobian(log_render, numbers)
    jacobian = torch.cat([part.reshape(72, 3, -1) for part in parts], -1)  # (pixel, vertex, 5)
    residual = log_render(*numbers) - images.log1p().flatten()
    weight = 1 / (1 + (residual / objective.robust) ** 2)
    result = Reference().products(blobs, images, objective)
    torch.testing.assert_close(result.gram[0, 0], torch.einsum("pni,p,pnj->nij", jacobian, weight, jacobian))
    torch.testing.assert_close(result.slope[0, 0], torch.einsum("pni,p->ni", jacobian, weight * residual))
    between = torch.einsum("pni,p,pmj->nmij", jacobian, weight, jacobian)
    assert all(between[n, m].abs().max() == 0 for n in range(3) for m in range(3) if n != m)  # one owner a pixel


@pytest.mark.parametrize("renderer", [pytest.param(Reference, id="reference"), *RENDERERS[:2]])
@pytest.mark.parametrize("rho", RHOS)
def test_gradients_are_those_of_finite_differences(renderer, rho):
    blobs, images = scene((1, 2, 3, 9, 11), rho, seed=4)

    def parts(*tensors):
        rendering = render(Blobs(*tensors), images, CUTOFF, renderer())
        return rendering.image, rendering.overlap, rendering.mass

    tensors = [tensor.clone().requires_grad_() for tensor in blobs.tensors()]
    assert torch.autograd.gradcheck(parts, tensors, eps=1e-7, atol=1e-5)


def test_operator_has_the_gradients_of_automatic_differentiation():
    blobs, images = scene()
    upstream = upstream_of(images, blobs)
    gradients = []
    for renderer in (lambda b: render(b, images, CUTOFF, Reference()), lambda b: reference.render(b, images, CUTOFF)):
        tensors = [tensor.clone().requires_grad_() for tensor in blobs.tensors()]
        rendering = renderer(Blobs(*tensors))
        total = sum((getattr(rendering, name) * value).sum() for name, value in vars(upstream).items())
        gradients.append(torch.autograd.grad(total, tensors))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_body_agrees_with_the_reference(renderer, dtype, rho, size):
    blobs, images = scene(size, rho, dtype)
    exact, exact_images = Blobs(*(tensor.double() for tensor in blobs.tensors())), images.double()
    expected, expected_owner = Reference().forward(exact, exact_images, CUTOFF)
    rendering, owner = renderer().forward(blobs, images, CUTOFF)
    assert owner.dtype == torch.int32
    assert torch.equal(owner, expected_owner)
    for name, value in vars(expected).items():
        assert_close(getattr(rendering, name), value, dtype, name)
    for sums in (True, False):
        upstream = upstream_of(images, blobs, sums)
        exact_upstream = Rendering(*(part.double() for part in vars(upstream).values()))
        gradient = Reference().backward(exact, exact_images, owner, exact_upstream, CUTOFF)
        assert_close(renderer().backward(blobs, images, owner, upstream, CUTOFF), gradient, dtype, "gradient")
    for objective in OBJECTIVES.values():
        expected = Reference().products(exact, exact_images, objective)
        result = renderer().products(blobs, images, objective)
        for name, value in vars(expected).items():
            assert_close(getattr(result, name), value, dtype, name)


@pytest.mark.parametrize("renderer", [pytest.param(Reference, id="reference"), *RENDERERS])
@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nothing_contradicts_the_render_beyond_the_picture(renderer, objective, dtype):
    """As if the images were there what is drawn."""
    blobs, images = scene(SIZES[0], 1.3, dtype)
    height, width = images.shape[-2:]
    borders = [[3.0, width - 6.0, -2.0, height + 9.0], [-1.5, width / 2, 4.0, height / 2], [0.0, -1.0, 0.0, -1.0]]
    picture = torch.tensor([borders], dtype=dtype)
    exact = Blobs(*(tensor.double() for tensor in blobs.tensors()))
    drawn = Reference().forward(exact, images.double(), CUTOFF)[0].image
    filled = torch.where(covered(picture, images.shape[-2:]), images.double(), drawn)
    result = renderer().products(blobs, images, objective, picture)
    expected = Reference().products(exact, filled, objective)
    for name in ("gram", "slope", "loss", "mass"):
        assert_close(getattr(result, name), getattr(expected, name), dtype, name)


@pytest.mark.parametrize("renderer", [pytest.param(Reference, id="reference"), *RENDERERS])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
class TestCorners:
    @pytest.mark.parametrize("rho", RHOS)
    def test_pixel_on_the_centre(self, renderer, dtype, rho):
        """It has the full intensity and no gradient but by it, also where the derivative is infinite."""
        blobs, images = single(7, 5, rho=rho, dtype=dtype)
        rendering, owner = renderer().forward(blobs, images, CUTOFF)
        torch.testing.assert_close(rendering.image[0, 0, 5, 7], blobs.iota[0, 0, 0], rtol=2e-6, atol=0)
        alone = torch.zeros_like(images)
        alone[0, 0, 5, 7] = 1
        nothing = torch.zeros_like(blobs.sigma)
        gradient = renderer().backward(blobs, images, owner, Rendering(alone, nothing, nothing), CUTOFF)
        torch.testing.assert_close(gradient[0, 0, 0], torch.tensor([0, 0, 0, 1, 0], dtype=dtype), atol=1e-6, rtol=0)
        result = renderer().products(blobs, images, OBJECTIVES["robust"])
        assert all(value.isfinite().all() for value in vars(result).values())

    def test_lowest_vertex_takes_a_tie(self, renderer, dtype):
        blobs, images = single([9.3, 6.2, 6.2, 6.2], [3.0, 7.7, 7.7, 7.7], dtype=dtype)
        rendering, owner = renderer().forward(blobs, images, CUTOFF)
        assert set(owner.unique().tolist()) == {-1, 0, 1}
        gradient = renderer().backward(blobs, images, owner, upstream_of(images, blobs, sums=False), CUTOFF)
        assert gradient[0, 0, :2].abs().sum() > 0
        assert gradient[0, 0, 2:].abs().sum() == 0
        result = renderer().products(blobs, images, OBJECTIVES["plain"])
        assert result.gram[0, 0, 2:].abs().sum() == 0
        assert rendering.mass[0, 0, 3] > 0

    @pytest.mark.parametrize("place", [(-1, 4), (20.5, 8), (3, -2.2), (10, 17), (-1.5, -1.5), (21, 17)], ids=str)
    def test_blob_over_the_edge(self, renderer, dtype, place):
        blobs, images = single(*place, dtype=dtype)
        rendering, _ = renderer().forward(blobs, images, CUTOFF)
        far = single(place[0] + 30, place[1] + 30, size=(76, 80), dtype=dtype)
        whole, _ = Reference().forward(*far, CUTOFF)
        inside = whole.image[..., 30:46, 30:50]
        torch.testing.assert_close(rendering.image, inside, atol=2e-6, rtol=0)
        torch.testing.assert_close(rendering.mass[0, 0, 0], inside.sum(), atol=0, rtol=1e-5)

    @pytest.mark.parametrize("place", [(-9, 5), (5, 30), (1e4, 5), (5, -1e9), (-3e9, 3e9)], ids=str)
    def test_blob_outside(self, renderer, dtype, place):
        self._is_nowhere(renderer(), *single(*place, dtype=dtype))

    def _is_nowhere(self, renderer, blobs, images):
        rendering, owner = renderer.forward(blobs, images, CUTOFF)
        assert (owner == -1).all()
        gradient = renderer.backward(blobs, images, owner, upstream_of(images, blobs), CUTOFF)
        result = renderer.products(blobs, images, OBJECTIVES["plain"])
        for nothing in (*vars(rendering).values(), gradient, result.gram, result.slope, result.overlap, result.mass):
            assert nothing.abs().max() == 0
        loss = images.log1p().square().sum()
        torch.testing.assert_close(result.loss[0, 0], loss, rtol=1e-5, atol=0)

    def test_unreached_pixels_belong_to_nobody(self, renderer, dtype):
        blobs, images = single(4, 4, sigma=0.5, dtype=dtype)
        rendering, owner = renderer().forward(blobs, images, CUTOFF)
        assert ((owner == -1) == (rendering.image == 0)).all()
        assert (owner == -1).sum() > images.numel() - 25

    @pytest.mark.parametrize("iota", [0.0, 1e-30])
    def test_blob_without_intensity(self, renderer, dtype, iota):
        """It owns nothing where it is nothing."""
        blobs, images = single([5.2, 5.2], [6.1, 6.1], iota=[iota, 0.0], dtype=dtype)
        expected = Reference().forward(blobs, images, CUTOFF)[1]
        _, owner = renderer().forward(blobs, images, CUTOFF)
        assert torch.equal(owner, expected)
        result = renderer().products(blobs, images, OBJECTIVES["plain"])
        exact = Reference().products(blobs, images, OBJECTIVES["plain"])
        for name, value in vars(exact).items():
            torch.testing.assert_close(getattr(result, name), value, rtol=1e-4, atol=1e-35)

    @pytest.mark.parametrize("rho", RHOS)
    def test_blob_smaller_than_a_pixel(self, renderer, dtype, rho):
        blobs, images = single([7.0, 3.1, 12.4], [5.0, 3.2, 8.5], sigma=0.3, rho=rho, dtype=dtype)
        exact, _ = Reference().forward(Blobs(*(tensor.double() for tensor in blobs.tensors())), images.double(), CUTOFF)
        rendering, _ = renderer().forward(blobs, images, CUTOFF)
        for name, value in vars(exact).items():
            assert_close(getattr(rendering, name), value, dtype, name)

    def test_blob_wider_than_the_image(self, renderer, dtype):
        blobs, images = single([7.0, 40.0], [5.0, -30.0], sigma=60.0, dtype=dtype)
        exact, owners = Reference().forward(
            Blobs(*(tensor.double() for tensor in blobs.tensors())), images.double(), CUTOFF
        )
        rendering, owner = renderer().forward(blobs, images, CUTOFF)
        assert torch.equal(owner, owners)
        for name, value in vars(exact).items():
            assert_close(getattr(rendering, name), value, dtype, name)

    def test_cut_at_its_share_of_the_peak(self, renderer, dtype):
        """Values are cut, not faded: the smallest that is left is just above the cut-off."""
        blobs, images = single([9.37], [8.21], sigma=1.9, iota=1.0, rho=1.0, size=(17, 19), dtype=dtype)
        uncut = reference.render(blobs, images).image
        clear = (uncut / CUTOFF - 1).abs() > 1e-4
        assert clear.all()  # no pixel of this scene lies on the border, where rounding decides
        rendering, _ = renderer().forward(blobs, images, CUTOFF)
        torch.testing.assert_close(rendering.image, torch.where(uncut >= CUTOFF, uncut, 0.0), atol=2e-6, rtol=0)


@needs_kernel
class TestCompiled:
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_threads_do_not_change_a_bit(self, dtype):
        blobs, images = scene((2, 3, 40, 61, 83), dtype=dtype)
        upstream = upstream_of(images, blobs)
        before = torch.get_num_threads()
        results = []
        try:
            for threads in (1, 2, 5, 2):
                torch.set_num_threads(threads)
                rendering, owner = Compiled().forward(blobs, images, CUTOFF)
                gradient = Compiled().backward(blobs, images, owner, upstream, CUTOFF)
                parts = Compiled().products(blobs, images, OBJECTIVES["robust"])
                results.append([*vars(rendering).values(), owner, gradient, *vars(parts).values()])
        finally:
            torch.set_num_threads(before)
        for other in results[1:]:
            assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))

    def test_batch_does_not_change_a_bit(self):
        blobs, images = scene((16, 2, 9, 30, 30), dtype=torch.float32)
        together = Compiled().products(blobs, images, OBJECTIVES["robust"])
        for frame in (0, 7, 15):
            one = Blobs(*(tensor[frame : frame + 1].contiguous() for tensor in blobs.tensors()))
            rows = slice(frame, frame + 1)
            alone = Compiled().products(one, images[rows].contiguous(), OBJECTIVES["robust"])
            for name, value in vars(alone).items():
                assert torch.equal(value, getattr(together, name)[frame : frame + 1]), name

    def test_position_that_is_no_number_is_nowhere(self):
        corner = TestCorners()
        for place in ((math.nan, 5), (5, math.nan), (math.inf, 5), (5, -math.inf), (1e30, 0)):
            corner._is_nowhere(Compiled(), *single(*place))
        corner._is_nowhere(Compiled(), *single(5, 5, sigma=math.nan))

    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    @pytest.mark.parametrize("value", [math.nan, math.inf, -20.0])
    @pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
    @pytest.mark.parametrize("place", [(5, 7), (15, 18)], ids=["on-blob", "beside"])
    def test_broken_image_does_not_pass_for_a_good_one(self, dtype, value, objective, place):
        """NaN, or infinite, but never a number; no pixel of a log(1 + I) that does not exist is guessed."""
        blobs, images = single(7, 5, dtype=dtype)
        images[(0, 0, *place)] = value
        result = Compiled().products(blobs, images, objective)
        assert not result.loss.isfinite().all()

    def test_sums_carry_the_image_s_nan(self):
        blobs, images = single(7, 5)
        images[0, 0, 6, 7] = math.nan
        rendering, _ = Compiled().forward(blobs, images, CUTOFF)
        assert rendering.overlap.isnan().all()
        assert rendering.mass.isfinite().all()

    def test_rejects_what_it_cannot_read(self):
        blobs, images = single(7, 5)
        with pytest.raises(ValueError, match=r"cutoff is 0.0"):
            Compiled().forward(blobs, images, 0.0)
        with pytest.raises(ValueError, match="contiguous"):
            Compiled().forward(blobs, images.mT.contiguous().mT, CUTOFF)
        with pytest.raises(TypeError, match=r"images torch.float64"):
            Compiled().forward(blobs, images.double(), CUTOFF)
        with pytest.raises(TypeError, match="float16"):
            Compiled().forward(Blobs(*(tensor.half() for tensor in blobs.tensors())), images.half(), CUTOFF)
        with pytest.raises(ValueError, match="meta"):
            Compiled().forward(Blobs(*(tensor.to("meta") for tensor in blobs.tensors())), images.to("meta"), CUTOFF)

    def test_is_chosen_for_the_cpu(self):
        assert isinstance(select_renderer("cpu"), Compiled)
        blobs, images = scene(dtype=torch.float32)
        chosen = products(blobs, images, OBJECTIVES["robust"])
        again = Compiled().products(blobs, images, OBJECTIVES["robust"])
        assert torch.equal(chosen.gram, again.gram)


@needs_kernel
@pytest.mark.parametrize("size", [(0, 7), (7, 0), (0, 0)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_images_without_a_pixel(size, dtype):
    blobs, _ = scene((1, 2, 3, 5, 5), dtype=dtype)
    images = torch.zeros(1, 2, *size, dtype=dtype)
    rendering, owner = Compiled().forward(blobs, images, CUTOFF)
    gradient = Compiled().backward(blobs, images, owner, rendering, CUTOFF)
    found = Compiled().products(blobs, images, OBJECTIVES["robust"])
    assert rendering.image.shape == images.shape
    assert not any(part.any() for part in (rendering.overlap, rendering.mass, gradient, *vars(found).values()))


@needs_kernel
def test_more_pixels_than_it_can_count():
    scene = cpu._Scene(0, 1, 1, 2**20, 2**20, CUTOFF)
    with pytest.raises(ValueError, match="1048576 x 1048576 px"):
        Compiled()._on_all_threads(scene, False)


def test_falls_back_and_says_so_once(monkeypatch):
    def missing():
        raise OSError("the compiled renderer was not built with this installation")

    monkeypatch.setattr(cpu, "_library", missing)
    operator.select_renderer.cache_clear()
    try:
        with pytest.warns(UserWarning, match="C compiler"):
            assert isinstance(select_renderer("cpu"), Patches)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            select_renderer("cpu")
    finally:
        operator.select_renderer.cache_clear()
