"""Pages of a multi-page TIFF, one by one, however they are compressed."""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tifffile import TiffFile, TiffPage

SHORT, LONG = 3, 4
"""Types of a tag's values, as TIFF numbers them: 16 and 32 bits."""
AS_THEY_ARE = dict.fromkeys((256, 257, 278, 322, 323), LONG) | dict.fromkeys(
    (258, 259, 262, 266, 277, 284, 317, 339), SHORT
)
"""Tags that say how a page's data are to be read: size, rows in a strip, size of a tile; bits, compression, colours,
order of bits, samples, planes, predictor, kind of number."""
INLINE = 4
"""Bytes of a tag's values that stand in the list of tags itself."""
STRIPS, TILES = (273, 279), (324, 325)
"""Tags that say where a page's data lie and how long they are."""


class Pages:
    """The pages of a TIFF file, which stays open: to find a page anew, all before it would have to be gone through."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._file: TiffFile | None = None
        self._process = 0

    def picture(self, index: int) -> NDArray:
        """A page as it is; by OpenCV where it is compressed in a way that tifffile needs another package for, such as
        LZW, which ImageJ, MATLAB and OpenCV itself write."""
        with self._lock:
            page = self._opened().pages[index].aspage()
            try:
                return np.asarray(page.asarray())
            except ValueError:  # what tifffile raises where it lacks a codec, and for much that is broken
                return _by_opencv(page)

    def _opened(self) -> TiffFile:
        """The file, opened by this process: another's place in it must not be moved."""
        import tifffile

        if self._file is None or self._process != os.getpid():
            self._file, self._process = tifffile.TiffFile(self._path), os.getpid()
        return self._file


def _by_opencv(page: TiffPage) -> NDArray:
    """A page, taken out of its file into one of its own that OpenCV decodes."""
    import cv2

    picture = cv2.imdecode(np.frombuffer(alone(page), np.uint8), cv2.IMREAD_UNCHANGED)
    if picture is None:
        raise OSError(f"page {page.index} cannot be decoded")
    return picture


def alone(page: TiffPage) -> bytes:
    """A page's data, compressed as they are, as a TIFF file of one page."""
    order, file = page.parent.byteorder, page.parent.filehandle
    parts = []
    for offset, count in zip(page.dataoffsets, page.databytecounts, strict=True):
        file.seek(offset)
        parts.append(file.read(count))
    starts = np.cumsum([0, *map(len, parts)])[:-1].tolist()
    places, lengths = TILES if page.is_tiled else STRIPS
    tags = {code: (kind, _numbers(page.tags[code].value)) for code, kind in AS_THEY_ARE.items() if code in page.tags}
    # The head of the file, the list of tags, values that do not fit into it, and the data.
    listed = 8 + 2 + 12 * (len(tags) + 2) + 4
    beyond = sum(len(_packed(order, *tag)) for tag in tags.values() if len(_packed(order, *tag)) > INLINE)
    beyond += 2 * 4 * len(parts) if len(parts) > 1 else 0
    tags[places] = LONG, [listed + beyond + start for start in starts]
    tags[lengths] = LONG, [len(part) for part in parts]
    entries, values = b"", b""
    for code, (kind, numbers) in sorted(tags.items()):
        packed = _packed(order, kind, numbers)
        if len(packed) > INLINE:
            packed, values = struct.pack(f"{order}I", listed + len(values)), values + packed
        entries += struct.pack(f"{order}HHI", code, kind, len(numbers)) + packed
    head = struct.pack(f"{order}2sHI", b"II" if order == "<" else b"MM", 42, 8)
    return head + struct.pack(f"{order}H", len(tags)) + entries + bytes(4) + values + b"".join(parts)


def _packed(order: str, kind: int, numbers: list[int]) -> bytes:
    """A tag's values, filled up to four bytes."""
    packed = struct.pack(f"{order}{len(numbers)}{'H' if kind == SHORT else 'I'}", *numbers)
    return packed.ljust(INLINE, bytes(1))


def _numbers(value: object) -> list[int]:
    return [int(number) for number in np.atleast_1d(np.asarray(value))]
