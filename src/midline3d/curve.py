"""The midline as a curve in its Bishop frame: integrate curvature to points, recover it, shift along the length.

Curvature K (batch, vertex, 2) holds m1, m2 per unit of normalised arc length: |K| = 2 pi over the whole body is one
full circle, whatever the length. A Bishop frame is a rotation matrix whose columns are T, M1, M2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from midline3d.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class Curve:
    """P-hat with its Bishop frames, at N vertices equally spaced in arc length."""

    points: Float[Tensor, "batch vertex 3"]
    """mm."""
    bishop: Float[Tensor, "batch vertex 3 3"]
    """Columns T, M1, M2."""

    @property
    def tangents(self) -> Float[Tensor, "batch vertex 3"]:
        """T: unit vectors along the curve, from head to tail."""
        return self.bishop[..., 0]


def integrate(
    position: Float[Tensor, "batch 3"],
    bishop: Float[Tensor, "batch 3 3"],
    curvature: Float[Tensor, "batch vertex 2"],
    length: Float[Tensor, " batch"],
    start: Int[Tensor, " batch"],
) -> Curve:
    """F: the curve through `position` with Bishop frame `bishop` at vertex `start` (eq. 1, app. A).

    Rotations from vertex 0 are a scan of the segments' rotations, and any other start is a rigid motion of that
    curve, so that both directions from any start give the same curve by construction.
    """
    turns = segment_rotations(curvature)
    rotations = _quaternion_matrix(_cumulative_product(_quaternion_exp(turns)))
    chords = _chords(turns, curvature) * (length / turns.shape[1])[:, None, None]
    steps = (rotations[:, :-1] @ chords[..., None]).squeeze(-1)
    points = torch.cat([torch.zeros_like(steps[:, :1]), steps.cumsum(1)], 1)
    rows = torch.arange(len(position), device=position.device)
    carry = bishop @ rotations[rows, start].mT
    points = position[:, None] + (points - points[rows, start][:, None]) @ carry.mT
    return Curve(points, carry[:, None] @ rotations)


def through(
    position: Float[Tensor, "batch 3"],
    bishop: Float[Tensor, "batch 3 3"],
    curvature: Float[Tensor, "batch vertex 2"],
    length: Float[Tensor, " batch"],
    start: Int[Tensor, " batch"],
) -> Curve:
    """The same with a Bishop frame that is no rotation any more after a step: made `orthonormal` first."""
    return integrate(position, orthonormal(bishop), curvature, length, start)


def segment_rotations(curvature: Float[Tensor, "batch vertex 2"]) -> Float[Tensor, "batch segment 3"]:
    """Rotation vector of each segment in its own frame: the fourth-order Magnus expansion of the Bishop equations.

    The first order is the integral of K over the segment, by the cubic through its four nearest vertices; the second,
    a twist, is what makes a helix come out right to 1e-4 of its length.
    """
    step = 1 / (curvature.shape[1] - 1)
    mean = (curvature[:, 1:] + curvature[:, :-1]) / 2
    bend = curvature[:, 2:] - 2 * curvature[:, 1:-1] + curvature[:, :-2]
    bend = torch.cat([bend[:, :1], bend, bend[:, -1:]], 1)
    mean = mean - (bend[:, 1:] + bend[:, :-1]) / 24
    before, after = curvature[:, :-1], curvature[:, 1:]
    twist = (before[..., 0] * after[..., 1] - before[..., 1] * after[..., 0]) * (step * step / 12)
    return torch.stack([twist, -mean[..., 1] * step, mean[..., 0] * step], -1)


def recover(
    points: Float[Tensor, "batch vertex 3"],
) -> tuple[Float[Tensor, "batch vertex 2"], Float[Tensor, "batch 3 3"], Float[Tensor, " batch"]]:
    """(K, Bishop frame at vertex 0, length) of a curve given by equally spaced points: the inverse of `integrate`."""
    count = points.shape[1]
    velocity = _derivative(points) * (count - 1)
    speed = velocity.norm(dim=-1, keepdim=True)
    tangents = velocity / speed
    length = _mean_over_arc(speed.squeeze(-1))
    bishop = _transport(tangents)
    change = _derivative(tangents) * (count - 1)
    curvature = (change[..., None, :] @ bishop[..., 1:]).squeeze(-2) * (length[:, None] / speed.squeeze(-1))[..., None]
    # The least rotations of `_transport` leave out the twist that the Bishop frame gathers within each segment.
    twist = segment_rotations(curvature)[..., 0].cumsum(1)
    twist = torch.cat([torch.zeros_like(twist[:, :1]), twist], 1)
    m1, m2 = curvature.unbind(-1)
    turned = [m1 * twist.cos() + m2 * twist.sin(), m2 * twist.cos() - m1 * twist.sin()]
    return torch.stack(turned, -1), bishop[:, 0], length


def bounded(curvature: Float[Tensor, "batch vertex 2"], circles: float) -> Float[Tensor, "batch vertex 2"]:
    """|K_n| < 2 pi k_max: longer vectors are shortened, their direction kept."""
    limit = 2 * torch.pi * circles
    return curvature * (limit / curvature.norm(dim=-1, keepdim=True).clamp(min=limit))


def shifted(curvature: Float[Tensor, "batch vertex 2"], by: Int[Tensor, " batch"]) -> Float[Tensor, "batch vertex 2"]:
    """K moved along the body by n_s vertices: K_n <- K_{n + n_s}, falling linearly to zero over the new vertices."""
    count = curvature.shape[1]
    wanted = torch.arange(count, device=curvature.device) + by[:, None]
    kept = curvature.gather(1, wanted.clamp(0, count - 1)[..., None].expand(-1, -1, 2))
    beyond = torch.maximum(wanted - (count - 1), -wanted).clamp(min=0)
    return kept * (1 - beyond / by.abs().clamp(min=1)[:, None])[..., None]


def reversed_bishop(bishop: Float[Tensor, "*any 3 3"]) -> Float[Tensor, "*any 3 3"]:
    """Bishop frames of the same curve walked from the other end: T and M2 turn round, M1 stays."""
    return bishop * bishop.new_tensor([-1.0, 1.0, -1.0])


def reversed_curvature(curvature: Float[Tensor, "batch vertex 2"]) -> Float[Tensor, "batch vertex 2"]:
    """K of the same curve walked from the other end, in the Bishop frames of `reversed_bishop`."""
    return curvature.flip(1) * curvature.new_tensor([1.0, -1.0])


def _chords(
    turns: Float[Tensor, "batch segment 3"], curvature: Float[Tensor, "batch vertex 2"]
) -> Float[Tensor, "batch segment 3"]:
    """Chord of each segment, for unit length, in the frame it starts with: V(turn) e_1.

    Series in the squared angle: exact in float64 for all angles under the curvature bound, and smooth at zero. V is
    for a constant rate of turning; its change along the segment moves the end by a twelfth of itself.
    """
    angle2 = turns.square().sum(-1)
    first = (1 - angle2 / 12 + angle2.square() / 360) / 2
    second = (1 - angle2 / 20 + angle2.square() / 840) / 6
    x, y, z = turns.unbind(-1)
    late = (curvature[:, 1:] - curvature[:, :-1]) / (12 * turns.shape[1])
    return torch.stack(
        [
            1 - second * (y * y + z * z),
            first * z + second * x * y - late[..., 0],
            second * x * z - first * y - late[..., 1],
        ],
        -1,
    )


def _quaternion_exp(turns: Float[Tensor, "batch segment 3"]) -> Float[Tensor, "batch segment 4"]:
    half2 = turns.square().sum(-1, keepdim=True) / 4
    real = 1 - half2 / 2 + half2.square() / 24 - half2**3 / 720
    return torch.cat([real, turns * (0.5 - half2 / 12 + half2.square() / 240 - half2**3 / 10080)], -1)


def _cumulative_product(quaternions: Float[Tensor, "batch segment 4"]) -> Float[Tensor, "batch vertex 4"]:
    """Products q_0 q_1 ... q_{n-1} for n = 0 ... N-1, in log2(N) doubling steps."""
    identity = torch.zeros_like(quaternions[:, :1])
    identity[..., 0] = 1
    product = torch.cat([identity, quaternions], 1)
    reach = 1
    while reach < product.shape[1]:
        product = torch.cat([product[:, :reach], _hamilton(product[:, :-reach], product[:, reach:])], 1)
        reach *= 2
    return product / product.norm(dim=-1, keepdim=True)


def _hamilton(left: Float[Tensor, "*any 4"], right: Float[Tensor, "*any 4"]) -> Float[Tensor, "*any 4"]:
    a, b = left[..., :1], left[..., 1:]
    c, d = right[..., :1], right[..., 1:]
    return torch.cat([a * c - (b * d).sum(-1, keepdim=True), a * d + c * b + torch.linalg.cross(b, d)], -1)


def _quaternion_matrix(quaternions: Float[Tensor, "*any 4"]) -> Float[Tensor, "*any 3 3"]:
    w, x, y, z = quaternions.unbind(-1)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def rotation_exp(turn: Float[Tensor, "batch 3"]) -> Float[Tensor, "batch 3 3"]:
    """Rotation matrix of a rotation vector of any size."""
    angle = turn.norm(dim=-1)[..., None, None]
    across = skew(turn)
    # Rodrigues: sin(a) / a and (1 - cos(a)) / a^2, neither of which loses digits at small angles.
    once, twice = torch.sinc(angle / torch.pi), torch.sinc(angle / (2 * torch.pi)).square() / 2
    return torch.eye(3, dtype=turn.dtype, device=turn.device) + once * across + twice * (across @ across)


def rotation_log(rotation: Float[Tensor, "batch 3 3"]) -> Float[Tensor, "batch 3"]:
    """Rotation vector of a rotation matrix, of less than half a turn."""
    across = (rotation - rotation.mT) / 2
    turn = torch.stack([across[..., 2, 1], across[..., 0, 2], across[..., 1, 0]], -1)
    cosine = (torch.diagonal(rotation, dim1=-2, dim2=-1).sum(-1, keepdim=True) - 1) / 2
    angle = torch.atan2(turn.norm(dim=-1, keepdim=True), cosine)
    return turn / torch.sinc(angle / torch.pi)


def orthonormal(bishop: Float[Tensor, "batch 3 3"]) -> Float[Tensor, "batch 3 3"]:
    """The Bishop frame with T and M1 made orthonormal again after a step, T's direction kept."""
    tangent = torch.nn.functional.normalize(bishop[..., 0], dim=-1)
    normal = bishop[..., 1] - (bishop[..., 1] * tangent).sum(-1, keepdim=True) * tangent
    normal = torch.nn.functional.normalize(normal, dim=-1)
    return torch.stack([tangent, normal, torch.linalg.cross(tangent, normal)], -1)


