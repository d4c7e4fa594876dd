"""A midline that runs inside another part of its own body is told from one that merely touches it."""

import math
from dataclasses import replace

import pytest
import torch
from scenes import rig, worm
from test_body import Scene
from torch import Tensor

from midline3d.appearance import Shape
from midline3d.fitting.body import average_body
from midline3d.fitting.contact import as_bodies, through_itself
from midline3d.fitting.second_order import Fit
from midline3d.settings import Settings
from midline3d.state import FrameState, merged

VERTICES = 128
PX_PER_MM = 40.0
WIDTH = 0.05
"""mm"""


def coil(turns: float, apart: float) -> FrameState:
    """A helix of 1 mm whose turns lie `apart` mm from each other."""
    state = worm(vertices=VERTICES)
    angle = torch.linspace(0, 2 * math.pi * turns, VERTICES, dtype=torch.float64)
    radius = 1 / (2 * math.pi * turns)
    points = torch.stack([radius * angle.cos(), radius * angle.sin(), apart * angle / (2 * math.pi)], -1)
    return replace(state, points=points[None])


def shares(state: FrameState) -> Tensor:
    body = average_body(Settings().body, torch.tensor(1.0, dtype=torch.float64))
    magnification = torch.full((3,), PX_PER_MM, dtype=torch.float64)
    taper = body.profile(VERTICES, magnification, 0.5)
    return through_itself(taper, rig(px_per_mm=PX_PER_MM), state, WIDTH * magnification[None])


@pytest.mark.parametrize("turns", [0.5, 0.9, 1.5, 2.0])
def test_turns_that_touch_lie_beside_each_other(turns: float) -> None:
    assert float(shares(coil(turns, WIDTH))) == 0


def test_turns_inside_each_other_are_counted() -> None:
    assert float(shares(coil(2.0, 0.2 * WIDTH))) > 0.8
    assert 0.2 < float(shares(coil(1.3, 0.2 * WIDTH))) < 0.8


def test_a_tight_bend_is_none() -> None:
    assert float(shares(coil(0.99, 0.0))) < 0.1  # a ring whose ends just do not meet
    assert float(shares(worm(vertices=VERTICES))) == 0


def test_each_frame_may_have_a_body_of_its_own() -> None:
    """Two frames with bodies that differ in nothing are as the same frames with one."""
    body = average_body(Settings().body, torch.tensor(1.0, dtype=torch.float64))
    magnification = torch.full((3,), PX_PER_MM, dtype=torch.float64)
    one = body.profile(VERTICES, magnification, 0.5)
    numbers = {name: value.expand(2, 1, *(value.shape or (1,))) for name, value in vars(body.shape).items()}
    each = replace(one, shape=Shape(**numbers), sharp=one.sharp.expand(2, 3), length=one.length.expand(2, 3))
    states, width = merged([coil(1.3, 0.2 * WIDTH), coil(2.0, WIDTH)]), WIDTH * magnification.expand(2, 3)
    found = [through_itself(taper, rig(px_per_mm=PX_PER_MM), states, width) for taper in (one, each)]
    assert torch.equal(*found) and found[0][0] > 0.2 and found[0][1] == 0


def test_a_fit_through_itself_comes_last_and_no_number_after_it() -> None:
    states = merged([coil(2.0, 0.2 * WIDTH), coil(2.0, WIDTH), coil(2.0, WIDTH)])
    scene = Scene()
    views = replace(scene.problem.views, cameras=rig(px_per_mm=PX_PER_MM))
    body = replace(scene.body, sharp=torch.tensor(WIDTH, dtype=torch.float64))
    taper = body.profile(VERTICES, torch.full((3,), PX_PER_MM, dtype=torch.float64), 0.5)
    found = Fit(states, torch.tensor([1.0, 2.0, math.nan], dtype=torch.float64), {}, torch.zeros(3, dtype=torch.long))
    ranked = as_bodies(replace(scene.problem, views=views, taper=taper), found, 1.0, 0.05)
    assert ranked.argsort().tolist() == [1, 0, 2] and float(ranked[1]) == 2.0
