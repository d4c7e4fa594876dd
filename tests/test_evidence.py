"""What images say to curves of which it is known how they lie beside the worm that the images show."""

import math
from dataclasses import replace

import pytest
import torch
from scenes import BOUNDS, as_float, rig, worm
from torch import Tensor
from torch.nn.functional import interpolate

from midline3d.cameras import project
from midline3d.fitting.body import average_body
from midline3d.fitting.second_order import Problem, rendered
from midline3d.fitting.views import Views, room_around
from midline3d.kernels import spline_basis
from midline3d.rendering import Objective
from midline3d.settings import Settings
from midline3d.state import FrameState
from midline3d.tracking.clip import balanced
from midline3d.tracking.evidence import Evidence, evidence
from midline3d.tracking.judging import judge

N, SIZE, PER_MM = 64, 160, 90.0
CONTRAST = torch.tensor([20.0, 30.0, 40.0])
SETTINGS = Settings()


def animal() -> FrameState:
    """A gently bent worm, 90 px long, as bright in every view as the contrast says."""
    state = as_float(worm(1, N, seed=5))
    state = replace(
        state,
        curvature=0.3 * state.curvature,
        sigma=torch.full((1, 3), 2.2),
        iota=CONTRAST[None],
        rho=torch.full((1, 3), 1.2),
    )
    state = state.rebuilt(state.middle())
    return state.translated(-state.points.mean(1))


def problem_with(images: Tensor | None = None) -> Problem:
    """The average body in front of images; as it is, of nothing."""
    body = average_body(SETTINGS.body, torch.tensor(1.0))
    blank = torch.zeros(1, 3, SIZE, SIZE)
    return Problem(
        views=Views(blank if images is None else images, rig(3, SIZE, PER_MM).to(torch.float32)),
        taper=body.profile(N, torch.full((3,), PER_MM), 0.5),
        basis=spline_basis(N, 20, torch.float32, "cpu"),
        objective=Objective(3e-3, robust=1.0),
        weights=SETTINGS.second_order,
        bounds=replace(BOUNDS, iota=(0.01, 200.0)),
        anchor=animal(),
    )


def pictures(state: FrameState) -> Tensor:
    """What the cameras show, with noise of a thirtieth of the body's brightness."""
    clean = rendered(problem_with(), state)
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    return balanced(clean + noise * CONTRAST[:, None, None] / 30)


def evidence_of(state: FrameState, images: Tensor) -> Evidence:
    return evidence(problem_with(images), state, CONTRAST, 0.6 / CONTRAST, SETTINGS.evidence)


def shortened(state: FrameState, share: float) -> FrameState:
    """The same curve up to a share of its length."""
    cut = round(share * (N - 1)) + 1
    bend = share * interpolate(state.curvature[:, :cut].mT, N, mode="linear", align_corners=True).mT
    points, bishop = state.points.clone(), state.bishop.clone()
    short = replace(state, points=points, bishop=bishop, curvature=bend, length=share * state.length)
    return short.rebuilt(torch.zeros(1, dtype=torch.long))


def test_a_right_curve() -> None:
    found = evidence_of(animal(), pictures(animal()))
    assert found.explained.min() > 0.93
    assert found.unexplained.max() < 0.05 and found.unbacked.max() < 0.05
    assert not found.border.any() and found.beyond.abs().max() < 0.1
    # The very tips are drawn so faintly that noise hides them.
    assert found.confidence[0, 4:-4].min() > 0.95
    assert judge(found, 0.0, SETTINGS.judging).status == "ok"


def hollow(state: FrameState, taken: float) -> Tensor:
    """What the cameras show of a body that light goes through along its middle, where this share of it is missing."""
    place = torch.stack(torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="xy"), -1).float()
    lines = project(rig(3, SIZE, PER_MM).to(torch.float32), state.points, state.shift)[0]
    near = torch.stack([torch.cdist(place.flatten(0, 1), line).amin(1).view(SIZE, SIZE) for line in lines])
    return pictures(state) * (1 - taken * (-(near**2) / 2).exp())


def test_a_body_that_light_goes_through_along_its_middle_is_there_all_the_same() -> None:
    found = evidence_of(animal(), hollow(animal(), 0.75))
    assert found.confidence[0, 8:-8].min() > 0.5
    beside = evidence_of(animal().translated(torch.tensor([[0.06, 0.06, 0.06]])), hollow(animal(), 0.75))
    assert beside.confidence[0, 8:-8].mean() < 0.05


def test_a_curve_beside_the_worm_is_drawn_without_light() -> None:
    found = evidence_of(animal().translated(torch.tensor([[0.25, 0.25, 0.25]])), pictures(animal()))
    # Some 20 pieces of the body, each of which counts about half.
    assert found.unbacked.min() > 4 and found.explained.max() < 0.4
    assert found.confidence[0].mean() < 0.3
    assert judge(found, 0.0, SETTINGS.judging).status == "lost"


