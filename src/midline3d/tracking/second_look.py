"""Frames searched for once more when all has been followed, from nothing but the known body.

Following believes the frame before, and so it carries a mistake on for as long as the images allow it: a curve folded
the wrong way, an end that lies on dirt. A search that knows nothing of the neighbours does not repeat it. Where that
finds a midline elsewhere that leaves less light over, it is taken, and `mending` carries it on to both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial

import numpy as np
import torch

from midline3d.state import FrameState
from midline3d.tracking.begin import Beginning
from midline3d.tracking.finding import searched_for
from midline3d.tracking.follow import Candidate, Tracked, fitted_from, outcome
from midline3d.tracking.learning import nat
from midline3d.tracking.mending import KnownFrame, ReadKnown
from midline3d.tracking.threads import on_all_cores

AT_ONCE = 4
"""Frames searched in one batch: more of them are not faster, and fewer batches leave cores without one."""
SEED = 5
"""Of the searches' random numbers: that of a batch is as much more as its first frame's number."""


def frames_to_search(beginning: Beginning, doubted: Callable[[int], bool]) -> list[int]:
    """Frames spread over the located ones, and the middle of every stretch that is doubted."""
    found, limits = beginning.clip.found, beginning.clip.settings.repair
    count = min(len(found), max(limits.looks, len(found) // limits.frames_per_look))
    spread = (np.arange(count) + 0.5) * len(found) / max(1, count)
    chosen = {found[int(place)] for place in spread}
    bad = np.array([frame for frame in found if doubted(frame)], dtype=np.int64)
    for stretch in np.split(bad, np.flatnonzero(np.diff(bad) > 1) + 1):
        if len(stretch):
            chosen.add(int(stretch[len(stretch) // 2]))
    return sorted(chosen)


def searched_again(
    beginning: Beginning, frames: list[int], known: ReadKnown, search: SearchAll | None = None
) -> Iterator[Tracked]:
    """The frames, of some, in which a search finds something better than what is known (energies without the temporal
    terms: a search has no frame before it).

    search: does what `searched_here` does.
    """
    batches = [frames[first : first + AT_ONCE] for first in range(0, len(frames), AT_ONCE)]
    items = ({frame: known(frame) for frame in batch} for batch in batches)
    for found in (search or searched_here)(beginning, items):
        yield from found


def searched_here(
    beginning: Beginning, batches: Iterable[dict[int, KnownFrame | None]]
) -> Generator[list[Tracked], None, None]:
    """Of every batch of frames, by what is known of them, those in which a search finds something better."""
    return on_all_cores(partial(found_better, beginning), batches, beginning.clip.device)


SearchAll = Callable[[Beginning, Iterable[dict[int, KnownFrame | None]]], Iterable[list[Tracked]]]


def found_better(beginning: Beginning, known: dict[int, KnownFrame | None]) -> list[Tracked]:
    """Some frames, by what is known of them, in which a search finds something better."""
    clip, frames, better = beginning.clip, list(known), list[Tracked]()
    # Random numbers of their own: which frames are searched before them, and where, makes no difference.
    generator = torch.Generator().manual_seed(SEED + frames[0])
    for rough in searched_for(beginning, frames, generator, clip.settings.start.starts):
        old = known[rough.frame]
        found = fitted_from(beginning, rough.frame, _turned_to(rough.state, old))
        if found.verdict.status != "lost" and (old is None or _better(beginning, found, old)):
            better.append(outcome(clip, rough.frame, found))
    return better


def _better(beginning: Beginning, found: Candidate, old: KnownFrame) -> bool:
    """Whether what was found lies elsewhere and leaves less light over."""
    state, energy = found.fit.state, float(found.fit.energy - found.fit.terms["temporal"])
    # By vertices: a curve that has slid along the body lies elsewhere, too.
    apart = float((state.points - old.state.points).norm(dim=-1).mean()) * beginning.clip.prepared.scale
    gained = (old.energy - energy) / nat(beginning.clip.settings)
    limits = beginning.clip.settings.repair
    elsewhere = apart > limits.look_apart * float(old.state.sigma.mean())
    return elsewhere and gained > limits.look_gain and old.no_better_than(found.verdict.status)


def _turned_to(state: FrameState, old: KnownFrame | None) -> FrameState:
    """The way round in which it is nearer to what was there: which end is the head, one frame tells badly."""
    if old is None:
        return state
    same, other = ((old.state.points - points).norm(dim=-1).mean() for points in (state.points, state.points.flip(1)))
    return state.reversed() if other < same else state
