"""What is measured of a recording before it is reconstructed, in records whose fields are the names in JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from midline3d.recording.check.limits import Limits
from midline3d.recording.locating.order import Order


@dataclass(frozen=True)
class ViewFacts:
    """What one view shows of the worm, in the frames looked at."""

    unreadable_share: float
    """Of the frames looked at, black ones included, and not those that are known to be dropped."""
    unreadable_first: int | None
    """First frame that is."""
    unreadable_fault: str
    """What is wrong with that one, as a clause; empty where there is none."""
    contrast: float
    """The worm's peak over the noise."""
    peak: float
    """The worm's usual peak, of the full signal."""
    seen: float
    """Share of the frames with the worm in which this view shows it."""
    not_seen_first: int | None
    """First frame in which it does not."""
    focus: float | None
    """Steepest slope of the worm's image against its height, 1/px; the median."""
    focus_low: float | None
    """What nearly all frames exceed."""
    focus_course: list[float | None]
    light: list[float | None]
    """(frame,) brightness against the background's."""
    lag: float
    """Frames behind the other cameras."""
    lag_error: float
    """Standard error of that."""


@dataclass(frozen=True)
class CameraFacts:
    """What a camera's source says, and what its view shows."""

    name: str
    source: str
    size: list[int]
    """Width and height, px."""
    frames: int
    offset: int
    rate: float | None
    """Frames a second by the time stamps."""
    dropped: int
    jitter: float
    """Spread of the time between frames, in frames."""
    view: ViewFacts | None = None
    """None where nothing was sought in the pictures."""

    def as_dict(self) -> dict[str, Any]:
        plain = asdict(self)
        return plain | (plain.pop("view") or {})


@dataclass(frozen=True)
class WormFacts:
    """The worm in the frames looked at."""

    side: str
    """dark or bright."""
    aside: bool
    """Whether the user's background pictures show the worm, and were left aside."""
    strangers: int
    """Things, counted in every view, that never change their shape and are left out because the worm does; 0 where
    there is no need to tell."""
    found: float
    """Share of the frames looked at."""
    lost_first: int | None
    """First frame in which it was not found."""
    window: int
    """px: side of the crops."""
    extent_px: float
    scale: float
    """px per mm."""
    residual_median: float | None
    """px by which the views miss each other."""
    residual_high: float | None
    """px: what 95 of 100 frames stay under."""
    residual_course: list[float | None]
    length_mm: float
    order: Order | None
    """The order of the pictures in which the views fit together best."""
    second: float
    """Share of frames with a second thing like a worm."""
    reach_max: float | None
    """px: how far the worm reaches from its centre at most."""


@dataclass(frozen=True)
class Needs:
    """Disk and time of a reconstruction."""

    disk_needed: int
    """Bytes."""
    disk_free: int
    """Bytes, beside the recording."""
    preparation_s: float | None
    reconstruction_s: float | None


@dataclass(frozen=True)
class Facts:
    """All that was measured."""

    name: str
    frames: int
    fps: float
    limits: Limits
    cameras: tuple[CameraFacts, ...]
    looked_at_frames: tuple[int, ...] = ()
    worm: WormFacts | None = None
    needs: Needs | None = None

    def as_dict(self) -> dict[str, Any]:
        """In the types of JSON; what was not measured is left out."""
        plain: dict[str, Any] = {"name": self.name, "frames": self.frames, "fps": self.fps}
        plain |= {"limits": asdict(self.limits), "cameras": [camera.as_dict() for camera in self.cameras]}
        if self.worm is not None:
            looked_at = {"looked_at": len(self.looked_at_frames), "looked_at_frames": list(self.looked_at_frames)}
            plain |= {**looked_at, "worm": asdict(self.worm)}
        return plain | ({} if self.needs is None else asdict(self.needs))
