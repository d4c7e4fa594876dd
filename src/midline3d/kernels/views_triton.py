"""Image points, optics and appearance in Triton: one program for each view of each frame."""

from typing import no_type_check

import triton
import triton.language as tl

from midline3d import appearance
from midline3d.kernels.curves_triton import value_at, wide, within
from midline3d.kernels.layout_triton import camera_numbers

CAP, LONGEST, ROUNDED = (tl.constexpr(each) for each in (appearance.CAP, appearance.LONGEST, appearance.ROUNDED))


@triton.jit
@no_type_check
def in_camera(rotation, translation, points, i: tl.constexpr, counts):
    """Coordinate i of the points in a camera."""
    value = tl.load(translation + i).to(tl.float64)
    for j in tl.static_range(3):
        value += tl.load(rotation + 3 * i + j).to(tl.float64) * wide(points + j, counts)
    return value


@triton.jit
@no_type_check
def project_view(
    rig, rig_row, shift_basis, points, points_row, shift, shift_row, vertices, axes, out,
    SHIFTED: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """`cameras.project`: a program for each view of each frame."""
    b, view, cameras = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    focal, centre, distortion, rotation, translation = camera_numbers(rig + b * rig_row, view, cameras)
    n = tl.arange(0, PADDED)
    counts = n < vertices
    points += b * points_row + 3 * n
    fx, fy = tl.load(focal).to(tl.float64), tl.load(focal + 1).to(tl.float64)
    depth = tl.where(counts, in_camera(rotation, translation, points, 2, counts), 1.0)
    x = in_camera(rotation, translation, points, 0, counts) / depth
    y = in_camera(rotation, translation, points, 1, counts) / depth
    if SHIFTED:
        for a in range(0, axes):
            by = tl.load(shift + b * shift_row + a).to(tl.float64)
            x += by * tl.load(shift_basis + 2 * view * axes + a).to(tl.float64) / fx
            y += by * tl.load(shift_basis + (2 * view + 1) * axes + a).to(tl.float64) / fy
    k1, k2 = tl.load(distortion).to(tl.float64), tl.load(distortion + 1).to(tl.float64)
    p1, p2 = tl.load(distortion + 2).to(tl.float64), tl.load(distortion + 3).to(tl.float64)
    k3 = tl.load(distortion + 4).to(tl.float64)
    r = x * x + y * y
    radial = 1 + r * (k1 + r * (k2 + r * k3))
    u = (radial * x + 2 * p1 * x * y + p2 * (r + 2 * x * x)) * fx + tl.load(centre).to(tl.float64)
    v = (radial * y + p1 * (r + 2 * y * y) + 2 * p2 * x * y) * fy + tl.load(centre + 1).to(tl.float64)
    out += 2 * ((b * cameras + view) * vertices + n)
    tl.store(out, u.to(tl.float32), mask=counts)
    tl.store(out + 1, v.to(tl.float32), mask=counts)


@triton.jit
@no_type_check
def optics_view(
    rig, rig_row, points, points_row, tangents, tangents_row, between, along_axis, vertices, stretch, beyond,
    PADDED: tl.constexpr,
):  # fmt: skip
    """`appearance.optics`: a program for each view of each frame. `between` lies from one vertex's tangent to the next,
    `along_axis` from one coordinate of it to the next."""
    b, view, cameras = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    _, _, _, rotation, translation = camera_numbers(rig + b * rig_row, view, cameras)
    n = tl.arange(0, PADDED)
    counts = n < vertices
    points, tangents = points + b * points_row + 3 * n, tangents + b * tangents_row + between * n
    away = in_camera(rotation, translation, points, 2, counts)
    along = tl.zeros((PADDED,), tl.float64)
    for i in tl.static_range(3):
        along += tl.load(rotation + 6 + i).to(tl.float64) * wide(tangents + along_axis * i, counts)
    across = tl.sqrt(tl.maximum(1 - along * along, 0.0))
    mean = tl.sum(tl.where(counts, away, 0.0), 0) / vertices
    out = (b * cameras + view) * vertices + n
    tl.store(stretch + out, (1 / tl.maximum(across, 1 / LONGEST)).to(tl.float32), mask=counts)
    tl.store(beyond + out, (away - mean).to(tl.float32), mask=counts)


@triton.jit
@no_type_check
def _end(place, share, bluntness, tip):
    """`appearance._end`, as a logarithm."""
    inward = 1 - within(place / share, 0.0, 1.0)
    tapered = tl.exp(bluntness * tl.log(tl.maximum(1 - inward * inward, 1e-4)))
    least = tl.minimum(tl.maximum(place, 0.0) / ROUNDED, tip)
    return tl.log(least + (1 - least) * tapered)


@triton.jit
@no_type_check
def taper_view(
    views, views_row, stretch, beyond, body, body_row, hats, knots, floor, vertices, sigma, iota, by_view,
    PADDED: tl.constexpr, KNOTS: tl.constexpr,
):  # fmt: skip
    """`appearance.Profile.apply`: a program for each view of each frame. `views` is a row of sigma, iota and defocus of
    all views, `body` one of `Profile.rows`; `body_row` is 0 where all frames share one."""
    b, view, cameras = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    views, body = views + b * views_row + view, body + b * body_row
    tissue, sharp = body + 9, body + 9 + knots + view
    length = sharp + cameras
    n = tl.arange(0, PADDED)
    counts = n < vertices
    out = (b * cameras + view) * vertices + n
    wide, bright = tl.load(views), tl.load(views + cameras)
    thin = tl.minimum(tl.load(sharp), wide)
    middle = tl.sqrt(tl.maximum(wide * wide - thin * thin, floor * floor))
    away = tl.load(beyond + out, mask=counts, other=0.0)
    blur = tl.maximum(middle + tl.load(views + 2 * cameras) * away, floor)
    lost = CAP / tl.load(length)
    place = n.to(tl.float32) / (vertices - 1)
    off_head, off_tail = lost * value_at(blur, n == 0), lost * value_at(blur, n == vertices - 1)
    head = _end(place - off_head, tl.load(body), tl.load(body + 1), tl.load(body + 4))
    tail = _end(1 - place - off_tail, tl.load(body + 2), tl.load(body + 3), tl.load(body + 5))
    k = tl.arange(0, KNOTS)
    near = tl.load(hats + n[:, None] * knots + k[None, :], mask=counts[:, None] & (k < knots)[None, :], other=0.0)
    dense = tl.sum(near * tl.load(tissue + k, mask=k < knots, other=0.0)[None, :], 1)
    width = tl.exp(head + tail)
    opacity = tl.exp(head * tl.load(body + 6) + tail * tl.load(body + 7) + dense)
    spread = tl.sqrt(thin * thin * width * width + blur * blur)
    whole = tl.sqrt(thin * thin + middle * middle)
    longer = tl.exp(tl.log(tl.load(stretch + out, mask=counts, other=1.0)) * tl.load(body + 8))
    faded = bright * opacity * width * (whole / spread) * longer
    by_blur = tl.where(blur > floor, blur / spread, 0.0)
    by_sigma = tl.where(wide > thin, by_blur * wide * wide / middle, spread)
    by_focus = by_blur * away
    tl.store(sigma + out, spread, mask=counts)
    tl.store(iota + out, faded, mask=counts)
    by_view += 6 * out
    tl.store(by_view, by_sigma, mask=counts)
    tl.store(by_view + 1, tl.zeros_like(spread), mask=counts)
    tl.store(by_view + 2, by_focus, mask=counts)
    tl.store(by_view + 3, faded * (1 - by_sigma / spread), mask=counts)
    tl.store(by_view + 4, faded, mask=counts)
    tl.store(by_view + 5, -faded * by_focus / spread, mask=counts)
