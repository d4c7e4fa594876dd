"""The Triton kernels of the GPU renderer: one program for each tile of a view, or for each blob.

`centre`, `sigma`, `iota`, `rho` and what lies beside them point at the contract's tensors; `cut` is -log(cutoff).
Triton reads the functions' source, so nothing may wrap them: `no_type_check` keeps the tests' shape checker away.
"""

import math
import os
from typing import no_type_check

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

LOG2_E = tl.constexpr(math.log2(math.e))
LOG_2 = tl.constexpr(math.log(2))
# CUDA's own log2 is a polynomial of some 17 instructions; the chip has one that is right to 2^-22.
HAS_FAST_LOG2 = tl.constexpr(torch.version.cuda is not None and os.environ.get("TRITON_INTERPRET", "0") != "1")


# --- one blob ---------------------------------------------------------------------------------------------------------


@triton.jit
@no_type_check
def _log2(x):
    if HAS_FAST_LOG2 and x.dtype == tl.float32:
        return libdevice.fast_log2f(x)
    else:  # noqa: RET505 (the branch is chosen while compiling)
        return tl.log2(x)


@triton.jit
@no_type_check
def _reach(sigma, rho, cut):
    """Distance (px) at which a blob is cut; a hair more, so that rounding loses no pixel."""
    return sigma * (1.41435 * tl.exp2(_log2(cut) * 0.5 / rho))


@triton.jit
@no_type_check
def _power(right, down, sigma, rho):
    """log2(x), x^(rho - 1) and x^rho at offsets (px) from the centre; on it x counts as 1 in the first two, so that
    nothing is infinite."""
    x = (right * right + down * down) * (0.5 / (sigma * sigma))
    log_x = _log2(tl.where(x == 0, 1.0, x))
    steep = tl.exp2((rho - 1.0) * log_x)
    return log_x, steep, x * steep


@triton.jit
@no_type_check
def _log1p(x):
    """log(1 + x) that keeps its digits where x is small: Kahan's correction of what 1 + x rounded away."""
    rounded = 1.0 + x
    lost = rounded == 1.0
    return tl.where(lost, x, tl.log(rounded) * (x / tl.where(lost, 1.0, rounded - 1.0)))


# --- the pixel pass: a program for each tile --------------------------------------------------------------------------


@triton.jit
@no_type_check
def _touches(u, v, reach, left, top, TILE_H: tl.constexpr, TILE_W: tl.constexpr):
    """Whether a blob's disc meets a tile; false for a centre that is not a number."""
    right = tl.maximum(tl.maximum(left - u, u - (left + (TILE_W - 1))), 0.0)
    down = tl.maximum(tl.maximum(top - v, v - (top + (TILE_H - 1))), 0.0)
    return (right * right + down * down <= reach * reach) & (u == u) & (v == v)


