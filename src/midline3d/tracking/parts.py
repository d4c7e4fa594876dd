"""What is put right some frames at a time, by processes side by side.

Threads share one lock for all that is Python: on 16 cores they put right no more frames than on three. So what is asked
of a process lies in a file, and so does its answer; the frames themselves it reads from the result, as everybody may.
The numbers are those that this process would come to itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import torch

from midline3d.files import guarded
from midline3d.fitting.second_order import Fit
from midline3d.state import FrameState, merged
from midline3d.store import Result
from midline3d.store.kept import packed, unpacked
from midline3d.tracking.begin import Beginning, Progress
from midline3d.tracking.checkpoint import plain, whole
from midline3d.tracking.cleaning import Cleaned, clean
from midline3d.tracking.clip import Clip
from midline3d.tracking.clip_frames import ClipFrames
from midline3d.tracking.clips import CLIPS, plan_read_once
from midline3d.tracking.evidence import Evidence
from midline3d.tracking.follow import Tracked
from midline3d.tracking.job import Job
from midline3d.tracking.mending import KnownFrame
from midline3d.tracking.repair import CLEANING, MENDING, Batches, Hands, Parts
from midline3d.tracking.second_look import found_better
from midline3d.tracking.sprung import Mending, Sprung, mend
from midline3d.tracking.tasks import packed as packed_job
from midline3d.tracking.tasks import unpacked as unpacked_job
from midline3d.tracking.workers import Crew, one_by_one

FOLDER = "parts"
"""Where questions and answers lie, among the clips: gone once all is done."""
Content = dict[str, Any]
"""Arrays and what JSON can say, nested."""
Record = TypeVar("Record", FrameState, Evidence)


@dataclass(frozen=True)
class SideBySide(Hands):
    """The processes of a crew."""

    job: Job
    crew: Crew

    def cleaned(self, frames: ClipFrames, parts: Parts, progress: Progress) -> list[Cleaned]:
        """Several parts at once."""
        asked = [{"chosen": chosen, "found": found} for chosen, found in parts]
        done, total = 0, sum(len(chosen) for chosen, _ in parts)
        progress(CLEANING, done, total)
        answers: dict[int, Cleaned] = {}
        for number, content in self._answered("clean", asked, frames.result.newest):
            clip = frames.beginning.clip
            answers[number] = Cleaned(whole(content["dirt"], clip), all_tracked(content["again"], clip))
            done += len(parts[number][0])
            progress(CLEANING, done, total)
        return [answers[number] for number in range(len(parts))]

    def searched(self, beginning: Beginning, batches: Batches) -> Iterable[list[Tracked]]:
        """Several batches at once."""
        dirt, asked = beginning.clip.dirt, list[Content]()
        for batch in batches:
            known = {frame: one for frame, one in batch.items() if one is not None}
            asked.append(
                {
                    "frames": list(batch),
                    "known": list(known),
                    "state": plain(merged([one.state for one in known.values()])) if known else None,
                    "energy": [one.energy for one in known.values()],
                    "status": [one.status for one in known.values()],
                    "dirt": None if dirt is None else plain(dirt.near(list(batch))),
                }
            )
        found = {number: all_tracked(content, beginning.clip) for number, content in self._answered("look", asked)}
        return [found[number] for number in range(len(asked))]

    def mended(self, frames: ClipFrames, groups: list[Sprung], progress: Progress) -> Iterable[Mending]:
        """Several groups at once."""
        clip, asked = frames.beginning.clip, list[Content]()
        for group in groups:
            dirt = None if clip.dirt is None else plain(clip.dirt.near(list(range(*group.around))))
            asked.append({"at": group.at, "others": group.others, "around": group.around, "dirt": dirt})
        answers: dict[int, Mending] = {}
        for number, content in self._answered("mend", asked, frames.result.newest):
            contested = dict(zip(content["contested"], content["probability"], strict=True))
            answers[number] = Mending(all_tracked(content["better"], clip), contested)
            progress(MENDING, len(answers), len(groups))
        return [answers[number] for number in range(len(groups))]

    def _answered(self, kind: str, asked: list[Content], newest: str = "") -> Iterator[tuple[int, Content]]:
        """The answers to all questions of one kind with their numbers, as they come.

        newest: segment of the result up to which its frames are read, where any are.
        """
        folder = self.job.out / CLIPS / FOLDER
        with guarded(self.job.out):
            folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{kind}-{number:05d}" for number in range(len(asked))]
        for path, content in zip(paths, asked, strict=True):
            _write(path, content)
        task = {"part": kind, "job": packed_job(self.job), "newest": newest}
        tasks = [task | {"asked": str(path)} for path in paths]
        with closing(one_by_one(tasks, self.crew, lambda *_: None)) as done:
            for number in done:
                place = _answer_to(paths[number])
                yield number, unpacked(place.read_bytes())
                for path in (place, paths[number]):
                    path.unlink(missing_ok=True)


def answer(kind: str, job: Mapping[str, Any], asked: Path, newest: str) -> None:
    """Answers a question that lies in a file, for another process; job: as it was packed; newest: see `_answered`."""
    beginning, content = _beginning(json.dumps(job, sort_keys=True)), unpacked(asked.read_bytes())
    if "dirt" in content:
        clip = replace(beginning.clip, dirt=whole(content["dirt"], beginning.clip))
        beginning = replace(beginning, clip=clip)
    if kind == "look":
        made = _found(beginning, content)
    else:
        result = _result(job["out"], tuple(Result.stamps(Path(job["out"]))))
        result.catch_up(newest)
        made = FROM_FRAMES[kind](ClipFrames(beginning, result), content)
    _write(_answer_to(asked), made)


def _write(path: Path, content: Content) -> None:
    """Not made to last, as what a run keeps is: should the machine break down, it is asked again."""
    with guarded(path.parent):
        path.write_bytes(packed(content))


def _answer_to(asked: Path) -> Path:
    return asked.with_name(f"{asked.name}-answer")


@lru_cache(maxsize=1)
def _beginning(job: str) -> Beginning:
    """How a job's recording begins: read once, for all that is asked of it."""
    return plan_read_once(unpacked_job(json.loads(job)), torch.device("cpu")).beginning


