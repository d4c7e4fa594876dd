"""Every format by its name, and the one function that writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from midline3d.errors import InputError
from midline3d.export.arrays import write_mat, write_movement
from midline3d.export.material import Choice, Material, folder_of, material, material_in_parts
from midline3d.export.nwb import write_nwb
from midline3d.export.tables import write_anipose, write_csv, write_parquet
from midline3d.export.wcon import write_wcon
from midline3d.files import aside, check_file


@dataclass(frozen=True)
class Format:
    """A way to write a result."""

    name: str
    """Of the file, where none is given."""
    write: Callable[[Iterator[Material], Path, Choice], None] | None = None
    """From some frames at a time."""
    write_whole: Callable[[Material, Path, Choice], None] | None = None
    """From all at once, where it cannot be otherwise."""
    wide: str = ""
    """Name of the wide form, where there is one."""


FORMATS = {
    "csv": Format("midline.csv", write_csv, wide="midline-wide.csv"),
    "parquet": Format("midline.parquet", write_parquet, wide="midline-wide.parquet"),
    "anipose": Format("midline-anipose.csv", write_anipose),
    "movement": Format("midline-movement.nc", write_movement),
    "wcon": Format("midline.wcon", write_wcon),
    "nwb": Format("midline.nwb", write_whole=write_nwb),
    "mat": Format("midline.mat", write_whole=write_mat),
}
"""By the names that users give."""


def export_result(result: Path | str, to: str, out: Path | str | None = None, choice: Choice | None = None) -> Path:
    """Writes a result in another format and returns the file's path.

    result: its folder or its midline.nc. to: one of `FORMATS`. out: a file, or a folder to write it into; OUT/export
    without. Every frame is there with its true number, NaN where there is no midline.
    """
    result, choice = Path(result), choice or Choice()
    path, chosen = check_export(result, to, out, choice), FORMATS[to]
    # Before anything is written it is known whether there is anything to write.
    write: Callable[[Path, Choice], object]
    if chosen.write_whole is not None:
        write = partial(chosen.write_whole, material(result, choice))
    else:
        assert chosen.write is not None
        parts = material_in_parts(result, choice)
        first = next(parts, None)
        if first is None:
            raise InputError(f"{result}: has no frames; give the result of a reconstruction")
        write = partial(chosen.write, chain([first], parts))
    with aside(path) as part:
        write(part, choice)
    return path


def check_export(result: Path, to: str, out: Path | str | None, choice: Choice) -> Path:
    """The file that would be written; complains about what cannot be, before anything is."""
    if to not in FORMATS:
        raise InputError(f"the format '{to}' is not known; export to one of {', '.join(FORMATS)}")
    chosen = FORMATS[to]
    if choice.wide and not chosen.wide:
        raise InputError(f"{to} has no wide form; leave --wide out, or export to csv or parquet")
    name = chosen.wide if choice.wide else chosen.name
    path = folder_of(result) / "export" / name if out is None else Path(out)
    if path.is_dir() or path.suffix == "":
        path = path / name
    if path.suffix.lower() != Path(name).suffix:
        raise InputError(f"{path}: a file of {to} ends in {Path(name).suffix}; give such a name, or a folder")
    if path.resolve() == (folder_of(result) / "midline.nc").resolve():
        raise InputError(f"{path}: is the result itself; give another name")
    check_file(path)
    if to == "nwb" and (choice.start is None or choice.start.tzinfo is None):
        raise InputError(
            "NWB asks when the session began, which no video says; give --start 2025-03-31T14:00:00+01:00, or so"
        )
    return path
