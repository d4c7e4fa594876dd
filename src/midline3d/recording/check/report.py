"""What a check has found: for people as text and picture, for machines as a dictionary."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from midline3d.recording.check.facts import Facts
from midline3d.recording.check.issues import Issue
from midline3d.recording.check.looking import Seen
from midline3d.recording.check.picture import draw_report
from midline3d.recording.check.text import report_text
from midline3d.recording.description import Recording


@dataclass(frozen=True, eq=False)
class Report:
    """What was found."""

    facts: Facts
    issues: tuple[Issue, ...]
    recording: Recording
    seen: tuple[Seen, ...] = field(default=())
    """The frames looked at."""

    @property
    def ok(self) -> bool:
        """Whether nothing is beyond its limit."""
        return not any(issue.severity == "error" for issue in self.issues)

    def as_dict(self) -> dict[str, Any]:
        """All of it, in the types of JSON."""
        return {"ok": self.ok, **self.facts.as_dict(), "findings": [asdict(issue) for issue in self.issues]}

    def text(self) -> str:
        """All of it, for people."""
        return report_text(self.facts, self.issues)

    def picture(self, path: Path | str) -> None:
        """Draw the views with what was found in them, and how it went over time."""
        draw_report(self.recording, self.seen, Path(path))
