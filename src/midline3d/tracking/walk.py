"""Following the animal into a result: both ways from where it is known, only what is missing, fit to be killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

from midline3d.store import Result, ranges
from midline3d.tracking.begin import Beginning
from midline3d.tracking.checkpoint import DIRECTIONS, gaps, kept_track, recorded, track_to
from midline3d.tracking.directions import Direction, track_directions
from midline3d.tracking.follow import missing
from midline3d.tracking.threads import few_threads


@dataclass(frozen=True)
class Walk:
    """Some frames to be followed both ways from the beginning's, and where they go."""

    beginning: Beginning
    frames: range
    """Within the clip; the beginning's is one of them, unless the animal was located in none."""
    result: Result

    @property
    def directions(self) -> list[list[int]]:
        """The located frames in the order in which they are followed."""
        first, located = self.beginning.frame, self.beginning.clip.located
        found = [frame for frame in self.frames if located(frame)]
        return [[frame for frame in found if frame >= first], [frame for frame in reversed(found) if frame < first]]

    def there(self, frame: int) -> bool:
        """Whether the result holds a frame of the clip."""
        return self.beginning.clip.prepared.start + frame in self.result.done

    def left(self) -> str:
        """Which frames are to be followed, for the log."""
        start = self.beginning.clip.prepared.start
        left = [[start + frame for frame in direction if not self.there(frame)] for direction in self.directions]
        return ", ".join(
            f"{name} {ranges(direction) or 'nothing'} left" for name, direction in zip(DIRECTIONS, left, strict=True)
        )

    def skip(self) -> None:
        """Writes down the frames in which there is nothing to follow."""
        clip = self.beginning.clip
        for frame in self.frames:
            if not clip.located(frame) and not self.there(frame):
                self.result.append(clip.prepared.start + frame, recorded(clip, missing(clip, frame)))


@few_threads()
def walk(walks: list[Walk], step: Callable[[int], None]) -> None:
    """All of the walks, side by side where the device suits that; `step` is called with a walk's number for each frame.

    Where frames are there already, it goes on from the last before those that are missing.
    """
    for each in walks:
        each.skip()
    named = [
        (number, direction, name)
        for number, each in enumerate(walks)
        for direction, name in zip(each.directions, DIRECTIONS, strict=True)
    ]
    for row in _rounds(walks, [(number, direction) for number, direction, _ in named]):
        parts = []
        for (number, direction, name), hole in zip(named, row, strict=True):
            beginning, result = walks[number].beginning, walks[number].result
            track = track_to(beginning, result, direction, hole.start, name)
            parts.append(Direction(beginning, direction[hole.start : hole.stop], track))
        for index, tracked in track_directions(parts):
            number, _, name = named[index]
            clip = walks[number].beginning.clip
            known = kept_track(name, parts[index].track, tracked.frame)
            walks[number].result.append(clip.prepared.start + tracked.frame, recorded(clip, tracked), known)
            step(number)


def _rounds(walks: list[Walk], directions: list[tuple[int, list[int]]]) -> Iterator[tuple[range, ...]]:
    """The first hole of every way, the second of every way and so on; an empty one where a way has no more."""
    holes = [list(gaps(direction, walks[number].there)) for number, direction in directions]
    return zip_longest(*holes, fillvalue=range(0))
