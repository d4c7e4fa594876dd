"""The result: append, verify, resume, consolidate, open."""

from midline3d.store.about import About, info
from midline3d.store.dataset import PENDING
from midline3d.store.lock import HeldError, locked
from midline3d.store.log import RunLog
from midline3d.store.manifest import ranges
from midline3d.store.records import EDITS, REASONS, STATUSES, Edited, FrameResult, Header, Reason, Status
from midline3d.store.result import Result, open_result

__all__ = [
    "EDITS",
    "PENDING",
    "REASONS",
    "STATUSES",
    "About",
    "Edited",
    "FrameResult",
    "Header",
    "HeldError",
    "Reason",
    "Result",
    "RunLog",
    "Status",
    "info",
    "locked",
    "open_result",
    "ranges",
]
