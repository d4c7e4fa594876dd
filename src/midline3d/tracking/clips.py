"""A long recording in three steps that may be different processes on different machines, each safe to repeat.

    plan_clips(job)         prepares the crops, begins, and cuts the recording into spans
    run_clip(job, index)    finds the animal afresh in one span and follows it there
    stitch(job)             puts the spans together, turns round what is the wrong way round, and writes midline.nc

All three meet in the folder of the result, which must be on a file system that every process sees.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from midline3d.appearance import KNOTS
from midline3d.calibration import save_calibration
from midline3d.errors import InputError
from midline3d.files import aside, demand, write_whole
from midline3d.recording import Prepared, load_recording
from midline3d.store import Header, Result, RunLog, info, locked, ranges
from midline3d.tracking.begin import Beginning, Progress, begin
from midline3d.tracking.checkpoint import BEGINNING, begun, kept_beginning, on_cpu
from midline3d.tracking.clip import Clip
from midline3d.tracking.clip_frames import ClipFrames
from midline3d.tracking.correcting import fit_again
from midline3d.tracking.finding import found_afresh
from midline3d.tracking.job import Job, Run, frames_of, header_of, opened
from midline3d.tracking.repair import HEADS, Hands, Votes, head_votes, put_right
from midline3d.tracking.spans import Span, spans_of
from midline3d.tracking.walk import Walk, walk

CLIPS = "clips"
"""Folder of the clips in a result, each a result of its own; gone once they are put together."""
SPANS, VOTES, BEGUN_RIGHT, RIGHT = "spans", "votes", "begun-right", "right"
"""Names under which a run keeps its spans, a clip its votes (see `heads`), a run that it has begun to put all right,
and that all has been put right."""
PATIENCE = 10.0
"""Seconds that a clip waits for the process that held it before: where that was killed it may take a moment to end."""
AT_ONCE = 128
"""Clips that one GPU follows side by side, two slots each."""


def silent(doing: str, done: int, total: int) -> None:
    """Tells nobody."""


def plan_clips(job: Job, progress: Progress = silent) -> list[Span]:
    """Prepares the crops, learns the animal and cuts the recording into spans; all of it is kept in `job.out`.

    Run again it reads what it kept. `Job.redo` counts here alone: the other two steps go on with what was planned.
    """
    with opened(job, "plan", progress) as run:
        return planned(run).spans


def run_clip(job: Job, index: int, progress: Progress = silent) -> Path:
    """Follows the animal through span number `index` of the plan, in a folder of its own, which is returned.

    Any number of them may run at once, one process for each index; killed, the same call goes on. One that is done, or
    whose recording is, returns at once.
    """
    folder = clip_folder(job, index)
    if Result.kept_in(job.out, RIGHT) is not None:
        return folder
    plan = plan_read_once(job)
    if not 0 <= index < len(plan.spans):
        raise InputError(f"there is no clip {index}: {job.out} was planned as clips 0 to {len(plan.spans) - 1}")
    with locked(folder, PATIENCE), RunLog(folder).run(f"clip {index} of {job.recording}") as log:
        watched = log.watched(progress)
        run_here(plan, job, [index], lambda _, done, total: watched("reconstructing", done, total))
    return folder


def run_group(job: Job, number: int, progress: Progress = silent) -> None:
    """Follows the animal through a group of spans (see `groups_of`) in this process, on a GPU side by side.

    Otherwise as `run_clip`, but that clips which another process holds are not waited for.
    """
    if Result.kept_in(job.out, RIGHT) is not None:
        return
    plan, done = read_plan(job), dict[str, int]()
    groups = groups_of(len(plan.spans), job.device)
    if not 0 <= number < len(groups):
        raise InputError(f"there is no group {number}: {job.out} was planned as groups 0 to {len(groups) - 1}")
    total = sum(len(plan.spans[index].reach) for index in groups[number])

    def step(index: str, so_far: int, _: int) -> None:
        done[index] = so_far
        progress("reconstructing", sum(done.values()), total)

    with all_locked(job, groups[number]):
        run_here(plan, job, groups[number], step)


def groups_of(count: int, device: str) -> list[list[int]]:
    """The clips of a recording as they run together: one by one on the CPU, many in the slots of a GPU.

    Always the same ones: other batches round otherwise.
    """
    size = 1 if device == "cpu" else AT_ONCE
    return [list(range(first, min(first + size, count))) for first in range(0, count, size)]


def stitch(job: Job, progress: Progress = silent) -> Path:
    """Puts the clips together in `job.out` and returns the path of midline.nc.

    What clips are complete is taken over even where others are not; those are then named by an `InputError`.
    """
    read_plan(job)
    with opened(replace(job, redo=False), "stitch", progress) as run:
        if finished(run.result):
            return concluded(run)
        plan = planned(run)
        missing = [index for index in range(len(plan.spans)) if not merged_in(run, plan, index)]
        if missing:
            run.result.flush()
            raise InputError(
                f"{job.out}: of clips 0 to {len(plan.spans) - 1} these are not complete: {ranges(missing)}; "
                "run those, then stitch"
            )
        return put_together(run, plan)


@dataclass(frozen=True)
class Plan:
    """What all clips of a recording share."""

    beginning: Beginning
    spans: list[Span]
    header: Header
    """Of the whole."""
    run: str
    """Which run of the whole it is (see `Result.run`)."""

    def header_of(self, index: int) -> Header:
        """What a clip's own result is."""
        start = self.beginning.clip.prepared.start
        frames = tuple(start + frame for frame in self.spans[index].reach)
        return replace(self.header, frames=frames, inputs={**self.header.inputs, "run": self.run})


