"""What a result is, how it went and what is missing: of one that grows, is complete, or is damaged."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from midline3d.errors import InputError
from midline3d.reading import number_of
from midline3d.settings import Settings, dump_settings
from midline3d.store.dataset import PENDING
from midline3d.store.difference import flat, span
from midline3d.store.log import LOG, warned_of
from midline3d.store.manifest import MANIFEST, Manifest, ranges, runs
from midline3d.store.overlay import Overlay
from midline3d.store.records import STATUSES, Header
from midline3d.store.result import FINAL, final_attributes
from midline3d.store.segments import SEGMENTS, fingerprint, segments_in

BESIDE = {
    "calibration.json": "the cameras",
    "body.json": "the animal's body",
    "crops": "the prepared crops",
}
"""What lies beside the frames, and is needed to draw or correct them."""


@dataclass(frozen=True)
class Frames:
    """What became of every frame."""

    number: tuple[int, ...] = ()
    status: tuple[str, ...] = ()
    reason: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    explained: Mapping[str, float] = field(default_factory=dict)
    """Median share of the animal's light that is explained, by camera, where that is known."""

    def where(self, *statuses: str) -> list[int]:
        """Numbers of the frames that have one of these statuses."""
        return [number for number, status in zip(self.number, self.status, strict=True) if status in statuses]


@dataclass(frozen=True)
class About:
    """A result in short."""

    path: Path
    state: str
    """complete, growing or damaged."""
    frames: Frames
    facts: Mapping[str, Any]
    """Recording, cameras, fps, version, device, seed and whatever was noted, by name."""
    changed: Mapping[str, tuple[Any, Any]]
    """Settings that differ from the defaults: theirs and the default."""
    missing: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """What the run warned of, as its log has it."""

    @property
    def counts(self) -> dict[str, int]:
        """Frames by status; the four of a complete result are always there."""
        found = Counter(self.frames.status)
        return {status: found[status] for status in STATUSES} | ({PENDING: found[PENDING]} if found[PENDING] else {})

    @property
    def reasons(self) -> dict[str, int]:
        """Frames by reason, the most frequent first."""
        return dict(Counter(reason for reason in self.frames.reason if reason).most_common())

    @property
    def doubtful(self) -> list[int]:
        """Frames to look at: everything done that is not ok, unless somebody has accepted it."""
        numbers = self.frames.where("suspect", "lost", "unreadable")
        accepted = {n for n, edit in zip(self.frames.number, self.frames.edited, strict=True) if edit == "accepted"}
        return [number for number in numbers if number not in accepted]

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        return {
            "result": str(self.path),
            "state": self.state,
            "frames": len(self.frames.number),
            "span": span(self.frames.number),
            "statuses": self.counts,
            "reasons": self.reasons,
            "edited": dict(Counter(self.frames.edited)),
            "look_at": runs(self.doubtful),
            "pending": runs(self.frames.where(PENDING)),
            "explained": dict(self.frames.explained),
            **self.facts,
            "settings": {name: {"value": value, "default": usual} for name, (value, usual) in self.changed.items()},
            "missing": list(self.missing),
            "damaged": list(self.faults),
            "warnings": list(self.warnings),
        }

    def summary(self) -> str:
        """How many frames became what, in one line."""
        parts = ", ".join(f"{count} {status}" for status, count in self.counts.items() if count or status == "ok")
        return f"{number_of(len(self.frames.number), 'frame')}: {parts}"

    def warning(self) -> str | None:
        """The frames to look at, in one line; None where there are none."""
        if not self.doubtful:
            return None
        why = ", ".join(f"{reason} {count}" for reason, count in list(self.reasons.items())[:4])
        parts = f"{number_of(len(self.doubtful), 'frame')} to look at: {ranges(self.doubtful)}"
        return f"{parts} ({why})" if why else parts

    def text(self) -> str:
        """For people."""
        facts, lines = self.facts, [f"{self.path}: a result that is {self.state}"]
        parts = {
            "recording": self._recording(),
            "frames": self.summary().partition(": ")[2],
            "look at": (self.warning() or "nothing").partition(" to look at: ")[2] or "nothing",
            "explained": ", ".join(f"{name} {share:.0%}" for name, share in self.frames.explained.items()),
            "length": self._length(),
            "head": _percent("keypoint 0, with a confidence of", facts.get("head_confidence")),
            "speed": _number(facts.get("frames_per_second"), "frames/s"),
            "made by": self._maker(),
            "settings": self._settings(),
            "missing": "; ".join(self.missing) or "nothing",
            "damaged": "; ".join(self.faults),
        }
        lines += [f"  {name:<10} {what}" for name, what in parts.items() if what]
        lines += [f"  {'warned of':<10} {what}" for what in self.warnings]
        return "\n".join(lines)

    def _length(self) -> str:
        """How surely the animal's length is known."""
        spread = self.facts.get("length_std")
        return "" if spread is None else f"known to {float(spread):.3f} mm (a standard deviation)"

    def _recording(self) -> str:
        facts, count = self.facts, len(self.frames.number)
        if not facts:
            return ""
        named = f"{facts['recording']}, " if "recording" in facts else ""
        seconds = f"{count / facts['fps']:.1f} s at {facts['fps']:g} frames/s"
        return f"{named}frames {span(self.frames.number)}, {seconds}, cameras {', '.join(facts['cameras'])}"

    def _settings(self) -> str:
        parts = [f"{name} = {value} (default {usual})" for name, (value, usual) in self.changed.items()]
        return "; ".join(parts) or ("the defaults" if self.facts else "")

    def _maker(self) -> str:
        if not self.facts:
            return ""
        versions = f" ({self.facts['versions']})" if "versions" in self.facts else ""
        made = f"midline3d {self.facts['version'] or '(unknown)'} on {self.facts['device']}"
        return f"{made}, seed {self.facts['seed']}{versions}"


