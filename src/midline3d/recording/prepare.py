"""From a recording to prepared crops: every frame decoded once, in order, in bounded memory."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from midline3d import cameras as rig
from midline3d.errors import InputError
from midline3d.files import aside, claim, demand, guarded, room, write_whole
from midline3d.recording.check.preflight import judge_survey
from midline3d.recording.crop_pass import CropPass, Progress
from midline3d.recording.crops import (
    BEGUN,
    FORMAT,
    IMAGES,
    LOCATIONS,
    LOG,
    MANIFEST,
    ROWS,
    Begun,
    CropWriter,
    Log,
    Prepared,
    cut,
)
from midline3d.recording.description import Recording
from midline3d.recording.identity import inputs_of
from midline3d.recording.locating.locator import Locator, window_for
from midline3d.recording.locating.survey import survey
from midline3d.recording.sources import Picture, one_thread_a_picture, synchronised
from midline3d.recording.watchers import Watchers, usual_watchers
from midline3d.settings import LocatingSettings

Array = NDArray[np.float64]
LONGEST = 0.995
"""Quantile of the worm's reach that the crops must hold: the rest are dirt that touched it."""
ONE_SIGMA = (0.159, 0.841)
"""Quantiles one standard deviation below and above the middle of a normal distribution."""
LEAST_NOISE = 0.3
"""Grey levels: rounding alone makes so much."""
TOUCHING = 4
"""px that must be left between that and the crop's border."""


def prepare(
    recording: Recording,
    settings: LocatingSettings,
    folder: Path,
    progress: Progress | None = None,
    frames: range | None = None,
) -> Prepared:
    """Locate the worm in every frame and keep its crops in `folder`; what lies there already and fits is used.

    A preparation that was interrupted goes on from where it was last saved, after another first look at the recording.
    progress: called with the number of frames done and the number of all. frames: a part of the recording.
    """
    folder = Path(folder)
    frames = chosen_frames(frames, recording)
    made_of = _made_of(recording, settings, frames)
    fingerprint = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()
    ready = _kept(folder, fingerprint, recording, frames)
    if ready is not None:
        return ready
    with guarded(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST).unlink(missing_ok=True)  # from here on until the end nothing in the folder counts
    with room(folder, _bytes(recording, frames, 200)), one_thread_a_picture():
        if recording.centre == "fixed":
            facts = _fixed(recording, frames, folder, progress)
        else:
            begun = Begun.load(folder, fingerprint) or _nothing(fingerprint, recording, frames)
            facts = _tracked(recording, settings, frames, folder, begun, progress)
    manifest = {"format": FORMAT, "fingerprint": fingerprint, "start": frames.start, **facts, "made_of": made_of}
    write_whole(folder / MANIFEST, json.dumps(manifest, indent=1).encode())
    for name in (BEGUN, ROWS):
        (folder / name).unlink(missing_ok=True)
    return Prepared(folder, recording.calibration)


def adopt(
    recording: Recording, settings: LocatingSettings, folder: Path, source: Path, frames: range | None = None
) -> Prepared:
    """The crops that another preparation left in `source`, for `folder` too: nothing is decoded and no disk taken.

    What was made of something else is refused, with the difference.
    """
    folder, source = Path(folder), Path(source)
    frames = chosen_frames(frames, recording)
    made_of = _made_of(recording, settings, frames)
    fingerprint = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()
    ready = _kept(folder, fingerprint, recording, frames)
    if ready is not None:
        return ready
    if _kept(source, fingerprint, recording, frames) is None:
        raise InputError(f"{source}: {_unfit(source, made_of)}; leave --crops out, and the recording is decoded again")
    with guarded(folder, sum((source / name).stat().st_size for name in (IMAGES, LOG))):
        folder.mkdir(parents=True, exist_ok=True)
        for name in (MANIFEST, BEGUN, ROWS, IMAGES, LOG):
            (folder / name).unlink(missing_ok=True)
        for name in (IMAGES, LOG, MANIFEST):
            try:
                os.link(source / name, folder / name)
            except OSError:  # another disk, or one that knows no links
                with aside(folder / name) as part:
                    shutil.copyfile(source / name, part)
    adopted = _kept(folder, fingerprint, recording, frames)
    if adopted is None:
        raise InputError(f"{source}: has changed while it was read; give the same command again")
    return adopted


