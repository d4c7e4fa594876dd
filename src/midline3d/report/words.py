"""What a report says in words and numbers: how it went, what it was made with, and how to make it again."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from midline3d.kinematics import summary
from midline3d.reading import number_of
from midline3d.report.courses import pair_misses
from midline3d.report.material import Array, Material, Undrawable
from midline3d.store import EDITS, REASONS, ranges
from midline3d.store.difference import span
from midline3d.store.edits import KINDS

SURE = 0.9
"""Confidence in the head above which it is called sure."""
MEASURED = (
    *("length", "speed", "forward_speed", "frequency", "wavelength", "wave_speed", "planarity", "nonplanarity"),
    *("handedness", "roll_rate", "straightness"),
)
"""Quantities of the kinematics that the report tells; the tables of `midline3d kinematics` have all."""


@dataclass(frozen=True)
class Table:
    """Rows of text under headings."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()
    """Columns that hold numbers."""


@dataclass(frozen=True)
class Tile:
    """One number that matters, large."""

    name: str
    value: str
    remark: str = ""
    tone: str = "ok"
    """A status: good, to be looked at, bad."""


def title(material: Material) -> str:
    return str(material.about.facts.get("recording", material.folder.resolve().name))


def state(material: Material) -> str:
    """What the reader must know first; empty of a result that is complete and whole."""
    about = material.about
    if about.state == "damaged":
        return f"This result is damaged: {'; '.join(about.faults)}. Giving the same command again mends it."
    pending = about.counts.get("pending", 0)
    if pending:
        return (
            f"This result is not complete: {len(material.frames) - pending} of "
            f"{number_of(len(material.frames), 'frame')} are done. "
            "The report shows those; give it again when the run has ended."
        )
    return ""


def tiles(material: Material) -> list[Tile]:
    """The numbers that matter."""
    counts, total = material.about.counts, len(material.frames)
    done = total - counts.get("pending", 0)
    suspect, gone = counts["suspect"], counts["lost"] + counts["unreadable"]
    return [
        Tile("frames", f"{total}", _duration(material), "ok" if done == total else "suspect"),
        Tile("ok", _share(counts["ok"], done), number_of(counts["ok"], "frame"), "ok" if counts["ok"] else "lost"),
        Tile("suspect", _share(suspect, done), number_of(suspect, "frame"), "suspect" if suspect else "ok"),
        Tile("lost or unreadable", _share(gone, done), number_of(gone, "frame"), "lost" if gone else "ok"),
        _length(material),
        _head(material),
        _explained(material),
    ]


def _duration(material: Material) -> str:
    fps = float(material.result.attrs.get("fps", material.about.facts.get("fps", 1.0)))
    return f"{len(material.frames) / fps:.1f} s at {fps:g} frames/s"


def _length(material: Material) -> Tile:
    lengths = material.result.length.values[np.isin(material.status, ("ok", "suspect"))]
    if not np.isfinite(lengths).any():
        return Tile("length", "–", "no frame has one", "lost")
    spread = material.about.facts.get("length_std")
    off = "its uncertainty is not given" if spread is None else f"± {float(spread):.3f} mm, a standard deviation"
    return Tile("length", f"{np.nanmedian(lengths):.3f} mm", off)


def _head(material: Material) -> Tile:
    sure = material.about.facts.get("head_confidence")
    if sure is None:
        return Tile("head", "–", "not given", "suspect")
    remark = "keypoint 0 is the head" if float(sure) >= SURE else "look which end is which"
    return Tile("head", f"{float(sure):.1%}", remark, "ok" if float(sure) >= SURE else "suspect")


def _explained(material: Material) -> Tile:
    shares = material.about.frames.explained
    if not shares:
        return Tile("explained light", "–", "not given", "suspect")
    worst = min(shares, key=lambda name: shares[name])
    return Tile("explained light", f"{shares[worst]:.0%}", f"median of {worst}, the least of the views")


def reasons(material: Material) -> Table | None:
    """Why frames are not ok: how many, which, and what the word means. None where all are."""
    words = np.asarray(material.result.reason.values.astype(str)) if "reason" in material.result else np.array([])
    rows = []
    for (status, word), count in Counter(zip(material.status.tolist(), words.tolist(), strict=False)).most_common():
        if status not in ("ok", "pending"):
            here = material.frames[(material.status == status) & (words == word)]
            rows.append((status, word, str(count), ranges(here.tolist(), 6), REASONS.get(word, "")))
    columns = ("status", "reason", "frames", "which", "meaning")
    return Table(columns, tuple(rows), frozenset({2})) if rows else None


def look_at(material: Material) -> str:
    """The frames to look at, and how."""
    warning = material.about.warning()
    if warning is None:
        return "There is no frame to look at: all that are done are ok, or somebody has accepted them."
    return f"{warning[:1].upper()}{warning[1:]}. Look at them, and mend them, with"


def shares(material: Material) -> Table:
    """Explained light of every view."""
    values = material.variable("explained")
    rows = [(name, *_spread(values[:, index], "{:.0%}")) for index, name in enumerate(material.views)]
    return Table(("camera", *_SPREAD), tuple(rows), frozenset({1, 2, 3, 4}))


