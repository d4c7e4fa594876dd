"""Pictures decoded and worked on in threads: ahead of who wants them, all cameras together, on all cores."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from midline3d.processors import cores
from midline3d.recording.sources.source import Picture, Source

THREADS = "midline3d-pictures"
"""How the names of the threads begin that work on pictures."""
Item = TypeVar("Item")
Made = TypeVar("Made")


def ahead(items: Iterator[Item], depth: int) -> Generator[Item, None, None]:
    """The same items, made by a thread that works up to `depth` of them ahead."""
    done = object()
    waiting: queue.Queue[Any] = queue.Queue(maxsize=max(1, depth))
    stopped = threading.Event()

    def offer(item: object) -> bool:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not offer(item):
                    break
            else:
                offer(done)
        except BaseException as fault:
            offer(fault)
        finally:
            if hasattr(items, "close"):
                items.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while (got := waiting.get()) is not done:
            if isinstance(got, BaseException):
                raise got
            yield got
    finally:
        stopped.set()
        thread.join()


def synchronised(
    sources: Sequence[Source], offsets: Sequence[int], start: int, stop: int, depth: int = 4
) -> Iterator[tuple[int, list[Picture | None]]]:
    """Frames start to stop of all cameras together, each decoded ahead in a thread of its own."""
    streams = [
        ahead(source.frames(start + offset, stop + offset), depth)
        for source, offset in zip(sources, offsets, strict=True)
    ]
    try:
        for frame in range(start, stop):
            yield frame, [next(stream, (0, None))[1] for stream in streams]
    finally:
        for stream in streams:
            stream.close()


def side_by_side(work: Callable[[Item], Made], items: Iterable[Item]) -> list[Made]:
    """What `work` makes of each item, in order, on all cores: pictures are worked on outside Python's own lock.

    Within `work` it goes one item after the other: threads that wait for each other's would wait for ever.
    """
    if threading.current_thread().name.startswith(THREADS):
        return [work(item) for item in items]
    return list(_threads().map(work, items))


def in_order(work: Callable[[Item], Made], items: Iterable[Item], depth: int) -> Generator[Made, None, None]:
    """What `work` makes of each item, in order, up to `depth` of them worked on at once."""
    waiting: deque[Future[Made]] = deque()
    try:
        for item in items:
            waiting.append(_threads().submit(work, item))
            if len(waiting) >= depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for left in waiting:
            left.cancel()


@contextmanager
def one_thread_a_picture() -> Iterator[None]:
    """Meanwhile OpenCV works on a picture in the thread that asks for it, and starts none of its own.

    Several pictures are worked on at once anyway. Threads of its own, one for every core, wait for work by turning in
    circles, and keep the cores from those that have some.
    """
    import cv2

    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(threads)


def _threads() -> ThreadPoolExecutor:
    return _pool(cores())


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix=THREADS)


def decoding_threads(cameras: int) -> int:
    """Threads for one camera's decoder, so that all of them fill the machine and do not fight."""
    return max(1, cores() // max(1, cameras))
