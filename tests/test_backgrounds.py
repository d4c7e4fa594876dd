"""The lab's own background pictures, worms that hardly move, and worms of every size."""

import dataclasses

import cv2
import numpy as np
import pytest
import xarray as xr
from drawn import SIZE, DrawnRecording, midline, write

from midline3d.recording import check, load_recording, prepare
from midline3d.recording.background.bubbles import bare_bubbles, sizes_of_bubbles, without_bubbles
from midline3d.recording.background.registration import translated
from midline3d.recording.background.samples import SampledView
from midline3d.recording.background.signal import Tone
from midline3d.recording.background.static import Standing, unsteadiness
from midline3d.settings import LocatingSettings
from midline3d.synth.dirt import shifted
from midline3d.synth.files import _calibration, simulate
from midline3d.synth.scene import BORDER, Plan, make_scene

SETTINGS = LocatingSettings(background_frames=13)
STANDS_OUT = 8.0
LIGHTS = {
    "the same": lambda picture: picture,
    "brighter": lambda picture: 1.15 * picture,
    "half the exposure": lambda picture: 0.5 * picture,
    "a lamp from the side": lambda picture: picture * np.linspace(0.85, 1.15, SIZE),
    "another black level": lambda picture: picture + 10,
}


def still(frame):
    return midline(0)


def with_backgrounds(folder, pictures, backgrounds):
    """A recording whose cameras have background pictures of their own."""
    write(folder, pictures)
    text = (folder / "recording.toml").read_text()
    for index, picture in enumerate(backgrounds):
        cv2.imwrite(str(folder / f"bg{index}.png"), np.clip(np.rint(picture), 0, 255).astype(np.uint8))
        text = text.replace(f'"cam{index}.npy"', f'"cam{index}.npy"\nbackground = "bg{index}.png"')
    (folder / "recording.toml").write_text(text)
    return folder


def errors(prepared, worm):
    true = np.array([worm(index).mean(0) for index in range(len(prepared))])
    return np.linalg.norm(prepared.log.centre - true, axis=1) * prepared.scale


@pytest.mark.parametrize("light", LIGHTS)
def test_a_still_worm_before_a_picture_of_its_background_in_any_light(tmp_path, light):
    drawn = DrawnRecording(frames=12, worms=(still,))
    empty = DrawnRecording(frames=1, worms=(), seed=drawn.seed).pictures()[:, 0]
    folder = with_backgrounds(tmp_path, drawn.pictures(), [LIGHTS[light](one.astype(float)) for one in empty])
    prepared = prepare(load_recording(folder), SETTINGS, tmp_path / "p")
    assert set(prepared.log.location) == {0}
    assert errors(prepared, still).max() < 3
    assert prepared.window < 160
    assert np.mean([np.median(frame.images) for frame in prepared]) < 4


@pytest.mark.parametrize("picture", ["median", "first"])
def test_a_worm_that_is_on_the_background_picture_is_found_without_it(tmp_path, picture):
    def slow(frame):
        return midline(frame, speed=0.002)

    drawn = DrawnRecording(frames=16, worms=(slow,)).pictures()
    shown = np.median(drawn, 1) if picture == "median" else drawn[:, 0]
    folder = with_backgrounds(tmp_path, drawn, shown)
    prepared = prepare(load_recording(folder), SETTINGS, tmp_path / "p")
    assert errors(prepared, slow).max() < 3
    warnings = [issue.text for issue in check(folder, SETTINGS).issues]
    assert any("background pictures show the worm itself" in text for text in warnings)


@pytest.mark.parametrize(
    ("length", "px_per_mm", "size"),
    [(0.35, 60, 256), (0.35, 260, 528), (1.5, 60, 320), pytest.param(1.5, 260, 1024, marks=pytest.mark.long)],
)
def test_larvae_and_giants_are_found_at_any_magnification(tmp_path, monkeypatch, length, px_per_mm, size):
    from midline3d.synth import scene as synth

    ordinary = synth.Body.random

    def grown(rng):
        body = ordinary(rng)
        # The small are clearer, but not in proportion.
        share = length / body.length
        return dataclasses.replace(
            body, length=length, radius=share * body.radius, absorption=body.absorption * min(1 / share, 1.6)
        )

    monkeypatch.setattr(synth.Body, "random", staticmethod(grown))
    scene = make_scene(Plan("swim", 60, size=size, px_per_mm=px_per_mm, seed=3))
    shown = range(0, 60, 10)
    pictures = np.array([[scene.picture(frame, view) for frame in shown] for view in range(3)])
    folder = write(tmp_path, pictures)
    (folder / "calibration.json").write_text(_calibration(scene.calibration))
    prepared = prepare(load_recording(folder), SETTINGS, tmp_path / "p")
    away = np.linalg.norm(prepared.log.centre - scene.midlines[list(shown)].mean(1), axis=1) * px_per_mm
    assert np.median(away) < 0.1 * length * px_per_mm + 3
    for view in scene.views:  # the whole worm lies in its crops
        projected = view.camera.project(scene.midlines[list(shown)])
        inside = projected - prepared.log.origin[:, scene.views.index(view), None]
        assert (inside > -4).all() and (inside < prepared.window + 3).all()


