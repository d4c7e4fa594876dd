"""A movie of a result: the views with the midline over them, and beside them the midline in 3D, turning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.files import aside, check_file
from midline3d.recording import Prepared
from midline3d.store import ResultParts
from midline3d.tracking.clip import kept_clip

Array = NDArray[np.float64]
Pixels = NDArray[np.uint8]

PANEL, CAPTION = 360, 32
"""px: of the square in which a view is shown, and of the line below them all."""
AT_ONCE = 256
"""Frames that are read at once."""
TURN = 12.0
"""Seconds of the movie in which the midline in 3D turns round once."""
TILT = 0.35
"""rad by which it is looked at from above."""
FILLED = 0.8
"""Of its panel that the animal's length takes in 3D."""
PAPER, INK, FAINT = (14, 17, 22), (230, 233, 239), (70, 78, 90)
COLOURS = np.array([[255.0, 211.0, 78.0], [255.0, 92.0, 138.0], [79.0, 123.0, 255.0]])
"""Of head, middle and tail."""
STATUS = {"ok": (96, 200, 140), "suspect": (255, 180, 50)}
"""Red, green, blue; what is neither is faint."""


@dataclass(frozen=True)
class Movie:
    """What is shown, and how fast."""

    frames: tuple[int, int | None] | None = None
    """First frame and the one after the last, by the recording's numbers; None: all."""
    fps: float | None = None
    """Of the movie; None: the recording's own."""


def write_movie(
    result: Path | str, path: Path | str, movie: Movie | None = None, progress: Callable[[int, int], None] | None = None
) -> Path:
    """Writes an MP4 (H.264) of the result in a folder. Frames without a midline are shown as they are."""
    movie, path = movie or Movie(), Path(path)
    if path.suffix.lower() != ".mp4":
        raise InputError(f"{path.name[:80]}: a movie is an .mp4; give it a name that ends so")
    check_file(path)
    folder = Path(result)
    parts = ResultParts(folder)
    prepared = kept_clip(folder, parts.head).prepared
    places = _chosen(parts.numbers, movie.frames, folder)
    fps = movie.fps or float(parts.head.attrs.get("fps", 25.0))
    with aside(path) as part:
        _encode(
            part,
            _pictures(parts, prepared, places, fps),
            Fraction(fps).limit_denominator(1000),
            len(places),
            progress,
        )
    return path


def _chosen(numbers: NDArray[np.int64], frames: tuple[int, int | None] | None, folder: Path) -> range:
    """Places of the frames to show, by the numbers of all, which are in order."""
    first, end = frames or (0, None)
    places = np.searchsorted(numbers, (first, numbers[-1] + 1 if end is None else end)).tolist()
    chosen = range(*places)
    if not chosen:
        raise InputError(
            f"{folder} has no frame in {first}:{'' if end is None else end}; it has {numbers[0]} to {numbers[-1]}"
        )
    return chosen


def _encode(
    path: Path, pictures: Iterator[Pixels], rate: Fraction, count: int, progress: Callable[[int, int], None] | None
) -> None:
    import av

    with av.open(str(path), "w", format="mp4") as container:
        stream = None
        for done, picture in enumerate(pictures):
            if stream is None:
                stream = container.add_stream("libx264", rate=rate, options={"crf": "20"})
                stream.height, stream.width, stream.pix_fmt = *picture.shape[:2], "yuv420p"
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
            if progress is not None:
                progress(done + 1, count)
        if stream is not None:
            container.mux(stream.encode())


def _pictures(parts: ResultParts, prepared: Prepared, places: range, fps: float) -> Iterator[Pixels]:
    """(height, width, 3) red, green, blue; both sides even, as H.264 wants them."""
    lengths = parts.small(("length",)).length.values
    length = float(np.nanmedian(lengths)) if np.isfinite(lengths).any() else 1.0
    brightest = _brightest(prepared)
    for first in range(places.start, places.stop, AT_ONCE):
        part = parts.part(first, min(first + AT_ONCE, places.stop), ("projection",))
        for row in range(part.sizes["time"]):
            angle = 2 * np.pi * (first + row - places.start) / (TURN * fps)
            yield _picture(part.isel(time=row), prepared, length, brightest, angle)


