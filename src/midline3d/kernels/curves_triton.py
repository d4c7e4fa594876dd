"""Curves, and states after a step, in Triton: one program for each frame.

Batch-first tensors may be rows of something wider: `*_row` is what lies between two frames. States are rows of
`state.packed`. What decides where a vertex lies is float64 between float32 in and out, as in curves.h: a few thousand
operations a frame cost nothing in it.
Triton reads the functions' source, so nothing may wrap them: `no_type_check` keeps the tests' shape checker away.
"""

from typing import no_type_check

import triton
import triton.language as tl

from midline3d.kernels.layout_triton import (
    AXES,
    BEND,
    CAMERAS,
    COUNT,
    DEFOCUS,
    IOTA,
    LENGTH,
    MOVE,
    NODES,
    RHO,
    SHIFT,
    SIGMA,
    TURN,
    state_columns,
)


@triton.jit
@no_type_check
def wide(pointer, mask):
    """Loaded in float64, 0 outside the mask."""
    return tl.load(pointer, mask=mask, other=0.0).to(tl.float64)


@triton.jit
@no_type_check
def within(value, low, high):
    """Clamped; what is not a number stays so."""
    return tl.where(value < low, low, tl.where(value > high, high, value))


@triton.jit
@no_type_check
def cross(ax, ay, az, bx, by, bz):
    """The cross product a x b."""
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx


@triton.jit
@no_type_check
def _hamilton(a, b, c, d, e, f, g, h):
    """The product of two quaternions."""
    return (
        a * e - b * f - c * g - d * h,
        a * f + e * b + c * h - d * g,
        a * g + e * c + d * f - b * h,
        a * h + e * d + b * g - c * f,
    )


@triton.jit
@no_type_check
def _segment(curvature, m, vertices, inside):
    """Rotation vector of segment m (`curve.segment_rotations`) and its chord for unit length (`curve._chords`)."""
    step = 1.0 / (vertices - 1).to(tl.float64)
    one, two = curvature, curvature + 1
    first, last = inside & (m > 0), inside & (m < vertices - 2)
    a0, a1 = wide(one + 2 * m - 2, first), wide(two + 2 * m - 2, first)
    b0, b1 = wide(one + 2 * m, inside), wide(two + 2 * m, inside)
    c0, c1 = wide(one + 2 * m + 2, inside), wide(two + 2 * m + 2, inside)
    d0, d1 = wide(one + 2 * m + 4, last), wide(two + 2 * m + 4, last)
    before0, before1 = c0 - 2 * b0 + a0, c1 - 2 * b1 + a1
    after0, after1 = d0 - 2 * c0 + b0, d1 - 2 * c1 + b1
    # The first and the last segment have but one neighbour, which stands for both.
    near0, near1 = tl.where(first, before0, after0), tl.where(first, before1, after1)
    far0, far1 = tl.where(last, after0, before0), tl.where(last, after1, before1)
    x = (b0 * c1 - b1 * c0) * (step * step / 12)
    y = -((b1 + c1) / 2 - (near1 + far1) / 24) * step
    z = ((b0 + c0) / 2 - (near0 + far0) / 24) * step
    angle = x * x + y * y + z * z
    half = (1 - angle / 12 + angle * angle / 360) / 2
    sixth = (1 - angle / 20 + angle * angle / 840) / 6
    along = 1 - sixth * (y * y + z * z)
    left = half * z + sixth * x * y - (c0 - b0) * (step / 12)
    up = sixth * x * z - half * y - (c1 - b1) * (step / 12)
    return x, y, z, along, left, up


@triton.jit
@no_type_check
def _matrix(w, x, y, z):
    """The rotation of a quaternion, row by row."""
    norm = 1 / tl.sqrt(w * w + x * x + y * y + z * z)
    w, x, y, z = w * norm, x * norm, y * norm, z * norm
    return (
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    )  # fmt: skip


@triton.jit
@no_type_check
def value_at(values, chosen):
    """The value at the one place that is chosen."""
    return tl.sum(tl.where(chosen, values, 0.0), 0)


