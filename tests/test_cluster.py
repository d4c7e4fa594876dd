"""Recordings on several workers: killed ones, failing recordings, the same values as on one machine."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import killing
import pytest

from midline3d import Job, open_result
from midline3d.cluster.place import Place
from midline3d.cluster.run import reconstruct_on_cluster
from midline3d.errors import InputError
from midline3d.settings import dump_settings
from midline3d.store import info
from midline3d.tracking.clips import groups_of, plan_clips
from midline3d.tracking.reconstruct import reconstruct

distributed = pytest.importorskip("distributed", reason='needs dask: pip install "midline3d[cluster]"')
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

from killing_workers import Killer, environment, pids, settings, started  # noqa: E402

from midline3d.cluster.crew import Crew, EndedError  # noqa: E402

RUN, CLIPS = import_module("midline3d.cluster.run"), import_module("midline3d.tracking.clips")
ALONE = import_module("midline3d.tracking.reconstruct")
SPANS = 3


def quiet(doing: str, done: int, total: int) -> None:
    pass


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn") / "worm"
    killing.simulated(folder)
    return folder


@pytest.fixture(scope="module")
def planned(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("planned") / "out"
    assert len(plan_clips(Job(recording, out, settings(10)))) == SPANS
    return out


@pytest.fixture(scope="module")
def alone(recording: Path, planned: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one machine makes of it."""
    out = Path(shutil.copytree(planned, tmp_path_factory.mktemp("alone") / "out"))
    reconstruct(Job(recording, out, settings(10)), quiet, 1)
    return out


@pytest.fixture
def out(planned: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(planned, tmp_path / "out"))


