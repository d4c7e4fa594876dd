"""The life of a run: where it is refused, goes on, starts over, moves house, and what it leaves beside the midlines."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from small import file_system, fill
from test_cli import Command, midline3d  # noqa: F401
from test_tracking import SETTINGS

from midline3d import Plan, info, open_result, simulate
from midline3d.errors import InputError
from midline3d.report import read_frame
from midline3d.tracking.begin import Beginning
from midline3d.tracking.reconstruct import Job, reconstruct
from midline3d.world import CALIBRATION, world_of

FRAMES = 5
HOME, FOLLOWING = import_module("midline3d.tracking.clips"), import_module("midline3d.tracking.walk")


class Teller:
    """Remembers what a run does, and does something itself at some point of it."""

    def __init__(self, doing: str = "", done: int = 0, act: Callable[[], None] = lambda: None) -> None:
        self.doing, self.done, self.act, self.reported = doing, done, act, list[str]()

    def __call__(self, doing: str, done: int, total: int) -> None:
        self.reported.append(doing)
        if doing.startswith(self.doing) and done == self.done and self.doing:
            self.act()


def stop() -> None:
    raise KeyboardInterrupt


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = Plan("clean", FRAMES, size=256, px_per_mm=80.0, seed=1, source="npy")
    return simulate(tmp_path_factory.mktemp("clean") / "worm", plan)


@pytest.fixture(scope="module")
def first(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Beginning]:
    """A whole run, and how it began."""
    out = tmp_path_factory.mktemp("first") / "out"
    begin, kept = HOME.begin, []

    def remembered(*given: object) -> Beginning:
        kept.append(begin(*given))
        return kept[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HOME, "begin", remembered)
        reconstruct(Job(recording, out, SETTINGS), Teller())
    return out, kept[0]


@pytest.fixture(autouse=True)
def quick(first: tuple[Path, Beginning], monkeypatch: pytest.MonkeyPatch) -> None:
    """The animal is searched for only once: the same clip begins the same way."""

    def begin(clip: object, generator: object, progress: Callable[[str, int, int], None]) -> Beginning:
        progress("searching for the worm", 0, 0)
        return first[1]

    monkeypatch.setattr(HOME, "begin", begin)


def same(one: Path, two: Path) -> None:
    here, there = open_result(one), open_result(two)
    for name in ("status", "reason", "source_frame"):
        assert np.array_equal(here[name].values, there[name].values), name
    # Two preparations of a recording locate the animal alike to the last digit but one.
    for name in ("position", "projection", "loss"):
        assert np.allclose(here[name].values, there[name].values, rtol=1e-12, atol=1e-12, equal_nan=True), name


def test_a_growing_result_can_be_drawn_and_moved_to_another_machine(
    recording: Path, first: tuple[Path, Beginning], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        reconstruct(Job(recording, out, SETTINGS), Teller("reconstructing", 2, stop))
    growing = open_result(out)
    done = int(growing.frame[growing.status == "ok"][0])
    assert read_frame(out, done).render.max() > 0, "the cameras are there as soon as they are known"
    moved = Path(shutil.copytree(recording, tmp_path / "elsewhere" / "worm", copy_function=shutil.copyfile))
    there = Path(shutil.copytree(out, tmp_path / "elsewhere" / "out", copy_function=shutil.copyfile))
    teller = Teller()
    reconstruct(Job(moved, there, SETTINGS), teller)
    assert not [doing for doing in teller.reported if doing.startswith("locating")]
    same(there, first[0])
    lines = (there / "log.txt").read_text(encoding="utf-8").splitlines()
    for reported in (
        "stopped after",
        "KeyboardInterrupt",
        "torch",
        f"2 of {FRAMES} frames are there, 3 to do",
        "done in",
    ):
        assert any(reported in line for line in lines), reported


def test_another_run_is_refused_and_redo_starts_over(
    recording: Path, first: tuple[Path, Beginning], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        reconstruct(Job(recording, out, SETTINGS), Teller("reconstructing", 2, stop))
    job = Job(recording, out, SETTINGS)
    other = replace(SETTINGS, judging=replace(SETTINGS.judging, jump=9.0))
    for wrong, named in (
        (replace(job, device="cuda"), "device cpu, not cuda"),
        (replace(job, seed=7), "seed 0, not 7"),
        (replace(job, settings=other), r"judging\.jump = .*, not 9\.0"),
    ):
        with pytest.raises(InputError, match=named + ".*--redo"):
            reconstruct(wrong, Teller())
    redo, teller = replace(job, settings=other, redo=True), Teller("searching", 0, stop)
    with pytest.raises(KeyboardInterrupt):
        reconstruct(redo, teller)
    assert (open_result(out).status == "ok").sum() == 2, "nothing new has come yet"
    assert not [doing for doing in teller.reported if doing.startswith("locating")], "the crops serve other settings"
    reconstruct(redo, Teller())
    assert "judging.jump" in info(out).changed and info(out).state == "complete"
    same(out, first[0])


def test_a_frame_may_come_later(recording: Path, first: tuple[Path, Beginning], tmp_path: Path) -> None:
    """The world's axes and the sources' places stand with the result and are no part of what is computed."""
    out, drawn = tmp_path / "out", tmp_path / "worm"
    shutil.copytree(first[0], out)
    shutil.copytree(recording, drawn)
    sources = json.loads(open_result(out).attrs["sources"])
    assert all(Path(sources[name]).exists() for name in open_result(out).camera.values)
    with (drawn / "recording.toml").open("a", encoding="utf-8") as file:
        file.write('[frame]\ncamera = "cam0"\nup = "towards"\nheading = "right"\n')
    reconstruct(Job(drawn, out, SETTINGS), Teller())
    found = open_result(out)
    assert world_of(found.attrs).source == "the picture of cam0" and info(out).state == "complete"
    assert xr.load_dataset(out / "midline.nc").attrs["frame"] == found.attrs["frame"]
    same(out, first[0])
    reconstruct(Job(recording, out, SETTINGS), Teller())
    assert world_of(open_result(out).attrs) is CALIBRATION


def test_crops_serve_another_output(recording: Path, first: tuple[Path, Beginning], tmp_path: Path) -> None:
    teller = Teller()
    job = Job(recording, tmp_path / "out", SETTINGS, crops=first[0] / "crops")
    reconstruct(job, teller)
    assert not [doing for doing in teller.reported if doing.startswith("locating")]
    same(tmp_path / "out", first[0])
    assert read_frame(tmp_path / "out", 0).render.max() > 0, "and it needs the other one no more"
    with pytest.raises(InputError, match=f"frames 0:{FRAMES}, not 0:3"):
        reconstruct(replace(job, out=tmp_path / "part", frames=(0, 3)), Teller())


def test_a_full_disk_stops_cleanly_and_the_run_goes_on(
    recording: Path, first: tuple[Path, Beginning], tmp_path: Path
) -> None:
    with file_system(tmp_path / "small", 16) as small:
        job, other = Job(recording, small / "out", SETTINGS), list[Path]()

        def act() -> None:
            other.append(fill(small, 0))

        with pytest.raises(InputError, match=r"disk is full .*the same command goes on") as refusal:
            reconstruct(job, Teller("reconstructing", 3, act))
        assert "\n" not in str(refusal.value)
        with pytest.raises(InputError, match=r"disk is full|are free there"):
            reconstruct(job, Teller())
        other[0].unlink()
        reconstruct(job, Teller())
        same(small / "out", first[0])


def test_the_command_says_what_to_look_at(
    recording: Path,
    first: tuple[Path, Beginning],
    tmp_path: Path,
    midline3d: Command,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    followed = FOLLOWING.track_directions

    def doubted(*given: object) -> object:
        for way, tracked in followed(*given):
            lost = tracked.frame in (1, 2)
            gone = replace(tracked, status="lost", reason="no fit", fit=None, projection=None)
            yield way, gone if lost else tracked

    monkeypatch.setattr(FOLLOWING, "track_directions", doubted)
    for search in ("follow", "searched_again"):  # nor are they found from their other side, nor when looked for again
        monkeypatch.setattr(import_module("midline3d.tracking.repair"), search, lambda *_: iter(()))
    (tmp_path / "settings.toml").write_text("[start]\npairs = 1\n", encoding="utf-8")
    command = ("reconstruct", recording, "-o", tmp_path / "out", "--settings", tmp_path / "settings.toml")
    run = midline3d(*command)
    assert run.status == 0, run.err
    assert "5 frames: 3 ok, 2 lost" in run.out and "2 frames to look at: 1 to 2 (no fit 2)" in run.out
    again = json.loads(midline3d(*command, "--json").out)
    assert again["look_at"] == [[1, 2]] and again["lost"] == 2 and again["reasons"] == {"no fit": 2}
    reported = midline3d("info", tmp_path / "out")
    assert (
        reported.status == 0
        and "a result that is complete" in reported.out
        and "look at    1 to 2 (no fit 2)" in reported.out
    )
    assert json.loads(midline3d("info", tmp_path / "out", "--json").out)["statuses"]["lost"] == 2
    wrong = midline3d("info", tmp_path)
    assert wrong.status == 2 and "is no result" in wrong.err and "Traceback" not in wrong.err
    refused = midline3d(*command, "--crops", tmp_path / "none")
    assert refused.status == 0, "they are there already"
    fresh = midline3d("reconstruct", recording, "-o", tmp_path / "new", "--crops", tmp_path / "none")
    assert fresh.status == 2 and "leave --crops out" in fresh.err