def test_a_nearly_still_worm_of_the_simulator_before_its_empty_scenery(tmp_path):
    scene = make_scene(Plan("swim", 12, size=320, px_per_mm=90.0, seed=1))
    way = scene.midlines[:1] + 0.02 * (scene.midlines - scene.midlines[:1])
    scene = dataclasses.replace(scene, midlines=way)
    pictures = np.array([[scene.picture(frame, view) for frame in range(12)] for view in range(3)])
    empty = [
        1.1 * view.sensor.expose(shifted(view.backdrop, 320, BORDER, np.zeros(2)), 1.0, np.random.default_rng(view_at))
        for view_at, view in enumerate(scene.views)
    ]
    folder = with_backgrounds(tmp_path, pictures, empty)
    (folder / "calibration.json").write_text(_calibration(scene.calibration))
    prepared = prepare(load_recording(folder), SETTINGS, tmp_path / "p")
    assert set(prepared.log.location) == {0}
    assert (np.linalg.norm(prepared.log.centre - way.mean(1), axis=1) * 90).max() < 9


@pytest.mark.parametrize(
    "plan",
    [
        Plan("varied", 15, seed=2, nuisance="contrast", level=3.0, source="npy"),
        Plan("clean", 3, size=256, px_per_mm=80.0, source="npy"),
    ],
    ids=["faint", "three frames"],
)
def test_a_worm_that_hardly_moves_does_not_burn_in(tmp_path, plan):
    prepared = prepare(load_recording(simulate(tmp_path / "film", plan)), LocatingSettings(), tmp_path / "p")
    truth = xr.load_dataset(tmp_path / "film" / "truth.nc")["projection"][:, :, 12:-12].to_numpy()
    for view in range(3):
        places = np.rint(truth[:, view] - prepared.log.origin[:, view, None]).astype(int)
        smooth = [cv2.GaussianBlur(np.asarray(frame.images[view], np.float32), (0, 0), 1.5) for frame in prepared]
        light = np.array([one[at[:, 1], at[:, 0]] for one, at in zip(smooth, places, strict=True)])
        assert np.mean(light < 0.4 * np.median(light)) < 0.05


def without_worm(standing, masks, **seen):
    """What is background of the things that stand still in one view."""
    return standing.without_worm(masks, standing.at_rest(masks, **seen))


def test_still_parts_of_the_worm_are_not_dirt_and_dirt_that_it_touches_is():
    usual, things = np.zeros((80, 80), np.float32), np.zeros((80, 80), np.bool_)
    usual[20:30, 5:60] = 20  # a worm, of which the middle is still
    things[23:27, 20:40] = True
    dirt = cv2.circle(np.zeros((80, 80), np.uint8), (50, 34), 3, 1, -1) > 0
    usual[dirt], things[dirt] = 40, True
    glint = cv2.circle(np.zeros((80, 80), np.uint8), (12, 25), 2, 1, -1) > 0
    usual[glint], things[glint] = -40, True
    always = np.ones((9, 80, 80), np.bool_)
    standing = Standing(usual[None], usual, things, STANDS_OUT)
    np.testing.assert_array_equal(without_worm(standing, always, mass=1e3), dirt | glint)
    np.testing.assert_array_equal(without_worm(standing, ~always, mass=1e3), things)
    np.testing.assert_array_equal(without_worm(standing, always, mass=1.0), glint)  # as heavy as the worm: the worm


