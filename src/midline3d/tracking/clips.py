"""A long recording in three steps that may be different processes on different machines, each safe to repeat.

    plan_clips(job)         prepares the crops, begins, and cuts the recording into spans
    run_clip(job, index)    finds the animal afresh in one span and follows it there
    stitch(job)             puts the spans together, turns round what is the wrong way round, and writes midline.nc

All three meet in the folder of the result, which must be on a file system that every process sees.
"""

from __future__ import annotations

from pathlib import Path

from midline3d.tracking.begin import Progress
from midline3d.tracking.job import Job
from midline3d.tracking.spans import Span


def silent(doing: str, done: int, total: int) -> None:
    """Tells nobody."""


def plan_clips(job: Job, progress: Progress = silent) -> list[Span]:
    """Prepares the crops, learns the animal and cuts the recording into spans; all of it is kept in `job.out`.

    Run again it reads what it kept. `Job.redo` counts here alone: the other two steps go on with what was planned.
    """
    raise NotImplementedError


def run_clip(job: Job, index: int, progress: Progress = silent) -> Path:
    """Follows the animal through span number `index` of the plan, in a folder of its own, which is returned.

    Any number of them may run at once, one process for each index; killed, the same call goes on. One that is done, or
    whose recording is, returns at once.
    """
    raise NotImplementedError


def stitch(job: Job, progress: Progress = silent) -> Path:
    """Puts the clips together in `job.out` and returns the path of midline.nc.

    What clips are complete is taken over even where others are not; those are then named by an `InputError`.
    """
    raise NotImplementedError
