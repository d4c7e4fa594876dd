"""The length of a learned animal: each end is tried longer, and taken where that is clearly better."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from scenes import as_float, worm

from midline3d.fitting.body import average_body
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
    outward = (1 if tail else -1) * state.frames[:, free, :, 0]
    way = longer.points[:, free] - state.points[:, free]
    assert (way * outward).sum(-1) == pytest.approx([0.05, 0.05], abs=5e-3)


@dataclass(frozen=True)
class Trials:
    """What learning would say to bodies by their length: the energy in nats is taken from a table."""

    energies: dict[float, float]

    def fitted(self, clip: Any, animal: learning.Animal, iterations: int) -> learning.Animal:
        length = round(float(animal.body.length), 2)
        return replace(animal, energy=self.energies[length] * learning.nat(SETTINGS))


@pytest.mark.parametrize(
    ("energies", "length"),
    [
        # Clearly better once, not again; then the head is tried from there.
        ({1.00: 0.0, 1.04: -200.0, 1.08: -205.0}, 1.04),
        # Better, but not by what repeated errors of the model could do.
        ({1.00: 0.0, 1.04: -20.0}, 1.00),
        ({1.00: 0.0, 1.04: -100.0, 1.08: -200.0, 1.12: -300.0, 1.17: -200.0}, 1.12),
        ({1.00: 0.0, 1.04: float("nan")}, 1.00),
    ],
)
def test_longer_where_it_is_clearly_better(
    energies: dict[float, float], length: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "_fitted", Trials(energies).fitted)
    clip: Any = SimpleNamespace(settings=SETTINGS)
    sample = learning.Sample([0], as_float(worm(1, 32)))
    animal = learning.Animal(clip, sample, average_body(SETTINGS.body, torch.tensor(1.0)), torch.zeros(3, 4), 0.0)
    assert float(learning.lengthened(clip, animal).body.length) == pytest.approx(length, abs=0.006)
    off = replace(SETTINGS, body=replace(SETTINGS.body, stretch=0.0))
    assert learning.lengthened(SimpleNamespace(settings=off), animal) is animal  # type: ignore[arg-type]
