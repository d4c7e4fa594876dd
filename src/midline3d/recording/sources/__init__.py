"""Where a camera's pictures come from: videos, folders of pictures, multi-page TIFF and .npy stacks, all alike.

A source knows its `count`, `size` and `rate` and gives grey pictures by index, 8 or 16 bit, or None for a frame that
was dropped or cannot be read. It holds no open file between calls.
"""

from midline3d.recording.sources.opening import open_source
from midline3d.recording.sources.source import Picture, Source, exists, grey
from midline3d.recording.sources.stills import PICTURE_SUFFIXES
from midline3d.recording.sources.threads import ahead, in_order, one_thread_a_picture, side_by_side, synchronised

__all__ = [
    "PICTURE_SUFFIXES",
    "Picture",
    "Source",
    "ahead",
    "exists",
    "grey",
    "in_order",
    "one_thread_a_picture",
    "open_source",
    "side_by_side",
    "synchronised",
]
