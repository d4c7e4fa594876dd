"""The preflight: good recordings pass, and every fault is named."""

import dataclasses
import json
import re
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from drawn import SIZE, DrawnRecording, midline, write

from midline3d.calibration import Calibration, load_calibration, make_camera, save_calibration
from midline3d.errors import InputError
from midline3d.recording import check as full_check
from midline3d.recording import load_recording, preflight, prepare
from midline3d.recording.check.checking import BEGINNING, LEARNING
from midline3d.recording.check.issues import timing_issues, worm_issues
from midline3d.recording.check.limits import Limits
from midline3d.settings import LocatingSettings

QUICK = LocatingSettings(background_frames=13)


def check(path, **options):
    return full_check(path, QUICK, **options)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return write(tmp_path_factory.mktemp("good"), DrawnRecording().pictures())


@pytest.fixture(scope="module")
def report(good):
    return check(good, pace=lambda cameras, centre, window: 0.5)


def texts(report, severity="error"):
    return " | ".join(issue.text for issue in report.issues if issue.severity == severity)


def test_a_good_recording_passes(report):
    assert report.ok, report.text()
    facts = report.as_dict()
    assert facts["worm"]["found"] == 1
    assert facts["worm"]["side"] == "dark"
    assert facts["worm"]["residual_median"] < 2
    assert facts["reconstruction_s"] == 0.5 * (24 + BEGINNING + 24 * LEARNING)
    assert len(facts["worm"]["residual_course"]) == facts["looked_at"] == len(facts["looked_at_frames"])
    assert all(len(camera["focus_course"]) == facts["looked_at"] for camera in facts["cameras"])
    assert facts["disk_needed"] > 24 * 3 * 100**2
    assert all(camera["contrast"] > 20 for camera in facts["cameras"])


def test_the_report_is_for_people_and_for_machines(report, tmp_path):
    assert "cam2" in report.text()
    assert "ok: nothing is beyond its limit" in report.text()
    assert json.loads(json.dumps(report.as_dict()))["ok"] is True
    report.picture(tmp_path / "check.png")
    assert (tmp_path / "check.png").stat().st_size > 20_000


def test_limits_are_stated_and_count(good):
    strict = check(good, limits=Limits(contrast=1e6))
    assert not strict.ok
    assert "(limit 1e+06)" in texts(strict)


def test_unequal_lengths_are_an_error_here_too(tmp_path):
    pictures = list(DrawnRecording(frames=12).pictures())
    pictures[0] = pictures[0][:8]
    report = check(write(tmp_path, pictures))
    assert "cam1 has 4 frames more than cam0 (12, 8): set cameras.offset" in texts(report)


def test_black_frames_are_counted(tmp_path):
    pictures = DrawnRecording(frames=20).pictures()
    pictures[2, 5:8] = 0
    report = check(write(tmp_path, pictures))
    assert "cam2: 16.7% of the frames looked at are unreadable or black" in texts(report)
    assert "the first of them frame 5: it is black; copy the files again" in texts(report)


def as_pictures(folder, camera):
    """The camera's stack of a recording as a folder of pictures instead; the files."""
    stack = np.load(folder / f"cam{camera}.npy")
    pictures = folder / f"cam{camera}"
    pictures.mkdir()
    for frame, picture in enumerate(stack):
        cv2.imwrite(str(pictures / f"{frame:06d}.png"), picture)
    text = (folder / "recording.toml").read_text()
    (folder / "recording.toml").write_text(text.replace(f'"cam{camera}.npy"', f'"cam{camera}"'))
    return sorted(pictures.iterdir())


def test_the_first_broken_picture_and_its_file_are_named(tmp_path):
    folder = write(tmp_path, DrawnRecording(frames=18).pictures())
    for camera in range(3):
        files = as_pictures(folder, camera)
        if camera == 0:
            files[4].write_bytes(files[4].read_bytes()[:60])
        elif camera == 1:
            files[7].write_bytes(b"")
        else:
            cv2.imwrite(str(files[9]), np.full((30, 40), 9, np.uint8))
    said = texts(check(folder))
    assert "first of them frame 4: 000004.png is no picture, or is cut off; copy" in said
    assert "first of them frame 7: 000007.png is empty (0 bytes); copy" in said
    assert "frame 9: 000009.png is 40 x 30 px, but the first picture is 240 x 240 px; copy" in said