def _derivative(values: Float[Tensor, "batch vertex any"]) -> Float[Tensor, "batch vertex any"]:
    """Fourth-order differences per vertex, one-sided at the ends."""
    inner = (values[:, :-4] - 8 * values[:, 1:-3] + 8 * values[:, 3:-1] - values[:, 4:]) / 12
    weights = values.new_tensor([[-25, 48, -36, 16, -3], [-3, -10, 18, -6, 1]]) / 12
    head = torch.einsum("ij,bjk->bik", weights, values[:, :5])
    tail = -torch.einsum("ij,bjk->bik", weights, values[:, -5:].flip(1)).flip(1)
    return torch.cat([head, inner, tail], 1)


def _mean_over_arc(values: Float[Tensor, "batch vertex"]) -> Float[Tensor, " batch"]:
    return ((values[:, 1:] + values[:, :-1]) / 2).mean(1)


def _transport(tangents: Float[Tensor, "batch vertex 3"]) -> Float[Tensor, "batch vertex 3 3"]:
    """Frames that turn with the tangents and never about them, M1 starting along the axis furthest from T."""
    across = torch.nn.functional.one_hot(tangents[:, 0].abs().argmin(-1), 3).to(tangents.dtype)
    first = orthonormal(torch.stack([tangents[:, 0], across, across], -1))
    # The frames grow from the left, R_n ... R_1 F; their inverses from the right, as `_cumulative_product` wants it.
    inverse = _cumulative_product(_least_rotations(tangents[:, 1:], tangents[:, :-1]))
    return _quaternion_matrix(inverse).mT @ first[:, None]


def _least_rotations(old: Float[Tensor, "*any 3"], new: Float[Tensor, "*any 3"]) -> Float[Tensor, "*any 4"]:
    """Quaternions of the rotations that turn unit vectors into others the shortest way, by less than half a turn."""
    turns = torch.cat([1 + (old * new).sum(-1, keepdim=True), torch.linalg.cross(old, new)], -1)
    return torch.nn.functional.normalize(turns, dim=-1)


def skew(vector: Float[Tensor, "*any 3"]) -> Float[Tensor, "*any 3 3"]:
    """The matrix of v x, the cross product with v."""
    x, y, z = vector.unbind(-1)
    zero = torch.zeros_like(x)
    return torch.stack([torch.stack(row, -1) for row in ([zero, -z, y], [z, zero, -x], [-y, x, zero])], -2)
