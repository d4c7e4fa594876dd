"""What is said of a frame by its evidence: every reason, and nothing that is not a number is trusted."""

import math
from dataclasses import replace

import pytest
import torch

from midline3d.settings import JudgingSettings
from midline3d.tracking.evidence import Evidence
from midline3d.tracking.judging import Verdict, judge

SETTINGS = JudgingSettings()


def evidence_with(**changes: list[float]) -> Evidence:
    """Evidence of a frame that is right, but for what is changed."""
    right = Evidence(
        explained=torch.full((1, 3), 0.9),
        unexplained=torch.zeros(1, 3),
        unbacked=torch.zeros(1, 3),
        beyond=torch.zeros(1, 2),
        border=torch.zeros(1, 3),
        shown=torch.ones(1, 3),
        alone=torch.zeros(1),
        through=torch.zeros(1),
        confidence=torch.ones(1, 8),
        across=torch.full((1, 8), 0.001),
        along=torch.full((1, 8), 0.01),
        doubt=torch.full((1,), 0.01),
    )
    return replace(right, **{name: torch.tensor([values]) for name, values in changes.items()})


@pytest.mark.parametrize(
    ("evidence", "moved", "status", "reason"),
    [
        (evidence_with(), 0.0, "ok", ""),
        (evidence_with(explained=[0.9, 0.2, 0.8]), 0.0, "lost", "view ignored"),
        (evidence_with(explained=[0.9, 0.2, 0.1]), 0.0, "lost", "no fit"),
        (evidence_with(unbacked=[0.0, 9.0, 0.0]), 0.0, "lost", "no fit"),
        (evidence_with(border=[0.0, 0.2, 0.0]), 0.0, "suspect", "border"),
        (evidence_with(explained=[0.9, 0.0, 0.8], shown=[1.0, 0.1, 1.0]), 0.0, "ok", ""),  # gone from one picture
        (evidence_with(explained=[0.9, 0.2, 0.8], shown=[1.0, 0.6, 1.0]), 0.0, "lost", "view ignored"),
        (evidence_with(shown=[1.0, 0.4, 0.4]), 0.0, "lost", "outside"),
        (replace(evidence_with(), alone=torch.tensor([0.1])), 0.0, "suspect", "outside"),
        (replace(evidence_with(), through=torch.tensor([0.2])), 0.0, "suspect", "through itself"),
        (evidence_with(unexplained=[0.0, 15.0, 0.0]), 0.0, "ok", ""),  # something large, in one view alone
        (
            evidence_with(unexplained=[9.0, 0.0, 9.0, 0.0], shown=[1.0] * 4, border=[0.0] * 4, explained=[0.9] * 4),
            0.0,
            "ok",
            "",
        ),  # in half of the views
        (
            evidence_with(unexplained=[9.0, 5.0, 9.0, 0.0], shown=[1.0] * 4, border=[0.0] * 4, explained=[0.9] * 4),
            0.0,
            "suspect",
            "light unexplained",
        ),
        (evidence_with(unexplained=[5.0, 0.0, 5.0]), 0.0, "suspect", "light unexplained"),
        (evidence_with(unexplained=[3.0, 0.0, 0.0]), 0.0, "ok", ""),  # dirt, in one view alone
        (evidence_with(unbacked=[0.0, 0.0, 2.0]), 0.0, "suspect", "drawn without light"),
        (evidence_with(explained=[0.9, 0.9, 0.45]), 0.0, "suspect", "drawn without light"),
        (evidence_with(beyond=[0.0, 0.3]), 0.0, "suspect", "light unexplained"),
        (replace(evidence_with(), doubt=torch.tensor([0.5])), 0.0, "suspect", "uncertain"),
        (replace(evidence_with(), doubt=torch.tensor([math.nan])), 0.0, "suspect", "uncertain"),
        (evidence_with(), 0.5, "suspect", "jump"),
    ],
)
def test_every_reason(evidence: Evidence, moved: float, status: str, reason: str) -> None:
    assert judge(evidence, moved, SETTINGS) == Verdict(status, reason)


@pytest.mark.parametrize("name", ["explained", "unexplained", "unbacked", "border"])
def test_what_is_not_a_number_speaks_against_the_frame(name: str) -> None:
    assert judge(evidence_with(**{name: [0.0, math.nan, 0.0]}), 0.0, SETTINGS).status != "ok"
    everything = dict.fromkeys(("explained", "unexplained", "unbacked", "border"), [math.nan] * 3)
    assert judge(evidence_with(**everything), math.nan, SETTINGS).status == "lost"
    assert judge(evidence_with(), math.nan, SETTINGS) == Verdict("suspect", "jump")
