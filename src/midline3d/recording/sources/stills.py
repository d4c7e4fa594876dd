"""Folders of pictures, multi-page TIFF and .npy stacks: sources whose frames can be had one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.files import visible
from midline3d.reading import shortened
from midline3d.recording.sources.series import natural, places, strays
from midline3d.recording.sources.source import Picture, checked_size, fault_of, grey
from midline3d.recording.sources.tiff import Pages

PICTURE_SUFFIXES = (".png", ".tif", ".tiff", ".jpg", ".jpeg", ".bmp")
"""Names of files that are taken for pictures, in lower case."""
TRIED = 10
"""Pictures from the first that are tried for one that can be read, which has the size of all."""


class IndexedSource:
    """A source whose frames can be had one by one at no extra cost."""

    rate: float | None = None
    jitter: float = 0.0

    def __init__(
        self, path: Path, count: int, load: Callable[[int], NDArray], files: Mapping[int, Path] | None = None
    ) -> None:
        """files: of the frames that have one each; the others of these frames were dropped."""
        self.path, self.count, self._load, self._files = path, count, load, files
        self.missing = () if files is None else tuple(frame for frame in range(count) if frame not in files)
        first = next((picture for _, picture in self.frames(0, min(count, TRIED)) if picture is not None), None)
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

    def fault(self, index: int) -> str:
        if index in self.missing:
            return "it was dropped"
        name = "it" if self._files is None else self._files[index].name
        try:
            picture = grey(self._load(index))
        except InputError as known:
            return f"{name} {known}"
        except Exception:  # whatever a codec throws at a broken file
            return f"{name} cannot be read"
        return fault_of(picture, self.size, name)


def open_pictures(folder: Path) -> IndexedSource:
    """A folder of pictures, in natural order (img2 before img10); a number left out is a frame that was dropped."""
    paths = sorted((path for path in visible(folder) if path.suffix.lower() in PICTURE_SUFFIXES), key=natural)
    if not paths:
        raise InputError(f"{folder}: the folder holds no pictures; they end in {', '.join(PICTURE_SUFFIXES)}")
    _check_strays(folder, paths)
    files = dict(zip(places(paths) or range(len(paths)), paths, strict=True))
    count = max(files) + 1

    def load(index: int) -> NDArray:
        import cv2

        # Through memory, because OpenCV cannot open paths with letters beyond ASCII on Windows.
        content = np.fromfile(files[index], np.uint8)
        if not content.size:
            raise InputError("is empty (0 bytes)")
        picture = cv2.imdecode(content, cv2.IMREAD_UNCHANGED)
        if picture is None:
            raise InputError("is no picture, or is cut off")
        return picture

    return IndexedSource(folder, count, load, files)


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

    if not block:
        return IndexedSource(path, pages, Pages(path).picture)
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
    _check_stack(path, stack)
    return IndexedSource(path, len(stack), lambda index: np.asarray(stack[index]))


def _check_stack(path: Path, stack: NDArray) -> None:
    """Complains about an array that is no stack of pictures."""
    holds = f"{path}: holds {stack.dtype} of shape {stack.shape}"
    if 0 in stack.shape:
        raise InputError(f"{holds}, which is empty; save the pictures again, as (frame, height, width)")
    if stack.ndim not in (3, 4):
        raise InputError(
            f"{holds}, but a stack has the axes (frame, height, width), or (frame, height, width, channel); save all "
            "pictures of the camera in one array, with numpy.stack"
        )
    if stack.dtype.kind == "f":
        raise InputError(
            f"{holds}, but the grey values of a stack are whole numbers; save stack.round().astype(numpy.uint8), or "
            "numpy.uint16, after multiplying by 255 or 65535 where they go from 0 to 1"
        )
    if stack.dtype.kind not in "uib":
        raise InputError(f"{holds}, but a stack is of whole numbers; save it as numpy.uint8 or numpy.uint16")
    some = sorted({0, len(stack) // 2, len(stack) - 1})
    least = int(stack[some].min()) if stack.dtype.kind == "i" else 0
    if least < 0:
        raise InputError(
            f"{holds} that goes down to {least}, but grey values begin at 0; give the pictures as filmed, without "
            "subtracting a background, or add what lifts all of them to 0"
        )


def _check_strays(folder: Path, paths: Sequence[Path]) -> None:
    """Complains about a picture that would become a frame and shift all after it, though it is none."""
    found = strays(paths)
    if found:
        series = [path.name for path in paths if path not in found]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise InputError(
            f"{folder}: '{shortened(found[0].name, 60)}'{more} is none of the numbered pictures {series[0]} to "
            f"{series[-1]}, and would become a frame; move it out of the folder"
        )