def test_rates_and_a_worm_that_is_not_found_are_told_what_to_do(report):
    views = [
        dataclasses.replace(view, source=SimpleNamespace(rate=rate, missing=(), count=24, jitter=0.0))
        for view, rate in zip(report.recording.views, (25.0, 25.0, 26.0), strict=True)
    ]
    said = [issue.text for issue in timing_issues(dataclasses.replace(report.recording, views=views), Limits())]
    assert said == [
        "cam2 runs at 26.000 frames a second, cam0 at 25.000 (limit 0.5% apart): the cameras are not synchronised; "
        "film again with one trigger for all, or, where they had one, write the files anew at their true rate"
    ]
    worm = dataclasses.replace(report.facts.worm, found=0.487, lost_first=3)
    said = [issue.text for issue in worm_issues(dataclasses.replace(report.facts, worm=worm))]
    assert any(text.startswith("the worm is found in 48.7%") and "reconstruct --frames A:B" in text for text in said)


def test_a_dropped_frame_is_said_once(tmp_path):
    folder = write(tmp_path, DrawnRecording(frames=18).pictures())
    as_pictures(folder, 1)[7].unlink()
    report = check(folder)
    assert (
        "cam1 has dropped 1 of 18 frames (limit 1%), first its frame 7: they stay without a midline; film at a"
        in texts(report)
    )
    assert "unreadable or black" not in texts(report)


def test_a_wrong_calibration_is_an_error(good, tmp_path):
    cameras = list(load_calibration(good / "calibration.json").cameras)
    matrix = cameras[1].matrix.copy()
    matrix[0, 2] += 40
    camera = cameras[1]
    cameras[1] = make_camera("test", camera.name, camera.size, matrix, [], camera.rotation, camera.translation)
    save_calibration(Calibration(tuple(cameras)), tmp_path / "c.json")
    text = (good / "recording.toml").read_text().replace("calibration.json", str(tmp_path / "c.json"))
    (good / "wrong.toml").write_text(text)
    report = check(good / "wrong.toml")
    assert "the views miss each other by" in texts(report)
    assert "out of step; give the calibration of that day" in texts(report)


def roaming(frame):
    return midline(frame, speed=0.0) + np.array(
        [0.3 * np.sin(frame / 5), -0.4 * np.sin(frame / 4), 0.4 * np.cos(frame / 6)]
    )


def test_cameras_that_are_mixed_up_are_named(tmp_path):
    pictures = DrawnRecording(frames=24, worms=(roaming,), dirt=0).pictures()
    report = check(write(tmp_path, pictures[[1, 0, 2]]))
    assert "the cameras seem mixed up" in texts(report)
    assert "cam0 = cam1.npy, cam1 = cam0.npy, cam2 = cam2.npy" in texts(report)


def test_a_run_refuses_cameras_that_are_mixed_up(tmp_path):
    pictures = DrawnRecording(frames=24, worms=(roaming,), dirt=0).pictures()
    folder = write(tmp_path, pictures[[1, 0, 2]])
    with pytest.raises(InputError, match=r"the cameras seem mixed up: .* cam0 = cam1.npy, cam1 = cam0.npy"):
        prepare(load_recording(folder), QUICK, tmp_path / "p")


@pytest.mark.parametrize(
    ("turned", "reported"),
    [
        ((slice(None), slice(None, None, -1)), "cam2 seems mirrored left to right"),
        ((slice(None, None, -1), slice(None)), "cam2 seems mirrored top to bottom"),
        ((slice(None, None, -1), slice(None, None, -1)), "cam2 seems upside down"),
    ],
)
def test_a_view_that_is_turned_is_named(tmp_path, turned, reported):
    pictures = DrawnRecording(frames=24, worms=(roaming,), dirt=0).pictures()
    pictures[2] = pictures[2][:, *turned]
    folder = write(tmp_path, pictures)
    assert reported in texts(check(folder))
    with pytest.raises(InputError, match=reported):
        prepare(load_recording(folder), QUICK, tmp_path / "p")


