"""The closed-form normal equations against automatic differentiation of what they are the normal equations of."""

from dataclasses import replace

import pytest
import torch
from scenes import relative, rig, worm
from torch import Tensor

from midline3d import curve
from midline3d.appearance import BlobAppearance, Optics, PaperTaper, Taper, ViewAppearance, optics
from midline3d.cameras import Cameras, project
from midline3d.fitting.body import average_body
from midline3d.kernels import Layout, spline_basis
from midline3d.kernels.normal import pixel_system, shift_and_appearance_derivatives, vertex_derivatives
from midline3d.rendering import Blobs, Objective, Reference, products
from midline3d.rendering.reference import cauchy
from midline3d.rendering.reference import render as literally
from midline3d.settings import Settings
from midline3d.state import FrameState

DOUBLE = torch.float64
N, NODES, SIZE = 40, 12, 48


def stepped(state: FrameState, step: Tensor, layout: Layout, matrix: Tensor) -> FrameState:
    """A batch of one after a step of its unknowns, differentiable; written from `Layout`'s docstring alone."""
    middle = state.vertices // 2
    bishop = state.bishop[:, middle]
    turn = (bishop[..., 1:] @ step[3:5]).reshape(1, 3)
    nodes = step[layout.bend].reshape(2, -1)
    length = state.length * step[layout.length].exp()
    made = curve.integrate(
        state.points[:, middle] + step[:3],
        curve.rotation_exp(turn) @ bishop,
        state.curvature + (matrix @ nodes.T)[None],
        length,
        torch.tensor([middle]),
    )
    sigma, iota, defocus, rho = step[layout.appearance].reshape(4, -1)
    return replace(
        state,
        points=made.points,
        bishop=made.bishop,
        length=length,
        shift=state.shift + step[layout.shift],
        sigma=state.sigma * sigma.exp(),
        iota=state.iota * iota.exp(),
        defocus=state.defocus + defocus,
        rho=state.rho * rho.exp(),
    )


class Scene:
    """A worm, a picture of another worm, and everything between."""

    def __init__(self, count: int = 3, own: bool = False, nodes: int = NODES, vertices: int = N) -> None:
        self.cameras: Cameras = rig(count, SIZE, 30.0)
        self.state = worm(1, vertices, count, seed=3)
        self.basis = spline_basis(vertices, nodes, DOUBLE, "cpu")
        self.layout = Layout(self.basis.matrix.shape[1], 2 * count - 3, count)
        self.taper: Taper = PaperTaper(vertices, 0.9, 0.2)
        if own:
            body = average_body(Settings().body, torch.tensor(1.0, dtype=DOUBLE))
            self.taper = body.profile(vertices, torch.full((count,), 30.0, dtype=DOUBLE), 0.3)
        self.seen: Optics = optics(self.cameras, self.state.points, self.state.bishop[..., 0])
        other = worm(1, vertices, count, seed=3)
        other = replace(other, points=other.points + 0.04, iota=other.iota * 1.1)
        with torch.no_grad():
            blank = torch.zeros(1, count, SIZE, SIZE, dtype=DOUBLE)
            self.images = literally(self.blobs(other), blank).image + 0.02 * torch.rand_like(blank)

    def appearance(self, state: FrameState) -> BlobAppearance:
        return self.taper.apply(ViewAppearance(state.sigma, state.iota, state.defocus), self.seen)

    def blobs(self, state: FrameState) -> Blobs:
        return self.appearance(state).blobs(project(self.cameras, state.points, state.shift), state.rho)

    def loss(self, step: Tensor, objective: Objective) -> Tensor:
        there = stepped(self.state, step, self.layout, self.basis.matrix)
        image = literally(self.blobs(there), self.images, objective.cutoff).image
        return cauchy(image.log1p() - self.images.log1p(), objective.robust)[1].sum()


