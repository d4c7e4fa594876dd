"""The fused functions against their plain-torch twins: on a GPU if there is one, else through Triton's interpreter."""

import os
from dataclasses import replace

import pytest
import torch

ON_GPU = torch.cuda.is_available()
if not ON_GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read once, when Triton is imported
pytest.importorskip("triton", reason="Triton is not installed: there is no wheel of it for this system")

from scenes import BOUNDS, relative, rig  # noqa: E402
from test_compiled import as_floats, bent, own_cameras, random_look, random_products, scaled  # noqa: E402
from torch import Tensor  # noqa: E402

from midline3d import curve, fused  # noqa: E402
from midline3d.appearance import CAP, hats, optics  # noqa: E402
from midline3d.cameras import Cameras, project  # noqa: E402
from midline3d.fitting import second_order  # noqa: E402
from midline3d.fitting.body import average_body  # noqa: E402
from midline3d.fitting.normal import Layout, System, pixel_system, spline_basis  # noqa: E402
from midline3d.fitting.second_order import MOST_LOG_LENGTH, MOST_LOG_LOOK, Problem  # noqa: E402
from midline3d.fitting.views import Views  # noqa: E402
from midline3d.rendering import Objective  # noqa: E402
from midline3d.settings import Settings  # noqa: E402
from midline3d.state import FrameState  # noqa: E402

DEVICE = "cuda" if ON_GPU else "cpu"
# Against float64. What goes by float64 itself keeps all digits of float32; sums over vertices in float32 lose some.
EXACT, ROUNDED = 3e-6, 2e-5
SIZES = [(1, 5, 3, 5), (2, 40, 2, 12), *([(7, 128, 3, 40), (3, 200, 4, 40)] if ON_GPU else [])]
"""(batch, vertices, cameras, nodes)."""
sizes = pytest.mark.parametrize(("batch", "vertices", "cameras", "nodes"), SIZES)


