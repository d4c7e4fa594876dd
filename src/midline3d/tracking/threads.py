"""Batches of frames on all cores of this process, each in a thread: their time goes by in compiled code, outside
Python's own lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from contextlib import closing, contextmanager
from typing import TypeVar

import torch

from midline3d.processors import cores
from midline3d.recording.sources.threads import THREADS, in_order

Item = TypeVar("Item")
Made = TypeVar("Made")
FEW = 4
"""Threads that a batch of frames pays for: more of them wait for each other. On 16 cores a beginning took 13.6 s by
one, 9.4 by two, 8.8 by four, 9.6 by eight and more by sixteen."""


@contextmanager
def few_threads() -> Iterator[None]:
    """Meanwhile torch, and what is compiled, share a batch between `FEW` threads at most."""
    threads = torch.get_num_threads()
    torch.set_num_threads(min(threads, FEW))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def on_all_cores(
    work: Callable[[Item], Made], items: Iterable[Item], device: torch.device | None = None
) -> Generator[Made, None, None]:
    """What `work` makes of each item, in order, some items ahead of who takes it; items come from the caller's thread.

    Each is worked on by one core alone; where there are known to be fewer items than cores, by its share of them. On
    another device than the CPU one item follows the other, for it is busy with each; and within `work`, where threads
    that wait for each other's would wait for ever.
    """
    elsewhere = device is not None and device.type != "cpu"
    if elsewhere or threading.current_thread().name.startswith(THREADS):
        for item in items:
            yield work(item)
        return

    share = max(1, cores() // max(1, len(items))) if isinstance(items, Sized) else 1

    def alone(item: Item) -> Made:
        torch.set_num_threads(share)
        return work(item)

    threads = torch.get_num_threads()
    try:
        with closing(in_order(alone, items, 2 * cores())) as made:
            yield from made
    finally:
        torch.set_num_threads(threads)
