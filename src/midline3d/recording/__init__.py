"""A recording: its sources, its background, the worm in it, and the crops around the worm."""

from midline3d.recording.check import Report, check
from midline3d.recording.check.preflight import preflight
from midline3d.recording.crops import FrameCrops, Prepared
from midline3d.recording.description import Recording, load_recording
from midline3d.recording.prepare import adopt, prepare

__all__ = ["FrameCrops", "Prepared", "Recording", "Report", "adopt", "check", "load_recording", "preflight", "prepare"]
