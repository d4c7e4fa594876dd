"""NWB through ndx-pose: the 3D midline, every camera's view of it, the calibrated cameras, what became of frames."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from midline3d.errors import InputError
from midline3d.export.material import Choice, Material, axes, description

CONFIDENCE = "probability that at least half of the light that is drawn at the point is there in all views"


def write_nwb(material: Material, path: Path, choice: Choice) -> None:
    """An NWB file, with pynwb and ndx-pose 0.4 or later."""
    try:
        from ndx_pose import MultiCameraPoseEstimation, Skeleton, Skeletons
        from pynwb import NWBHDF5IO, NWBFile
    except ImportError:
        raise InputError("NWB needs pynwb and ndx-pose 0.4; pip install 'midline3d[nwb]'") from None
    name = str(material.result.attrs.get("recording", "recording"))
    file = NWBFile(
        session_description=description(material),
        identifier=str(uuid.uuid4()),
        session_id=name,
        session_start_time=choice.start,
    )
    behaviour = file.create_processing_module(name="behavior", description="midlines and what is made of them")
    edges = np.stack([np.arange(len(material.names) - 1), np.arange(1, len(material.names))], -1)
    skeleton = Skeleton(name="midline", nodes=material.names, edges=edges.astype(np.uint16))
    behaviour.add(Skeletons(skeletons=[skeleton]))
    views = [_view(material, file, camera, skeleton, path) for camera in range(material.result.sizes["camera"])]
    behaviour.add(
        MultiCameraPoseEstimation(
            name="midline",
            pose_estimation_series=_series(material, material.points, "millimeters", _axes(material)),
            pose_estimations=views,
            description=description(material),
            scorer="midline3d",
            source_software="midline3d",
            source_software_version=str(material.result.attrs.get("version", "")) or None,
            skeleton=skeleton,
        )
    )
    behaviour.add(_frames(material))
    with NWBHDF5IO(path, "w") as io:
        io.write(file)


def _axes(material: Material) -> str:
    origin = ", ".join(f"{value:g}" for value in material.world.origin)
    return f"{axes(material.world)}; its origin lies at ({origin}) mm of the calibration's"


def _series(material: Material, values: np.ndarray, unit: str, frame: str) -> list[Any]:
    """A series for every keypoint: values (time, keypoint, 2 or 3)."""
    from ndx_pose import PoseEstimationSeries

    times = material.result.time.values
    confidence = material.result.confidence.isel(individual=0).transpose("time", "keypoint").values
    found: list[Any] = []
    for place, name in enumerate(material.names):
        found.append(
            PoseEstimationSeries(
                name=name,
                data=np.ascontiguousarray(values[:, place]),
                confidence=np.ascontiguousarray(confidence[:, place]),
                confidence_definition=CONFIDENCE,
                unit=unit,
                reference_frame=frame,
                # The times of the first are those of all: they are stored once.
                timestamps=found[0] if found else times,
            )
        )
    return found


def _view(material: Material, file: Any, place: int, skeleton: Any, path: Path) -> Any:
    """One camera's view of the midline."""
    from ndx_pose import PoseEstimation

    name = str(material.result.camera.values[place])
    pixels = material.result.projection.transpose("time", "camera", "keypoint", "image").values[:, place]
    return PoseEstimation(
        name=name,
        pose_estimation_series=_series(material, pixels, "pixels", "u right, v down, the first pixel's centre (0, 0)"),
        description=f"the midline projected into the pictures of {name}",
        device=_device(material, file, name),
        source_video=_video(material, file, name, place, path),
        source_software="midline3d",
        skeleton=skeleton,
    )


def _device(material: Material, file: Any, name: str) -> Any:
    from ndx_pose import CalibratedCamera
    from pynwb.device import Device

    cameras = material.calibration.cameras if material.calibration else ()
    camera = next((camera for camera in cameras if camera.name == name), None)
    device = Device(name=name)
    if camera is not None:
        rotation, translation = material.world.pose(camera)
        device = CalibratedCamera(
            name=name,
            description="OpenCV's convention: x_camera = R x + t, mm; pixel centres at integers",
            intrinsic_matrix=camera.matrix,
            rotation_matrix=rotation,
            translation_vector=translation,
            distortion_coefficients=camera.distortions,
        )
    file.add_device(device)
    return device


def _video(material: Material, file: Any, name: str, place: int, path: Path) -> Any:
    """The camera's source, by its path from the NWB file; None where it is not known."""
    from pynwb.image import ImageSeries

    sources = json.loads(material.result.attrs.get("sources", "{}"))
    if name not in sources:
        return None
    try:
        where = os.path.relpath(sources[name], path.parent)
    except ValueError:  # another drive
        where = sources[name]
    fps = float(material.result.attrs["fps"])
    first = int(material.result.source_frame.values[0, place] - material.frames[0])
    series = ImageSeries(
        name=f"{name}_source",
        description=f"frame {first} of this source is the recording's frame 0",
        external_file=[where],
        format="external",
        starting_frame=[0],
        # Of the frames up to the result's last: how many the source has beyond is not known.
        timestamps=(np.arange(material.frames[-1] + first + 1) - first) / fps,
        unit="n.a.",
    )
    file.add_acquisition(series)
    return series


def _frames(material: Material) -> Any:
    """What became of every frame."""
    from hdmf.common import DynamicTable, VectorData

    result = material.result
    columns: list[tuple[str, str, Any]] = [("frame", "number of the frame in the recording", material.frames)]
    columns.append(("time", "s since the recording's first frame", result.time.values))
    columns.append(("length", "length of the midline, mm", result.length.values))
    columns += [(name, str(result[name].attrs["long_name"]), material.words(name)) for name in ("status", "reason")]
    vectors = [VectorData(name=name, description=text, data=list(values)) for name, text, values in columns]
    return DynamicTable(name="frames", description="what became of every frame", columns=vectors)
