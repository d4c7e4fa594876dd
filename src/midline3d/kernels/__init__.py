"""What is fast: the sums of a second-order step behind one contract, in torch (the reference), C and Triton."""

from midline3d.kernels.basis import Basis, spline_basis
from midline3d.kernels.choice import select_backend
from midline3d.kernels.contract import Backend, Energy, Prior, StepLimits, System
from midline3d.kernels.layout import Layout
from midline3d.kernels.reference import TorchBackend

__all__ = [
    "Backend",
    "Basis",
    "Energy",
    "Layout",
    "Prior",
    "StepLimits",
    "System",
    "TorchBackend",
    "select_backend",
    "spline_basis",
]
