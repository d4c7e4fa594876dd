"""What is said of a frame by its evidence: every reason, and nothing that is not a number is trusted."""

import math
from dataclasses import replace

import pytest
import torch

from midline3d.settings import JudgingSettings
from midline3d.tracking.evidence import Evidence
from midline3d.tracking.judging import Verdict, judge

SETTINGS = JudgingSettings()


def told(**changes: list[float]) -> Evidence:
    """Evidence of a frame that is right, but for what is changed."""
    right = Evidence(
        explained=torch.full((1, 3), 0.9),
        unexplained=torch.zeros(1, 3),
        unbacked=torch.zeros(1, 3),
        beyond=torch.zeros(1, 2),
        border=torch.zeros(1, 3),
        confidence=torch.ones(1, 8),
        across=torch.full((1, 8), 0.001),
        along=torch.full((1, 8), 0.01),
        doubt=torch.full((1,), 0.01),
    )
    return replace(right, **{name: torch.tensor([values]) for name, values in changes.items()})


@pytest.mark.parametrize(
    ("evidence", "moved", "status", "reason"),
    [
        (told(), 0.0, "ok", ""),
        (told(explained=[0.9, 0.2, 0.8]), 0.0, "lost", "view ignored"),
        (told(explained=[0.9, 0.2, 0.1]), 0.0, "lost", "no fit"),
        (told(unbacked=[0.0, 9.0, 0.0]), 0.0, "lost", "no fit"),
        (told(border=[0.0, 0.2, 0.0]), 0.0, "suspect", "outside"),
        (told(unexplained=[0.0, 15.0, 0.0]), 0.0, "ok", ""),  # something large, in one view alone
        (told(unexplained=[9.0, 0.0, 9.0, 0.0]), 0.0, "ok", ""),  # in half of the views
        (told(unexplained=[9.0, 5.0, 9.0, 0.0]), 0.0, "suspect", "light unexplained"),
        (told(unexplained=[5.0, 0.0, 5.0]), 0.0, "suspect", "light unexplained"),
        (told(unexplained=[3.0, 0.0, 0.0]), 0.0, "ok", ""),  # dirt, in one view alone
        (told(unbacked=[0.0, 0.0, 2.0]), 0.0, "suspect", "drawn without light"),
        (told(explained=[0.9, 0.9, 0.45]), 0.0, "suspect", "drawn without light"),
        (told(beyond=[0.0, 0.3]), 0.0, "suspect", "light unexplained"),
        (replace(told(), doubt=torch.tensor([0.5])), 0.0, "suspect", "uncertain"),
        (replace(told(), doubt=torch.tensor([math.nan])), 0.0, "suspect", "uncertain"),
        (told(), 0.5, "suspect", "jump"),
    ],
)
def test_every_reason(evidence: Evidence, moved: float, status: str, reason: str) -> None:
    assert judge(evidence, moved, SETTINGS) == Verdict(status, reason)


@pytest.mark.parametrize("name", ["explained", "unexplained", "unbacked", "border"])
def test_what_is_not_a_number_speaks_against_the_frame(name: str) -> None:
    assert judge(told(**{name: [0.0, math.nan, 0.0]}), 0.0, SETTINGS).status != "ok"
    everything = dict.fromkeys(("explained", "unexplained", "unbacked", "border"), [math.nan] * 3)
    assert judge(told(**everything), math.nan, SETTINGS).status == "lost"
    assert judge(told(), math.nan, SETTINGS) == Verdict("suspect", "jump")
