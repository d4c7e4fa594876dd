"""The simulator against its own claims, each checked by an independent computation."""

import ast
import json
import tomllib
from dataclasses import replace
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
import xarray as xr

import midline3d.synth
from midline3d.errors import InputError
from midline3d.synth import PRESETS, Plan, simulate
from midline3d.synth.body import Body, fill
from midline3d.synth.gait import clearance
from midline3d.synth.optics import Lens, worm_density
from midline3d.synth.rig import Camera, make_rig, reprojection_error
from midline3d.synth.scene import NODES, make_scene

SHARP = Lens(focus=1000.0, sharpest=0.5, softening=0.0)


def front_camera(px_per_mm: float = 130.0) -> Camera:
    """A camera without tilt or distortion whose image is X right, Y down, the origin at (150, 150)."""
    matrix = np.array([[px_per_mm * 1000, 0, 150], [0, px_per_mm * 1000, 150], [0, 0, 1]], dtype=float)
    return Camera("cam0", 301, matrix, np.zeros(5), np.eye(3), np.array([0, 0, 1000.0]))


def arc(length: float, turn: float) -> np.ndarray:
    """A midline (node, 3) in the XY plane that turns by `turn` radians in all."""
    s = np.linspace(-0.5, 0.5, NODES)
    if turn == 0:
        return np.stack([length * s, 0 * s, 0 * s], -1)
    radius = length / turn
    return np.stack([radius * np.sin(turn * s), radius * (1 - np.cos(turn * s)), 0 * s], -1)


@pytest.fixture(scope="module")
def animal() -> tuple[Body, object]:
    body = Body.random(np.random.default_rng(3))
    return body, fill(body, slices=420, points=300)


