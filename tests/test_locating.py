"""The worm among dirt: backgrounds without it, candidates, joint readings, and a way through time."""

from dataclasses import replace
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import torch
from drawn import SIZE, DrawnRecording, centre, midline, rig, write

from midline3d import cameras as torch_cameras
from midline3d.calibration import Calibration, make_camera
from midline3d.cameras import Cameras
from midline3d.errors import InputError
from midline3d.recording import load_recording, prepare
from midline3d.recording.background.light import Background, fill, light_field, masked_median, sorted_stack
from midline3d.recording.background.ranks import deviation_of, median, middle_and_quantile
from midline3d.recording.background.registration import registration_of, texture_of, translated
from midline3d.recording.locating.locator import Locator
from midline3d.recording.locating.places import ABSENT, Decider, Expected, Found, Places, candidates, combine
from midline3d.recording.locating.sighting import Sighting
from midline3d.recording.pinholes import Pinholes, project, triangulate
from midline3d.recording.sources import side_by_side
from midline3d.settings import LocatingSettings

SETTINGS = LocatingSettings(background_frames=13)  # half the default's: quick


def prepared_drawing(folder, drawn, extra="", calibration=None):
    return prepare(load_recording(write(folder, drawn.pictures(), extra, calibration)), SETTINGS, folder / "prepared")


def errors(prepared, worm=midline):
    """px: distance of every frame's centre from the true one."""
    true = np.array([worm(index).mean(0) for index in range(len(prepared))])
    return np.linalg.norm(prepared.log.centre - true, axis=1) * prepared.scale


# --- background -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2, 5, 8, 25])
def test_sorting_network_and_masked_median(number):
    rng = np.random.default_rng(number)
    stack = rng.integers(0, 255, (number, 9, 11), np.uint8)
    np.testing.assert_array_equal(sorted_stack(stack), np.sort(stack, 0))
    covered = rng.random(stack.shape) < 0.4
    covered[0] = False
    middle, count = masked_median(stack, covered)
    np.testing.assert_array_equal(middle, np.ma.median(np.ma.array(stack.astype(float), mask=covered), axis=0))
    np.testing.assert_array_equal(count, number - covered.sum(0))


def test_light_is_filled_from_around():
    y, x = np.mgrid[:200, :200].astype(np.float32)
    light = 150 + 0.1 * x - 0.05 * y + 20 * np.exp(-((x - 80) ** 2 + (y - 90) ** 2) / (2 * 120**2))
    known = ~((np.abs(x - 100) < 15) & (np.abs(y - 100) < 60))
    holes = np.where(known, light, 0).astype(np.float32)
    assert np.abs(fill(holes, known, 12.0) - light).max() < 0.5
    spotted = light.copy()
    cv2.circle(spotted, (60, 60), 8, 20, -1)
    assert np.abs(light_field(spotted, 0.2) - light).max() < 8


def test_background_changes_linearly():
    background = Background(np.array([10.0, 20.0]), np.stack([np.zeros((2, 2)), np.ones((2, 2))]).astype(np.float32))
    assert [background.at(frame)[0, 0] for frame in (0, 10, 15, 30)] == [0, 0, 0.5, 1]


def test_a_frame_has_the_same_background_whichever_was_seen_before():
    rng = np.random.default_rng(0)
    background = Background(np.array([0.0, 100.0]), rng.uniform(50, 200, (2, 40, 40)).astype(np.float32))
    survey = SimpleNamespace(backgrounds=[background], factor=2)

    def behind(order):
        locator = Locator(rig().to_cameras(), survey, SETTINGS)
        return {frame: locator._behind(0, frame)[0] for frame in order}

    forwards, backwards = behind(range(20)), behind(range(19, 6, -1))
    assert all((forwards[frame] == backwards[frame]).all() for frame in backwards)
    assert (forwards[0] == forwards[3]).all() and (forwards[0] != forwards[4]).any()


