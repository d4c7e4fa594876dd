"""Pinhole cameras with distortion and relative shifts: project and triangulate.

OpenCV's convention: x_cam = R X + t, u right, v down, pixel centres at integers. All records are batch first;
a leading axis of 1 means that the whole batch shares the cameras.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch

from midline3d.curve import rotation_exp, skew
from midline3d.distortion import distorted, slopes, undistorted
from midline3d.rows import side_by_side, split_rows
from midline3d.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class Cameras:
    """The parameters eta of a rig, and the directions in which relative shifts act."""

    focal: Float[Tensor, "#batch camera 2"]
    """f_x, f_y in px."""
    centre: Float[Tensor, "#batch camera 2"]
    """c_x, c_y in px of the image (or of the crop, see `local`)."""
    distortion: Float[Tensor, "#batch camera 5"]
    """k1, k2, p1, p2, k3."""
    rotation: Float[Tensor, "#batch camera 3 3"]
    translation: Float[Tensor, "#batch camera 3"]
    """mm."""
    shift_basis: Float[Tensor, "camera 2 axis"]
    """Pixels that one unit of each relative shift eta^s moves each view."""

    @property
    def count(self) -> int:
        """Cameras of the rig."""
        return self.focal.shape[-2]

    def to(self, *args: torch.dtype | torch.device | str) -> Cameras:
        return Cameras(**{item.name: getattr(self, item.name).to(*args) for item in fields(self)})

    def taken(self, rows: Int[Tensor, " row"]) -> Cameras:
        """Those of some frames of the batch, each as often as it is named."""
        frames = {name: value for name, value in vars(self).items() if name != "shift_basis"}
        each = {
            name: value[rows] if len(value) > 1 else value.expand(len(rows), *value.shape[1:])
            for name, value in frames.items()
        }
        return replace(self, **each)

    def local(self, origin: Float[Tensor, "batch 3"], crop: Float[Tensor, "batch camera 2"]) -> Cameras:
        """The same cameras seen from a world origin near the animal, in crops whose first pixels lie at `crop`.

        Done in float64 and before any float32 arithmetic: at f = 2e5 px and 1.3 m one float32 ulp of a world
        coordinate far from zero would be 0.02 px.
        """
        translation = self.translation + (self.rotation @ origin[:, None, :, None]).squeeze(-1)
        batch = len(origin)
        return replace(
            self,
            focal=self.focal.expand(batch, -1, -1),
            centre=self.centre - crop,
            distortion=self.distortion.expand(batch, -1, -1),
            rotation=self.rotation.expand(batch, -1, -1, -1),
            translation=translation,
        )


def make_cameras(
    matrix: Float[Tensor, "camera 3 3"],
    distortion: Float[Tensor, "camera 5"],
    rotation: Float[Tensor, "camera 3 3"],
    translation: Float[Tensor, "camera 3"],
) -> Cameras:
    """A rig from OpenCV's numbers, with its shift directions."""
    focal = torch.stack([matrix[:, 0, 0], matrix[:, 1, 1]], -1)[None]
    cameras = Cameras(
        focal=focal,
        centre=matrix[None, :, :2, 2],
        distortion=distortion[None],
        rotation=rotation[None],
        translation=translation[None],
        shift_basis=focal.new_zeros(len(matrix), 2, 0),
    )
    return replace(cameras, shift_basis=shift_basis(cameras))


def packed_cameras(cameras: Cameras) -> Float[Tensor, "frame number"]:
    """All numbers of every frame's cameras in a row, but for the shift directions, which all frames share.

    Focal lengths of all views, centres, distortions, rotations, translations: 21 numbers for each camera. One row
    where the whole batch shares the cameras. See `rows.side_by_side`.
    """
    values = [value for name, value in vars(cameras).items() if name != "shift_basis"]
    frames = max(map(len, values))
    return side_by_side([value.expand(frames, *value.shape[1:]) for value in values])


def unpacked_cameras(rows: Float[Tensor, "frame number"], shift_basis: Float[Tensor, "camera 2 axis"]) -> Cameras:
    """The cameras that `packed_cameras` made rows of; they share the rows' memory."""
    count = len(shift_basis)
    shapes = [(count, 2), (count, 2), (count, 5), (count, 3, 3), (count, 3)]
    focal, centre, distortion, rotation, translation = split_rows(rows, shapes)
    return Cameras(focal, centre, distortion, rotation, translation, shift_basis)