def info(path: Path | str) -> About:
    """What a result is, how it went and what is missing. path: its folder, or its `midline.nc`."""
    path = Path(path)
    if path.is_file():
        return _of_file(path)
    if not (path / MANIFEST).exists() and not (path / FINAL).exists() and not segments_in(path):
        if (path / LOG).exists():
            raise InputError(f"{path} holds no frame yet: the worm is still being located; {path / LOG} says how far")
        raise InputError(f"{path} is no result: it has neither {MANIFEST} nor {FINAL}; give a reconstruction's folder")
    try:
        manifest: Manifest | None = Manifest.read(path)
        faults: list[str] = []
    except InputError as fault:
        manifest, faults = None, [str(fault)]
        if (path / FINAL).exists() and final_attributes(path / FINAL):
            found = _of_file(path / FINAL)
            return About(path, "damaged", found.frames, found.facts, found.changed, found.missing, tuple(faults))
    frames, broken = _frames(path, manifest)
    if manifest is not None:
        parts = {name: getattr(frames, name) for name in ("status", "reason", "edited")}
        words = Overlay(path, manifest.run).words(frames.number, parts)
        frames = replace(frames, status=words["status"], reason=words["reason"], edited=words["edited"])
    return _of_folder(path, manifest, frames, faults + broken)


def _of_folder(path: Path, manifest: Manifest | None, frames: Frames, faults: list[str]) -> About:
    header = None if manifest is None else manifest.header
    pending, missing = frames.where(PENDING), []
    content = fingerprint(segments_in(path, manifest.since if manifest else 0))
    fresh = final_attributes(path / FINAL).get("segments") == content
    if pending:
        missing.append(f"{number_of(len(pending), 'frame')} ({ranges(pending)}), which the same command goes on with")
    elif not fresh:
        missing.append(f"{FINAL}, which the same command writes")
    missing += [f"{name} ({what})" for name, what in BESIDE.items() if not (path / name).exists()]
    state = "damaged" if faults else "complete" if fresh and not pending else "growing"
    facts = {} if header is None else _facts(header, frames)
    changed = {} if header is None else _changed(header.settings)
    return About(path, state, frames, facts, changed, tuple(missing), tuple(faults), warned_of(path))


def _of_file(path: Path) -> About:
    """From a finished file alone."""
    attributes = final_attributes(path)
    if not attributes:
        raise InputError(f"{path}: cannot be read as a result; give the folder of a reconstruction, or its {FINAL}")
    with xr.open_dataset(path, engine="h5netcdf") as dataset:
        frames = _told(dataset)
        cameras = tuple(dataset.camera.values.astype(str).tolist()) if "camera" in dataset.coords else ()
    names = ("fps", "version", "settings", "seed", "device")
    rest = {name: value for name, value in attributes.items() if name not in (*names, "inputs", "segments", *_FORMAL)}
    header = Header(
        frames.number,
        float(attributes.get("fps", 1.0)),
        cameras,
        settings=str(attributes.get("settings", "")),
        seed=int(attributes.get("seed", 0)),
        device=str(attributes.get("device", "unknown")),
        version=str(attributes.get("version", "")),
        attributes=rest,
    )
    return About(path, "complete", frames, _facts(header, frames), _changed(header.settings))