@triton.jit
@no_type_check
def integrate_curve(
    position, start_bishop, curvature, curvature_row, length, length_row, start, vertices, curve, curve_row,
    PADDED: tl.constexpr,
):  # fmt: skip
    """`curve.integrate`: a program for each curve. Rows of `curve` begin as a state's: points, then Bishop frames."""
    b = tl.program_id(0).to(tl.int64)
    n = tl.arange(0, PADDED)
    counts = n < vertices
    # Vertex n is reached by segment n - 1, vertex 0 by none.
    reached = counts & (n > 0)
    x, y, z, along, left, up = _segment(curvature + b * curvature_row, n - 1, vertices, reached)
    h = (x * x + y * y + z * z) / 4
    s = tl.where(reached, 0.5 - h / 12 + h * h / 240 - h * h * h / 10080, 0.0)
    c = tl.where(reached, 1 - h / 2 + h * h / 24 - h * h * h / 720, 1.0)
    qw, qx, qy, qz = tl.associative_scan((c, s * x, s * y, s * z), 0, _hamilton)
    r00, r01, r02, r10, r11, r12, r20, r21, r22 = _matrix(qw, qx, qy, qz)
    # A chord is given in the frame that its segment starts with: this vertex's, less the segment's own rotation.
    ow, ox, oy, oz = _hamilton(qw, qx, qy, qz, c, -s * x, -s * y, -s * z)
    o00, o01, o02, o10, o11, o12, o20, o21, o22 = _matrix(ow, ox, oy, oz)
    unit = tl.where(reached, tl.load(length + b * length_row).to(tl.float64) / (vertices - 1), 0.0)
    px = tl.cumsum(unit * (o00 * along + o01 * left + o02 * up), 0)
    py = tl.cumsum(unit * (o10 * along + o11 * left + o12 * up), 0)
    pz = tl.cumsum(unit * (o20 * along + o21 * left + o22 * up), 0)
    first = tl.load(start + b)
    here = n == tl.where(first < 0, first + vertices, first)
    px, py, pz = px - value_at(px, here), py - value_at(py, here), pz - value_at(pz, here)
    s00, s01, s02 = value_at(r00, here), value_at(r01, here), value_at(r02, here)
    s10, s11, s12 = value_at(r10, here), value_at(r11, here), value_at(r12, here)
    s20, s21, s22 = value_at(r20, here), value_at(r21, here), value_at(r22, here)
    curve += b * curve_row
    points, bishop = curve + 3 * n, curve + 3 * vertices + 9 * n
    for i in tl.static_range(3):
        f0 = tl.load(start_bishop + 9 * b + 3 * i).to(tl.float64)
        f1 = tl.load(start_bishop + 9 * b + 3 * i + 1).to(tl.float64)
        f2 = tl.load(start_bishop + 9 * b + 3 * i + 2).to(tl.float64)
        # Row i of what carries the curve from vertex 0's Bishop frame into the one given: start_bishop @ R(start)'.
        c0, c1, c2 = f0 * s00 + f1 * s01 + f2 * s02, f0 * s10 + f1 * s11 + f2 * s12, f0 * s20 + f1 * s21 + f2 * s22
        place = tl.load(position + 3 * b + i).to(tl.float64) + c0 * px + c1 * py + c2 * pz
        tl.store(points + i, place.to(tl.float32), mask=counts)
        tl.store(bishop + 3 * i, (c0 * r00 + c1 * r10 + c2 * r20).to(tl.float32), mask=counts)
        tl.store(bishop + 3 * i + 1, (c0 * r01 + c1 * r11 + c2 * r21).to(tl.float32), mask=counts)
        tl.store(bishop + 3 * i + 2, (c0 * r02 + c1 * r12 + c2 * r22).to(tl.float32), mask=counts)


@triton.jit
@no_type_check
def _turned(x, y, z, vx, vy, vz):
    """exp(turn x) v, by Rodrigues."""
    a = x * x + y * y + z * z
    small = a < 1e-8
    square = tl.where(small, 1.0, a)
    angle = tl.sqrt(square)
    once = tl.where(small, 1 - a / 6, tl.sin(angle) / angle)
    twice = tl.where(small, 0.5 - a / 24, (1 - tl.cos(angle)) / square)
    ax, ay, az = cross(x, y, z, vx, vy, vz)
    bx, by, bz = cross(x, y, z, ax, ay, az)
    return vx + once * ax + twice * bx, vy + once * ay + twice * by, vz + once * az + twice * bz


@triton.jit
@no_type_check
def _grown(old, log_step, limits, new, count, PADDED: tl.constexpr):
    """`count` numbers after a step of their logarithms; of `limits` come the longest step, the least and the most."""
    i = tl.arange(0, PADDED)
    most, low, high = tl.load(limits), tl.load(limits + 1), tl.load(limits + 2)
    value = wide(old + i, i < count) * tl.exp(within(wide(log_step + i, i < count), -most, most))
    tl.store(new + i, within(value, low, high).to(tl.float32), mask=i < count)