@triton.jit
@no_type_check
def _largest(
    centre, sigma, iota, rho, cut, vertices, left, top,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """log2 of the render and its owner on a tile (-inf, -1 where no blob is), and whether any blob touches the tile.
    The pointers point at the view.

    In logarithms an evaluation saves one exponential; the order of the values is the same.
    """
    n = tl.arange(0, PADDED)
    u = tl.load(centre + 2 * n, mask=n < vertices, other=0.0)
    v = tl.load(centre + 2 * n + 1, mask=n < vertices, other=0.0)
    reach = _reach(tl.load(sigma + n, mask=n < vertices, other=1.0), rho, cut)
    touched = (n < vertices) & _touches(u, v, reach, left, top, TILE_H, TILE_W)
    # Neighbours along the curve are neighbours in the image: the touching vertices are one run, or a few in a coil.
    first = tl.min(tl.where(touched, n, PADDED), 0)
    last = tl.max(tl.where(touched, n, -1), 0)

    columns = (left + tl.arange(0, TILE_W)).to(rho.dtype)[None, :]
    rows = (top + tl.arange(0, TILE_H)).to(rho.dtype)[:, None]
    best = tl.full((TILE_H, TILE_W), float("-inf"), rho.dtype)
    owner = tl.full((TILE_H, TILE_W), -1, tl.int32)
    for vertex in range(first, last + 1):
        u_n, v_n, sigma_n = tl.load(centre + 2 * vertex), tl.load(centre + 2 * vertex + 1), tl.load(sigma + vertex)
        if _touches(u_n, v_n, _reach(sigma_n, rho, cut), left, top, TILE_H, TILE_W):
            _, _, power = _power(columns - u_n, rows - v_n, sigma_n, rho)
            faded = tl.where(power <= cut, -power * LOG2_E, float("-inf"))
            value = _log2(tl.load(iota + vertex)) + faded
            owner = tl.where(value > best, vertex, owner)  # not >=: the lowest vertex keeps a tie
            best = tl.maximum(best, value)
    return best, owner, first <= last


@triton.jit
@no_type_check
def _tile_pixels(left, top, height, width, TILE_H: tl.constexpr, TILE_W: tl.constexpr):
    """Offsets of a tile's pixels in their view, and which of them lie inside it."""
    rows, columns = top + tl.arange(0, TILE_H)[:, None], left + tl.arange(0, TILE_W)[None, :]
    return rows * width + columns, (rows < height) & (columns < width)


@triton.jit
@no_type_check
def render_tile(
    centre, sigma, iota, rho, image, owner, cut, vertices, height, width,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """The render and its owners on a tile."""
    view, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    across = tl.cdiv(width, TILE_W)
    left, top = tile % across * TILE_W, tile // across * TILE_H
    first = view * vertices
    best, best_owner, _ = _largest(
        centre + 2 * first, sigma + first, iota + first, tl.load(rho + view), cut, vertices, left, top,
        TILE_H, TILE_W, PADDED,
    )  # fmt: skip
    pixels, inside = _tile_pixels(left, top, height, width, TILE_H, TILE_W)
    tl.store(image + view * height * width + pixels, tl.exp2(best), mask=inside)
    tl.store(owner + view * height * width + pixels, best_owner, mask=inside)


@triton.jit
@no_type_check
def residual_tile(
    centre, sigma, iota, rho, images, picture, residual, owner, loss, cut, vertices, height, width, scale,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, PADDED: tl.constexpr, ROBUST: tl.constexpr, BORDERED: tl.constexpr,
):  # fmt: skip
    """r = log(1 + R) - log(1 + I) and the owners where a blob touches the tile, and the tile's part of the loss.

    picture: the columns and rows of each view that are known, where BORDERED says so; beyond them r is 0.
    """
    view, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    across = tl.cdiv(width, TILE_W)
    left, top = tile % across * TILE_W, tile // across * TILE_H
    first = view * vertices
    best, best_owner, touched = _largest(
        centre + 2 * first, sigma + first, iota + first, tl.load(rho + view), cut, vertices, left, top,
        TILE_H, TILE_W, PADDED,
    )  # fmt: skip
    pixels, inside = _tile_pixels(left, top, height, width, TILE_H, TILE_W)
    target = tl.load(images + view * height * width + pixels, mask=inside, other=0.0)
    known = inside
    if BORDERED:
        picture += 4 * view
        rows, columns = top + tl.arange(0, TILE_H)[:, None], left + tl.arange(0, TILE_W)[None, :]
        known = known & (columns >= tl.load(picture)) & (columns <= tl.load(picture + 1))
        known = known & (rows >= tl.load(picture + 2)) & (rows <= tl.load(picture + 3))
    r = tl.where(known, _log1p(tl.exp2(best)) - _log1p(target), 0.0)
    if touched:  # the blob pass reads no other tile
        tl.store(residual + view * height * width + pixels, r, mask=inside)
        tl.store(owner + view * height * width + pixels, best_owner, mask=inside)
    square = r * r
    if ROBUST:
        square = scale * scale * _log1p(square / (scale * scale))
    tl.store(loss + view * tl.num_programs(1) + tile, tl.sum(tl.sum(square, 1), 0))


# --- the blob pass: a program for each blob ---------------------------------------------------------------------------


@triton.jit
@no_type_check
def _load_blob(centre, sigma, iota, rho, vertices):
    """The number of the program's blob and of its view, and the blob's u, v, sigma, iota, rho."""
    blob = tl.program_id(0).to(tl.int64)
    view = blob // vertices
    u, v = tl.load(centre + 2 * blob), tl.load(centre + 2 * blob + 1)
    return blob, view, u, v, tl.load(sigma + blob), tl.load(iota + blob), tl.load(rho + view)


@triton.jit
@no_type_check
def _span(middle, reach, size):
    """The first pixel from `middle` - `reach` on and the last up to `middle` + `reach` inside 0 .. size - 1."""
    # A far-off centre, or one that is not a number, is not rounded to an integer: it spans nothing.
    meets = (middle + reach >= 0) & (middle - reach <= size - 1)
    first = tl.ceil(tl.maximum(tl.where(meets, middle - reach, 0.0), 0.0)).to(tl.int32)
    last = tl.floor(tl.minimum(tl.where(meets, middle + reach, -1.0), size - 1.0)).to(tl.int32)
    return first, last


@triton.jit
@no_type_check
def _window(u, v, sigma, rho, cut, height, width, BLOCK: tl.constexpr):
    """The part of the image that a blob's disc spans: where its corner lies in the view, the centre seen from there,
    its columns and number of pixels (0 outside the image), and rows and columns of the first BLOCK of them."""
    reach = _reach(sigma, rho, cut)
    left, right = _span(u, reach, width)
    top, bottom = _span(v, reach, height)
    columns = tl.maximum(right - left + 1, 0)
    count = columns * tl.maximum(bottom - top + 1, 0)
    columns = tl.maximum(columns, 1)
    pixel = tl.arange(0, BLOCK)
    return top * width + left, u - left, v - top, columns, count, pixel // columns, pixel % columns


@triton.jit
@no_type_check
def _next(row, column, columns, BLOCK: tl.constexpr):
    """The window's pixels BLOCK further on, without a division for each."""
    column += BLOCK % columns
    wraps = column >= columns
    return row + BLOCK // columns + wraps.to(tl.int32), tl.where(wraps, column - columns, column)


@triton.jit
@no_type_check
def _shape(right, down, sigma, rho, cut, counts):
    """What `_power` gives and B / iota, 0 where the blob is cut or the pixel does not count."""
    log_x, steep, power = _power(right, down, sigma, rho)
    counts = counts & (power <= cut)
    return log_x, steep, power, tl.where(counts, tl.exp2(-power * LOG2_E), 0.0), counts


@triton.jit
@no_type_check
def _slopes(right, down, log_x, steep, power, shape, sigma, iota, rho):
    """dB / d(u, v, sigma, iota, rho)."""
    value = iota * shape
    radial = value * steep * (rho / (sigma * sigma))
    return radial * right, radial * down, value * power * (2.0 * rho / sigma), shape, -value * power * log_x * LOG_2


@triton.jit
@no_type_check
def sum_blob(
    centre, sigma, iota, rho, images, overlap, mass, cut, vertices, height, width, BLOCK: tl.constexpr
):  # fmt: skip
    """sum(B I) and sum(B) of a blob."""
    blob, view, u, v, sigma_n, iota_n, rho_n = _load_blob(centre, sigma, iota, rho, vertices)
    corner, u, v, columns, count, row, column = _window(u, v, sigma_n, rho_n, cut, height, width, BLOCK)
    images += view * height * width + corner
    overlap_sum = tl.zeros((BLOCK,), rho_n.dtype)
    mass_sum = tl.zeros((BLOCK,), rho_n.dtype)
    for start in range(0, count, BLOCK):
        counts = start + tl.arange(0, BLOCK) < count
        _, _, _, shape, counts = _shape(column - u, row - v, sigma_n, rho_n, cut, counts)
        overlap_sum += shape * tl.load(images + row * width + column, mask=counts, other=0.0)
        mass_sum += shape
        row, column = _next(row, column, columns, BLOCK)
    tl.store(overlap + blob, iota_n * tl.sum(overlap_sum, 0))
    tl.store(mass + blob, iota_n * tl.sum(mass_sum, 0))


@triton.jit
@no_type_check
def differentiate_blob(
    centre, sigma, iota, rho, images, owner, image_upstream, overlap_upstream, mass_upstream, gradient,
    cut, vertices, height, width, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums of dB / d(u, v, sigma, iota, rho), weighted by what came down to the pixel and to the blob."""
    blob, view, u, v, sigma_n, iota_n, rho_n = _load_blob(centre, sigma, iota, rho, vertices)
    corner, u, v, columns, count, row, column = _window(u, v, sigma_n, rho_n, cut, height, width, BLOCK)
    corner += view * height * width
    images, owner, image_upstream = images + corner, owner + corner, image_upstream + corner
    by_overlap, by_mass = tl.load(overlap_upstream + blob), tl.load(mass_upstream + blob)
    du = tl.zeros((BLOCK,), rho_n.dtype)
    dv = tl.zeros((BLOCK,), rho_n.dtype)
    ds = tl.zeros((BLOCK,), rho_n.dtype)
    di = tl.zeros((BLOCK,), rho_n.dtype)
    dr = tl.zeros((BLOCK,), rho_n.dtype)
    for start in range(0, count, BLOCK):
        right, down = column - u, row - v
        counts = start + tl.arange(0, BLOCK) < count
        log_x, steep, power, shape, counts = _shape(right, down, sigma_n, rho_n, cut, counts)
        pixel = row * width + column
        owned = counts & (tl.load(owner + pixel, mask=counts, other=-1) == blob % vertices)
        weight = tl.load(image_upstream + pixel, mask=owned, other=0.0) + by_mass
        weight += by_overlap * tl.load(images + pixel, mask=counts, other=0.0)
        gu, gv, gs, gi, gr = _slopes(right, down, log_x, steep, power, shape, sigma_n, iota_n, rho_n)
        du += weight * gu
        dv += weight * gv
        ds += weight * gs
        di += weight * gi
        dr += weight * gr
        row, column = _next(row, column, columns, BLOCK)
    gradient += 5 * blob
    tl.store(gradient, tl.sum(du, 0))
    tl.store(gradient + 1, tl.sum(dv, 0))
    tl.store(gradient + 2, tl.sum(ds, 0))
    tl.store(gradient + 3, tl.sum(di, 0))
    tl.store(gradient + 4, tl.sum(dr, 0))


@triton.jit
@no_type_check
def _store_both(gram, i: tl.constexpr, j: tl.constexpr, products):
    total = tl.sum(products, 0)
    tl.store(gram + 5 * i + j, total)
    tl.store(gram + 5 * j + i, total)


@triton.jit
@no_type_check
def multiply_blob(
    centre, sigma, iota, rho, images, residual, owner, gram, slope, overlap, mass,
    cut, vertices, height, width, scale, BLOCK: tl.constexpr, ROBUST: tl.constexpr,
):  # fmt: skip
    """sum(w g g') and sum(w g r) over the pixels that the blob owns, with g = dB / (1 + R) and R = B on them."""
    blob, view, u, v, sigma_n, iota_n, rho_n = _load_blob(centre, sigma, iota, rho, vertices)
    corner, u, v, columns, count, row, column = _window(u, v, sigma_n, rho_n, cut, height, width, BLOCK)
    corner += view * height * width
    images, owner, residual = images + corner, owner + corner, residual + corner
    zero = tl.zeros((BLOCK,), rho_n.dtype)
    uu, uv, us, ui, ur = zero, zero, zero, zero, zero
    vv, vs, vi, vr = zero, zero, zero, zero
    ss, si, sr = zero, zero, zero
    ii, ir, rr = zero, zero, zero
    bu, bv, bs, bi, br = zero, zero, zero, zero, zero
    overlap_sum, mass_sum = zero, zero
    for start in range(0, count, BLOCK):
        right, down = column - u, row - v
        counts = start + tl.arange(0, BLOCK) < count
        log_x, steep, power, shape, counts = _shape(right, down, sigma_n, rho_n, cut, counts)
        pixel = row * width + column
        overlap_sum += shape * tl.load(images + pixel, mask=counts, other=0.0)
        mass_sum += shape
        owned = counts & (tl.load(owner + pixel, mask=counts, other=-1) == blob % vertices)
        if tl.max(owned.to(tl.int32), 0) > 0:
            r = tl.load(residual + pixel, mask=owned, other=0.0)
            brightness = 1.0 + iota_n * shape
            weight = brightness * brightness
            if ROBUST:
                weight *= 1.0 + (r / scale) * (r / scale)
            weight = tl.where(owned, 1.0 / weight, 0.0)
            r *= brightness
            gu, gv, gs, gi, gr = _slopes(right, down, log_x, steep, power, shape, sigma_n, iota_n, rho_n)
            wu, wv, ws, wi, wr = weight * gu, weight * gv, weight * gs, weight * gi, weight * gr
            uu, uv, us, ui, ur = uu + wu * gu, uv + wu * gv, us + wu * gs, ui + wu * gi, ur + wu * gr
            vv, vs, vi, vr = vv + wv * gv, vs + wv * gs, vi + wv * gi, vr + wv * gr
            ss, si, sr = ss + ws * gs, si + ws * gi, sr + ws * gr
            ii, ir, rr = ii + wi * gi, ir + wi * gr, rr + wr * gr
            bu, bv, bs, bi, br = bu + wu * r, bv + wv * r, bs + ws * r, bi + wi * r, br + wr * r
        row, column = _next(row, column, columns, BLOCK)
    tl.store(overlap + blob, iota_n * tl.sum(overlap_sum, 0))
    tl.store(mass + blob, iota_n * tl.sum(mass_sum, 0))
    gram += 25 * blob
    _store_both(gram, 0, 0, uu)
    _store_both(gram, 0, 1, uv)
    _store_both(gram, 0, 2, us)
    _store_both(gram, 0, 3, ui)
    _store_both(gram, 0, 4, ur)
    _store_both(gram, 1, 1, vv)
    _store_both(gram, 1, 2, vs)
    _store_both(gram, 1, 3, vi)
    _store_both(gram, 1, 4, vr)
    _store_both(gram, 2, 2, ss)
    _store_both(gram, 2, 3, si)
    _store_both(gram, 2, 4, sr)
    _store_both(gram, 3, 3, ii)
    _store_both(gram, 3, 4, ir)
    _store_both(gram, 4, 4, rr)
    slope += 5 * blob
    tl.store(slope, tl.sum(bu, 0))
    tl.store(slope + 1, tl.sum(bv, 0))
    tl.store(slope + 2, tl.sum(bs, 0))
    tl.store(slope + 3, tl.sum(bi, 0))
    tl.store(slope + 4, tl.sum(br, 0))
