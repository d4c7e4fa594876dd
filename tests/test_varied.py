"""Varied recordings: what is drawn is what the truth says, and a population holds every family."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
import xarray as xr

from midline3d.errors import InputError
from midline3d.synth import FAMILIES, Plan, family_of, simulate
from midline3d.synth.anatomy import carried_normals, particles, posture
from midline3d.synth.body import arc_length
from midline3d.synth.families import draw_nuisances
from midline3d.synth.gait import clearance
from midline3d.synth.imaging import Defocus, make_veil, worm_density
from midline3d.synth.rig import Camera
from midline3d.synth.varied import VariedScene, make_varied_scene


def plan(family: str, seed: int = 1, frames: int = 5, size: int = 320) -> Plan:
    return Plan("varied", frames=frames, size=size, seed=seed, family=family, source="npy")


def angles(scene: VariedScene) -> np.ndarray:
    axes = np.array([view.camera.rotation[2] for view in scene.views])
    return np.degrees(np.arccos((axes @ axes.T)[np.triu_indices(len(axes), 1)]))


def test_a_population_holds_every_family_in_either_half() -> None:
    for half in (0, 1):
        drawn = [family_of(seed) for seed in range(half, 4 * len(FAMILIES), 2)]
        assert {drawn.count(family) for family in FAMILIES} == {2}


def test_nuisances_stay_in_their_ranges() -> None:
    for seed in range(4 * len(FAMILIES)):
        drawn = draw_nuisances(seed, None, 512)
        body, views = drawn.body, len(drawn.rig.px_per_mm)
        assert 0.35 <= body.length <= 1.5 and 0.05 <= 2 * body.radius / body.length <= 0.08
        assert 2 <= views <= 4 and all(60 <= scale <= 260 for scale in drawn.rig.px_per_mm)
        assert all(len(some) == views for some in (drawn.optics.blur, drawn.optics.veil, drawn.rig.distance))
        assert max(drawn.optics.veil) <= 0.12 and drawn.optics.contrast >= 8 and drawn.rig.calibration_error <= 10
        assert json.loads(json.dumps(drawn.describe()))["family"] == family_of(seed)


@pytest.mark.parametrize("disc", [False, True])
@pytest.mark.parametrize("turn", [1e-6, 2.0, -4.0])
@pytest.mark.parametrize("rim", [0.0, 1.0])
def test_the_body_is_drawn_on_its_midline(turn: float, disc: bool, rim: float) -> None:
    """Profiles across an arc in the picture's plane, moving along it while the picture is taken."""
    drawn = draw_nuisances(3, "plain", 512)
    body = replace(drawn.body, length=1.0, radius=0.03, absorption=8.0)
    inside = replace(drawn.inside, rim=rim, granules=0, lumps=0)
    matrix = np.array([[150e3, 0, 200], [0, 150e3, 200], [0, 0, 1]], dtype=float)
    camera = Camera("cam0", 401, matrix, np.zeros(5), np.eye(3), np.array([0, 0, 1000.0]))
    moments = [arc(turn, at) for at in (-0.02, 0.0, 0.02)]
    normals = carried_normals(moments[1][None])[:, 0]
    solid = particles(body, inside, 350.0, np.random.default_rng(0))
    pose = posture(np.stack(moments), normals, solid.s)
    axis = 200 + 150 * moments[1][:, :2] + [0.3, -0.2]
    offset = {}
    for sharpest in (0.6, 0.9):
        lens = Defocus(focus=1000.0, sharpest=sharpest, softening=0.0, most=2.0, disc=disc)
        density = worm_density(camera, lens, solid, pose, np.array([0.3, -0.2]), 401)
        offset[sharpest] = np.mean([centre_across(density, axis, node) for node in range(80, 321, 4)])
    # Blur moves what is curved, by its variance: take that away by going to a blur of zero.
    assert abs(offset[0.6] - (offset[0.9] - offset[0.6]) * 0.6**2 / (0.9**2 - 0.6**2)) < 0.02


def arc(turn: float, start: float) -> np.ndarray:
    """A midline (node, 3) 1 mm long in the XY plane that turns by `turn` radians in all, shifted along itself."""
    s = np.linspace(-0.5, 0.5, 401) + start
    return np.stack([np.sin(turn * s), 1 - np.cos(turn * s), 0 * s], -1) / turn


def centre_across(density: np.ndarray, axis: np.ndarray, node: int) -> float:
    """px by which the density's centre lies beside the midline."""
    way = axis[node + 1] - axis[node - 1]
    normal = np.array([-way[1], way[0]]) / np.linalg.norm(way)
    across = np.arange(-12, 12.01, 0.1)
    u, v = (axis[node] + across[:, None] * normal).astype(np.float32).T
    profile = cv2.remap(density, u[None], v[None], cv2.INTER_LINEAR)[0]
    return float((profile * across).sum() / profile.sum())


def test_what_leaves_the_lens_is_what_the_truth_says() -> None:
    """The whole chain: the worm's centre of mass in a picture is where its midline is, shake included."""
    for family in ("plain", "fast", "veil", "still"):
        scene = make_varied_scene(plan(family, seed=4, size=400))
        for view in range(len(scene.views)):
            density = scene._worm(2, view)
            rows, columns = np.mgrid[:400, :400]
            seen = np.array([(density * columns).sum(), (density * rows).sum()]) / density.sum()
            s = np.linspace(0, 1, 401)
            share = scene.body.absorption_at(s) * scene.body.radius_at(s) ** 2
            line = scene.views[view].camera.project(scene.midlines[2]) + scene.views[view].vibration[2]
            expected = (share[:, None] * line).sum(0) / share.sum()
            assert np.linalg.norm(seen - expected) < 0.8, family  # the gut's grains lie where they lie


