"""The compiled functions against their plain-torch twins."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace

import pytest
import torch
from scenes import BOUNDS, as_float, relative, rig, worm
from torch import Tensor

from midline3d import compiled, curve
from midline3d.appearance import Look
from midline3d.cameras import Cameras, project
from midline3d.fitting import second_order
from midline3d.fitting.body import average_body
from midline3d.fitting.normal import Layout, System, pixel_system, spline_basis
from midline3d.fitting.second_order import Problem
from midline3d.fitting.views import Views
from midline3d.rendering import Objective, Products
from midline3d.settings import Settings
from midline3d.state import FrameState

pytestmark = pytest.mark.skipif(
    compiled._library() is None, reason="the compiled functions were not built: no C compiler at installation"
)

# float32 in and out, float64 between. Against float64 all that is left is the rounding of what goes in and comes out.
TOLERANCE = 3e-6
# Against torch in float32, whose own sums are rounded too.
ROUNDED = 3e-5

SHAPES = ["waves", "coils", "straight"]


VERSIONS = ["none"] if compiled._library() is None else compiled.versions()


@pytest.fixture(autouse=True, params=range(len(VERSIONS)), ids=VERSIONS)
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test for every instruction set that this processor has."""
    monkeypatch.setattr(compiled, "_WIDEST", request.param)


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
    return as_double(as_float(replace(state, shift=shift).rebuilt(state.middle())))


def as_double(state: FrameState) -> FrameState:
    return FrameState(**{name: value.double() for name, value in vars(state).items()})


def own_cameras(count: int, batch: int, distortion: float = 0.0) -> Cameras:
    """Cameras of every frame's own, as `Cameras.local` makes them; float64 with numbers that fit into float32."""
    origin = 0.1 * torch.arange(3 * batch, dtype=torch.float64).view(batch, 3)
    crop = torch.arange(2 * batch * count, dtype=torch.float64).view(batch, count, 2)
    return rig(count, distortion=distortion).local(origin, crop).to(torch.float32).to(torch.float64)


def random_products(batch: int, cameras: int, vertices: int) -> Products:
    generator = torch.Generator().manual_seed(5)
    root = torch.randn(batch, cameras, vertices, 5, 5, generator=generator).double()
    gram = (root @ root.mT).float().double()
    slope = torch.randn(batch, cameras, vertices, 5, generator=generator).double()
    rest = slope[..., 0]
    return Products(gram, slope, rest.sum(-1), rest, rest)


def random_look(batch: int, cameras: int, vertices: int) -> Look:
    generator = torch.Generator().manual_seed(6)
    by_view = torch.randn(batch, cameras, vertices, 2, 3, generator=generator).double()
    return Look(by_view[..., 0, 0], by_view[..., 1, 1], by_view)


def as_floats(record: Products | Look) -> Products | Look:
    return type(record)(**{item.name: getattr(record, item.name).float() for item in fields(record)})


@contextmanager
def plain_torch() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "takes", lambda *_: False)
        yield


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("vertices", [3, 4, 31, 128])
@pytest.mark.parametrize("shape", SHAPES)
def test_integrate(shape: str, vertices: int, batch: int) -> None:
    state = bent(shape, batch, vertices)
    start = torch.arange(batch) * 7 % vertices - (torch.arange(batch) % 2) * vertices
    rows = torch.arange(batch)
    begin = (state.points[rows, start], state.frames[rows, start], state.curvature, state.length)
    right = curve.integrate(*begin, start)
    singles = [value.float() for value in begin]
    assert compiled.takes(*singles)
    made = curve.integrate(*singles, start)
    with plain_torch():
        rounded = curve.integrate(*singles, start)
    assert made.points.dtype is torch.float32
    for name in ("points", "frames"):
        assert relative(getattr(made, name).double(), getattr(right, name)) < TOLERANCE
        assert relative(getattr(made, name), getattr(rounded, name)) < ROUNDED


def test_integrate_says_no_to_a_vertex_that_is_not_there() -> None:
    state = as_float(bent("waves", 2, 16))
    begin = (state.points[:, 0], state.frames[:, 0], state.curvature, state.length)
    for wrong in (16, -17):
        with pytest.raises(IndexError, match="16 vertices"):
            curve.integrate(*begin, torch.tensor([0, wrong]))
    with pytest.raises(ValueError, match="3 vertices"):
        compiled.integrate(*begin[:2], state.curvature[:, :2], state.length, torch.zeros(2, dtype=torch.long), False)
    with pytest.raises(ValueError, match="float32"):
        compiled.integrate(*begin[:3], state.length.double(), torch.zeros(2, dtype=torch.long), False)