def _made_of(recording: Recording, settings: LocatingSettings, frames: range) -> dict[str, Any]:
    """All that the prepared crops depend on."""
    return {
        "format": FORMAT,
        "frames": f"{frames.start}:{frames.stop}",
        **inputs_of(recording),
        **{f"locating.{name}": value for name, value in asdict(settings).items()},
    }


def _unfit(source: Path, wanted: dict[str, Any]) -> str:
    """Why the crops in a folder are not the ones that are wanted."""
    try:
        made_of = json.loads((source / MANIFEST).read_text(encoding="utf-8"))["made_of"]
        names = [name for name in wanted.keys() | made_of.keys() if wanted.get(name) != made_of.get(name)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "holds no prepared crops, or none that are complete"
    if not names:
        return "holds prepared crops that are damaged"
    name = min(names)
    if str(wanted.get(name)).startswith("sha256:"):
        return f"holds crops made of another {name}"
    return f"holds crops made with {name} {made_of.get(name)}, not {wanted.get(name)}"


def chosen_frames(frames: range | None, recording: Recording) -> range:
    """The frames asked for, all without; what the recording does not have is said in one sentence."""
    if frames is None:
        return range(recording.count)
    if frames.stop <= frames.start:
        raise InputError(f"frames {frames.start}:{frames.stop} were asked for, which is none; give first:beyond_last")
    if not 0 <= frames.start < frames.stop <= recording.count:
        raise InputError(
            f"frames {frames.start}:{frames.stop} were asked for, but the recording has 0:{recording.count}; "
            "choose a part of those"
        )
    return frames


def _kept(folder: Path, fingerprint: str, recording: Recording, frames: range) -> Prepared | None:
    """The crops that lie in the folder, if they are of this very preparation and whole."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if manifest["fingerprint"] != fingerprint:
            return None
        kept = Prepared(folder, recording.calibration)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, EOFError, zipfile.BadZipFile):
        return None
    whole = len(kept) == len(kept.log.location) == len(frames) and kept.start == frames.start
    return kept if whole and len(kept.noise) == len(recording.views) else None


def _save_log(folder: Path, log: Log) -> None:
    with aside(folder / LOG) as part:
        np.savez(part, **log.stored())


def _scale(cameras: rig.Cameras, centre: Array) -> float:
    return float(rig.scale(cameras, torch.from_numpy(centre)[None, None]).mean())


def _nothing(fingerprint: str, recording: Recording, frames: range) -> Begun:
    """Where a preparation starts that was not begun before."""
    count = len(recording.views)
    return Begun(fingerprint, 0, 0, Log.blank(len(frames), count), [np.zeros(0, np.float32)] * count)


def _tracked(
    recording: Recording,
    settings: LocatingSettings,
    frames: range,
    folder: Path,
    begun: Begun,
    progress: Progress | None,
) -> dict[str, Any]:
    """Survey, then a pass over all frames; crops are cut again where the worm turns out to be longer than it seemed."""
    if progress:
        progress(begun.done, len(frames))
    cameras = recording.calibration.to_cameras()
    # Backgrounds are mapped into memory, where a full disk would end the process.
    stretches = len(frames) // settings.block + 2
    claim(folder, 4 * stretches * sum(view.source.size[0] * view.source.size[1] for view in recording.views))
    with closing(Watchers(usual_watchers(len(frames) - begun.done))) as watchers:  # ready when the first look is over
        first_look = survey(recording, cameras, settings, frames, folder)
        judge_survey(recording, cameras, first_look)
        locator = Locator(cameras, first_look, settings)
        watchers.begin(locator)
        window = begun.window or window_for(recording, first_look.extent, settings)
        begun = replace(begun, window=window)
        demand(folder, _bytes(recording, frames[begun.done :], window), "the crops")
        work = CropPass(recording, locator, frames, folder, begun)
        work.run(progress, watchers if len(watchers) else None)
    reach = work.log.reach[np.isfinite(work.log.reach)]
    longest = float(np.quantile(reach, LONGEST)) if reach.size else 0.0
    wider = window_for(recording, longest, settings)
    if 2 * longest + TOUCHING > window and wider > window:
        demand(folder, _bytes(recording, frames, wider), "the crops")
        quiet = [np.zeros(0, np.float32)] * len(recording.views)
        work = CropPass(recording, locator, frames, folder, replace(begun, window=wider, done=0, quiet=quiet))
        work.run_wider(window, progress)
    _save_log(folder, work.log)
    noise, offset = zip(*(_noise(values if values.size else np.zeros(1)) for values in work.beside()), strict=True)
    sizes = [view.source.size for view in recording.views]
    return _facts(work.window, locator.scale(), noise, offset, work.cutter.gain, first_look.tones[0].side, sizes)


def _bytes(recording: Recording, frames: range, window: int) -> int:
    """What the crops of some frames take on the disk."""
    return len(frames) * len(recording.views) * window**2


def _fixed(recording: Recording, frames: range, folder: Path, progress: Progress | None) -> dict[str, Any]:
    """Images that are crops already: taken whole, around the point that all image centres look at."""
    cameras = recording.calibration.to_cameras()
    window = recording.crop if recording.crop != "auto" else max(max(view.source.size) for view in recording.views)
    origin = np.array([[(size - window) // 2 for size in view.source.size] for view in recording.views])
    middle = np.array([[(size - 1) / 2 for size in view.source.size] for view in recording.views])
    centre = rig.triangulate(cameras, torch.from_numpy(middle)[None])[0].numpy()
    count = len(recording.views)
    log = Log.blank(len(frames), count)
    dark = recording.worm == "dark"
    writer = CropWriter(folder, len(frames), count, window)
    quiet = []
    sources, offsets = [view.source for view in recording.views], [view.offset for view in recording.views]
    for frame, pictures in synchronised(sources, offsets, frames.start, frames.stop):
        place = frame - frames.start
        log.origin[place], log.centre[place] = origin, centre
        if all(picture is not None for picture in pictures):
            log.location[place] = LOCATIONS.index("located")
            log.seen[place], log.light[place], log.residual[place] = True, 1.0, 0.0
            grey = [_eight_bit(picture) for picture in pictures if picture is not None]
            crops = [cut(255 - grey[view] if dark else grey[view], origin[view], window) for view in range(count)]
            writer.write(place, np.stack(crops))
            if place % max(1, len(frames) // 20) == 0:
                quiet.append(crops)
        if progress:
            progress(place + 1, len(frames))
    writer.close()
    _save_log(folder, log)
    if not (log.location == 0).any():
        raise InputError(f"{recording.path}: no frame can be read in all cameras; check the sources")
    beside = np.stack(quiet, 1).reshape(count, -1).astype(np.float32) if quiet else np.zeros((count, 1))
    noise, offset = zip(*(_noise(values) for values in beside), strict=True)
    sizes = [view.source.size for view in recording.views]
    side = "dark" if dark else "bright"
    return _facts(window, _scale(cameras, centre), noise, offset, [1.0] * count, side, sizes)


def _eight_bit(picture: Picture) -> Picture:
    return picture if picture.dtype == np.uint8 else (picture >> 8).astype(np.uint8)


def _facts(
    window: int, scale: float, noise: Any, offset: Any, gain: Any, side: str, sizes: list[tuple[int, int]]
) -> dict[str, Any]:
    numbers = {
        name: [float(value) for value in values]
        for name, values in (("noise", noise), ("offset", offset), ("gain", gain))
    }
    return {"window": window, "scale": scale, "side": side, "sizes": [list(size) for size in sizes], **numbers}


def _noise(values: NDArray[Any]) -> tuple[float, float]:
    """Standard deviation of signal values that are mostly background, and their mean once they are cut at 0.

    The worm only adds, so that the side below the median tells the noise; where that was cut off, the side above.
    """
    quiet = values
    for _ in range(4):
        middle = float(np.median(quiet))
        low, high = np.quantile(quiet, ONE_SIGMA) - middle
        sigma = max(-low if low < -0.5 * high else high, LEAST_NOISE)
        quiet = quiet[quiet < middle + 3 * sigma]
    return float(sigma), float(np.clip(quiet, 0, None).mean())