def project(
    cameras: Cameras, points: Float[Tensor, "batch vertex 3"], shift: Float[Tensor, "batch axis"] | None = None
) -> Float[Tensor, "batch camera vertex 2"]:
    """Q: image points (u, v) in px of world points in mm, with relative shifts in px (app. B)."""
    in_camera = points[:, None] @ cameras.rotation.mT + cameras.translation[:, :, None]
    plane = in_camera[..., :2] / in_camera[..., 2:]
    if shift is not None:
        pixels = torch.einsum("kia,ba->bki", cameras.shift_basis, shift)
        plane = plane + (pixels / cameras.focal)[:, :, None]
    return _distort(plane, cameras.distortion) * cameras.focal[:, :, None] + cameras.centre[:, :, None]


def projection_jacobian(
    cameras: Cameras, points: Float[Tensor, "batch vertex 3"]
) -> Float[Tensor, "batch camera vertex 2 3"]:
    """d(u, v) / d(X, Y, Z) in px per mm, without shifts (they change it by less than a part in 10,000)."""
    in_camera = points[:, None] @ cameras.rotation.mT + cameras.translation[:, :, None]
    depth = in_camera[..., 2:]
    plane = in_camera[..., :2] / depth
    focal = cameras.focal[:, :, None]
    along = (focal / depth)[..., None] * cameras.rotation[:, :, None, :2]
    toward = (focal * plane / depth)[..., None] * cameras.rotation[:, :, None, 2:]
    return _distortion_jacobian(plane, cameras.distortion, cameras.focal) @ (along - toward)


def refined(cameras: Cameras, change: Float[Tensor, "camera 4"], pivot: Float[Tensor, " 3"]) -> Cameras:
    """Every camera turned by a rotation vector (rad, in its own axes) and magnified by exp(last) about a world point.

    The pivot's images stay where they are: what is left of a calibration error there are the relative shifts.
    """
    turn = rotation_exp(change[:, :3])
    at = (cameras.rotation @ pivot[:, None]).squeeze(-1) + cameras.translation
    rotation = turn @ cameras.rotation
    plane = at[..., :2] / at[..., 2:]
    focal = cameras.focal * change[:, 3:].exp()
    return replace(
        cameras,
        rotation=rotation,
        translation=at - (rotation @ pivot[:, None]).squeeze(-1),
        focal=focal,
        centre=cameras.centre + (cameras.focal - focal) * plane,
    )


def refinement_jacobian(
    cameras: Cameras, points: Float[Tensor, "batch vertex 3"], pivot: Float[Tensor, "batch 3"]
) -> Float[Tensor, "batch camera vertex 2 4"]:
    """d(u, v) by the four numbers of `refined`, each camera's its own; distortion and shifts aside."""
    in_camera = points[:, None] @ cameras.rotation.mT + cameras.translation[:, :, None]
    at = (cameras.rotation @ pivot[:, None, :, None]).squeeze(-1) + cameras.translation
    arm = in_camera - at[:, :, None]
    depth = in_camera[..., 2:]
    focal = cameras.focal[:, :, None]
    plane = in_camera[..., :2] / depth
    sweep = -skew(arm)
    turned = (sweep[..., :2, :] - plane[..., None] * sweep[..., 2:, :]) * (focal / depth)[..., None]
    grown = focal * (plane - (at[..., :2] / at[..., 2:])[:, :, None])
    return torch.cat([turned, grown[..., None]], -1)


def depths(cameras: Cameras, points: Float[Tensor, "batch vertex 3"]) -> Float[Tensor, "batch camera vertex"]:
    """Distance along each camera's axis, mm."""
    along = cameras.rotation[:, :, None, 2]
    return (along * points[:, None]).sum(-1) + cameras.translation[:, :, None, 2]


def scale(cameras: Cameras, points: Float[Tensor, "batch vertex 3"]) -> Float[Tensor, "batch camera"]:
    """Magnification of each view at the mean depth of the points, px per mm."""
    return cameras.focal.mean(-1) / depths(cameras, points).mean(-1)


