"""What the images say to a curve, view by view: light that it explains, light that it leaves over, light that it lacks.

All in units that do not depend on the recording: brightness in that of the body's middle, areas in squares of the
body's width, doubt in standard deviations of what the view's noise and the model's own error allow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch.nn.functional import grid_sample

from midline3d.appearance import Profile
from midline3d.cameras import scale
from midline3d.fitting.contact import through_itself
from midline3d.fitting.second_order import Evaluation, Problem, rendered
from midline3d.fitting.uncertainty import deviations
from midline3d.fitting.views import room_around
from midline3d.settings import EvidenceSettings
from midline3d.shapes import Bool, Float, Tensor
from midline3d.state import FrameState
from midline3d.tracking.doubt import Signs, doubt
from midline3d.tracking.masks import averaged, grown_in_cells

AVERAGED = 2.2
"""Factor by which averaging over 3 x 3 px lowers the noise: 3 if neighbours were independent, which they are not."""
THINNEST = 0.8
"""px: least sigma of a body, as `CurveSettings.sigma`: thinner it falls between the pixels."""
BEYOND = (0.75, 1.75)
"""Widths of the body beyond an end between which light is looked for: closer it is the end's own blur, further off it
is no longer straight on."""
SECTION = (-0.4, -0.2, 0.0, 0.2, 0.4)
"""Widths of the body there, to its side, at which light is looked for at a vertex: in perfect focus light goes through
the middle of some bodies, whose edges are dark."""
SHOWN = 0.5
"""Of the body: a picture that shows less of it is not held against the midline."""
FAN = (0.44, 0.87)
"""rad to the end's own direction in which light is looked for, too: 25 and 50 degrees, as far as an end may bend."""


@dataclass(frozen=True)
class Evidence:
    """What the images say to the midlines of a batch of frames."""

    explained: Float[Tensor, "batch camera"]
    """Light that image and render have in common, as a share of what either has, around the curve."""
    unexplained: Float[Tensor, "batch camera"]
    """Light around the curve that nothing draws, in pieces of the body as long as it is wide."""
    unbacked: Float[Tensor, "batch camera"]
    """What is drawn where there is no light, in the same pieces."""
    beyond: Float[Tensor, "batch 2"]
    """Light beyond the head and the tail that nothing draws, of the body's brightness: along the way on, by a width and
    more, that has the most of it, in the view that has the least."""
    border: Float[Tensor, "batch camera"]
    """Share of the vertices that lie outside the crop."""
    shown: Float[Tensor, "batch camera"]
    """Share of the vertices that lie in the camera's picture."""
    alone: Float[Tensor, " batch"]
    """Share of the vertices that fewer than two pictures show, the body's width from their borders or farther."""
    through: Float[Tensor, " batch"]
    """Share of the midline that lies inside another part of its own body (see `fitting.contact`)."""
    confidence: Float[Tensor, "batch vertex"]
    """Probability that half of the light that is drawn across the body at the vertex is there in all views that show
    it; 0 where fewer than two do."""
    across: Float[Tensor, "batch vertex"]
    """Standard deviation of the vertex to the side of the body, mm."""
    along: Float[Tensor, "batch vertex"]
    """Standard deviation of the vertex along the body, mm."""
    doubt: Float[Tensor, " batch"]
    """Probability that the midline is wrong (see `tracking.doubt`)."""

    def __getitem__(self, index: list[int]) -> Evidence:
        """Of some of the frames."""
        return Evidence(**{name: value[index] for name, value in vars(self).items()})

    def cpu(self) -> Evidence:
        return Evidence(**{name: value.cpu() for name, value in vars(self).items()})


