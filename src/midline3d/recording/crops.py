"""Prepared crops: the worm in a small window of every view of every frame, decoded once and kept on disk."""

from __future__ import annotations

import json
import mmap
import os
import threading
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midline3d.calibration import Calibration
from midline3d.files import aside
from midline3d.recording.pinholes import Pinholes, project

Array = NDArray[np.float64]

IMAGES, LOG, MANIFEST, BEGUN, ROWS = "crops.npy", "frames.npz", "manifest.json", "begun.npz", "begun.bin"

FORMAT = 2
"""Raised whenever prepared crops change their meaning."""

RELEASED = 256
"""Frames after which the pages that were read are given back: through a map they would all count as memory in use."""

LOCATIONS = ("located", "interpolated", "not located", "unreadable")
"""What locating the worm made of a frame. interpolated: not located, but between frames where it was."""
STORED = {"location": "status", "registration": "shake"}
"""Names of a log's arrays in its file, where they differ from the fields'."""


@dataclass(frozen=True, eq=False)
class FrameCrops:
    """One frame as the method wants it."""

    frame: int
    images: NDArray[np.uint8]
    """(camera, w, w) the worm bright on 0."""
    origin: Array
    """(camera, 2) px of the crops' first pixels in the full frames."""
    centre: Array
    """(3,) mm: the worm's centre, NaN where it is lost."""
    location: str
    """One of `LOCATIONS`."""


@dataclass(frozen=True, eq=False)
class Log:
    """What is known of every frame beside its pixels."""

    origin: Array
    """(frame, camera, 2) px."""
    centre: Array
    """(frame, 3) mm."""
    location: NDArray[np.uint8]
    """(frame,) index into `LOCATIONS`."""
    residual: Array
    """(frame,) px: root mean square distance of the views' centres from their common point's projections."""
    seen: NDArray[np.bool_]
    """(frame, camera) whether the worm was found in this view."""
    light: Array
    """(frame, camera) brightness against the background's."""
    registration: Array
    """(frame, camera, 2) px by which each picture lies beside its background."""
    sharpness: Array
    """(frame, camera) focus: the steepest slopes of the crop against its height, 1/px."""
    reach: Array
    """(frame,) px: how far the worm reaches from its projected centre in any view."""

    @property
    def located(self) -> NDArray[np.bool_]:
        """(frame,) whether the worm's place is known, if only from the frames around."""
        return self.location <= LOCATIONS.index("interpolated")

    def is_located(self, frame: int) -> bool:
        """The same of one frame, without a look at all others."""
        return bool(self.location[frame] <= LOCATIONS.index("interpolated"))

    @property
    def unreadable(self) -> NDArray[np.bool_]:
        """(frame,) whether a camera's picture is missing, broken or black."""
        return self.location == LOCATIONS.index("unreadable")

    def is_unreadable(self, frame: int) -> bool:
        """The same of one frame."""
        return bool(self.location[frame] == LOCATIONS.index("unreadable"))

    @property
    def row(self) -> np.dtype[np.void]:
        """All that is known of one frame, side by side."""
        return np.dtype([(name, values.dtype, values.shape[1:]) for name, values in vars(self).items()])

    def rows(self, frames: slice) -> NDArray[np.void]:
        """What is known of some frames, a row each."""
        found = np.zeros(len(self.location[frames]), self.row)
        for name, values in vars(self).items():
            found[name] = values[frames]
        return found

    def put(self, rows: NDArray[np.void]) -> None:
        """What is known of the first frames."""
        for name, values in vars(self).items():
            values[: len(rows)] = rows[name]

    def stored(self) -> dict[str, Any]:
        """The arrays by their names in a file."""
        return {STORED.get(name, name): values for name, values in vars(self).items()}

    @staticmethod
    def of_stored(kept: Mapping[str, NDArray]) -> Log:
        """The log whose arrays have these names."""
        return Log(**{item.name: kept[STORED.get(item.name, item.name)] for item in fields(Log)})

    @staticmethod
    def blank(frames: int, cameras: int) -> Log:
        """Nothing known yet: every frame unreadable."""
        return Log(
            origin=np.zeros((frames, cameras, 2)),
            centre=np.full((frames, 3), np.nan),
            location=np.full(frames, LOCATIONS.index("unreadable"), np.uint8),
            residual=np.full(frames, np.nan),
            seen=np.zeros((frames, cameras), np.bool_),
            light=np.full((frames, cameras), np.nan),
            registration=np.full((frames, cameras, 2), np.nan),
            sharpness=np.full((frames, cameras), np.nan),
            reach=np.full(frames, np.nan),
        )


