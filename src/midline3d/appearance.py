"""How the animal looks: sigma, iota and rho per view, tapered to the tips, become blobs.

Two tapers. The paper's falls linearly over a fifth of the body to widths and intensities set by hand. `Profile` is the
animal's own: its width and opacity along the body, learned once per recording, seen through each view's blur.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import torch

from midline3d.cameras import Cameras, depths
from midline3d.rendering import Blobs
from midline3d.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class Optics:
    """Where the vertices stand in each view's light and focus. Fixed while a step is solved for, then made anew."""

    stretch: Float[Tensor, "batch camera vertex"]
    """How much longer light's way through the body is where it points towards the camera, from 1."""
    beyond: Float[Tensor, "batch camera vertex"]
    """How much further from the camera a vertex is than the mean of all, mm."""


@dataclass(frozen=True)
class ViewAppearance:
    """What the renderer knows of each view."""

    sigma: Float[Tensor, "batch camera"]
    """px."""
    iota: Float[Tensor, "batch camera"]
    defocus: Float[Tensor, "batch camera"]
    """Blur that a part gains for every mm that it is further away, px per mm."""


@dataclass(frozen=True)
class BlobAppearance:
    """sigma-bar and iota-bar of every blob, and their derivatives."""

    sigma: Float[Tensor, "batch camera vertex"]
    iota: Float[Tensor, "batch camera vertex"]
    by_view: Float[Tensor, "batch camera vertex 2 3"]
    """d(sigma-bar, iota-bar) / d(log sigma, log iota, defocus) of the view."""

    def blobs(self, centre: Float[Tensor, "batch camera vertex 2"], rho: Float[Tensor, "batch camera"]) -> Blobs:
        """What the renderer draws, with the image points (px) and the views' sharpness."""
        return Blobs(centre, self.sigma, self.iota, rho)


@runtime_checkable
class Taper(Protocol):
    """How the width and intensity of a view spread over the vertices."""

    def apply(self, view: ViewAppearance, optics: Optics) -> BlobAppearance:
        """Width and intensity of every blob in every view, and their derivatives by the views' parameters."""
        ...


@dataclass(frozen=True)
class PaperTaper:
    """Linear over a fifth of the body at each end, down to fixed minima (app. C), both ends reaching them exactly."""

    vertices: int
    sigma_min: float
    """px."""
    iota_min: float
    share: float = 0.2

    def apply(self, view: ViewAppearance, optics: Optics) -> BlobAppearance:
        """See `Taper.apply`; the optics change nothing here."""
        (sigma, by_sigma), (iota, by_iota) = self.tapered(view)
        by_sigma, by_iota, zero = by_sigma * view.sigma[..., None], by_iota * view.iota[..., None], by_sigma * 0
        return BlobAppearance(sigma, iota, _matrix([[by_sigma, zero, zero], [zero, by_iota, zero]]))

    def tapered(self, view: ViewAppearance) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """sigma-bar and its derivative by the view's sigma, iota-bar and its derivative by the view's iota."""
        ramp = _ramp(self.vertices, self.share, view.sigma.dtype, view.sigma.device)
        return _tapered(view.sigma[..., None], self.sigma_min, ramp), _tapered(
            view.iota[..., None], self.iota_min, ramp
        )


def _tapered(value: Float[Tensor, "batch camera 1"], least: float, ramp: Tensor) -> tuple[Tensor, Tensor]:
    # A view thinner or fainter than the minimum keeps its own value throughout.
    low = value.clamp(max=least)
    return low + (value - low) * ramp, torch.where(value > least, ramp, 1.0)


@cache
def _ramp(vertices: int, share: float, dtype: torch.dtype, device: torch.device) -> Float[Tensor, " vertex"]:
    """From 0 at the tips to 1 over a share of the body."""
    place = torch.linspace(0, 1, vertices, dtype=dtype, device=device)
    return (torch.minimum(place, 1 - place) / share).clamp(max=1)


KNOTS = (0.0, 0.04, 0.09, 0.16, 0.27, 0.5, 0.73, 0.84, 0.91, 0.96, 1.0)
"""Where along the body the tissue's opacity is given. Closely near the tips: a clear head that ends bluntly is dim and
then gone; with knots wide apart it can only be drawn as one that fades, and then it is drawn too long. Not as closely
in between: with six more places the step where a dark gut begins is followed better, and some bodies are held short by
it no more (of 32 animals of one image model ends 2.7 px off instead of 3.1, but of 27 of them that it was not found on
2.7 instead of 2.8); yet real ends lay 3.3 and 3.8 px from where people see them, instead of 2.6 and 2.8, and those of
the tube, a second image model, 0.2 to 0.3 px farther off."""


