"""The command: what it prints, where, and with what status it ends."""

import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from midline3d import Plan, evaluate, simulate
from midline3d.cli import main
from midline3d.cli.command import COMMANDS
from midline3d.errors import InputError


@dataclass(frozen=True)
class Run:
    status: int
    out: str
    err: str


Command = Callable[..., Run]


@pytest.fixture
def midline3d(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """The command as a shell would run it, without the seconds that a new process takes to import torch."""

    def run(*arguments: object) -> Run:
        monkeypatch.setattr(sys, "argv", ["midline3d", *map(str, arguments)])
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        monkeypatch.setenv("COLUMNS", "100")
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
            sys.exit(0)
        reported = capfd.readouterr()
        code = end.value.code
        return Run(code if isinstance(code, int) else 0, reported.out, reported.err)

    return run


@pytest.fixture
def refused(midline3d: Command) -> Callable[..., str]:
    """The one sentence with which the command turns down its input."""

    def run(*arguments: object) -> str:
        found = midline3d(*arguments)
        assert found.status == 2, found.err
        lines = [line for line in found.err.splitlines() if line and not line.startswith("locating")]
        assert found.out == "" and len(lines) == 1 and "Traceback" not in found.err, found.err
        return lines[0]

    return run


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(tmp_path_factory.mktemp("clean"), Plan("clean", 3, size=256, px_per_mm=80.0, source="npy"))


@pytest.fixture
def recording(clean: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(clean, tmp_path / "recording"))


def changed(recording: Path, name: str, old: str, new: str) -> None:
    text = (recording / name).read_text(encoding="utf-8")
    assert old in text
    (recording / name).write_text(text.replace(old, new, 1), encoding="utf-8")


def test_help_and_version(midline3d: Command) -> None:
    run = midline3d("--help")
    assert run.status == 0
    for command in COMMANDS:
        assert command in run.out
    assert midline3d("--version").out.strip()
    assert midline3d().status in (0, 2)
    assert midline3d("reconstrct").status == 2


def test_missing_recording(tmp_path: Path, refused: Callable[..., str]) -> None:
    assert "there is no such file" in refused("reconstruct", tmp_path / "none", "-o", tmp_path / "out")


def test_missing_video(recording: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    (recording / "cam1.npy").unlink()
    assert "cam1.npy" in refused("reconstruct", recording, "-o", tmp_path / "out")


def test_unknown_key(recording: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    changed(recording, "recording.toml", "worm =", "wurm =")
    complaint = refused("reconstruct", recording, "-o", tmp_path / "out")
    assert "wurm" in complaint and "calibration" in complaint


def test_unknown_setting(recording: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / "settings.toml").write_text("[start]\nstrats = 3\n", encoding="utf-8")
    complaint = refused("reconstruct", recording, "-o", tmp_path / "out", "--settings", tmp_path / "settings.toml")
    assert "strats" in complaint and "starts" in complaint
    assert "no such file" in refused("check", recording, "--settings", tmp_path / "none.toml")


def test_wrong_camera_count(recording: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    text = (recording / "recording.toml").read_text(encoding="utf-8")
    (recording / "recording.toml").write_text(text[: text.index('[[cameras]]\nname = "cam1"')], encoding="utf-8")
    assert "1 camera" in refused("reconstruct", recording, "-o", tmp_path / "out")


def test_a_camera_that_the_calibration_does_not_have(
    recording: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    changed(recording, "recording.toml", 'name = "cam2"', 'name = "cam7"')
    assert "cam7" in refused("reconstruct", recording, "-o", tmp_path / "out")


def test_a_calibration_for_other_images(recording: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    content = json.loads((recording / "calibration.json").read_text(encoding="utf-8"))
    content["cameras"][1]["size"] = [640, 480]
    (recording / "calibration.json").write_text(json.dumps(content), encoding="utf-8")
    complaint = refused("reconstruct", recording, "-o", tmp_path / "out")
    assert "cam1" in complaint and "640 x 480" in complaint and "256 x 256" in complaint


def test_unequal_lengths(recording: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    stack = np.load(recording / "cam2.npy")
    np.save(recording / "cam2.npy", np.concatenate([stack, stack[:1]]))
    assert "--shortest" in refused("reconstruct", recording, "-o", tmp_path / "out")


@pytest.mark.parametrize("frames", ["3", "a:b", "5:9", "2:1", "-1:2"])
def test_wrong_frames(frames: str, clean: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    assert "frames" in refused("reconstruct", clean, "-o", tmp_path / "out", f"--frames={frames}")


def test_wrong_device(clean: Path, tmp_path: Path, midline3d: Command, refused: Callable[..., str]) -> None:
    assert midline3d("reconstruct", clean, "-o", tmp_path / "out", "--device", "gpu").status == 2
    if not torch.cuda.is_available():
        assert "--device cpu" in refused("reconstruct", clean, "-o", tmp_path / "out", "--device", "cuda")


@pytest.mark.parametrize(
    ("reported", "arguments"),
    [
        ("'gpu' is not one of 'auto', 'cpu', 'cuda'", ("reconstruct", "x", "-o", "y", "--device", "gpu")),
        ("missing option '--out'", ("reconstruct", "x")),
        ("missing argument", ("check",)),
        ("--seed", ("reconstruct", "x", "-o", "y", "--seed", 2**64)),
        ("no such option", ("check", "x", "--fast")),
        ("no such command", ("reconstrct",)),
        ("--frames is '0:9", ("reconstruct", "x", "-o", "y", "--frames", "0:" + "9" * 5000)),
    ],
)
def test_a_wrong_command_line_is_one_sentence(
    reported: str, arguments: tuple[object, ...], refused: Callable[..., str]
) -> None:
    assert reported.lower() in refused(*arguments).lower()


def test_evaluate(clean: Path, tmp_path: Path, midline3d: Command, refused: Callable[..., str]) -> None:
    assert "either --truth or --annotations" in refused("evaluate", clean / "truth.nc")
    refused("evaluate", tmp_path / "none", "--truth", clean)
    run = midline3d("evaluate", clean / "truth.nc", "--truth", clean, "--json")
    assert run.status == 0, run.err
    assert json.loads(run.out)["midline_px"] == pytest.approx(0, abs=1e-6)
    table = midline3d("evaluate", clean / "truth.nc", "--truth", clean)
    assert table.status == 0 and "midline" in table.out
    assert "give --truth with it" in refused("evaluate", clean, "--annotations", clean / "none.csv", "--kinematics")


def test_simulate(tmp_path: Path, midline3d: Command, refused: Callable[..., str]) -> None:
    assert "preset" in refused("simulate", tmp_path / "out", "--preset", "fast")
    run = midline3d("simulate", tmp_path / "out", "--preset", "clean", "--frames", 1, "--size", 200, "--px-per-mm", 70)
    assert run.status == 0, run.err
    assert (tmp_path / "out" / "recording.toml").is_file() and (tmp_path / "out" / "truth.nc").is_file()
    assert "simulating: 3 of 3" in run.err


def test_the_demo_removes_nothing_that_is_not_its_own(tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / "recording").mkdir()
    (tmp_path / "recording" / "cam0.avi").write_bytes(b"")
    precious = tmp_path / "recording" / "thesis.txt"
    precious.write_text("years", encoding="utf-8")
    assert "thesis.txt" in refused("demo", "--out", tmp_path)
    assert precious.exists() and (tmp_path / "recording" / "cam0.avi").exists()


def test_the_demo_clears_what_was_made_of_its_result_but_no_corrections(tmp_path: Path) -> None:
    from midline3d.cli.demo import _clear

    result = tmp_path / "result"
    for name in ("export", "report"):
        (result / name).mkdir(parents=True)
    for name in ("kinematics.nc", "kinematics-turns.csv", "frame-12.png", "midline.mp4"):
        (result / name).write_bytes(b"")
    (result / "edits.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"edits\.jsonl was not written by a demo"):
        _clear(result)
    (result / "edits.jsonl").unlink()
    _clear(result)
    assert not result.exists()


def test_calibrate(tmp_path: Path, refused: Callable[..., str]) -> None:
    out = tmp_path / "c.json"
    assert "such as 9x6" in refused("calibrate", tmp_path, "-o", out, "--grid", "9 by 6", "--square", 0.5)
    assert "holds 0 folder(s)" in refused("calibrate", tmp_path, "-o", out, "--grid", "9x6", "--square", 0.5)


def test_refine_cameras(clean: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    assert "there is no such file" in refused("refine-cameras", tmp_path / "none", "-o", tmp_path / "c.json")
    assert "such as 0:100" in refused("refine-cameras", clean, "-o", tmp_path / "c.json", "--frames", "3")
    assert ".json" in refused("refine-cameras", clean, "-o", tmp_path / "c.txt")
    kept = (clean / "calibration.json").read_bytes()
    told = refused("refine-cameras", clean, "-o", clean / "calibration.json")
    assert "calibration.json: is a file of the recording, which would be lost; give another name" in told
    assert "is a file of the recording" in refused("refine-cameras", clean, "-o", clean / "recording.toml")
    assert (clean / "calibration.json").read_bytes() == kept


def test_a_result_is_not_written_over_its_recording(
    recording: Path, tmp_path: Path, refused: Callable[..., str], midline3d: Command
) -> None:
    def content() -> dict[str, bytes]:
        return {place.name: place.read_bytes() for place in recording.iterdir()}

    before, elsewhere = content(), Path(shutil.copytree(recording, tmp_path / "elsewhere"))
    assert "is the folder of the recording; give another output folder" in refused(
        "reconstruct", recording, "-o", recording
    )
    assert "is the folder of the recording" in refused(
        "cluster", "plan", recording, "-o", recording / ".." / "recording"
    )
    assert "is the folder of the recording" in refused("cluster", "slurm-script", recording, "-o", recording)
    assert "is the folder of the recording" in refused("baseline", recording, "-o", recording)
    assert "holds a recording.toml" in refused("reconstruct", recording, "-o", elsewhere)
    several = midline3d("reconstruct", recording, elsewhere, "-o", tmp_path)
    assert several.status == 2 and "recording: " in several.err and "is the folder of the recording" in several.err
    assert content() == before
    (elsewhere / "recording.toml").rename(tmp_path / "other.toml")
    changed(recording, "recording.toml", "calibration.json", f"{elsewhere.as_posix()}/calibration.json")
    told = refused("reconstruct", recording, "-o", elsewhere)
    assert "holds calibration.json of the recording, under a name that a result has" in told


def test_check(recording: Path, tmp_path: Path, midline3d: Command) -> None:
    """Status 0 where all is well; 1, and the camera's name, where a camera goes on for longer than the others."""
    run = midline3d("check", recording, "--json", "--picture", tmp_path / "check.png")
    report = json.loads(run.out)
    assert run.status == 0 and report["ok"] and report["frames"] == 3, report["findings"]
    assert report["reconstruction_s"] > 0 and (tmp_path / "check.png").stat().st_size > 10_000
    stack = np.load(recording / "cam2.npy")
    np.save(recording / "cam2.npy", np.concatenate([stack, stack]))
    run = midline3d("check", recording)
    assert run.status == 1 and "cam2" in run.out and "--shortest" in run.out
    assert midline3d("check", recording, "--shortest").status == 0


def test_a_fault_of_our_own_is_one_line(
    clean: Path, tmp_path: Path, midline3d: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "evaluate_truth", lambda *_: 1 / 0)
    monkeypatch.delenv("MIDLINE3D_DEBUG", raising=False)
    run = midline3d("evaluate", tmp_path, "--truth", clean)
    assert run.status == 1 and len(run.err.splitlines()) == 1
    assert "ZeroDivisionError" in run.err and "MIDLINE3D_DEBUG" in run.err
    monkeypatch.setenv("MIDLINE3D_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["midline3d", "evaluate", str(tmp_path), "--truth", str(clean)])
    with pytest.raises(ZeroDivisionError):
        main()


def test_limits_and_rivals_refuse_in_one_sentence(
    clean: Path, tmp_path: Path, refused: Callable[..., str], midline3d: Command
) -> None:
    assert "'fog'" in refused("limits", tmp_path / "a", "--only", "fog")
    assert "level of blur is 99" in refused(
        "simulate", tmp_path / "b", "--preset", "varied", "--nuisance", "blur", "--level", 99
    )
    assert "'magic'" in refused("rivals", clean, "-o", tmp_path / "c", "--methods", "magic")
    assert "write both ends" in refused("rivals", clean, "-o", tmp_path / "c", "--frames", "3:")
    (tmp_path / "empty").mkdir()
    assert "recording.toml" in refused("rivals", tmp_path / "empty", "-o", tmp_path / "c")
    assert not (tmp_path / "c").exists(), "nothing is written before the input is found good"
    run = midline3d("limits", tmp_path / "d", "--only", "cameras", "--within", 1, "--frames", 2, "--jobs", 1, "--json")
    found = json.loads(run.out)
    assert run.status == 0 and found["asked"] == 9 and found["recordings"] == 0


@pytest.mark.parametrize(("asked", "policy"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_that_wait_sleep(
    midline3d: Command, monkeypatch: pytest.MonkeyPatch, asked: str | None, policy: str
) -> None:
    """Unless the user has them spin, which takes other work's time."""
    if asked is None:
        monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    else:
        monkeypatch.setenv("OMP_WAIT_POLICY", asked)
    assert midline3d("--help").status == 0
    assert os.environ["OMP_WAIT_POLICY"] == policy


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_interrupted(clean: Path, tmp_path: Path) -> None:
    # What runs in the background of a shell is born deaf to interrupts, and so would be its children.
    hear = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = [
        sys.executable,
        "-c",
        f"{hear}; from midline3d.cli import main; main()",
        "reconstruct",
        str(clean),
        "-o",
        str(tmp_path / "out"),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        first = run.stderr.readline()
        run.send_signal(signal.SIGINT)
        rest = run.stderr.read()
    assert first.startswith("locating") and run.returncode == 130
    assert "the same command continues" in rest and "Traceback" not in rest
