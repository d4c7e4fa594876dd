"""The data dictionary: what every variable and attribute of a result means, made from the code that writes them.

python -m midline3d.dictionary > docs/data-dictionary.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import xarray as xr

from midline3d.fitting.second_order import TERMS
from midline3d.kinematics import QUANTITIES
from midline3d.losses import Losses
from midline3d.store import EDITS, PENDING, REASONS, STATUSES, Header
from midline3d.store.dataset import assemble

ATTRIBUTES = {
    "source_software": "midline3d",
    "ds_type": "poses: what `movement` calls a dataset of keypoints",
    "fps": "frames a second",
    "time_unit": "seconds",
    "version": "of midline3d that made the result",
    "settings": "all settings of the run, as TOML",
    "inputs": "JSON: every input by its name, as it was said or as a fingerprint of its content",
    "seed": "of everything random",
    "device": "cpu or cuda",
    "segments": "fingerprint of the frames that the file was made from",
    "recording": "name of the recording",
    "recording_path": "folder of the recording, where it lay when the run began",
    "edits": "number of corrections that are laid over the frames (see `edited`); absent where there are none",
    "sources": "JSON: path of every camera's source, where it lay when the run began",
    "frame": "JSON: rotation (3 x 3), origin (mm) and source of the world that [frame] gives; positions in midline.nc "
    "are in the calibration's world, and x' = R (x - origin) is applied by export and kinematics",
    "versions": "of Python and the packages that have a part in the numbers",
    "machine": "processor, its cores, and the GPU where one computed",
    "head_confidence": "probability that keypoint 0 is the head",
    "length_std": "standard deviation of the animal's length, mm: by all frames that its body was learned from, "
    "times what lengths of simulated animals were farther off than that, and by how likely longer and shorter ones are",
    "frames_per_second": "how fast the run went",
    "applied_frame": "of exported files alone: the world that positions have been brought to",
}
"""What stands with the numbers in midline.nc."""
STATUS_MEANINGS = {
    "ok": "found",
    "suspect": "found, but something speaks against it",
    "lost": "not found: NaN",
    "unreadable": "dropped, broken or black in some camera: NaN",
    PENDING: "not done yet: NaN",
}
HEAD = """# Data dictionary

What every variable, coordinate and attribute means. This page is made from the code (`python -m midline3d.dictionary`);
the same units and meanings stand in the files themselves, as `units` and `long_name`.
"""


def text() -> str:
    """The whole page."""
    example = assemble(Path(), Header(frames=(0,), fps=1.0, cameras=("cam0", "cam1")), [])
    rows = [_row(str(name), array) for name, array in example.data_vars.items()]
    terms = sorted({*TERMS, *(item.name for item in fields(Losses))})
    listed = ", ".join(f"`loss_{term}`" for term in terms)
    rows.append((listed, "time", "1", "part of the loss; those that the fitter has"))
    coordinates = [_row(str(name), array) for name, array in example.coords.items()]
    parts = [
        HEAD,
        _table("midline.nc", ("variable", "dimensions", "unit", "meaning"), rows),
        _table("Coordinates", ("coordinate", "dimensions", "unit", "meaning"), coordinates),
        _table("Attributes", ("attribute", "meaning"), ATTRIBUTES.items()),
        _words("Status", {status: STATUS_MEANINGS[status] for status in (*STATUSES, PENDING)}),
        _words("Reason", REASONS),
        _words("Edited", EDITS),
        _table("kinematics.nc", ("variable", "dimensions", "unit", "meaning", "formula"), _quantities()),
        TAIL,
    ]
    return "\n".join(parts)


TAIL = """Of a standard deviation v is the value itself, and v_k that of the k-th midlines drawn around those of the
result. A variable's attribute `uncertainty` is the median of its own, in its unit; the file's attribute
`uncertainty_from` says what they were drawn from.
[kinematics.md](kinematics.md) says how each is computed, and [export.md](export.md) which columns exported tables have.
"""


def _row(name: str, array: xr.DataArray) -> tuple[str, ...]:
    # The words of status, reason and edited have tables of their own.
    meaning = str(array.attrs["long_name"]).partition(": '")[0]
    return name, _dims(array.dims), _units(array.attrs), meaning


def _quantities() -> Iterable[tuple[str, ...]]:
    for name, quantity in QUANTITIES.items():
        formula = f"`{quantity.formula}`" if quantity.formula else ""
        units = "" if quantity.units == "none" else quantity.units
        yield name, _dims(quantity.dims), units, quantity.meaning, formula


def _table(title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"## {title}", "", f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for row in rows:
        name = row[0] if row[0].startswith("`") else f"`{row[0]}`"
        lines.append(f"| {' | '.join((name, *(cell.replace('|', chr(92) + '|') for cell in row[1:])))} |")
    return "\n".join([*lines, ""])


def _words(title: str, words: Mapping[str, str]) -> str:
    return _table(title, ("word", "meaning"), [(word or "(empty)", meaning) for word, meaning in words.items()])


def _dims(dims: Iterable[object]) -> str:
    return ", ".join(str(dim) for dim in dims)


def _units(attributes: Mapping[Any, Any]) -> str:
    return "" if attributes["units"] == "none" else str(attributes["units"])


if __name__ == "__main__":
    print(text(), end="")
