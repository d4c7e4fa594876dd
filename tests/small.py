"""A really small file system, for tests of full disks."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def file_system(place: Path, megabytes: int) -> Iterator[Path]:
    """A file system of its own at a place; the test is skipped where none can be mounted."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@contextmanager
def read_only(place: Path) -> Iterator[Path]:
    """A file system that takes nothing, as a camera's card with its lock on; skipped where none can be mounted."""
    with file_system(place, 1):
        again = ["mount", "-o", "remount,ro", str(place)]
        if subprocess.run(again, capture_output=True, check=False).returncode:
            pytest.skip("no file system can be made read-only here")
        yield place


def fill(folder: Path, left: int) -> Path:
    """Takes all but some bytes of a file system."""
    path = folder / "holiday.mp4"
    with path.open("wb", buffering=0) as file, suppress(OSError):  # somebody else may fill it meanwhile
        while (free := shutil.disk_usage(folder).free) > left:
            file.write(b"x" * (free - left))
    return path
