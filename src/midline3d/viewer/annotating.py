"""Hand clicks on pictures without any overlay: which pictures, what was clicked, and where it is kept.

Whoever clicks sees neither the midline nor what others clicked, so that the clicks say something about both.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from midline3d.calibration import load_calibration
from midline3d.errors import InputError
from midline3d.evaluate.agreement import Agreement, agreement
from midline3d.evaluate.clicks import LABELS, Click, read_clicks, write_clicks
from midline3d.files import check_file
from midline3d.recording import Prepared
from midline3d.store.lock import locked
from midline3d.store.manifest import Manifest

FILE = "annotations.csv"
"""Beside the result: what `evaluate --annotations` reads."""
LOCK = ".annotations.lock"
"""Held while that file is written; not the run's own lock, for a result may be clicked on while it grows."""
PATIENCE = 10.0
"""Seconds to wait for somebody else's clicks to be written, which takes some ms."""
MOST = 500
"""Clicks on one picture."""
WHITE = 99.8
"""Percentile of a crop that is shown as white."""


@dataclass(frozen=True)
class Image:
    """A picture to click on."""

    frame: int
    camera: int
    name: str
    """Of the camera."""


class Annotating:
    """One person at the pictures of one result."""

    def __init__(self, folder: Path, who: str, count: int, frames: tuple[int, int | None] = (0, None)) -> None:
        """count: frames that are asked for, spread evenly over `frames` (first, and the one after the last)."""
        if not who.strip() or "," in who or "\n" in who:
            raise InputError(f"--who is '{who}'; give the name of whoever clicks, without commas")
        self.folder, self.who, self.file = Path(folder), who.strip(), Path(folder) / FILE
        for name in ("crops", "calibration.json"):
            if not (self.folder / name).exists():
                raise InputError(f"{folder} has no {name}, which is needed here; give the folder of a result")
        check_file(self.file)
        self._cameras = Manifest.read(self.folder).header.cameras
        self._prepared = Prepared(self.folder / "crops", load_calibration(self.folder / "calibration.json"))
        self.images = self._chosen(count, frames)
        self._lock = threading.Lock()
        self._others()  # a file that cannot be read is said now, not after the first click

    def start(self) -> None:
        """Nothing runs beside."""

    def stop(self) -> None:
        """Nothing ran beside."""

    def _chosen(self, count: int, frames: tuple[int, int | None]) -> list[Image]:
        """The pictures in an order of their own, the same for everybody: neighbours would be clicked alike."""
        start = self._prepared.start
        last = start + len(self._prepared) if frames[1] is None else frames[1]
        there = [start + int(place) for place in np.flatnonzero(self._prepared.log.location <= 1)]
        there = [frame for frame in there if frames[0] <= frame < last]
        if not there:
            raise InputError(f"{self.folder} has no located frame from {frames[0]} to {last - 1}; choose others")
        places = np.unique(np.linspace(0, len(there) - 1, min(count, len(there))).round().astype(int))
        images = [Image(there[p], index, name) for p in places for index, name in enumerate(self._cameras)]
        return [images[index] for index in np.random.default_rng(0).permutation(len(images))]

    def task(self) -> dict[str, Any]:
        """All pictures, and what this person has clicked on them."""
        own = [click for click in self._read() if click.who == self.who]
        images = []
        for image in self.images:
            origin = self._prepared.log.origin[image.frame - self._prepared.start, image.camera]
            here = [click for click in own if (click.frame, click.camera) == (image.frame, image.name)]
            clicks = [{"u": click.u - origin[0], "v": click.v - origin[1], "label": click.label} for click in here]
            images.append({"frame": image.frame, "camera": image.name, "clicks": clicks})
        return {"who": self.who, "window": self._prepared.window, "images": images}

    def picture(self, index: int) -> bytes:
        """PNG of a picture's crop, stretched to full contrast; nothing is drawn over it."""
        image = self._image(index)
        crop = self._prepared[image.frame - self._prepared.start].images[image.camera].astype(np.float64)
        top = max(float(np.percentile(crop, WHITE)), 1.0)
        done, content = cv2.imencode(".png", np.clip(255 * crop / top, 0, 255).astype(np.uint8))
        if not done:
            raise RuntimeError(f"picture {index} could not be encoded")
        return content.tobytes()

    def keep(self, index: int, clicks: Any) -> dict[str, Any]:
        """Takes this person's clicks on a picture, px of the crop, in place of those before; others' stay."""
        image = self._image(index)
        if not isinstance(clicks, list) or len(clicks) > MOST:
            raise InputError(f"'clicks' must be a list of at most {MOST} clicks")
        origin = self._prepared.log.origin[image.frame - self._prepared.start, image.camera]
        made = [self._click(image, click, origin) for click in clicks]
        # Somebody else may click on the same result in a process of their own: the file is read and written in one.
        with self._lock, locked(self.folder, PATIENCE, LOCK):
            before = self._read()
            others = [click for click in before if click.image != (image.frame, image.name, self.who)]
            write_clicks(self.file, [*others, *made])
        return {"clicks": len(made)}

    def _click(self, image: Image, click: Any, origin: np.ndarray) -> Click:
        try:
            u, v, label = float(click["u"]), float(click["v"]), str(click.get("label", ""))
        except (TypeError, KeyError, ValueError, AttributeError):
            raise InputError("a click has u and v in px, and a label: head, tail or nothing") from None
        most = self._prepared.window
        if not (-1 <= u <= most and -1 <= v <= most) or label not in (*LABELS, ""):
            raise InputError(f"a click lies at {u:g}, {v:g} as '{label[:20]}'; it must lie in the picture")
        return Click(image.frame, image.name, u + float(origin[0]), v + float(origin[1]), label, self.who)

    def agreement(self) -> list[Agreement]:
        """How well all people agree so far."""
        return agreement(self._read())

    def _image(self, index: int) -> Image:
        if not 0 <= index < len(self.images):
            raise InputError(f"there is no picture {index}; there are 0 to {len(self.images) - 1}")
        return self.images[index]

    def _read(self) -> list[Click]:
        return read_clicks(self.file, self._cameras) if self.file.exists() else []

    def _others(self) -> list[str]:
        return sorted({click.who for click in self._read()} - {self.who})


def agreement_in(folder: Path) -> list[Agreement]:
    """How well the people agree who clicked on a result's pictures."""
    file = Path(folder) / FILE
    if not file.exists():
        raise InputError(f"{folder} has no {FILE}; make clicks first: midline3d annotate {folder} --who NAME")
    return agreement(read_clicks(file))
