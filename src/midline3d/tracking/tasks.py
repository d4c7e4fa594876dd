"""A job as lines of JSON can carry it from one process to another. Light to import."""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midline3d.tracking.job import Job


def packed(job: Job) -> dict[str, Any]:
    """A job as JSON can say it."""
    from midline3d.settings import dump_settings

    plain = asdict(job) | {"settings": dump_settings(job.settings)}
    return plain | {name: str(plain[name]) for name in ("recording", "out", "crops") if plain[name] is not None}


def unpacked(content: dict[str, Any]) -> Job:
    """The job that was packed."""
    from midline3d.reading import validated
    from midline3d.settings import Settings
    from midline3d.tracking.job import Job

    settings = validated(Settings, tomllib.loads(content["settings"]), "the settings of the job")
    paths = {name: Path(content[name]) for name in ("recording", "out", "crops") if content[name] is not None}
    frames = None if content["frames"] is None else tuple(content["frames"])
    return Job(**content | paths | {"settings": settings, "frames": frames})
