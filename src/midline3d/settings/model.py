"""The curve and how its render is held against the images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from midline3d.settings.ranges import Range, Share, Size


@dataclass(frozen=True)
class CurveSettings:
    """The curve, and what no parameter may leave."""

    vertices: Annotated[int, Range(8, 2048)] = 128
    """N, the paper's: a segment is a ninth of the body's width, so that its blobs run into one line."""
    nodes: Annotated[int, Range(5, 512)] = 40
    """B-spline nodes of the curvature in the second-order fitter: 40 follow any coil under k_max to 0.01 px, and a
    step costs a fifth of one with all 128."""
    circles: Annotated[float, Range(0.1, 20)] = 3.0
    """k_max: the tightest constant curvature, in full circles over the body. The paper's bound."""
    length: Annotated[tuple[float, float], Range(0.01, 100)] = (0.3, 3.0)
    """mm. Wide on purpose: the length is learned from the recording."""
    sigma: Annotated[tuple[float, float], Range(0.1, 500)] = (0.8, 25.0)
    """px. Below 0.8 a blob falls between the pixels; 25 is a worm out of all focus."""
    iota: Annotated[tuple[float, float], Range(1e-4, 100)] = (0.02, 3.0)
    """Of the recording's brightest body. Wide on purpose: focus and crossings take it far from 1."""
    rho: Annotated[tuple[float, float], Range(0.1, 50)] = (0.6, 6.0)
    """1 is a Gaussian; under 0.6 a blob is a spike with tails, above 6 a disc, and no body is either."""
    defocus: Annotated[float, Range(0, 1000)] = 20.0
    """px of blur per mm of depth, either way: stronger than any lens of this field."""


@dataclass(frozen=True)
class PixelSettings:
    """How a render is held against the images."""

    model_error: Annotated[float, Range(0.01, 10)] = 0.6
    """b of a pixel's standard deviation a + b I. With a measured in each view (its noise, and what the model gets wrong
    of faint light), r = log(1 + b R / a) - log(1 + b I / a) has the same spread everywhere. The model is off by 0.1 to
    0.2 of the light where the body is dark, but over patches of 15 to 30 px at once: as many independent errors would
    have to be four or five times as large to say as little."""
    cutoff: Annotated[float, Range(1e-6, 0.5)] = 3e-3
    """Share of its peak under which a blob is cut: at 3e-3 what is cut is less than one grey level of a dark body."""
    least_error: Share = 0.01
    """Least standard deviation of faint light, of the body's brightness, where there is hardly any noise: no model is
    better than that."""
    robust: Size = 1.0
    """c of Cauchy's loss, in units of r: light that is wrong by more than a factor of e has less and less to say."""
    floor: Annotated[float, Range(0.05, 10)] = 0.5
    """px: least blur of a view, a pixel's own: a sensor shows nothing sharper."""
