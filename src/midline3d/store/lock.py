"""One writer at a time: a lock on a result's folder that the system itself lets go of when its process ends."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from midline3d.errors import InputError
from midline3d.files import guarded

LOCK = ".lock"
_BEYOND = 1 << 20
"""The byte that is locked: Windows lets nobody read a locked one, and who holds the lock stands in the first ones."""


class HeldError(InputError):
    """Another process writes the folder: to be tried again later, unlike other complaints."""


@contextmanager
def locked(folder: Path, patience: float = 0.0, name: str = LOCK) -> Iterator[None]:
    """Holds the folder, which is made if need be; refused where another process holds it, dead ones hold nothing.

    patience: seconds to wait for one that is about to end. name: of the lock, for what is not the run's own.
    """
    path = Path(folder) / name
    with guarded(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
        path.touch()
    # Unbuffered: on a full disk the holder's name cannot be written, and closing must not try again.
    with path.open("r+b", buffering=0) as file:
        until = time.monotonic() + patience
        while not (held := _held(file)) and time.monotonic() < until:
            time.sleep(0.1)
        if not held:
            holder = (file.read(200) or b"").decode(errors="replace").strip() or "another process"
            raise HeldError(
                f"{folder} is being written by {holder}; wait until that has ended, or give another output folder"
            )
        with suppress(OSError):
            file.truncate(0)
            file.write(f"process {os.getpid()} on {platform.node()}".encode())
        yield


def _held(file: IO[bytes]) -> bool:
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
