"""What users wrote in files, as text and as records: whatever is wrong with it is said in one sentence."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from midline3d.errors import InputError

Record = TypeVar("Record")
_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")
"""What pydantic calls a key that is not known."""
_MISSING = ("missing", "missing_argument")
"""And one, or an item of a list, that is not there."""
_LISTS = ("list_type", "tuple_type")
_PLAIN = {
    "a whole number": ("int_type", "int_parsing", "int_from_float"),
    "a number": ("float_type", "float_parsing"),
    "a text in quotes": ("string_type",),
    "true or false": ("bool_type", "bool_parsing"),
    "a list in [ ]": _LISTS,
    "a table of keys and values": ("dict_type",),
}
"""What pydantic's types of errors ask for."""
LARGEST_TEXT = 20_000_000
"""Bytes of a file of settings, of a recording or of a calibration: the real rig's own, corners and all, has 1 MB."""


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file's content; what is wrong with the file is said in one sentence."""
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError(f"{path}: is not valid TOML (nested too deeply); mend it") from None
    except ValueError as fault:
        raise InputError(f"{path}: is not valid TOML ({shortened(fault)}); {_remedy(text, str(fault))}") from None


def _remedy(text: str, fault: str) -> str:
    """What to do about a line that is no TOML: most often it is a path of Windows."""
    place = re.search(r"at line (\d+)", fault)
    line = text.splitlines()[int(place[1]) - 1 :][:1] if place else []
    if line and "\\" in line[0] and '"' in line[0]:
        return f"write / for each \\ in line {place[1] if place else ''}, or single quotes for the double ones"
    return "mend that line"


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
        line = fault.object[: fault.start].count(b"\n") + 1
        raise InputError(
            f"{path}: cannot be read as text in UTF-8 (line {line}); save it as UTF-8, or is it another file?"
        ) from None
    except OSError as fault:
        raise InputError(f"{path}: cannot be read ({fault.strerror or fault}); check the path") from None


def number_of(count: int, thing: str) -> str:
    """Things counted for people: "1 frame", "40 frames"."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


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
        raise InputError(f"{source}: {_sentence(record, data, faults, source.endswith('.toml'))}") from None
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


def _sentence(record: type, data: Any, faults: list[Any], toml: bool) -> str:
    """One sentence out of pydantic's error entries, the first of which counts; toml: that TOML was read."""
    fault, place = faults[0], _place(faults[0], data)
    owner: Any = record
    for part in place[:-1]:
        if isinstance(part, str) and isinstance(owner, type):
            owner = _section(owner, part) or owner
    name = ".".join(str(part) for part in place) or "the file"
    if fault["type"] in _UNKNOWN:
        return _unknown(record, owner, shortened(name), toml)
    if fault["type"] in _MISSING and isinstance(place[-1], str):
        return f"the key '{name}' is missing; add it"
    if fault["type"] in _MISSING:
        name = ".".join(str(part) for part in place[:-1])
        return f"'{shortened(name)}' is {_shown(fault['input'])}, but that is too short; add what is missing"
    if fault["type"] == "too_long":
        most = fault["ctx"]["max_length"]
        return f"'{shortened(name)}' is {_shown(fault['input'])}, but {most} values are wanted; leave out the others"
    if fault["type"] in _LISTS and isinstance(fault["input"], dict) and toml:
        return (
            f"'{shortened(name)}' is one table, but one for each is wanted; write [[{name}]] above each, not [{name}]"
        )
    wanted = [_wanted(each, owner, place) for each in faults if _place(each, data) == place]
    if None in wanted:
        message = fault["msg"].removeprefix("Value error, ")
        return f"'{shortened(name)}' is {_shown(fault['input'])}, but {message[:1].lower() + message[1:]}; correct it"
    given, kinds = fault["input"], " or ".join(dict.fromkeys(map(str, wanted)))
    return f"'{shortened(name)}' is {_shown(given)}, but {kinds} is wanted; {_list_of(given, fault['type'])}"


def _unknown(record: type, owner: Any, name: str, toml: bool) -> str:
    """Of a key that is not known there, though it may be at the top."""
    table, _, key = name.rpartition(".")
    top = [item.name for item in dataclasses.fields(record) if _section(record, item.name) is None]
    if owner is not record and key in top and toml:
        above = re.sub(r"^(.+)\.\d+$", r"[\1]", table)
        return (
            f"the key '{key}' stands below [{above}], which makes it a key of that; move it above the first [{above}]"
        )
    if owner is not record and key in top:
        return f"the key '{key}' stands inside '{table}'; move it out of there, to the top of the file"
    known = ", ".join(item.name for item in dataclasses.fields(owner))
    return f"unknown key '{name}'; the known keys there are {known}"


def _place(fault: Any, data: Any) -> tuple[str | int, ...]:
    """Where in the data a fault lies, without pydantic's names of the types that it has tried."""
    place: list[str | int] = []
    for part in fault["loc"]:
        inside = part in data if isinstance(data, dict) else isinstance(part, int) and isinstance(data, list | tuple)
        if inside:
            data = data[part] if isinstance(data, dict) or int(part) < len(data) else None
        if inside or (fault["type"] in (*_MISSING, *_UNKNOWN) and part == fault["loc"][-1]):
            place.append(part)
    return tuple(place)


def _wanted(fault: Any, owner: Any, place: tuple[str | int, ...]) -> str | None:
    """What should stand there, in plain words; None where pydantic's own words say it."""
    if fault["type"] == "literal_error":
        return str(fault["ctx"]["expected"])
    if fault["type"] == "dataclass_type":
        names = [part for part in place if isinstance(part, str)]
        kind = _section(owner, names[-1]) if names else owner
        return f"a table with the keys {', '.join(item.name for item in dataclasses.fields(kind or owner))}"
    return next((words for words, types in _PLAIN.items() if fault["type"] in types), None)


def _shown(given: Any) -> str:
    """A value as it stands in the file, nearly."""
    if given is None or isinstance(given, bool):
        return {None: "null", True: "true", False: "false"}[given]
    return shortened(repr(given), 60)


def _list_of(given: Any, kind: str) -> str:
    """The remedy: the list that a text such as 512x512 stands for, where it is one."""
    found = re.findall(r"\d+", given) if isinstance(given, str) and kind in _LISTS else []
    return f"write [{', '.join(found[:9])}]" if found else "correct it"
