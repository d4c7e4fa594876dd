"""Which backend a problem is given: the fastest that there is for its device and dtype."""

from __future__ import annotations

import warnings
from functools import cache

import torch

from midline3d.kernels.contract import Backend
from midline3d.kernels.cpu import CBackend
from midline3d.kernels.reference import TorchBackend
from midline3d.native import REMEDY


@cache
def select_backend(device: str, dtype: torch.dtype) -> Backend:
    """The fastest backend for a kind of device ("cpu", "cuda") and a dtype; C and Triton take float32 alone."""
    if device == "cpu" and dtype is torch.float32:
        try:
            return CBackend()
        except OSError as missing:
            warnings.warn(
                f"curves and normal equations go by plain torch, several times slower on the CPU: {missing} ({REMEDY})",
                stacklevel=2,
            )
    if device == "cuda" and dtype is torch.float32:
        try:
            from midline3d.kernels.gpu import TritonBackend
        except ImportError:
            return TorchBackend()  # The renderer, which Triton speeds up most, says what is missing.
        return TritonBackend()
    return TorchBackend()
