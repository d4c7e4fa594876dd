"""One matrix: every sum of a step, by every backend, against plain torch in float64."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import pytest
import torch
from scenes import BOUNDS, as_float, relative, rig, worm
from torch import Tensor

ON_GPU = torch.cuda.is_available()
if not ON_GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read once, when Triton is imported

from midline3d import curve  # noqa: E402
from midline3d.appearance import BlobAppearance, Profile, Shape, optics  # noqa: E402
from midline3d.cameras import Cameras, packed_cameras, project, unpacked_cameras  # noqa: E402
from midline3d.fitting.body import average_body  # noqa: E402
from midline3d.fitting.second_order import Problem  # noqa: E402
from midline3d.fitting.views import Views  # noqa: E402
from midline3d.kernels import (  # noqa: E402
    Backend,
    Layout,
    Prior,
    StepLimits,
    System,
    TorchBackend,
    cpu,
    select_backend,
    spline_basis,
)
from midline3d.kernels.layout import PLACES  # noqa: E402
from midline3d.rendering import Objective, Products  # noqa: E402
from midline3d.settings import Settings  # noqa: E402
from midline3d.state import FrameState, packed, unpacked  # noqa: E402

try:
    VERSIONS = cpu.versions()
except OSError:
    VERSIONS = []
try:
    from midline3d.kernels.gpu import TritonBackend
except ImportError:
    TritonBackend = None

Sizes = tuple[int, int, int, int]
"""Batch, vertices, cameras, nodes."""
SMALL = [(1, 5, 3, 5), (2, 40, 2, 12)]
"""For Triton's interpreter, which takes its time."""
USUAL = [(1, 3, 2, 3), (5, 4, 3, 4), *((2, 31, count, 9) for count in (2, 3, 4)), (2, 40, 4, 40), (1, 128, 3, 40)]
SHAPES = ["waves", "coils", "straight"]
REFERENCE = TorchBackend()


@dataclass(frozen=True)
class Candidate:
    """A backend, where it runs, and how far its sums may lie from float64's: relative to the largest value."""

    make: Callable[[], Backend]
    device: str
    sizes: list[Sizes]
    places: float
    """Of curves, steps and image points. What goes by float64 itself keeps all digits of float32."""
    depths: float
    """Of depths within the body: by float32 a distance of a metre leaves 1e-4 mm."""
    sums: float
    """Of sums over vertices and products with splines, which themselves are rounded."""


CANDIDATES = {"torch": Candidate(TorchBackend, "cpu", USUAL, 5e-5, 2e-3, 5e-5)}
CANDIDATES |= {
    f"C, {version}": Candidate(lambda widest=widest: cpu.CBackend(widest), "cpu", USUAL, 3e-6, 2e-3, 3e-5)
    for widest, version in enumerate(VERSIONS)
}
if TritonBackend is not None:
    device, sizes = ("cuda", [*SMALL, (7, 128, 3, 40), (3, 200, 4, 40)]) if ON_GPU else ("cpu", SMALL)
    CANDIDATES["Triton"] = Candidate(TritonBackend, device, sizes, 3e-6, 3e-6, 5e-6)
MATRIX = [
    pytest.param(candidate, *size, id=f"{name}-{'-'.join(map(str, size))}")
    for name, candidate in CANDIDATES.items()
    for size in candidate.sizes
]
every_backend = pytest.mark.parametrize(("candidate", "batch", "vertices", "cameras", "nodes"), MATRIX)
needs_c = pytest.mark.skipif(not VERSIONS, reason="the C backend was not built: no C compiler at installation")


