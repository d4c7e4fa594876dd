"""What sets two runs apart: frames of two different ones must never stand side by side in one result."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from midline3d.errors import InputError
from midline3d.store.records import Header

REMEDY = "repeat it as it was, start over with --redo, or give another output folder"
_SHOWN = 4
"""Differences that a sentence holds before it becomes a list."""
_ABSENT = "nothing"


def check_same_run(folder: Path, before: Header, now: Header, complete: Callable[[], bool]) -> None:
    """Complains in one sentence that shows all that is different.

    complete: tells whether every frame is there; then nothing will be computed, whatever the device and version.
    """
    found = _inputs(before.inputs, now.inputs) + _settings(before.settings, now.settings)
    if before.frames != now.frames:
        found.insert(0, f"frames {span(before.frames)}, not {span(now.frames)}")
    for name in ("cameras", "keypoints", "fps", "offsets", "seed", "device", "version"):
        then, here = getattr(before, name), getattr(now, name)
        if then != here and not (name in ("device", "version") and complete()):
            found.append(f"{name} {_told(then)}, not {_told(here)}")
    if found:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise InputError(f"{folder} was begun with {'; '.join(found[:_SHOWN])}{more}; {REMEDY}")


def span(frames: tuple[int, ...]) -> str:
    """First frame and the one after the last, as the command takes them."""
    return f"{frames[0]}:{frames[-1] + 1}" if frames else "none"


def _told(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _inputs(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    found = []
    for name in sorted(before.keys() | now.keys()):
        then, here = before.get(name, _ABSENT), now.get(name, _ABSENT)
        if then != here:
            named = f"another {name}" if "sha256:" in then + here else f"{name} {then}, not {here}"
            found.append(f"{named}, or its files have changed since" if "sha256:" in then + here else named)
    return found


def _settings(before: str, now: str) -> list[str]:
    """Every setting that is not the same, by its full name."""
    if before == now:
        return []
    then, here = flat(before), flat(now)
    return [
        f"{name} = {then.get(name, _ABSENT)}, not {here.get(name, _ABSENT)}"
        for name in sorted(then.keys() | here.keys())
        if then.get(name) != here.get(name)
    ]


def flat(settings: str) -> dict[str, Any]:
    """Settings written as TOML, by section.key."""
    try:
        sections = tomllib.loads(settings)
    except tomllib.TOMLDecodeError:
        return {"settings": settings}
    return {
        f"{section}.{key}": value
        for section, keys in sections.items()
        for key, value in (keys.items() if isinstance(keys, dict) else ())
    }
