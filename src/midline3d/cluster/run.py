"""Recordings as tasks of a scheduler: planned, followed clip by clip and stitched by whichever worker is free."""

from __future__ import annotations

import queue
import time
import uuid
import warnings
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from midline3d.cluster.place import GPU, Place, connected, has_gpus
from midline3d.errors import InputError
from midline3d.files import guarded
from midline3d.recording import load_recording
from midline3d.tracking.begin import Progress
from midline3d.tracking.job import Job, frames_of, keep_apart
from midline3d.tracking.several import Outcome
from midline3d.tracking.steps import Step
from midline3d.tracking.tasks import packed

if TYPE_CHECKING:
    from distributed import Client, Future

TRIES = 3
"""Times that a step is given which ends in a fault of the program's own, or with its process: file systems of many
machines have their moments."""
KILLS = 100
"""The same, where workers are killed over it: see `place.ALLOWED`, which a scheduler may refuse."""
PRIORITY = {"plan": 0, "clip": 1, "stitch": 2}
"""What is nearest to its end goes first, so that results come one by one."""
GONE = "the scheduler is gone; start it and its workers again, and the same command goes on where this one stopped"
GLANCE = 1.0
"""Seconds between two looks at how many workers there are."""


def reconstruct_on_cluster(
    jobs: dict[str, Job], place: Place, progress: Progress, device: str = "auto"
) -> list[Outcome]:
    """All recordings, in the order given; one that fails leaves the others alone. Given again it goes on.

    jobs: by name; recordings and outputs on a file system that all workers share.
    device: cpu; cuda, for workers that have a GPU; or auto, cuda where a worker has one.
    """
    recordings = [_looked_at(name, job) for name, job in jobs.items()]
    if any(recording.outcome is None for recording in recordings):
        with connected(place, device) as client:
            Course(client, recordings, _device(client, device, progress), progress).run()
    return [recording.outcome for recording in recordings if recording.outcome is not None]


@dataclass
class _Recording:
    """How far one has come."""

    name: str
    job: Job
    frames: int
    """All of them; 0 where that is not known."""
    done: int = 0
    """Frames of clips that are done."""
    clips: dict[int, int] = field(default_factory=dict)
    """The clip tasks that are not done yet, and how many frames they have."""
    began: float = field(default_factory=time.monotonic)
    fault: str | None = None
    own: bool = False
    outcome: Outcome | None = None

    def blame(self, fault: str, own: bool) -> None:
        """The first fault is the reason of those that follow."""
        if self.fault is None:
            self.fault, self.own = fault, own

    def end(self) -> None:
        spent = time.monotonic() - self.began
        self.outcome = Outcome(self.name, self.job.out, spent, self.fault, self.own)


@dataclass(frozen=True)
class _Given:
    """A step in the scheduler's hands."""

    recording: _Recording
    step: Step
    attempt: int = 1
    faults: int = 0
    """Attempts that ended with a fault, or with the process, rather than with the worker."""

    def blamed(self) -> _Given:
        """Once more, after a fault."""
        return replace(self, attempt=self.attempt + 1, faults=self.faults + 1)