def bent(shape: str, batch: int, vertices: int, cameras: int = 3) -> FrameState:
    """float64 states whose numbers all fit into float32."""
    state = worm(batch, vertices, cameras, seed=vertices + batch)
    place = torch.linspace(0, 1, vertices, dtype=torch.float64)
    if shape == "coils":
        # Two and a half circles over the body, turning in space.
        turning = torch.stack([(9 * place).cos(), (9 * place).sin()], -1)
        state = replace(state, curvature=(5 * math.pi * turning).expand(batch, -1, -1))
    if shape == "straight":
        state = replace(state, curvature=torch.zeros_like(state.curvature))
    generator = torch.Generator().manual_seed(1)
    shift = torch.randn(batch, 2 * cameras - 3, generator=generator, dtype=torch.float64)
    defocus = 0.1 * torch.randn(batch, cameras, generator=generator, dtype=torch.float64)
    state = replace(state, shift=shift, defocus=defocus).rebuilt(state.middle())
    return FrameState(**{name: value.double() for name, value in vars(as_float(state)).items()})


def rigs(count: int, batch: int, shared: bool, distortion: float = 0.0) -> Cameras:
    """One rig for all frames, or one of every frame's own as `Cameras.local` makes them; float64, fit for float32."""
    cameras = rig(count, distortion=distortion)
    if not shared:
        origin = 0.1 * torch.arange(3 * batch, dtype=torch.float64).view(batch, 3)
        crop = torch.arange(2 * batch * count, dtype=torch.float64).view(batch, count, 2)
        cameras = cameras.local(origin, crop)
    return cameras.to(torch.float32).to(torch.float64)


def random_products(batch: int, cameras: int, vertices: int) -> Products:
    generator = torch.Generator().manual_seed(5)
    root = torch.randn(batch, cameras, vertices, 5, 5, generator=generator).double()
    gram = (root @ root.mT).float().double()
    slope = torch.randn(batch, cameras, vertices, 5, generator=generator).double()
    rest = slope[..., 0]
    return Products(gram, slope, rest.sum(-1), rest, rest)


def random_appearance(batch: int, cameras: int, vertices: int) -> BlobAppearance:
    generator = torch.Generator().manual_seed(6)
    by_view = torch.randn(batch, cameras, vertices, 2, 3, generator=generator).double()
    return BlobAppearance(by_view[..., 0, 0], by_view[..., 1, 1], by_view)


def low(record: Cameras | Products | BlobAppearance | Profile | Shape, device: str) -> object:
    """A record's tensors in float32 on the device."""
    given = {item.name: getattr(record, item.name) for item in fields(record)}
    for name, value in given.items():
        if isinstance(value, Tensor):
            given[name] = value.float().to(device)
        elif isinstance(value, Shape):
            given[name] = low(value, device)
    return type(record)(**given)


def rows(state: FrameState, device: str) -> FrameState:
    """In float32, every frame's part in one piece but frames apart, as rows of something wider lie."""
    spaced = {}
    for name, value in vars(state).items():
        wide = torch.zeros(len(value), value[0].numel() + 3)
        wide[:, : value[0].numel()] = value.reshape(len(value), -1).float()
        spaced[name] = wide.to(device)[:, : value[0].numel()].view(value.shape)
    return FrameState(**spaced)


def apart(found: Tensor, right: Tensor) -> float:
    assert found.dtype is torch.float32 and found.shape == right.shape
    return relative(found.double().cpu(), right)


def assert_same(found: object, right: object, tolerance: float) -> None:
    for item in fields(right):
        goal = getattr(right, item.name)
        error = (getattr(found, item.name).double().cpu() - goal).abs().max() / goal.abs().max().clamp(min=1e-3)
        assert error < tolerance, f"{item.name}: {error:.1e}"


def starts_of(state: FrameState) -> Tensor:
    """A vertex of each frame to start from, some counted from the end."""
    batch = len(state)
    return torch.arange(batch) * 7 % state.vertices - (torch.arange(batch) % 2) * state.vertices


