"""Frames fitted again as people say: through pins, and on from there to the neighbours until nothing changes."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from midline3d.appearance import Profile
from midline3d.errors import InputError
from midline3d.fitting.pins import BODY, Pins, distance, pin_energy
from midline3d.fitting.second_order import Fit, Problem, evaluate, fit
from midline3d.state import FrameState, merged, where
from midline3d.store import Edit, EditLog, FrameResult, Pin, StoredFrames, edit_of
from midline3d.tracking.checkpoint import recorded
from midline3d.tracking.clip import APPEARANCE, Clip, clip_beside, kept_body, stored_states
from midline3d.tracking.evidence import evidence
from midline3d.tracking.follow import Candidate, outcome
from midline3d.tracking.judging import Verdict, judge
from midline3d.tracking.learning import body_taper, nat, problem_of

SPREAD = 1.5
"""px: standard deviation of a click on what it means."""
SURE = 24.0
"""Times that a pin counts against the pixels, as much as other prior knowledge does (see `BodySettings.sure`): what the
model gets wrong of an image repeats itself all along the body, so that the pixels together know less than they seem."""
FIRST = 25.0
"""The same, times more, while a frame is fitted softly: a pin must be able to pull an end off what it is caught on."""
AGREED = 0.5
"""px: two midlines are the same where their keypoints lie closer on average, in all views."""
AGREEING = 3
"""Frames in a row that have to be the same before nothing further is fitted again."""
BLOCK = 32
"""Frames that are read at once."""
NEAREST = 50
"""Frames within which a found neighbour is looked for to start from."""


@dataclass(frozen=True)
class Corrected:
    """A frame fitted again, beside what it was."""

    frame: int
    record: FrameResult
    state: FrameState
    """A batch of one, in the frame's own local world."""
    loss: float
    """Of the new midline, the pins aside."""
    before: float | None
    """Of the one before: under the same terms where the frame itself was corrected; None where there was none."""
    distances: tuple[float, ...] = ()
    """How far the new midline runs from each pin, px."""


@dataclass(frozen=True)
class Ended:
    """Where and why a correction was carried on no further."""

    why: Literal["agrees", "lost", "end"]
    frame: int
    """The last frame that was looked at."""
    since: int
    """The first of the frames in a row that came out as they were; else the frame itself."""
    reason: str = ""
    """What speaks against the new midline there."""

    def __str__(self) -> str:
        if self.why == "agrees":
            return f"frames {self.since} to {self.frame} come out as they were, so that it ends before them"
        if self.why == "lost":
            return f"it ends before frame {self.frame}, which the new midline does not fit ({self.reason})"
        return f"it ends at frame {self.frame}: there are no more"


