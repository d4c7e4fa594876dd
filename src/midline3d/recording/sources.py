"""Where a camera's pictures come from: videos, folders of pictures, multi-page TIFF and .npy stacks, all alike.

A source knows its `count`, `size` and `rate` and gives grey pictures by index, 8 or 16 bit, or None for a frame that
was dropped or cannot be read. It holds no open file between calls.
"""

from __future__ import annotations

import os
import queue
import re
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.reading import shortened

Picture = NDArray[Any]
"""(height, width) grey, uint8 or uint16."""
Item = TypeVar("Item")
Made = TypeVar("Made")

SMALLEST, LARGEST = 16, 16384
"""px: sides of a picture in which a worm can be looked for."""
PICTURE_SUFFIXES = (".png", ".tif", ".tiff", ".jpg", ".jpeg", ".bmp")


class Source(Protocol):
    """A camera's pictures in order."""

    path: Path
    count: int
    """Frames by their time, dropped ones included."""
    size: tuple[int, int]
    """Width and height, px."""
    depth: int
    """Bytes a pixel."""
    rate: float | None
    """Frames a second by the time stamps; None where there are none."""
    missing: tuple[int, ...]
    """Frames known to be dropped before anything is decoded."""
    jitter: float
    """Spread of the time stamps' steps, in frames: 0 for a steady clock."""

    def frames(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Picture | None]]:
        """Every frame of a range in order, dropped ones as None."""

    def read(self, indices: Sequence[int]) -> Iterator[tuple[int, Picture | None]]:
        """Some frames, by rising index, without decoding more of the rest than needed."""

    def near(self, index: int, reach: int) -> int:
        """A frame not farther than `reach` from `index` that is cheap to read."""


def open_source(path: Path) -> Source:
    """The source at a path, by what lies there."""
    path = Path(path)
    if not exists(path):
        raise InputError(f"{path}: there is no such source; check 'source' in the recording file")
    if path.is_dir():
        return open_pictures(path)
    if not path.stat().st_size:
        raise InputError(f"{path}: is empty (0 bytes); copy it again, or film again if the camera wrote nothing")
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return open_stack(path)
    if suffix in (".tif", ".tiff"):
        return open_tiff(path)
    if suffix in PICTURE_SUFFIXES:
        raise InputError(f"{path}: is a single picture; give the folder that holds the camera's pictures")
    from midline3d.recording.video import open_video

    return open_video(path)


def exists(path: Path) -> bool:
    """Whether something lies there; a name that the system does not take is told in one sentence."""
    try:
        return path.exists()
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "strerror", None) or fault
        raise InputError(f"{shortened(path)}: is no name of a file ({reason}); correct it") from None


def checked_size(path: Path, picture: Picture) -> tuple[int, int]:
    """Width and height of a source's pictures, if a worm can be seen in so many px."""
    height, width = picture.shape
    if not (min(height, width) >= SMALLEST and max(height, width) <= LARGEST):
        raise InputError(
            f"{path}: its pictures are {width} x {height} px, but {SMALLEST} to {LARGEST} px are possible on a side; "
            "is it the right file?"
        )
    return width, height


class IndexedSource:
    """A source whose frames can be had one by one at no extra cost."""

    rate: float | None = None
    missing: tuple[int, ...] = ()
    jitter: float = 0.0

    def __init__(self, path: Path, count: int, load: Callable[[int], NDArray]) -> None:
        self.path, self.count, self._load = path, count, load
        first = next((picture for _, picture in self.frames(0, min(count, 10)) if picture is not None), None)
        if first is None:
            raise InputError(f"{path}: none of its first pictures can be read; are they whole, and are they pictures?")
        self.size, self.depth = checked_size(path, first), first.itemsize

    def frames(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Picture | None]]:
        yield from self.read(range(start, self.count if stop is None else min(stop, self.count)))

    def read(self, indices: Sequence[int]) -> Iterator[tuple[int, Picture | None]]:
        for index in indices:
            try:
                picture = grey(self._load(index))
            except Exception:  # whatever a codec throws at a broken file: this frame is lost, the run is not
                picture = None
            if picture is not None and hasattr(self, "size") and picture.shape[::-1] != self.size:
                picture = None
            yield index, picture

    def near(self, index: int, reach: int) -> int:
        return index


def open_pictures(folder: Path) -> IndexedSource:
    """A folder of pictures, in natural order (img2 before img10)."""
    paths = sorted((path for path in folder.iterdir() if path.suffix.lower() in PICTURE_SUFFIXES), key=_natural)
    if not paths:
        raise InputError(f"{folder}: the folder holds no pictures; they end in {', '.join(PICTURE_SUFFIXES)}")

    def load(index: int) -> NDArray:
        import cv2

        # Through memory, because OpenCV cannot open paths with letters beyond ASCII on Windows.
        picture = cv2.imdecode(np.fromfile(paths[index], np.uint8), cv2.IMREAD_UNCHANGED)
        if picture is None:
            raise OSError(paths[index])
        return picture

    return IndexedSource(folder, len(paths), load)


