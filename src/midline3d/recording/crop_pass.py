"""One pass over all frames: locate the worm, wait until its place is decided, cut the crops."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from midline3d.processors import cores
from midline3d.recording.background.light import Field
from midline3d.recording.background.signal import as_bytes, signal
from midline3d.recording.crops import LOCATIONS, Begun, CropWriter, cut, inside, origins
from midline3d.recording.description import Recording
from midline3d.recording.locating.locator import Locator, Sight, crop_behind, reach_of, sharpness
from midline3d.recording.locating.places import ABSENT, Decider, Found
from midline3d.recording.sources import Picture, in_order, synchronised

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]

FAINT = 128.0
"""A worm whose usual peak is below this is amplified to it, so that 8 bits do not lose it."""
MOST_GAIN = 16.0
"""Largest amplification: a worm fainter than that is noise."""
QUIET = 20
"""Frames, spread over the recording, that tell the noise beside the worm."""
SAVED = 250
"""Frames after which what was done is saved: some 15 s of work at 2048 px."""


def _whole(decoded: Iterator[tuple[int, list[Picture | None]]], views: int) -> Iterator[tuple[int, list[Picture]]]:
    """The frames that every camera has a picture of."""
    for frame, pictures in decoded:
        whole = [picture for picture in pictures if picture is not None and picture.any()]
        if len(whole) == views:
            yield frame, whole


class CropPass:
    """Goes over all frames once and writes their crops and log into a folder, or goes on with what was begun there."""

    def __init__(self, recording: Recording, locator: Locator, frames: range, folder: Path, begun: Begun) -> None:
        self.recording, self.locator, self.frames, self.folder = recording, locator, frames, folder
        self.begun, self.window, self.done = begun, begun.window, begun.done
        self.gain = np.clip(FAINT / locator.survey.peak, 1, MOST_GAIN)
        self.log = begun.log
        self.writer = CropWriter(folder, len(frames), len(recording.views), begun.window, again=begun.done > 0)
        self.waiting: deque[Sight] = deque()
        self.undecided: list[Sight] = []
        self.last: Array | None = None
        self.quiet: list[list[Field]] = [[values] for values in begun.quiet]

    def run(self, progress: Progress | None) -> None:
        """Decode, locate, decide, cut."""
        settings = self.locator.settings
        views = self.recording.views
        sources, offsets = [view.source for view in views], [view.offset for view in views]
        decider: Decider | None = None
        # What was begun is looked at some way back: by then the likeliest way through time is what it was.
        start = self.frames.start + max(0, self.done - 2 * settings.lag)
        before = start - 1
        decoded = synchronised(sources, offsets, start, self.frames.stop)
        for sight, places in in_order(lambda item: self.locator.see(*item), _whole(decoded, len(views)), 2 * cores()):
            frame = sight.frame
            if progress:
                progress(max(frame - self.frames.start, self.begun.done), len(self.frames))
            if decider is None:
                size = sum(picture.nbytes for picture in sight.pictures)
                lag = int(np.clip(settings.memory * 1e6 / size, 4, settings.lag))
                decider = Decider(lag, settings, self.locator.step())
            self.waiting.append(sight)
            decision = decider.add(places, frame - before)
            before = frame
            if decision is not None:
                self.decided(decision)
        for decision in decider.finish() if decider else []:
            self.decided(decision)
        self.bridge(None)
        self.writer.close()
        if progress:
            progress(len(self.frames), len(self.frames))

    def decided(self, decision: Found) -> None:
        """A frame's place is known, or known not to be."""
        sight = self.waiting.popleft()
        place = sight.frame - self.frames.start
        if place < self.begun.done:
            self.last = decision.point if decision.found else self.last
            return
        self.log.light[place] = sight.light
        self.log.registration[place] = sight.registration
        if not decision.found:
            self.undecided.append(sight)
            if len(self.undecided) > self.locator.settings.lag // 2:
                self.bridge(None)
            return
        self.bridge(decision.point)
        self.log.residual[place] = decision.residual
        self.log.seen[place] = decision.choice != ABSENT
        self.log.reach[place] = reach_of(self.locator.pinholes, sight.seen, decision)
        self.write(sight, decision.point, "located")
        self.last = decision.point
        if place + 1 - self.done >= SAVED:
            self.save(place + 1)

    def save(self, done: int) -> None:
        """What is decided so far survives whatever happens to the run."""
        self.writer.settle()
        self.done = done
        replace(self.begun, done=done, quiet=self.beside()).save(self.folder)

    def beside(self) -> list[Field]:
        """Per camera, signal beside the worm, from frames spread over the recording."""
        return [np.concatenate(values) for values in self.quiet]

    def bridge(self, point: Array | None) -> None:
        """Cut the frames in which the worm was not found: on a straight way if it was found before and after."""
        number = len(self.undecided)
        for index, sight in enumerate(self.undecided):
            if point is not None and self.last is not None:
                share = (index + 1) / (number + 1)
                self.write(sight, (1 - share) * self.last + share * point, "interpolated")
            else:
                self.write(sight, self.last if self.last is not None else point, "not located")
        self.undecided = []

    def write(self, sight: Sight, centre: Array | None, location: str) -> None:
        """Cut one frame's crops around a point."""
        place = sight.frame - self.frames.start
        self.log.location[place] = LOCATIONS.index(location)
        if centre is None:
            return
        corner = origins(self.locator.pinholes, centre, self.window)
        self.log.origin[place] = corner
        if location != "not located":
            self.log.centre[place] = centre
        fields = [self.crop(sight, view, corner[view]) for view in range(len(sight.pictures))]
        self.log.sharpness[place] = [sharpness(values) for values in fields]
        self.writer.write(place, np.stack([as_bytes(*one) for one in zip(fields, self.gain, strict=True)]))
        if place % max(1, len(self.frames) // QUIET) == 0:
            for kept, values, gain in zip(self.quiet, fields, self.gain, strict=True):
                kept.append(values[::2, ::2].ravel() * np.float32(gain))

    def crop(self, sight: Sight, view: int, corner: NDArray[np.int64]) -> Field:
        """The signal in one view's window, 0 beyond the picture's border."""
        picture, survey = sight.pictures[view], self.locator.survey
        behind = crop_behind(survey.backgrounds[view], sight.frame, corner, self.window, sight.registration[view])
        values = signal(cut(picture, corner, self.window), behind, survey.tones[view], sight.light[view])
        return values * inside(picture.shape, corner, self.window)
