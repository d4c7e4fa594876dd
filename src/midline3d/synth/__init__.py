"""Recordings with known truth, drawn by an image model that shares nothing with the renderer.

The worm is a solid that absorbs light along the way of every ray; each part is blurred by its own distance from focus.
"""

from midline3d.synth.families import FAMILIES, family_of
from midline3d.synth.files import simulate
from midline3d.synth.levels import LADDERS, Ladder
from midline3d.synth.presets import PRESETS
from midline3d.synth.scene import VARIED, Plan

__all__ = ["FAMILIES", "LADDERS", "PRESETS", "VARIED", "Ladder", "Plan", "family_of", "simulate"]
