"""`recording.toml`: what the user wrote, checked, and the opened recording it describes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from midline3d.calibration import Calibration, check_rig, load_calibration
from midline3d.errors import InputError
from midline3d.reading import number_of, read_toml, shortened, validated
from midline3d.recording.sources import Source, exists, open_source
from midline3d.world import FrameEntry, World, make_world

Polarity = Literal["dark", "bright", "auto"]


@dataclass(frozen=True)
class CameraEntry:
    """One [[cameras]] table."""

    name: str
    source: str
    background: str | None = None
    offset: int = 0


@dataclass(frozen=True)
class Description:
    """The file's keys; only the calibration and the cameras have no default."""

    calibration: str
    cameras: tuple[CameraEntry, ...]
    name: str | None = None
    fps: float | None = None
    worm: Polarity = "auto"
    background: Literal["auto", "none"] = "auto"
    crop: Annotated[int | Literal["auto"], "px"] = "auto"
    centre: Literal["track", "fixed"] = "track"
    frame: FrameEntry | None = None


@dataclass(frozen=True)
class View:
    """One camera's pictures."""

    name: str
    source: Source
    offset: int
    """The source's frame that is the recording's frame 0."""
    background: Path | None
    """This camera's own background picture."""

    @property
    def count(self) -> int:
        """Frames left after the offset."""
        return self.source.count - self.offset


@dataclass(frozen=True)
class Recording:
    """A recording whose sources were opened and found to fit each other and the calibration."""

    path: Path
    """The folder."""
    name: str
    fps: float
    calibration: Calibration
    """Of the recording's cameras, in its order."""
    views: tuple[View, ...]
    count: int
    """Frames that all cameras have."""
    worm: Polarity
    background: Literal["auto", "none"]
    crop: int | Literal["auto"]
    centre: Literal["track", "fixed"]
    world: World | None = None
    """What [frame] says; None where there is none."""


def load_description(path: Path | str) -> tuple[Path, Description]:
    """The recording's folder and what its recording.toml says, every value checked."""
    path = Path(path)
    file = path / "recording.toml" if exists(path) and path.is_dir() else path
    if not exists(file):
        raise InputError(f"{file}: there is no such file; a recording is a folder with a recording.toml in it")
    description = validated(Description, read_toml(file), str(file))
    names = [camera.name for camera in description.cameras]
    if len(names) < 2:
        raise InputError(f"{file}: lists {len(names)} camera(s), but two or more are needed; add [[cameras]] tables")
    for camera in description.cameras:
        if names.count(camera.name) > 1:
            raise InputError(f"{file}: two cameras are named '{camera.name}'; give each its own name")
        if not camera.name or len(camera.name) > 100:
            raise InputError(f"{file}: a camera's name is '{shortened(camera.name, 40)}'; give it 1 to 100 letters")
        if camera.offset < 0:
            raise InputError(
                f"{file}: the offset of '{camera.name}' is {camera.offset}, but counts frames to skip; "
                "give the other cameras a positive offset instead"
            )
    if description.fps is not None and not 1e-4 <= description.fps <= 1e6:
        raise InputError(f"{file}: fps is {description.fps}; give the frames a second, 0.0001 to 1000000")
    if description.crop != "auto" and not 16 <= description.crop <= 8192:
        raise InputError(f'{file}: crop is {description.crop} px; give 16 to 8192, or "auto"')
    return file.parent, description


def load_recording(path: Path | str, shortest: bool = False) -> Recording:
    """Open a recording's sources and calibration; `shortest` lets longer cameras lose their tails."""
    folder, description = load_description(path)
    names = [camera.name for camera in description.cameras]
    calibration = load_calibration(_inside(folder, description.calibration)).cameras_for(names)
    _check_sources(folder, description.cameras)
    views = tuple(_open_view(folder, camera) for camera in description.cameras)
    _check_sizes(views, calibration)
    check_rig(calibration, [view.source.size for view in views], str(folder / description.calibration))
    rates = [view.source.rate for view in views if view.source.rate]
    return Recording(
        path=folder,
        name=description.name or folder.resolve().name,
        fps=description.fps or _rate(rates, folder),
        calibration=calibration,
        views=views,
        count=_common_count(views, shortest),
        worm=description.worm,
        background=description.background,
        crop=description.crop,
        centre=description.centre,
        world=_world(description, calibration, folder),
    )