def loose_start(state: FrameState, start: Tensor) -> list[Tensor]:
    """Position, a frame that is no rotation any more, curvature and length; float64, fit for float32."""
    rows = torch.arange(len(state))
    noise = torch.randn(len(state), 3, 3, generator=torch.Generator().manual_seed(8)).double()
    frame = (state.frames[rows, start] + 0.1 * noise).float().double()
    return [state.points[rows, start], frame, state.curvature, state.length]


@pytest.mark.parametrize("vertices", [3, 4, 31, 128])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_curve_through_a_loose_frame(shape: str, vertices: int) -> None:
    state = bent(shape, 4, vertices)
    start = torch.tensor([0, vertices // 2, vertices - 1, -vertices // 2])
    begin = loose_start(state, start)
    right = curve.through(*begin, start)
    made = curve.through(*(value.float() for value in begin), start)
    assert relative(made.points.double(), right.points) < TOLERANCE
    assert relative(made.frames.double(), right.frames) < TOLERANCE


@pytest.mark.parametrize("shape", SHAPES)
def test_clamped(shape: str) -> None:
    state = as_float(bent(shape, 3, 33))
    wild = replace(state, curvature=8 * state.curvature, sigma=60 * state.sigma, rho=0.1 * state.rho)
    made = wild.clamped(BOUNDS)
    with plain_torch():
        right = wild.clamped(BOUNDS)
    for name, goal in vars(right).items():
        assert (getattr(made, name) - goal).abs().max() <= ROUNDED * goal.abs().max(), name


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("distortion", [0.0, 1.0])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_project(count: int, distortion: float, shared: bool) -> None:
    state = bent("waves", 3, 20, count)
    cameras = rig(count, distortion=distortion) if shared else own_cameras(count, 3, distortion)
    cameras = cameras.to(torch.float32).to(torch.float64)
    for shift in (None, state.shift):
        right = project(cameras, state.points, shift)
        low = None if shift is None else shift.float()
        assert relative(project(cameras.to(torch.float32), state.points.float(), low).double(), right) < TOLERANCE


def both_systems(state: FrameState, cameras: Cameras, nodes: int, count: int) -> tuple[System, System, System]:
    """The system in float64, compiled, and of torch in float32."""
    batch, vertices = state.curvature.shape[:2]
    products, look = random_products(batch, count, vertices), random_look(batch, count, vertices)
    basis = spline_basis(vertices, nodes, torch.float64, "cpu")
    layout = Layout(basis.matrix.shape[1], 2 * count - 3, count)
    right = pixel_system(products, state, look, cameras, basis, layout)
    low = spline_basis(vertices, nodes, torch.float32, "cpu")
    singles = (as_floats(products), as_float(state), as_floats(look), cameras.to(torch.float32), low, layout)
    made = pixel_system(*singles)
    with plain_torch():
        return right, made, pixel_system(*singles)


def scaled(system: System, right: System) -> tuple[Tensor, Tensor]:
    """H and g in units in which the right one's diagonal is 1: the unknowns' units differ by orders of magnitude."""
    size = torch.diagonal(right.hessian, dim1=1, dim2=2).sqrt()
    return system.hessian / size[:, :, None] / size[:, None], system.gradient / size


@pytest.mark.parametrize("distortion", [0.0, 1.0])
@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize(("vertices", "nodes"), [(31, 9), (40, 40), (128, 40)])
@pytest.mark.parametrize("shape", SHAPES)
def test_pixel_system(shape: str, vertices: int, nodes: int, count: int, distortion: float) -> None:
    batch = 2 if vertices < 128 else 1
    state = bent(shape, batch, vertices, count)
    right, made, rounded = both_systems(state, own_cameras(count, batch, distortion), nodes, count)
    assert made.hessian.dtype is torch.float32
    for found, goal in zip(scaled(made, right), scaled(right, right), strict=True):
        assert relative(found.double(), goal) < 2e-5  # the splines of the two differ by float32's rounding
    for found, goal in zip(scaled(made, right), scaled(rounded, right), strict=True):
        assert relative(found, goal) < ROUNDED
    assert torch.equal(made.hessian, made.hessian.mT)


def test_cameras_that_all_frames_share() -> None:
    state = bent("waves", 3, 24)
    shared = rig(3).to(torch.float32).to(torch.float64)
    right, made, _ = both_systems(state, shared, 10, 3)
    assert relative(scaled(made, right)[0].double(), scaled(right, right)[0]) < 2e-5


@pytest.mark.parametrize("damping", [1e-6, 1e-2, 100.0])
def test_solve(damping: float) -> None:
    generator = torch.Generator().manual_seed(2)
    root = torch.randn(4, 37, 60, generator=generator) * torch.logspace(-2, 2, 37)[:, None]
    system = System(root @ root.mT, torch.randn(4, 37, generator=generator))
    much = torch.full((4,), damping)
    made = second_order.solve(system, much)
    with plain_torch():
        right = second_order.solve(system, much)
    assert relative(made, right) < 1e-6


def test_solve_gives_nan_where_there_is_no_minimum() -> None:
    system = System(-torch.eye(5)[None], torch.ones(1, 5))
    assert second_order.solve(system, torch.zeros(1)).isnan().any()


def a_problem(state: FrameState, nodes: int) -> Problem:
    batch, vertices = state.curvature.shape[:2]
    shape = average_body(Settings().body, torch.tensor(1.0))
    return Problem(
        views=Views(torch.zeros(batch, 3, 8, 8), rig().to(torch.float32)),
        taper=shape.profile(vertices, torch.full((3,), 40.0), 0.5),
        basis=spline_basis(vertices, nodes, torch.float32, "cpu"),
        objective=Objective(1e-3),
        weights=Settings().second_order,
        bounds=BOUNDS,
        anchor=state,
    )


@pytest.mark.parametrize("size", [0.0, 0.02, 2.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_moved(shape: str, size: float) -> None:
    # The largest steps leave all bounds.
    state = as_float(bent(shape, 3, 33))
    problem = a_problem(state, 11)
    step = size * torch.randn(3, problem.layout.count, generator=torch.Generator().manual_seed(3))
    step[:, 5:27] *= 20
    made = second_order.moved(problem, state, step)
    with plain_torch():
        right = second_order.moved(problem, state, step)
    for item in fields(FrameState):
        found, goal = getattr(made, item.name), getattr(right, item.name)
        assert found.shape == goal.shape and found.is_contiguous()
        assert (found - goal).abs().max() <= ROUNDED * goal.abs().max().clamp(min=1e-3), item.name


def test_any_number_of_threads_gives_the_same_bits() -> None:
    state = bent("waves", 40, 25)
    cameras = own_cameras(3, 40)
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            _, made, _ = both_systems(state, cameras, 10, 3)
            step = second_order.solve(System(made.hessian, made.gradient), torch.full((40,), 0.1))
            found.append((made.hessian, made.gradient, step, project(cameras.to(torch.float32), state.points.float())))
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))


def test_gradients_and_other_types_go_by_torch() -> None:
    state = as_float(bent("waves", 1, 16))
    assert compiled.takes(state.points)
    assert not compiled.takes(state.points, state.length.double())
    assert not compiled.takes(state.points.clone().requires_grad_())
    with torch.no_grad():
        assert compiled.takes(state.points.clone().requires_grad_())

    def end(length: Tensor) -> Tensor:
        begin = (state.points[:, 0], state.frames[:, 0], state.curvature)
        return curve.integrate(*begin, length, torch.zeros(1, dtype=torch.long)).points[0, -1]

    moves = torch.func.jacfwd(end)(state.length)[:, 0]
    assert torch.allclose(moves, (state.points[0, -1] - state.points[0, 0]) / state.length, atol=1e-5)


def test_without_the_library_everything_goes_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled._library.cache_clear()
    monkeypatch.setattr(compiled, "__file__", "/nowhere/compiled.py")
    try:
        with pytest.warns(UserWarning, match="plain torch"):
            assert not compiled.takes(torch.zeros(1))
        assert not compiled.takes(torch.zeros(1))
    finally:
        compiled._library.cache_clear()
