"""Length over width of things in a picture: 0.8 for a disc, 2 for a tight coil, 10 for a worm stretched out."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray


def area_by_width(mask: NDArray[np.uint8]) -> float:
    """Area over the square of the greatest width, of a mask with a border."""
    depth = cv2.distanceTransform(mask, cv2.DIST_L2, 3)
    return cv2.countNonZero(mask) / (2 * float(depth.max()) - 1) ** 2


def filled(mask: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """The part of a picture that a mask is in, its holes filled, with a border of one px."""
    left, top, width, height = cv2.boundingRect(mask.view(np.uint8))
    part = cv2.copyMakeBorder(
        mask[top : top + height, left : left + width].view(np.uint8), 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0
    )
    outlines, _ = cv2.findContours(part, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    return np.asarray(cv2.drawContours(part, outlines, -1, 1, cv2.FILLED))
