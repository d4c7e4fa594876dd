"""The job: a recording in, a result out; resumed where it was left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from midline3d.reading import number_of
from midline3d.store import Result
from midline3d.tracking.begin import Progress
from midline3d.tracking.clips import (
    Plan,
    all_locked,
    concluded,
    finished,
    groups_of,
    merged_in,
    planned,
    put_together,
    run_here,
)
from midline3d.tracking.job import Job, Run, opened
from midline3d.tracking.parts import SideBySide
from midline3d.tracking.repair import Hands
from midline3d.tracking.spans import how_many
from midline3d.tracking.walk import Walk, walk
from midline3d.tracking.workers import Crew, clips_side_by_side, usual_workers

__all__ = ["Job", "Progress", "reconstruct"]
PUT_RIGHT = 60
"""Frames of a recording for which another process pays, where there is a core for it: making ready takes it as long as
following so many, and is done while the animal is learned; putting right is then shared by all."""


def reconstruct(job: Job, progress: Progress, workers: int | None = None) -> Path:
    """The whole job. Returns the path of midline.nc.

    workers: processes that follow a long recording's clips side by side; without it as many as the machine suits. The
    result is the same whatever their number. On a GPU the clips are slots of one process.
    """
    with opened(job, "reconstruct", progress) as run:
        done, count = len(run.result.done), len(run.prepared)
        run.log.say(f"{done} of {number_of(count, 'frame')} are there, {count - done} to do")
        if finished(run.result):
            return concluded(run)
        needed = _processes(run)
        workers = workers or usual_workers(max(1, needed))
        with Crew.made_ready(workers, needed) as crew:
            plan = planned(run)
            with _timed(run.result):
                if len(plan.spans) == 1:
                    _whole(run, plan)
                elif job.device == "cpu":
                    _side_by_side(run, plan, crew)
                else:
                    _in_slots(run, plan)
            return put_together(run, plan, _hands(run, crew))


def _processes(run: Run) -> int:
    """Processes of which there is need, at most: one for each clip, or for so many frames that are put right; none
    where there is but one clip."""
    clips = how_many(len(run.prepared), run.job.settings.tracking)
    return 0 if clips == 1 else max(clips, len(run.prepared) // PUT_RIGHT)


def _hands(run: Run, crew: Crew) -> Hands | None:
    """Who puts a recording right: the crew, if it is a long one and has several processes."""
    clips = how_many(len(run.prepared), run.job.settings.tracking)
    return SideBySide(run.job, crew) if clips > 1 and crew.workers > 1 else None


@contextmanager
def _timed(result: Result) -> Iterator[None]:
    """Notes how fast frames came, once all of them have."""
    began, done = time.monotonic(), len(result.done)
    yield
    if len(result.done) > done:
        result.note(frames_per_second=(len(result.done) - done) / max(time.monotonic() - began, 1e-9))


def _whole(run: Run, plan: Plan) -> None:
    """A short recording, straight into its result."""
    each = Walk(plan.beginning, range(len(run.prepared)), run.result)
    if run.result.done:
        run.log.say(each.left())
    walk([each], lambda _: run.progress("reconstructing", len(run.result.done), len(run.prepared)))


def _side_by_side(run: Run, plan: Plan, crew: Crew) -> None:
    """A long one's clips in processes, taken over as they are done."""
    missing = [index for index in range(len(plan.spans)) if not merged_in(run, plan, index)]
    at_once = min(crew.workers, len(missing))
    run.log.say(f"{len(missing)} of {len(plan.spans)} clips to do, by {at_once} workers")
    own = [len(span.own) for span in plan.spans]
    done = {index: 0 if index in missing else own[index] for index in range(len(own))}

    def tell(index: int, share: float) -> None:
        done[index] = min(own[index], round(share * own[index]))
        run.progress("reconstructing", sum(done.values()), sum(own))

    with closing(clips_side_by_side(run.job, missing, crew, tell)) as ended:
        for index in ended:
            merged_in(run, plan, index)
            tell(index, 1.0)


def _in_slots(run: Run, plan: Plan) -> None:
    """A long one's clips in slots of one device."""
    total = len(run.prepared)
    done: dict[str, int] = {}

    def step(index: str, so_far: int, count: int) -> None:
        done[index] = so_far
        run.progress("reconstructing", min(total, sum(done.values())), total)

    for group in groups_of(len(plan.spans), run.job.device):
        missing = [index for index in group if not merged_in(run, plan, index)]
        done |= {str(index): len(plan.spans[index].own) for index in group if index not in missing}
        if not missing:
            continue
        with all_locked(run.job, group):
            run_here(plan, run.job, group, step)
        for index in group:
            merged_in(run, plan, index)
