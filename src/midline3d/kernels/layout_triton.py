"""Where numbers stand, for Triton: the unknowns of a frame in its vector, the fields of a state in its row."""

from typing import no_type_check

import triton
import triton.language as tl

from midline3d.kernels.layout import PLACES

MOVE, TURN, BEND, LENGTH, SHIFT, SIGMA, IOTA, DEFOCUS, RHO, COUNT = map(tl.constexpr, range(len(PLACES)))
"""Which number of `Layout.places` says where a block of unknowns begins."""


@triton.jit
@no_type_check
def state_columns(vertices, axes, cameras):
    """Where length, shift, sigma, iota, rho and defocus begin in a row of `state.packed`; before them lie the points (3
    for each vertex), the Bishop frames (9) and the curvature (2)."""
    length = 14 * vertices
    sigma = length + 1 + axes
    return length, length + 1, sigma, sigma + cameras, sigma + 2 * cameras, sigma + 3 * cameras