@torch.no_grad()
def evidence(
    problem: Problem,
    state: FrameState,
    contrast: Float[Tensor, " camera"],
    noise: Float[Tensor, " camera"],
    settings: EvidenceSettings,
    drawn: Float[Tensor, "batch camera w w"] | None = None,
    at: Evaluation | None = None,
) -> Evidence:
    """The evidence for states.

    `contrast`: the brightness of the body's middle in the problem's images; `noise`: the standard deviation of faint
    light, of the body's brightness; `drawn`: the render, of that brightness, where it is not the problem's own; `at`:
    the states held against the images, where that is known already.
    """
    unit = contrast[:, None, None]
    raw = problem.views.images
    light = _linear(raw) / unit
    drawn = rendered(problem, state) / unit if drawn is None else drawn
    covered = problem.views.covered()
    if covered is not None:
        light, drawn = light * covered, drawn * covered
    light, drawn = (averaged(each) for each in (light, drawn))
    noise = noise / AVERAGED
    least = torch.clamp(settings.doubt * noise, min=settings.faint)[:, None, None]
    light, drawn = light.clamp(-1, settings.brightest), drawn.clamp(max=settings.brightest)
    width = body_width(problem.taper, settings).expand(len(state), -1)
    near = grown_in_cells(drawn > settings.faint, float(width.mean()) * settings.reach)
    counted = near & (torch.maximum(light, drawn) > least)
    common = _sum_within(counted, torch.minimum(light, drawn).clamp(min=0))
    either = _sum_within(counted, torch.maximum(light, drawn))
    piece = width.square()
    over = _sum_within(near, (light - settings.slack * drawn - least).clamp(min=0)) / piece
    lacking = (drawn / settings.slack - light - least).clamp(min=0).sum((2, 3)) / piece
    seen = problem.kernels.project(problem.views.cameras, state.points, state.shift)
    size = torch.tensor(raw.shape[:-3:-1], device=seen.device, dtype=seen.dtype)
    exact = deviations(problem, state, at)
    per_mm = scale(problem.views.cameras, state.points).mean(1, keepdim=True)
    room = room_around(seen, problem.views.picture)
    inside = room >= 0
    sections = _sections(problem, seen, width)
    confidence = _confidence(light, drawn, sections, noise, settings.texture, inside)
    outside = ((seen < 0) | (seen > size - 1)).any(-1).to(seen.dtype).mean(-1)
    # A view must not be shifted out of its picture.
    unmoved = problem.kernels.project(problem.views.cameras, state.points, torch.zeros_like(state.shift))
    shown = (inside | (room_around(unmoved, problem.views.picture) >= 0)).to(seen.dtype).mean(-1)
    clear = room >= width[..., None]
    return Evidence(
        explained=common / either.clamp(min=1e-6),
        unexplained=over,
        unbacked=lacking,
        beyond=_beyond((light - settings.slack * drawn).clamp(min=0), problem, state, width, shown),
        border=outside,
        shown=shown,
        alone=(clear.sum(1) < 2).to(seen.dtype).mean(-1),
        through=through_itself(problem.taper, problem.views.cameras, state, width),
        confidence=confidence,
        across=exact.across,
        along=exact.along,
        doubt=doubt(Signs(per_mm * exact.across, per_mm * exact.along, confidence, lacking)),
    )


def _linear(images: Float[Tensor, "batch camera h w"]) -> Float[Tensor, "batch camera h w"]:
    """Back from balanced images (see `clip.balanced`) to what is linear in light."""
    return images.clamp(min=0) + (1 - 1 / (1 + images.clamp(max=0)))


def _sum_within(
    mask: Bool[Tensor, "batch camera h w"], values: Float[Tensor, "batch camera h w"]
) -> Float[Tensor, "batch camera"]:
    """Sum over the pixels of a mask; NaN where one of them is, so that it speaks against the frame."""
    if values.is_cpu:
        total = (values * mask).sum((2, 3))  # torch chooses by masks three times as slowly
        if bool(total.isfinite().all()):
            return total
    return torch.where(mask, values, 0.0).sum((2, 3))


def body_width(taper: Profile, settings: EvidenceSettings) -> Float[Tensor, "*batch camera"]:
    """px: how wide the body's middle is in perfect focus, in each view."""
    return settings.width * taper.sharp.clamp(min=THINNEST)


def light_at(
    images: Float[Tensor, "batch camera h w"], places: Float[Tensor, "batch camera place 2"]
) -> Float[Tensor, "batch camera place"]:
    """Images at places (px) between their pixels, 0 outside."""
    batch, cameras, height, width = images.shape
    size = torch.tensor([width, height], device=places.device, dtype=places.dtype)
    grid = 2 * places / (size - 1).clamp(min=1) - 1
    flat = grid_sample(images.flatten(0, 1)[:, None], grid.flatten(0, 1)[:, None], align_corners=True)
    return flat.view(batch, cameras, -1)


