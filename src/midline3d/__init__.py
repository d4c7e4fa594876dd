"""3D midlines of slender, semi-transparent animals from two or more calibrated cameras.

Everything that the command does is a function here. Names are looked up when they are first used, so that importing
the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midline3d import kinematics, midlines
    from midline3d.api import benchmark, calibrate, check, reconstruct, refine_cameras, simulate
    from midline3d.calibration import load_calibration, save_calibration
    from midline3d.calibration.boards import Board
    from midline3d.checkup import doctor
    from midline3d.errors import InputError
    from midline3d.evaluate import evaluate_annotations, evaluate_truth
    from midline3d.export import export_result
    from midline3d.population import Exam
    from midline3d.recording import load_recording
    from midline3d.report import frame_figure, write_report
    from midline3d.settings import Settings, load_settings
    from midline3d.store import info, open_result
    from midline3d.synth import Plan
    from midline3d.tracking.clips import plan_clips, run_clip, stitch
    from midline3d.tracking.reconstruct import Job
    from midline3d.viewer.serve import view

    __version__: str

_HOMES = {
    "Board": "calibration.boards",
    "Exam": "population",
    "InputError": "errors",
    "Job": "tracking.reconstruct",
    "Plan": "synth",
    "Settings": "settings",
    "benchmark": "api",
    "calibrate": "api",
    "check": "api",
    "doctor": "checkup",
    "evaluate_annotations": "evaluate",
    "evaluate_truth": "evaluate",
    "export_result": "export",
    "frame_figure": "report",
    "info": "store",
    "load_calibration": "calibration",
    "load_recording": "recording",
    "load_settings": "settings",
    "open_result": "store",
    "plan_clips": "tracking.clips",
    "reconstruct": "api",
    "refine_cameras": "api",
    "run_clip": "tracking.clips",
    "save_calibration": "calibration",
    "simulate": "api",
    "stitch": "tracking.clips",
    "view": "viewer.serve",
    "write_report": "report",
}

_MODULES = ("kinematics", "midlines")
"""Looked up as they are: midline3d.kinematics.of, midline3d.midlines.read."""

__all__ = [
    "Board",
    "Exam",
    "InputError",
    "Job",
    "Plan",
    "Settings",
    "__version__",
    "benchmark",
    "calibrate",
    "check",
    "doctor",
    "evaluate_annotations",
    "evaluate_truth",
    "export_result",
    "frame_figure",
    "info",
    "kinematics",
    "load_calibration",
    "load_recording",
    "load_settings",
    "midlines",
    "open_result",
    "plan_clips",
    "reconstruct",
    "refine_cameras",
    "run_clip",
    "save_calibration",
    "simulate",
    "stitch",
    "view",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("midline3d")
        except PackageNotFoundError:  # run from a checkout that was never installed
            return "0"
    if name in _MODULES:
        return import_module(f"midline3d.{name}")
    if name in _HOMES:
        return getattr(import_module(f"midline3d.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'midline3d' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