def _world(description: Description, calibration: Calibration, folder: Path) -> World | None:
    if description.frame is None:
        return None
    return make_world(description.frame, calibration, folder, str(folder / "recording.toml"))


def load_world(path: Path, calibration: Calibration) -> World:
    """What the [frame] of a recording.toml, or of its folder, says for cameras; no source is opened."""
    folder, description = load_description(path)
    world = _world(description, calibration, folder)
    if world is None:
        raise InputError(f"{path}: has no [frame]; add one, with up and heading as docs/recording.md says")
    return world


def _rate(rates: list[float], folder: Path) -> float:
    """Frames a second by the videos' time stamps; pictures have none, and times of the result must not be guessed."""
    if not rates:
        raise InputError(
            f"{folder / 'recording.toml'}: says no fps, and the sources have no time stamps; add the line fps = 25.0, "
            "or whatever the cameras' frames a second are"
        )
    return rates[0]


def _inside(folder: Path, name: str) -> Path:
    """A path as the file gives it: absolute, or from the recording's folder."""
    if not name or "\0" in name:
        raise InputError(f"{folder}: {name!r} is not the name of a file; correct recording.toml")
    if any(letter < " " for letter in name):
        raise InputError(
            f"{folder}: {name!r} is not the name of a file, for in double quotes a \\ changes the letter after it; "
            "write / for it in recording.toml, or single quotes for the double ones"
        )
    if max(map(len, Path(name).parts), default=0) > 255:
        raise InputError(f"{folder}: '{shortened(name, 40)}' has {len(name)} letters, too many for the name of a file")
    return folder / name


def _check_sources(folder: Path, cameras: Sequence[CameraEntry]) -> None:
    """A line that was copied and not changed makes one camera's pictures those of two."""
    first = dict[Path, str]()
    for camera in cameras:
        name = first.setdefault(_inside(folder, camera.source).resolve(), camera.name)
        if name != camera.name:
            raise InputError(
                f"{folder / 'recording.toml'}: '{name}' and '{camera.name}' have one source, {camera.source}; "
                "give each camera its own"
            )


def _open_view(folder: Path, camera: CameraEntry) -> View:
    source = open_source(_inside(folder, camera.source))
    background = None if camera.background is None else _inside(folder, camera.background)
    if camera.background in ("auto", "none") and background is not None and not exists(background):
        raise InputError(
            f'{folder / "recording.toml"}: background = "{camera.background}" stands below [[cameras]], where it names '
            f"a picture of '{camera.name}'; move it above the first [[cameras]]"
        )
    if background is not None and background.is_dir():
        raise InputError(
            f"{background}: is a folder, but the background of '{camera.name}' is a picture; give the picture's file"
        )
    if background is not None and not background.is_file():
        raise InputError(f"{background}: there is no such background picture of '{camera.name}'; check the path")
    view = View(camera.name, source, camera.offset, background)
    if view.count < 1:
        raise InputError(
            f"the offset of '{camera.name}' is {camera.offset}, but it has only {number_of(source.count, 'frame')}; "
            "lower the offset"
        )
    return view


def _check_sizes(views: tuple[View, ...], calibration: Calibration) -> None:
    for view, camera in zip(views, calibration.cameras, strict=True):
        if camera.size is not None and camera.size != view.source.size:
            (width, height), (right_width, right_height) = view.source.size, camera.size
            raise InputError(
                f"{view.name}'s images are {width} x {height} px, but its calibration is for {right_width} x "
                f"{right_height}: use the calibration made at this image size, or uncropped and unscaled images"
            )


def _common_count(views: tuple[View, ...], shortest: bool) -> int:
    least, most = min(views, key=lambda view: view.count), max(views, key=lambda view: view.count)
    if least.count != most.count and not shortest:
        raise InputError(
            f"{most.name} has {number_of(most.count - least.count, 'frame')} more than {least.name} "
            f"({most.count}, {least.count}): set cameras.offset, or --shortest to drop the tail"
        )
    return least.count