def test_shake_is_measured_on_still_dirt():
    scene = DrawnRecording(frames=1, worms=(), dirt=40, noise=0).pictures()[0, 0].astype(np.float32)
    texture = texture_of(scene)
    displaced = translated(scene, np.array([1.3, -0.6]))
    np.testing.assert_allclose(registration_of(displaced, texture, 1.0), [1.3, -0.6], atol=0.1)
    fibre = np.full((SIZE, SIZE), 150, np.float32)
    points = np.stack([100 + 12 * np.sin(np.arange(200) / 25), 60 + np.arange(200)], -1)
    cv2.polylines(fibre, [points.astype(np.int32)], False, 80, 2, cv2.LINE_AA)
    fibre = cv2.GaussianBlur(fibre, (0, 0), 1.0)  # thinner than the shake is wide: at first hardly anything fits
    shaken = translated(fibre, np.array([2.2, -1.4]))
    np.testing.assert_allclose(registration_of(shaken, texture_of(fibre), 1.0), [2.2, -1.4], atol=0.1)
    even = np.full((SIZE, SIZE), 150, np.float32)
    assert texture_of(even) is None
    np.testing.assert_array_equal(registration_of(even, None, 1.0), 0)


def signal_error(prepared, drawn):
    """Largest mean difference of the crops from the drawn without dirt, noise and light, in any view of some frames."""
    plain = DrawnRecording(frames=drawn.frames, dirt=0, noise=0, worms=drawn.worms, light=200.0)
    worst = 0.0
    pictures, empty = plain.pictures(), DrawnRecording(frames=1, dirt=0, noise=0, worms=(), light=200.0).pictures()
    for index in (0, len(prepared) // 2, len(prepared) - 1):
        frame = prepared[index]
        for view, image in enumerate(frame.images):
            left, top = frame.origin[view].astype(int)
            part = (slice(max(top, 0), top + len(image)), slice(max(left, 0), left + len(image)))
            true = 255 * (1 - pictures[view, index][part] / np.maximum(empty[view, 0][part], 1.0))
            seen = image[max(0, -top) :, max(0, -left) :][: true.shape[0], : true.shape[1]]
            worm = cv2.dilate((true > 20).astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
            worst = max(worst, abs(float((seen[worm] - true[worm]).mean())))
    return worst


@pytest.mark.parametrize("speed", [0.0, 0.003])
def test_a_slow_worm_does_not_burn_in(tmp_path, speed):
    drawn = DrawnRecording(frames=20, dirt=0, worms=(lambda frame: midline(frame, speed) if speed else midline(0),))
    prepared = prepared_drawing(tmp_path, drawn)
    assert signal_error(prepared, drawn) < 4
    assert np.nanmax(errors(prepared, drawn.worms[0])) < 3


def seen_things(*boxes, size=(300, 400)):
    """A sighting of one view and sample: things of full light, the first of which is taken for the worm."""
    field = np.random.default_rng(0).normal(0, 5, size).astype(np.float32)
    for left, top, right, bottom in boxes:
        field[top:bottom, left:right] += 100
    things = candidates(field, 1, LocatingSettings())
    first = int(things.label[boxes[0][1] + 2, boxes[0][0] + 2])
    place = Found(np.zeros(3), np.array([things.name.tolist().index(first)]), 0.0, found=True)
    return Sighting([[field]], [[things]], [place], things.mass[place.choice], np.array([100.0]))


def test_a_part_lies_within_the_whole_and_a_neighbour_does_not():
    whole, part, beside = ((10, 20, 60, 28),), ((10, 20, 30, 28),), ((10, 40, 30, 48),)
    assert seen_things(*part).lies_within(seen_things(*whole))
    assert not seen_things(*whole).lies_within(seen_things(*part))
    assert not seen_things(*beside).lies_within(seen_things(*whole))


# --- candidates and places ------------------------------------------------------------------------------------------


def test_candidates_are_things_in_full_pixels():
    field = np.zeros((60, 80), np.float32)
    field += np.random.default_rng(0).normal(0, 0.5, field.shape).astype(np.float32)
    field[20:30, 40:60] += 100
    field[50:53, 5:8] += 60
    found = candidates(field, 2, SETTINGS)
    assert len(found) == 2
    np.testing.assert_allclose(found.centre[0], [99.5, 49.5], atol=0.3)
    assert found.mass[0] > 5 * found.mass[1]
    assert found.pixels(0)[25, 50]
    assert not found.pixels(ABSENT).any()
    assert len(candidates(np.zeros((60, 80), np.float32), 2, SETTINGS)) == 0


def test_a_faint_worm_among_heavier_discs_is_a_candidate_and_the_likeliest():
    field = np.random.default_rng(0).normal(0, 0.5, (200, 200)).astype(np.float32)
    for index in range(10):
        cv2.circle(field, (20 + 38 * (index % 5), 25 + 40 * (index // 5)), 6, 90, -1)
    cv2.line(field, (60, 140), (110, 150), 30, 3)
    found = candidates(field, 1, SETTINGS)
    worm = int(np.argmax(found.slender))
    assert len(found) == SETTINGS.candidates and found.slender[worm] > 3
    np.testing.assert_allclose(found.centre[worm], [85, 145], atol=1.5)
    assert (np.diff(found.mass) <= 0).all() and found.mass[worm] < 0.8 * found.mass[0]
    as_heavy = replace(found, mass=np.ones(len(found)))
    for expected in (Expected(np.ones(1)), Expected(np.ones(1), certain=False)):
        scores = expected.score(as_heavy, 0, SETTINGS)
        assert scores[worm] == 0 and -3 < np.delete(scores, worm).max() < -1


@pytest.mark.parametrize("thickness", [-1, 4])
def test_before_its_mass_is_known_a_worm_is_likelier_than_a_disc_or_a_ring_of_four_times_its_mass(thickness):
    field = np.random.default_rng(0).normal(0, 0.5, (200, 200)).astype(np.float32)
    cv2.circle(field, (40, 40), 12, 120 if thickness < 0 else 150, thickness)
    cv2.line(field, (60, 140), (130, 150), 40, 4)
    found = candidates(field, 1, SETTINGS)
    assert len(found) == 2 and 3 < found.mass[0] / found.mass[1] < 6
    np.testing.assert_allclose(found.centre[1], [95, 145], atol=1.5)
    assert (found.solid < 1.5).tolist() == [True, False]
    heaviest, worm = Expected(found.weight()[:1], certain=False).score(found, 0, SETTINGS)
    assert worm > heaviest + 0.5


def place(x, score=0.0):
    return Places(np.array([[x, 0.0, 0.0]]), np.zeros((1, 3), np.int64), np.zeros(1), np.array([score]))


def test_a_jump_away_for_one_frame_is_not_believed():
    decider = Decider(10, SETTINGS, 0.05)
    for frame in range(9):
        here = place(0.01 * frame)
        if frame == 4:  # something heavier lies elsewhere
            here = Places(
                np.array([[0.04, 0, 0], [3.0, 0, 0]]), np.zeros((2, 3), np.int64), np.zeros(2), np.array([-5.0, 0.0])
            )
        assert decider.add(here) is None
    found = decider.finish()
    np.testing.assert_allclose([one.point[0] for one in found], 0.01 * np.arange(9))


def test_frames_without_a_place_are_not_found():
    decider = Decider(3, SETTINGS, 0.05)
    empty = Places(np.zeros((0, 3)), np.zeros((0, 3), np.int64), np.zeros(0), np.zeros(0))
    found = [decider.add(one) for one in (place(0.0), empty, place(0.01), place(0.02))]
    found = [one for one in found if one] + decider.finish()
    assert [one.found for one in found] == [True, False, True, True]


def test_views_may_be_off_by_fifteen_pixels_or_miss_the_worm():
    pinholes = Pinholes.of(rig().to_cameras())
    field = np.random.default_rng(0).normal(0, 0.5, (SIZE, SIZE)).astype(np.float32)
    views = []
    for shift in (0, 12, 0):
        shown = field.copy()
        cv2.ellipse(shown, (120 + shift, 120), (30, 4), 0, 0, 360, 120.0, -1)
        cv2.circle(shown, (40, 200), 3, 120.0, -1)
        views.append(candidates(shown, 1, SETTINGS))
    mass = np.full(3, views[0].mass[0])
    best = combine(pinholes, views, Expected(mass, certain=False), SETTINGS)
    assert best.choice[0].tolist() == [0, 0, 0]
    assert np.linalg.norm(best.point[0]) < 0.2
    nothing = candidates(field, 1, SETTINGS)
    partial = combine(pinholes, [views[0], nothing, views[2]], Expected(mass), SETTINGS)
    assert partial.choice[0].tolist() == [0, ABSENT, 0]


@pytest.mark.parametrize("used", [[0, 1, 2], [0, 2]])
def test_plain_cameras_see_what_the_rig_sees(used):
    """Projections to 1e-9 px and points to 1e-12 mm, with a distortion of some px at the corners."""
    rng = np.random.default_rng(4)
    lenses = [
        replace(camera, distortions=np.append(rng.normal(0, scale), rng.normal(0, 0.2, 4)))
        for camera, scale in zip(rig().cameras, (1500, 500, 0), strict=True)
    ]
    cameras = Calibration(tuple(lenses)).to_cameras()
    index = torch.tensor(used)
    part = Cameras(*(values[:, index] for values in list(vars(cameras).values())[:5]), cameras.shift_basis[index])
    pinholes = Pinholes.of(cameras).only(np.array(used))
    points = rng.normal(0, 0.5, (40, 3))
    pixels = torch_cameras.project(part, torch.from_numpy(points)[None])[0].transpose(0, 1).numpy()
    np.testing.assert_allclose(project(pinholes, points), pixels, rtol=0, atol=1e-9)
    np.testing.assert_allclose(triangulate(pinholes, pixels), points, rtol=0, atol=1e-11)
    pixels = pixels + rng.normal(0, 8, pixels.shape)
    for steps in (1, 4):
        expected = torch_cameras.triangulate(part, torch.from_numpy(pixels), steps).numpy()
        np.testing.assert_allclose(triangulate(pinholes, pixels, steps), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("number", [1, 2, 3, 10, 1931])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_ranks_are_those_of_numpy(number, kind):
    values = np.random.default_rng(number).normal(100, 30, number).astype(kind)
    assert median(values) == np.median(values) and median(values).dtype == kind
    away = np.abs(values - np.median(values))
    for share in (0.0, 0.5, 0.9, 1.0):
        assert deviation_of(np.sort(values), share) == np.quantile(away, [share])[0]


@pytest.mark.parametrize("number", [1, 2, 9, 32])
def test_layers_have_the_ranks_of_numpy(number):
    layers = np.random.default_rng(number).normal(100, 30, (number, 40)).astype(np.float32)
    for share in (0.0, 1 - 0.9, 0.5, 0.8, 1.0):
        middle, quantile = middle_and_quantile(layers, share)
        assert np.array_equal(middle, np.median(layers, 0)) and middle.dtype == np.float32
        np.testing.assert_allclose(quantile, np.quantile(layers, share, axis=0), rtol=1e-6)


def test_a_thing_is_as_slender_as_among_all_others():
    """Its width is measured in its own box: what lies around must not matter, nor a border that cuts it."""
    field = np.random.default_rng(0).normal(0, 0.5, (SIZE, SIZE)).astype(np.float32)
    cv2.ellipse(field, (120, 120), (60, 9), 30, 0, 360, 120.0, -1)
    alone = candidates(field, 1, SETTINGS)
    cv2.circle(field, (120, 175), 12, 120.0, -1)
    cv2.circle(field, (0, 20), 15, 120.0, -1)
    among = candidates(field, 1, SETTINGS)
    assert len(alone) == 1 and len(among) == 3
    assert among.slender[0] == pytest.approx(alone.slender[0], rel=0.02)
    depth = cv2.distanceTransform(np.isin(among.label, among.name).astype(np.uint8), cv2.DIST_L2, 3)
    for thing, slender in enumerate(among.slender):
        area, widest = among.pixels(thing).sum(), 2 * depth[among.pixels(thing)].max() - 1
        assert slender == pytest.approx(area / widest**2, rel=0.1)


def test_pictures_worked_on_within_a_picture_do_not_wait_for_each_other():
    sums = side_by_side(lambda start: sum(side_by_side(lambda more: start + more, range(3))), range(40))
    assert sums == [3 * start + 3 for start in range(40)]


# --- whole recordings -----------------------------------------------------------------------------------------------


def test_among_much_dirt_with_a_wrong_calibration(tmp_path):
    wrong = []
    for index, camera in enumerate(rig().cameras):
        matrix = camera.matrix.copy()
        matrix[:2, 2] += [(-6, 5), (7, -4), (3, 8)][index]
        wrong.append(make_camera("test", camera.name, camera.size, matrix, [], camera.rotation, camera.translation))
    prepared = prepared_drawing(tmp_path, DrawnRecording(dirt=60, noise=2.0), calibration=Calibration(tuple(wrong)))
    assert set(prepared.log.location) == {0}
    assert np.median(prepared.log.residual) > 2
    projected = prepared.log.origin + (prepared.window - 1) / 2
    for index in (0, 12, 23):  # the crops still lie around the worm in every view
        for view, camera in enumerate(rig().cameras):
            seen = centre(index) @ camera.rotation.T + camera.translation
            true = (camera.matrix @ (seen / seen[2]))[:2]
            assert np.abs(projected[index, view] - true).max() < 15


def test_bright_worm_is_told_by_itself(tmp_path):
    prepared = prepared_drawing(tmp_path, DrawnRecording(bright=True, light=120.0))
    assert prepared.side == "bright"
    assert errors(prepared).max() < 3


def test_light_that_drifts(tmp_path):
    pictures = DrawnRecording(frames=20).pictures()
    time, across = np.linspace(-1, 1, 20)[:, None, None], np.linspace(-1, 1, SIZE)
    slope = (1 + 0.2 * time) * (1 + 0.1 * time * across)
    pictures = np.clip(pictures * slope, 0, 255).astype(np.uint8)
    recording = load_recording(write(tmp_path, pictures))
    prepared = prepare(recording, LocatingSettings(block=10, background_frames=10), tmp_path / "p")
    assert errors(prepared).max() < 3
    assert np.mean([np.median(frame.images) for frame in prepared]) < 3


def test_two_worms_one_is_followed_throughout(tmp_path):
    def other(frame):
        return midline(-frame) + np.array([0.4, -0.7, 0.75])

    prepared = prepared_drawing(tmp_path, DrawnRecording(worms=(midline, other)))
    away = np.stack([errors(prepared), errors(prepared, other)])
    assert away.min(0).max() < 4
    assert len(set(away.argmin(0))) == 1


def test_a_worm_that_leaves_is_lost_and_not_guessed(tmp_path):
    def leaving(frame):
        return midline(frame, speed=0.11)

    prepared = prepared_drawing(tmp_path, DrawnRecording(frames=36, worms=(leaving,)))
    location = [frame.location for frame in prepared]
    assert location[0] == "located"
    assert location[-1] == "not located"
    assert np.isnan(prepared[-1].centre).all()


def test_no_worm_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="do the views agree on a worm"):
        prepared_drawing(tmp_path, DrawnRecording(frames=10, worms=(), dirt=0))


def test_two_cameras_are_enough(tmp_path):
    prepared = prepared_drawing(tmp_path, DrawnRecording(frames=12, cameras=2))
    assert errors(prepared).max() < 3