@lru_cache(maxsize=1)
def _result(out: str, stamps: tuple[tuple[int, ...], ...]) -> Result:
    """A folder's result: taken in once, for all that is asked of it. Each time anew hours of recording would take
    minutes for every part. stamps: of the run it belongs to; another one's is read anew."""
    return Result.read_only(Path(out))


def _cleaned(frames: ClipFrames, asked: Content) -> Content:
    done = clean(frames.beginning, asked["chosen"], asked["found"], frames.states)
    return {"dirt": plain(done.dirt), "again": as_content(done.again)}


def _found(beginning: Beginning, asked: Content) -> Content:
    states, known = whole(asked["state"], beginning.clip), dict[int, KnownFrame | None].fromkeys(asked["frames"])
    for row, frame in enumerate(asked["known"]):
        known[frame] = KnownFrame(states[[row]], asked["energy"][row], asked["status"][row])
    return as_content(found_better(beginning, known))


def _mended(frames: ClipFrames, asked: Content) -> Content:
    done = mend(frames, Sprung(*(tuple(asked[name]) for name in ("at", "others", "around"))))
    return {
        "better": as_content(done.better),
        "contested": list(done.contested),
        "probability": list(done.contested.values()),
    }


FROM_FRAMES = {"clean": _cleaned, "mend": _mended}
"""What answers a question of each kind that asks for frames of the result."""


def as_content(all_found: list[Tracked]) -> Content:
    """Outcomes of frames that were all found, their numbers stacked: thousands of small arrays would take long."""
    fits = [tracked.fit for tracked in all_found if tracked.fit is not None]
    seen = [tracked.evidence for tracked in all_found if tracked.evidence is not None]
    places = [tracked.projection for tracked in all_found if tracked.projection is not None]
    assert len(fits) == len(seen) == len(places) == len(all_found), "a frame without a midline is nobody's answer"
    if not all_found:
        return {"frames": []}
    fit = Fit.joined(fits, torch.arange(len(fits)))
    return {
        "frames": [tracked.frame for tracked in all_found],
        "status": [tracked.status for tracked in all_found],
        "reason": [tracked.reason for tracked in all_found],
        "state": plain(fit.state),
        "numbers": plain([fit.energy, fit.iterations, torch.stack(places), *fit.terms.values()]),
        "terms": list(fit.terms),
        "evidence": plain(
            Evidence(**{name: torch.cat([getattr(one, name) for one in seen]) for name in vars(seen[0])})
        ),
    }


def all_tracked(content: Content, clip: Clip) -> list[Tracked]:
    """The outcomes that `as_content` took apart."""
    if not content["frames"]:
        return []
    energy, iterations, places, *terms = whole(content["numbers"], clip)
    states, seen = (_rows(whole(content[name], clip)) for name in ("state", "evidence"))
    by_term = [
        dict(zip(content["terms"], row, strict=True)) for row in zip(*(each.split(1) for each in terms), strict=True)
    ]
    fits = zip(states, energy.split(1), by_term, iterations.split(1), strict=True)
    named = zip(content["frames"], content["status"], content["reason"], strict=True)
    return [
        Tracked(*name, Fit(*fit), place, one) for name, fit, place, one in zip(named, fits, places, seen, strict=True)
    ]


def _rows(batch: Record) -> list[Record]:
    """The rows of a record of tensors, a batch of one each: not one by one, as its own index would."""
    parts = zip(*(value.split(1) for value in vars(batch).values()), strict=True)
    return [type(batch)(**dict(zip(vars(batch), row, strict=True))) for row in parts]