@every_backend
@pytest.mark.parametrize("shape", SHAPES)
def test_integrate(shape: str, candidate: Candidate, batch: int, vertices: int, cameras: int, nodes: int) -> None:
    state = bent(shape, batch, vertices, cameras)
    start, each = starts_of(state), torch.arange(batch)
    begin = (state.points[each, start], state.bishop[each, start], state.curvature, state.length)
    given = [value.float().to(candidate.device) for value in begin]
    given[2] = rows(state, candidate.device).curvature
    made = candidate.make().integrate(*given, start.to(candidate.device))
    right = REFERENCE.integrate(*begin, start)
    assert apart(made.points, right.points) < candidate.places and apart(made.bishop, right.bishop) < candidate.places


@every_backend
@pytest.mark.parametrize("shape", SHAPES)
def test_a_curve_through_a_loose_bishop_frame(
    shape: str, candidate: Candidate, batch: int, vertices: int, cameras: int, nodes: int
) -> None:
    """A Bishop frame that is no rotation any more after a step."""
    state = bent(shape, batch, vertices, cameras)
    start, each = starts_of(state), torch.arange(batch)
    noise = torch.randn(batch, 3, 3, generator=torch.Generator().manual_seed(8)).double()
    bishop = (state.bishop[each, start] + 0.1 * noise).float().double()
    begin = (state.points[each, start], bishop, state.curvature, state.length)
    given = [value.float().to(candidate.device) for value in begin]
    made = candidate.make().through(*given, start.to(candidate.device))
    right = curve.through(*begin, start)
    assert apart(made.points, right.points) < candidate.places and apart(made.bishop, right.bishop) < candidate.places


@every_backend
@pytest.mark.parametrize("distortion", [0.0, 1.0])
@pytest.mark.parametrize("shared", [False, True])
def test_project(
    shared: bool, distortion: float, candidate: Candidate, batch: int, vertices: int, cameras: int, nodes: int
) -> None:
    state, views = bent("waves", batch, vertices, cameras), rigs(cameras, batch, shared, distortion)
    given, own = rows(state, candidate.device), low(views, candidate.device)
    for shift, right in ((None, None), (given.shift, state.shift)):
        made = candidate.make().project(own, given.points, shift)
        assert apart(made, project(views, state.points, right)) < candidate.places


@every_backend
@pytest.mark.parametrize("shared", [False, True])
def test_optics(shared: bool, candidate: Candidate, batch: int, vertices: int, cameras: int, nodes: int) -> None:
    state, views = bent("waves", batch, vertices, cameras), rigs(cameras, batch, shared, 1.0)
    given, own = rows(state, candidate.device), low(views, candidate.device)
    made = candidate.make().optics(own, given.points, given.bishop[..., 0])
    right = optics(views, state.points, state.bishop[..., 0])
    assert apart(made.stretch, right.stretch) < candidate.depths
    assert apart(made.beyond, right.beyond) < candidate.depths


@every_backend
@pytest.mark.parametrize("shared", [False, True])
def test_packed_cameras_are_read_as_they_lie(
    shared: bool, candidate: Candidate, batch: int, vertices: int, cameras: int, nodes: int
) -> None:
    """Rows of something wider, as many clips at once keep them: what comes out is the same to the bit."""
    given, apart = rows(bent("waves", batch, vertices, cameras), candidate.device), rigs(cameras, batch, shared, 1.0)
    alone = low(apart, candidate.device)
    wider = torch.nn.functional.pad(packed_cameras(alone), (5, 7), value=torch.nan)
    numbers = wider[:, 5:-7]
    together = unpacked_cameras(numbers, alone.shift_basis)
    assert packed_cameras(together).data_ptr() == numbers.data_ptr(), "these are the rows themselves"
    backend = candidate.make()
    one, two = (backend.project(rig, given.points, given.shift) for rig in (alone, together))
    assert torch.equal(one, two)
    one, two = (backend.optics(rig, given.points, given.bishop[..., 0]) for rig in (alone, together))
    assert torch.equal(one.stretch, two.stretch) and torch.equal(one.beyond, two.beyond)


