"""Where the method breaks: recordings in which one nuisance grows while all else is easy."""

from midline3d.limits.run import Course, find_limits
from midline3d.limits.table import Limits

__all__ = ["Course", "Limits", "find_limits"]
