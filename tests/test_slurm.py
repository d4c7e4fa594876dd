"""The script for SLURM: what it asks for, in which order, and what its tasks do; sbatch is a stand-in here."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import killing
import pytest

from midline3d import Job, Settings
from midline3d.cluster.slurm import Request, slurm_script
from midline3d.errors import InputError
from midline3d.settings import dump_settings
from midline3d.store import HeldError, info
from midline3d.tracking import steps
from midline3d.tracking.several import looked_at
from midline3d.tracking.steps import Step, clip_tasks, patiently

pytestmark = pytest.mark.skipif(shutil.which("bash") is None or sys.platform == "win32", reason="needs bash")

SBATCH = r"""#!/bin/bash
# Writes down what it is asked for, and runs the tasks at once where it is asked to.
number=$(($(cat "$FAKE/number" 2>/dev/null || echo 100) + 1))
echo "$number" > "$FAKE/number"
printf '%s\n' "$@" "" >> "$FAKE/asked"
options=() array=0-0 output=
while [[ $1 == --* ]]; do
    case $1 in --array=*) array=${1#--array=} ;; --output=*) output=${1#--output=} ;; esac
    shift
done
if [[ -n $RUN_TASKS ]]; then
    last=${array#*-}
    for ((task = 0; task <= ${last%%%*}; task++)); do
        said=${output//%A/$number} said=${said//%a/$task} said=${said//%%/%}
        SLURM_JOB_ID=$number SLURM_ARRAY_TASK_ID=$task SLURM_CPUS_PER_TASK=1 bash "$@" >> "$said" 2>&1
    done
fi
echo "$number;cluster"
"""
PRINTING = '#!/bin/bash\nprintf "%s|" "$@" >> "$FAKE/tasks"; echo >> "$FAKE/tasks"\n[[ $* != *fails* ]]\n'


def settings() -> Settings:
    quick = killing.settings()
    return replace(quick, tracking=replace(quick.tracking, clip=10, overlap=3))


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recording") / "worm"
    killing.simulated(folder)
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of a machine that has sbatch."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {"sbatch": SBATCH, "printing": PRINTING}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    paths = os.pathsep.join([str(Path(__file__).parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "FAKE": str(tmp_path), "PYTHONPATH": paths}


def three(recording: Path, tmp_path: Path) -> dict[str, Job]:
    """Three recordings, whose names are a trial for any shell: of 3, 2 and 1 clips."""
    names = {"a b": None, "it's $HOME %j @tasks@": (0, 25), "fails": (3, 12)}
    for name in names:
        shutil.copytree(recording, tmp_path / name)
    out = tmp_path / "out 100%"
    return {name: Job(tmp_path / name, out / name, settings(), frames=part) for name, part in names.items()}


def submitted(text: str, tmp_path: Path, environment: dict[str, str], run: bool = True) -> list[list[str]]:
    """Gives a script to bash; what was asked of sbatch, call by call."""
    script = tmp_path / "all of it.sh"
    script.write_text(text)
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    reported = subprocess.run(
        ["bash", str(script)],
        capture_output=True,
        text=True,
        check=False,
        env=environment | {"RUN_TASKS": "1" if run else ""},
    )
    assert reported.returncode == 0 and reported.stderr == "", reported.stderr
    calls = (tmp_path / "asked").read_text().strip("\n").split("\n\n")
    assert f"table-{100 + len(calls)}_0.txt" in reported.stdout
    return [call.split("\n") for call in calls]


def with_printing(text: str) -> str:
    """The script with a program that only says what it is given."""
    return re.sub(r"^midline3d=\(.*\)$", "midline3d=(printing)", text, flags=re.M)


def test_steps_follow_one_another_whatever_their_outcome(
    recording: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    jobs = three(recording, tmp_path)
    text = with_printing(slurm_script(jobs, Request(at_once=7), ["--seed", "3"]))
    calls = submitted(text, tmp_path, environment)
    names, arrays = (
        [next(word for word in call if word.startswith(f"--{option}=")) for call in calls]
        for option in ("job-name", "array")
    )
    assert names == [f"--job-name=midline3d-{step}" for step in ("plan", "clip", "stitch", "table")]
    assert arrays == ["--array=0-2%7", "--array=0-5%7", "--array=0-2%7", "--array=0-0%7"]
    assert not any("dependency" in word for word in calls[0])
    for number, call in enumerate(calls[1:], start=101):
        assert f"--dependency=afterany:{number}" in call
    log = tmp_path / "out 100%" / "slurm"
    assert f"--output={str(log).replace('%', '%%')}/plan-%A_%a.txt" in calls[0]
    assert {path.name for path in log.iterdir()} >= {"plan-101_0.txt", "clip-102_5.txt", "table-104_0.txt"}


def test_every_task_is_given_its_recording_and_number(
    recording: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    jobs = three(recording, tmp_path)
    text = with_printing(slurm_script(jobs, Request(largest=4), ["--seed", "3"]))
    calls = submitted(text, tmp_path, environment)
    arrays = [word for call in calls for word in call if word.startswith("--array")]
    assert arrays == [f"--array=0-{last}%100" for last in (2, 3, 1, 2, 0)], "six clips in two arrays"
    assert "--dependency=afterany:102" in calls[2], "the second after the first, lest twice as many run at once"
    lines = (tmp_path / "tasks").read_text().splitlines()
    place = {name: f"{job.recording}|-o|{job.out}" for name, job in jobs.items()}
    rest = "--seed|3|--device|cpu|"
    clips = [f"clip|{place[name]}|--task|{n}|{rest}" for name, c in zip(jobs, (3, 2, 1), strict=True) for n in range(c)]
    assert lines == [
        *(f"plan|{each}|{rest}" for each in place.values()),
        *clips,
        *(f"stitch|{each}|{rest}" for each in place.values()),
        "table|" + "|".join(str(job.out) for job in jobs.values()) + "|",
    ]


def test_what_is_asked_for_stands_in_the_script(recording: Path, tmp_path: Path) -> None:
    request = Request(3, 4, "7G", "1-00:00:00", 50, ("--partition=long", "--mail-type=END"), ("module load x", "y=1"))
    text = slurm_script({"worm": Job(recording, tmp_path, settings(), device="cuda")}, request, [])
    asked = re.findall(r"^#SBATCH (.*)$", text, re.M)
    assert asked == [
        *("--requeue", "--open-mode=append", "--signal=B:USR1@120", "--cpus-per-task=4", "--mem=7G"),
        *("--time=1-00:00:00", "--gres=gpu:1", "--partition=long", "--mail-type=END"),
    ]
    commands = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert text.index("#SBATCH --mail-type=END") < text.index(commands[0]), "sbatch reads no further than that"
    assert "module load x\ny=1\n" in text and "tasks=(1) " in text and "--device cuda" in text
    with pytest.raises(InputError, match="--sbatch is 'partition=x'; give an option of sbatch"):
        slurm_script({}, Request(options=("partition=x",)), [])
    with pytest.raises(InputError, match="--memory is '4 G'"):
        slurm_script({}, Request(memory="4 G"), [])
    with pytest.raises(InputError, match="give one line of text"):
        slurm_script({}, Request(before=("a\nb",)), [])


def test_a_task_whose_time_is_nearly_over_goes_back_into_the_queue(
    recording: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    """The signal that SLURM sends; the task itself is not harmed, and its status is that of the whole."""
    text = slurm_script({"worm": Job(recording, tmp_path / "out", settings())}, Request(), [])
    script = tmp_path / "script.sh"
    slow = f"midline3d=(bash -c 'touch \"{tmp_path}/began\"; sleep 1.5; exit 7')"
    script.write_text(re.sub(r"^midline3d=\(.*\)$", lambda _: slow, text, flags=re.M))
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.write_text('#!/bin/bash\necho "$@" >> "$FAKE/requeued"\n')
    scontrol.chmod(0o755)
    for restarts in (0, 100):
        (tmp_path / "began").unlink(missing_ok=True)
        in_slurm = {"SLURM_ARRAY_JOB_ID": "42", "SLURM_ARRAY_TASK_ID": "0", "SLURM_RESTART_COUNT": str(restarts)}
        with subprocess.Popen(["bash", str(script), "plan", "0"], env=environment | in_slurm) as task:
            while not (tmp_path / "began").exists():
                time.sleep(0.02)
            task.send_signal(signal.SIGUSR1)
        assert task.returncode == 7
    assert (tmp_path / "requeued").read_text() == "requeue 42_0\n", "but not for ever"


def test_a_script_that_is_piped_says_what_to_do(recording: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    text = slurm_script({"worm": Job(recording, tmp_path / "out", settings())}, Request(), [])
    run = subprocess.run(["bash"], input=text, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 2 and run.stderr == "save this script to a file, and give that to bash\n"
    assert not (tmp_path / "asked").exists()


@pytest.mark.long
def test_the_whole_of_it(recording: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    """By the command: script, plan, clips, stitching and table; and a recording that is refused."""
    chosen = tmp_path / "quick.toml"
    chosen.write_text(dump_settings(settings()))
    broken = Path(shutil.copytree(recording, tmp_path / "broken"))
    for path in broken.glob("cam0.npy"):
        path.write_bytes(path.read_bytes()[:-1000])
    out = tmp_path / "out"
    given = [sys.executable, "-m", "midline3d", "cluster", "slurm-script", str(recording), "-o", str(out)]
    given += ["--settings", str(chosen), "--frames", "9:29"]
    made = subprocess.run(given, capture_output=True, text=True, check=False, env=environment)
    assert made.returncode == 0 and made.stderr == "", made.stderr
    submitted(made.stdout, tmp_path, environment)
    said = "\n".join(path.read_text() for path in sorted((out / "slurm").iterdir()))
    assert info(out).state == "complete", said
    table = (out / "slurm" / "table-104_0.txt").read_text()
    assert "1 recordings" in table and re.search(r"out\s+│\s+20", table), table
    refused = subprocess.run([*given, str(broken)], capture_output=True, text=True, check=False, env=environment)
    assert refused.returncode == 2 and refused.stdout == "" and len(refused.stderr.splitlines()) == 1


def test_a_step_waits_for_the_process_that_is_at_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    job = Job(tmp_path, tmp_path, settings())
    answers: list[Exception | None] = [HeldError("a"), HeldError("b"), None]

    def stitch(*_: object) -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    monkeypatch.setattr(steps, "stitch", stitch)
    assert patiently(Step("stitch"), job, lambda *_: None) == [] and not answers
    answers += [HeldError("held")] * 3
    monkeypatch.setattr(steps, "PATIENCE", 0.1)
    with pytest.raises(HeldError, match="held"):
        patiently(Step("stitch"), job, lambda *_: None)
    answers[:] = [InputError("bad input is not waited for")]
    with pytest.raises(InputError, match="not waited for"):
        patiently(Step("stitch"), job, lambda *_: None)


def test_tasks_are_counted_before_there_is_a_plan(recording: Path, tmp_path: Path) -> None:
    job = Job(recording, tmp_path, settings())
    assert clip_tasks(job) == 3 and clip_tasks(replace(job, device="cuda")) == 1
    assert clip_tasks(replace(job, frames=(0, 29))) == 2


def test_results_are_looked_at(tmp_path: Path) -> None:
    found = looked_at(tmp_path)
    assert found.fault is not None and "is no result" in found.fault and found.seconds is None
    assert json.dumps(found.as_dict())
