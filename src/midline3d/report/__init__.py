"""Pictures of a result, and a report of it: one page that says what was reconstructed and how well."""

from midline3d.report.picture import frame_figure, read_frame, telling_frame
from midline3d.report.write import write_report

__all__ = ["frame_figure", "read_frame", "telling_frame", "write_report"]
