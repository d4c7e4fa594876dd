"""A result as `open_result` gives it, some frames at a time: all of a long recording is more than memory holds."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.store.dataset import attributes_of
from midline3d.store.frames import LARGE, StoredFrames
from midline3d.store.manifest import MANIFEST, Manifest
from midline3d.store.overlay import Overlay
from midline3d.store.result import FINAL
from midline3d.store.segments import WORDS, fingerprint, segments_in

BLOCK = 1024
"""Frames that are read at once: some 10 MB."""


class ResultParts:
    """Any part of a result, or of a dataset like one, at the cost of that part."""

    def __init__(self, source: xr.Dataset | Path | str) -> None:
        """source: a result's folder, a netCDF file such as its `midline.nc`, or a dataset in memory."""
        self._stored: StoredFrames | None = None
        self._overlay: Overlay | None = None
        if isinstance(source, xr.Dataset):
            self._whole = source
            return
        path = Path(source)
        if (path / MANIFEST).exists():
            self._stored = StoredFrames(path)
            return
        file = path / FINAL if (path / FINAL).exists() else path
        if not (file.is_file() and file.suffix == ".nc"):
            raise InputError(
                f"{path} is no result: it has neither {MANIFEST} nor {FINAL}; give the folder of a reconstruction"
            )
        stored = StoredFrames(file.parent) if file.name == FINAL and (file.parent / MANIFEST).exists() else None
        if stored is not None and stored.complete:  # many times as fast as xarray, which asks every variable's length
            self._stored = stored
            return
        try:
            self._whole = xr.open_dataset(file, engine="h5netcdf")
        except (OSError, ValueError, KeyError, RuntimeError) as fault:
            raise InputError(f"{file}: cannot be read as netCDF ({fault}); consolidate the result again") from None
        if stored is not None:
            stored.close()
            self._overlay = Overlay(file.parent, Manifest.read(file.parent).run)

    def __len__(self) -> int:
        return self._whole.sizes["time"] if self._stored is None else len(self._stored.header.frames)

    @cached_property
    def head(self) -> xr.Dataset:
        """The first frame, with the attributes, names and coordinates of all; no frame where there is none."""
        return self.part(0, 1)

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """(frame,) their numbers in the recording, which are worked out from the times where they are not given."""
        if self._stored is not None:
            return np.asarray(self._stored.header.frames, np.int64)
        if "frame" in self._whole.coords:
            return np.asarray(self._whole.frame.values, np.int64)
        return np.rint(self._whole.time.values * float(self._whole.attrs.get("fps", 1.0))).astype(np.int64)

    def part(self, first: int, stop: int, names: Collection[str] = LARGE) -> xr.Dataset:
        """The frames at places `first` to before `stop`, in memory.

        names: of the variables along the body, those that are wanted; the positions come anyway.
        """
        if self._stored is not None:
            return self._stored.part(first, stop, names).assign_attrs(self._attributes)
        left_out = [name for name in self._whole.data_vars if name in LARGE - {"position", *names}]
        part = self._whole.drop_vars(left_out).isel(time=slice(first, stop)).load()
        return part if self._overlay is None else self._overlay.apply(part)

    def chosen(self, frames: Collection[int]) -> xr.Dataset:
        """Those of some frames, by their numbers, that there are; one after the other, so not for many."""
        places = np.flatnonzero(np.isin(self.numbers, list(frames))).tolist()
        found = [self.part(place, place + 1) for place in places]
        return xr.concat(found, "time", data_vars="minimal", coords="minimal") if found else self.part(0, 0)

    def small(self, names: Collection[str]) -> xr.Dataset:
        """Some variables of all frames, none of which run along the body."""
        if self._stored is not None:
            return self._stored.small(names)
        # Edits go by a frame's words, and change them (see `Overlay.apply`).
        wanted = {*names, *(WORDS if self._overlay is not None else ())}
        found = self._whole[[name for name in self._whole.data_vars if name in wanted]].load()
        return found if self._overlay is None else self._overlay.apply(found)

    def each(self, names: Collection[str] = LARGE, block: int = BLOCK) -> Iterator[xr.Dataset]:
        """All frames, so many at a time."""
        for first in range(0, len(self), block):
            yield self.part(first, first + block, names)

    def of(self, frame: int) -> xr.Dataset | None:
        """One frame by its number in the recording; None where there is none."""
        place = int(np.searchsorted(self.numbers, frame))
        if place == len(self) or self.numbers[place] != frame:
            return None
        return self.part(place, place + 1).isel(time=0)

    @cached_property
    def _attributes(self) -> dict[str, object]:
        assert self._stored is not None
        segments = segments_in(self._stored.folder, self._stored.manifest.since)
        found = attributes_of(self._stored.header, fingerprint(segments))
        edits = len(self._stored.overlay.standing)
        return found | ({"edits": edits} if edits else {})