def taper_of(batch: int, vertices: int, cameras: int, own: bool) -> Profile:
    """One body for all frames, or a body for each; float64."""
    body = average_body(Settings().body, torch.tensor(1.1, dtype=torch.float64))
    taper = body.profile(vertices, torch.full((cameras,), 100.0, dtype=torch.float64), 0.5)
    if not own:
        return taper
    grown = torch.linspace(0.8, 1.2, batch, dtype=torch.float64).view(-1, 1, 1)
    shape = Shape(**{name: value * grown + 0.01 for name, value in vars(taper.shape).items()})
    return replace(taper, shape=shape, sharp=taper.sharp * grown[:, 0], length=taper.length * grown[:, 0])


@every_backend
@pytest.mark.parametrize("own", [False, True])
def test_looks(own: bool, candidate: Candidate, batch: int, vertices: int, cameras: int, nodes: int) -> None:
    """Values and derivatives."""
    state, taper = bent("coils", batch, vertices, cameras), taper_of(batch, vertices, cameras, own)
    seen = optics(rigs(cameras, batch, False), state.points, state.bishop[..., 0])
    given = rows(state, candidate.device).view_appearance
    made = candidate.make().appearance(low(taper, candidate.device), given, low(seen, candidate.device))
    assert_same(made, taper.apply(state.view_appearance, seen), candidate.sums)


def problem_of(state: FrameState, cameras: Cameras, nodes: int) -> Problem:
    """In float64; its images are never looked at."""
    batch, vertices = state.curvature.shape[:2]
    return Problem(
        views=Views(torch.zeros(batch, cameras.count, 4, 4, dtype=torch.float64), cameras),
        taper=taper_of(batch, vertices, cameras.count, False),
        basis=spline_basis(vertices, nodes, torch.float64, "cpu"),
        objective=Objective(3e-3),
        weights=Settings().second_order,
        bounds=BOUNDS,
        anchor=replace(state, length=1.01 * state.length, sigma=0.9 * state.sigma, shift=state.shift + 0.5),
    )


def low_prior(prior: Prior, device: str) -> Prior:
    stiffness, keeping = (value.float().to(device) for value in (prior.stiffness, prior.keeping))
    return Prior(rows(prior.anchor, device), stiffness, keeping, prior.layout, prior.pixels)


@every_backend
@pytest.mark.parametrize("shape", SHAPES)
def test_energies(shape: str, candidate: Candidate, batch: int, vertices: int, cameras: int, nodes: int) -> None:
    """The sum, its terms, and the priors' gradient."""
    state = bent(shape, batch, vertices, cameras)
    prior = problem_of(state, rig(cameras), nodes).prior
    losses = torch.arange(1.0, batch * cameras + 1).double().view(batch, cameras)
    given = (low_prior(prior, candidate.device), rows(state, candidate.device), losses.float().to(candidate.device))
    assert_same(candidate.make().energy(*given), REFERENCE.energy(prior, state, losses), candidate.sums)


def test_the_priors_gradient_is_that_of_the_energy() -> None:
    state = bent("waves", 2, 20)
    problem = problem_of(state, rig(3), 8)
    losses = torch.zeros(2, 3, dtype=torch.float64)
    step = torch.zeros(2, problem.layout.count, dtype=torch.float64, requires_grad=True)
    there = REFERENCE.take_step(state, step, problem.basis, problem.layout, problem.limits)
    (slope,) = torch.autograd.grad(REFERENCE.energy(problem.prior, there, losses).total.sum(), step)
    assert relative(2 * REFERENCE.energy(problem.prior, state, losses).prior_gradient, slope) < 1e-9


