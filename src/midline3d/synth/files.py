"""Writing a simulated recording: pictures, calibration, `recording.toml` and the truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeGuard

import cv2
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.files import check_folder, guarded
from midline3d.synth.body import arc_length, resample
from midline3d.synth.rig import Camera
from midline3d.synth.scene import VARIED, Plan, Scene, make_scene
from midline3d.synth.varied import VariedScene, make_varied_scene

Picture = NDArray[np.uint8]
AnyScene = Scene | VariedScene
KEYPOINTS = 128


def simulate(out: Path, plan: Plan | None = None, progress: Callable[[int, int], None] | None = None) -> Path:
    """Writes a recording with known truth into the folder `out` and returns it; the same plan gives the same files.

    `progress` is called with the pictures drawn so far and their number.
    """
    plan = plan or Plan()
    scene: AnyScene = make_varied_scene(plan) if plan.preset == VARIED else make_scene(plan)
    out = Path(out)
    if out.is_dir() and any(out.iterdir()) and not (out / "truth.nc").exists():
        raise InputError(f"{out}: holds files that are no simulated recording; give a new folder")
    check_folder(out)
    with guarded(out):
        _write(out, scene, progress)
    return out


def _write(out: Path, scene: AnyScene, progress: Callable[[int, int], None] | None) -> None:
    """Everything in it, the description last."""
    out.mkdir(parents=True, exist_ok=True)
    total = len(scene.views) * scene.plan.frames
    done = 0
    for index, camera in enumerate(_rig(scene)):
        with _PictureWriter(out, camera.name, scene) as writer:
            for picture in scene.pictures(index):
                writer.write(picture)
                done += 1
                if progress is not None:
                    progress(done, total)
        if has_background(scene):
            _keep(out / f"background-{camera.name}.png", scene.background(index))
    (out / "calibration.json").write_text(_calibration(scene.calibration), encoding="utf-8")
    truth(scene).to_netcdf(out / "truth.nc", engine="h5netcdf")
    (out / "recording.toml").write_text(_recording(scene), encoding="utf-8")


def _keep(path: Path, picture: Picture) -> None:
    """A picture as PNG: OpenCV would say nothing of a disk that does not take it."""
    path.write_bytes(cv2.imencode(".png", picture)[1].tobytes())


def truth(scene: AnyScene) -> xr.Dataset:
    """The truth under the names of a result: position (mm), projection (px, shaking included), length (mm).

    `inside` is the share of the midline that lies in each picture, `outside` says that less than half of it does, and
    `unreadable` that the picture is black.
    """
    frames = scene.plan.frames
    points = np.stack([resample(curve, KEYPOINTS) for curve in scene.midlines])
    pixels = np.stack([view.camera.project(points) + view.vibration[:, None] for view in scene.views], 1)
    lengths = np.array([arc_length(curve)[-1] for curve in scene.midlines])
    plan = scene.plan
    inside = ((pixels >= 0) & (pixels <= plan.size - 1)).all(-1).mean(-1)
    black = np.zeros_like(inside, dtype=bool)
    if isinstance(scene, VariedScene):
        black = np.stack([view.dropped for view in scene.views], 1)
    return xr.Dataset(
        {
            "position": (("time", "space", "keypoint", "individual"), points.transpose(0, 2, 1)[..., None]),
            "projection": (("time", "camera", "keypoint", "image"), pixels),
            "length": (("time",), lengths),
            "inside": (("time", "camera"), inside),
            "outside": (("time", "camera"), inside < 0.5),
            "unreadable": (("time", "camera"), black),
        },
        coords={
            "time": np.arange(frames) / scene.fps,
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
            "fps": scene.fps,
            "time_unit": "seconds",
            "preset": plan.preset,
            "seed": plan.seed,
            "body": json.dumps(scene.body.describe()),
            "true_calibration": _calibration(_rig(scene)),
            **_drawn(scene, pixels),
        },
    )


def _drawn(scene: AnyScene, pixels: NDArray[np.float64]) -> dict[str, Any]:
    """What else was drawn; of a varied recording also what came of it, measured."""
    if isinstance(scene, Scene):
        return {"px_per_mm": scene.plan.px_per_mm}
    scales = [float(view.camera.matrix[0, 0] / view.camera.translation[2]) for view in scene.views]
    moves = np.linalg.norm(np.diff(pixels, axis=0), axis=-1)
    return {
        "family": scene.drawn.family,
        "nuisances": json.dumps(scene.drawn.describe()),
        "px_per_mm": scales,
        "length_px": scene.body.length * float(np.median(scales)),
        "contrast": [scene.contrast(index) for index in range(len(scene.views))],
        "noise": scene.drawn.sensor.noise,
        "fastest_px": float(moves.max()) if len(moves) else 0.0,
    }


class _PictureWriter:
    """One camera's pictures, as the plan asks for them."""

    def __init__(self, out: Path, name: str, scene: AnyScene) -> None:
        self._plan, self._count = scene.plan, 0
        plan, quality = scene.plan, compression(scene)
        self._kind = "mp4" if quality else plan.source
        self._path = out / source_name(name, scene)
        if self._kind == "png":
            self._path.mkdir(exist_ok=True)
        elif self._kind == "npy":
            shape = (plan.frames, plan.size, plan.size)
            self._stack = np.lib.format.open_memmap(self._path, mode="w+", dtype=np.uint8, shape=shape)
        else:
            import av  # here alone: worms can be simulated in memory where there is no video library

            self._as_frame = av.VideoFrame.from_ndarray
            self._video = av.open(str(self._path), mode="w", format=self._kind)
            self._stream = self._video.add_stream("libx264" if quality else "ffv1", rate=round(scene.fps))
            self._stream.width = self._stream.height = plan.size
            self._stream.pix_fmt = "yuv420p" if quality else "gray"
            self._stream.options = {"crf": str(quality)} if quality else {}
            self._stream.thread_count = 1

    def __enter__(self) -> _PictureWriter:
        return self

    def write(self, picture: Picture) -> None:
        if self._kind == "png":
            _keep(self._path / f"{self._count:06d}.png", picture)
        elif self._kind == "npy":
            self._stack[self._count] = picture
        else:
            frame = self._as_frame(picture, format="gray")
            if self._kind == "mp4":
                frame = frame.reformat(format="yuv420p")
            self._video.mux(self._stream.encode(frame))
        self._count += 1

    def __exit__(self, *_: object) -> None:
        if self._kind == "npy":
            self._stack.flush()
        elif self._kind != "png":
            self._video.mux(self._stream.encode(None))
            self._video.close()


