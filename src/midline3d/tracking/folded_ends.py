"""A body that was learned too long hides what it has too much: its end is folded back upon itself, where light is.

Nothing leads out of that a little at a time: every length in between fits worse. So where an end is folded back in many
frames, the body is also learned without what lies beyond the fold, and kept if that fits better.
"""

from __future__ import annotations

import torch

from midline3d.shapes import Float, Tensor
from midline3d.state import FrameState
from midline3d.tracking.clip import Clip
from midline3d.tracking.learning import Animal, at_length, fitted

FOLDED = -0.5
"""Cosine between an end's direction and one before it, at most: it has turned by 120 degrees."""
NEAR = 0.25
"""Of the body: how far from the end that may be."""
MANY = 1 / 3
"""Of the frames: an end that is folded back in fewer is a posture."""
ROUNDS = 3
"""Times at most that a body is unfolded."""


def unfolded(clip: Clip, animal: Animal) -> Animal:
    """The animal without ends that are folded back, for as long as that fits better; `clip` has the cameras as they
    were calibrated."""
    own = clip.settings.body
    if not own.learned or not own.stretch:
        return animal
    for _ in range(ROUNDS):
        beyond = {tail: _usual(folded_back(animal.sample.states, tail)) for tail in (False, True)}
        tail = max(beyond, key=lambda end: beyond[end])
        if not beyond[tail]:
            break
        shorter = at_length(clip, animal, (1 - beyond[tail]) * animal.body.length, tail)
        trial = fitted(clip, shorter, own.iterations)
        if not trial.energy < animal.energy:
            break
        animal = trial
    return animal


def folded_back(states: FrameState, tail: bool) -> Float[Tensor, " frame"]:
    """Share of the body that lies beyond a fold of its head or its tail, 0 where there is none."""
    direction = states.bishop[..., 0] if tail else -states.bishop[..., 0].flip(1)
    near = round(NEAR * direction.shape[1])
    turned = (direction[:, -near:] * direction[:, -1:]).sum(-1)
    # Vertices from the end to the last one that goes the other way.
    order = torch.arange(near, device=turned.device)
    beyond = near - 1 - torch.where(turned < 0, order, -1).amax(1)
    return torch.where((turned < FOLDED).any(1), beyond / (direction.shape[1] - 1), 0.0)


def _usual(shares: Float[Tensor, " frame"]) -> float:
    """What lies beyond the fold where there is one, if that is in many frames."""
    folded = shares[shares > 0]
    return float(folded.median()) if len(folded) >= MANY * len(shares) and len(folded) else 0.0
