"""The result of a reconstruction: append, verify, resume, consolidate, open."""

from midline3d.store.dataset import PENDING
from midline3d.store.lock import locked
from midline3d.store.records import STATUSES, FrameResult, Header, Status
from midline3d.store.result import Result, open_result

__all__ = ["PENDING", "STATUSES", "FrameResult", "Header", "Result", "Status", "locked", "open_result"]