_WANTED = ("frame", "status", "reason", "edited", "explained")
_FORMAL = ("source_software", "ds_type", "time_unit")


def _frames(path: Path, manifest: Manifest | None) -> tuple[Frames, list[str]]:
    """Every frame's words, from the finished file where it is up to date, else from the segments; what is broken."""
    segments = segments_in(path, manifest.since if manifest else 0)
    if manifest and final_attributes(path / FINAL).get("segments") == fingerprint(segments):
        try:
            return _told_by_file(path / FINAL), []
        except (OSError, ValueError, KeyError, RuntimeError):
            pass  # damaged: the segments are there
    rows = dict.fromkeys(manifest.header.frames if manifest else (), (PENDING, "", "automatic"))
    shares: list[Any] = []
    faults = [f"{FINAL} cannot be read"] if (path / FINAL).exists() and not final_attributes(path / FINAL) else []
    for segment in segments:
        arrays = segment.read(path, _WANTED.__contains__)
        if arrays is None:
            faults.append(f"{SEGMENTS}/{segment.name} is not whole; its frames are done again")
            continue
        words = zip(*(arrays[name].tolist() for name in ("status", "reason", "edited")), strict=True)
        rows |= dict(zip(arrays["frame"].tolist(), words, strict=True))
        shares += [arrays["explained"]] if "explained" in arrays else []
    status, reason, edited = zip(*rows.values(), strict=True) if rows else ((), (), ())
    names = manifest.header.cameras if manifest else ()
    known = _shares(np.concatenate(shares), names) if shares else {}
    return Frames(tuple(rows), tuple(status), tuple(reason), tuple(edited), known), faults


def _told_by_file(path: Path) -> Frames:
    """The same from a file that this run has written: xarray would take a second to list all of its variables."""
    import h5netcdf

    with h5netcdf.File(path, "r") as file:
        found = {name: file.variables[name][:] for name in (*_WANTED, "camera")}
    words = {name: tuple(found[name].astype(str).tolist()) for name in ("status", "reason", "edited", "camera")}
    known = _shares(found["explained"], words.pop("camera"))
    return Frames(number=tuple(found["frame"].tolist()), explained=known, **words)


def _told(dataset: xr.Dataset) -> Frames:
    """The same from a dataset, which may be another program's or an older version's."""
    number = tuple(dataset.frame.values.tolist()) if "frame" in dataset.coords else tuple(range(dataset.sizes["time"]))

    def words(name: str, usual: str) -> tuple[str, ...]:
        return tuple(dataset[name].values.astype(str).tolist() if name in dataset else [usual] * len(number))

    names = tuple(dataset.camera.values.astype(str).tolist()) if "camera" in dataset.coords else ()
    known = _shares(dataset.explained.values, names) if "explained" in dataset else {}
    return Frames(number, words("status", "ok"), words("reason", ""), words("edited", "automatic"), known)


def _shares(values: Any, cameras: tuple[str, ...]) -> dict[str, float]:
    """The median of every camera that has shown the animal."""
    columns = values.T if cameras else ()
    known = {name: shares[np.isfinite(shares)] for name, shares in zip(cameras, columns, strict=True)}
    return {name: float(np.median(shares)) for name, shares in known.items() if len(shares)}


def _facts(header: Header, frames: Frames) -> dict[str, Any]:
    """What the run noted; which end is the head only where there is, or may still come, an animal to have one."""
    names = ("fps", "version", "device", "seed")
    noted = dict(header.attributes)
    if not frames.where("ok", "suspect", PENDING):
        noted.pop("head_confidence", None)
    return {**{name: getattr(header, name) for name in names}, "cameras": list(header.cameras), **noted}


def _changed(settings: str) -> dict[str, tuple[Any, Any]]:
    """Settings that are not what this version takes by default; None where one of the two does not know them."""
    theirs, usual = flat(settings), flat(dump_settings(Settings()))
    if not settings:
        return {}
    return {
        name: (theirs.get(name), usual.get(name))
        for name in sorted(theirs.keys() | usual.keys())
        if json.dumps(theirs.get(name)) != json.dumps(usual.get(name))
    }


def _percent(text: str, value: Any) -> str:
    return f"{text} {value:.1%}" if isinstance(value, float) else ""


def _number(value: Any, unit: str) -> str:
    return f"{value:.1f} {unit}" if isinstance(value, float) else ""
