"""The variants: the paper's a to f on the paper's method, and ours on the default, as changes of settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from midline3d.reading import validated
from midline3d.settings import Settings, load_settings

Tables = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Variant:
    """A method without one of its parts."""

    name: str
    """Of its row and its folder."""
    base: str
    """Whose part is missing: `paper`, or `default`."""
    without: str
    """What is missing; empty for the whole method, to which the others are held."""
    changes: Tables = field(default_factory=dict)
    """Settings that differ from the base's."""
    averaged: bool = False
    """Whether sigma, iota and rho are held at the averages of the base's whole run."""
    published: float | None = None
    """The paper's ratio of pixel losses to the whole method's."""

    @property
    def reference(self) -> str:
        """Name of the whole method's row."""
        return self.base

    def settings(self, more: Tables | None = None) -> Settings:
        """The base's settings with the variant's changes, and then with more."""
        base = load_settings(None if self.base == "default" else self.base)
        tables = {name: dict(values) for name, values in dataclasses.asdict(base).items()}
        for changes in (self.changes, more or {}):
            for section, values in changes.items():
                tables.setdefault(section, {}).update(values)
        plain = {section: {key: value for key, value in table.items() if value is not None}
                 for section, table in tables.items()}  # fmt: skip
        return validated(Settings, plain, f"the ablation's variant '{self.name}'")


VARIANTS: tuple[Variant, ...] = (
    Variant("paper", "paper", "", published=1.0),
    Variant("paper-a", "paper", "camera optimisation", {"adam": {"shift": 0.0}}, published=1.807),
    Variant("paper-b", "paper", "fitted sigma, iota, rho (averages)", averaged=True, published=1.163),
    Variant("paper-c", "paper", "centre-shifting", {"adam": {"shift_every": 0}}, published=1.075),
    Variant("paper-d", "paper", "scores loss", {"losses": {"scores": 0.0}}, published=1.000),
    Variant("paper-e", "paper", "masks", {"adam": {"theta": 0.0}}, published=0.925),
    Variant("paper-f", "paper", "regularisation", {"losses": {"smoothness": 0.0, "temporal": 0.0}}, published=0.992),
    Variant("default", "default", ""),
    Variant("no-body", "default", "learned body", {"body": {"learned": False}}),
    Variant("no-veil", "default", "veil", {"body": {"veil": False}}),
    Variant("no-dirt", "default", "dirt taken off", {"dirt": {"removed": False}}),
    Variant("no-cameras", "default", "camera refinement", {"body": {"refine_cameras": False}}),
    Variant("one-start", "default", "other starts", {"start": {"starts": 1, "kept": 1, "polish": 1}}),
    Variant("no-recovery", "default", "recovery", {"tracking": {"recovery": False, "second_look": False}}),
)
"""In the order of the table; a whole method stands before its variants."""