class Course:
    """The way of all recordings through one scheduler."""

    def __init__(self, client: Client, recordings: list[_Recording], device: str, progress: Progress) -> None:
        self._client, self._recordings, self._device, self._progress = client, recordings, device, progress
        self._name = f"midline3d-{uuid.uuid4().hex[:12]}"
        self._given: dict[Any, tuple[_Given, Future]] = {}
        self._over: queue.Queue[Future] = queue.Queue()

    def run(self) -> None:
        """Until every recording has its outcome. Left early, by Ctrl-C say, it takes its tasks back."""
        from midline3d.cluster.crew import Crew

        self._client.register_plugin(Crew(self._name))
        try:
            for recording in self._recordings:
                if recording.outcome is None:
                    self._give(_Given(recording, Step("plan")))
            while self._given:
                self._tell()
                with suppress(queue.Empty):
                    self._taken(self._over.get(timeout=GLANCE))
        except CancelledError as fault:  # dask's word for tasks that are lost with their scheduler
            raise InputError(GONE) from fault
        finally:
            self._leave()

    def _leave(self) -> None:
        """Takes back what is not done, and ends the processes; not at any price, for the scheduler may be gone."""
        with suppress(Exception):
            if self._given:
                self._client.cancel([future for _, future in self._given.values()], force=True)
            self._client.unregister_worker_plugin(self._name)

    def _give(self, given: _Given) -> None:
        from midline3d.cluster.crew import work

        step = given.step
        job = replace(given.recording.job, device=self._device)
        key = f"{self._name}-{given.recording.name}-{step.name}-{step.number}-{given.attempt}"
        future = self._client.submit(
            work,
            self._name,
            {"job": packed(job), "step": step.name, "number": step.number},
            key=key,
            priority=PRIORITY[step.name],
            resources=GPU if self._device != "cpu" else None,
        )
        self._given[key] = given, future
        future.add_done_callback(self._over.put)

    def _taken(self, future: Future) -> None:
        """What follows from the end of a step."""
        given, _ = self._given.pop(future.key)
        answer = self._answer(given, future)
        if answer is None:
            return
        for warning in answer.get("warnings", ()):
            warnings.warn(f"{given.recording.name}: {warning}", stacklevel=2)
        if "fault" in answer and answer["own"] and given.faults < TRIES - 1:
            self._give(given.blamed())
            return
        if "fault" in answer:
            given.recording.blame(answer["fault"], answer["own"])
        self._follow(given, answer.get("ended") or [])

    def _answer(self, given: _Given, future: Future) -> dict[str, Any] | None:
        """The last word of a step; None where it is given once more, because it came to no end."""
        from distributed.scheduler import KilledWorker

        from midline3d.cluster.crew import EndedError

        try:
            answer: dict[str, Any] = future.result()
            return answer
        except CancelledError:
            raise
        except KilledWorker as fault:
            if given.attempt < KILLS:
                self._give(replace(given, attempt=given.attempt + 1))
                return None
            return {"fault": f"workers die over it ({' '.join(str(fault).split())})", "own": False}
        except EndedError as fault:
            if given.faults < TRIES - 1:
                self._give(given.blamed())
                return None
            ended = f"its process was ended by the system {TRIES} times ({fault}), as happens where memory runs out; "
            return {"fault": ended + "give workers fewer threads, and the same command again", "own": False}
        except Exception as fault:
            return {"fault": f"{type(fault).__name__}: {' '.join(str(fault).split())}", "own": True}

    def _follow(self, given: _Given, planned: list[int]) -> None:
        """The next steps of a recording. Clips that fail leave the others to be done and put together."""
        recording, step = given.recording, given.step
        if step.name == "clip":
            recording.done += recording.clips.pop(step.number)
        elif step.name == "plan" and recording.fault is None:
            recording.clips = dict(enumerate(planned))
            for number in recording.clips:
                self._give(_Given(recording, Step("clip", number)))
        elif step.name == "stitch" or recording.fault is not None:
            recording.done = recording.frames
            recording.end()
            return
        if not recording.clips:
            self._give(_Given(recording, Step("stitch")))

    def _tell(self) -> None:
        """The one line."""
        try:
            workers = len(self._client.nthreads()) if self._client.status == "running" else None
            fit = workers and (self._device == "cpu" or has_gpus(self._client))
        except OSError:
            workers = None
        if workers is None:
            raise InputError(GONE)
        if not workers:
            _waiting(self._client, self._progress)
        elif not fit:
            _waiting(self._client, self._progress, "workers with a GPU (--resources GPU=1)")
        else:
            ended = sum(recording.outcome is not None for recording in self._recordings)
            doing = f"{ended} of {len(self._recordings)} recordings done, {workers} workers"
            # A recording's last frame counts once its clips are put together, which takes a while.
            done = sum(each.done - (each.done == each.frames > 0 and each.outcome is None) for each in self._recordings)
            self._progress(doing, done, sum(each.frames for each in self._recordings))


def _looked_at(name: str, job: Job) -> _Recording:
    """A recording before its first step; its folder is made, so that workers can see whether they see it.

    Workers have working folders of their own: all paths are whole.
    """
    crops = None if job.crops is None else job.crops.absolute()
    job = replace(job, recording=job.recording.absolute(), out=job.out.absolute(), crops=crops)
    try:
        frames = len(frames_of(job, load_recording(job.recording, shortest=job.shortest)))
        keep_apart(job)
        with guarded(job.out):
            job.out.mkdir(parents=True, exist_ok=True)
    except InputError as fault:
        found = _Recording(name, job, 0)
        found.blame(str(fault), own=False)
        found.end()
        return found
    return _Recording(name, job, frames)


def _device(client: Client, device: str, progress: Progress) -> str:
    """The device that tasks are for; where the workers are to decide, the first ones do."""
    while device == "auto":
        if client.nthreads():
            return "cuda" if has_gpus(client) else "cpu"
        _waiting(client, progress)
        time.sleep(GLANCE)
    return device


def _waiting(client: Client, progress: Progress, kind: str = "workers") -> None:
    address = client.scheduler.address if client.scheduler is not None else "the scheduler"
    progress(f"waiting for {kind} at {address}", 0, 0)
