"""File formats of calibrations: our JSON, anipose's TOML, OpenCV's XML and YAML, all to one record in mm."""

from midline3d.calibration.files import check_target, load_calibration, save_calibration
from midline3d.calibration.records import Calibration, Camera, make_calibration, make_camera
from midline3d.calibration.sanity import check_rig

__all__ = [
    "Calibration",
    "Camera",
    "check_rig",
    "check_target",
    "load_calibration",
    "make_calibration",
    "make_camera",
    "save_calibration",
]