def children(process: int) -> list[int]:
    """Processes that a process has started."""
    found = Path(f"/proc/{process}/task/{process}/children")
    return [int(number) for number in found.read_text().split()] if found.exists() else []


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scheduler that somebody has started, with two workers."""
    with started(tmp_path_factory.mktemp("dask"), workers=2) as file:
        yield file


def workers_of(scheduler: str) -> list[int]:
    """Process numbers of the workers that there are."""
    with distributed.Client(scheduler_file=scheduler, set_as_default=False) as client:
        return pids(client)


def test_killed_workers_do_not_stop_a_run(recording: Path, alone: Path, out: Path, scheduler: str) -> None:
    """More of them than dask forgives; tasks go on from their segments, and values are those of one machine."""
    before = workers_of(scheduler)
    seen: dict[Path, int] = {}
    again: list[Path] = []

    def look(*_: object) -> None:
        for path in out.glob("clips/*/segments/*.npz"):
            with suppress(FileNotFoundError):  # clips are stitched, and gone, meanwhile
                if seen.setdefault(path, path.stat().st_ino) != path.stat().st_ino:
                    again.append(path)

    with Killer(scheduler, every=2.5, most=4) as killer:
        [outcome] = reconstruct_on_cluster({"worm": Job(recording, out, settings(10))}, Place(scheduler), look, "cpu")
    assert outcome.fault is None and set(killer.killed) & set(before)
    assert seen and not again, "a segment is written once"
    assert killing.differences(alone, out) == {}
    assert info(out).state == "complete" and not (out / "clips").exists()


def command(recordings: list[Path], out: Path, tmp_path: Path, *more: str) -> list[str]:
    chosen = tmp_path / "quick.toml"
    chosen.write_text(dump_settings(settings(10)))
    run = [sys.executable, "-m", "midline3d", "cluster", *map(str, recordings), "-o", str(out), *more]
    return [*run, "--settings", str(chosen), "--device", "cpu"]


@pytest.mark.long
def test_interrupted_and_given_again(
    recording: Path, alone: Path, planned: Path, tmp_path: Path, scheduler: str
) -> None:
    """Ctrl-C takes tasks back half-way, and the same command goes on there. Recordings that fail have their rows."""
    out = Path(shutil.copytree(planned, tmp_path / "out" / "worm"))
    broken = Path(shutil.copytree(recording, tmp_path / "broken"))
    (broken / "calibration.json").write_text("{}")
    shutil.copytree(planned, tmp_path / "out" / "foreign")
    foreign = Path(shutil.copytree(recording, tmp_path / "foreign"))
    (foreign / "recording.toml").write_text((recording / "recording.toml").read_text().replace("25.0", "24.0"))
    all_of_them = [tmp_path / "nowhere", broken, recording, foreign]
    given = command(all_of_them, tmp_path / "out", tmp_path, "--scheduler", scheduler, "--json")
    with subprocess.Popen(given, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()) as run:
        while not list(out.glob("clips/*/segments/*.npz")):
            assert run.poll() is None, "over before it began"
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        said, complaint = run.communicate(timeout=120)
    assert run.returncode == 130 and said == "" and "Traceback" not in complaint
    assert complaint.splitlines()[-1] == "midline3d: interrupted: the same command continues where this one stopped"
    until = time.monotonic() + 60
    while any(children(worker) for worker in workers_of(scheduler)):
        assert time.monotonic() < until, "processes that nobody waits for have ended"
        time.sleep(0.2)
    again = subprocess.run(given, capture_output=True, text=True, check=False, env=environment())
    assert again.returncode == 2, again.stderr
    rows = {row["name"]: row for row in json.loads(again.stdout)["recordings"]}
    assert list(rows) == ["nowhere", "broken", "worm", "foreign"], "in the order given"
    assert "there is no such file" in rows["nowhere"]["fault"] and "calibration.json" in rows["broken"]["fault"]
    assert "--redo" in rows["foreign"]["fault"] and rows["worm"]["frames"] == killing.FRAMES
    assert killing.differences(alone, out) == {}


def test_a_clip_that_fails_leaves_the_others_to_be_done(recording: Path, out: Path, scheduler: str) -> None:
    (out / "clips").mkdir()
    (out / "clips" / "0001").write_text("a file")
    reported: list[tuple[str, int, int]] = []
    jobs = {"worm": Job(recording, out, settings(10))}
    [outcome] = reconstruct_on_cluster(jobs, Place(scheduler), lambda *what: reported.append(what), "cpu")
    assert outcome.fault is not None and "is a file, or lies in one" in outcome.fault and not outcome.own
    found = open_result(out)
    pending = found.frame.values[found.status.values == "pending"].tolist()
    assert 0 < len(pending) < killing.FRAMES and info(out).state == "growing", "the others are taken over"
    assert {doing for doing, _, _ in reported} == {"0 of 1 recordings done, 2 workers"}
    assert max(done for _, done, _ in reported) < killing.FRAMES, "the last frame is done when the recording is"


@pytest.mark.long
def test_groups_of_clips_find_the_same(
    recording: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is one task on a GPU, but here: two clips in one, one in the other, as `reconstruct` runs them there."""
    whole = Path(shutil.copytree(out, tmp_path / "whole"))
    for module in (CLIPS, ALONE):
        monkeypatch.setattr(module, "groups_of", lambda count, device: [[0, 1], [2]])
    monkeypatch.setattr(ALONE, "_side_by_side", lambda run, plan, workers: ALONE._in_slots(run, plan))
    reconstruct(Job(recording, whole, settings(10)), quiet)
    job = Job(recording, out, settings(10))
    reported: list[tuple[int, int]] = []
    for number in (1, 0):
        CLIPS.run_group(job, number, lambda _, done, total: reported.append((done, total)))
    assert reported[-1][0] == reported[-1][1] > reported[0][1], "both clips of the group, to their ends"
    with pytest.raises(InputError, match=r"there is no group 2: .* groups 0 to 1"):
        CLIPS.run_group(job, 2)
    CLIPS.stitch(job)
    assert killing.differences(whole, out) == {}
    assert groups_of(300, "cpu")[-1] == [299] and [len(each) for each in groups_of(300, "cuda")] == [128, 128, 44]


@pytest.mark.long
def test_workers_of_this_machine(recording: Path, tmp_path: Path) -> None:
    """Without a scheduler, by the command; a short recording, whole, from its plan on."""
    given = command([recording], tmp_path / "out", tmp_path, "--workers", "1", "--frames", "9:21")
    run = subprocess.run(given, capture_output=True, text=True, check=False, env=environment())
    assert run.returncode == 0, run.stderr
    assert "1 recordings" in run.stdout and "12" in run.stdout and "distributed" not in run.stderr
    whole = tmp_path / "alone"
    reconstruct(Job(recording, whole, settings(10), frames=(9, 21)), quiet)
    # The worm was located twice, on other numbers of cores: its place is the same but for a number's last digit.
    assert all(by < 1e-12 for by in killing.differences(whole, tmp_path / "out").values())


def test_what_cannot_be_reached_is_said(recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = {"worm": Job(recording, tmp_path / "out", settings(10))}
    monkeypatch.setattr("midline3d.cluster.place.CONNECTING", 0.3)
    for address in ("tcp://127.0.0.1:1", "nothing like an address", "", str(recording / "recording.toml")):
        with pytest.raises(InputError, match=r"--scheduler is '.*where none answers"):
            reconstruct_on_cluster(jobs, Place(address), quiet, "cpu")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r'pip install "midline3d\[cluster\]"'):
        reconstruct_on_cluster(jobs, Place(), quiet, "cpu")