def compression(scene: AnyScene) -> int:
    """H.264's constant rate factor; 0 where pictures are kept as they are."""
    return scene.drawn.sensor.compression if isinstance(scene, VariedScene) else 0


def has_background(scene: AnyScene) -> TypeGuard[VariedScene]:
    """Whether a picture of the empty scene goes with the recording."""
    return isinstance(scene, VariedScene) and scene.drawn.sensor.background


def source_name(camera: str, scene: AnyScene) -> str:
    """Name of a camera's file or folder of pictures."""
    kind = "mp4" if compression(scene) else scene.plan.source
    return camera if kind == "png" else f"{camera}.{kind}"


def _rig(scene: AnyScene) -> tuple[Camera, ...]:
    return tuple(view.camera for view in scene.views)


def _calibration(cameras: tuple[Camera, ...]) -> str:
    return json.dumps({"units": "mm", "cameras": [camera.describe() for camera in cameras]}, indent=1)


def _recording(scene: AnyScene) -> str:
    plan = scene.plan
    lines = [f'name = "{plan.preset}-{plan.seed}"', f"fps = {scene.fps}", 'calibration = "calibration.json"']
    if isinstance(scene, Scene) or scene.drawn.sensor.stated:
        lines.append('worm = "dark"')
    for name in (camera.name for camera in _rig(scene)):
        lines += ["", "[[cameras]]", f'name = "{name}"', f'source = "{source_name(name, scene)}"']
        if has_background(scene):
            lines.append(f'background = "background-{name}.png"')
    return "\n".join(lines) + "\n"