def test_defocus_keeps_the_light_and_spreads_it_as_it_says() -> None:
    point = np.zeros((101, 101), np.float32)
    point[50, 50] = 1
    x = np.arange(101) - 50
    for disc in (False, True):
        lens = Defocus(focus=0.0, sharpest=0.8, softening=1.0, most=6.0, disc=disc)
        seen = lens.apply(point, 4.0)
        assert seen.sum() == pytest.approx(1, abs=1e-3)
        assert np.sqrt((seen.sum(0) * x**2).sum()) == pytest.approx(4.0, rel=0.03)
    assert seen[50, 52] == pytest.approx(seen[50, 50], rel=0.02), "a disc is flat"


def test_a_veil_scatters_its_share_and_no_more() -> None:
    light = np.full((200, 200), 100, np.float32)
    light[90:110, 90:110] = 20
    for one_sided in (False, True):
        seen = make_veil(0.1, 12.0, one_sided, angle=0.0).apply(light)
        assert seen.mean() == pytest.approx(light.mean(), rel=2e-3)
        beside = seen[100, [81, 118]]
        assert seen[100, 100] > 25 and 90 < beside.min() < 99.5
        assert (np.ptp(beside) > 0.5) == one_sided


def test_grains_stay_with_the_body() -> None:
    scene = make_varied_scene(plan("rims", frames=8))
    normals = carried_normals(scene.midlines)[0]
    turned = np.degrees(np.arccos(np.clip((normals[1:] * normals[:-1]).sum(-1), -1, 1)))
    assert turned.max() < 40


def test_a_coil_touches_itself_and_does_not_pass_through() -> None:
    seed = next(s for s in range(40) if draw_nuisances(s, "coil", 512).motion.contact)
    scene = make_varied_scene(plan("coil", seed, frames=12, size=512))
    gap = clearance(scene.midlines, scene.body.radius_at(np.linspace(0, 1, 401)))
    assert 0 <= gap < 0.5 * scene.body.radius


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rigs(seed: int) -> None:
    assert np.all(angles(make_varied_scene(plan("four", seed, frames=1))) > 59.9)
    two = angles(make_varied_scene(plan("two", seed, frames=1)))
    assert len(two) == 1 and 59.9 < two[0] < 110.1


def test_a_worm_leaves_and_comes_back(tmp_path: Path) -> None:
    seed = next(s for s in range(40) if draw_nuisances(s, "leave", 512).motion.leaves == "all")
    folder = simulate(tmp_path / "leave", plan("leave", seed, frames=30, size=400))
    truth = xr.load_dataset(folder / "truth.nc")
    gone = truth.outside.values.all(1)
    assert truth.attrs["family"] == "leave" and 1 <= gone.sum() <= 20
    assert not gone[0] and not gone[-1] and (truth.inside.values[0] == 1).all()
    pictures = np.load(folder / "cam0.npy").astype(float)
    middle = int(np.flatnonzero(truth.inside.values[:, 0] == 0).mean())
    scene = make_varied_scene(plan("leave", seed, frames=30, size=400))
    assert scene._worm(middle, 0).max() < 0.01 < scene._worm(0, 0).max()
    assert pictures.std() > 1


def test_files_of_a_varied_recording(tmp_path: Path) -> None:
    folder = simulate(tmp_path / "video", replace(plan("video", frames=6), source="avi"))
    description = tomllib.loads((folder / "recording.toml").read_text())
    truth = xr.load_dataset(folder / "truth.nc")
    assert description["fps"] == truth.attrs["fps"]
    with av.open(str(folder / description["cameras"][0]["source"])) as video:
        assert video.streams.video[0].codec_context.name == "h264"
        shown = np.stack([frame.to_ndarray(format="gray") for frame in video.decode(video=0)])
    drawn = make_varied_scene(replace(plan("video", frames=6), source="avi")).picture(0, 0)
    assert len(shown) == 6 and np.abs(shown[0].astype(float) - drawn).mean() < 4
    folder = simulate(tmp_path / "still", plan("still", frames=3))
    description = tomllib.loads((folder / "recording.toml").read_text())
    truth = xr.load_dataset(folder / "truth.nc")
    assert truth.attrs["fastest_px"] < 3
    assert np.min(truth.attrs["contrast"]) > 3 and truth.attrs["length_px"] > 20
    nuisances = json.loads(truth.attrs["nuisances"])
    assert nuisances["sensor"]["background"] and (folder / description["cameras"][0]["background"]).exists()
    way = np.array([arc_length(curve)[-1] for curve in truth.position.values[..., 0].transpose(0, 2, 1)])
    assert way == pytest.approx(nuisances["body"]["length"], rel=3e-3)


def test_the_fastest_point_is_as_fast_as_asked() -> None:
    scene = make_varied_scene(plan("fast", seed=5, frames=20, size=512))
    scale = max(view.camera.matrix[0, 0] / view.camera.translation[2] for view in scene.views)
    steps = np.linalg.norm(np.diff(scene.midlines, axis=0), axis=-1).max() * scale
    assert 0.5 * scene.drawn.motion.fastest < steps < 16


def test_families_are_named() -> None:
    with pytest.raises(InputError, match="fibres"):
        Plan("varied", family="fibres").check()
    with pytest.raises(InputError, match="family is 'fibre'"):
        Plan("swim", family="fibre").check()