def test_a_process_that_dies_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crew without a worker: its tasks are plain lists of what a process says."""
    ended: list[Stub] = []

    class Stub:
        def given(self, task: dict[str, Any]) -> Iterator[dict[str, Any]]:
            yield from task["says"]

        def status(self) -> int:
            return -9

        def end(self) -> None:
            ended.append(self)

    monkeypatch.setattr("midline3d.cluster.crew.Child", Stub)
    crew = Crew("crew")
    crew.setup(None)
    answer = crew.do("one", {"says": [{"warning": "mind"}, {"doing": "x", "done": 1, "total": 2}, {"ended": [4]}]})
    assert answer == {"ended": [4], "warnings": ["mind"]} and not ended
    with pytest.raises(EndedError, match="status -9 on"):
        crew.do("two", {"says": [{"doing": "x", "done": 1, "total": 2}]})
    assert len(ended) == 1
    assert crew.do("three", {"says": [{"fault": "no", "own": True}]})["fault"] == "no"
    crew.teardown(None)
    assert len(set(ended)) == 2, "the one that died, and the one that was kept"
    with pytest.raises(distributed.Reschedule):
        crew.do("four", {"says": []})


class Futureless:
    """A scheduler that answers at once, with what the test wants."""

    def __init__(self, answers: dict[str, list[Any]]) -> None:
        self.status, self.scheduler, self.answers, self.asked = "running", None, answers, list[str]()

    def register_plugin(self, plugin: object) -> None: ...

    def unregister_worker_plugin(self, name: str) -> None: ...

    def nthreads(self) -> dict[str, int]:
        return {"worker": 1}

    def submit(self, work: object, name: str, task: dict[str, Any], *, key: str, **more: Any) -> Any:
        self.asked.append(f"{task['step']} {task['number']}")
        answer = self.answers[self.asked[-1]].pop(0)

        class Future:
            def result(self) -> Any:
                if isinstance(answer, Exception):
                    raise answer
                return answer

            def add_done_callback(self, call: Callable[[Any], None]) -> None:
                call(self)

        Future.key = key  # type: ignore[attr-defined]
        return Future()


def test_steps_that_come_to_no_end_are_given_again(recording: Path, tmp_path: Path) -> None:
    killed = distributed.scheduler.KilledWorker("clip", None, 1000)
    own = {"fault": "OSError: stale file handle", "own": True}
    client = Futureless(
        {
            "plan 0": [EndedError("status -9"), {"ended": [20, 10]}],
            "clip 0": [own, own, {"ended": []}],
            "clip 1": [killed, killed, killed, killed, {"ended": []}],
            "stitch 0": [{"ended": [], "warnings": []}],
        }
    )
    found = RUN._looked_at("worm", Job(recording, tmp_path / "out", settings(10)))
    RUN.Course(client, [found], "cpu", quiet).run()  # type: ignore[arg-type]
    assert found.outcome is not None and found.outcome.fault is None
    assert sorted(client.asked) == sorted(["plan 0"] * 2 + ["clip 0"] * 3 + ["clip 1"] * 5 + ["stitch 0"])
    assert client.asked[-1] == "stitch 0"


def test_steps_that_always_fail_are_given_up(recording: Path, tmp_path: Path) -> None:
    own = {"fault": "OSError: stale file handle", "own": True}
    missing = {"fault": "clips are not complete: 0", "own": False}
    client = Futureless(
        {
            "plan 0": [{"ended": [20, 10]}],
            "clip 0": [EndedError("status -9 on node7")] * RUN.TRIES,
            "clip 1": [own] * RUN.TRIES,
            "stitch 0": [missing],
        }
    )
    found = RUN._looked_at("worm", Job(recording, tmp_path / "out", settings(10)))
    RUN.Course(client, [found], "cpu", quiet).run()  # type: ignore[arg-type]
    assert found.outcome is not None and "ended by the system 3 times" in (found.outcome.fault or "")
    assert client.asked.count("clip 0") == client.asked.count("clip 1") == RUN.TRIES and client.asked[-1] == "stitch 0"


def test_a_scheduler_that_is_gone_is_said(recording: Path, tmp_path: Path) -> None:
    client = Futureless({"plan 0": [{"ended": []}]})
    client.status = "closed"
    found = RUN._looked_at("worm", Job(recording, tmp_path / "out", settings(10)))
    with pytest.raises(InputError, match="the scheduler is gone"):
        RUN.Course(client, [found], "cpu", quiet).run()  # type: ignore[arg-type]