def scaled(system: System, right: System) -> tuple[Tensor, Tensor]:
    """H and g in units in which the right one's diagonal is 1: the unknowns' units differ by orders of magnitude."""
    size = torch.diagonal(right.hessian, dim1=1, dim2=2).sqrt()
    hessian, gradient = system.hessian.double().cpu(), system.gradient.double().cpu()
    return hessian / size[:, :, None] / size[:, None], gradient / size


@every_backend
@pytest.mark.parametrize(("shared", "distortion"), [(False, 0.0), (False, 1.0), (True, 1.0)])
@pytest.mark.parametrize("shape", SHAPES)
def test_normal_equations(
    shape: str, shared: bool, distortion: float, candidate: Candidate, batch: int, vertices: int, cameras: int,
    nodes: int,
) -> None:  # fmt: skip
    state, views = bent(shape, batch, vertices, cameras), rigs(cameras, batch, shared, distortion)
    products, appearance = random_products(batch, cameras, vertices), random_appearance(batch, cameras, vertices)
    basis = spline_basis(vertices, nodes, torch.float64, "cpu")
    layout = Layout(basis.matrix.shape[1], 2 * cameras - 3, cameras)
    right = REFERENCE.pixel_system(products, state, appearance, views, basis, layout)
    device = candidate.device
    made = candidate.make().pixel_system(
        low(products, device), rows(state, device), low(appearance, device), low(views, device),
        spline_basis(vertices, nodes, torch.float32, device), layout,
    )  # fmt: skip
    assert made.hessian.dtype is torch.float32
    for found, goal in zip(scaled(made, right), scaled(right, right), strict=True):
        assert (found - goal).abs().max() < candidate.sums * max(1.0, float(goal.abs().max()))
    if isinstance(candidate.make(), cpu.CBackend):
        assert torch.equal(made.hessian, made.hessian.mT)


@every_backend
@pytest.mark.parametrize("damping", [1e-6, 1e-2, 100.0])
def test_solve(damping: float, candidate: Candidate, batch: int, vertices: int, cameras: int, nodes: int) -> None:
    generator, count = torch.Generator().manual_seed(2), 2 * nodes + 5
    root = torch.randn(batch, count, 2 * count, generator=generator) * torch.logspace(-2, 2, count)[:, None]
    system = System(root @ root.mT, torch.randn(batch, count, generator=generator))
    much = torch.full((batch,), damping)
    given = System(system.hessian.to(candidate.device), system.gradient.to(candidate.device))
    made = candidate.make().solve(given, much.to(candidate.device))
    right = REFERENCE.solve(System(system.hessian.double(), system.gradient.double()), much.double())
    assert apart(made, right) < 1e-6


@pytest.mark.parametrize("candidate", CANDIDATES.values(), ids=CANDIDATES)
def test_solve_gives_nan_where_there_is_no_minimum(candidate: Candidate) -> None:
    system = System(-torch.eye(5, device=candidate.device)[None], torch.ones(1, 5, device=candidate.device))
    assert candidate.make().solve(system, torch.zeros(1, device=candidate.device)).isnan().any()