@dataclass(frozen=True)
class Shape:
    """The numbers that say how the body tapers and how its opacity runs. All are tensors, so that they can be fitted.

    The width rises from a tip as (1 - (1 - s / share)^2)^bluntness over `share` of the body: 1/2 is an ellipse's
    blunt end, 1 a pointed one. It begins at `tip`, rounded off: a tail may thin to a stub, and end there. The opacity
    is a power of the width there, times what `tissue` says. Numbers of shape (batch, 1, 1), a tissue of (batch, 1,
    knot), are a body for each frame of a batch.
    """

    head_share: Float[Tensor, "*slot"]
    head_bluntness: Float[Tensor, "*slot"]
    tail_share: Float[Tensor, "*slot"]
    tail_bluntness: Float[Tensor, "*slot"]
    head_tip: Float[Tensor, "*slot"]
    """Of the middle's width, less than `WIDEST`."""
    tail_tip: Float[Tensor, "*slot"]
    head_opacity: Float[Tensor, "*slot"]
    """Exponent of the opacity at the head: opacity = width^exponent; 1 where the tissue absorbs evenly."""
    tail_opacity: Float[Tensor, "*slot"]
    depth: Float[Tensor, "*slot"]
    """How the image darkens with the length of light's way through the body: to this power."""
    tissue: Float[Tensor, "*row knot"]
    """log of the opacity against an even tissue, at the places `KNOTS`."""

    def profile(
        self, place: Float[Tensor, " vertex"], lost: Float[Tensor, "*any 2"]
    ) -> tuple[Float[Tensor, "*any vertex"], Float[Tensor, "*any vertex"]]:
        """Width and opacity at equal steps from tip to tip, as shares of the middle's; `lost` goes off at both ends."""
        head = _end(place - lost[..., :1], self.head_share, self.head_bluntness, self.head_tip)
        tail = _end(1 - place - lost[..., 1:], self.tail_share, self.tail_bluntness, self.tail_tip)
        tissue = (self.tissue @ hats(len(place), place.dtype, place.device).mT).exp()
        return head * tail, head**self.head_opacity * tail**self.tail_opacity * tissue


