"""Every tunable number, in frozen records, with its unit and the reason for its default; TOML in and out."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from midline3d.errors import InputError

Record = TypeVar("Record")


@dataclass(frozen=True)
class LocatingSettings:
    """Finding the worm in whole frames and cutting the crop around it."""

    background_frames: int = 25
    """Frames, spread evenly over the recording (or over each block of it), whose per-pixel median, the worm masked, is
    the background. 25 leave a fifth of one frame's noise, and every one costs a decoded frame."""
    block: int = 3000
    """Frames after which the background is taken anew, the change between being linear: light and gel drift slowly."""
    picture: int = 512
    """px of the shrunken picture's longer side in which the worm is sought: at 2048 px a worm is still 2 px wide."""
    smoothing: float = 1.0
    """px of the full frame: Gaussian taken over the signal before it is cut, so that single noisy pixels vanish."""
    low: float = 4.0
    """Standard deviations of the noise above which a pixel belongs to a thing."""
    high: float = 8.0
    """Standard deviations of the noise that a thing must reach somewhere."""
    bridge: float = 6.0
    """px of the full frame across which fragments are one thing: about a worm's width."""
    candidates: int = 6
    """Things kept in each view: among dirt the worm is seldom below third."""
    places: int = 12
    """Joint readings of the views kept in each frame."""
    tolerance: float = 8.0
    """px by which a view's centre may well miss the common point: calibrations are off by up to 15 px."""
    mass_spread: float = 0.35
    """Spread of the logarithm of the worm's mass: dirt touches it, focus takes some of it away."""
    absent: float = -10.0
    """Log-likelihood of a view without the worm: worse than a mass wrong by a factor of four."""
    lost: float = -40.0
    """Log-likelihood of a frame without the worm: chosen only where no joint reading is credible."""
    step: float = 0.08
    """Body lengths that the worm's centre may well move between frames: swimming at 25 Hz it moves 0.02."""
    jump: float = -30.0
    """Log-likelihood of an arbitrary jump, so that one wrong frame cannot hold the track for ever."""
    lag: int = 60
    """Frames by which the decision on a place follows, fewer where whole frames are large."""
    memory: float = 400.0
    """MB of frames that may wait for that decision."""
    margin: float = 0.12
    """Of the worm's largest extent, added on every side of the automatic crop: it must never touch the border."""
    grow: float = 10.0
    """px of the full frame by which the worm's mask is grown before the background is taken beside it: halo and tips."""
    fill: float = 16.0
    """px over which the light beside the worm is averaged where the background was never seen without it."""

@dataclass(frozen=True)
class Settings:
    """The whole tree. A settings file is TOML with one table per field here."""

    locating: LocatingSettings = field(default_factory=LocatingSettings)


def validated(record: type[Record], data: dict[str, Any], source: str) -> Record:
    """`data` as a `record` (a dataclass), every key and type checked; the first fault is one sentence naming `source`."""
    import pydantic  # at the rim only: the core runs where pydantic is not installed

    try:
        return pydantic.TypeAdapter(_strict(record)).validate_python(data)
    except pydantic.ValidationError as fault:
        raise InputError(f"{source}: {_sentence(record, fault.errors()[0])}") from None


def load_settings(path: Path | None) -> Settings:
    """The settings in a TOML file; the defaults without one."""
    if path is None:
        return Settings()
    return validated(Settings, read_toml(path), str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file's content; what is wrong with the file is said in one sentence."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; check the path") from None
    except (OSError, UnicodeDecodeError) as fault:
        raise InputError(f"{path}: cannot be read as text ({fault}); is it the right file?") from None
    except tomllib.TOMLDecodeError as fault:
        raise InputError(f"{path}: is not valid TOML ({fault}); mend that line") from None


def dump_settings(settings: Settings) -> str:
    """The settings as TOML that `load_settings` reads back to the same record."""
    lines: list[str] = []
    for section in dataclasses.fields(settings):
        lines.append(f"[{section.name}]")
        for name, value in dataclasses.asdict(getattr(settings, section.name)).items():
            if value is not None:
                lines.append(f"{name} = {_toml_value(value)}")
        lines.append("")
    return "\n".join(lines)


def _toml_value(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return json.dumps(value)  # TOML and JSON write booleans, numbers and strings alike


def _strict(record: type) -> type:
    """The record as pydantic should read it: unknown keys are errors, all the way down."""
    for item in dataclasses.fields(record):
        kind = _section(record, item.name)
        if kind is not None:
            _strict(kind)
    record.__pydantic_config__ = {"extra": "forbid"}  # type: ignore[attr-defined]
    return record


def _section(record: type, name: str) -> type | None:
    """The dataclass that field `name` holds, alone or as items of a tuple, if any."""
    import typing

    hint = typing.get_type_hints(record).get(name)
    for candidate in (hint, *typing.get_args(hint)):
        if isinstance(candidate, type) and dataclasses.is_dataclass(candidate):
            return candidate
    return None


def _sentence(record: type, fault: Any) -> str:
    """One sentence out of one of pydantic's error entries."""
    place = [part for part in fault["loc"] if not (isinstance(part, str) and part.startswith("function-"))]
    owner: Any = record
    for part in place[:-1]:
        if isinstance(part, str) and dataclasses.is_dataclass(owner):
            owner = _section(owner, part) or owner
    name = ".".join(str(part) for part in place) or "the file"
    if fault["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        known = ", ".join(item.name for item in dataclasses.fields(owner))
        return f"unknown key '{name}'; the known keys there are {known}"
    if fault["type"] in ("missing", "missing_argument"):
        return f"the key '{name}' is missing; add it"
    message = fault["msg"].removeprefix("Value error, ")
    return f"'{name}' is {fault['input']!r}, but {message[:1].lower() + message[1:]}; correct it"
