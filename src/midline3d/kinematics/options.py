"""What can be chosen about the kinematics; no part of a run's settings, which decide what may be continued."""

from __future__ import annotations

from dataclasses import dataclass, fields

from midline3d.errors import InputError

MOST_DRAWS = 10_000
"""Of midlines around those of a result: a standard deviation that is known to a hundredth of itself."""


@dataclass(frozen=True)
class Options:
    """How derivatives in time are smoothed, and where one thing ends and the next begins."""

    window: float = 0.25
    """s: derivatives in time come from a quadratic through so much of the recording, five frames at least. Half a
    beat of a swimming worm (2 Hz): shorter leaves the noise of single frames in, longer takes motion away."""
    run_window: float = 1.0
    """s: the direction of a run is measured over so much, two beats or so, for the centroid goes to and fro with every
    beat."""
    forward_window: float = 0.4
    """s: forwards and backwards are distinguished over so much; the speed along the body hardly feels the beat."""
    wave_window: float = 4.0
    """s: the travelling-wave index is measured over so much, several beats."""
    shortest_run: float = 0.5
    """s: what lasts less is no run, reversal or pause of its own."""
    turning: float = 1.0
    """rad/s: a direction that changes faster is a turn."""
    slowest: float = 0.05
    """Body lengths a second: slower is a pause."""
    straight: float = 0.5
    """1/body length: where the body is less curved than this, or than three times the noise of its curvature, its
    torsion is not given."""
    waves: float = 0.2
    """Waves on the body: with fewer the wavelength is not given."""
    step: float = 1.0
    """s: steps of the path whose turning angles make the sinuosity."""
    modes: int = 5
    """Eigenworms to give."""
    draws: int = 32
    """Midlines drawn around those of the result, whose spread is the standard deviation of everything: known to an
    eighth of itself. Each takes a third of the time of the measuring itself; 0 gives no standard deviations."""
    without: tuple[str, ...] = ()
    """Statuses of frames to leave out, such as suspect."""

    def check(self) -> None:
        """Complains about what cannot be."""
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name not in ("without", "draws") and not (value > 0 and value < 1e6):
                raise InputError(f"the option {item.name} of the kinematics is {value}; give a number above 0")
        if not (isinstance(self.draws, int) and 0 <= self.draws <= MOST_DRAWS):
            raise InputError(
                f"the option draws of the kinematics is {self.draws}; give a whole number from 0, for no standard "
                f"deviations, to {MOST_DRAWS}"
            )
        unknown = [word for word in self.without if word not in ("ok", "suspect")]
        if unknown:
            raise InputError(f"frames with the status '{unknown[0]}' have no midline; leave out 'suspect', or nothing")
