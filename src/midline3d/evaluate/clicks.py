"""Hand clicks: a CSV of frame,camera,u,v, and where they are known label and who."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from midline3d.errors import InputError
from midline3d.files import write_whole

LABELS = ("head", "tail")
UNORDERED = ("", "body", "midline")
"""What a click somewhere on the body may be labelled: which place along it is nobody's to say."""
COLUMNS = ("frame", "camera", "u", "v", "label", "who")


@dataclass(frozen=True)
class Click:
    """A place that somebody found to lie on the animal's midline."""

    frame: int
    """In the recording."""
    camera: str
    u: float
    """px of the full camera frame, to the right; pixel centres lie at integers."""
    v: float
    """px, down."""
    label: str = ""
    """head, tail, or nothing: somewhere on the body."""
    who: str = ""
    """Who made it."""

    @property
    def image(self) -> tuple[int, str, str]:
        """The clicks that one person made on one picture belong together: frame, camera, who."""
        return self.frame, self.camera, self.who


def read_clicks(path: Path | str, cameras: Sequence[str] | None = None) -> list[Click]:
    """The clicks of a file, in its order. Only frame, camera, u and v are needed; cameras: those that there are."""
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file)
            names = [name.strip().lower() for name in table.fieldnames or ()]
            table.fieldnames = names
            missing = [name for name in COLUMNS[:4] if name not in names]
            if missing:
                raise InputError(
                    f"{path}: the column '{missing[0]}' is missing; the columns are frame,camera,u,v"
                    " and, where they are known, label and who"
                )
            return [_click(row, f"{path}, line {table.line_num}", cameras) for row in table]
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{path}: is no text; give a CSV file with the columns frame,camera,u,v,label") from None
    except OSError as fault:
        raise InputError(f"{path}: cannot be read ({fault.strerror}); check the path") from None


def write_clicks(path: Path | str, clicks: Iterable[Click]) -> None:
    """Writes clicks as `read_clicks` reads them, whole or not at all."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for click in clicks:
        table.writerow([click.frame, click.camera, f"{click.u:.3f}", f"{click.v:.3f}", click.label, click.who])
    write_whole(Path(path), text.getvalue().encode())


def _click(row: dict[str, str], place: str, cameras: Sequence[str] | None) -> Click:
    values = {name: (value or "").strip() for name, value in row.items() if isinstance(value, str) or value is None}
    try:
        frame, u, v = int(values["frame"]), float(values["u"]), float(values["v"])
    except ValueError:
        raise InputError(f"{place}: frame, u or v is not a number; correct it") from None
    if not (math.isfinite(u) and math.isfinite(v)):
        raise InputError(f"{place}: u, v is {u}, {v}; leave the row out where there is no click")
    camera, label = values["camera"], values.get("label", "").lower()
    if cameras is not None and camera not in cameras:
        raise InputError(f"{place}: the camera is '{camera}'; the result's are {', '.join(cameras)}")
    if label not in LABELS + UNORDERED:
        raise InputError(f"{place}: the label is '{label}'; write head, tail, or nothing for a point of the body")
    return Click(frame, camera, u, v, label if label in LABELS else "", values.get("who", ""))