def test_fibres_that_cross_where_the_worm_is_are_dirt_however_heavy():
    usual, things = np.zeros((80, 200), np.float32), np.zeros((80, 200), np.bool_)
    usual[38:42], things[38:42] = 60, True
    usual[:, 98:102], things[:, 98:102] = 60, True
    around = np.zeros((9, 80, 200), np.bool_)
    around[:, 20:60, 70:130] = True
    standing = Standing(usual[None], usual, things, STANDS_OUT)
    np.testing.assert_array_equal(without_worm(standing, around, mass=1.0), things)
    around[:, 20:60, 20:180] = True  # most of it: a worm at rest, with what touches it
    assert not without_worm(standing, around, mass=1.0).any()


def test_what_lies_near_a_worm_that_was_seen_whole_is_dirt():
    fibre, worm = np.zeros((2, 80, 200), np.bool_)
    fibre[20:24, 40:160] = True
    worm[40:46, 60:120] = True
    usual = np.where(fibre | worm, 60, 0).astype(np.float32)
    standing = Standing(usual[None], usual, fibre | worm, STANDS_OUT)
    near = np.ones((9, 80, 200), np.bool_)
    assert not without_worm(standing, near, mass=1.0).any()  # either may be the worm at rest
    seen = np.repeat(worm[None], 9, 0)
    np.testing.assert_array_equal(without_worm(standing, near, mass=1.0, itself=seen), fibre)


def test_things_at_rest_may_change_as_much_as_most_of_them_seem_to_move():
    light = np.full((400, 400), 150, np.float32)
    for row in range(40, 400, 64):
        for column in range(40, 400, 64):
            cv2.circle(light, (column, row), 6, 60, -1)
    light = cv2.GaussianBlur(light, (0, 0), 1.2)
    steep = np.abs(cv2.Sobel(light, cv2.CV_32F, 1, 0, scale=1 / 8)) > 5
    assert not unsteadiness(light, np.zeros_like(light)).any()
    shaken = [translated(light, np.array([across, down])) for across in (-0.6, 0.6) for down in (-0.6, 0.6)]
    change = np.ptp(shaken, axis=0)
    allowed = unsteadiness(light, change)
    assert (allowed[steep] > change[steep]).mean() > 0.6
    assert (unsteadiness(light, change / 4) == 0).all()  # as exactly as pictures are registered
    few = np.where(np.arange(400)[:, None] < 80, light, 150).astype(np.float32)
    assert not unsteadiness(few, change).any()  # one of few may be the worm


def test_a_heavy_bubble_beside_a_worm_that_is_stretched_out_is_dirt():
    ring = cv2.circle(np.zeros((80, 80), np.uint8), (40, 40), 15, 1, 4) > 0
    usual = np.where(ring, 60, 0).astype(np.float32)
    around = np.ones((9, 80, 80), np.bool_)
    standing = Standing(usual[None], usual, ring, STANDS_OUT)
    np.testing.assert_array_equal(without_worm(standing, around, mass=1.0, slender=True), ring)
    assert not without_worm(standing, around, mass=1.0, slender=False).any()  # it may be a worm that lies coiled
    usual[64:72, 5:75] = 60  # a worm that lies beside it
    beside = without_worm(Standing(usual[None], usual, usual > 0, STANDS_OUT), around, mass=1.0, slender=True)
    np.testing.assert_array_equal(beside, ring)


def bubble_and_worm(middle):
    """(sample, height, width) a worm that swims past a bubble, which it always comes near and sometimes covers; 60 is
    as dark as the worm, and the bubble's middle has this much."""
    pictures = []
    for sample in range(16):
        picture = np.zeros((90, 120), np.float32)
        cv2.circle(picture, (60, 45), 5, middle, -1)
        cv2.circle(picture, (60, 45), 9, 60, 4)
        down = 66 + 5 * (sample % 3) if sample < 11 else 45
        cv2.line(picture, (5 + 4 * sample, down), (50 + 4 * sample, down), 60, 6)
        pictures.append(cv2.GaussianBlur(picture, (0, 0), 1.0))
    return np.stack(pictures)


def test_a_bubble_is_known_by_its_light_middle_where_the_worm_comes_near_it():
    fields = bubble_and_worm(middle=-50)
    bare = bare_bubbles(fields, np.median(fields, 0), STANDS_OUT)
    ring = cv2.circle(np.zeros((90, 120), np.uint8), (60, 45), 10, 1, -1) > 0
    beside = cv2.circle(np.zeros((90, 120), np.uint8), (60, 45), 15, 1, -1) == 0
    assert bare[:11, ring].all()
    assert not bare[11:14].any()  # the worm lies before it
    assert not bare[:, beside].any()