def bend_error(vertices: int, nodes: int) -> float:
    """Checks all unknowns that move vertices; returns the error of those that bend."""
    scene = Scene(nodes=nodes, vertices=vertices)
    count = scene.layout.shape_count

    def points(step: Tensor) -> Tensor:
        full = torch.cat([step, torch.zeros(scene.layout.count - count, dtype=DOUBLE)])
        return stepped(scene.state, full, scene.layout, scene.basis.matrix).points[0]

    right = torch.func.jacfwd(points)(torch.zeros(count, dtype=DOUBLE))
    found = vertex_derivatives(scene.state, scene.basis)[0]
    for part in (slice(0, 3), slice(3, 5), slice(scene.layout.length, count)):
        assert relative(found[..., part], right[..., part]) < 1e-9
    return relative(found[..., scene.layout.bend], right[..., scene.layout.bend])


def test_vertex_derivatives() -> None:
    # Bending turns a segment's far side about the middle of the segment: exact to second order in its length.
    coarse, fine = bend_error(20, NODES), bend_error(40, NODES)
    assert fine < 5e-3 and fine < 0.35 * coarse
    assert bend_error(40, 40) < 1e-2


@pytest.mark.parametrize("count", [2, 3, 4])
def test_shift_and_appearance_derivatives(count: int) -> None:
    scene = Scene(count)
    first = scene.layout.shape_count

    def five(step: Tensor) -> Tensor:
        full = torch.cat([torch.zeros(first, dtype=DOUBLE), step])
        blobs = scene.blobs(stepped(scene.state, full, scene.layout, scene.basis.matrix))
        rho = blobs.rho[..., None].expand_as(blobs.sigma)
        return torch.cat([blobs.centre, torch.stack([blobs.sigma, blobs.iota, rho], -1)], -1)[0]

    right = torch.func.jacfwd(five)(torch.zeros(scene.layout.count - first, dtype=DOUBLE))
    found = shift_and_appearance_derivatives(scene.state, scene.appearance(scene.state), scene.cameras, scene.layout)[0]
    assert relative(found, right) < 1e-6


@pytest.mark.parametrize("robust", [float("inf"), 0.7])
@pytest.mark.parametrize("own", [False, True])
def test_the_gradient_of_all_pixels(own: bool, robust: float) -> None:
    scene = Scene(own=own)
    objective = Objective(cutoff=1e-3, robust=robust)
    step = torch.zeros(scene.layout.count, dtype=DOUBLE, requires_grad=True)
    right = torch.autograd.grad(scene.loss(step, objective), step)[0]
    made = products(scene.blobs(scene.state), scene.images, objective, renderer=Reference())
    appearance = scene.appearance(scene.state)
    system = pixel_system(made, scene.state, appearance, scene.cameras, scene.basis, scene.layout)
    assert float(made.loss.sum()) == pytest.approx(float(scene.loss(step.detach(), objective)), rel=1e-9)
    # Each kind of unknown against its own largest slope: their units differ.
    for part in (slice(0, 5), scene.layout.bend, slice(scene.layout.length, scene.layout.length + 1)):
        assert relative(2 * system.gradient[0, part], right[part]) < 0.01
    assert relative(2 * system.gradient[0, scene.layout.shift], right[scene.layout.shift]) < 1e-3
    part = scene.layout.appearance
    assert relative(2 * system.gradient[0, part], right[part]) < (0.2 if own else 1e-6)


def test_the_hessian_is_a_positive_gram_matrix() -> None:
    scene = Scene()
    objective = Objective(cutoff=1e-3)
    made = products(scene.blobs(scene.state), scene.images, objective, renderer=Reference())
    system = pixel_system(made, scene.state, scene.appearance(scene.state), scene.cameras, scene.basis, scene.layout)
    hessian = system.hessian[0]
    assert torch.allclose(hessian, hessian.mT, rtol=1e-9, atol=1e-9 * float(hessian.abs().max()))
    assert torch.linalg.eigvalsh(hessian).min() > -1e-9 * float(hessian.abs().max())


def test_splines_follow_a_smooth_curvature_and_sum_to_one() -> None:
    matrix = spline_basis(128, 40, DOUBLE, "cpu").matrix
    assert matrix.sum(1).tolist() == pytest.approx([1.0] * 128)
    place = torch.linspace(0, 1, 128, dtype=DOUBLE)
    goal = torch.sin(12 * place) + 0.3 * torch.cos(31 * place)
    nodes = torch.linalg.lstsq(matrix, goal[:, None]).solution
    assert (matrix @ nodes - goal[:, None]).abs().max() < 2e-3
