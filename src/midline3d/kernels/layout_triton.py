"""Where each unknown of a frame stands in its vector, for Triton: what of `Layout.places` each place is."""

import triton.language as tl

from midline3d.kernels.layout import PLACES

MOVE, TURN, BEND, LENGTH, SHIFT, SIGMA, IOTA, DEFOCUS, RHO, COUNT = map(tl.constexpr, range(len(PLACES)))
