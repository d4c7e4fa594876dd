"""One writer at a time: a lock on a result's folder that the system itself lets go of when its process ends."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from midline3d.errors import InputError
from midline3d.store.segments import guard

LOCK = ".lock"
_BEYOND = 1 << 20
"""The byte that is locked: Windows lets nobody read a locked one, and who holds the lock stands in the first ones."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder, which is made if need be; refused where another process holds it, dead ones hold nothing."""
    guard(folder, lambda: Path(folder).mkdir(parents=True, exist_ok=True))
    path = Path(folder) / LOCK
    guard(folder, path.touch)
    with path.open("r+", encoding="utf-8") as file:
        if not _held(file):
            holder = file.read(200).strip() or "another process"
            raise InputError(
                f"{folder} is being written by {holder}; wait until that has ended, or give another output folder"
            )
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        yield


def _held(file: IO[str]) -> bool:
    """Takes the lock, which closing the file gives back. True also where the file system knows no locks."""
    if os.name == "nt":
        import msvcrt

        file.seek(_BEYOND)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            return False
        finally:
            file.seek(0)
        return True
    import fcntl

    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
