"""One pass over all frames: locate the worm, wait until its place is decided, cut the crops."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from midline3d.processors import cores
from midline3d.recording.background.light import Field
from midline3d.recording.crops import BEGUN, LOCATIONS, ROWS, Begun, CropWriter, origins
from midline3d.recording.cutting import Crops, Cutter
from midline3d.recording.description import Recording
from midline3d.recording.locating.locator import Locator, Sight, reach_of
from midline3d.recording.locating.places import ABSENT, Decider, Found, Places
from midline3d.recording.sources import Picture, in_order, synchronised
from midline3d.recording.watcher import Cut
from midline3d.recording.watchers import Watchers

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]
Item = TypeVar("Item")

QUIET = 20
"""Frames, spread over the recording, that tell the noise beside the worm."""
TOGETHER = 4
"""Frames that a process is given at once (see `watchers`): every answer has to wait for Python's lock."""
SAVED = 250
"""Frames after which what was done is saved: some 15 s of work at 2048 px."""


@dataclass(frozen=True, eq=False)
class Placed:
    """A frame whose crops' place is known, or known not to be."""

    sight: Sight
    location: str
    """One of `LOCATIONS`."""
    corner: NDArray[np.int64] | None
    """(camera, 2) px of the crops' first pixels; None where nothing says where to cut."""
    centre: Array
    """(3,) mm: the worm's, NaN where it is not known."""
    found: Found | None = None
    """Where the worm was found in this very frame."""