def test_imports_nothing_of_the_renderer() -> None:
    for path in Path(midline3d.synth.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("midline3d"):
                assert node.module.split(".")[1] in ("synth", "errors", "files"), f"{path.name} imports {node.module}"


def test_density_is_absorption_times_the_way_through_the_body(animal) -> None:
    body, solid = animal
    density = worm_density(front_camera(), SHARP, solid, arc(body.length, 0), np.zeros(2))
    s = np.linspace(0.3, 0.6, 20)
    column = 150 + 130 * body.length * (s - 0.5)
    found = np.array([np.interp(x, np.arange(301), density[150]) for x in column])
    # On the axis the way is the diameter; the rim absorbs (1 + rim u^4), u running from -1 to 1 across.
    expected = 2 * body.radius_at(s) * body.absorption_at(s) * (1 + body.rim / 5)
    assert found == pytest.approx(expected, rel=0.03)


def test_a_tail_that_ends_in_a_round_stub(animal) -> None:
    """As wide as the stub says until its own radius from the end; what is wider anyway stays as it was."""
    body, _ = animal
    stub = replace(body, tail_tip=0.25)
    round_off = 0.25 * body.radius / body.length
    s = np.array([0.3, 0.7, 1 - 1.01 * round_off, 1.0])
    assert stub.radius_at(s) == pytest.approx([*body.radius_at(s[:2]), 0.25 * body.radius, 0.0], rel=1e-3)


def test_a_tail_that_goes_on_as_a_thread(animal) -> None:
    """As wide as its tip behind the taper, which ends where the thread begins."""
    body, _ = animal
    thread = replace(body, tail_tip=0.2, tail_thread=0.08)
    s = np.array([0.925, 0.95, 0.97])
    assert thread.radius_at(s) == pytest.approx(np.full(3, 0.2 * body.radius), rel=1e-3)
    assert thread.radius_at(np.array([0.85])) == pytest.approx(body.radius_at(np.array([0.93])), rel=1e-3)


def test_a_part_pointing_at_the_camera_is_darker(animal) -> None:
    body, solid = animal
    straight = arc(body.length, 0)
    tilted = straight * np.cos(np.pi / 3)
    tilted[:, 2] = straight[:, 0] * np.sin(np.pi / 3)
    flat = worm_density(front_camera(), SHARP, solid, straight, np.zeros(2))
    steep = worm_density(front_camera(), SHARP, solid, tilted, np.zeros(2))
    assert steep[150, 150] / flat[150, 150] == pytest.approx(2.0, rel=0.04)
    assert steep.sum() == pytest.approx(flat.sum(), rel=1e-3)


@pytest.mark.parametrize("turn", [0.0, 2.0, -4.0])
def test_the_body_is_drawn_on_its_midline(animal, turn: float) -> None:
    body, solid = animal
    curve = arc(body.length, turn)
    offset = {}
    for sharpest in (0.5, 0.8):
        lens = Lens(focus=1000.0, sharpest=sharpest, softening=0.0)
        density = worm_density(front_camera(), lens, solid, curve, np.array([0.3, -0.2]))
        axis = 150 + 130 * curve[:, :2] + [0.3, -0.2]
        way = np.gradient(axis, axis=0)
        normal = np.stack([-way[:, 1], way[:, 0]], -1) / np.linalg.norm(way, axis=-1, keepdims=True)
        across = np.arange(-10, 10.01, 0.1)
        found = []
        for node in range(80, 280, 4):
            u, v = (axis[node] + across[:, None] * normal[node]).astype(np.float32).T
            profile = cv2.remap(density, u[None], v[None], cv2.INTER_LINEAR)[0]
            found.append((profile * across).sum() / profile.sum())
        offset[sharpest] = np.mean(found)
    # Blur moves what is curved, by its variance: take that away by going to a blur of zero.
    drawn = offset[0.5] - (offset[0.8] - offset[0.5]) * 0.5**2 / (0.8**2 - 0.5**2)
    assert abs(drawn) < 0.02


def test_the_body_ends_at_its_tips(animal) -> None:
    body, solid = animal
    density = worm_density(front_camera(), SHARP, solid, arc(body.length, 0), np.zeros(2))
    along = density.sum(0)
    head, tail = 150 - 65 * body.length, 150 + 65 * body.length
    # 0.5 px of blur and the pixel's own width reach two pixels beyond, no body does.
    assert along[: int(head) - 2].sum() + along[int(tail) + 4 :].sum() < 1e-4 * along.sum()
    assert along[int(head) + 1 : int(head) + 4].min() > 1e-3 * along.max()


def test_blur_grows_away_from_focus(animal) -> None:
    body, solid = animal
    rising = arc(body.length, 0)
    rising[:, 2] = 0.5 * rising[:, 0]
    lens = Lens(focus=1000.0, sharpest=0.7, softening=12.0)
    across = np.arange(301) - 150.0

    def width(softening: float) -> np.ndarray:
        drawn = Lens(lens.focus, lens.sharpest, softening)
        density = worm_density(front_camera(), drawn, solid, rising, np.zeros(2)).astype(float)
        return (density * across[:, None] ** 2).sum(0) / np.maximum(density.sum(0), 1e-9)

    columns = np.arange(110, 195)
    extra = (width(12.0) - width(0.0))[columns]
    depth = 0.5 * (columns - 150) / 130
    # Blur also carries mass along the body, hence the loose tolerance.
    assert extra == pytest.approx((12.0 * depth) ** 2, abs=0.35)


@pytest.mark.parametrize("preset", list(PRESETS))
def test_motion(preset: str) -> None:
    scene = make_scene(Plan(preset, frames=12, seed=5))
    radius = scene.body.radius_at(np.linspace(0, 1, NODES))
    assert clearance(scene.midlines, radius) > 0
    moved = 130 * np.linalg.norm(np.diff(scene.midlines, axis=0), axis=-1)
    assert 0.3 < moved.mean() < 4 and moved.max() < 7
    tangent = np.diff(scene.midlines, axis=1)
    tangent /= np.linalg.norm(tangent, axis=-1, keepdims=True)
    bend = np.arccos(np.clip((tangent[:, 1:] * tangent[:, :-1]).sum(-1), -1, 1)) * (NODES - 1)
    assert bend.max() < 2.25 * 2 * np.pi
    for view in scene.views:
        pixels = view.camera.project(scene.midlines)
        assert pixels.min() > 10 and pixels.max() < 501
    if preset == "clean":
        ahead = scene.midlines[:-1, 0] - scene.midlines[:-1, 40]
        assert ((scene.midlines[1:, 0] - scene.midlines[:-1, 0]) * ahead).sum(-1).min() > 0, "swims head first"


def test_coils_cross_themselves_in_a_view() -> None:
    scene = make_scene(Plan("coil", frames=20, seed=1))
    longest = np.linalg.norm(scene.midlines[:, :, None, :] - scene.midlines[:, None, ::40], axis=-1).max((1, 2))
    assert longest.min() < 0.45 * scene.body.length


def test_calibration_is_wrong_by_what_was_asked() -> None:
    scene = make_scene(Plan("hard", frames=2, cameras=4))
    for view, handed_over in zip(scene.views, scene.calibration, strict=True):
        assert reprojection_error(view.camera, handed_over) == pytest.approx(5.0, rel=0.01)
    exact = make_scene(Plan("clean", frames=2))
    assert all(reprojection_error(v.camera, c) == 0 for v, c in zip(exact.views, exact.calibration, strict=True))


def test_the_rig_looks_the_way_it_says() -> None:
    first, second, third = make_rig(3, 512, 130.0, np.random.default_rng(0))
    for camera, (right, down) in ((first, (0, 1)), (second, (0, -2)), (third, (2, 1))):
        step = camera.project(np.eye(3)) - camera.project(np.zeros(3))
        assert step[right] == pytest.approx([130, 0], abs=12)
        assert np.sign(down or 1) * step[abs(down)] == pytest.approx([0, 130], abs=12)
        assert np.linalg.det(camera.rotation) == pytest.approx(1)


@pytest.mark.parametrize("source", ["avi", "npy", "png"])
def test_files(tmp_path: Path, source: str) -> None:
    plan = Plan("swim", frames=3, size=400, cameras=2, seed=7, source=source)
    seen: list[tuple[int, int]] = []
    folder = simulate(tmp_path / "rec", plan, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (6, 6)
    scene = make_scene(plan)
    description = tomllib.loads((folder / "recording.toml").read_text())
    assert description["fps"] == 25 and [camera["name"] for camera in description["cameras"]] == ["cam0", "cam1"]
    for index, camera in enumerate(description["cameras"]):
        drawn = np.stack(list(scene.pictures(index)))
        assert np.array_equal(_read_back(folder / camera["source"], source), drawn), "lossless and repeatable"
        assert 60 < drawn.mean() < 220
    calibration = json.loads((folder / "calibration.json").read_text())
    assert calibration["units"] == "mm" and calibration["cameras"][0]["size"] == [400, 400]


def _read_back(path: Path, source: str) -> np.ndarray:
    if source == "npy":
        return np.load(path)
    if source == "png":
        return np.stack([cv2.imread(str(file), cv2.IMREAD_UNCHANGED) for file in sorted(path.iterdir())])
    with av.open(str(path)) as video:
        assert video.streams.video[0].average_rate == 25
        return np.stack([frame.to_ndarray() for frame in video.decode(video=0)])


def test_truth(tmp_path: Path) -> None:
    folder = simulate(tmp_path, Plan("dirt", frames=3, seed=2, source="npy"))
    truth = xr.load_dataset(folder / "truth.nc")
    assert truth.position.dims == ("time", "space", "keypoint", "individual")
    assert truth.projection.dims == ("time", "camera", "keypoint", "image")
    points = truth.position.values[..., 0].transpose(0, 2, 1)
    steps = np.linalg.norm(np.diff(points, axis=1), axis=-1)
    assert steps.std() / steps.mean() < 2e-3
    assert steps.sum(1) == pytest.approx(truth.length.values, rel=2e-3)
    assert truth.attrs["preset"] == "dirt" and json.loads(truth.attrs["body"])["length"] > 0.8
    # The projection by hand: pinhole, distortion, and a shake that is the same for all points of a picture.
    for index, camera in enumerate(json.loads(truth.attrs["true_calibration"])["cameras"]):
        seen = points @ np.array(camera["rotation"]).T + camera["translation"]
        x, y = seen[..., 0] / seen[..., 2], seen[..., 1] / seen[..., 2]
        k1, k2, p1, p2, k3 = camera["distortions"]
        r2 = x * x + y * y
        radial = 1 + k1 * r2 + k2 * r2**2 + k3 * r2**3
        u = radial * x + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
        v = radial * y + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
        plane = np.stack([u, v, np.ones_like(u)], -1) @ np.array(camera["matrix"]).T
        vibration = truth.projection.values[:, index] - plane[..., :2]
        assert np.ptp(vibration, axis=1).max() < 1e-6
        assert 0.05 < np.abs(vibration).mean() < 3


def test_seeds_differ() -> None:
    one, other = make_scene(Plan(frames=2, seed=0)), make_scene(Plan(frames=2, seed=1))
    assert one.body != other.body
    assert one.body.head_share < one.body.tail_share, "a worm is not the same read from its other end"
    assert not np.allclose(one.midlines, other.midlines)


@pytest.mark.parametrize(
    ("plan", "named"),
    [
        (Plan("swimm"), "swimm"),
        (Plan(cameras=1), "cameras is 1"),
        (Plan(frames=0), "frames is 0"),
        (Plan(size=100), "size is 100"),
        (Plan(source="mp4"), "mp4"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_simulated_is_said(tmp_path: Path, plan: Plan, named: str) -> None:
    with pytest.raises(InputError, match=named):
        simulate(tmp_path, plan)
