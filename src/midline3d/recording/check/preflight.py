"""What a run says before it begins: the quick part of `check`, out of what preparing the crops finds anyway."""

from __future__ import annotations

import warnings

import numpy as np
import torch

from midline3d import cameras as rig
from midline3d.errors import InputError
from midline3d.reading import number_of
from midline3d.recording.check.issues import GHOSTLY, UNBENDING, second_worm, size_fault, timing_issues
from midline3d.recording.check.limits import Limits
from midline3d.recording.description import Recording
from midline3d.recording.locating.order import best_order
from midline3d.recording.locating.survey import Survey

CERTAIN = (3.0, 0.2, 8)
"""Cameras are certainly mixed up where the views drift apart by more px than this, in another order by less than this
share of it, in as many frames or more."""
CERTAIN_TURN = (6.0, 0.12, 8)
"""The same of a view that is mirrored or upside down: with 3 px and 0.2 one of 63 right recordings was refused, because
dirt drifted in it."""


def preflight(recording: Recording) -> None:
    """Warnings, one line each, of what counts, rates and time stamps say; nothing is decoded for it."""
    for issue in timing_issues(recording, Limits(), shortest=True):
        warnings.warn(issue.text, stacklevel=2)


def judge_survey(recording: Recording, cameras: rig.Cameras, survey: Survey) -> None:
    """Refuses in one sentence what cannot be right about a first look, and warns, one line each, of what may not be."""
    limits = Limits()
    scale = float(rig.scale(cameras, torch.from_numpy(survey.centre())[None, None]).mean())
    fault = size_fault(2 * survey.extent / scale, scale)
    if fault is not None:
        raise InputError(f"{recording.path}: {fault}")
    # Of two worms each view may show another as the heaviest: then their ways say nothing about the cameras.
    order = None if survey.second > limits.second else best_order(cameras, survey.heaviest)
    if order is not None and order.wrong(limits.mixed, limits.mixed_share):
        names, sources = [view.name for view in recording.views], [view.source.path.name for view in recording.views]
        remedy = order.remedy(names, sources)
        limit, share, frames = CERTAIN_TURN if order.turned else CERTAIN
        if order.wrong(limit, share) and order.frames >= frames:
            raise InputError(f"{recording.path}: {remedy}")
        warnings.warn(remedy, stacklevel=2)
    if survey.second > limits.second:
        warnings.warn(second_worm(survey.second), stacklevel=2)
    if survey.aside:
        warnings.warn(GHOSTLY, stacklevel=2)
    if any(survey.strangers):
        warnings.warn(UNBENDING, stacklevel=2)
    found = [place for place in survey.found if place.found]
    if len(found) < limits.found * len(survey.found):
        sentence = (
            f"the worm is found in {len(found)} of {number_of(len(survey.found), 'frame')} looked at; "
            "midline3d check says more"
        )
        warnings.warn(sentence, stacklevel=2)
    residual = float(np.median([place.residual for place in found]))
    if residual > limits.residual:
        missed = f"the views miss each other by {residual:.1f} px (limit {limits.residual:g})"
        warnings.warn(f"{missed}: is the calibration right?", stacklevel=2)
