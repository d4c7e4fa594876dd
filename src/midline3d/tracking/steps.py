"""The three steps of a long recording (see `clips`) as tasks that many machines share: named, counted, patient."""

from __future__ import annotations

import time
from dataclasses import dataclass

from midline3d.recording import load_recording
from midline3d.store import HeldError, Result
from midline3d.tracking.begin import Progress
from midline3d.tracking.clips import RIGHT, groups_of, plan_clips, run_clip, run_group, stitch
from midline3d.tracking.job import Job, frames_of
from midline3d.tracking.spans import how_many

PATIENCE = 150.0
"""Seconds that a step waits for the process that had it before. One whose machine broke down holds its locks on a
shared file system for another 90 s."""


@dataclass(frozen=True)
class Step:
    """A task of a recording."""

    name: str
    """plan, clip or stitch."""
    number: int = 0
    """Of a clip, or of a group of them where they run in slots of a GPU (see `groups_of`)."""


def clip_tasks(job: Job) -> int:
    """How many tasks of the name `clip` a recording has, known before its plan."""
    frames = frames_of(job, load_recording(job.recording, shortest=job.shortest))
    return len(groups_of(how_many(len(frames), job.settings.tracking), job.device))


def patiently(step: Step, job: Job, progress: Progress) -> list[int]:
    """Does a step; where another process is at it, once that has ended. Answers as `do`."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return do(step, job, progress)
        except HeldError:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)


def do(step: Step, job: Job, progress: Progress) -> list[int]:
    """Does a step. The plan's answer is how many frames each of the clip tasks has that are now to be done."""
    if step.name == "plan":
        spans = plan_clips(job, progress)
        if Result.kept_in(job.out, RIGHT) is not None:
            return []
        return [sum(len(spans[index].own) for index in group) for group in groups_of(len(spans), job.device)]
    if step.name == "stitch":
        stitch(job, progress)
    elif job.device == "cpu":
        run_clip(job, step.number, progress)
    else:
        run_group(job, step.number, progress)
    return []