@every_backend
@pytest.mark.parametrize("size", [0.0, 0.02, 3.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_steps(
    shape: str, size: float, candidate: Candidate, batch: int, vertices: int, cameras: int, nodes: int
) -> None:
    """None at all, small ones, and ones that every bound cuts."""
    state = bent(shape, batch, vertices, cameras)
    problem = problem_of(state, rig(cameras), nodes)
    generator = torch.Generator().manual_seed(3)
    step = (size * torch.randn(batch, problem.layout.count, generator=generator)).double()
    step[:, problem.layout.bend] *= 20
    right = REFERENCE.take_step(state, step, problem.basis, problem.layout, problem.limits)
    basis = spline_basis(vertices, nodes, torch.float32, candidate.device)
    given = (rows(state, candidate.device), step.float().to(candidate.device), basis, problem.layout, problem.limits)
    # A change of the curvature is given by splines that are rounded.
    assert_same(candidate.make().take_step(*given), right, candidate.places if size < 1 else candidate.sums)


@every_backend
def test_a_packed_state_is_stepped_as_it_lies(
    candidate: Candidate, batch: int, vertices: int, cameras: int, nodes: int
) -> None:
    """Rows of something wider, as many clips at once keep them: what comes out is the same to the bit."""
    state = bent("waves", batch, vertices, cameras)
    layout, limits = Layout(nodes, 2 * cameras - 3, cameras), StepLimits(0.1, 0.3, BOUNDS)
    step = 0.02 * torch.randn(batch, layout.count, generator=torch.Generator().manual_seed(3)).to(candidate.device)
    apart, basis = rows(state, candidate.device), spline_basis(vertices, nodes, torch.float32, candidate.device)
    numbers = packed(apart)
    wider = torch.cat([torch.full_like(numbers[:, :5], torch.nan), numbers, numbers], 1)
    together = unpacked(wider[:, 5:], apart)
    assert packed(together).data_ptr() == wider[:, 5:].data_ptr(), "these are the rows themselves"
    one, two = (candidate.make().take_step(given, step, basis, layout, limits) for given in (apart, together))
    assert all(torch.equal(vars(one)[name], vars(two)[name]) for name in vars(one))
    assert torch.equal(wider[:, 5:][:, : numbers.shape[1]], numbers), "and nothing is written into what was given"


@every_backend
@pytest.mark.parametrize("shape", SHAPES)
def test_clamped(shape: str, candidate: Candidate, batch: int, vertices: int, cameras: int, nodes: int) -> None:
    state = bent(shape, batch, vertices, cameras)
    wild = replace(state, curvature=8 * state.curvature, sigma=60 * state.sigma, rho=0.1 * state.rho)
    assert_same(candidate.make().clamped(rows(wild, candidate.device), BOUNDS), wild.clamped(BOUNDS), candidate.sums)


@dataclass(frozen=True)
class Exchanged(Layout):
    """A layout in which sigma and rho have changed places."""

    def places(self) -> tuple[int, ...]:
        named = dict(zip(PLACES, super().places(), strict=True))
        return tuple({**named, "sigma": named["rho"], "rho": named["sigma"]}.values())


@pytest.mark.parametrize("name", [name for name in CANDIDATES if name != "torch"])
def test_c_and_triton_read_the_layout(name: str) -> None:
    """Where it says that two blocks have changed places, the same step stands elsewhere."""
    candidate, state = CANDIDATES[name], bent("waves", 2, 12)
    given, basis = rows(state, candidate.device), spline_basis(12, 5, torch.float32, candidate.device)
    usual, other = Layout(5, 3, 3), Exchanged(5, 3, 3)
    step = 0.05 * torch.randn(2, usual.count, generator=torch.Generator().manual_seed(4)).to(candidate.device)
    sigma, *between, rho = step[:, usual.appearance].split(3, 1)
    exchanged = torch.cat([step[:, : usual.appearance.start], rho, *between, sigma], 1)
    limits, backend = StepLimits(0.1, 0.3, BOUNDS), candidate.make()
    one, two = (
        backend.take_step(given, step, basis, usual, limits),
        backend.take_step(given, exchanged, basis, other, limits),
    )
    assert torch.equal(one.sigma, two.sigma) and torch.equal(one.rho, two.rho)
    assert not torch.equal(one.sigma, backend.take_step(given, exchanged, basis, usual, limits).sigma)


def test_the_layouts_blocks_fill_the_vector() -> None:
    layout = Layout(4, 3, 2)
    blocks = (
        layout.move,
        layout.turn,
        layout.bend,
        slice(layout.length, layout.shape_count),
        layout.shift,
        layout.appearance,
    )
    assert [place for block in blocks for place in range(block.start, block.stop)] == list(range(layout.count))
    places = dict(zip(PLACES, layout.places(), strict=True))
    assert [places[name] - layout.appearance.start for name in ("sigma", "iota", "defocus", "rho")] == [0, 2, 4, 6]
    assert layout.kept == slice(places["length"], places["count"])


@needs_c
def test_the_c_backend_says_no_to_what_it_cannot_do() -> None:
    backend, state = cpu.CBackend(), as_float(bent("waves", 2, 16))
    begin = (state.points[:, 0], state.bishop[:, 0], state.curvature, state.length)
    none = torch.zeros(2, dtype=torch.long)
    for wrong in (16, -17):
        with pytest.raises(IndexError, match="16 vertices"):
            backend.integrate(*begin, torch.tensor([0, wrong]))
    with pytest.raises(ValueError, match="3 vertices"):
        backend.integrate(*begin[:2], state.curvature[:, :2], state.length, none)
    with pytest.raises(ValueError, match="float32"):
        backend.integrate(*begin[:3], state.length.double(), none)
    with pytest.raises(ValueError, match="gradient"):
        backend.integrate(*begin[:3], state.length.clone().requires_grad_(), none)
    with torch.no_grad():
        backend.integrate(*begin[:3], state.length.clone().requires_grad_(), none)
    basis, step = spline_basis(16, 8, torch.float32, "cpu"), torch.zeros(2, 20)
    with pytest.raises(ValueError, match="float32"):
        backend.take_step(state, step, basis, Layout(8, 3, 3), StepLimits(0.1, 0.3, BOUNDS))
    products, appearance = low(random_products(2, 3, 16), "cpu"), low(random_appearance(2, 3, 16), "cpu")
    with pytest.raises(ValueError, match="2 cameras"):
        backend.pixel_system(products, state, appearance, low(rig(3), "cpu"), basis, Layout(8, 1, 2))


@needs_c
def test_any_number_of_threads_gives_the_same_bits() -> None:
    state, views, backend = as_float(bent("waves", 40, 25)), low(rigs(3, 40, False), "cpu"), cpu.CBackend()
    products, appearance = low(random_products(40, 3, 25), "cpu"), low(random_appearance(40, 3, 25), "cpu")
    basis = spline_basis(25, 10, torch.float32, "cpu")
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            system = backend.pixel_system(products, state, appearance, views, basis, Layout(10, 3, 3))
            step = backend.solve(system, torch.full((40,), 0.1))
            pixels = backend.project(views, state.points, None)
            found.append((system.hessian, system.gradient, step, pixels))
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))


