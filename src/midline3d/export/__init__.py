"""Results in other programs' formats."""

from midline3d.export.formats import FORMATS, check_export, export_result
from midline3d.export.material import Choice

__all__ = ["FORMATS", "Choice", "check_export", "export_result"]
