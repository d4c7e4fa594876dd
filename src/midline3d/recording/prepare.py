"""From a recording to prepared crops: every frame decoded once, in order, in bounded memory."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from midline3d import cameras as rig
from midline3d.errors import InputError
from midline3d.recording.background import Field, shrink
from midline3d.recording.crops import FORMAT, IMAGES, LOG, MANIFEST, STATUS, Log, Prepared, cut, origins
from midline3d.recording.description import Recording
from midline3d.recording.locating import ABSENT, Decider, Found, Places, candidates, combine
from midline3d.recording.shake import Texture, moved, shake_of, texture_of
from midline3d.recording.signal import as_bytes, brightness, signal
from midline3d.recording.sources import Picture, synchronised
from midline3d.recording.survey import Survey, survey
from midline3d.settings import LocatingSettings

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]


def prepare(
    recording: Recording,
    settings: LocatingSettings,
    folder: Path,
    progress: Progress | None = None,
    frames: range | None = None,
) -> Prepared:
    """Locate the worm in every frame and keep its crops in `folder`; what lies there already and fits is used.

    progress: called with the number of frames done and the number of all. frames: a part of the recording.
    """
    folder = Path(folder)
    frames = _checked(frames, recording)
    fingerprint = fingerprint_of(recording, settings, frames)
    if _fits(folder, fingerprint):
        return Prepared(folder, recording.calibration)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)  # from here on until the end nothing in the folder counts
    if recording.centre == "fixed":
        facts = _fixed(recording, frames, folder, progress)
    else:
        facts = _tracked(recording, settings, frames, folder, progress)
    manifest = {"format": FORMAT, "fingerprint": fingerprint, "start": frames.start, **facts}
    _write_whole(folder / MANIFEST, json.dumps(manifest, indent=1).encode())
    return Prepared(folder, recording.calibration)


def fingerprint_of(recording: Recording, settings: LocatingSettings, frames: range) -> str:
    """Changes whenever the prepared crops would."""
    facts: list[Any] = [FORMAT, asdict(settings), frames.start, frames.stop]
    facts += [recording.worm, recording.background, recording.crop, recording.centre]
    for view, camera in zip(recording.views, recording.calibration.cameras, strict=True):
        path = view.source.path
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        files += [view.background] if view.background else []
        facts += [view.name, view.offset, view.source.count, view.source.size]
        facts += [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        facts += [array.tolist() for array in (camera.matrix, camera.distortions, camera.rotation, camera.translation)]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _checked(frames: range | None, recording: Recording) -> range:
    if frames is None:
        return range(recording.count)
    if not 0 <= frames.start < frames.stop <= recording.count:
        raise InputError(
            f"frames {frames.start}:{frames.stop} were asked for, but the recording has 0:{recording.count}; "
            "choose a part of those"
        )
    return frames


def _fits(folder: Path, fingerprint: str) -> bool:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return bool(manifest["fingerprint"] == fingerprint) and (folder / IMAGES).exists() and (folder / LOG).exists()
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _write_whole(path: Path, content: bytes) -> None:
    """Write aside and rename, so that the file is never there by half."""
    aside = path.with_suffix(".part")
    with aside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def _save_log(folder: Path, log: Log) -> None:
    with (folder / LOG).open("wb") as file:
        np.savez(file, **vars(log))


def _scale(cameras: rig.Cameras, centre: Array) -> float:
    return float(rig.scale(cameras, torch.from_numpy(centre)[None, None]).mean())


# --- worm-centred images --------------------------------------------------------------------------------------------


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
    images = np.lib.format.open_memmap(folder / IMAGES, "w+", np.uint8, (len(frames), count, window, window))
    sources, offsets = [view.source for view in recording.views], [view.offset for view in recording.views]
    for frame, pictures in synchronised(sources, offsets, frames.start, frames.stop):
        place = frame - frames.start
        log.origin[place], log.centre[place] = origin, centre
        if all(picture is not None for picture in pictures):
            log.status[place] = STATUS.index("ok")
            log.seen[place], log.light[place], log.residual[place] = True, 1.0, 0.0
            for view, picture in enumerate(pictures):
                assert picture is not None
                grey = picture if picture.dtype == np.uint8 else (picture >> 8).astype(np.uint8)
                images[place, view] = cut(255 - grey if dark else grey, origin[view], window)
        if progress:
            progress(place + 1, len(frames))
    images.flush()
    _save_log(folder, log)
    good = np.nonzero(log.status == 0)[0]
    if not good.size:
        raise InputError(f"{recording.path}: no frame can be read in all cameras; check the sources")
    beside = images[good[:: max(1, len(good) // 20)]].transpose(1, 0, 2, 3).reshape(count, -1).astype(np.float32)
    noise, offset = zip(*(_noise(values, None) for values in beside), strict=True)
    return _facts(window, _scale(cameras, centre), noise, offset, [1.0] * count, "dark" if dark else "bright")


def _facts(window: int, scale: float, noise: Any, offset: Any, gain: Any, side: str) -> dict[str, Any]:
    numbers = {
        name: [float(value) for value in values]
        for name, values in (("noise", noise), ("offset", offset), ("gain", gain))
    }
    return {"window": window, "scale": scale, "side": side, **numbers}


def _noise(values: NDArray[np.float32], sigma: float | None) -> tuple[float, float]:
    """Standard deviation and mean of signal values that are mostly background, cut at 0 or not.

    The 84th percentile of cut noise is its standard deviation still.
    """
    middle = float(np.median(values))
    sigma = float(np.quantile(values, 0.841)) - middle if sigma is None else sigma
    quiet = values[values <= middle + 5 * max(sigma, 1.0)]
    return max(sigma, 0.3), float(np.clip(quiet, 0, None).mean()) if quiet.size else 0.0


# --- whole frames ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Waiting:
    """A frame whose place is not yet decided."""

    frame: int
    pictures: list[Picture]
    light: list[float]
    shake: list[Array]
    """Per view, px of the full frame."""


def _tracked(
    recording: Recording, settings: LocatingSettings, frames: range, folder: Path, progress: Progress | None
) -> dict[str, Any]:
    """Survey, then one pass over all frames."""
    cameras = recording.calibration.to_cameras()
    look = survey(recording, cameras, settings)
    centre = _usual_centre(recording, look)
    window = _window(recording, look, settings)
    gain = np.clip(128 / look.peak, 1, 16)
    passing = _Pass(recording, settings, frames, folder, cameras, look, window, gain)
    passing.run(progress)
    scale = _scale(cameras, centre)
    return _facts(window, scale, *passing.noise(), gain, look.tones[0].side)


def _usual_centre(recording: Recording, look: Survey) -> Array:
    points = [place.point for place in look.found if place.found]
    if not points:
        raise InputError(
            f"{recording.path}: in none of {len(look.frames)} frames looked at do the views agree on a worm; "
            "run midline3d check to see why (polarity, calibration, order of the cameras)"
        )
    return np.median(points, 0)


def _window(recording: Recording, look: Survey, settings: LocatingSettings) -> int:
    if recording.crop != "auto":
        return recording.crop
    half = look.extent * (1 + 2 * settings.margin) + 4
    largest = max(max(view.source.size) for view in recording.views)
    return min(8 * math.ceil(2 * half / 8), 8 * math.ceil(largest / 8))


class _Pass:
    """The pass over all frames: locate, wait for the decision, cut."""

    def __init__(
        self,
        recording: Recording,
        settings: LocatingSettings,
        frames: range,
        folder: Path,
        cameras: rig.Cameras,
        look: Survey,
        window: int,
        gain: Array,
    ) -> None:
        self.recording, self.settings, self.frames, self.folder = recording, settings, frames, folder
        self.cameras, self.look, self.window, self.gain = cameras, look, window, gain
        self.log = Log.blank(len(frames), len(recording.views))
        shape = (len(frames), len(recording.views), window, window)
        self.images = np.lib.format.open_memmap(folder / IMAGES, "w+", np.uint8, shape)
        self.small = _Shrunken(look)
        length = look.extent * 2 / _scale(cameras, _usual_centre(recording, look))
        self.step = settings.step * length
        self.waiting: deque[_Waiting] = deque()
        self.undecided: list[_Waiting] = []
        self.last: Array | None = None
        self.quiet: list[list[NDArray[np.float32]]] = [[] for _ in recording.views]

    def run(self, progress: Progress | None) -> None:
        views = self.recording.views
        size = sum(view.source.size[0] * view.source.size[1] for view in views)
        lag = int(np.clip(self.settings.memory * 1e6 / size, 4, self.settings.lag))
        decider = Decider(lag, self.settings, self.step)
        sources, offsets = [view.source for view in views], [view.offset for view in views]
        for frame, pictures in synchronised(sources, offsets, self.frames.start, self.frames.stop):
            if progress:
                progress(frame - self.frames.start, len(self.frames))
            whole = [picture for picture in pictures if picture is not None and picture.any()]
            if len(whole) < len(views):
                continue
            self.waiting.append(_Waiting(frame, whole, [], []))
            decision = decider.add(self.places(self.waiting[-1]))
            if decision is not None:
                self.decided(decision)
        for decision in decider.finish():
            self.decided(decision)
        self.bridge(None)
        self.images.flush()
        _save_log(self.folder, self.log)
        if progress:
            progress(len(self.frames), len(self.frames))

    def places(self, waiting: _Waiting) -> Places:
        """Where the worm may be in one frame; notes how bright each view's light is and how far it has shaken."""
        seen = []
        for view, picture in enumerate(waiting.pictures):
            tone, (behind, texture) = self.look.tones[view], self.small.at(view, waiting.frame)
            small = shrink(picture, self.look.factor)
            light = brightness(small, behind, tone)
            waiting.light.append(light)
            waiting.shake.append(shake_of(small, texture, light) * self.look.factor)
            field = signal(small, behind, tone, light)
            seen.append(candidates(field, self.look.factor, self.settings, 0.2 * self.look.peak[view]))
        return combine(self.cameras, seen, self.look.mass, self.settings)

    def decided(self, decision: Found) -> None:
        """A frame's place is known, or known not to be."""
        waiting = self.waiting.popleft()
        place = waiting.frame - self.frames.start
        self.log.light[place] = waiting.light
        if not decision.found:
            self.undecided.append(waiting)
            if len(self.undecided) > self.settings.lag // 2:
                self.bridge(None)
            return
        self.bridge(decision.point)
        self.log.residual[place] = decision.residual
        self.log.seen[place] = decision.choice != ABSENT
        self.write(waiting, decision.point, "ok")
        self.last = decision.point

    def bridge(self, point: Array | None) -> None:
        """Cut the frames in which the worm was not found: on a straight way if it was found before and after."""
        number = len(self.undecided)
        for index, waiting in enumerate(self.undecided):
            if point is not None and self.last is not None:
                share = (index + 1) / (number + 1)
                self.write(waiting, (1 - share) * self.last + share * point, "suspect")
            else:
                near = self.last if self.last is not None else point
                self.write(waiting, near, "lost")
        self.undecided = []

    def write(self, waiting: _Waiting, centre: Array | None, status: str) -> None:
        place = waiting.frame - self.frames.start
        self.log.status[place] = STATUS.index(status)
        if centre is None:
            return
        corner = origins(self.cameras, centre, self.window)
        self.log.origin[place] = corner
        if status != "lost":
            self.log.centre[place] = centre
        for view, picture in enumerate(waiting.pictures):
            background = self.look.backgrounds[view].at(waiting.frame)
            behind = _behind(background, corner[view], self.window, waiting.shake[view])
            part = cut(picture, corner[view], self.window)
            values = signal(part, behind, self.look.tones[view], waiting.light[view])
            values[cut(np.ones(picture.shape, np.bool_), corner[view], self.window) == 0] = 0
            self.images[place, view] = as_bytes(values, self.gain[view])
            if place % max(1, len(self.frames) // 20) == 0:
                self.quiet[view].append(values[::2, ::2].ravel() * np.float32(self.gain[view]))

    def noise(self) -> tuple[list[float], list[float]]:
        """Per camera, the noise beside the worm and the mean that cutting it at 0 leaves."""
        result = [_noise(np.concatenate(values), None) if values else (1.0, 0.0) for values in self.quiet]
        return [sigma for sigma, _ in result], [offset for _, offset in result]


def _behind(background: Field, corner: NDArray[np.int64], window: int, shake: Array) -> Field:
    """The background of a crop, moved as the picture has shaken."""
    border = 8
    wide = cut(background, corner - border, window + 2 * border)
    return np.asarray(moved(wide, shake)[border:-border, border:-border])


class _Shrunken:
    """Shrunken backgrounds and their texture, kept for the frames around one: light drifts slowly."""

    def __init__(self, look: Survey) -> None:
        self.look = look
        self.kept: dict[int, tuple[int, Field, Texture | None]] = {}

    def at(self, view: int, frame: int) -> tuple[Field, Texture | None]:
        moment = frame // 50
        if view not in self.kept or (self.kept[view][0] != moment and len(self.look.backgrounds[view].pictures) > 1):
            small = shrink(self.look.backgrounds[view].at(frame), self.look.factor)
            self.kept[view] = (moment, small, texture_of(small))
        return self.kept[view][1:]
