"""All settings as one tree: read from TOML and written to it; settings that come with the package, by their names."""

from __future__ import annotations

import dataclasses
import json
import tomllib
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midline3d.errors import InputError
from midline3d.reading import read_toml, validated
from midline3d.settings.animal import BodySettings, DirtSettings, StartSettings
from midline3d.settings.fitting import AdamSettings, LossWeights, SecondOrderSettings
from midline3d.settings.judging import EvidenceSettings, HeadSettings, JudgingSettings, RepairSettings
from midline3d.settings.locating import LocatingSettings
from midline3d.settings.model import CurveSettings, PixelSettings
from midline3d.settings.tracking import RefineSettings, TrackingSettings

NAMED = {"paper": Path(__file__).parent / "paper.toml"}
"""Settings files of the package, by the names under which `load_settings` finds them."""


@dataclass(frozen=True)
class Settings:
    """The whole tree. A settings file is TOML with one table per field here."""

    locating: LocatingSettings = field(default_factory=LocatingSettings)
    curve: CurveSettings = field(default_factory=CurveSettings)
    pixels: PixelSettings = field(default_factory=PixelSettings)
    second_order: SecondOrderSettings = field(default_factory=SecondOrderSettings)
    adam: AdamSettings = field(default_factory=AdamSettings)
    losses: LossWeights = field(default_factory=LossWeights)
    start: StartSettings = field(default_factory=StartSettings)
    body: BodySettings = field(default_factory=BodySettings)
    dirt: DirtSettings = field(default_factory=DirtSettings)
    tracking: TrackingSettings = field(default_factory=TrackingSettings)
    evidence: EvidenceSettings = field(default_factory=EvidenceSettings)
    judging: JudgingSettings = field(default_factory=JudgingSettings)
    heads: HeadSettings = field(default_factory=HeadSettings)
    repair: RepairSettings = field(default_factory=RepairSettings)
    refine: RefineSettings = field(default_factory=RefineSettings)


def load_settings(path: Path | str | None) -> Settings:
    """The settings in a TOML file, or those of a name (`NAMED`); the defaults without one.

    A file of that name in the working folder is taken before the package's own.
    """
    if path is None:
        return Settings()
    file = Path(path)
    if not file.exists():
        file = NAMED.get(str(path), file)
        if not file.exists():
            raise InputError(
                f"{path}: there is no such file, nor are there settings of that name; check the path, or give one of "
                f"the package's own: {', '.join(NAMED)}"
            )
    return validated(Settings, read_toml(file), str(path))


def stored_settings(text: str, source: str) -> Settings:
    """The settings that a result was made with (TOML), whatever version made it.

    Keys that have been removed since are left out with a warning: what was computed stays as it is, and can be looked
    at. source: what the warning and a fault call them.
    """
    known = {
        section.name: {item.name for item in dataclasses.fields(getattr(Settings(), section.name))}
        for section in dataclasses.fields(Settings)
    }
    try:
        stored = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise InputError(f"{source}: are not valid TOML ({fault}); restore manifest.json") from None
    gone = [f"[{section}]" for section in stored if section not in known]
    kept: dict[str, Any] = {}
    for section, keys in stored.items():
        if section in known and isinstance(keys, dict):
            gone += [f"{section}.{key}" for key in keys if key not in known[section]]
            kept[section] = {key: value for key, value in keys.items() if key in known[section]}
    if gone:
        warnings.warn(f"{source}: this version no longer has {', '.join(gone)}; ignored", stacklevel=2)
    return validated(Settings, kept, source)


def dump_settings(settings: Settings) -> str:
    """The settings as TOML that `load_settings` reads back to the same record."""
    lines: list[str] = []
    for section in dataclasses.fields(settings):
        lines.append(f"[{section.name}]")
        for name, value in dataclasses.asdict(getattr(settings, section.name)).items():
            if value is not None:
                lines.append(f"{name} = {_toml_value(value)}")
        lines.append("")
    return "\n".join(lines)


def _toml_value(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return json.dumps(value)  # TOML and JSON write booleans, numbers and strings alike