def clip_folder(job: Job, index: int) -> Path:
    """Where a clip has its own result until it is part of the whole."""
    return job.out / CLIPS / f"{index:04d}"


def finished(result: Result) -> bool:
    """Whether all frames are there, and put right, and nothing of that has gone bad since."""
    right = result.kept(RIGHT)
    return right is not None and result.complete and set(right.get("segments", ())) <= set(result.segments)


def _taken_back(result: Result) -> None:
    """The result as it was before it was put right, where that was not brought to its end, or has gone bad since."""
    begun_right = result.kept(BEGUN_RIGHT)
    if begun_right is not None:
        result.back_to(begun_right["since"])
    result.forget(RIGHT, BEGUN_RIGHT)
    if not result.complete:
        result.forget(HEADS)


def planned(run: Run) -> Plan:
    """How the recording begins and where it is cut: read where it is known, else found out and kept."""
    job, result = run.job, run.result
    if not finished(result):
        _taken_back(result)
    clip = Clip.of(run.prepared, job.settings, torch.device(job.device))
    demand(job.out, result.needed, "the midlines")
    generator = torch.Generator().manual_seed(job.seed)
    beginning, known = begun(result, clip, lambda: begin(clip, generator, run.progress))
    if known:
        run.log.say("resumed with the animal as it was learned")
    if result.kept(HEADS) is None:
        result.note(head_confidence=float(torch.tensor(beginning.head_odds).sigmoid()))
    if beginning.length_std is not None:
        result.note(length_std=float(beginning.length_std))
    _keep_body(job.out, beginning, result.needed)
    # Beside the result, so that it can be drawn, looked at and corrected where the recording is not at hand.
    with aside(job.out / "calibration.json", result.needed) as part:
        save_calibration(run.recording.calibration.with_cameras(beginning.clip.cameras), part)
    spans = _kept_spans(result.kept(SPANS))
    if spans is None:
        spans = spans_of(clip.prepared.log.located, job.settings.tracking)
        content = [[each.own.start, each.own.stop, each.reach.start, each.reach.stop] for each in spans]
        result.keep(SPANS, {"spans": content})
    return Plan(beginning, spans, result.header, result.run)


def read_plan(job: Job, device: torch.device | None = None) -> Plan:
    """What `plan_clips` kept, nothing written; for another device than the job's where one is given."""
    recording = load_recording(job.recording, shortest=job.shortest)
    header = header_of(job, recording, frames_of(job, recording))
    spans = _kept_spans(Result.kept_in(job.out, SPANS))
    if spans is None:
        raise InputError(f"{job.out} holds no plan yet: plan the clips first, then run them, then stitch")
    Result.check(job.out, header)
    crops = Prepared(job.out / "crops", recording.calibration)
    clip = Clip.of(crops, job.settings, device or torch.device(job.device))
    beginning = kept_beginning(Result.kept_in(job.out, BEGINNING), clip)
    if beginning is None:
        raise InputError(f"{job.out}: how the run began is damaged or gone; plan the clips again, which begins anew")
    return Plan(beginning, spans, header, Result.run_in(job.out))