def misses(material: Material) -> Table:
    """By how much every pair of views misses each other."""
    rows = []
    for (one, other), miss in pair_misses(material).items():
        there = miss[np.isfinite(miss)]
        rms = float(np.sqrt(np.square(there).mean())) if len(there) else float("nan")
        rows.append((f"{one} and {other}", f"{there.mean():+.2f}", f"{there.std():.2f}", f"{rms:.2f}"))
    return Table(("views", "mean, px", "deviation over time, px", "root mean square, px"), tuple(rows), _NUMBERS)


_NUMBERS = frozenset({1, 2, 3})
_SPREAD = ("least", "5 % of the frames are below", "median", "greatest")


def _spread(values: Array, form: str) -> list[str]:
    there = values[np.isfinite(values)]
    if not len(there):
        return ["–"] * 4
    return [form.format(value) for value in (there.min(), np.percentile(there, 5), np.median(there), there.max())]


def measures(material: Material) -> Table:
    """Means of the kinematics with their uncertainty."""
    means = summary(material.kinematics()).set_index("quantity")
    rows = []
    for name in MEASURED:
        if name in means.index and means.loc[name, "values"] > 0:
            row = means.loc[name]
            unit = "" if row.units == "1" else str(row.units)
            rows.append((name, *(_number(row[key]) for key in _MEANS), unit, str(row.meaning)))
    columns = ("quantity", "mean", "deviation over time", "uncertainty of a frame", "unit", "meaning")
    return Table(columns, tuple(rows), _NUMBERS)


_MEANS = ("mean", "deviation_over_time", "uncertainty")


def _number(value: Any) -> str:
    return "–" if not np.isfinite(value) else f"{value:.3g}"


def edited(material: Material) -> tuple[Table | None, Table | None]:
    """What frames are by what people did to them, and the corrections that stand; None where there are none."""
    words = material.result.edited.values.astype(str).tolist() if "edited" in material.result else []
    counts = Counter(words)
    frames = Table(
        ("frames", "edited", "meaning"),
        tuple((str(counts[word]), word, EDITS[word]) for word in EDITS if counts[word]),
        frozenset({0}),
    )
    log = Table(
        ("what", "frames", "pins", "who", "when", "version"),
        tuple(
            (KINDS[edit.kind], ranges(edit.numbers, 4), str(len(edit.pins) or ""), edit.who, edit.when, edit.version)
            for edit in material.edits
        ),
        frozenset({2}),
    )
    touched = len(words) > counts["automatic"]
    return (frames if touched else None), (log if material.edits else None)


def settings(material: Material) -> Table | None:
    """Settings that are not the defaults; None where all are."""
    rows = tuple(
        (name, _told(value, "not known to that version"), _told(usual, "gone in this version"))
        for name, (value, usual) in material.about.changed.items()
    )
    return Table(("setting", "this result", "default"), rows) if rows else None


def _told(value: Any, absent: str) -> str:
    return absent if value is None else str(value)


def settings_file(material: Material) -> str:
    """What `--settings` needs to make this result again, as TOML; empty where the defaults do."""
    sections: dict[str, list[str]] = {}
    for name, (value, usual) in material.about.changed.items():
        section, _, key = name.partition(".")
        if value is not None and usual is not None:
            sections.setdefault(section, []).append(f"{key} = {_toml(value)}")
    return "\n".join(f"[{section}]\n" + "\n".join(lines) + "\n" for section, lines in sections.items())


def _toml(value: Any) -> str:
    import json

    return json.dumps(list(value) if isinstance(value, tuple) else value)


def command(material: Material, settings_path: str | None) -> str:
    """The command that makes this result again. settings_path: of the file with what is not the default."""
    facts, frames = material.about.facts, tuple(int(number) for number in material.frames)
    source = str(facts.get("recording_path", "RECORDING"))
    words = ["midline3d", "reconstruct", source, "-o", "OUT", "--frames", span(frames)]
    words += ["--seed", str(facts.get("seed", 0)), "--device", str(facts.get("device", "auto"))]
    words += [] if settings_path is None else ["--settings", settings_path]
    return shlex.join(words)


def made_with(material: Material) -> Table:
    """Versions, machine and inputs."""
    facts, made = material.about.facts, material.result.attrs
    shown = {
        "recording": facts.get("recording_path") or facts.get("recording"),
        "cameras": ", ".join(material.views),
        "midline3d": facts.get("version"),
        "versions": facts.get("versions"),
        "machine": facts.get("machine"),
        "device": facts.get("device"),
        "seed": facts.get("seed"),
        "speed": _speed(facts.get("frames_per_second")),
        "world": _world(material),
        "smoothing of derivatives": None if material.measured is None else material.measured.attrs["smoothing"],
        "fingerprint of the frames": made.get("segments"),
        "not there": "; ".join(material.about.missing),
    }
    rows = tuple((name, str(value)) for name, value in shown.items() if value not in (None, ""))
    return Table(("", ""), rows)


def _speed(value: Any) -> str | None:
    return None if value is None else f"{float(value):.1f} frames/s"


def _world(material: Material) -> str:
    try:
        return str(material.kinematics().attrs["world"])
    except Undrawable:
        return ""


def _share(count: int, total: int) -> str:
    if not total:
        return "–"
    return f"{count / total:.0%}" if count in (0, total) else f"{count / total:.1%}"
