"""What users wrote in files, as text and as records: whatever is wrong with it is said in one sentence."""

from __future__ import annotations

import dataclasses
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from midline3d.errors import InputError

Record = TypeVar("Record")
_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")
"""What pydantic calls a key that is not known."""
LARGEST_TEXT = 20_000_000
"""Bytes of a file of settings, of a recording or of a calibration: the real rig's own, corners and all, has 1 MB."""


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file's content; what is wrong with the file is said in one sentence."""
    try:
        return tomllib.loads(read_text(path))
    except RecursionError:
        raise InputError(f"{path}: is not valid TOML (nested too deeply); mend it") from None
    except ValueError as fault:
        if isinstance(fault, InputError):
            raise
        raise InputError(f"{path}: is not valid TOML ({shortened(fault)}); mend that line") from None


def read_text(path: Path) -> str:
    """A small text file's content: what is no text, or too much of it, is said in one sentence."""
    try:
        size = path.stat().st_size
        if size > LARGEST_TEXT:
            raise InputError(
                f"{path}: has {size / 1e6:.0f} MB, but such a file has {LARGEST_TEXT / 1e6:.0f} MB at most; is it the "
                "right file?"
            )
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; check the path") from None
    except UnicodeDecodeError as fault:
        raise InputError(f"{path}: cannot be read as text ({fault}); is it the right file?") from None
    except OSError as fault:
        raise InputError(f"{path}: cannot be read ({fault.strerror or fault}); check the path") from None


def shortened(thing: object, length: int = 120) -> str:
    """A value or a fault on one line, cut where it is long."""
    text = " ".join(str(thing).split())
    return text if len(text) <= length else text[:length] + " ..."


def validated(record: type[Record], data: dict[str, Any], source: str) -> Record:
    """`data` as a `record` (a dataclass), every key and type checked; the first fault in one sentence."""
    import pydantic  # at the rim only: the core runs where pydantic is not installed

    kind: Any = record  # mypy does not know that a class can be hashed
    try:
        made: Record = _reader(kind).validate_python(data)
    except pydantic.ValidationError as fault:
        # A misspelt key first: what it should have been is then missing too.
        faults = sorted(fault.errors(), key=lambda each: each["type"] not in _UNKNOWN)
        raise InputError(f"{source}: {_sentence(record, faults[0])}") from None
    except RecursionError:
        raise InputError(f"{source}: is nested too deeply; mend it") from None
    truth = _truth_for_number(made, data)
    if truth is not None:
        raise InputError(f"{source}: '{truth.name}' is {truth.given}, but a number is wanted; correct it")
    return made


@dataclasses.dataclass(frozen=True)
class _Truth:
    """A true or false that was taken for 1 or 0."""

    name: str
    given: str


def _truth_for_number(made: Any, given: Any, place: str = "") -> _Truth | None:
    """The first number of a record that was made of a true or false, as Python does without a word."""
    if isinstance(given, bool) and not isinstance(made, bool):
        return _Truth(place or "the file", str(given).lower())
    if isinstance(given, dict):
        entries = made if isinstance(made, dict) else getattr(made, "__dict__", {})
        parts = [(str(key), entries[key], value) for key, value in given.items() if key in entries]
    elif isinstance(given, list) and isinstance(made, list | tuple) and len(made) == len(given):
        parts = [(str(number), *pair) for number, pair in enumerate(zip(made, given, strict=True))]
    else:
        parts = []
    found = (_truth_for_number(one, value, f"{place}.{name}" if place else name) for name, one, value in parts)
    return next((truth for truth in found if truth is not None), None)


@cache
def _reader(record: type) -> Any:
    """What reads a record. Made once: that takes longer than reading a file."""
    import pydantic

    return pydantic.TypeAdapter(_strict(record))


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
        if isinstance(part, str) and isinstance(owner, type):
            owner = _section(owner, part) or owner
    name = ".".join(str(part) for part in place) or "the file"
    if fault["type"] in _UNKNOWN:
        known = ", ".join(item.name for item in dataclasses.fields(owner))
        return f"unknown key '{shortened(name)}'; the known keys there are {known}"
    if fault["type"] in ("missing", "missing_argument"):
        return f"the key '{name}' is missing; add it"
    message = fault["msg"].removeprefix("Value error, ")
    given = shortened(repr(fault["input"]), 60)
    return f"'{shortened(name)}' is {given}, but {message[:1].lower() + message[1:]}; correct it"
