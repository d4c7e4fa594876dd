"""Files that are there whole or not at all, and one sentence where a disk will not take them."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from midline3d.errors import InputError

FULL = (errno.ENOSPC, errno.EDQUOT)
FORBIDDEN = (errno.EACCES, errno.EROFS, errno.EPERM, errno.EOPNOTSUPP, errno.ENAMETOOLONG, errno.ELOOP)
LONGEST = 255
"""Bytes of a file's name: what file systems take."""


def write_whole(path: Path, content: bytes, needed: int = 0) -> None:
    """Writes a file so that it is there whole or not at all. needed: see `room`."""
    with aside(path, max(needed, len(content))) as part:
        part.write_bytes(content)


@contextmanager
def aside(path: Path, needed: int = 0) -> Iterator[Path]:
    """A path beside `path`, of the same suffix, to write to: once that is on the disk it takes the name."""
    part = _beside(path)
    with guarded(path.parent, needed):
        path.parent.mkdir(parents=True, exist_ok=True)
        part.touch()  # the libraries that write to it have errors of their own for places that cannot be written
        try:
            yield part
            _settle(part, path)
        except BaseException:
            with suppress(OSError):
                part.unlink(missing_ok=True)  # on a full disk half a file is only in the way
            raise


def _beside(path: Path) -> Path:
    """Where a file is until it is whole; complains about names that no file can have."""
    part = path.with_name(f"{path.stem}.part{path.suffix}")
    if len(os.fsencode(part.name)) > LONGEST:
        raise InputError(f"'{path.name[:40]}...' has {len(path.name)} letters, too many for a file; shorten it")
    with guarded(path.parent):
        if path.is_dir():
            raise InputError(f"{path}: is a folder; give the name of a file")
    return part


def visible(folder: Path) -> Iterator[Path]:
    """What lies in a folder, less what begins with a dot: that is the system's, such as macOS's ._img1.png."""
    return (path for path in folder.iterdir() if not path.name.startswith("."))


def check_file(path: Path) -> None:
    """Complains about a file that cannot be written, before work is done for it; nothing is left there."""
    _beside(path)
    check_folder(path.parent)


def check_folder(folder: Path) -> None:
    """The same about a folder that files are to be written to; it need not be there yet."""
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(place))
    with guarded(there), tempfile.TemporaryFile(dir=there):
        pass


def _settle(part: Path, path: Path) -> None:
    """Flushes a file to the disk, gives it its name, and flushes the folder that holds the name."""
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    part.replace(path)
    if os.name == "posix":  # elsewhere a folder cannot be flushed
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def room(folder: Path, needed: int = 0) -> Iterator[None]:
    """Says what a user can do about a disk that is full. needed: bytes still to be written, as far as known."""
    try:
        yield
    except OSError as fault:
        # HDF5 wraps the system's own error and keeps its number in the text alone.
        if fault.errno in FULL or f"errno = {errno.ENOSPC}" in str(fault):
            raise InputError(full(folder, needed)) from fault
        raise


@contextmanager
def guarded(folder: Path, needed: int = 0) -> Iterator[None]:
    """Says what a user can do about a folder that is full, forbidden or none; what lies there is not harmed by it."""
    try:
        with room(folder, needed):
            yield
    except OSError as fault:
        if fault.errno in FORBIDDEN or _cannot_be_made(fault, folder):
            raise InputError(
                f"{folder}: cannot be written to ({fault.strerror}); give another output folder"
            ) from fault
        if fault.errno in (errno.EEXIST, errno.ENOTDIR):
            raise InputError(f"{folder}: is a file, or lies in one; give a folder for the output") from fault
        raise


def _cannot_be_made(fault: OSError, folder: Path) -> bool:
    """Whether a file or folder there is missing because the system makes none, as in /proc."""
    named = fault.filename
    return fault.errno == errno.ENOENT and isinstance(named, str | Path) and Path(named).is_relative_to(folder)


def claim(folder: Path, needed: int) -> None:
    """Makes sure that so many bytes can be written now, by taking and giving them back; fails as a full disk does.

    For libraries that do not survive a full disk themselves, such as HDF5. Free space alone knows nothing of quotas.
    """
    if not hasattr(os, "posix_fallocate"):
        if shutil.disk_usage(folder).free < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            os.posix_fallocate(file.fileno(), 0, needed)
        except OSError as fault:
            if fault.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # the file system cannot tell
                raise


def demand(folder: Path, needed: int, what: str) -> None:
    """Complains before hours are spent where `what` will not fit on the folder's disk."""
    free = shutil.disk_usage(folder).free
    if free < 1.05 * needed:
        raise InputError(
            f"{folder}: {what} need {size(needed)}, but only {size(free)} are free there; "
            "make room and give the same command again, or choose another folder"
        )


def full(folder: Path, needed: int) -> str:
    """The sentence about a full disk."""
    free = 0
    with suppress(OSError):
        free = shutil.disk_usage(folder).free
    wanted = f"about {size(needed)} are needed there and {size(free)} are free" if needed else f"{size(free)} are free"
    return f"{folder}: the disk is full ({wanted}); make room, and the same command goes on where this one stopped"


def size(count: int) -> str:
    """Bytes for people."""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"
