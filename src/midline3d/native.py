"""Opens the compiled libraries that came with the package, and says why where it cannot.

A library is plain C without a Python symbol, so that one file serves every version of Python. Its records are compared
field by field, by name and place, with those that it is to be called with: a library of another version of the package,
left behind by an earlier build, would read numbers as addresses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

Record = type[ctypes.Structure]
REMEDY = "install a C compiler, then in the folder that midline3d came in: pip install --force-reinstall --no-deps ."
"""What mends an installation without compiled libraries."""


def open_library(folder: Path, name: str, records: Sequence[Record]) -> ctypes.CDLL:
    """The library `name` of a folder, its records being these; OSError says why there is none.

    One that fits every version of Python comes first: others may have been left by older builds.
    """
    # No import machinery: these are no modules, and a spec for one would be found under the same names alone.
    suffixes = sorted(EXTENSION_SUFFIXES, key=lambda suffix: "abi3" not in suffix)
    found = [path for path in (folder / f"{name}{suffix}" for suffix in suffixes) if path.is_file()]
    if not found:
        raise OSError(f"{name} was not built with this installation")
    reasons = []
    for path in found:
        try:
            library = ctypes.CDLL(str(path))
        except OSError as fault:
            reasons.append(f"{path.name} cannot be loaded: {fault}")
            continue
        if difference := _difference(library, records):
            reasons.append(f"{path.name} is of another version of midline3d: {difference}")
            continue
        return library
    raise OSError("; ".join(reasons))


def _difference(library: ctypes.CDLL, records: Sequence[Record]) -> str:
    """What the library's records have that ours have not, or the other way round; empty where they agree."""
    try:
        library.midline3d_field.restype = ctypes.c_char_p
    except AttributeError:
        return "it does not say what its records are"
    for which, record in enumerate(records):
        theirs = list(_their_fields(library, which))
        ours = [(name, getattr(record, name).offset) for name, *_ in record._fields_] + [("", ctypes.sizeof(record))]
        if theirs != ours:
            first = next((f"{a}, not {b}" for a, b in zip(theirs, ours, strict=False) if a != b), "their number")
            return f"record {which} differs in {first}"
    if next(_their_fields(library, len(records)))[1] >= 0:
        return "it has more records"
    return ""


def _their_fields(library: ctypes.CDLL, record: int) -> Iterator[tuple[str, int]]:
    """(name, place in bytes) of a record's fields, then ("", its size); ("", -1) where there is no such record."""
    place, index, name = ctypes.c_int64(), 0, b"-"
    while name:
        name = library.midline3d_field(record, index, ctypes.byref(place)) or b""
        # A record within a record: `rig` has names of its own, `layout` those of what stands at its places.
        yield name.decode().removeprefix("rig.").replace("layout.", "layout_"), place.value
        index += 1
