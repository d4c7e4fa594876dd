"""What is wrong with a recording, before hours are spent on it.

limits     beyond which a recording does not pass
facts      what was measured, in records
issues     what is wrong, each as one sentence
looking    bursts of frames over the recording
text       a report for people
picture    a report as a picture
report     all of it together
checking   the check itself
preflight  its quick part, before a run
"""

from midline3d.recording.check.checking import check
from midline3d.recording.check.limits import Limits
from midline3d.recording.check.report import Report

__all__ = ["Limits", "Report", "check"]