_last_read: list[tuple[object, Plan]] = []
"""The plan that was read last, with what it was read from."""


def plan_read_once(job: Job, device: torch.device | None = None) -> Plan:
    """`read_plan` for a process that is given one task of a recording after the other: it stays the same, and of a long
    one it takes a second to read."""
    device = device or torch.device(job.device)
    source = (job, device, Result.stamps(job.out, SPANS, BEGINNING))
    for known, plan in _last_read.copy():  # other threads may replace it
        if known == source:
            return plan
    plan = read_plan(job, device)
    _last_read[:] = [(source, plan)]
    return plan


def run_here(plan: Plan, job: Job, indices: list[int], step: Progress) -> None:
    """Clips in this process, side by side where the device suits that. Their folders must be locked.

    step: called with the clip's number as text, how many of its frames are done, and how many there are.
    """
    with ExitStack() as stack:
        results = [stack.enter_context(_clip_result(plan, job, index)) for index in indices]
        beginnings = _beginnings(plan, job, indices, results)
        walks = [
            Walk(beginning, plan.spans[index].reach, result)
            for index, beginning, result in zip(indices, beginnings, results, strict=True)
        ]
        walk(walks, lambda n: step(str(indices[n]), len(results[n].done), len(walks[n].frames)))
        for index, each in zip(indices, walks, strict=True):
            if each.result.kept(VOTES) is None:
                frames = ClipFrames(plan.beginning, each.result)
                votes = head_votes(frames, frames.links(plan.spans[index].own))
                each.result.keep(VOTES, {"frames": list(votes), "votes": list(votes.values())})


def _clip_result(plan: Plan, job: Job, index: int) -> Result:
    """A clip's own result, begun or gone on with; what another run has left in its folder is replaced."""
    folder, header = clip_folder(job, index), plan.header_of(index)
    try:
        Result.check(folder, header)
    except InputError:
        return Result.start(folder, header, redo=True)
    return Result.start(folder, header)


def _beginnings(plan: Plan, job: Job, indices: list[int], results: list[Result]) -> list[Beginning]:
    """Where the clips begin: as they did before, or with the recording, else wherever the animal is found."""
    bare = Clip.of(plan.beginning.clip.prepared, job.settings, plan.beginning.clip.device)
    known = [kept_beginning(result.kept(BEGINNING), bare) for result in results]
    first, located = plan.beginning.frame, plan.beginning.clip.located
    spans = {index: [frame for frame in plan.spans[index].own if located(frame)] for index in indices}
    fresh = [
        index
        for index, before in zip(indices, known, strict=True)
        if before is None and spans[index] and first not in plan.spans[index].own
    ]
    generator = torch.Generator().manual_seed(_seed(job.seed, fresh[0]) if fresh else 0)
    afresh = found_afresh(on_cpu(plan.beginning), [spans[index] for index in fresh], generator)
    found = {
        index: replace(plan.beginning, frame=one.frame, state=one.state.to(bare.device))
        for index, one in zip(fresh, afresh, strict=True)
    }
    chosen = [before or found.get(index, plan.beginning) for index, before in zip(indices, known, strict=True)]
    return [begun(result, bare, partial(_same, now))[0] for result, now in zip(results, chosen, strict=True)]


def _same(beginning: Beginning) -> Beginning:
    return beginning


def _seed(seed: int, index: int) -> int:
    """Of a clip's random numbers: the same wherever it runs."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1, np.uint64)[0] >> 1)


def merged_in(run: Run, plan: Plan, index: int) -> bool:
    """Takes over the frames of a clip; False where it is not complete."""
    own = [run.prepared.start + frame for frame in plan.spans[index].own]
    if all(frame in run.result.done for frame in own):
        return True
    part = _complete(run.job, plan, index)
    if part is None:
        return False
    for frame in own:
        record = None if frame in run.result.done else part.read(frame)
        if record is not None:
            run.result.append(frame, record)
    return all(frame in run.result.done for frame in own)


def _complete(job: Job, plan: Plan, index: int) -> Result | None:
    """A clip's result, if it is of this run and complete; it is not written to."""
    folder = clip_folder(job, index)
    try:
        if Result.kept_in(folder, VOTES) is None:
            return None
        Result.check(folder, plan.header_of(index))
        part = Result.read_only(folder)
    except InputError:
        return None
    return part if part.complete else None


