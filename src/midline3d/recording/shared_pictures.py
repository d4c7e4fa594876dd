"""Pictures in memory that this process and those it has started see alike, so that none has to travel."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from midline3d.recording.sources import Picture


@dataclass(frozen=True)
class Place:
    """Where one picture lies in the memory."""

    offset: int
    """Bytes from the beginning of its slot."""
    shape: tuple[int, int]
    kind: str
    """Of its numbers, as numpy names it."""


@dataclass(frozen=True)
class Slot:
    """The part of the memory that holds a frame's pictures."""

    number: int
    offset: int
    """Bytes from the beginning of the memory."""
    size: int
    """Bytes."""
    places: tuple[Place, ...]


@dataclass(frozen=True, eq=False)
class Held:
    """A slot, for as long as somebody has to do with it; then another frame's pictures may lie there."""

    slot: Slot
    free: deque[int] = field(repr=False)
    """The numbers of those that are nobody's."""

    def __del__(self) -> None:
        self.free.append(self.slot.number)


class SharedPictures:
    """The memory, in as many slots as are needed at once. It is gone with the last process that has to do with it."""

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self.file = os.memfd_create("midline3d-pictures")
        else:  # not Linux: a file without a name
            with tempfile.TemporaryFile() as file:
                self.file = os.dup(file.fileno())
        self._end, self._maps, self._lock = 0, list[tuple[int, mmap.mmap]](), threading.Lock()
        self._free: deque[int] = deque()

    def put(self, pictures: Sequence[Picture]) -> tuple[Held, list[Picture]]:
        """A frame's pictures, laid into the memory; for several threads at once."""
        places, end = list[Place](), 0
        for picture in pictures:
            places.append(Place(end, (picture.shape[0], picture.shape[1]), picture.dtype.str))
            end += -(-picture.nbytes // 64) * 64
        number = self._taken(end)
        offset, memory = self._maps[number]
        held = Held(Slot(number, offset, len(memory), tuple(places)), self._free)
        there = pictures_in(memory, held.slot)
        for copy, picture in zip(there, pictures, strict=True):
            copy[...] = picture
        return held, there

    def _taken(self, needed: int) -> int:
        """A slot of so many bytes at least."""
        with self._lock:
            for _ in range(len(self._free)):
                number = self._free.popleft()
                if len(self._maps[number][1]) >= needed:
                    return number
                self._free.append(number)  # pictures of fewer bits were there
            size = -(-needed // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
            os.ftruncate(self.file, self._end + size)
            self._maps.append((self._end, mmap.mmap(self.file, size, offset=self._end)))
            self._end += size
            return len(self._maps) - 1

    def close(self) -> None:
        """What others still hold stays there until they do not."""
        os.close(self.file)


class PicturesThere:
    """The same memory, as another process sees it."""

    def __init__(self, file: int) -> None:
        self._file, self._maps = file, dict[int, mmap.mmap]()

    def get(self, slot: Slot) -> list[Picture]:
        """What lies in a slot, for as long as the other process holds it."""
        if slot.number not in self._maps:
            memory = mmap.mmap(self._file, slot.size, access=mmap.ACCESS_READ, offset=slot.offset)
            self._maps[slot.number] = memory
        return pictures_in(self._maps[slot.number], slot)


def pictures_in(memory: mmap.mmap, slot: Slot) -> list[Picture]:
    """The pictures that lie in a slot, not copied."""
    return [
        np.ndarray[Any, np.dtype[Any]](place.shape, np.dtype(place.kind), memory, place.offset) for place in slot.places
    ]