def test_a_problem_chooses_its_backend_by_device_and_dtype() -> None:
    """Once, where it is made: what is given wins."""
    fast = cpu.CBackend if VERSIONS else TorchBackend
    assert type(select_backend("cpu", torch.float32)) is fast
    assert type(select_backend("cpu", torch.float64)) is TorchBackend
    if TritonBackend is not None:
        assert type(select_backend("cuda", torch.float32)) is TritonBackend
    assert type(select_backend("cuda", torch.float64)) is TorchBackend
    problem = problem_of(bent("waves", 1, 16), rig(3), 8)
    assert type(problem.kernels) is TorchBackend
    single = replace(problem, views=Views(problem.views.images.float(), problem.views.cameras))
    assert type(single.kernels) is fast and single.kernels is single.kernels
    assert replace(single, backend=REFERENCE).kernels is REFERENCE
    assert all(isinstance(candidate.make(), Backend) for candidate in CANDIDATES.values())


def test_without_the_library_everything_goes_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for cached in (cpu._library, select_backend):
        cached.cache_clear()
    monkeypatch.setattr(cpu, "__file__", "/nowhere/cpu.py")
    try:
        with pytest.warns(UserWarning, match="plain torch"):
            assert type(select_backend("cpu", torch.float32)) is TorchBackend
        assert type(select_backend("cpu", torch.float32)) is TorchBackend, "and says so once"
    finally:
        for cached in (cpu._library, select_backend):
            cached.cache_clear()
