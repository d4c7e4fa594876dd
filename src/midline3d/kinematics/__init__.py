"""How the animal is bent and how it moves: every quantity with its unit, its formula and its uncertainty.

kinematics = midline3d.kinematics.of("OUT")   # an xarray.Dataset
kinematics.forward_speed.plot()
"""

from midline3d.kinematics.measure import of
from midline3d.kinematics.options import Options
from midline3d.kinematics.quantities import QUANTITIES, Quantity
from midline3d.kinematics.tables import summary, write

__all__ = ["QUANTITIES", "Options", "Quantity", "of", "summary", "write"]
