"""Learning the body: its derivatives against differences of what they are the derivatives of, in float64."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scenes import BOUNDS, relative, rig, worm
from torch import Tensor

from midline3d.appearance import KNOTS, hats, optics
from midline3d.cameras import project
from midline3d.fitting import body as learning
from midline3d.fitting.body import TIPS, Body, Rig, Shared, SharedPrior, _factor, average_body, learn
from midline3d.fitting.second_order import Problem, rendered, take_step
from midline3d.fitting.views import Views
from midline3d.kernels import spline_basis
from midline3d.rendering import Objective
from midline3d.settings import Settings
from midline3d.state import FrameState
from midline3d.tracking.clip import kept_body

DOUBLE = torch.float64
N, NODES, SIZE, PER_MM, FRAMES = 48, 12, 64, 40.0, 2
STEP = 1e-5


class Scene:
    """Two frames of a worm, pictures of a slightly other one, and where learning stands."""

    def __init__(self) -> None:
        self.rig = Rig(rig(3, SIZE, PER_MM), torch.zeros(FRAMES, 3, dtype=DOUBLE), torch.zeros(FRAMES, 3, 2).double())
        self.body = average_body(Settings().body, torch.tensor(1.0, dtype=DOUBLE))
        state = worm(FRAMES, N, seed=3)
        state = replace(state, curvature=0.5 * state.curvature, defocus=torch.full_like(state.sigma, 1.5))
        self.state = replace(state, iota=8.0 * state.iota).rebuilt(state.middle())
        self.shared = Shared(self.body.numbers(), torch.full((3, 4), 2e-3, dtype=DOUBLE))
        count = self.shared.flat().numel()
        self.prior = SharedPrior(torch.zeros(count, dtype=DOUBLE), torch.zeros(count, dtype=DOUBLE))
        self.problem = Problem(
            views=Views(torch.zeros(FRAMES, 3, SIZE, SIZE, dtype=DOUBLE), self.rig.local(self.shared.cameras)),
            taper=self.body.profile(N, torch.full((3,), PER_MM, dtype=DOUBLE), 0.3),
            basis=spline_basis(N, NODES, DOUBLE, "cpu"),
            objective=Objective(1e-4, robust=1.0),
            weights=replace(Settings().second_order, keep_length=0.0, smoothness=1.0),
            bounds=replace(BOUNDS, iota=(0.01, 99.0)),
            anchor=self.state,
        )
        other = replace(self.state, iota=1.2 * self.state.iota, sigma=1.1 * self.state.sigma)
        images = rendered(self.problem, other.translated(torch.full((FRAMES, 3), 0.03, dtype=DOUBLE)))
        self.problem = replace(self.problem, views=replace(self.problem.views, images=images))
        self.here = learning._evaluated(self.problem, self.rig, self.prior, self.shared, self.state)

    def after(self, own: Tensor, common: Tensor) -> learning._Point:
        """Where learning stands after a step of the frames' unknowns and of the shared numbers."""
        there = take_step(self.here.problem, self.here.at.state, own)
        return learning._evaluated(self.problem, self.rig, self.prior, self.shared.stepped(common), there)

    def nothing(self) -> tuple[Tensor, Tensor]:
        own = torch.zeros(FRAMES, self.problem.layout.count, dtype=DOUBLE)
        return own, torch.zeros(self.shared.flat().numel(), dtype=DOUBLE)


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene()


def blobs(scene: Scene, state: FrameState) -> Tensor:
    """(batch, camera, vertex, 4): u, v, sigma-bar and iota-bar, light's way and focus made anew."""
    problem = scene.here.problem
    cameras = problem.views.cameras
    appearance = problem.taper.apply(state.view_appearance, optics(cameras, state.points, state.bishop[..., 0]))
    centre = project(cameras, state.points, state.shift)
    return torch.cat([centre, appearance.sigma[..., None], appearance.iota[..., None]], -1)


