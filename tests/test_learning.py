"""The length of a learned animal: what longer and shorter ones are on average, by how well they fit."""

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from scenes import as_float, worm

from midline3d.fitting.body import SharedPrior, average_body
from midline3d.settings import Settings
from midline3d.tracking import learning

SETTINGS = Settings()


@pytest.mark.parametrize("tail", [True, False])
def test_a_stretched_curve_goes_straight_on_at_one_end(tail: bool) -> None:
    state = as_float(worm(2, 101, seed=4))
    longer = learning.stretched(state, 0.05, tail)
    assert torch.allclose(longer.length, 1.05 * state.length)
    fixed, free = (0, -1) if tail else (-1, 0)
    assert torch.allclose(longer.points[:, fixed], state.points[:, fixed], atol=1e-6)
    # Where the old curve ended, the new one passes, and goes on along the old tangent.
    past = longer.points[:, 96 if tail else 4] - state.points[:, free]
    assert past.norm(dim=-1).max() < 0.02
    outward = (1 if tail else -1) * state.bishop[:, free, :, 0]
    way = longer.points[:, free] - state.points[:, free]
    assert (way * outward).sum(-1) == pytest.approx([0.05, 0.05], abs=5e-3)


@dataclass(frozen=True)
class Trials:
    """What learning would say to bodies by their length: the energy in nats is taken from a table."""

    energies: dict[float, float]
    near: float = 0.015
    """Of the length: how far from one in the table its energy is taken; farther off none is likely."""

    def fitted(
        self,
        clip: Any,
        animal: learning.Animal,
        iterations: int,
        prior: SharedPrior | None = None,
        settled: float = 0.0,
    ) -> learning.Animal:
        length = float(animal.body.length)
        held = prior is not None and float(prior.middle[-1]) == pytest.approx(math.log(length), abs=1e-6)
        assert held or (prior is None and length == 1.0), "only at its own length is it fitted freely, to fewer frames"
        nearest = min(self.energies, key=lambda known: abs(known - length))
        energy = self.energies[nearest] if abs(nearest - length) < self.near else 1e6
        return replace(animal, energy=energy * learning.nat(SETTINGS))


@dataclass(frozen=True)
class Known:
    """As much of a clip as lengths are tried with."""

    settings: Settings
    cameras: SimpleNamespace


@pytest.mark.parametrize(
    ("energies", "length", "unsure"),
    [
        # As likely on either side: the mean is where it was learned.
        ({0.98: 24.0, 1.00: 0.0, 1.02: 24.0}, 1.0, 0.0130),
        # Shorter is impossible, longer ever less likely.
        ({1.00: 0.0, 1.02: 24.0, 1.04: 48.0, 1.06: 72.0}, 1.0105, 0.0157),
        # Learning came to rest short of the minimum.
        ({1.00: 0.0, 1.02: -500.0, 1.04: -1000.0, 1.06: -1500.0, 1.08: -1000.0}, 1.06, 0.0),
        # From there a second profile is made, in steps of that length.
        ({1.00: 0.0, 0.98: -500.0, 1.02: 30.0, 0.96: -480.0}, 0.9741, 0.0092),
        # What cannot be fitted says nothing.
        ({1.00: 0.0, 1.02: math.nan}, 1.00, 0.0),
    ],
)
def test_the_length_is_what_all_are_on_average(
    energies: dict[float, float], length: float, unsure: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "fitted", Trials(energies).fitted)
    clip: Any = Known(SETTINGS, SimpleNamespace(count=3))
    sample = learning.Sample([0], as_float(worm(1, 32)))
    animal = learning.Animal(clip, sample, average_body(SETTINGS.body, torch.tensor(1.0)), torch.zeros(3, 4), 0.0)
    found = learning.of_expected_length(clip, animal).body
    assert float(found.length) == pytest.approx(length, abs=1e-3)
    assert found.unsure == pytest.approx((unsure, unsure), abs=1e-4)
    monkeypatch.setattr(learning, "fitted", Trials(energies | {1.0: 0.0}, near=0.001).fitted)
    kept = learning.of_expected_length(clip, animal)
    taken = round(float(kept.body.length), 4)
    assert taken == 1.0 or taken in energies, "what all frames find unlikely is not taken"
    off = replace(SETTINGS, body=replace(SETTINGS.body, stretch=0.0))
    assert learning.of_expected_length(SimpleNamespace(settings=off), animal) is animal  # type: ignore[arg-type]