def test_what_has_no_light_middle_may_be_a_coil():
    fields = bubble_and_worm(middle=0)
    assert bare_bubbles(fields, np.median(fields, 0), STANDS_OUT) is None
    fringe = bubble_and_worm(middle=-15)
    assert bare_bubbles(fringe, np.median(fringe, 0), STANDS_OUT) is None
    curled = bubble_and_worm(middle=-30)
    curled[:, 40:60, 44:62] = 0  # a ring that is open on one side, around light
    curled[:, 44:47, 59:62] = -30
    assert bare_bubbles(curled, np.median(curled, 0), STANDS_OUT) is None
    far = np.zeros((16, 90, 120), np.float32)
    far[:, 40:50, 40:50] = -60  # light without a ring
    assert bare_bubbles(far, far[0], STANDS_OUT) is None


def drifting_bubble(samples=12, middle=-50):
    """(sample, height, width) a bubble that drifts over a worm's tail."""
    pictures = []
    for sample in range(samples):
        picture = np.zeros((90, 120), np.float32)
        cv2.circle(picture, (30 + 3 * sample, 40 + sample), 5, middle, -1)
        cv2.circle(picture, (30 + 3 * sample, 40 + sample), 9, 90, 4)
        pictures.append(cv2.GaussianBlur(picture, (0, 0), 1.0))
    return np.stack(pictures)


def test_a_bubble_that_drifts_is_taken_off_every_frame_and_the_worm_is_left():
    worm = np.zeros((90, 120), np.float32)
    cv2.line(worm, (15, 68), (105, 58), 60, 5)
    worm = cv2.GaussianBlur(worm, (0, 0), 1.0)
    fields = drifting_bubble() + worm
    sizes = sizes_of_bubbles(list(fields), STANDS_OUT, worm=0)
    assert len(sizes) == 1 and 10 < sizes[0] < 15
    left = np.stack([without_bubbles(field, sizes, STANDS_OUT) for field in fields])
    assert np.abs(fields - worm).max() > 80
    assert np.abs(left - worm).max() < 20
    np.testing.assert_array_equal(without_bubbles(fields[0], [], STANDS_OUT), fields[0])
    np.testing.assert_array_equal(without_bubbles(fields[0], [3 * sizes[0]], STANDS_OUT), fields[0])


def test_a_ring_that_few_samples_show_may_be_a_worm_that_is_curled_up():
    fields = drifting_bubble()
    fields[5:] = 0
    assert sizes_of_bubbles(list(fields), STANDS_OUT, worm=1000) == []
    assert sizes_of_bubbles([], STANDS_OUT, worm=1000) == []


def test_a_middle_that_is_hardly_lighter_is_a_bubble_s_within_a_closed_ring_that_is_not_all_of_the_worm():
    fields = drifting_bubble(middle=-22)
    sizes = sizes_of_bubbles(list(fields), STANDS_OUT, worm=1000)
    assert len(sizes) == 1
    assert np.abs(without_bubbles(fields[3], sizes, STANDS_OUT)).max() < 20
    assert sizes_of_bubbles(list(fields), STANDS_OUT, worm=200) == []  # it may be the worm itself
    uneven = [field * np.where(np.arange(120) < 30 + 3 * sample, 0.7, 1) for sample, field in enumerate(fields)]
    assert sizes_of_bubbles(uneven, STANDS_OUT, worm=1000) == []
    assert sizes_of_bubbles(list(drifting_bubble(middle=-5)), STANDS_OUT, worm=1000) == []


def test_a_bubble_that_the_worm_never_leaves_is_background():
    pictures = 150 * (1 - bubble_and_worm(middle=-50) / 255)
    view = SampledView(pictures.astype(np.float32), Tone("dark", 255.0), 1, SETTINGS)
    view.moving()
    worm = np.zeros(pictures.shape, np.bool_)
    worm[:, 30:88] = True  # worm and bubble taken for one
    fields = np.stack(view.against_background(view.still(worm, mass=200.0, slender=True)))
    ring = cv2.circle(np.zeros((90, 120), np.uint8), (60, 45), 10, 1, -1) > 0
    assert np.abs(fields[:11, ring]).max() < 10
    assert fields[0, 66, 10:45].min() > 40
