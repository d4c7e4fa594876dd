"""Processes that look for the worm: the same crops as without them, and none is left behind."""

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from drawn import DrawnRecording, write

from midline3d.errors import InputError
from midline3d.recording import load_recording, prepare, watchers
from midline3d.recording.cutting import Cutter
from midline3d.recording.locating.locator import Locator
from midline3d.recording.shared_pictures import PicturesThere, SharedPictures
from midline3d.recording.watchers import Watchers, usual_watchers
from midline3d.settings import LocatingSettings

PREPARE = importlib.import_module("midline3d.recording.prepare")  # the package has a function of this name
QUICK = LocatingSettings(background_frames=13)


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    return load_recording(write(tmp_path_factory.mktemp("drawn"), DrawnRecording(frames=16, cameras=2).pictures()))


@pytest.fixture
def started(monkeypatch):
    """The watchers of this test: two of them, whatever the machine and the recording."""
    all_of_them = []

    def two(number):
        all_of_them.append(Watchers(2))
        return all_of_them[-1]

    monkeypatch.setattr(PREPARE, "Watchers", two)
    return all_of_them


def test_they_see_what_the_locator_sees(recording, tmp_path, started, monkeypatch):
    with_them = prepare(recording, QUICK, tmp_path / "with")
    assert len(started) == 1 and all(process.returncode is not None for process in started[0]._all)
    seen, cut = [], []
    look, crops = Locator.look, Cutter.crops
    monkeypatch.setattr(Cutter, "crops", lambda self, sight, *how: cut.append(sight.frame) or crops(self, sight, *how))
    monkeypatch.setattr(Locator, "look", lambda self, *frame: seen.append(frame[0]) or look(self, *frame))
    monkeypatch.setattr(PREPARE, "Watchers", lambda number: Watchers(0))
    without = prepare(recording, QUICK, tmp_path / "without")
    assert sorted(seen) == sorted(cut) == list(range(16)), "this process looks and cuts where there are none"
    for one, other in zip(with_them, without, strict=True):
        np.testing.assert_array_equal(one.images, other.images)
    for name, values in vars(without.log).items():
        np.testing.assert_array_equal(values, getattr(with_them.log, name), err_msg=name)


def test_pictures_stay_where_they_are_for_as_long_as_they_are_held():
    memory, random = SharedPictures(), np.random.default_rng(0)
    there = PicturesThere(memory.file)

    def frame(kind):
        return [random.integers(0, 200, (5, 7)).astype(kind), random.integers(0, 200, (9, 4)).astype(kind)]

    def same(one, other):
        return all(
            np.array_equal(here, copy) and here.dtype == copy.dtype for here, copy in zip(one, other, strict=True)
        )

    first, second, deeper = frame(np.uint8), frame(np.uint8), frame(np.uint16)
    one, here = memory.put(first)
    two, _ = memory.put(second)
    assert one.slot.number != two.slot.number
    assert same(first, here) and same(first, there.get(one.slot)) and same(second, there.get(two.slot))
    number = one.slot.number
    del one, here
    three, _ = memory.put(frame(np.uint8))
    assert three.slot.number == number and same(second, there.get(two.slot))
    large = [np.full((900, 40), value, np.uint16) for value in (3, 4)]
    del three
    four, _ = memory.put(large)
    assert four.slot.number not in (number, two.slot.number) and same(large, there.get(four.slot))
    five, _ = memory.put(deeper)
    assert five.slot.number == number and same(deeper, there.get(five.slot)), "what is too small for one suits another"
    memory.close()


def test_one_that_is_killed_is_one_sentence_and_the_others_end(recording, tmp_path, started, monkeypatch):
    begin = Watchers.begin

    def killed(self, locator):
        begin(self, locator)
        os.kill(self._all[0].pid, signal.SIGKILL)

    monkeypatch.setattr(Watchers, "begin", killed)
    with pytest.raises(InputError, match=r"looks for the worm was ended by the system \(status -9\).*same command"):
        prepare(recording, QUICK, tmp_path / "p")
    assert all(process.returncode is not None for process in started[0]._all)


def test_what_goes_wrong_in_one_is_told(recording, tmp_path):
    crew = Watchers(1)
    try:
        survey = PREPARE.survey(recording, recording.calibration.to_cameras(), QUICK, range(16), tmp_path)
        crew.begin(Locator(recording.calibration.to_cameras(), survey, QUICK))
        with pytest.raises(RuntimeError, match="ValueError"):
            crew.see([(0, [np.zeros((3, 3), np.uint8)] * 2)])  # pictures of another size than the backgrounds
        crew.see([(0, [np.full((240, 240), 9, np.uint8)] * 2)])
    finally:
        crew.close()


def test_they_end_with_the_process_that_asks_them():
    """Killed, it cannot end them; they hold its standard error, which comes to an end when all of them have."""
    code = "import sys; from midline3d.recording.watchers import Watchers; w = Watchers(2); print('on', flush=True); "
    paths = os.pathsep.join([str(Path(__file__).parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [sys.executable, "-c", code + "sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": paths},
    ) as run:
        assert run.stdout is not None and run.stdout.readline() == b"on\n"
        run.kill()
        _, said = run.communicate(timeout=120)
    assert said == b""


def test_only_many_frames_on_many_cores_pay_for_them(monkeypatch):
    monkeypatch.setattr(watchers, "cores", lambda: 16)
    assert 0 < usual_watchers(10_000) <= 16
    assert usual_watchers(watchers.FEWEST_FRAMES - 1) == 0
    monkeypatch.setattr(watchers, "cores", lambda: 2)
    assert usual_watchers(10_000) == 0
