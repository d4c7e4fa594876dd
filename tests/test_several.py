"""Several recordings in one command: each in its folder, none stopped by another, one table, gone on with."""

import json
import shutil
from pathlib import Path

import killing
import pytest
from test_cli import Command, midline3d  # noqa: F401

from midline3d import Job, open_result, processors
from midline3d.errors import InputError
from midline3d.settings import dump_settings
from midline3d.tracking.several import each_in_its_folder, reconstruct_all

FRAMES = "9:15"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recordings, one without a camera's pictures, and quick settings."""
    folder = tmp_path_factory.mktemp("films")
    killing.simulated(folder / "one")
    for name in ("two", "broken"):
        shutil.copytree(folder / "one", folder / name)
    (folder / "broken" / "cam1.npy").unlink()
    (folder / "quick.toml").write_text(dump_settings(killing.settings()), encoding="utf-8")
    return folder


def test_one_failing_recording_leaves_the_others_alone(
    place: Path,
    tmp_path: Path,
    midline3d: Command,  # noqa: F811
) -> None:
    names = ("one", "broken", "two")
    quick = ("--settings", place / "quick.toml", "--frames", FRAMES, "--workers", 2)
    command = ("reconstruct", *(place / name for name in names), "-o", tmp_path / "out", *quick)
    run = midline3d(*command)
    assert run.status == 2 and "Traceback" not in run.err
    assert "broken: " in run.err and "cam1.npy" in run.err
    assert "3 recordings" in run.out and "failed, see below" in run.out
    one, two = (open_result(tmp_path / "out" / name) for name in ("one", "two"))
    assert one.position.equals(two.position) and (one.status == "ok").sum() >= 4
    again = json.loads(midline3d(*command, "--json").out)["recordings"]
    assert [each["name"] for each in again] == list(names)
    assert again[0]["frames"] == 6 and again[0]["ok"] == int((one.status == "ok").sum())
    assert "cam1.npy" in again[1]["fault"] and "frames" not in again[1]
    log = (tmp_path / "out" / "one" / "log.txt").read_text(encoding="utf-8")
    assert "6 of 6 frames are there, 0 to do" in log, "nothing was done twice"


def test_recordings_of_one_name_are_refused(place: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(place / "one", tmp_path / "one"))
    job = Job(place / "one", tmp_path / "out", killing.settings())
    with pytest.raises(InputError, match=r"would share .*out/one.* rename one"):
        each_in_its_folder([place / "one", other / "recording.toml"], job)


def test_a_worker_that_dies_is_told_of(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the system has no memory left."""
    (tmp_path / "sitecustomize.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    job = Job(place / "one", tmp_path / "out", killing.settings())
    outcomes = reconstruct_all({"one": job, "two": job}, lambda *_: None, 1)
    assert [outcome.name for outcome in outcomes] == ["one", "two"]
    for outcome in outcomes:
        assert outcome.fault is not None and "was ended by the system" in outcome.fault and not outcome.own


@pytest.mark.parametrize(
    ("asked", "cores"), [("1", 1), ("1,2", 1), ("0", 1), ("100000", None), ("", None), ("many", None)]
)
def test_workers_keep_to_the_threads_that_were_asked_for(
    monkeypatch: pytest.MonkeyPatch, asked: str, cores: int | None
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    given = processors.cores()
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert processors.cores() == (cores or given)
