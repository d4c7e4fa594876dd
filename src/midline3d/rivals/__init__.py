"""Methods side by side: ours, the paper's and its rivals' over the same recordings, whose truth is known."""

from midline3d.rivals.run import METHODS, Contest, hold_contest
from midline3d.rivals.table import Standing

__all__ = ["METHODS", "Contest", "Standing", "hold_contest"]
