"""What a run knows beside its frames, kept so that it is read after a crash and never derived again."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midline3d.files import write_whole

KEPT = "kept"
"""Folder of what is kept, in a result."""
_ARRAY = "@array"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def write_kept(folder: Path, name: str, run: str, content: Mapping[str, Any], needed: int = 0) -> None:
    """Keeps arrays and whatever JSON can say, in nested mappings and lists; all of it or nothing comes back.

    needed: bytes that the whole run will still want there.
    """
    body = packed(content)
    write_whole(_path(folder, name), _head(run, body) + body, needed)


def read_kept(folder: Path, name: str, run: str) -> dict[str, Any] | None:
    """What was kept under a name; None where there is nothing, or nothing whole, or another run's."""
    try:
        whole = _path(folder, name).read_bytes()
    except OSError:
        return None
    head, _, body = whole.partition(b"\n")
    if head + b"\n" != _head(run, body):
        return None
    return unpacked(body)


def is_kept(folder: Path, name: str) -> bool:
    """Whether anything lies there under a name, be it this run's or another's."""
    return _path(folder, name).exists()


def packed(content: Mapping[str, Any]) -> bytes:
    """Arrays and whatever JSON can say as the content of a file."""
    arrays: list[NDArray[Any]] = []
    text = json.dumps(_plain(dict(content), arrays))
    named: dict[str, Any] = {f"array{index}": array for index, array in enumerate(arrays)}
    buffer = io.BytesIO()
    np.savez(buffer, content=np.array(text), **named)
    return buffer.getvalue()


def unpacked(content: bytes) -> dict[str, Any]:
    """What was packed, number for number."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        found: dict[str, Any] = _whole(json.loads(str(arrays["content"])), arrays)
    return found


def _path(folder: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ValueError(f"'{name}' is no name to keep something under: letters, digits, - and _ alone")
    return folder / KEPT / f"{name}.npz"


def _head(run: str, body: bytes) -> bytes:
    """First line of the file: whose it is, and what it must hold."""
    return f"midline3d kept 1 {run} {hashlib.sha256(body).hexdigest()}\n".encode()


def _plain(content: Any, arrays: list[NDArray[Any]]) -> Any:
    """The content as JSON can say it, its arrays taken out and numbered."""
    if isinstance(content, np.ndarray):
        arrays.append(content)
        return {_ARRAY: len(arrays) - 1}
    if isinstance(content, Mapping):
        return {str(key): _plain(value, arrays) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value, arrays) for value in content]
    return content.item() if isinstance(content, np.generic) else content


def _whole(content: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """What `_plain` took apart, put together."""
    if isinstance(content, dict):
        if content.keys() == {_ARRAY}:
            return arrays[f"array{content[_ARRAY]}"]
        return {key: _whole(value, arrays) for key, value in content.items()}
    if isinstance(content, list):
        return [_whole(value, arrays) for value in content]
    return content
