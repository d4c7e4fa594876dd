"""Energies and normal equations in Triton: one program for each frame, some nodes of one, or a tile of a matrix."""

from typing import no_type_check

import triton
import triton.language as tl

from midline3d.kernels.curves_triton import cross, wide
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
    camera_numbers,
    state_columns,
)
from midline3d.kernels.views_triton import in_camera


@triton.jit
@no_type_check
def _kept(now, before, weights, gradient, count, KIND: tl.constexpr, FEW: tl.constexpr):
    """The temporal energy of `count` numbers, and its gradient.

    KIND: 0 for the change itself, 1 for that of the logarithm, 2 for the value.
    """
    i = tl.arange(0, FEW)
    counts = i < count
    value = tl.load(now + i, mask=counts, other=1.0)
    last = tl.load(before + i, mask=counts, other=1.0)
    change = value
    if KIND == 0:
        change = value - last
    if KIND == 1:
        change = tl.log(value / last)
    half = tl.load(weights + i, mask=counts, other=0.0) * change
    tl.store(gradient + i, half, mask=counts)
    return tl.sum(half * change, 0)


@triton.jit
@no_type_check
def sum_energy(
    losses, pixel_weight, slope, weights, state, state_row, anchor, anchor_row, layout, vertices, energies, gradient,
    PADDED: tl.constexpr, PADDED_NODES: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    """What `reference.energy` makes of the pixels' losses and of K' Q: a program for each frame. State and anchor are
    rows of `state.packed`; `energies` are the sums, then the terms."""
    b, batch = tl.program_id(0).to(tl.int64), tl.num_programs(0)
    nodes, axes, cameras = tl.load(layout + NODES), tl.load(layout + AXES), tl.load(layout + CAMERAS)
    gradient += b * tl.load(layout + COUNT)
    state, anchor = state + b * state_row, anchor + b * anchor_row
    bends, first = tl.load(layout + BEND), tl.load(layout + LENGTH)
    n, j, i = tl.arange(0, PADDED), tl.arange(0, PADDED_NODES), tl.arange(0, FEW)
    pixels = pixel_weight * tl.sum(tl.load(losses + b * cameras + i, mask=i < cameras, other=0.0), 0)
    bending = 0.0
    for direction in tl.static_range(2):
        row = slope + (2 * b + direction) * (vertices + nodes)
        bend = tl.load(state + 12 * vertices + 2 * n + direction, mask=n < vertices, other=0.0)
        bending += tl.sum(bend * tl.load(row + n, mask=n < vertices, other=0.0), 0)
        half = tl.load(row + vertices + j, mask=j < nodes, other=0.0)
        tl.store(gradient + bends + direction * nodes + j, half, mask=j < nodes)
    # The place and the direction of the middle vertex are free.
    free = tl.arange(0, 8)
    tl.store(gradient + free, tl.zeros((8,), tl.float32), mask=free < bends)
    weights -= first
    length, shift, sigma, iota, defocus, rho = state_columns(vertices, axes, cameras)
    kept = _kept(state + length, anchor + length, weights + first, gradient + first, 1, 1, 1)
    at = tl.load(layout + SHIFT)
    kept += _kept(state + shift, anchor + shift, weights + at, gradient + at, axes, 0, FEW)
    at = tl.load(layout + SIGMA)
    kept += _kept(state + sigma, anchor + sigma, weights + at, gradient + at, cameras, 1, FEW)
    at = tl.load(layout + IOTA)
    kept += _kept(state + iota, anchor + iota, weights + at, gradient + at, cameras, 1, FEW)
    at = tl.load(layout + DEFOCUS)
    kept += _kept(state + defocus, anchor + defocus, weights + at, gradient + at, cameras, 2, FEW)
    at = tl.load(layout + RHO)
    kept += _kept(state + rho, anchor + rho, weights + at, gradient + at, cameras, 1, FEW)
    tl.store(energies + b, pixels + bending + kept)
    tl.store(energies + batch + b, pixels)
    tl.store(energies + 2 * batch + b, bending)
    tl.store(energies + 3 * batch + b, kept)


@triton.jit
@no_type_check
def derive_places(
    state, state_row, segments, layout, vertices, places, PADDED: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """`normal.vertex_derivatives`, (batch, vertex, 3, unknown): a program for some nodes of a frame, the last for what
    is not a bend."""
    nodes, unknowns = tl.load(layout + NODES), tl.load(layout + SHIFT)
    b, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    n = tl.arange(0, PADDED)
    counts = n < vertices
    middle = vertices // 2
    points, bishop = state + b * state_row, state + b * state_row + 3 * vertices
    o0, o1, o2 = tl.load(points + 3 * middle), tl.load(points + 3 * middle + 1), tl.load(points + 3 * middle + 2)
    x = tl.load(points + 3 * n, mask=counts, other=0.0) - o0
    y = tl.load(points + 3 * n + 1, mask=counts, other=0.0) - o1
    z = tl.load(points + 3 * n + 2, mask=counts, other=0.0) - o2
    out = places + (b * vertices + n) * 3 * unknowns
    if block == tl.num_programs(1) - 1:
        for i in tl.static_range(3):
            for j in tl.static_range(3):
                at = out + i * unknowns + tl.load(layout + MOVE) + j
                tl.store(at, tl.full((PADDED,), 1.0 if i == j else 0.0, tl.float32), mask=counts)
        for direction in tl.static_range(2):
            about = bishop + 9 * middle + 1 + direction
            tx, ty, tz = cross(tl.load(about), tl.load(about + 3), tl.load(about + 6), x, y, z)
            at = out + tl.load(layout + TURN) + direction
            tl.store(at, tx, mask=counts)
            tl.store(at + unknowns, ty, mask=counts)
            tl.store(at + 2 * unknowns, tz, mask=counts)
        at = out + tl.load(layout + LENGTH)
        tl.store(at, x, mask=counts)
        tl.store(at + unknowns, y, mask=counts)
        tl.store(at + 2 * unknowns, z, mask=counts)
    else:
        # Row n of the running sums holds the segments before vertex n. They are float64, as in systems.h: near an end
        # of a straight body what is left of them is small, and their rounding all of one sign.
        reached = counts & (n > 0)
        px = (x + wide(points + 3 * n - 3, reached) - o0) / 2
        py = (y + wide(points + 3 * n - 2, reached) - o1) / 2
        pz = (z + wide(points + 3 * n - 1, reached) - o2) / 2
        node = block * BLOCK + tl.arange(0, BLOCK)
        both = reached[:, None] & (node < nodes)[None, :]
        share = wide(segments + (n[:, None] - 1) * nodes + node[None, :], both) / (2 * (vertices - 1))
        here = (n == middle)[:, None]
        keep = counts[:, None] & (node < nodes)[None, :]
        for direction in tl.static_range(2):
            # Bending towards M1 is a turn about M2, bending towards M2 one about -M1.
            axis = bishop + 9 * n + 2 - direction
            sign = 1.0 - 2.0 * direction
            ax = sign * (wide(axis, reached) + wide(axis - 9, reached))
            ay = sign * (wide(axis + 3, reached) + wide(axis - 6, reached))
            az = sign * (wide(axis + 6, reached) + wide(axis - 3, reached))
            mx, my, mz = cross(ax, ay, az, px, py, pz)
            sx, sy, sz = _since(share, ax, here), _since(share, ay, here), _since(share, az, here)
            dx, dy, dz = cross(sx, sy, sz, x[:, None], y[:, None], z[:, None])
            to = out[:, None] + tl.load(layout + BEND) + direction * nodes + node[None, :]
            tl.store(to, (dx - _since(share, mx, here)).to(tl.float32), mask=keep)
            tl.store(to + unknowns, (dy - _since(share, my, here)).to(tl.float32), mask=keep)
            tl.store(to + 2 * unknowns, (dz - _since(share, mz, here)).to(tl.float32), mask=keep)


@triton.jit
@no_type_check
def _since(share, values, here):
    """Running sums of share * values down the vertices, counted from the middle."""
    sums = tl.cumsum(share * values[:, None], 0)
    return sums - tl.sum(tl.where(here, sums, 0.0), 0)[None, :]


@triton.jit
@no_type_check
def _pixel_by_place(rotation, focal, distortion, x, y, depth, j: tl.constexpr):
    """d(u, v) by coordinate j of a point that lies at (x, y) of the plane (`cameras.projection_jacobian`)."""
    fx, fy = tl.load(focal).to(tl.float64), tl.load(focal + 1).to(tl.float64)
    k1, k2 = tl.load(distortion).to(tl.float64), tl.load(distortion + 1).to(tl.float64)
    p1, p2 = tl.load(distortion + 2).to(tl.float64), tl.load(distortion + 3).to(tl.float64)
    k3 = tl.load(distortion + 4).to(tl.float64)
    toward = tl.load(rotation + 6 + j).to(tl.float64)
    du = fx / depth * (tl.load(rotation + j).to(tl.float64) - x * toward)
    dv = fy / depth * (tl.load(rotation + 3 + j).to(tl.float64) - y * toward)
    r = x * x + y * y
    radial, slope = 1 + r * (k1 + r * (k2 + r * k3)), 2 * (k1 + r * (2 * k2 + 3 * r * k3))
    xx = radial + slope * x * x + 2 * p1 * y + 6 * p2 * x
    yy = radial + slope * y * y + 6 * p1 * y + 2 * p2 * x
    xy = slope * x * y + 2 * p1 * x + 2 * p2 * y
    return (xx * du + xy * (fx / fy) * dv).to(tl.float32), (xy * (fy / fx) * du + yy * dv).to(tl.float32)


@triton.jit
@no_type_check
def _other(shift_basis, by_view, rho, row: tl.constexpr, view, column, cameras, axes, counts):
    """Row `row` (u, v, sigma, iota, rho) of a blob's derivative by shifts and views' appearance, (vertex, column)."""
    later = column - axes
    kind, whose = later // cameras, later % cameras
    mine = (later >= 0) & (whose == view)
    if row < 2:
        at = shift_basis + (2 * view + row) * axes + column
        value = tl.load(at, mask=column < axes, other=0.0)[None, :]
        return tl.where(counts[:, None], value, 0.0)
    elif row < 4:  # noqa: RET505 (the branch is chosen while compiling)
        here = counts[:, None] & (mine & (kind < 3))[None, :]
        return tl.load(by_view[:, None] + 3 * (row - 2) + kind[None, :], mask=here, other=0.0)
    else:
        here = counts[:, None] & (mine & (kind == 3))[None, :]
        return tl.where(here, rho, 0.0)


@triton.jit
@no_type_check
def couple_blobs(
    rig, rig_row, shift_basis, state, state_row, by_view, gram, slope, layout, vertices,
    spatial, coupling, hessian, gradient, PADDED: tl.constexpr, OTHERS: tl.constexpr,
):  # fmt: skip
    """Sums over the views, a program for each frame: of every vertex the 3 x 3 matrix J' A J, and J' A O with J' b
    behind it, O being the derivative by the shifts and the views' appearance; and O' A O, O' b, which are done with."""
    b = tl.program_id(0).to(tl.int64)
    axes, cameras, shape = tl.load(layout + AXES), tl.load(layout + CAMERAS), tl.load(layout + SHIFT)
    rig, state = rig + b * rig_row, state + b * state_row
    _length, _shift, _sigma, _iota, _defocus, rho = state_columns(vertices, axes, cameras)
    n, column = tl.arange(0, PADDED), tl.arange(0, OTHERS)
    counts = n < vertices
    others = axes + 4 * cameras
    last = (column == others)[None, :]
    points = state + 3 * n
    zero = tl.zeros((PADDED,), tl.float32)
    g00, g01, g02, g11, g12, g22 = zero, zero, zero, zero, zero, zero
    c0 = tl.zeros((PADDED, OTHERS), tl.float32)
    c1, c2 = c0, c0
    corner = tl.zeros((OTHERS, OTHERS), tl.float32)
    rest = tl.zeros((OTHERS,), tl.float32)
    for view in range(0, cameras):
        blob = (b * cameras + view) * vertices + n
        focal, _centre, distortion, turn, away = camera_numbers(rig, view, cameras)
        depth = tl.where(counts, in_camera(turn, away, points, 2, counts), 1.0)
        x = in_camera(turn, away, points, 0, counts) / depth
        y = in_camera(turn, away, points, 1, counts) / depth
        u0, v0 = _pixel_by_place(turn, focal, distortion, x, y, depth, 0)
        u1, v1 = _pixel_by_place(turn, focal, distortion, x, y, depth, 1)
        u2, v2 = _pixel_by_place(turn, focal, distortion, x, y, depth, 2)
        A = gram + 25 * blob
        uu, uv = tl.load(A, mask=counts, other=0.0), tl.load(A + 1, mask=counts, other=0.0)
        vv = tl.load(A + 6, mask=counts, other=0.0)
        a0, a1, a2 = uu * u0 + uv * v0, uu * u1 + uv * v1, uu * u2 + uv * v2
        d0, d1, d2 = uv * u0 + vv * v0, uv * u1 + vv * v1, uv * u2 + vv * v2
        g00, g01, g02 = g00 + u0 * a0 + v0 * d0, g01 + u0 * a1 + v0 * d1, g02 + u0 * a2 + v0 * d2
        g11, g12, g22 = g11 + u1 * a1 + v1 * d1, g12 + u1 * a2 + v1 * d2, g22 + u2 * a2 + v2 * d2
        wide = tl.load(state + rho + view)
        for row in tl.static_range(5):
            mine = _other(shift_basis, by_view + 6 * blob, wide, row, view, column, cameras, axes, counts)
            pushed = tl.zeros((PADDED, OTHERS), tl.float32)
            for other in tl.static_range(5):
                one = _other(shift_basis, by_view + 6 * blob, wide, other, view, column, cameras, axes, counts)
                pushed += tl.load(A + 5 * row + other, mask=counts, other=0.0)[:, None] * one
            slopes = tl.load(slope + 5 * blob + row, mask=counts, other=0.0)
            rest += tl.sum(mine * slopes[:, None], 0)
            corner = tl.dot(tl.trans(mine), pushed, corner, input_precision="ieee")
            if row < 2:
                pushed = tl.where(last, slopes[:, None], pushed)
                if row == 0:
                    c0, c1, c2 = c0 + u0[:, None] * pushed, c1 + u1[:, None] * pushed, c2 + u2[:, None] * pushed
                else:
                    c0, c1, c2 = c0 + v0[:, None] * pushed, c1 + v1[:, None] * pushed, c2 + v2[:, None] * pushed
    _store_spatial(spatial + 9 * (b * vertices + n), g00, g01, g02, g11, g12, g22, counts)
    to = coupling + (b * vertices + n)[:, None] * 3 * (others + 1) + column[None, :]
    keep = counts[:, None] & (column <= others)[None, :]
    tl.store(to, c0, mask=keep)
    tl.store(to + others + 1, c1, mask=keep)
    tl.store(to + 2 * (others + 1), c2, mask=keep)
    count = shape + others
    line = tl.arange(0, OTHERS)
    to = hessian + b * count * count + (shape + line)[:, None] * count + shape + column[None, :]
    tl.store(to, corner, mask=(line < others)[:, None] & (column < others)[None, :])
    tl.store(gradient + b * count + shape + column, rest, mask=column < others)


@triton.jit
@no_type_check
def _store_spatial(to, g00, g01, g02, g11, g12, g22, counts):
    tl.store(to, g00, mask=counts)
    tl.store(to + 1, g01, mask=counts)
    tl.store(to + 2, g02, mask=counts)
    tl.store(to + 3, g01, mask=counts)
    tl.store(to + 4, g11, mask=counts)
    tl.store(to + 5, g12, mask=counts)
    tl.store(to + 6, g02, mask=counts)
    tl.store(to + 7, g12, mask=counts)
    tl.store(to + 8, g22, mask=counts)


@triton.jit
@no_type_check
def multiply_places(
    places, spatial, coupling, layout, vertices, hessian, gradient, TILE: tl.constexpr, DEPTH: tl.constexpr
):  # fmt: skip
    """P' (G P, C): the rows of H that belong to unknowns which move vertices, and their gradient. A program for each
    tile of the matrix."""
    b = tl.program_id(0).to(tl.int64)
    shape, count = tl.load(layout + SHIFT), tl.load(layout + COUNT)
    others = count - shape
    row, column = tl.program_id(1) * TILE + tl.arange(0, TILE), tl.program_id(2) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), tl.float32)
    moves, pushes = (column < shape)[None, :], (column >= shape)[None, :] & (column <= shape + others)[None, :]
    for start in range(0, vertices, DEPTH):
        n = start + tl.arange(0, DEPTH)
        counts = (n < vertices)[:, None]
        vertex = b * vertices + n
        place = places + vertex[:, None] * 3 * shape
        couple = coupling + vertex[:, None] * 3 * (others + 1) + (column - shape)[None, :]
        p0 = tl.load(place + column[None, :], mask=counts & moves, other=0.0)
        p1 = tl.load(place + shape + column[None, :], mask=counts & moves, other=0.0)
        p2 = tl.load(place + 2 * shape + column[None, :], mask=counts & moves, other=0.0)
        for i in tl.static_range(3):
            G = spatial + 9 * vertex + 3 * i
            right = tl.load(couple + i * (others + 1), mask=counts & pushes, other=0.0)
            right += tl.load(G, mask=n < vertices, other=0.0)[:, None] * p0
            right += tl.load(G + 1, mask=n < vertices, other=0.0)[:, None] * p1
            right += tl.load(G + 2, mask=n < vertices, other=0.0)[:, None] * p2
            left = tl.load(place + i * shape + row[None, :], mask=counts & (row < shape)[None, :], other=0.0)
            total = tl.dot(tl.trans(left), right, total, input_precision="tf32x3")
    hessian += b * count * count
    there = (row < shape)[:, None]
    tl.store(hessian + row[:, None] * count + column[None, :], total, mask=there & (column < count)[None, :])
    mirrored = there & pushes & (column < count)[None, :]
    tl.store(hessian + column[None, :] * count + row[:, None], total, mask=mirrored)
    slope = gradient + b * count + row[:, None] + tl.zeros((1, TILE), tl.int32)
    tl.store(slope, total, mask=there & (column == count)[None, :])
