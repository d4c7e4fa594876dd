"""Finding an animal whose body is known, in frames that nothing is known of but where it was located."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, islice

import torch

from midline3d.fitting.second_order import Fit, fit
from midline3d.state import FrameState
from midline3d.tracking.begin import Beginning, distance, start_pairs
from midline3d.tracking.evidence import evidence
from midline3d.tracking.follow import Track, follow, least_energy, searched_starts
from midline3d.tracking.judging import Verdict, judge, rank
from midline3d.tracking.learning import problem_of


@dataclass(frozen=True)
class Found:
    """The animal in one frame."""

    frame: int
    state: FrameState
    """A batch of one."""
    verdict: Verdict
    explained: float
    """Share of the light, in the view that is explained worst."""
    confirmed: bool = False
    """Whether following it has led to what a search in another frame has found."""

    @property
    def merit(self) -> tuple[bool, int, float]:
        """What makes one better than another, most important first."""
        return self.confirmed, rank(self.verdict.status), self.explained


def found_afresh(beginning: Beginning, spans: list[list[int]], generator: torch.Generator) -> list[Beginning]:
    """The beginning of each of several clips: the same animal, in one of the clip's frames (all located, one at least).

    Pairs of frames are searched one after the other, those of all clips in one batch, until following leads from one
    of a pair to the other. Where it never does, the best of all is taken: following judges it, and searches again
    where it will not do.
    """
    clip, tried = beginning.clip, [list[Found]() for _ in spans]
    most = clip.settings.start.rounds * clip.settings.start.pairs
    waiting = {place: islice(chain.from_iterable(start_pairs(clip, span)), most) for place, span in enumerate(spans)}
    starts = max(1, clip.settings.start.starts // clip.settings.tracking.fewer_starts)
    while waiting:
        pairs = {place: pair for place, left in waiting.items() if (pair := next(left, None)) is not None}
        found = iter(searched_for(beginning, [frame for pair in pairs.values() for frame in pair], generator, starts))
        for place, pair in pairs.items():
            tried[place] += _confirmed(beginning, [next(found) for _ in pair])
        waiting = {place: waiting[place] for place in pairs if not tried[place][-1].confirmed}
        starts = clip.settings.start.starts
    best = [max(each, key=lambda found: found.merit) for each in tried]
    return [replace(beginning, frame=found.frame, state=found.state) for found in best]


def searched_for(beginning: Beginning, frames: list[int], generator: torch.Generator, starts: int) -> list[Found]:
    """The best of some random starts in each of the frames, fitted to the end as the known body, either way round."""
    if not frames:
        return []
    clip, settings = beginning.clip, beginning.clip.settings
    settings = replace(settings, start=replace(settings.start, starts=starts))
    both = searched_starts(beginning, frames, beginning.state, settings, generator)
    count = min(settings.start.polish, starts)
    many = [frame for frame in frames for _ in range(count)] * 2
    problem = problem_of(clip, many, beginning.taper, both, settings.second_order)
    done = fit(problem, both, settings.second_order.first_iterations)
    rows = torch.arange(len(many)).view(2, len(frames), count)
    return [_best(beginning, frame, done[rows[:, place].flatten().tolist()]) for place, frame in enumerate(frames)]


def _best(beginning: Beginning, frame: int, tried: Fit) -> Found:
    """The one of several fits of a frame that leaves the least."""
    clip = beginning.clip
    state = least_energy(tried).state
    problem = problem_of(clip, [frame], beginning.taper, state, clip.settings.second_order)
    observed = evidence(problem, state, clip.contrast, clip.noise, clip.settings.evidence)
    explained = float(torch.nan_to_num(observed.explained, nan=0.0).amin())
    return Found(frame, state, judge(observed, 0.0, clip.settings.judging), explained)


def _confirmed(beginning: Beginning, pair: list[Found]) -> list[Found]:
    """The frames of a pair: confirmed where following the one leads to the other, and neither is lost on the way."""
    if len(pair) < 2 or any(each.verdict.status == "lost" for each in pair):
        return pair
    clip, (one, other) = beginning.clip, pair
    direction = 1 if other.frame > one.frame else -1
    track, between = (
        Track.of(replace(beginning, frame=one.frame, state=one.state)),
        range(one.frame, other.frame, direction),
    )
    if any(tracked.fit is None for tracked in follow(beginning, [frame + direction for frame in between], track)):
        return pair
    reached = track.states[-1][1]
    near = clip.settings.start.agree * float(other.state.sigma.mean())
    same = distance(clip, other.frame, reached, other.state) < near
    return [replace(each, confirmed=same) for each in pair]