def test_a_curve_without_its_tail_leaves_light_over_in_all_views_that_show_it() -> None:
    right = animal()
    short = shortened(right, 0.75)
    assert (short.points[0, -1] - right.points[0, round(0.75 * (N - 1))]).norm() < 0.02
    found = evidence_of(short, pictures(right))
    over = found.unexplained[0].sort(descending=True).values
    assert over[1] > 1.0 and found.unbacked.max() < 0.3
    assert judge(found, 0.0, SETTINGS.judging).reason == "light unexplained"
    # Beyond the tail there is light in every view, beyond the head in none.
    assert found.beyond[0, 1] > 0.4 and found.beyond[0, 0] < 0.1


def test_a_curve_that_is_too_long_is_drawn_without_light() -> None:
    right = animal()
    found = evidence_of(right, pictures(shortened(right, 0.75)))
    assert found.unbacked.amax() > 1.0 and found.unexplained.max() < 0.3
    assert found.confidence[0, -8:].max() < 0.2 < 0.8 < found.confidence[0, 8:32].min()


def test_light_far_from_the_curve_does_not_count() -> None:
    images = pictures(animal())
    dirty = images.clone()
    dirty[..., :12, :12] = CONTRAST[:, None, None]
    one, other = evidence_of(animal(), images), evidence_of(animal(), dirty)
    assert torch.equal(one.explained, other.explained) and torch.equal(one.unexplained, other.unexplained)


def test_a_body_over_the_border() -> None:
    out = animal().translated(torch.tensor([[0.9, 0.0, 0.0]]))
    found = evidence_of(out, pictures(out))
    seen = (SIZE - 1) / 2 + PER_MM * out.points[0, :, 0]
    right = float((seen > SIZE - 1).float().mean())
    # The cameras 0 and 1 have x to their right, the camera 2 looks along it.
    assert found.border[0].tolist() == pytest.approx([right, right, 0.0], abs=1 / N)
    assert right > 0.1


def test_noise_alone_backs_nothing() -> None:
    noise = torch.randn(1, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))
    found = evidence_of(animal(), balanced(noise * CONTRAST[:, None, None] / 30))
    assert found.explained.max() < 0.1 and judge(found, 0.0, SETTINGS.judging).status == "lost"


def test_a_state_that_is_not_a_number_speaks_against_the_frame() -> None:
    nothing = FrameState(**{name: torch.full_like(value, math.nan) for name, value in vars(animal()).items()})
    found = evidence_of(nothing, pictures(animal()))
    assert judge(found, math.nan, SETTINGS.judging).status == "lost"
    assert not found.confidence.any()


def test_a_picture_that_does_not_show_the_animal_says_nothing_to_it() -> None:
    images = pictures(animal())
    images[:, 1] = 0
    gone = torch.tensor([0.0, SIZE - 1, 0.0, SIZE - 1]).repeat(1, 3, 1)
    gone[:, 1, 1] = -1.0
    problem = problem_with(images)
    unaware, aware = (
        evidence(each, animal(), CONTRAST, 0.6 / CONTRAST, SETTINGS.evidence)
        for each in (problem, replace(problem, views=replace(problem.views, picture=gone)))
    )
    assert judge(unaware, 0.0, SETTINGS.judging).status == "lost"
    assert judge(aware, 0.0, SETTINGS.judging).status == "ok"
    assert aware.shown.tolist() == [[1.0, 0.0, 1.0]] and float(aware.alone) == 0
    assert aware.confidence[:, 4:-4].amin() > 0.9 and unaware.confidence[:, 4:-4].amax() < 0.1
    assert float(aware.unbacked.amax()) < 0.1


def test_an_end_that_one_picture_alone_shows_is_not_trusted() -> None:
    """Two pictures end a body's width behind the head."""
    problem, state = problem_with(pictures(animal())), animal()
    seen = problem.kernels.project(problem.views.cameras, state.points, state.shift)
    picture = torch.tensor([0.0, SIZE - 1, 0.0, SIZE - 1]).repeat(1, 3, 1)
    for view in (0, 1):
        axis = int((seen[0, view, 0] - seen[0, view, -1]).abs().argmax())
        side = int(seen[0, view, 0, axis] > seen[0, view, -1, axis])
        picture[0, view, 2 * axis + side] = seen[0, view, 8, axis]
    there = replace(problem, views=replace(problem.views, picture=picture))
    found = evidence(there, state, CONTRAST, 0.6 / CONTRAST, SETTINGS.evidence)
    assert 0.05 < float(found.alone) < 0.5
    assert found.confidence[0, 0] == 0 and found.confidence[0, N // 2] > 0.5
    assert judge(found, 0.0, SETTINGS.judging).reason == "outside"


def test_room_around_a_picture() -> None:
    picture = torch.tensor([[[2.0, 10.0, 3.0, 8.0]]])
    places = torch.tensor([[[[6.0, 5.0], [1.0, 5.0], [9.5, 4.0], [6.0, 12.0]]]])
    assert room_around(places, picture).tolist() == [[[2.0, -1.0, 0.5, -4.0]]]
    assert room_around(places, None).isinf().all()
    covered = Views(torch.zeros(1, 1, 12, 14), rig(1, 14, 9.0), picture).covered()
    assert covered is not None and covered.sum() == 9 * 6 and bool(covered[0, 0, 3, 2]) and bool(covered[0, 0, 8, 10])
