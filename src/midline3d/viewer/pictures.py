"""Pictures of frames: strips of all cameras' crops in one image, and whole pictures from the recording's sources."""

from __future__ import annotations

import threading
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from midline3d.appearance import ViewAppearance, optics
from midline3d.errors import InputError
from midline3d.recording import Recording, load_recording
from midline3d.recording.identity import inputs_of
from midline3d.recording.sources import Picture
from midline3d.rendering import render
from midline3d.store import StoredFrames
from midline3d.tracking.clip import Clip
from midline3d.tracking.correcting import Bench

Layer = Literal["image", "render", "residual", "difference"]
LAYERS: tuple[str, ...] = get_args(Layer)
STRIP = 32
"""Frames in a strip."""
ACROSS = 8
"""Frames side by side in a strip: some browsers take no picture of more than 16,384 px."""
WHITE = 1.5
"""Times the brightness of the body's middle that is shown as white."""
OFF = 0.6
"""Of the body's brightness: what a residual's strongest colour and a difference's white stand for."""
QUALITY = 92
"""Of JPEG, in percent: a strip then takes 0.3 MB and 20 ms, as PNG 1 MB and 80 ms."""


class Strips:
    """Crops, renders and what is left between them, of strips of frames."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        clip = bench.clip
        levels = np.arange(256.0)
        offset, bright = clip.prepared.offset, clip.brightness.cpu().numpy()
        gain = 255 / (WHITE * bright)
        self._shown = np.clip((levels - offset[:, None]) * gain[:, None], 0, 255).astype(np.uint8)
        """(camera, 256): grey levels as they are shown."""

    def strip(self, layer: Layer, first: int) -> bytes:
        """JPEG of frames `first` to `first + STRIP` of the result, by their places: cameras below one another, frames
        beside one another, `ACROSS` to a row; black where there is none."""
        count = len(self._bench.frames.header.frames)
        if layer not in LAYERS:
            raise InputError(f"there is no layer '{layer[:40]}'; there are {', '.join(LAYERS)}")
        if not 0 <= first < count:
            raise InputError(f"strips begin at places 0 to {count - 1}, not at {first}")
        images = self._crops(first) if layer == "image" else self._drawn(layer, first)
        return encoded(_atlas(images))

    def _places(self, first: int) -> tuple[list[int], list[int]]:
        """Rows of the strip that have crops, and where those lie in the clip."""
        clip, frames = self._bench.clip, self._bench.frames.header.frames[first : first + STRIP]
        there = [(row, frame - clip.prepared.start) for row, frame in enumerate(frames)]
        there = [(row, place) for row, place in there if 0 <= place < len(clip)]
        return [row for row, _ in there], [place for _, place in there]

    def _crops(self, first: int) -> NDArray[np.uint8]:
        clip, (rows, places) = self._bench.clip, self._places(first)
        images = self._blank(clip)
        for row, place in zip(rows, places, strict=True):
            crops = clip.prepared[place].images
            for camera, crop in enumerate(crops):
                images[row, camera] = self._shown[camera][crop]
        return images

    def _drawn(self, layer: Layer, first: int) -> NDArray[np.uint8]:
        """A layer that needs the render."""
        clip, (rows, places) = self._bench.clip, self._places(first)
        images = self._blank(clip)
        if layer == "residual":
            images[:] = 128
        drawn, found = self._rendered(first, rows, places)
        if not found:
            return images
        light = clip.plain_views([places[index] for index in found]).images.numpy() if layer != "render" else drawn
        left = (drawn - light) / OFF
        shown = {
            "render": 255 / WHITE * drawn,
            "residual": 128 + 127 * np.clip(left, -1, 1),
            "difference": 255 * np.abs(left),
        }[layer]
        images[[rows[index] for index in found]] = np.clip(shown, 0, 255).astype(np.uint8)
        return images

    @torch.no_grad()
    def _rendered(self, first: int, rows: list[int], places: list[int]) -> tuple[NDArray[np.float32], list[int]]:
        """Renders, the body's middle being 1, and which of the places have one."""
        bench = self._bench
        clip, part = bench.clip, bench.frames.part(first, first + STRIP).isel(time=rows)
        midlines = part["position"].isel(individual=0).transpose("time", "keypoint", "space").values
        found = np.flatnonzero(np.isfinite(midlines).all((1, 2)) & [clip.located(place) for place in places]).tolist()
        if not found:
            return np.zeros(0, np.float32), []
        here = [places[index] for index in found]
        views, stored = clip.plain_views(here), part.isel(time=found)
        points = (torch.from_numpy(midlines[found]) - clip.centres(here)[:, None]).float()
        tangents = torch.nn.functional.normalize(torch.gradient(points, dim=1)[0], dim=-1)
        sigma, iota, defocus, rho = (
            torch.from_numpy(np.asarray(stored[name].values)).float() for name in ("sigma", "iota", "defocus", "rho")
        )
        appearance = bench.taper.apply(ViewAppearance(sigma, iota, defocus), optics(views.cameras, points, tangents))
        centres = torch.from_numpy(stored["projection"].values - clip.prepared.log.origin[here][:, :, None]).float()
        image = render(appearance.blobs(centres, rho), views.images, clip.settings.pixels.cutoff).image
        return image.numpy(), found

    @staticmethod
    def _blank(clip: Clip) -> NDArray[np.uint8]:
        window = clip.prepared.window
        return np.zeros((STRIP, clip.cameras.count, window, window), np.uint8)