@triton.jit
@no_type_check
def take_step(
    step, basis, state, state_row, limits, layout, vertices, place, start_bishop, made, made_row,
    PADDED: tl.constexpr, PADDED_NODES: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    """`reference.take_step` up to the curve, which `integrate_curve` makes from the middle's place and Bishop frame.

    `limits` (`gpu._step_limits`): for length, sigma, iota and rho the longest logarithmic step, the least and the most;
    then the most of curvature and of defocus.
    """
    b = tl.program_id(0).to(tl.int64)
    nodes, axes, cameras = tl.load(layout + NODES), tl.load(layout + AXES), tl.load(layout + CAMERAS)
    step, state, made = step + b * tl.load(layout + COUNT), state + b * state_row, made + b * made_row
    move, about, bend = step + tl.load(layout + MOVE), step + tl.load(layout + TURN), step + tl.load(layout + BEND)
    n, j = tl.arange(0, PADDED), tl.arange(0, PADDED_NODES)
    counts, both = n < vertices, (n < vertices)[:, None] & (j < nodes)[None, :]
    row = tl.load(basis + n[:, None] * nodes + j[None, :], mask=both, other=0.0)
    bend1 = tl.load(bend + j, mask=j < nodes, other=0.0)
    bend2 = tl.load(bend + nodes + j, mask=j < nodes, other=0.0)
    old, limit = state + 12 * vertices + 2 * n, tl.load(limits + 12)
    one = wide(old, counts) + tl.sum(row * bend1[None, :], 1)
    two = wide(old + 1, counts) + tl.sum(row * bend2[None, :], 1)
    norm = tl.sqrt(one * one + two * two)
    shorter = tl.where(norm > limit, limit / tl.where(norm > limit, norm, 1.0), 1.0)
    new = made + 12 * vertices + 2 * n
    tl.store(new, (one * shorter).to(tl.float32), mask=counts)
    tl.store(new + 1, (two * shorter).to(tl.float32), mask=counts)

    middle = vertices // 2
    points, bishop = state + 3 * middle, state + 3 * vertices + 9 * middle
    turn1, turn2 = tl.load(about).to(tl.float64), tl.load(about + 1).to(tl.float64)
    t0, n0, m0 = tl.load(bishop).to(tl.float64), tl.load(bishop + 1).to(tl.float64), tl.load(bishop + 2).to(tl.float64)
    t1, n1 = tl.load(bishop + 3).to(tl.float64), tl.load(bishop + 4).to(tl.float64)
    t2, n2 = tl.load(bishop + 6).to(tl.float64), tl.load(bishop + 7).to(tl.float64)
    m1, m2 = tl.load(bishop + 5).to(tl.float64), tl.load(bishop + 8).to(tl.float64)
    x, y, z = n0 * turn1 + m0 * turn2, n1 * turn1 + m1 * turn2, n2 * turn1 + m2 * turn2
    t0, t1, t2 = _turned(x, y, z, t0, t1, t2)
    n0, n1, n2 = _turned(x, y, z, n0, n1, n2)
    size = 1 / tl.sqrt(t0 * t0 + t1 * t1 + t2 * t2)
    t0, t1, t2 = t0 * size, t1 * size, t2 * size
    along = t0 * n0 + t1 * n1 + t2 * n2
    n0, n1, n2 = n0 - along * t0, n1 - along * t1, n2 - along * t2
    size = 1 / tl.sqrt(n0 * n0 + n1 * n1 + n2 * n2)
    n0, n1, n2 = n0 * size, n1 * size, n2 * size
    m0, m1, m2 = cross(t0, t1, t2, n0, n1, n2)
    start_bishop += 9 * b
    tl.store(start_bishop, t0.to(tl.float32))
    tl.store(start_bishop + 1, n0.to(tl.float32))
    tl.store(start_bishop + 2, m0.to(tl.float32))
    tl.store(start_bishop + 3, t1.to(tl.float32))
    tl.store(start_bishop + 4, n1.to(tl.float32))
    tl.store(start_bishop + 5, m1.to(tl.float32))
    tl.store(start_bishop + 6, t2.to(tl.float32))
    tl.store(start_bishop + 7, n2.to(tl.float32))
    tl.store(start_bishop + 8, m2.to(tl.float32))
    i = tl.arange(0, 4)
    tl.store(place + 3 * b + i, (wide(points + i, i < 3) + wide(move + i, i < 3)).to(tl.float32), mask=i < 3)

    length, shift, sigma, iota, defocus, rho = state_columns(vertices, axes, cameras)
    _grown(state + length, step + tl.load(layout + LENGTH), limits, made + length, 1, 1)
    _grown(state + sigma, step + tl.load(layout + SIGMA), limits + 3, made + sigma, cameras, FEW)
    _grown(state + iota, step + tl.load(layout + IOTA), limits + 6, made + iota, cameras, FEW)
    _grown(state + rho, step + tl.load(layout + RHO), limits + 9, made + rho, cameras, FEW)
    i, blurred = tl.arange(0, FEW), tl.load(limits + 13)
    focus = wide(state + defocus + i, i < cameras) + wide(step + tl.load(layout + DEFOCUS) + i, i < cameras)
    tl.store(made + defocus + i, within(focus, -blurred, blurred).to(tl.float32), mask=i < cameras)
    aside = wide(state + shift + i, i < axes) + wide(step + tl.load(layout + SHIFT) + i, i < axes)
    tl.store(made + shift + i, aside.to(tl.float32), mask=i < axes)