def _beyond(
    left: Tensor, problem: Problem, state: FrameState, width: Tensor, shown: Float[Tensor, "batch camera"]
) -> Float[Tensor, "batch 2"]:
    """The most of `left` along any straight way on from an end, in the view that has the least of it there, of those
    that show the animal."""
    cameras = problem.views.cameras
    across = (width / scale(cameras, state.points)).mean(1)
    steps = torch.linspace(*BEYOND, 4, device=left.device, dtype=left.dtype)
    ends = []
    for end, outward in ((0, -1.0), (-1, 1.0)):
        directions = _fan(outward * state.bishop[:, end, :, 0], state.bishop[:, end, :, 1:])
        away = directions[:, :, None] * (steps[:, None] * across[:, None, None])[:, None]
        places = state.points[:, end, None, None] + away
        seen = problem.kernels.project(cameras, places.flatten(1, 2), state.shift)
        light = light_at(left, seen).unflatten(2, (directions.shape[1], len(steps))).mean(-1)
        light = light.masked_fill((shown < SHOWN)[:, :, None], torch.inf)
        ends.append(light.amin(1).amax(1))
    return torch.stack(ends, -1)


def _fan(axis: Float[Tensor, "batch 3"], normals: Float[Tensor, "batch 3 2"]) -> Float[Tensor, "batch direction 3"]:
    """Directions within 50 degrees of an axis."""
    return _cone(axis.dtype, axis.device) @ torch.cat([axis[..., None], normals], -1).mT


@cache
def _cone(dtype: torch.dtype, device: torch.device) -> Float[Tensor, "direction 3"]:
    """The directions' parts along the axis and both normals: the axis itself, and eight for every angle of `FAN`."""
    turns = [place * math.pi / 4 for place in range(8)]
    around = [
        (math.cos(angle), math.sin(angle) * math.cos(turn), math.sin(angle) * math.sin(turn))
        for angle in FAN
        for turn in turns
    ]
    return torch.tensor([(1.0, 0.0, 0.0), *around], dtype=dtype, device=device)


@cache
def _steps_across(dtype: torch.dtype, device: torch.device) -> Float[Tensor, " place"]:
    return torch.tensor(SECTION, dtype=dtype, device=device)


def _sections(
    problem: Problem, seen: Float[Tensor, "batch camera vertex 2"], width: Float[Tensor, "batch camera"]
) -> Float[Tensor, "batch camera vertex place 2"]:
    """Places across the body at every vertex (`SECTION`), px. width: of its middle."""
    along = torch.nn.functional.normalize(torch.gradient(seen, dim=2)[0], dim=-1)
    across = torch.stack([-along[..., 1], along[..., 0]], -1)
    place = torch.linspace(0, 1, seen.shape[2], dtype=seen.dtype, device=seen.device)
    taper = problem.taper
    thick, _ = taper.shape.profile(place, seen.new_zeros(*taper.sharp.shape, 2))
    reach = (width[..., None] * thick[..., :1, :])[..., None] * _steps_across(seen.dtype, seen.device)
    return seen[:, :, :, None] + reach[..., None] * across[:, :, :, None]


def _confidence(
    light: Tensor,
    drawn: Tensor,
    sections: Tensor,
    noise: Tensor,
    texture: float,
    shown: Bool[Tensor, "batch camera vertex"],
) -> Float[Tensor, "batch vertex"]:
    """See `Evidence.confidence`. sections: places across the body at every vertex, px; texture: how much light differs
    from what is drawn of it; shown: whether the vertices lie in the pictures."""
    places = sections.flatten(2, 3)
    there, wanted = (light_at(each, places).unflatten(2, sections.shape[2:4]).mean(-1) for each in (light, drawn))
    spread = (noise[:, None].square() + (texture * wanted).square()).sqrt()
    doubt = (there - wanted / 2) / spread.clamp(min=1e-6)
    there_too = torch.nan_to_num(torch.special.ndtr(doubt), nan=0.0).masked_fill(~shown, 1.0)
    return torch.where(shown.sum(1) >= 2, there_too.amin(1), 0.0)