def test_a_worm_of_no_size_is_an_error(good, tmp_path):
    cameras = load_calibration(good / "calibration.json").cameras
    # Within what a microscope can do, so that the rig alone does not tell.
    grown = tuple(dataclasses.replace(camera, translation=camera.translation / 40) for camera in cameras)
    save_calibration(Calibration(grown), tmp_path / "c.json")
    text = (good / "recording.toml").read_text().replace("calibration.json", str(tmp_path / "c.json"))
    (good / "small.toml").write_text(text)
    assert re.search(r"the worm would be 0.0\d+ mm long at .* px/mm", texts(check(good / "small.toml")))
    with pytest.raises(InputError, match="the worm would be"):
        prepare(load_recording(good / "small.toml"), QUICK, tmp_path / "p")


def test_a_good_recording_is_prepared_without_a_word(good, tmp_path, recwarn):
    recording = load_recording(good)
    preflight(recording)
    prepare(recording, QUICK, tmp_path / "p")
    assert not recwarn.list


def test_the_advice_on_a_late_camera_leads_to_a_recording_that_passes(tmp_path):
    pictures = DrawnRecording(frames=42, worms=(roaming,), dirt=0).pictures()
    late = np.stack([pictures[0, 6:], pictures[1, 6:], pictures[2, :-6]])
    folder = write(tmp_path, late)
    reported = texts(check(folder))
    advice = re.search(r"set the offset of (cam\d) to (\d+) in recording.toml, and give --shortest", reported)
    assert advice, reported
    text = (folder / "recording.toml").read_text()
    source = f'source = "{advice[1]}.npy"'
    (folder / "recording.toml").write_text(text.replace(source, f"{source}\noffset = {advice[2]}"))
    report = check(folder, shortest=True)
    assert report.ok, report.text()
    assert "+-" in report.text()
    assert re.search(r"all beyond \d+ frames is left out", texts(report, "warning"))


def test_a_camera_that_runs_late_is_named(tmp_path):
    pictures = DrawnRecording(frames=42, worms=(roaming,), dirt=0).pictures()
    late = np.stack([pictures[0, 6:], pictures[1, 6:], pictures[2, :-6]])
    report = check(write(tmp_path, late))
    assert "cam2 seems" in texts(report) and "frames late" in texts(report)


def test_no_worm_and_two_worms_are_named(tmp_path):
    report = check(write(tmp_path / "none", DrawnRecording(frames=8, worms=(), dirt=0).pictures()))
    assert "do the views agree on a worm" in texts(report)

    def other(frame):
        return midline(-frame) + np.array([0.4, -0.7, 0.7 - 0.02 * frame])

    report = check(write(tmp_path / "two", DrawnRecording(frames=24, worms=(midline, other)).pictures()))
    assert "a second thing looks like a worm" in texts(report, "warning")
    assert "seems" not in texts(report) + texts(report, "warning")
    with pytest.warns(UserWarning, match="a second thing looks like a worm"):
        prepare(load_recording(tmp_path / "two"), QUICK, tmp_path / "p")


def test_a_worm_that_leaves_one_view_is_named(tmp_path):
    pictures = DrawnRecording(frames=24).pictures()
    empty = DrawnRecording(frames=24, worms=()).pictures()
    pictures[1, 15:] = empty[1, 15:]
    report = check(write(tmp_path, pictures))
    assert "cam1 shows the worm in" in texts(report)
    assert "first not in frame 15: it leaves the view or is hidden; keep it nearer to the middle, or go" in texts(
        report
    )


def test_what_cannot_be_opened_stays_one_sentence(tmp_path):
    folder = write(tmp_path, np.zeros((2, 3, SIZE, SIZE), np.uint8))
    (folder / "cam1.npy").write_text("text")
    with pytest.raises(InputError, match=r"cam1.npy"):
        check(folder)