def test_blobs_by_the_unknowns_that_move_vertices(scene: Scene) -> None:
    layout, state = scene.problem.layout, scene.here.at.state
    problem = scene.here.problem
    seen = optics(problem.views.cameras, state.points, state.bishop[..., 0])
    found = learning._by_coordinates(scene.here, seen) @ learning._coordinates(scene.here)[:, None]
    assert found.shape[-1] == layout.shape_count
    right = []
    for unknown in range(layout.shape_count):
        step = torch.zeros(FRAMES, layout.count, dtype=DOUBLE)
        step[:, unknown] = STEP
        ahead, behind = (blobs(scene, take_step(scene.here.problem, state, way * step)) for way in (1, -1))
        right.append((ahead - behind) / (2 * STEP))
    exact = torch.stack(right, -1)
    # Bends are right to second order in a segment's length; tangents are differences of neighbours, which a tip lacks.
    for part in (slice(3, 5), layout.bend, slice(layout.length, layout.length + 1)):
        for number, most in ((0, 0.01), (1, 0.01), (2, 0.03)):
            assert relative(found[..., number, part], exact[..., number, part]) < most
        # That blur takes more off the ends (`CAP`) is left out, where a longer body is farther from focus.
        inside = slice(N // 3, -N // 3) if part.start == layout.length else slice(2, -2)
        assert relative(found[..., inside, 3, part], exact[..., inside, 3, part]) < 0.1
    # A worm that is moved as a whole looks the same.
    assert relative(found[..., :2, :3], exact[..., :2, :3]) < 1e-6
    assert found[..., 2:, :3].abs().max() < 1e-9 and exact[..., 2:, :3].abs().max() < 1e-6


def test_the_gradient_of_the_whole_energy(scene: Scene) -> None:
    """Of every frame's own unknowns, of the cameras', and of the body's."""
    layout = scene.problem.layout
    gradient = learning._system(scene.here, scene.rig).gradient

    def slope(own: Tensor, common: Tensor) -> float:
        ahead, behind = (scene.after(way * own, way * common).energy for way in (1, -1))
        return (ahead - behind) / (2 * STEP)

    own, common = scene.nothing()
    frames, shared = [], []
    for unknown in [index for index in range(layout.count) if index != layout.length]:
        step = own.clone()
        step[0, unknown] = STEP
        frames.append(slope(step, common))
    for number in range(len(common)):
        step = common.clone()
        step[number] = STEP
        shared.append(slope(own, step))
    rest = [index for index in range(layout.count) if index != layout.length]
    right = torch.zeros(layout.count, dtype=DOUBLE)
    right[rest] = torch.tensor(frames, dtype=DOUBLE)
    for part, most in ((slice(0, 5), 0.02), (layout.bend, 0.03), (layout.shift, 1e-3), (layout.appearance, 0.1)):
        assert relative(2 * gradient[0, part], right[part]) < most
    # The length's column of all frames is the last of the body's numbers.
    together = torch.cat([gradient[:, layout.count :].sum(0), gradient[:, layout.length].sum()[None]])
    cameras, numbers = 2 * together[:12], 2 * together[12:]
    exact = torch.tensor(shared, dtype=DOUBLE)
    # How a turned camera sees focus and light's way otherwise is left out.
    assert relative(cameras, exact[:12]) < 0.08
    assert relative(numbers, exact[12:]) < 0.02


def test_the_hessian_is_a_positive_gram_matrix(scene: Scene) -> None:
    hessian = learning._system(scene.here, scene.rig).hessian
    assert torch.allclose(hessian, hessian.mT, rtol=1e-9, atol=1e-9 * float(hessian.abs().max()))
    assert torch.linalg.eigvalsh(hessian).min() > -1e-9 * float(hessian.abs().max())


def test_learning_goes_downhill_and_finds_the_length(scene: Scene) -> None:
    """Images of a body that is 4 % longer: the energy falls, and the length comes out."""
    longer = replace(scene.body, length=1.04 * scene.body.length, sharp=1.04 * scene.body.sharp)
    state = replace(scene.state, length=1.04 * scene.state.length).rebuilt(scene.state.middle())
    problem = replace(scene.problem, taper=longer.profile(N, torch.full((3,), PER_MM, dtype=DOUBLE), 0.3))
    problem = replace(problem, views=replace(problem.views, cameras=scene.rig.local(torch.zeros(3, 4, dtype=DOUBLE))))
    problem = replace(problem, views=replace(problem.views, images=rendered(problem, state)))
    start = Shared.unchanged(scene.body, 3)
    count = start.flat().numel()
    loose = torch.full((count,), 1e-2, dtype=DOUBLE)
    loose[:12] = 1e3  # cameras that may magnify by anything would make any length
    prior = SharedPrior(start.flat(), loose)
    weights = replace(problem.weights, pixels=10.0)
    problem = replace(problem, weights=weights, anchor=state)
    first = learning._evaluated(problem, scene.rig, prior, start, scene.state).energy
    found = learn(problem, scene.rig, scene.state, start, prior, 8)
    assert found.energy < 0.05 * first and found.iterations <= 8
    assert float(found.body.length) == pytest.approx(1.04, rel=0.01)


def test_a_turn_that_all_cameras_share_is_given_back_to_the_world(scene: Scene) -> None:
    """The pictures stay as they are; what is left of the turns has no part in common."""
    centres = torch.tensor([[0.3, -0.2, 0.1], [-0.1, 0.4, 0.2]], dtype=DOUBLE)
    whole = replace(scene.rig, centres=centres)
    world = torch.tensor([0.06, -0.04, 0.02], dtype=DOUBLE)
    turns = whole.cameras.rotation[0] @ world + 0.02 * torch.randn(3, 3, dtype=DOUBLE)
    shared = replace(scene.shared, cameras=torch.cat([turns, scene.shared.cameras[:, 3:]], 1))
    after, state = learning._turned_back(shared, whole, scene.state)
    before = project(whole.local(shared.cameras), scene.state.points, scene.state.shift)
    assert torch.allclose(project(whole.local(after.cameras), state.points, state.shift), before, atol=1e-9)
    left = whole.cameras.rotation[0].mT @ after.cameras[:, :3, None]
    assert left.mean(0).norm() < 1e-5 < 0.01 < left.norm(dim=1).max()
    again = state.rebuilt(state.middle())
    assert torch.allclose(again.points, state.points, atol=1e-12) and torch.allclose(again.bishop, state.bishop)


def test_numbers_and_back() -> None:
    body = average_body(Settings().body, torch.tensor(0.7, dtype=DOUBLE))
    again = Body.of(body.numbers())
    assert torch.allclose(again.numbers(), body.numbers())
    assert torch.equal(body.reversed().reversed().numbers(), body.numbers())
    assert float(body.reversed().shape.tail_share) == float(body.shape.head_share)
    stub = replace(body, shape=replace(body.shape, tail_tip=torch.tensor(0.3, dtype=DOUBLE)))
    assert torch.allclose(Body.of(stub.numbers()).shape.tail_tip, stub.shape.tail_tip)
    assert float(stub.reversed().shape.head_tip) == pytest.approx(0.3)


def test_the_variance_of_the_length_is_that_of_everything_together(scene: Scene) -> None:
    """Against the inverse of one matrix of all unknowns, none of them eliminated."""
    prior = replace(scene.prior, weight=torch.full_like(scene.prior.weight, 0.5))
    hessian = learning._system(scene.here, scene.rig).hessian
    layout = scene.problem.layout
    own = [index for index in range(layout.count) if index != layout.length]
    common = [*range(layout.count, hessian.shape[1]), layout.length]
    tops = [block[own][:, own] + 1e-9 * block[own][:, own].diagonal().max() * torch.eye(len(own)) for block in hessian]
    coupling = torch.cat([block[own][:, common] for block in hessian])
    corner = sum(block[common][:, common] for block in hessian) + torch.diag(prior.weight)
    whole = torch.cat([torch.cat([torch.block_diag(*tops), coupling], 1), torch.cat([coupling.mT, corner], 1)])
    expected = float(torch.linalg.inv(whole)[-1, -1])
    found = learning.length_variance(scene.problem, scene.rig, scene.state, scene.shared, prior)
    assert found == pytest.approx(expected, rel=1e-6) and found > 0


def test_normal_equations_that_rounding_has_made_negative_are_damped_and_the_others_are_not() -> None:
    generator = torch.Generator().manual_seed(2)
    turns = torch.linalg.qr(torch.randn(4, 6, 6, generator=generator, dtype=torch.float64)).Q
    sizes = torch.tensor([3e4, 1e3, 10.0, 1.0, 1e-2, 1e-4], dtype=torch.float64).repeat(4, 1)
    sizes[1, -1], sizes[2, -1] = -1e-3, -0.5
    frames = turns @ torch.diag_embed(sizes) @ turns.mT
    factor = _factor(frames)
    again = factor @ factor.mT
    torch.testing.assert_close(again[[0, 3]], frames[[0, 3]], rtol=1e-12, atol=1e-9)
    assert float((again[1] - frames[1]).abs().max()) < 1e-6 * 3e4
    assert float((again[2] - frames[2]).abs().max()) < 2e-4 * 3e4


def test_a_body_whose_tissue_was_given_at_fewer_places_is_the_same(tmp_path: Path) -> None:
    body, places = average_body(Settings().body, torch.tensor(0.7)), KNOTS[::2]
    tissue = torch.linspace(-0.4, 0.5, len(places)).cos()
    numbers = torch.cat([tissue, body.numbers()[len(KNOTS) :]])
    kept = {"knots": places, "numbers": numbers.tolist()}
    (tmp_path / "body.json").write_text(json.dumps(kept), encoding="utf-8")
    here = torch.linspace(0, 1, 101)
    found = (kept_body(tmp_path).shape.tissue @ hats(101, torch.float32, torch.device("cpu")).mT).numpy()
    assert np.allclose(found, np.interp(here, places, tissue), atol=1e-6)
    (tmp_path / "body.json").write_text(json.dumps({"numbers": body.numbers().tolist()}), encoding="utf-8")
    assert torch.equal(kept_body(tmp_path).numbers(), body.numbers())


@pytest.mark.parametrize(("kept", "found"), [([0.01, 0.03], (0.01, 0.03)), (0.02, (0.02, 0.02))])
def test_a_kept_body_says_how_surely_either_end_is_known(
    kept: object, found: tuple[float, float], tmp_path: Path
) -> None:
    numbers = average_body(Settings().body, torch.tensor(0.7)).numbers().tolist()
    (tmp_path / "body.json").write_text(json.dumps({"unsure": kept, "numbers": numbers}), encoding="utf-8")
    assert kept_body(tmp_path).unsure == found, "one number is of before either end had its own"


def test_a_body_that_was_kept_before_tails_could_end_in_stubs_ends_in_points(tmp_path: Path) -> None:
    body = average_body(Settings().body, torch.tensor(0.7))
    numbers = body.numbers().tolist()
    others = numbers[len(KNOTS) :]
    del others[TIPS]
    kept = {"knots": KNOTS, "numbers": [*numbers[: len(KNOTS)], *others]}
    (tmp_path / "body.json").write_text(json.dumps(kept), encoding="utf-8")
    found = kept_body(tmp_path)
    assert float(found.shape.tail_tip) == float(found.shape.head_tip) == pytest.approx(1e-3)
    assert torch.allclose(found.shape.depth, body.shape.depth) and torch.allclose(found.length, body.length)
