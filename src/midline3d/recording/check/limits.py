"""The limits beyond which a recording does not pass."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Beyond these a recording does not pass; the report states them."""

    found: float = 0.98
    """Least share of frames in which the worm is found."""
    seen: float = 0.9
    """Least share of frames in which each view shows it."""
    residual: float = 15.0
    """px: largest median reprojection error of its centre; refinement of the cameras takes up what is below."""
    mixed: float = 2.0
    """px by which the views may drift apart as the worm moves, if in another order they drift far less."""
    mixed_share: float = 0.4
    """Far less: this share."""
    contrast: float = 8.0
    """Least peak of the worm over the noise."""
    missing: float = 0.01
    """Largest share of frames dropped or unreadable in a camera."""
    rate: float = 0.005
    """Largest relative difference of the cameras' frame rates."""
    fps: float = 0.02
    """Largest relative difference of the fps given from the time stamps'."""
    jitter: float = 0.3
    """Largest spread of the time between frames, in frames."""
    lag: float = 1.0
    """Frames by which a camera may run before or after the others."""
    lag_errors: float = 4.0
    """And by how many times that number's standard error, for it to be said."""
    focus: float = 0.35
    """Least sharpness, of each camera's own median."""
    second: float = 0.3
    """Largest share of frames with a second thing like a worm."""
