"""Only the worm bends: a fibre or a bubble that is heavier keeps its shape, and is left out."""

import cv2
import numpy as np
import pytest
from drawn import SIZE, DrawnRecording, midline, write

from midline3d.recording import check, load_recording, prepare
from midline3d.recording.locating.places import Found, candidates
from midline3d.recording.locating.sighting import Sighting
from midline3d.recording.locating.strangers import (
    ALIKE,
    BENT,
    Stranger,
    likeness,
    picture_of,
    unchanging,
    usual_likeness,
    which_are,
)
from midline3d.recording.locating.survey import survey
from midline3d.settings import LocatingSettings

SETTINGS = LocatingSettings(background_frames=13)
ABOVE = np.array([0.3, -0.6, 0.6])
"""mm: where nothing touches the worm in any view."""


def fibre(frame: int) -> np.ndarray:
    """Longer than the worm, and drifting, but always the same."""
    return midline(3, length=1.35) * [0.8, 1, 1] + ABOVE + [0.0, 0.006 * frame, -0.004 * frame]


def shown(points: np.ndarray, turned: float = 0.0) -> np.ndarray:
    """(height, width) signal of a line at these px among some noise."""
    field = np.random.default_rng(0).normal(0, 0.5, (SIZE, SIZE)).astype(np.float32)
    matrix = cv2.getRotationMatrix2D((float(points[:, 0].mean()), float(points[:, 1].mean())), turned, 1.0)
    line = points @ matrix[:, :2].T + matrix[:, 2]
    cv2.polylines(field, [np.rint(line * 16).astype(np.int32)], False, 100.0, 5, cv2.LINE_AA, 4)
    return cv2.GaussianBlur(field, (0, 0), 1.0)


def wave(phase: float, place: tuple[float, float]) -> np.ndarray:
    """(point, 2) px."""
    along = np.linspace(-30, 30, 40)
    return np.stack([along, 9 * np.sin(along / 9 + phase)], -1) + place


def cut_out(field: np.ndarray) -> np.ndarray:
    return picture_of(field, candidates(field, 1, SETTINGS).pixels(0))


def test_likeness_is_of_the_shape_and_not_of_the_place():
    here, there = cut_out(shown(wave(0, (80, 90)))), cut_out(shown(wave(0, (150.4, 120.7))))
    assert likeness(here, there) == pytest.approx(likeness(there, here), abs=1e-6)
    assert likeness(here, here) == pytest.approx(1, abs=1e-5)
    assert likeness(here, there) > ALIKE
    assert likeness(here, cut_out(shown(wave(2.5, (80, 90))))) < BENT


def test_a_thing_alone_in_time_says_nothing():
    assert np.isnan(usual_likeness([cut_out(shown(wave(0, (80, 90))))]))


def test_of_several_things_those_that_keep_their_shape_are_known_wherever_they_go():
    frames = list(range(0, 50, 5))
    fields = [
        np.maximum(shown(wave(0.4 * sample, (80, 60))), shown(wave(0.0, (90 + 4 * sample, 180))))
        for sample in range(len(frames))
    ]
    seen = [candidates(field, 1, SETTINGS) for field in fields]
    (known,) = unchanging(fields, seen, frames)
    assert known.at(20) == pytest.approx((90 + 16, 180), abs=2)
    assert known.at(22) == pytest.approx((90 + 17.6, 180), abs=2)  # between two samples
    centre, mass = seen[4].centre, np.asarray(seen[4].mass)
    flags = which_are([known], 20, centre, mass)
    assert flags.tolist() == [abs(place[1] - 180) < 20 for place in centre.tolist()] and flags.sum() == 1
    assert not which_are([known], 20, centre, 3 * mass).any()  # another thing lies over it
    assert not which_are([known], 200, centre, mass).any()  # of another time nothing is known


def test_strangers_are_kept_beside_what_may_be_the_worm():
    field = np.maximum(shown(wave(0, (80, 60))), shown(wave(1.0, (120, 180))))
    settings = LocatingSettings(candidates=1)
    (alone,) = candidates(field, 1, settings).centre
    stranger = Stranger(range(10), np.array([0.0]), alone[None], float(candidates(field, 1, settings).mass[0]))
    things = candidates(field, 1, settings, is_strange=lambda centre, mass: which_are([stranger], 3, centre, mass))
    assert things.strange.sum() == 1 and len(things) == 2
    np.testing.assert_allclose(things.centre[things.strange][0], alone)


def test_a_heavier_fibre_that_drifts_is_not_followed(tmp_path):
    drawn = DrawnRecording(worms=(midline, fibre))
    recording = load_recording(write(tmp_path, drawn.pictures()))
    found = survey(recording, recording.calibration.to_cameras(), SETTINGS, range(recording.count))
    assert all(found.strangers)
    with pytest.warns(UserWarning, match="never changes its shape"):
        prepared = prepare(recording, SETTINGS, tmp_path / "prepared")
    report = check(tmp_path)
    assert report.facts.worm is not None and report.facts.worm.strangers >= 3
    assert any("never changes its shape" in issue.text for issue in report.issues)
    true = np.array([midline(frame).mean(0) for frame in range(len(prepared))])
    away = np.linalg.norm(prepared.log.centre - true, axis=1) * prepared.scale
    assert away.max() < 4


def test_a_worm_at_rest_is_followed_though_dirt_drifts_by(tmp_path):
    def resting(frame: int) -> np.ndarray:
        return midline(5)

    def speck(frame: int) -> np.ndarray:
        return midline(0, length=0.005) + ABOVE + [0.0, 0.01 * frame, 0.0]

    prepared = prepare(
        load_recording(write(tmp_path, DrawnRecording(worms=(resting, speck)).pictures())), SETTINGS, tmp_path / "p"
    )
    away = np.linalg.norm(prepared.log.centre - midline(5).mean(0), axis=1) * prepared.scale
    assert away.max() < 4


def test_what_lies_in_a_ring_is_round_once_its_middle_is_filled():
    field = np.random.default_rng(0).normal(0, 0.5, (SIZE, SIZE)).astype(np.float32)
    cv2.circle(field, (120, 120), 30, 100.0, 5)
    things = candidates(field, 1, SETTINGS)
    place = Found(np.zeros(3), np.array([0]), 0.0, found=True)
    sight = Sighting([[field]], [[things]], [place], things.mass[:1], np.array([100.0]))
    assert sight.slender() > 5 and sight.solid(0) < 1
