"""The result: append, verify, resume, consolidate, open."""

from midline3d.store.about import About, info
from midline3d.store.dataset import PENDING
from midline3d.store.edits import Edit, EditLog, Pin, edit_of
from midline3d.store.frames import StoredFrames
from midline3d.store.lock import HeldError, locked
from midline3d.store.log import RunLog
from midline3d.store.manifest import ranges
from midline3d.store.overlay import Overlay
from midline3d.store.parts import ResultParts
from midline3d.store.records import EDITS, REASONS, STATUSES, Edited, FrameResult, Header, Reason, Status
from midline3d.store.result import Result, open_result

__all__ = [
    "EDITS",
    "PENDING",
    "REASONS",
    "STATUSES",
    "About",
    "Edit",
    "EditLog",
    "Edited",
    "FrameResult",
    "Header",
    "HeldError",
    "Overlay",
    "Pin",
    "Reason",
    "Result",
    "ResultParts",
    "RunLog",
    "Status",
    "StoredFrames",
    "edit_of",
    "info",
    "locked",
    "open_result",
    "ranges",
]
