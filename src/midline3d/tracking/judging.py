"""Whether a frame's midline is to be trusted: by what its images say to it, from the first frame on, no history."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from midline3d.settings import JudgingSettings
from midline3d.store import Reason, Status
from midline3d.tracking.evidence import SHOWN, Evidence

BEST_LAST: tuple[Status, ...] = ("unreadable", "lost", "suspect", "ok")


def rank(status: Status) -> int:
    """How much a frame of this status is worth: more is better."""
    return BEST_LAST.index(status)


@dataclass(frozen=True)
class Verdict:
    """What a frame is called, and why."""

    status: Status
    reason: Reason


def judge(observed: Evidence, travelled: float, settings: JudgingSettings) -> Verdict:
    """The verdict on one frame (a batch of one); `travelled`: its mean way from where it was expected, in body lengths.

    Every comparison is written so that what is not a number speaks against the frame.
    """
    shown = observed.shown[0] >= SHOWN
    if not int(shown.sum()) >= 2:
        return Verdict("lost", "outside")
    shares = observed.explained[0][shown]
    explained = float(shares.amin())
    over = observed.unexplained[0][shown].sort(descending=True).values
    # Dirt lies beside the body in one view or two, a part of the animal that is not drawn in all.
    most = math.nan if bool(over.isnan().any()) else float(over[len(over) // 2])
    lacking, outside = float(observed.unbacked.amax()), float(observed.border[0][shown].amax())
    if not (explained >= settings.least_explained and lacking <= settings.most_unbacked):
        ignored = torch.nan_to_num(shares, nan=0.0).sort().values
        alone = bool(ignored[0] < settings.least_explained) and bool(ignored[1] >= settings.explained)
        return Verdict("lost", "view ignored" if alone else "no fit")
    if not outside <= settings.outside:
        return Verdict("suspect", "border")
    if not float(observed.alone) <= settings.outside:
        return Verdict("suspect", "outside")
    if not float(observed.through) <= settings.through:
        return Verdict("suspect", "through itself")
    further = float(observed.beyond.amax())
    if not (most <= settings.unexplained and further <= settings.beyond):
        return Verdict("suspect", "light unexplained")
    if not (lacking <= settings.unbacked and explained >= settings.explained):
        return Verdict("suspect", "drawn without light")
    if not float(observed.doubt) <= settings.doubt:
        return Verdict("suspect", "uncertain")
    if not travelled <= settings.jump:
        return Verdict("suspect", "jump")
    return Verdict("ok", "")