def _atlas(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(strip, camera, w, w) as one picture."""
    _, cameras, window, _ = images.shape
    rows = images.reshape(STRIP // ACROSS, ACROSS, cameras, window, window).transpose(0, 2, 3, 1, 4)
    return np.ascontiguousarray(rows.reshape(-1, ACROSS * window))


def encoded(picture: NDArray[np.uint8]) -> bytes:
    """JPEG."""
    done, content = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    if not done:
        raise RuntimeError(f"a picture of shape {picture.shape} could not be encoded")
    return content.tobytes()


class Originals:
    """Whole pictures of the recording that a result was made of, where that is at hand."""

    def __init__(self, frames: StoredFrames, recording: Path | None) -> None:
        """recording: where it lies, else where it lay when it was reconstructed."""
        self._frames, self._given = frames, recording
        self._lock = threading.Lock()
        self._recording: Recording | None = None
        self._fault: str | None = None
        self._cached = lru_cache(maxsize=64)(self._picture)

    @property
    def fault(self) -> str | None:
        """Why there are no whole pictures; None where there are."""
        with self._lock:
            if self._recording is None and self._fault is None:
                try:
                    self._recording = self._open()
                except (InputError, OSError) as fault:
                    self._fault = str(fault)
            return self._fault

    def _open(self) -> Recording:
        header = self._frames.header
        noted = header.attributes.get("recording_path")
        path = self._given or (Path(str(noted)) if noted else None)
        if path is None:
            raise InputError("the result does not say where its recording lies; give --recording FOLDER")
        recording = load_recording(path, shortest=True)
        inputs = inputs_of(recording)
        other = [
            name for name, stored in header.inputs.items() if name.startswith("camera ") and inputs.get(name) != stored
        ]
        if other:
            raise InputError(f"{path} is another recording: {', '.join(other)} differ; give --recording FOLDER")
        return recording

    def picture(self, camera: int, frame: int) -> bytes:
        """JPEG of a frame in one camera's whole picture."""
        if self.fault:
            raise InputError(self.fault)
        names = self._frames.header.cameras
        if not 0 <= camera < len(names):
            raise InputError(f"there is no camera {camera}; there are 0 to {len(names) - 1}")
        self._frames.row(frame)
        return self._cached(camera, frame)

    def _picture(self, camera: int, frame: int) -> bytes:
        assert self._recording is not None
        view = self._recording.views[camera]
        with self._lock:
            found = next((picture for _, picture in view.source.read([frame + view.offset])), None)
        if found is None:
            raise InputError(f"frame {frame} of {view.name} cannot be read")
        return encoded(_eight_bit(found))


def _eight_bit(picture: Picture) -> NDArray[np.uint8]:
    if picture.dtype == np.uint8:
        return picture
    # Cameras of 10 or 12 bits fill the lower part of 16.
    top = max(int(picture.max()), 1)
    bits = max(8, int(top).bit_length())
    return (picture >> (bits - 8)).astype(np.uint8)
