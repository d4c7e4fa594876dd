"""What each part of the method is worth: runs without one of them, beside the whole."""

from midline3d.ablation.run import ablate
from midline3d.ablation.table import Ablation
from midline3d.ablation.variants import VARIANTS, Variant

__all__ = ["VARIANTS", "Ablation", "Variant", "ablate"]