class CropPass:
    """Goes over all frames once and writes their crops and log into a folder, or goes on with what was begun there."""

    def __init__(self, recording: Recording, locator: Locator, frames: range, folder: Path, begun: Begun) -> None:
        self.recording, self.locator, self.frames, self.folder = recording, locator, frames, folder
        self.begun, self.window, self.done = begun, begun.window, begun.done
        self.cutter = Cutter(locator.survey, begun.window)
        self.log = begun.log
        if not begun.done:
            for name in (BEGUN, ROWS):
                (folder / name).unlink(missing_ok=True)  # they speak of other crops than those that are cut now
        self.writer = CropWriter(folder, len(frames), len(recording.views), begun.window, again=begun.done > 0)
        self.quiet: list[list[Field]] = [[values] for values in begun.quiet]

    def run(self, progress: Progress | None, watchers: Watchers | None = None) -> None:
        """Decode, locate, decide, cut. watchers: who looks at the frames and cuts them, if it is not this process."""
        # What was begun is looked at some way back: by then the likeliest way through time is what it was.
        start = self.frames.start + max(0, self.done - 2 * self.locator.settings.lag)
        see = self._seen if watchers is None else watchers.see
        at_once = 1 if watchers is None else TOGETHER
        sights = chain.from_iterable(in_order(see, _some(self._pictures(start), at_once), 2 * cores()))
        self._write(_Decisions(self).placed(sights), progress, watchers)

    def _seen(self, frames: list[tuple[int, list[Picture]]]) -> list[tuple[Sight, Places]]:
        return [self.locator.see(frame, pictures) for frame, pictures in frames]

    def run_wider(self, narrow: int, progress: Progress | None) -> None:
        """Cut windows that are wider than the `narrow` px of those that all frames of the log were cut in.

        What was seen does not depend on the window: the frames are decoded again, but nothing is located.
        """
        self._write(self._placed_again((self.window - narrow) // 2), progress)

    def _pictures(self, start: int) -> Iterator[tuple[int, list[Picture]]]:
        """The frames from `start` on that every camera has a picture of."""
        views = self.recording.views
        sources, offsets = [view.source for view in views], [view.offset for view in views]
        for frame, pictures in synchronised(sources, offsets, start, self.frames.stop):
            whole = [picture for picture in pictures if picture is not None and _lit(picture)]
            if len(whole) == len(views):
                yield frame, whole

    def _placed_again(self, wider: int) -> Iterator[Placed]:
        """The frames of the log, to be cut so many px farther on every side."""
        log = self.log
        for frame, pictures in self._pictures(self.frames.start):
            place = frame - self.frames.start
            sight = Sight(frame, pictures, log.light[place].tolist(), list(log.registration[place]), [])
            known = np.isfinite(log.sharpness[place]).all()
            corner = log.origin[place].astype(np.int64) - wider if known else None
            yield Placed(sight, LOCATIONS[log.location[place]], corner, log.centre[place])

    def _write(self, placed: Iterator[Placed], progress: Progress | None, watchers: Watchers | None = None) -> None:
        """Cut the frames and write them down, several at once; the log comes in their order."""
        at_once = 1 if watchers is None else TOGETHER
        cut = in_order(partial(self._cut, watchers=watchers), _some(placed, at_once), 2 * cores())
        for one, crops in chain.from_iterable(cut):
            place = one.sight.frame - self.frames.start
            if progress:
                progress(place, len(self.frames))
            self._keep(one, crops)
            if one.location == "located" and place + 1 - self.done >= SAVED:
                self._save(place + 1)
        self.writer.close()
        if progress:
            progress(len(self.frames), len(self.frames))

    def _cut(self, placed: list[Placed], watchers: Watchers | None) -> list[tuple[Placed, Crops | None]]:
        """Some frames' crops, which are on the disk then."""
        asked = [(one.sight, self._how(one, one.corner)) for one in placed if one.corner is not None]
        if watchers is not None:
            made = iter(watchers.crops(asked))
        else:
            made = (self.cutter.crops(sight, cut.corner, cut.beside) for sight, cut in asked)
        done = [(one, None if one.corner is None else next(made)) for one in placed]
        for one, crops in done:
            if crops is not None:
                self.writer.write(one.sight.frame - self.frames.start, crops.images)
        return done

    def _how(self, placed: Placed, corner: NDArray[np.int64]) -> Cut:
        """How a frame is cut."""
        place = placed.sight.frame - self.frames.start
        beside = place % max(1, len(self.frames) // QUIET) == 0
        return Cut(placed.sight.light, placed.sight.registration, self.window, corner, beside)

    def _keep(self, placed: Placed, crops: Crops | None) -> None:
        """What is known of a frame into the log; its crops are on the disk."""
        sight, log = placed.sight, self.log
        place = sight.frame - self.frames.start
        log.location[place] = LOCATIONS.index(placed.location)
        log.light[place], log.registration[place], log.centre[place] = sight.light, sight.registration, placed.centre
        if placed.found is not None:
            log.residual[place], log.seen[place] = placed.found.residual, placed.found.choice != ABSENT
            log.reach[place] = reach_of(self.locator.pinholes, sight.seen, placed.found)
        if crops is None:
            return
        log.origin[place], log.sharpness[place] = placed.corner, crops.sharpness
        for kept, values in zip(self.quiet, crops.beside, strict=False):  # most frames have none
            kept.append(values)

    def _save(self, done: int) -> None:
        """What is decided so far survives whatever happens to the run."""
        self.writer.settle()
        self.done = done
        self.begun = self.begun.further(done, self.beside(), self.folder)

    def beside(self) -> list[Field]:
        """Per camera, signal beside the worm, from frames spread over the recording."""
        return [np.concatenate(values) for values in self.quiet]


def _some(items: Iterator[Item], number: int) -> Iterator[list[Item]]:
    """So many at a time."""
    while part := list(islice(items, number)):
        yield part


def _lit(picture: Picture) -> bool:
    """Whether a picture is not wholly black; of most a few pixels tell it."""
    return bool(picture[::8, ::8].any() or picture.any())


class _Decisions:
    """Where each frame is to be cut, once the frames after it have decided that."""

    def __init__(self, work: CropPass) -> None:
        self.locator, self.window = work.locator, work.window
        self.first = work.frames.start + work.begun.done
        """The first frame that is not written yet."""
        self.waiting: deque[Sight] = deque()
        self.undecided: list[Sight] = []
        self.last: Array | None = None

    def placed(self, sights: Iterator[tuple[Sight, Places]]) -> Iterator[Placed]:
        """Every frame that is not written yet, in order."""
        settings, decider, before = self.locator.settings, None, 0
        for sight, places in sights:
            if decider is None:
                size = sum(picture.nbytes for picture in sight.pictures)
                lag = int(np.clip(settings.memory * 1e6 / size, 4, settings.lag))
                decider = Decider(lag, settings, self.locator.step())
            self.waiting.append(sight)
            decision = decider.add(places, sight.frame - before)
            before = sight.frame
            if decision is not None:
                yield from self._decided(decision)
        for decision in decider.finish() if decider else []:
            yield from self._decided(decision)
        yield from self._bridged(None)

    def _decided(self, decision: Found) -> Iterator[Placed]:
        """The frames that are known by the decision on the one that waits longest."""
        sight = self.waiting.popleft()
        if sight.frame < self.first:
            self.last = decision.point if decision.found else self.last
        elif decision.found:
            yield from self._bridged(decision.point)
            yield self._at(sight, decision.point, "located", decision)
            self.last = decision.point
        else:
            self.undecided.append(sight)
            if len(self.undecided) > self.locator.settings.lag // 2:
                yield from self._bridged(None)

    def _bridged(self, point: Array | None) -> Iterator[Placed]:
        """The frames in which the worm was not found: on a straight way if it was found before and after."""
        undecided, self.undecided = self.undecided, []
        for index, sight in enumerate(undecided):
            if point is not None and self.last is not None:
                share = (index + 1) / (len(undecided) + 1)
                yield self._at(sight, (1 - share) * self.last + share * point, "interpolated")
            else:
                yield self._at(sight, self.last if self.last is not None else point, "not located")

    def _at(self, sight: Sight, point: Array | None, location: str, found: Found | None = None) -> Placed:
        """A frame to be cut around a point, if there is one."""
        corner = None if point is None else origins(self.locator.pinholes, point, self.window)
        centre = np.full(3, np.nan) if point is None or location == "not located" else point
        return Placed(sight, location, corner, centre, found)
