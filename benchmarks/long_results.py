"""Time and memory of all that a long recording needs beside the fitting: results of any length out of a short one.

    midline3d simulate short --frames 40 --source npy --seed 3
    midline3d reconstruct short -o short-out
    python3 benchmarks/long_results.py make short short-out long-10000 10000
    python3 benchmarks/long_results.py measure long-10000 [STAGE ...]

`make` plays the short result's frames forwards and backwards, each moved a little, through the store's own writer: one
frame in 500 is not located, one in 100 is in doubt. The recording and most of the crops are holes on the disk, 9 GB
in all for 440,000 frames. `measure` takes each stage in a process of its own; peaks hold some 300 MB of torch where a
stage needs that. Stages that write do so in a copy that shares its files with what it was made of.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

PATIENCE, MOST = 480.0, 10_000
"""Seconds and MB after which a stage is given up."""
GONE, DOUBTED = 500, 100
"""Every so many frames one is not located, or in doubt."""
REAL = 1200
"""Frames from the first whose crops are not empty."""


def made(short: Path, result: Path, folder: Path, count: int) -> None:
    """A recording and its result of so many frames, as a run would leave them."""
    from midline3d.store import Result

    folder.mkdir(parents=True)
    job = _recording(short, result, folder, count)
    from midline3d.recording import load_recording
    from midline3d.tracking.job import frames_of, header_of

    recording = load_recording(job.recording)
    before = Result.read_only(result)
    records = [before.read(frame) for frame in before.header.frames]
    header = header_of(job, recording, frames_of(job, recording))
    with Result.create(job.out, header) as written:
        _kept(written, before, count)
        took, began = [], time.perf_counter()
        for frame in range(count):
            written.append(frame, _record(records, frame))
            if frame % 1000 == 999:
                took.append(time.perf_counter() - began)
                began = time.perf_counter()
        written.flush()
        written.keep("right", {"done": "made", "segments": written.segments})
        print(f"appending: {took[0]:.3f} ms a frame over the first thousand, {took[-1]:.3f} over the last", flush=True)
        written.consolidate()


def _record(records: list[Any], frame: int) -> Any:
    from midline3d.store import FrameResult

    if frame % GONE == GONE - 1:
        return FrameResult("lost", reason="not located")
    record = records[_place(frame, len(records))]
    away = 0.5 * np.array([np.sin(frame / 900), np.cos(frame / 700), np.sin(frame / 1100)])
    record = replace(record, position=record.position + away, doubt=0.3 if frame % DOUBTED == 0 else record.doubt)
    return replace(record, status="suspect", reason="uncertain") if frame % DOUBTED == 0 else record


def _place(frame: int, length: int) -> int:
    turn = frame % (2 * length - 2)
    return turn if turn < length else 2 * length - 2 - turn


def _recording(short: Path, result: Path, folder: Path, count: int) -> Any:
    """The recording and its crops; the job that would reconstruct it."""
    from midline3d.recording import load_recording
    from midline3d.recording.crops import LOCATIONS, Log
    from midline3d.recording.prepare import _made_of
    from midline3d.settings import Settings
    from midline3d.tracking.job import Job, frames_of

    recording, out = folder / "recording", folder / "out"
    recording.mkdir()
    (out / "crops").mkdir(parents=True)
    for name in ("calibration.json", "recording.toml"):
        shutil.copy(short / name, recording / name)
    for name in ("calibration.json", "body.json"):
        shutil.copy(result / name, out / name)
    for source in short.glob("*.npy"):
        _stretched(source, recording / source.name, count, 10)
    _stretched(result / "crops" / "crops.npy", out / "crops" / "crops.npy", count, min(count, REAL))
    with np.load(result / "crops" / "frames.npz") as kept:
        played = [_place(frame, len(kept["status"])) for frame in range(count)]
        log = {name: kept[name][played] for name in kept.files}
    gone = np.arange(count) % GONE == GONE - 1
    log["status"][gone], log["centre"][gone] = LOCATIONS.index("not located"), np.nan
    assert Log.of_stored(log)
    np.savez(out / "crops" / "frames.npz", **log)
    job = Job(recording, out, Settings())
    opened = load_recording(recording)
    made_of = _made_of(opened, job.settings.locating, frames_of(job, opened))
    manifest = json.loads((result / "crops" / "manifest.json").read_text())
    manifest |= {"fingerprint": hashlib.sha256(json.dumps(made_of).encode()).hexdigest(), "made_of": made_of}
    (out / "crops" / "manifest.json").write_text(json.dumps(manifest))
    return job


def _stretched(source: Path, target: Path, count: int, real: int) -> None:
    """An array of as many frames, the first ones from another, the rest holes."""
    old = np.load(source, mmap_mode="r")
    new = np.lib.format.open_memmap(target, "w+", old.dtype, (count, *old.shape[1:]))
    for frame in range(min(real, count)):
        new[frame] = old[_place(frame, len(old))]


def _kept(written: Any, before: Any, count: int) -> None:
    """What a run keeps beside its frames."""
    from midline3d.settings import Settings
    from midline3d.tracking.spans import spans_of

    spans = spans_of(np.arange(count) % GONE != GONE - 1, Settings().tracking)
    written.keep("beginning", before.kept("beginning"))
    written.keep("spans", {"spans": [[s.own.start, s.own.stop, s.reach.start, s.reach.stop] for s in spans]})
    written.keep("begun-right", {"since": 0})
    firsts = range(0, count, GONE)
    stretches = [[first, min(first + GONE, count) - 1, 0.97 + first // GONE % 2 / 100] for first in firsts]
    written.note(head_stretches=json.dumps(stretches), head_confidence=0.97)


class _NoHands:
    """Fits nothing: what is left is what a run does to find out what is to be put right."""

    def cleaned(self, frames: Any, parts: Any, progress: Any) -> list[Any]:
        import torch

        from midline3d.tracking.cleaning import Cleaned
        from midline3d.tracking.dirt import Dirt

        nothing = torch.zeros(0, 3, 1, 1)
        return [Cleaned(Dirt.of([], np.zeros((0, 3, 2), np.int64), nothing, 0), []) for _ in parts]

    def searched(self, beginning: Any, batches: Any) -> Any:
        return ([] for _ in batches)

    def mended(self, frames: Any, groups: list[Any], progress: Any) -> Any:
        from midline3d.tracking.sprung import Mending

        return [Mending([], {}) for _ in groups]


def _job(folder: Path) -> Any:
    from midline3d.settings import Settings
    from midline3d.tracking.job import Job

    return Job(folder / "recording", folder / "out", Settings())


def _silent(*_: Any) -> None:
    pass


def _done(folder: Path) -> None:
    from midline3d.store import Result

    assert Result.read_only(folder / "out").complete


def _again(folder: Path) -> None:
    from midline3d.tracking.reconstruct import reconstruct

    reconstruct(_job(folder), _silent)


def _left(folder: Path) -> None:
    """A run of which a segment is gone: what it reads to know which clips are to do."""
    from midline3d.tracking.clips import merged_in, planned
    from midline3d.tracking.job import opened

    segments = sorted((folder / "out" / "segments").iterdir())
    segments[len(segments) // 2].unlink()
    with opened(_job(folder), "reconstruct", _silent) as run:
        plan = planned(run)
        assert [index for index in range(len(plan.spans)) if not merged_in(run, plan, index)]


def _clips(folder: Path) -> None:
    """What twenty clips read before they follow anything."""
    from midline3d.store import Result
    from midline3d.tracking import clips

    for _ in range(20):
        assert Result.kept_in(folder / "out", "another") is None
        clips.plan_read_once(_job(folder))


def _parts(folder: Path) -> None:
    """What twenty parts of putting right read before they fit anything."""
    from midline3d.store.kept import packed as written
    from midline3d.tracking.parts import answer
    from midline3d.tracking.tasks import packed

    asked = folder / "asked"
    asked.write_bytes(written({"at": [], "others": [], "around": [0, 2], "dirt": None}))
    newest = sorted(path.name for path in (folder / "out" / "segments").iterdir())[-1]
    for _ in range(20):
        answer("mend", packed(_job(folder)), asked, newest)


def _right(folder: Path) -> None:
    """Putting right, but for all that is fitted there."""
    from midline3d.tracking.clips import planned
    from midline3d.tracking.job import opened
    from midline3d.tracking.repair import put_right

    with opened(_job(folder), "reconstruct", _silent) as run:
        beginning = planned(run).beginning
        votes = {frame: 3.0 for frame in range(0, len(run.prepared), 50) if frame % GONE != GONE - 1}
        put_right(beginning, run.result, _silent, votes, (), _NoHands())


def _together(folder: Path) -> None:
    from midline3d.tracking.clip_frames import ClipFrames
    from midline3d.tracking.clips import planned
    from midline3d.tracking.job import opened
    from midline3d.tracking.judging_together import judged_together

    with opened(_job(folder), "reconstruct", _silent) as run:
        judged_together(ClipFrames(planned(run).beginning, run.result))


def _starts(folder: Path) -> None:
    """Spans, and frames to begin with."""
    import torch

    from midline3d.calibration import load_calibration
    from midline3d.recording import Prepared
    from midline3d.settings import Settings
    from midline3d.tracking.begin import start_pairs
    from midline3d.tracking.clip import Clip
    from midline3d.tracking.second_look import frames_to_search
    from midline3d.tracking.spans import spans_of

    prepared = Prepared(folder / "out" / "crops", load_calibration(folder / "out" / "calibration.json"))
    clip = Clip.of(prepared, Settings(), torch.device("cpu"))
    list(islice(start_pairs(clip), 3))
    spans_of(prepared.log.located, Settings().tracking)
    assert frames_to_search


def _saved(folder: Path) -> None:
    """What is known of every frame, saved twenty times while crops are cut."""
    from midline3d.recording.crops import Begun, Log

    with np.load(folder / "out" / "crops" / "frames.npz") as kept:
        log = Log.of_stored(kept)
    begun = Begun("", 8, 0, log, [np.zeros(8, np.float32)] * 3)
    for _ in range(20):
        begun = begun.further(begun.done + 50, begun.quiet, folder)


def _consolidated(folder: Path) -> None:
    from midline3d.store import Result

    (folder / "out" / "midline.nc").unlink()
    Result.resume(folder / "out").consolidate()


def _opened(folder: Path) -> None:
    from midline3d.store import open_result

    open_result(folder / "out")


def _growing(folder: Path) -> None:
    from midline3d.store import open_result

    (folder / "out" / "midline.nc").unlink()
    open_result(folder / "out")


def _viewed(folder: Path) -> None:
    """The viewer's opening: what it asks first, and a strip of frames."""
    from midline3d.viewer.session import Session

    session = Session(folder / "out")
    for ask in (session.about, session.state, session.words, lambda: session.series("explained")):
        ask()
    session.curves(len(session.frames.header.frames) // 2)
    session.stop()


def _digested(folder: Path) -> None:
    from midline3d.store import StoredFrames
    from midline3d.viewer.digest import Digest

    Digest(StoredFrames(folder / "out")).catch_up()


def _evaluated(folder: Path) -> None:
    from midline3d.evaluate import evaluate_truth

    evaluate_truth(folder / "out", folder / "out" / "midline.nc")


def _command(*words: str) -> Callable[[Path], None]:
    """A command of midline3d's."""

    def run(folder: Path) -> None:
        from midline3d.cli.command import app

        app([word.replace("OUT", str(folder / "out")) for word in words], standalone_mode=False)

    return run


STAGES: dict[str, tuple[Callable[[Path], None], bool]] = {
    "done": (_done, False),
    "nothing left": (_again, True),
    "a segment left": (_left, True),
    "20 clips": (_clips, False),
    "20 parts": (_parts, True),
    "start frames": (_starts, False),
    "20 crop saves": (_saved, True),
    "putting right": (_right, True),
    "judging together": (_together, True),
    "midline.nc": (_consolidated, True),
    "info": (_command("info", "OUT", "--json"), False),
    "open_result": (_opened, False),
    "open_result, growing": (_growing, True),
    "viewer": (_viewed, False),
    "viewer, kymograph": (_digested, False),
    "picture": (_command("picture", "OUT", "--frame", "77"), True),
    "video": (_command("video", "OUT", "--frames", "10:30"), True),
    **{
        to: (_command("export", "OUT", "--to", to), True)
        for to in ("csv", "parquet", "wcon", "anipose", "movement", "mat")
    },
    "nwb": (_command("export", "OUT", "--to", "nwb", "--start", "2025-03-31T14:00:00Z"), True),
    "kinematics": (_command("kinematics", "OUT", "--draws", "0"), True),
    "kinematics, 4 draws": (_command("kinematics", "OUT", "--draws", "4"), True),
    "report": (_command("report", "OUT"), True),
    "evaluate": (_evaluated, False),
}
"""What is measured, and whether it writes."""


def _copied(folder: Path, beside: Path) -> Path:
    """A copy that shares its large files: none of them is ever written to."""
    shutil.copytree(folder / "out", beside / "out", copy_function=os.link)
    (beside / "recording").symlink_to(folder / "recording")
    for name in (".lock", "log.txt"):  # these are written to where they lie
        (beside / "out" / name).unlink(missing_ok=True)
    return beside


def staged(name: str, folder: Path) -> None:
    """One stage, in this process."""
    do, writes = STAGES[name]
    with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
        where = _copied(folder, Path(beside)) if writes else folder
        began = time.perf_counter()
        do(where)
        took = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"stage": name, "seconds": round(took, 2), "MB": round(peak)}), file=sys.stderr)


def measured(folder: Path, names: list[str]) -> None:
    for name in names or STAGES:
        command = [sys.executable, __file__, "stage", str(folder), name]
        work = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        began, peak = time.monotonic(), 0
        while work.poll() is None and time.monotonic() - began < PATIENCE and peak < MOST:
            time.sleep(0.2)
            peak = _resident(work.pid)
        given_up = work.poll() is None
        if given_up:
            work.terminate()
        said = work.communicate()[1].strip().splitlines() or ["nothing said"]
        late = f"{name}: given up after {time.monotonic() - began:.0f} s at {peak} MB"
        print(late if given_up else said[-1], flush=True)


def _resident(process: int) -> int:
    """MB that a process holds."""
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in text.splitlines() if line.startswith("VmRSS")), 0)


if __name__ == "__main__":
    asked, given = sys.argv[1], sys.argv[2:]
    if asked == "make":
        made(*(Path(each).resolve() for each in given[:3]), int(given[3]))
    elif asked == "stage":
        staged(given[1], Path(given[0]).resolve())
    else:
        measured(Path(given[0]).resolve(), given[1:])
