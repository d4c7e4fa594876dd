"""The cameras against OpenCV and against automatic differentiation."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch
from scenes import rig
from scipy.spatial.transform import Rotation

from midline3d.cameras import (
    Cameras,
    depths,
    make_cameras,
    project,
    projection_jacobian,
    refined,
    refinement_jacobian,
    scale,
    shift_basis,
    triangulate,
)

DOUBLE = torch.float64


def lab(focal: float, depth: float, distortions: list[float], count: int = 3, seed: int = 0) -> Cameras:
    """A rig as a lab has it: cameras at odd angles, no number round."""
    rng = np.random.default_rng(seed)
    right_angles = rig(count).rotation[0].numpy()
    tilts = Rotation.from_rotvec(rng.normal(0, 0.05, (count, 3))).as_matrix()
    matrix = np.array([[[focal * 1.01, 0, 251.3], [0, focal * 0.99, 259.7], [0, 0, 1]]] * count)
    translation = np.column_stack([rng.normal(0, 0.1, (count, 2)), rng.uniform(0.9, 1.1, count) * depth])
    numbers = (matrix, np.array([distortions] * count), tilts @ right_angles, translation)
    return make_cameras(*(torch.from_numpy(np.asarray(part, dtype=np.float64)) for part in numbers))


def by_opencv(cameras: Cameras, points: np.ndarray) -> np.ndarray:
    pictures = []
    for k in range(cameras.count):
        (fx, fy), (cx, cy) = cameras.focal[0, k].tolist(), cameras.centre[0, k].tolist()
        matrix = np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
        turn = Rotation.from_matrix(cameras.rotation[0, k].numpy()).as_rotvec()
        image, _ = cv2.projectPoints(
            points.reshape(-1, 1, 3), turn, cameras.translation[0, k].numpy(), matrix, cameras.distortion[0, k].numpy()
        )
        pictures.append(image[:, 0])
    return np.stack(pictures)


@pytest.mark.parametrize(
    ("focal", "depth", "distortions", "spread"),
    [
        (2e5, 1300.0, [0.0, 0.0, 0.0, 0.0, 0.0], 1.0),
        (2e5, 1300.0, [-40.0, 900.0, 0.02, -0.03, 500.0], 1.0),
        (900.0, 8.0, [-0.35, 0.2, 0.01, -0.02, -0.06], 2.0),
    ],
)
def test_project_is_opencvs(focal: float, depth: float, distortions: list[float], spread: float) -> None:
    cameras = lab(focal, depth, distortions)
    points = np.random.default_rng(1).uniform(-spread, spread, (50, 3))
    found = project(cameras, torch.from_numpy(points)[None])[0].numpy()
    assert np.abs(found - by_opencv(cameras, points)).max() < 1e-4


def test_float32_in_a_local_world() -> None:
    cameras = lab(2e5, 1300.0, [-40.0, 900.0, 0.02, -0.03, 500.0])
    origin = torch.tensor([[3.1, -2.7, 1.9], [-4.0, 2.2, 0.3]], dtype=DOUBLE)
    offset = torch.rand(2, 60, 3, dtype=DOUBLE) - 0.5
    right = project(cameras, origin[:, None] + offset)
    crop = (right.mean(2) - 100).round()
    local = cameras.local(origin, crop)
    found = project(local.to(torch.float32), offset.float()).double() + crop[:, :, None]
    assert (found - right).abs().max() < 1e-3
    exact = project(local, offset) + crop[:, :, None]
    assert (exact - right).abs().max() < 1e-8


def test_shifts_of_three_cameras_are_the_papers() -> None:
    cameras = rig(3)
    points = torch.rand(1, 5, 3, dtype=DOUBLE) - 0.5
    dx, dy, dz = 1.5, -2.0, 0.7
    moved = project(cameras, points, torch.tensor([[dx, dy, dz]], dtype=DOUBLE)) - project(cameras, points)
    expected = torch.tensor([[dx, 0.0], [0.0, -dy], [0.0, dz]], dtype=DOUBLE)
    assert torch.allclose(moved, expected[None, :, None].expand_as(moved), atol=1e-9)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_shifts_are_no_movement_of_the_animal(count: int) -> None:
    cameras = rig(count)
    basis = shift_basis(cameras)
    assert basis.shape == (count, 2, 2 * count - 3)
    moves = projection_jacobian(cameras, torch.zeros(1, 1, 3, dtype=DOUBLE))[0, :, 0].flatten(0, 1)
    both = torch.cat([moves / moves.norm(dim=0).mean(), basis.flatten(0, 1)], 1)
    # Together with the three translations they span all 2C image coordinates.
    assert both.shape == (2 * count, 2 * count) and torch.linalg.svdvals(both).min() > 0.1


@pytest.mark.parametrize("count", [2, 4])
def test_shifts_of_other_rigs_are_at_right_angles_to_any_movement(count: int) -> None:
    cameras = lab(1.6e5, 1200.0, [0.0] * 5, count)
    flat = cameras.shift_basis.flatten(0, 1)
    assert torch.allclose(flat.mT @ flat, torch.eye(2 * count - 3, dtype=DOUBLE), atol=1e-10)
    moves = projection_jacobian(cameras, torch.zeros(1, 1, 3, dtype=DOUBLE))[0, :, 0].flatten(0, 1)
    assert (flat.mT @ moves / moves.norm(dim=0)).abs().max() < 1e-3


def test_a_rig_for_which_the_papers_shifts_will_not_do() -> None:
    """Three cameras of which the first looks along the same way as the last, turned by a quarter."""
    cameras = rig(3)
    rotation = cameras.rotation.clone()
    rotation[0, 1] = torch.tensor([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]], dtype=DOUBLE) @ rotation[0, 0]
    rotation[0, 2] = rotation[0, 0]
    translation = cameras.translation.clone()
    matrix = torch.eye(3, dtype=DOUBLE).repeat(3, 1, 1)
    matrix[:, 0, 0] = matrix[:, 1, 1] = 48000
    rotation[0, 2] = torch.tensor([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]], dtype=DOUBLE) @ rotation[0, 0]
    odd = make_cameras(matrix, cameras.distortion[0], rotation[0], translation[0])
    moves = projection_jacobian(odd, torch.zeros(1, 1, 3, dtype=DOUBLE))[0, :, 0].flatten(0, 1)
    both = torch.cat([moves / moves.norm(dim=0).mean(), odd.shift_basis.flatten(0, 1)], 1)
    assert torch.linalg.svdvals(both).min() > 0.05


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("distortions", [[0.0] * 5, [-40.0, 900.0, 0.02, -0.03, 500.0]])
def test_triangulate_undoes_project(count: int, distortions: list[float]) -> None:
    cameras = lab(2e5, 1300.0, distortions, count)
    points = torch.rand(7, 3, dtype=DOUBLE) - 0.5
    found = triangulate(cameras, project(cameras, points[:, None])[:, :, 0])
    assert (found - points).abs().max() < 1e-8


def test_triangulate_is_least_squares_in_pixels() -> None:
    cameras = lab(2e5, 1300.0, [0.0] * 5)
    pixels = project(cameras, torch.zeros(1, 1, 3, dtype=DOUBLE))[:, :, 0] + torch.randn(1, 3, 2, dtype=DOUBLE)
    best = triangulate(cameras, pixels)

    def error(point: torch.Tensor) -> float:
        return float((project(cameras, point[:, None])[:, :, 0] - pixels).square().sum())

    for step in 1e-3 * torch.eye(3, dtype=DOUBLE):
        assert error(best) <= error(best + step) and error(best) <= error(best - step)


@pytest.mark.parametrize("distortions", [[0.0] * 5, [-40.0, 900.0, 0.02, -0.03, 500.0]])
def test_jacobian(distortions: list[float]) -> None:
    cameras = lab(2e5, 1300.0, distortions)
    points = torch.rand(2, 4, 3, dtype=DOUBLE) - 0.5
    found = projection_jacobian(cameras, points)
    whole = torch.autograd.functional.jacobian(lambda place: project(cameras, place), points)
    for batch in range(2):
        for vertex in range(4):
            own = whole[batch, :, vertex, :, batch, vertex]
            assert torch.allclose(found[batch, :, vertex], own, rtol=1e-9, atol=1e-7)


def test_refinement_turns_and_magnifies_about_a_point() -> None:
    cameras = lab(2e5, 1300.0, [0.0] * 5)
    pivot = torch.tensor([0.4, -0.3, 0.2], dtype=DOUBLE)
    change = torch.tensor([[0.01, -0.02, 0.005, 0.01]] * 3, dtype=DOUBLE)
    other = refined(cameras, change, pivot)
    # The pivot's images stay where they are.
    assert torch.allclose(project(other, pivot[None, None]), project(cameras, pivot[None, None]), atol=1e-7)
    near = pivot + 0.01 * torch.eye(3, dtype=DOUBLE)[None]
    before, after = (project(rig, near) - project(rig, pivot[None, None]) for rig in (cameras, other))
    size = after.flatten(2).norm(dim=-1) / before.flatten(2).norm(dim=-1)
    assert size[0].tolist() == pytest.approx([1.01005] * 3, rel=1e-3)
    points = pivot + torch.rand(1, 4, 3, dtype=DOUBLE) - 0.5
    right = torch.func.jacfwd(lambda by: project(refined(cameras, by, pivot), points))(0 * change)
    found = refinement_jacobian(cameras, points, pivot[None])
    for k in range(3):
        assert torch.allclose(found[0, k], right[0, k, :, :, k], rtol=1e-6, atol=1e-5)


def test_depth_and_scale() -> None:
    cameras = rig(3, px_per_mm=40.0)
    points = torch.tensor([[[0.0, 0.0, 2.0]]], dtype=DOUBLE)
    assert depths(cameras, points)[0, :, 0].tolist() == pytest.approx([1202.0, 1200.0, 1200.0])
    assert scale(cameras, points)[0].tolist() == pytest.approx([48000 / 1202, 40.0, 40.0])
    assert replace(cameras).count == 3
