"""Every tunable number, in frozen records, with its unit, its range and the reason for its default; TOML in and out.

ranges      what a number may be
locating    finding the worm in whole frames
model       the curve, and how its render is held against the images
fitting     second order; the paper's Adam and its losses
animal      how a recording begins, and an animal before it is seen
tracking    following a recording, adjusting its cameras
judging     what is thought of a frame, head and tail, what is put right
files       all of it as one tree, read and written as TOML; settings that have a name, such as `paper`
"""

from midline3d.settings.animal import BodySettings, DirtSettings, StartSettings
from midline3d.settings.files import NAMED, Settings, dump_settings, load_settings, stored_settings
from midline3d.settings.fitting import AdamSettings, LossWeights, SecondOrderSettings
from midline3d.settings.judging import EvidenceSettings, HeadSettings, JudgingSettings, RepairSettings
from midline3d.settings.locating import LocatingSettings
from midline3d.settings.model import CurveSettings, PixelSettings
from midline3d.settings.tracking import RefineSettings, TrackingSettings

__all__ = [
    "NAMED",
    "AdamSettings",
    "BodySettings",
    "CurveSettings",
    "DirtSettings",
    "EvidenceSettings",
    "HeadSettings",
    "JudgingSettings",
    "LocatingSettings",
    "LossWeights",
    "PixelSettings",
    "RefineSettings",
    "RepairSettings",
    "SecondOrderSettings",
    "Settings",
    "StartSettings",
    "TrackingSettings",
    "dump_settings",
    "load_settings",
    "stored_settings",
]