def there(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """On the device in float32, every frame's part in one piece but frames apart, as rows of something wider lie."""
    spaced = {}
    for name, value in values.items():
        wide = torch.zeros(len(value), value[0].numel() + 3)
        wide[:, : value[0].numel()] = value.reshape(len(value), -1).float()
        spaced[name] = wide.to(DEVICE)[:, : value[0].numel()].view(value.shape)
    return spaced


def singles(cameras: Cameras) -> dict[str, Tensor]:
    return vars(cameras.to(torch.float32).to(DEVICE))


def apart(actual: Tensor, expected: Tensor) -> float:
    return relative(actual.double().cpu(), expected)


def problem_of(state: FrameState, cameras: Cameras, nodes: int) -> Problem:
    """In float64; its images are never looked at."""
    batch, vertices = state.curvature.shape[:2]
    body = average_body(Settings().body, torch.tensor(1.1, dtype=torch.float64))
    return Problem(
        views=Views(torch.zeros(batch, cameras.count, 4, 4, dtype=torch.float64), cameras),
        taper=body.profile(vertices, torch.full((cameras.count,), 100.0, dtype=torch.float64), 0.5),
        basis=spline_basis(vertices, nodes, torch.float64, "cpu"),
        objective=Objective(3e-3),
        weights=Settings().second_order,
        bounds=BOUNDS,
        anchor=replace(state, length=1.01 * state.length, sigma=0.9 * state.sigma, shift=state.shift + 0.5),
    )


@sizes
@pytest.mark.parametrize("shape", ["waves", "coils", "straight"])
def test_curves(shape: str, batch: int, vertices: int, cameras: int, nodes: int) -> None:
    state = bent(shape, batch, vertices, cameras)
    start = torch.arange(batch) * 7 % vertices - (torch.arange(batch) % 2) * vertices
    rows = torch.arange(batch)
    begin = (state.points[rows, start], state.frames[rows, start], state.curvature, state.length)
    expected = curve.integrate(*begin, start)
    given = there({str(place): value for place, value in enumerate(begin)})
    points, frames = fused.integrate(*given.values(), start.to(DEVICE))
    assert apart(points, expected.points) < EXACT and apart(frames, expected.frames) < EXACT


@sizes
@pytest.mark.parametrize("size", [0.02, 3.0])
def test_steps(size: float, batch: int, vertices: int, cameras: int, nodes: int) -> None:
    """Small ones, and ones that every bound cuts."""
    state = bent("waves", batch, vertices, cameras)
    problem = problem_of(state, rig(cameras), nodes)
    generator = torch.Generator().manual_seed(2)
    step = (size * torch.randn(batch, problem.layout.count, generator=generator)).double()
    expected = second_order.moved(problem, state, step)
    ends = (*BOUNDS.length, *BOUNDS.sigma, *BOUNDS.iota, *BOUNDS.rho)
    limits = (MOST_LOG_LENGTH, MOST_LOG_LOOK, BOUNDS.circles, BOUNDS.defocus, *ends)
    made = fused.moved(there(vars(state)), step.float().to(DEVICE), problem.basis.matrix.float().to(DEVICE), limits)
    for name, value in vars(expected).items():
        assert apart(made[name], value) < EXACT, name


@sizes
@pytest.mark.parametrize("shared", [False, True])
def test_views(shared: bool, batch: int, vertices: int, cameras: int, nodes: int) -> None:
    state = bent("waves", batch, vertices, cameras)
    own = rig(cameras, distortion=1.0).to(torch.float32).to(torch.float64)
    views = own if shared else own_cameras(cameras, batch, 1.0)
    given = there(vars(state))
    for shift in (None, state.shift):
        actual = fused.project(singles(views), given["points"], None if shift is None else given["shift"])
        assert apart(actual, project(views, state.points, shift)) < EXACT
    stretch, beyond = fused.optics(singles(views), given["points"], given["frames"][..., 0], 3.0)
    expected = optics(views, state.points, state.frames[..., 0])
    assert apart(stretch, expected.stretch) < EXACT and apart(beyond, expected.beyond) < EXACT


@sizes
@pytest.mark.parametrize("own", [False, True])
def test_looks(own: bool, batch: int, vertices: int, cameras: int, nodes: int) -> None:
    """Of one body for all frames, and of a body for each."""
    state = bent("coils", batch, vertices, cameras)
    views = own_cameras(cameras, batch)
    taper = problem_of(state, views, nodes).taper
    if own:
        grown = torch.linspace(0.8, 1.2, batch, dtype=torch.float64).view(-1, 1, 1)
        shape = type(taper.shape)(**{name: value * grown + 0.01 for name, value in vars(taper.shape).items()})
        scale = grown[:, 0]
        taper = replace(taper, shape=shape, sharp=taper.sharp * scale, length=taper.length * scale)
    seen = optics(views, state.points, state.frames[..., 0])
    expected = taper.look(state.view_look, seen)
    given = there(vars(state))
    numbers = {name: value.float().to(DEVICE) for name, value in vars(taper.shape).items()}
    actual = fused.look(
        (given["sigma"], given["iota"], given["defocus"]),
        (seen.stretch.float().to(DEVICE), seen.beyond.float().to(DEVICE)),
        numbers, hats(vertices, torch.float32, torch.device(DEVICE)),
        taper.sharp.float().to(DEVICE), taper.length.float().to(DEVICE), taper.floor, CAP,
    )  # fmt: skip
    for value, right in zip(actual, vars(expected).values(), strict=True):
        assert apart(value, right) < ROUNDED


@sizes
def test_energies(batch: int, vertices: int, cameras: int, nodes: int) -> None:
    state = bent("waves", batch, vertices, cameras)
    problem = problem_of(state, rig(cameras), nodes)
    losses = torch.arange(1.0, batch * cameras + 1).double().view(batch, cameras)
    expected = second_order._energies(problem, state, losses)
    slope = (state.curvature.mT.reshape(-1, vertices) @ problem.stiffness).view(batch, 2, -1)
    given = [value.float().to(DEVICE) for value in (losses, slope, problem.keeping)]
    anchor = there(vars(problem.anchor))
    actual = fused.energy(there(vars(state)), anchor, *given, problem.weights.pixels)
    for value, right in zip(actual, expected, strict=True):
        assert apart(value, right) < ROUNDED


@sizes
@pytest.mark.parametrize("shared", [False, True])
def test_normal_equations(shared: bool, batch: int, vertices: int, cameras: int, nodes: int) -> None:
    state = bent("coils", batch, vertices, cameras)
    own = rig(cameras, distortion=1.0).to(torch.float32).to(torch.float64)
    views = own if shared else own_cameras(cameras, batch, 1.0)
    products, look = random_products(batch, cameras, vertices), random_look(batch, cameras, vertices)
    basis = spline_basis(vertices, nodes, torch.float64, "cpu")
    layout = Layout(basis.matrix.shape[1], 2 * cameras - 3, cameras)
    expected = pixel_system(products, state, look, views, basis, layout)
    low, seen, given = as_floats(products), as_floats(look), there(vars(state))
    made = fused.system(
        singles(views), low.gram.to(DEVICE), low.slope.to(DEVICE), given["points"], given["frames"],
        spline_basis(vertices, nodes, torch.float32, DEVICE).segments, seen.by_view.to(DEVICE), given["rho"],
    )  # fmt: skip
    actual = System(*(value.double().cpu() for value in made))
    for value, right in zip(scaled(actual, expected), scaled(expected, expected), strict=True):
        assert (value - right).abs().max() < ROUNDED


def test_only_a_gpu_is_served() -> None:
    single = torch.zeros(1)
    assert not fused.takes(single)
    assert fused.takes(single.to(DEVICE)) == ON_GPU
    assert not fused.takes(single.double().to(DEVICE))
    assert not fused.takes(single.to(DEVICE).requires_grad_())


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
def test_states_on_a_gpu_go_by_the_fused_functions() -> None:
    """All that a second-order step asks for, through the functions that it calls, against float64."""
    state = bent("waves", 3, 128)
    problem = problem_of(state, own_cameras(3, 3), 40)
    low = replace(
        problem,
        basis=spline_basis(128, 40, torch.float32, DEVICE),
        anchor=FrameState(**there(vars(problem.anchor))),
    )
    step = torch.full((3, problem.layout.count), 0.01, dtype=torch.float64)
    actual = second_order.moved(low, FrameState(**there(vars(state))), step.float().to(DEVICE))
    expected = second_order.moved(problem, state, step)
    assert apart(actual.points, expected.points) < EXACT