class Bench:
    """Everything that fitting a result's frames again needs, from what lies beside the result."""

    def __init__(self, frames: StoredFrames) -> None:
        self.frames = frames
        self.clip: Clip = clip_beside(frames.folder, frames.header.settings)
        self._read: tuple[Any, xr.Dataset] = (None, xr.Dataset())
        self.taper: Profile = body_taper(self.clip, self._any(), kept_body(frames.folder))

    @staticmethod
    def of(folder: Path) -> Bench:
        return Bench(StoredFrames(folder))

    def _any(self) -> int:
        found = self.clip.found
        if not found:
            raise InputError(f"{self.frames.folder}: the worm was located in no frame; there is nothing to correct")
        return found[len(found) // 2]

    def place(self, frame: int) -> int:
        """A frame's place in the clip."""
        self.frames.row(frame)
        place = frame - self.clip.prepared.start
        if not (0 <= place < len(self.clip) and self.clip.located(place)):
            raise InputError(f"frame {frame}: the worm was not located, so there are no crops to fit a midline to")
        return place

    def shown(self, frame: int) -> xr.Dataset:
        """What the result holds of a frame, edits and all."""
        row = self.frames.row(frame)
        first = row // BLOCK * BLOCK
        key = (self.frames.version, first)
        if self._read[0] != key:
            self._read = key, self.frames.part(first, min(first + BLOCK, len(self.frames.header.frames)))
        return self._read[1].isel(time=row - first)

    def stored(self, frame: int) -> FrameState | None:
        """The midline that the result shows of a frame, a batch of one in that frame's local world; None without."""
        observed = self.shown(frame)
        position = observed["position"].isel(individual=0).transpose("keypoint", "space").values
        if not np.isfinite(position).all() or not self.clip.located(frame - self.clip.prepared.start):
            return None
        appearance = {name: torch.from_numpy(np.asarray(observed[name].values))[None] for name in APPEARANCE}
        return stored_states(self.clip, [self.place(frame)], torch.from_numpy(position)[None], appearance)

    def neighbours(self, frame: int) -> list[FrameState]:
        """The nearest midlines on either side, in the frame's local world; the nearer first."""
        there = self.place(frame)
        found: list[tuple[int, FrameState]] = []
        numbers = set(self.frames.header.frames)
        for direction in (-1, 1):
            for far in range(1, NEAREST):
                other = frame + direction * far
                state = self.stored(other) if other in numbers else None
                if state is not None:
                    found.append((far, self.clip.carried(state, self.place(other), there)))
                    break
        return [state for _, state in sorted(found, key=lambda each: each[0])]

    def refit(self, frame: int, pins: Sequence[Pin]) -> Corrected:
        """The frame through its pins, from what it was and from its neighbours, read from the end that the pins say."""
        place, old = self.place(frame), self.stored(frame)
        around = self.neighbours(frame)
        starts = [*([] if old is None else [old]), *around]
        if not starts:
            raise InputError(f"frame {frame}: no frame within {NEAREST} has a midline to start from; mend one of those")
        anchor = (around or starts)[0]
        held = self.pins(frame, pins)
        found = self._best(place, self._read_rightly(place, merged(starts), held), anchor, held)
        made = self._corrected(frame, found, anchor, held)
        return made if old is None else replace(made, before=self._loss(place, old, anchor))

    def follow(
        self, frame: int, state: FrameState, direction: int, pins: Sequence[Pin] = ()
    ) -> Generator[Corrected, None, Ended]:
        """On from a corrected frame, forwards (1) or backwards (-1), for as long as what comes out is new.

        Frames in which the worm was not located are stepped over. It ends where the new midline has been the stored one
        for some frames, where it fits no longer, and with the recording; which of these is what it returns. pins: of
        frames on the way.
        """
        clip, at, same, since = self.clip, frame, 0, frame
        waiting: list[Corrected] = []
        numbers = self.frames.header.frames
        last = numbers[-1] if direction > 0 else numbers[0]
        for other in range(frame + direction, last + direction, direction):
            if not clip.located(other - clip.prepared.start):
                continue
            start = clip.carried(state, self.place(at), self.place(other))
            held = self.pins(other, [pin for pin in pins if pin.frame == other])
            made = self._corrected(other, self._from(self.place(other), start, held), start, held)
            if made.record.status == "lost":
                return Ended("lost", other, other, made.record.reason)
            old = self.shown(other)
            made = replace(made, before=float(old["loss"]) if np.isfinite(old["loss"]) else None)
            same = same + 1 if _apart(made, old["projection"].values) < AGREED else 0
            since = other if same == 1 else since
            waiting.append(made)
            if same == AGREEING:
                return Ended("agrees", other, since)
            if not same:
                yield from waiting
                waiting = []
            state, at = made.state, other
        yield from waiting
        return Ended("end", at, at)

    def pins(self, frame: int, pins: Sequence[Pin]) -> Pins | None:
        """Pins as the fitter wants them; None without any."""
        if not pins:
            return None
        names, origin = self.frames.header.cameras, self.clip.prepared.log.origin[self.place(frame)]
        cameras = []
        for pin in pins:
            if pin.camera not in names:
                raise InputError(f"a pin is in camera '{pin.camera}'; this result has {', '.join(names)}")
            cameras.append(names.index(pin.camera))
        where = np.array([[pin.u, pin.v] for pin in pins]) - origin[cameras]
        ends = {"head": 0, "tail": -1, "body": BODY}
        weight = SURE * nat(self.clip.settings) / 2 / SPREAD**2
        return Pins(
            camera=torch.tensor([cameras]),
            vertex=torch.tensor([[ends[pin.part] for pin in pins]]),
            place=torch.from_numpy(where)[None].float(),
            weight=torch.full((1, len(pins)), weight),
        )

    def _problem(self, place: int, count: int, anchor: FrameState, pins: Pins | None, clip: Clip) -> Problem:
        weights = clip.settings.second_order
        problem = problem_of(clip, [place] * count, self.taper, anchor[[0] * count], weights)
        return problem if pins is None else replace(problem, pins=pins.repeated(count))

    @torch.no_grad()
    def _read_rightly(self, place: int, starts: FrameState, pins: Pins | None) -> FrameState:
        """The starts, each with head and tail exchanged where that lies nearer to the pins."""
        if pins is None:
            return starts
        both, cameras = merged([starts, starts.reversed()]), self.clip.views([place]).cameras
        energy = torch.cat([pin_energy(pins, cameras, both[[row]]) for row in range(len(both))])
        kept, turned = energy.chunk(2)
        return where(turned < kept, both[list(range(len(starts), len(both)))], starts)

    @torch.no_grad()
    def _best(self, place: int, starts: FrameState, anchor: FrameState, pins: Pins | None) -> Fit:
        """The least energy over all starts, each also drawn to its pins as if faint light were less exactly known."""
        clip = self.clip
        most = clip.settings.second_order.retry_iterations
        softer = clip.settings.tracking.softer
        soft = replace(clip, error=softer * clip.error)
        strong = None if pins is None else pins.weighted(FIRST)
        dim = replace(anchor, iota=anchor.iota / softer)
        faint = replace(starts, iota=starts.iota / softer)
        rough = fit(self._problem(place, len(starts), dim, strong, soft), faint, most).state
        again = merged([starts, replace(rough, iota=rough.iota * softer)])
        done = fit(self._problem(place, len(again), anchor, pins, clip), again, most)
        return done[[int(torch.nan_to_num(done.energy, nan=math.inf).argmin())]]

    @torch.no_grad()
    def _from(self, place: int, start: FrameState, pins: Pins | None) -> Fit:
        if pins is not None:
            return self._best(place, self._read_rightly(place, start, pins), start, pins)
        problem = self._problem(place, 1, start, None, self.clip)
        return fit(problem, start, problem.weights.retry_iterations)

    @torch.no_grad()
    def _loss(self, place: int, state: FrameState, anchor: FrameState) -> float:
        return float(evaluate(self._problem(place, 1, anchor, None, self.clip), state).energy)

    @torch.no_grad()
    def _corrected(self, frame: int, found: Fit, anchor: FrameState, pins: Pins | None) -> Corrected:
        """A fit with what the images say to it, as a result keeps it."""
        clip, place = self.clip, self.place(frame)
        problem = self._problem(place, 1, anchor, None, clip)
        plain = evaluate(problem, found.state)
        fitted = Fit(found.state, plain.energy, plain.terms, found.iterations)
        observed = evidence(problem, found.state, clip.contrast, clip.noise, clip.settings.evidence)
        verdict = judge(observed, 0.0, clip.settings.judging)
        if verdict.status == "lost" and pins is not None:
            verdict = Verdict("suspect", verdict.reason)  # somebody has said that it is there
        record = recorded(clip, outcome(clip, place, Candidate(fitted, observed, verdict)))
        away = () if pins is None else tuple(distance(pins, problem.views.cameras, found.state)[0].tolist())
        return Corrected(frame, record, found.state, float(plain.energy), None, away)


def _apart(made: Corrected, shown: NDArray[np.floating]) -> float:
    """Mean distance of the keypoints of two midlines in all views, px; NaN where the other is none."""
    assert made.record.projection is not None
    return float(np.linalg.norm(made.record.projection - shown, axis=-1).mean())


def fit_again(folder: Path) -> int:
    """Fits frames to the pins that were set on an earlier run of the recording; returns how many edits were done again.

    What comes of it is laid over this run's frames as it was over those of the earlier one.
    """
    log = EditLog(folder)
    if not log.path.exists():
        return 0
    frames = StoredFrames(folder)
    due = frames.overlay.unmade()
    bench = Bench(frames) if due else None
    for edit in due:
        assert bench is not None
        records = {made.frame: made.record for made in _made_again(bench, edit)}
        log.append(edit_of("again", records, frames.run, of=edit.id), records or None)
        frames.refresh()
    frames.close()
    return len(due)


def _made_again(bench: Bench, edit: Edit) -> Iterator[Corrected]:
    """The pinned frames of an edit, and those that it had reached from there."""
    reached = set(edit.numbers)
    for frame in sorted(edit.pinned):
        try:
            made = bench.refit(frame, [pin for pin in edit.pins if pin.frame == frame])
        except InputError:
            continue  # this run has no such frame, or nothing was located there
        yield made
        for direction in (-1, 1):
            for other in bench.follow(frame, made.state, direction):
                if other.frame not in reached or other.frame in edit.pinned:
                    break
                yield other