def put_together(run: Run, plan: Plan, hands: Hands | None = None) -> Path:
    """All that is left to do once every frame is there; by this process alone, or by more `hands`.

    On the CPU, wherever the animal was followed: most of it is one frame after the other.
    """
    votes, seams = _clip_votes(run, plan) if len(plan.spans) > 1 else (None, ())
    run.result.keep(BEGUN_RIGHT, {"since": run.result.last})
    done = put_right(on_cpu(plan.beginning), run.result, run.progress, votes, seams, hands)
    run.result.keep(RIGHT, {"done": done, "segments": run.result.segments})
    run.log.say(done)
    return concluded(run)


def concluded(run: Run) -> Path:
    """Writes midline.nc, and how it went into the log; the clips are gone then."""
    path = run.result.consolidate()
    shutil.rmtree(run.job.out / CLIPS, ignore_errors=True)
    again = fit_again(run.job.out)
    if again:
        run.log.say(f"{again} corrections of an earlier run were fitted again to their pins")
    about = info(run.job.out)
    for line in (about.summary(), about.warning()):
        if line:
            run.log.say(line)
    return path


def _clip_votes(run: Run, plan: Plan) -> tuple[Votes | None, tuple[int, ...]]:
    """The clips' votes, and the first frames of those that do not meet the one before; none where a clip is gone."""
    votes, seams, before = Votes(), list[int](), None
    for index, span in enumerate(plan.spans):
        part = _complete(run.job, plan, index)
        if part is None:
            return None, tuple(each.own.start for each in plan.spans[1:])
        kept = part.kept(VOTES) or {}
        votes |= dict(zip(kept["frames"], kept["votes"], strict=True))
        now = ClipFrames(plan.beginning, part)
        if before is not None and not _meet(before, now, span.own.start, plan.beginning):
            seams.append(span.own.start)
        before = now
    return votes, tuple(seams)


def _meet(one: ClipFrames, other: ClipFrames, seam: int, beginning: Beginning) -> bool:
    """Whether two clips have found the same, either way round, in one of the frames next to a seam that both have."""
    length, both = float(beginning.body.length), 0
    for frame in (seam - 1, seam):
        records = [each.read(frame) for each in (one, other)]
        if any(record is None or record.position is None for record in records):
            continue
        here, there = (record.position for record in records if record is not None)
        assert here is not None and there is not None
        both += 1
        away = min(np.linalg.norm(here - each, axis=-1).mean() for each in (there, there[::-1]))
        if away <= beginning.clip.settings.repair.meeting * length:
            return True
    return not both


def _kept_spans(content: dict[str, list[list[int]]] | None) -> list[Span] | None:
    if content is None:
        return None
    return [Span(range(own, end), range(first, last)) for own, end, first, last in content["spans"]]


def _keep_body(out: Path, beginning: Beginning, needed: int) -> None:
    """What was learned of the animal, in body.json: with it a frame is rendered anew from its own numbers."""
    clip = beginning.clip
    content = {
        "knots": KNOTS,
        "numbers": beginning.body.numbers().tolist(),
        "length_mm": float(beginning.body.length),
        "length_std_mm": beginning.length_std,
        "unsure": beginning.body.unsure,
        "head_odds": beginning.head_odds,
        "brightness": clip.brightness.tolist(),
        "error": clip.error.tolist(),
        "veil": None if clip.veil is None else clip.veil.as_json(),
        "shift_basis": clip.cameras.shift_basis.tolist(),
    }
    write_whole(out / "body.json", json.dumps(content).encode() + b"\n", needed)


@contextmanager
def all_locked(job: Job, indices: list[int]) -> Iterator[None]:
    """Holds the folders of several clips."""
    with ExitStack() as stack:
        for index in indices:
            stack.enter_context(locked(clip_folder(job, index)))
        yield