@dataclass(frozen=True, eq=False)
class Begun:
    """How far a preparation has come, so that one that was interrupted goes on from there."""

    fingerprint: str
    window: int
    done: int
    """Frames whose crops are on the disk for good."""
    log: Log
    quiet: list[NDArray[np.float32]]
    """Per camera: signal beside the worm, for its noise."""
    checksum: int = 0
    """CRC-32 of the log of the frames that are done, as it is on the disk."""

    def further(self, done: int, quiet: list[NDArray[np.float32]], folder: Path) -> Begun:
        """As it is with more frames done, saved: their part of the log beside what was saved before, and then, written
        aside and renamed, how far that is to be read. All of it each time would be 146 GB over 440,000 frames."""
        rows = self.log.rows(slice(self.done, done)).tobytes()
        with (folder / ROWS).open("r+b" if self.done else "wb") as file:
            file.seek(self.done * self.log.row.itemsize)
            file.write(rows)
            file.flush()
            os.fsync(file.fileno())
        checksum = zlib.crc32(rows, self.checksum if self.done else 0)
        facts: dict[str, Any] = {"fingerprint": self.fingerprint, "window": self.window, "done": done}
        facts |= {"frames": len(self.log.location), "checksum": checksum}
        facts |= {f"quiet{camera}": values for camera, values in enumerate(quiet)}
        with aside(folder / BEGUN) as part:
            np.savez(part, **facts)
        return replace(self, done=done, quiet=quiet, checksum=checksum)

    @staticmethod
    def load(folder: Path, fingerprint: str) -> Begun | None:
        """What lies in the folder, if it is of this very preparation and whole."""
        try:
            with np.load(folder / BEGUN, allow_pickle=False) as kept:
                if str(kept["fingerprint"]) != fingerprint or not (folder / IMAGES).exists():
                    return None
                quiet = [kept[name] for name in kept.files if name.startswith("quiet")]
                log, done = Log.blank(int(kept["frames"]), len(quiet)), int(kept["done"])
                with (folder / ROWS).open("rb") as file:
                    rows = file.read(done * log.row.itemsize)
                if zlib.crc32(rows) != int(kept["checksum"]):
                    return None
                log.put(np.frombuffer(rows, log.row))
                return Begun(fingerprint, int(kept["window"]), done, log, quiet, int(kept["checksum"]))
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            return None


class Prepared(Sequence[FrameCrops]):
    """Random access to the prepared frames of one recording, straight from disk."""

    _reads = 0

    def __init__(self, folder: Path, calibration: Calibration) -> None:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        self.folder = folder
        self.cameras = calibration.to_cameras()
        self.start = int(manifest["start"])
        self.window = int(manifest["window"])
        self.scale = float(manifest["scale"])
        """px per mm."""
        self.noise = np.array(manifest["noise"])
        """(camera,) robust standard deviation of the signal beside the worm, in the images' units."""
        self.offset = np.array(manifest["offset"])
        """(camera,) mean of the signal beside the worm."""
        self.gain = np.array(manifest["gain"])
        """(camera,) by which faint signals were amplified."""
        self.side = str(manifest["side"])
        self.sizes = np.array(manifest.get("sizes", [[np.inf, np.inf]] * len(self.noise)))
        """(camera, 2) px: width and height of the cameras' pictures."""
        self._images = np.load(folder / IMAGES, mmap_mode="r")
        with np.load(folder / LOG) as log:
            self.log = Log.of_stored(log)

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"frame {index} of {len(self)} prepared frames")
        self._reads += 1
        behind = self._images.base
        if self._reads % RELEASED == 0 and isinstance(behind, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            behind.madvise(mmap.MADV_DONTNEED)
        return FrameCrops(
            frame=self.start + place,
            images=np.array(self._images[place]),
            origin=self.log.origin[place].copy(),
            centre=self.log.centre[place].copy(),
            location=LOCATIONS[self.log.location[place]],
        )


class CropWriter:
    """Writes crops.npy frame by frame with plain writes: a memory map would count all of it as memory in use."""

    def __init__(self, folder: Path, frames: int, cameras: int, window: int, again: bool = False) -> None:
        """again: keep what was written before to a file of this very shape."""
        if not again:
            (folder / IMAGES).unlink(missing_ok=True)  # another result's crops may be the same file
        # Unbuffered: what a full disk does not take must not be tried again when the file is closed.
        self.file = (folder / IMAGES).open("r+b" if again else "wb", buffering=0)
        header = {"descr": "|u1", "fortran_order": False, "shape": (frames, cameras, window, window)}
        np.lib.format.write_array_header_1_0(self.file, header)
        self.start, self.step = self.file.tell(), cameras * window * window
        self.file.truncate(self.start + frames * self.step)  # frames never written are 0
        self.lock = threading.Lock()

    def write(self, place: int, crops: NDArray[np.uint8]) -> None:
        """Put a frame's (camera, w, w) crops in their place; for several threads at once."""
        left, at = memoryview(crops.tobytes()), self.start + place * self.step
        while left:
            done = self._write_at(left, at)
            left, at = left[done:], at + done

    def _write_at(self, content: memoryview, at: int) -> int:
        if hasattr(os, "pwrite"):
            return os.pwrite(self.file.fileno(), content, at)
        with self.lock:  # Windows
            self.file.seek(at)
            return self.file.write(content)

    def settle(self) -> None:
        """Bring all that was written to the disk."""
        os.fsync(self.file.fileno())

    def close(self) -> None:
        self.settle()
        self.file.close()


def cut(picture: NDArray, origin: NDArray[np.int64], window: int) -> NDArray:
    """The window of a picture whose first pixel lies at `origin` (u, v), 0 beyond the picture's border."""
    height, width = picture.shape
    left, top = int(origin[0]), int(origin[1])
    result = np.zeros((window, window), picture.dtype)
    rows = slice(max(0, top), min(height, top + window))
    columns = slice(max(0, left), min(width, left + window))
    if rows.start < rows.stop and columns.start < columns.stop:
        part = picture[rows, columns]
        result[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left] = part
    return result


def origins(cameras: Pinholes, centre: Array, window: int) -> NDArray[np.int64]:
    """(camera, 2) first pixels of the windows around a point's projections."""
    return np.rint(project(cameras, centre[None])[0] - (window - 1) / 2).astype(np.int64)


def inside(shape: tuple[int, ...], origin: NDArray[np.int64], window: int) -> NDArray[np.bool_]:
    """(w, w) whether each pixel of a window lies inside a picture of this shape."""
    columns, rows = (int(first) + np.arange(window) for first in origin)
    return ((rows >= 0) & (rows < shape[0]))[:, None] & ((columns >= 0) & (columns < shape[1]))
