"""Writing a simulated recording: pictures, calibration, `recording.toml` and the truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.synth.body import arc_length, resample
from midline3d.synth.rig import Camera
from midline3d.synth.scene import FPS, Plan, Scene, make_scene

Picture = NDArray[np.uint8]
KEYPOINTS = 128


def simulate(out: Path, plan: Plan | None = None, progress: Callable[[int, int], None] | None = None) -> Path:
    """Writes a recording with known truth into the folder `out` and returns it; the same plan gives the same files.

    `progress` is called with the pictures drawn so far and their number.
    """
    scene = make_scene(plan or Plan())
    out = Path(out)
    if out.is_dir() and any(out.iterdir()) and not (out / "truth.nc").exists():
        raise InputError(f"{out}: holds files that are no simulated recording; give a new folder")
    out.mkdir(parents=True, exist_ok=True)
    total = len(scene.views) * scene.plan.frames
    done = 0
    for index, view in enumerate(scene.views):
        with _PictureWriter(out, view.camera.name, scene.plan) as writer:
            for picture in scene.pictures(index):
                writer.write(picture)
                done += 1
                if progress is not None:
                    progress(done, total)
    (out / "calibration.json").write_text(_calibration(scene.calibration), encoding="utf-8")
    truth(scene).to_netcdf(out / "truth.nc", engine="h5netcdf")
    (out / "recording.toml").write_text(_recording(scene), encoding="utf-8")
    return out


def truth(scene: Scene) -> xr.Dataset:
    """The truth under the names of a result: position (mm), projection (px, shaking included), length (mm)."""
    frames = scene.plan.frames
    points = np.stack([resample(curve, KEYPOINTS) for curve in scene.midlines])
    pixels = np.stack([view.camera.project(points) + view.shake[:, None] for view in scene.views], 1)
    lengths = np.array([arc_length(curve)[-1] for curve in scene.midlines])
    plan = scene.plan
    return xr.Dataset(
        {
            "position": (("time", "space", "keypoint", "individual"), points.transpose(0, 2, 1)[..., None]),
            "projection": (("time", "camera", "keypoint", "image"), pixels),
            "length": (("time",), lengths),
        },
        coords={
            "time": np.arange(frames) / FPS,
            "frame": ("time", np.arange(frames)),
            "space": ["x", "y", "z"],
            "camera": [view.camera.name for view in scene.views],
            "image": ["u", "v"],
            "keypoint": np.arange(KEYPOINTS),
            "individual": ["worm"],
        },
        attrs={
            "source_software": "midline3d",
            "ds_type": "poses",
            "fps": FPS,
            "time_unit": "seconds",
            "preset": plan.preset,
            "seed": plan.seed,
            "px_per_mm": plan.px_per_mm,
            "body": json.dumps(scene.body.describe()),
            "true_calibration": _calibration(tuple(view.camera for view in scene.views)),
        },
    )


class _PictureWriter:
    """One camera's pictures, as the plan asks for them."""

    def __init__(self, out: Path, name: str, plan: Plan) -> None:
        self._plan, self._count = plan, 0
        self._path = out / source_name(name, plan)
        if plan.source == "png":
            self._path.mkdir(exist_ok=True)
        elif plan.source == "npy":
            shape = (plan.frames, plan.size, plan.size)
            self._stack = np.lib.format.open_memmap(self._path, mode="w+", dtype=np.uint8, shape=shape)
        else:
            import av  # here alone: worms can be simulated in memory where there is no video library

            self._as_frame = av.VideoFrame.from_ndarray
            self._video = av.open(str(self._path), mode="w", format="avi")
            self._stream = self._video.add_stream("ffv1", rate=round(FPS))
            self._stream.width = self._stream.height = plan.size
            self._stream.pix_fmt = "gray"
            self._stream.thread_count = 1

    def __enter__(self) -> _PictureWriter:
        return self

    def write(self, picture: Picture) -> None:
        if self._plan.source == "png":
            cv2.imwrite(str(self._path / f"{self._count:06d}.png"), picture)
        elif self._plan.source == "npy":
            self._stack[self._count] = picture
        else:
            self._video.mux(self._stream.encode(self._as_frame(picture, format="gray")))
        self._count += 1

    def __exit__(self, *_: object) -> None:
        if self._plan.source == "npy":
            self._stack.flush()
        elif self._plan.source == "avi":
            self._video.mux(self._stream.encode(None))
            self._video.close()


def source_name(camera: str, plan: Plan) -> str:
    """Name of a camera's file or folder of pictures."""
    return camera if plan.source == "png" else f"{camera}.{plan.source}"


def _calibration(cameras: tuple[Camera, ...]) -> str:
    return json.dumps({"units": "mm", "cameras": [camera.describe() for camera in cameras]}, indent=1)


def _recording(scene: Scene) -> str:
    plan = scene.plan
    lines = [
        f'name = "{plan.preset}-{plan.seed}"',
        f"fps = {FPS}",
        'calibration = "calibration.json"',
        'worm = "dark"',
    ]
    for view in scene.views:
        name = view.camera.name
        lines += ["", "[[cameras]]", f'name = "{name}"', f'source = "{source_name(name, plan)}"']
    return "\n".join(lines) + "\n"
