"""Connected things in a picture."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray


def connected(mask: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The connected pieces of a mask, diagonal neighbours included: (height, width) their numbers, 0 where there is
    none; (number, 5) their boxes and areas; (number, 2) their centres; all as OpenCV has them."""
    # Numbers of two bytes, where there cannot be too many pieces, are told in a third of the time.
    kind = cv2.CV_16U if cv2.countNonZero(mask) < np.iinfo(np.uint16).max else cv2.CV_32S
    _, labels, stats, centres = cv2.connectedComponentsWithStats(mask, connectivity=8, ltype=kind)
    return np.asarray(labels), np.asarray(stats), np.asarray(centres)
