"""Pins: their rows in the normal equations against automatic differentiation, and what they do to a fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from scenes import BOUNDS, as_float, relative, rig, worm
from test_normal import stepped
from torch import Tensor

from midline3d.cameras import project
from midline3d.fitting.pins import BODY, Pins, distance, held, pin_energy
from midline3d.fitting.second_order import Problem, evaluate, fit, normal_equations, rendered
from midline3d.fitting.views import Views
from midline3d.kernels import Layout, spline_basis
from midline3d.rendering import Objective
from midline3d.settings import Settings
from midline3d.state import FrameState
from midline3d.tracking.learning import average_body

SIZE, N, NODES = 64, 40, 12


def problem(state: FrameState, pins: Pins | None = None, weight: float | None = None) -> Problem:
    """The worm in pictures of itself."""
    settings, dtype = Settings(), state.points.dtype
    cameras = rig(3, SIZE).local(torch.zeros(len(state), 3).double(), torch.zeros(len(state), 3, 2).double()).to(dtype)
    body = average_body(settings.body, state.length[0])
    blank = torch.zeros(len(state), 3, SIZE, SIZE, dtype=dtype)
    weights = settings.second_order if weight is None else replace(settings.second_order, pixels=weight)
    made = Problem(
        Views(blank, cameras),
        body.profile(N, torch.full((3,), 40.0, dtype=dtype), 0.5),
        spline_basis(N, NODES, dtype, "cpu"),
        Objective(settings.pixels.cutoff, robust=settings.pixels.robust),
        weights,
        BOUNDS,
        state,
        pins,
    )
    return replace(made, views=Views(rendered(made, state), cameras))


def pins_at(camera: list[int], vertex: list[int], place: Tensor, weight: float = 1.0) -> Pins:
    full = torch.full((1, len(camera)), weight, dtype=place.dtype)
    return Pins(torch.tensor([camera]), torch.tensor([vertex]), place[None], full)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_rows_of_the_normal_equations(dtype: torch.dtype) -> None:
    """Head, tail and body: the gradient is half that of the energy, H is J'J of what the pins hold. In float32 by the
    compiled system where it is built, in float64 by the plain one."""
    exact = worm(vertices=N)
    state = exact if dtype == torch.float64 else as_float(exact)
    seen = project(rig(3, SIZE), exact.points, exact.shift)[0]
    place = torch.stack([seen[0, 0] + 3, seen[1, -1] - 2, seen[2, 17] + torch.tensor([1.5, -1.0])]).to(dtype)
    pins = pins_at([0, 1, 2], [0, -1, BODY], place, 0.7)
    with_pins, without = problem(state, pins), problem(state)
    both, alone = (normal_equations(each, evaluate(each, state)) for each in (with_pins, without))
    layout: Layout = with_pins.layout
    matrix, cameras = spline_basis(N, NODES, torch.float64, "cpu").matrix, rig(3, SIZE)
    at = held(pins_at([0, 1, 2], [0, -1, BODY], place.double(), 0.7), cameras, exact)

    def away(step: Tensor) -> Tensor:
        there = project(cameras, stepped(exact, step, layout, matrix).points, exact.shift + step[layout.shift])
        off = there[0, [0, 1, 2], at.vertex[0]] - place.double()
        off = off - (off * at.along[0]).sum(-1, keepdim=True) * at.along[0]
        return 0.7**0.5 * off.flatten()

    still = torch.zeros(layout.count, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(away, still)
    # By bending, a vertex moves as exactly as `vertex_derivatives` says: to second order in a segment's length.
    close = 1e-3 if dtype == torch.float64 else 3e-3
    assert relative((both.hessian - alone.hessian)[0].double(), jacobian.T @ jacobian) < close
    assert relative((both.gradient - alone.gradient)[0].double(), jacobian.T @ away(still)) < close


def test_a_body_pin_holds_the_line_and_not_a_vertex() -> None:
    bent = worm(vertices=N)
    state = replace(bent, curvature=0.1 * bent.curvature).rebuilt(bent.middle())
    cameras = rig(3, SIZE)
    seen = project(cameras, state.points, state.shift)[0]
    between = (seen[0, 20] + seen[0, 21]) / 2
    at = held(pins_at([0], [BODY], between[None]), cameras, state)
    assert int(at.vertex) in (20, 21)
    assert torch.allclose(at.along.norm(dim=-1), torch.ones(1, 1, dtype=torch.float64))
    beyond = seen[0, 0] + 5 * (seen[0, 0] - seen[0, 1])
    end = held(pins_at([0], [BODY], beyond[None]), cameras, state)
    assert int(end.vertex) == 0 and float(end.along.abs().max()) == 0, "an end itself is drawn there"
    assert float(distance(pins_at([0], [0], seen[0, :1]), cameras, state)) == 0


def test_a_pin_draws_the_midline_to_it() -> None:
    """Against no pixels at all it is met; against pictures that say otherwise, only as far as it weighs."""
    state = as_float(worm(vertices=N))
    seen = project(problem(state).views.cameras, state.points, state.shift)
    place = seen[0, 1, :1] + torch.tensor([4.0, 3.0])
    free = problem(state, pins_at([1], [0], place), weight=1e-6)
    near = fit(free, state, 40)
    assert float(distance(free.pins, free.views.cameras, near.state)) < 0.3  # type: ignore[arg-type]
    ways = []
    for weight in (1e-3, 1.0, 100.0):
        held_by = problem(state, pins_at([1], [0], place, weight))
        ways.append(float(distance(held_by.pins, held_by.views.cameras, fit(held_by, state, 40).state)))  # type: ignore[arg-type]
    assert ways[0] > ways[1] > ways[2] and ways[0] > 4 and ways[2] < 0.7, ways


def test_pins_that_are_met_change_nothing() -> None:
    state = as_float(worm(vertices=N))
    plain = problem(state)
    seen = project(plain.views.cameras, state.points, state.shift)
    met = problem(state, pins_at([0, 2], [0, -1], torch.stack([seen[0, 0, 0], seen[0, 2, -1]])))
    assert float(pin_energy(met.pins, met.views.cameras, state)) < 1e-6  # type: ignore[arg-type]
    at, alone = evaluate(met, state), evaluate(plain, state)
    assert torch.allclose(at.energy, alone.energy) and set(at.terms) - set(alone.terms) == {"pins"}
    ways = [normal_equations(each, reported).gradient for each, reported in ((met, at), (plain, alone))]
    assert relative(ways[0], ways[1]) < 1e-4


def test_a_frame_with_fewer_pins_than_another() -> None:
    """A weight of 0 is no pin."""
    state = worm(batch=2, vertices=N)
    cameras = rig(3, SIZE)
    place = torch.full((2, 2, 2), 20.0, dtype=torch.float64)
    pins = Pins(
        torch.zeros(2, 2).long(), torch.zeros(2, 2).long(), place, torch.tensor([[1.0, 0.0], [0.0, 0.0]]).double()
    )
    energy = pin_energy(pins, cameras, state)
    assert energy[0] > 0 and energy[1] == 0
