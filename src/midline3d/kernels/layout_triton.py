"""Where numbers stand, for Triton: the unknowns of a frame in its vector, the fields of a record in its row."""

from typing import no_type_check

import triton
import triton.language as tl

from midline3d.kernels.layout import NUMBERS

NODES, AXES, CAMERAS, MOVE, TURN, BEND, LENGTH, SHIFT, SIGMA, IOTA, DEFOCUS, RHO, COUNT = map(
    tl.constexpr, range(len(NUMBERS))
)
"""Which of `Layout.numbers` it is: how many there are of something, or where a block of unknowns begins."""


@triton.jit
@no_type_check
def state_columns(vertices, axes, cameras):
    """Where length, shift, sigma, iota, defocus and rho begin in a row of `state.packed`; before them lie the points (3
    for each vertex), the Bishop frames (9) and the curvature (2)."""
    length = 14 * vertices
    sigma = length + 1 + axes
    return length, length + 1, sigma, sigma + cameras, sigma + 2 * cameras, sigma + 3 * cameras


@triton.jit
@no_type_check
def camera_numbers(rig, view, cameras):
    """Where a view's focal lengths, centre, distortion, rotation and translation lie in a row of
    `cameras.packed_cameras`."""
    return (
        rig + 2 * view,
        rig + 2 * cameras + 2 * view,
        rig + 4 * cameras + 5 * view,
        rig + 9 * cameras + 9 * view,
        rig + 18 * cameras + 3 * view,
    )
