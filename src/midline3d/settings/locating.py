"""Finding the worm in whole frames: every number with its unit, its range and its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from midline3d.settings.ranges import LogLikelihood, Range, Share, Size, Weight


@dataclass(frozen=True)
class LocatingSettings:
    """Finding the worm in whole frames and cutting the crop around it."""

    background_frames: Annotated[int, Range(1, 1000)] = 25
    """Frames, spread evenly over the recording (or over each block of it), whose per-pixel median, the worm masked, is
    the background. 25 leave a fifth of one frame's noise, and every one costs a decoded frame."""
    block: Annotated[int, Range(2, 1_000_000)] = 3000
    """Frames after which the background is taken anew, the change between being linear: light and gel drift slowly."""
    picture: Annotated[int, Range(32, 8192)] = 512
    """px of the shrunken picture's longer side in which the worm is sought: at 2048 px a worm is still 2 px wide."""
    smoothing: Annotated[float, Range(0, 50)] = 1.0
    """px of the full frame: Gaussian taken over the signal before it is cut, so that single noisy pixels vanish."""
    low: Annotated[float, Range(0.5, 100)] = 4.0
    """Standard deviations of the noise above which a pixel belongs to a thing."""
    high: Annotated[float, Range(0.5, 100)] = 8.0
    """Standard deviations of the noise that a thing must reach somewhere."""
    bridge: Annotated[float, Range(0, 200)] = 6.0
    """px of the full frame across which fragments are one thing: about a worm's width."""
    candidates: Annotated[int, Range(1, 20)] = 6
    """Things kept in each view: among dirt the worm is seldom below third."""
    places: Annotated[int, Range(1, 1000)] = 12
    """Joint readings of the views kept in each frame."""
    tolerance: Size = 8.0
    """px by which a view's centre may well miss the common point: calibrations are off by up to 15 px."""
    mass_spread: Size = 0.35
    """Spread of the logarithm of the worm's mass: dirt touches it, focus takes some of it away."""
    absent: LogLikelihood = -10.0
    """Log-likelihood of a view without the worm: worse than a mass wrong by a factor of four."""
    stranger: LogLikelihood = -16.0
    """Least log-likelihood of a view by its thing's mass: with another view absent, worse than a frame without worm."""
    lost: LogLikelihood = -22.0
    """Log-likelihood of a frame without the worm: below one view absent and the others off by a factor of two each."""
    second: LogLikelihood = -8.0
    """Log-likelihood above which another reading of all views is a worm too: a mass wrong by a factor of two in
    each."""
    least_peak: Share = 0.2
    """Of the worm's usual peak: fainter things are not it, however large."""
    others: Share = 0.5
    """Of the worm's mass: lighter things that move, such as drifting dirt, are better left to the background's
    median."""
    ghost: Weight = 0.4
    """Of the worm's light: more than this of the other sign around it comes from a worm on the lab's background
    picture."""
    at_rest: Share = 0.3
    """Of the mass in the view that shows most of it: where less than that moves, the worm stands still there and was
    taken for dirt."""
    resting: Share = 0.1
    """Of the heaviest thing that stands still: where all that moves is lighter than that, that thing is the worm."""
    step: Annotated[float, Range(1e-4, 100)] = 0.08
    """Body lengths that the worm's centre may well move between frames: swimming at 25 Hz it moves 0.02."""
    jump: LogLikelihood = -30.0
    """Log-likelihood of an arbitrary jump, so that one wrong frame cannot hold the track for ever."""
    lag: Annotated[int, Range(1, 10_000)] = 60
    """Frames by which the decision on a place follows, fewer where whole frames are large."""
    memory: Annotated[float, Range(1, 1e6)] = 400.0
    """MB of frames that may wait for that decision."""
    margin: Annotated[float, Range(0, 5)] = 0.12
    """Of the worm's largest extent, added on every side of the automatic crop: it must never touch the border."""
    grow: Annotated[float, Range(0, 5)] = 0.14
    """Of the worm's reach, by which its mask is grown before the background is taken beside it: halo and faint tips."""
    fill: Annotated[float, Range(1, 1000)] = 16.0
    """px over which the light beside the worm is averaged where the background was never seen without it."""