def triangulate(cameras: Cameras, pixels: Float[Tensor, "batch camera 2"], steps: int = 4) -> Float[Tensor, "batch 3"]:
    """The world points nearest to their pixels in all views: least squares in pixels, by Gauss-Newton.

    The start is where the rays meet in the least-squares sense, which for nearly telecentric cameras is already
    good to a fraction of a pixel.
    """
    rays, origins = rays_through(cameras, pixels)
    across = torch.eye(3, dtype=rays.dtype, device=rays.device) - rays[..., None] * rays[..., None, :]
    points = torch.linalg.solve(across.sum(1), (across @ origins[..., None]).sum(1)).squeeze(-1)
    for _ in range(steps):
        residual = (pixels - project(cameras, points[:, None])[:, :, 0]).flatten(1)
        jacobian = projection_jacobian(cameras, points[:, None])[:, :, 0].flatten(1, 2)
        # Not lstsq: its last bit depends on where in memory its matrices lie, so that no run would repeat another.
        normal = jacobian.mT @ jacobian
        points = points + torch.linalg.solve(normal, jacobian.mT @ residual[..., None]).squeeze(-1)
    return points


def shift_basis(cameras: Cameras) -> Float[Tensor, "camera 2 axis"]:
    """The directions in which views can move against each other, the rest being a move of the animal.

    Three cameras: the paper's (dx in view 0 along u, -dy in view 1 along v, dz in view 2 along v), where these and
    the three translations of the animal span all six image coordinates. Otherwise (two, four and more cameras, or a rig
    laid out in another way) an orthonormal basis of the 2C - 3 directions that no translation produces.
    """
    count = cameras.count
    # At a point on the axes' common centre: where it lies exactly does not matter for directions.
    rays, origins = rays_through(cameras, cameras.centre.expand(1, -1, -1))
    across = torch.eye(3, dtype=rays.dtype, device=rays.device) - rays[..., None] * rays[..., None, :]
    middle = (torch.linalg.pinv(across.sum(1), hermitian=True) @ (across @ origins[..., None]).sum(1)).squeeze(-1)
    moves = projection_jacobian(cameras, middle[:, None])[0, :, 0].flatten(0, 1)
    moves = moves / moves.norm(dim=0).mean()
    if count == 3:
        paper = moves.new_zeros(3, 2, 3)
        paper[0, 0, 0], paper[1, 1, 1], paper[2, 1, 2] = 1, -1, 1
        spread = torch.linalg.svdvals(torch.cat([moves, paper.flatten(0, 1)], 1))
        if spread[-1] > 0.1 * spread[0]:
            return paper
    complement = torch.linalg.svd(moves).U[:, 3:]
    return complement.reshape(count, 2, 2 * count - 3)


def rays_through(
    cameras: Cameras, pixels: Float[Tensor, "batch camera 2"]
) -> tuple[Float[Tensor, "batch camera 3"], Float[Tensor, "batch camera 3"]]:
    """Unit directions and camera centres in the world, of the rays through the pixels."""
    seen = (pixels - cameras.centre) / cameras.focal
    rounding = 4 * torch.finfo(seen.dtype).eps
    u, v = seen.unbind(-1)
    plane = torch.stack(undistorted(u, v, cameras.distortion.unbind(-1), rounding), -1)
    direction = torch.cat([plane, torch.ones_like(plane[..., :1])], -1)
    direction = (cameras.rotation.mT @ direction[..., None]).squeeze(-1)
    centres = -(cameras.rotation.mT @ cameras.translation[..., None]).squeeze(-1)
    return direction / direction.norm(dim=-1, keepdim=True), centres.expand_as(direction)


def _distort(
    plane: Float[Tensor, "batch camera vertex 2"], distortion: Float[Tensor, "#batch camera 5"]
) -> Float[Tensor, "batch camera vertex 2"]:
    return torch.stack(distorted(*plane.unbind(-1), *distortion[:, :, None].unbind(-1)), -1)


def _distortion_jacobian(
    plane: Float[Tensor, "batch camera vertex 2"],
    distortion: Float[Tensor, "#batch camera 5"],
    focal: Float[Tensor, "#batch camera 2"],
) -> Float[Tensor, "batch camera vertex 2 2"]:
    """Derivative of the distorted by the undistorted image point, both in px."""
    xx, xy, yy = slopes(*plane.unbind(-1), *distortion[:, :, None].unbind(-1))
    aspect = (focal[..., 0] / focal[..., 1])[:, :, None]
    return torch.stack([torch.stack([xx, xy * aspect], -1), torch.stack([xy / aspect, yy], -1)], -2)