def open_tiff(path: Path) -> IndexedSource:
    """A multi-page TIFF, one page a frame."""
    import tifffile

    try:
        with tifffile.TiffFile(path) as file:
            # A stack written as one contiguous block has one page for all: its series knows the frames.
            series = file.series[0]
            pages, shape = len(file.pages), series.shape
            block = pages == 1 and len(shape) == 3 and shape[-1] not in (3, 4)
    except Exception as fault:
        raise InputError(f"{path}: cannot be read as TIFF ({shortened(fault)}); is it whole?") from None

    def load_page(index: int) -> NDArray:
        return np.asarray(tifffile.imread(path, key=index))

    if not block:
        return IndexedSource(path, pages, load_page)
    try:
        stack = tifffile.memmap(path, mode="r")
    except (OSError, ValueError) as fault:
        raise InputError(f"{path}: cannot be read as TIFF ({shortened(fault)}); is it whole?") from None
    return IndexedSource(path, shape[0], lambda index: np.asarray(stack[index]))


def open_stack(path: Path) -> IndexedSource:
    """An .npy array (frame, height, width) or (frame, height, width, channel)."""
    try:
        stack = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as fault:
        raise InputError(f"{path}: cannot be read as .npy ({shortened(fault)}); is it whole?") from None
    if not isinstance(stack, np.ndarray):
        raise InputError(f"{path}: is an .npz archive, not an .npy stack; save the array alone, with numpy.save")
    if stack.ndim not in (3, 4) or stack.dtype.kind not in "uib" or 0 in stack.shape:
        raise InputError(
            f"{path}: holds {stack.dtype} of shape {stack.shape}, "
            "but a stack is of integers (frame, height, width) or (frame, height, width, channel)"
        )
    return IndexedSource(path, len(stack), lambda index: np.asarray(stack[index]))


def grey(picture: NDArray) -> Picture:
    """A picture of any integer type, with or without colour, as 8 or 16 bit grey."""
    if picture.ndim == 3:
        # The plain mean of the colours: a grey worm filmed by a colour camera has no colour to weigh.
        colours = picture[..., :3] if picture.shape[-1] > 2 else picture[..., :1]
        picture = colours.mean(-1).astype(picture.dtype) if colours.shape[-1] > 1 else colours[..., 0]
    if picture.ndim != 2:
        raise ValueError(f"a picture of shape {picture.shape}")
    if picture.dtype == np.bool_:
        return picture.astype(np.uint8) * np.uint8(255)
    if picture.dtype in (np.uint8, np.uint16):
        return picture
    return np.clip(picture, 0, 65535).astype(np.uint16)


def _natural(path: Path) -> list[tuple[int, int | str]]:
    """A sorting key in which numbers count as numbers."""
    return [
        (0, int(part)) if part.isdecimal() else (1, part)
        for part in re.split(r"(\d{1,4000})", path.name.lower())
        if part
    ]


def ahead(items: Iterator[Item], depth: int) -> Generator[Item, None, None]:
    """The same items, made by a thread that works up to `depth` of them ahead."""
    done = object()
    waiting: queue.Queue[Any] = queue.Queue(maxsize=max(1, depth))
    stopped = threading.Event()

    def offer(item: object) -> bool:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not offer(item):
                    break
            else:
                offer(done)
        except BaseException as fault:
            offer(fault)
        finally:
            if hasattr(items, "close"):
                items.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while (got := waiting.get()) is not done:
            if isinstance(got, BaseException):
                raise got
            yield got
    finally:
        stopped.set()
        thread.join()


def synchronised(
    sources: Sequence[Source], offsets: Sequence[int], start: int, stop: int, depth: int = 4
) -> Iterator[tuple[int, list[Picture | None]]]:
    """Frames start to stop of all cameras together, each decoded ahead in a thread of its own."""
    streams = [
        ahead(source.frames(start + offset, stop + offset), depth)
        for source, offset in zip(sources, offsets, strict=True)
    ]
    try:
        for frame in range(start, stop):
            yield frame, [next(stream, (0, None))[1] for stream in streams]
    finally:
        for stream in streams:
            stream.close()


def side_by_side(work: Callable[[Item], Made], items: Iterable[Item]) -> list[Made]:
    """What `work` makes of each item, in order, on all cores: pictures are worked on outside Python's own lock."""
    return list(_threads().map(work, items))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="midline3d-pictures")


def decoding_threads(cameras: int) -> int:
    """Threads for one camera's decoder, so that all of them fill the machine and do not fight."""
    return max(1, (os.cpu_count() or 1) // max(1, cameras))
