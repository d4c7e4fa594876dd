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

    background_frames: int = 41
    """Frames, spread evenly over the recording, whose per-pixel median is the background."""


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
