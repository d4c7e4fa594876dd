"""Which way round an animal is: by the way it moves and by its blunter end, and what that leaves open of its ends."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from midline3d.settings import BodySettings
from midline3d.tracking.blunter_end import blunter_head
from midline3d.tracking.clip import Clip
from midline3d.tracking.learning import Animal, turned

TIP, PLACES = 0.05, 81
"""Of the body at each end, whose width tells the wider one; and points along the body at which it is asked."""


def head_first(clip: Clip, animal: Animal, forward: float) -> tuple[Animal, float, float]:
    """The animal the way round that is likelier, the natural log odds for it, and what of them its shape says.

    forward: log odds that it is the right way round already, by how it moves.
    """
    ways = animal, turned(clip, animal)
    by_shape = shape_odds(*ways)
    odds = by_shape + forward
    return (ways[0], odds, by_shape) if odds >= 0 else (ways[1], -odds, -by_shape)


def shape_odds(animal: Animal, other: Animal) -> float:
    """How much the shapes of the ends speak for keypoint 0 being the head, in natural log odds.

    The blunter end is mostly the head: the one at which light rises more steeply (see `blunter_end`), and, less loudly,
    the one that was learned to be wider: light goes through some heads, and some are as wide as a tail. A body that is
    learned looks for a blunt head at keypoint 0, so that both ways round are asked: `other` is the animal turned. Which
    of the two fits better says nothing of that: a head that is blunter than an average one is drawn better as a tail,
    which may end as it likes.
    """
    heads = animal.clip.settings.heads
    wider = (_wider(animal) - _wider(other)) / 2
    by_width = math.copysign(min((wider / heads.wider) ** 2, heads.most_width_odds), wider)
    odds = blunter_head(animal, other) / heads.blunter + by_width
    return min(max(odds, -heads.most_shape_odds), heads.most_shape_odds)


def _wider(animal: Animal) -> float:
    """Natural logarithm of the learned body's width at its head against that at its tail."""
    width = animal.body.shape.profile(torch.linspace(0, 1, PLACES), torch.zeros(2))[0].flatten()
    count = round(TIP * (PLACES - 1))
    return float((width[1 : 1 + count].sum() / width[-1 - count : -1].sum()).log())


def of_either_end(settings: BodySettings, right: float) -> BodySettings:
    """What is known of a body's ends before they are seen, where keypoint 0 is the head with the probability `right`:
    of both kinds of ends the mean and the variance.

    A tail that is held to be a head ends where it is as wide as one: of nine animals that were read the wrong way round
    tails were 7 px short, of fourteen others 2.
    """
    numbers = dict[str, Any]()
    for kind in ("share", "bluntness", "tip"):
        (head, spread), (tail, other) = (
            (math.log(getattr(settings, f"{end}_{kind}")), getattr(settings, f"{end}_{kind}_spread"))
            for end in ("head", "tail")
        )
        for end, chance in (("head", right), ("tail", 1 - right)):
            numbers[f"{end}_{kind}"] = math.exp(chance * head + (1 - chance) * tail)
            numbers[f"{end}_{kind}_spread"] = math.sqrt(
                chance * spread**2 + (1 - chance) * other**2 + right * (1 - right) * (head - tail) ** 2
            )
    return replace(settings, **numbers)
