"""A recording from its first frame to its last."""

from midline3d.tracking.reconstruct import reconstruct

__all__ = ["reconstruct"]