@cache
def hats(vertices: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Piecewise linear interpolation from the knots to equal steps over [0, 1], as a (vertex, knot) matrix."""
    steps = np.linspace(0, 1, vertices)
    matrix = np.stack([np.interp(steps, KNOTS, hat) for hat in np.eye(len(KNOTS))], 1)
    return torch.from_numpy(matrix).to(dtype).to(device)


WIDEST = 0.35
"""Of the middle's width: no end is a stub as wide as this. Let go, a tail that fades was once cut off where it was half
as wide as its middle, 10 px short."""
ROUNDED = 0.03
"""Of the length: half of a worm's width, over which an end that is as wide as its middle would be round."""


def _end(place: Tensor, share: Tensor, bluntness: Tensor, tip: Tensor) -> Tensor:
    # Not quite 0 at the tip: a power of it must keep finite derivatives.
    inside = (1 - (1 - (place / share).clamp(0, 1)).square()).clamp(min=1e-4)
    least = torch.minimum(place.clamp(min=0) / ROUNDED, tip)
    return least + (1 - least) * inside**bluntness


CAP = 0.35
"""Blur widths by which the largest of many blobs reaches further beyond a tapered end than their sum does.

A blurred image is a sum over the body; the render is a maximum. Fitted to images of straight tapered bodies, blunt and
pointed, in focus and out of it, the last visible blob lies 0.25 to 0.45 blur widths inside the tip.
"""


@dataclass(frozen=True)
class Profile:
    """The animal's own taper: its shape, blurred as each view is.

    A view's sigma is the width of the body's middle there. What it has above the width of a sharp image is blur,
    which adds to every part in squares, while the light that a part takes away stays the same: a thin tip out of
    focus is as wide as the blur and faint.
    """

    shape: Shape
    sharp: Float[Tensor, "*batch camera"]
    """sigma of the body's middle in perfect focus, px."""
    length: Float[Tensor, "*batch camera"]
    """px."""
    vertices: int
    floor: float = 0.5
    """px: least blur, a pixel's own width."""
    unsure: tuple[float, float] = (0.0, 0.0)
    """Standard deviations of where the head ends and where the tail does, of the length (see `Body.unsure`)."""

    @cached_property
    def rows(self) -> Float[Tensor, "body number"]:
        """All of it in a row, for each frame or for all: the shape's numbers in their order, sharp widths, lengths."""
        bodies = len(self.sharp) if self.sharp.ndim == 2 else 1
        numbers = [*vars(self.shape).values(), self.sharp, self.length]
        return torch.cat([value.reshape(bodies, -1) for value in numbers], 1)

    def taken(self, rows: Int[Tensor, " row"]) -> Profile:
        """Of some frames of a batch."""
        if self.sharp.ndim == 1:
            return self  # one body for all
        shape = Shape(**{name: value[rows] for name, value in vars(self.shape).items()})
        return replace(self, shape=shape, sharp=self.sharp[rows], length=self.length[rows])

    def apply(self, view: ViewAppearance, optics: Optics) -> BlobAppearance:
        """See `Taper.apply`: each part is as wide as itself and its blur, and the fainter the wider blur makes it."""
        sigma, iota = view.sigma[..., None], view.iota[..., None]
        sharp = torch.minimum(self.sharp[..., None], sigma)
        middle = (sigma.square() - sharp.square()).clamp(min=self.floor**2).sqrt()
        blur = (middle + view.defocus[..., None] * optics.beyond).clamp(min=self.floor)
        place = torch.linspace(0, 1, self.vertices, dtype=sigma.dtype, device=sigma.device)
        # Not blur[..., [0, -1]]: a list of places would be copied to a GPU, and wait for it.
        ends = torch.stack([blur[..., 0], blur[..., -1]], -1)
        width, opacity = self.shape.profile(place, CAP * ends / self.length[..., None])
        spread = ((sharp * width).square() + blur.square()).sqrt()
        # The middle of the body, in the mean focus, has the view's own sigma and iota.
        whole = (sharp.square() + middle.square()).sqrt()
        faded = iota * opacity * width * (whole / spread) * optics.stretch**self.shape.depth
        by_blur = torch.where(blur > self.floor, blur / spread, 0.0)
        by_sigma = torch.where(sigma > sharp, by_blur * sigma.square() / middle, spread)
        by_focus = by_blur * optics.beyond
        zero = torch.zeros_like(spread)
        return BlobAppearance(
            sigma=spread,
            iota=faded,
            by_view=_matrix(
                [
                    [by_sigma, zero, by_focus],
                    [faded * (1 - by_sigma / spread), faded, -faded * by_focus / spread],
                ]
            ),
        )


@dataclass(frozen=True)
class _End:
    """One end of the body: the logarithm of its width at every vertex, and its derivatives."""

    log: Float[Tensor, "batch camera vertex"]
    by_share: Float[Tensor, "batch camera vertex"]
    """By the logarithm of the share over which it tapers."""
    by_bluntness: Float[Tensor, "batch camera vertex"]
    """By the logarithm of its bluntness."""
    by_tip: Float[Tensor, "batch camera vertex"]
    """By the log odds of the width at which it ends, as a share of the `WIDEST`."""
    by_place: Float[Tensor, "batch camera vertex"]

    @staticmethod
    def of(place: Float[Tensor, "batch camera vertex"], share: Tensor, bluntness: Tensor, tip: Tensor) -> _End:
        along = place / share
        inside = (1 - (1 - along.clamp(0, 1)).square()).clamp(min=1e-4)
        slope = torch.where((along < 1) & (inside > 1e-4), bluntness * 2 * (1 - along) / inside, 0.0)
        least, tapered = torch.minimum(place.clamp(min=0) / ROUNDED, tip), inside**bluntness
        width = least + (1 - least) * tapered
        # How the width follows the taper, and the least that it is.
        kept, by_least, full = (1 - least) * tapered / width, (1 - tapered) / width, place > ROUNDED * tip
        rounding = torch.where((place > 0) & ~full, by_least / ROUNDED, 0.0)
        return _End(
            log=width.log(),
            by_share=-kept * slope * along,
            by_bluntness=kept * bluntness * inside.log(),
            by_tip=torch.where(full, by_least * tip * (1 - tip / WIDEST), 0.0),
            by_place=kept * slope / share + rounding,
        )


def shape_derivatives(
    profile: Profile, view: ViewAppearance, optics: Optics
) -> Float[Tensor, "batch camera vertex 2 number"]:
    """d(sigma-bar, iota-bar) by the tissue at the knots, then by the logarithms of `Shape`'s other numbers, in their
    order, and of the sharp width; by the tips' log odds instead (see `_End.by_tip`)."""
    shape, blobs = profile.shape, profile.apply(view, optics)
    sigma = view.sigma[..., None]
    sharp = torch.minimum(profile.sharp[..., None], sigma)
    squared = sigma.square() - sharp.square()
    middle = squared.clamp(min=profile.floor**2).sqrt()
    blur = (middle + view.defocus[..., None] * optics.beyond).clamp(min=profile.floor)
    place = torch.linspace(0, 1, profile.vertices, dtype=sigma.dtype, device=sigma.device)
    # A wider sharp image leaves less blur, and what goes off at both ends is a share of that.
    wider = torch.where(profile.sharp[..., None] < sigma, 1.0, 0.0)
    by_middle = torch.where(squared > profile.floor**2, -wider * sharp.square() / middle, 0.0)
    by_blur = torch.where(blur > profile.floor, by_middle, 0.0)
    cap = CAP / profile.length[..., None]
    head = _End.of(place - cap * blur[..., :1], shape.head_share, shape.head_bluntness, shape.head_tip)
    tail = _End.of(1 - place - cap * blur[..., -1:], shape.tail_share, shape.tail_bluntness, shape.tail_tip)
    head_by_sharp, tail_by_sharp = -head.by_place * cap * by_blur[..., :1], -tail.by_place * cap * by_blur[..., -1:]

    opaque, zero = (shape.head_opacity, shape.tail_opacity), torch.zeros_like(blur)
    knots = hats(profile.vertices, place.dtype, place.device)
    none = zero[..., None].expand(*zero.shape, knots.shape[1])
    by_tapers = [head.by_share, head.by_bluntness, tail.by_share, tail.by_bluntness, head.by_tip, tail.by_tip]
    exponents = [opaque[0], opaque[0], opaque[1], opaque[1], *opaque]
    width = [*by_tapers, zero, zero, zero, head_by_sharp + tail_by_sharp]
    opacity = [exponent * each for exponent, each in zip(exponents, by_tapers, strict=True)]
    opacity += [opaque[0] * head.log, opaque[1] * tail.log, zero]
    opacity += [opaque[0] * head_by_sharp + opaque[1] * tail_by_sharp]
    log_width = torch.cat([none, torch.stack(width, -1)], -1)
    log_opacity = torch.cat([knots.expand_as(none), torch.stack(opacity, -1)], -1)
    # What of the square of a blob's width is the body's own, and not blur.
    body = (sharp * (head.log + tail.log).exp() / blobs.sigma).square()
    log_sigma = body[..., None] * log_width
    log_sigma[..., -1] += body * wider + blur * by_blur / blobs.sigma.square()
    log_iota = log_opacity + log_width - log_sigma
    log_iota[..., -2] += shape.depth * optics.stretch.log()
    log_iota[..., -1] += wider * (sharp.square() + middle * by_middle) / (sharp.square() + middle.square())
    return torch.stack([blobs.sigma[..., None] * log_sigma, blobs.iota[..., None] * log_iota], -2)


LONGEST = 3.0
"""Most that light's way through the body counts longer than across it: seen end on, the body ends."""


def optics(
    cameras: Cameras,
    points: Float[Tensor, "batch vertex 3"],
    tangents: Float[Tensor, "batch vertex 3"],
    longest: float = LONGEST,
) -> Optics:
    """Light's way through the body (1 / sin of its angle to the line of sight, bounded by `longest`), and depths."""
    along = (cameras.rotation[:, :, 2, None] * tangents[:, None]).sum(-1)
    across = (1 - along.square()).clamp(min=0).sqrt()
    away = depths(cameras, points)
    return Optics(1 / across.clamp(min=1 / longest), away - away.mean(-1, keepdim=True))


def _matrix(rows: list[list[Tensor]]) -> Tensor:
    return torch.stack([torch.stack(row, -1) for row in rows], -2)