def _picture(row: xr.Dataset, prepared: Prepared, length: float, brightest: Array, angle: float) -> Pixels:
    """One frame: its views, and the midline in 3D, seen from an angle."""
    number, seen = int(row.frame), row.projection.transpose("camera", "keypoint", "image").values
    crops = prepared[number - prepared.start]
    panels = [
        _view(crops.images[camera], seen[camera] - crops.origin[camera], str(name), brightest[camera])
        for camera, name in enumerate(row.camera.values)
    ]
    panels.append(_turning(row.position.isel(individual=0).transpose("keypoint", "space").values, length, angle))
    status = str(row.status.item())
    caption = f"frame {number}   {float(row.time):.2f} s   {status}"
    return _even(np.concatenate([np.concatenate(panels, 1), _caption(caption, status, PANEL * len(panels))]))


def _brightest(prepared: Prepared) -> Array:
    """(camera,) the grey level that is shown as white: the same in all frames, so that nothing flickers."""
    some = np.linspace(0, len(prepared) - 1, min(12, len(prepared))).round().astype(int)
    images = np.stack([prepared[int(frame)].images for frame in some])
    return np.maximum(np.percentile(images, 99.7, axis=(0, 2, 3)), 1.0)


def _view(image: Pixels, midline: Array, name: str, brightest: float) -> Pixels:
    """A crop with the midline over it, in its panel."""
    size = image.shape[-1]
    grey = np.clip(image * (255.0 / brightest), 0, 255).astype(np.uint8)
    panel = cv2.cvtColor(cv2.resize(grey, (PANEL, PANEL), interpolation=cv2.INTER_CUBIC), cv2.COLOR_GRAY2RGB)
    if np.isfinite(midline).all():
        _line(panel, (midline + 0.5) * (PANEL / size) - 0.5, 1)
    cv2.putText(panel, name, (10, 22), cv2.FONT_HERSHEY_SIMPLEX, 0.5, INK, 1, cv2.LINE_AA)
    return np.asarray(panel, dtype=np.uint8)


def _turning(points: Array, length: float, angle: float) -> Pixels:
    """The midline in 3D, seen from a side that goes round it."""
    panel = np.full((PANEL, PANEL, 3), PAPER, np.uint8)
    floor = np.array([[x, y, -0.4] for x in (-0.35, 0.35) for y in (-0.35, 0.35)])[[0, 1, 3, 2, 0]]
    cv2.polylines(panel, [_fixed(_shadow(floor, angle))], False, FAINT, 1, cv2.LINE_AA, 4)
    if np.isfinite(points).all():
        _line(panel, _shadow((points - points.mean(0)) / length, angle), 3)
    return panel


def _shadow(points: Array, angle: float) -> Array:
    """(point, 2) px of points in body lengths, looked at from an angle and a little from above."""
    turned = points[:, 0] * np.cos(angle) - points[:, 1] * np.sin(angle)
    away = points[:, 0] * np.sin(angle) + points[:, 1] * np.cos(angle)
    up = points[:, 2] * np.cos(TILT) + away * np.sin(TILT)
    return PANEL / 2 + FILLED * PANEL * np.stack([turned, -up], 1)


def _line(panel: Pixels, points: Array, thickness: int) -> None:
    """A midline from the head's colour to the tail's, a dot at the head."""
    fixed, share = _fixed(points), np.linspace(0, 2, len(points) - 1)
    for place, colour in enumerate(np.stack([np.interp(share, range(3), each) for each in COLOURS.T], 1).tolist()):
        cv2.line(panel, fixed[place].tolist(), fixed[place + 1].tolist(), colour, thickness, cv2.LINE_AA, 4)
    cv2.circle(panel, fixed[0].tolist(), 16 * (2 + thickness), COLOURS[0].tolist(), -1, cv2.LINE_AA, 4)


def _fixed(points: Array) -> NDArray[np.int32]:
    """px in sixteenths, as OpenCV draws between pixels; far outside is as good as just outside."""
    return np.clip(points * 16, -(2**19), 2**19).round().astype(np.int32)


def _caption(text: str, status: str, width: int) -> Pixels:
    strip = np.full((CAPTION, width, 3), PAPER, np.uint8)
    cv2.circle(strip, (16, CAPTION // 2), 5, STATUS.get(status, FAINT), -1, cv2.LINE_AA)
    cv2.putText(strip, text, (30, CAPTION // 2 + 5), cv2.FONT_HERSHEY_SIMPLEX, 0.5, INK, 1, cv2.LINE_AA)
    return strip


def _even(picture: Pixels) -> Pixels:
    height, width = (side - side % 2 for side in picture.shape[:2])
    return np.ascontiguousarray(picture[:height, :width])
