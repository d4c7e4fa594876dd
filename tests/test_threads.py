"""Batches of frames on all cores: in order, each on a core of its own, and the same whatever the number of cores."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest
import torch

from midline3d.processors import cores, use_cores
from midline3d.recording.sources import threads as picture_threads
from midline3d.tracking.threads import FEW, few_threads, on_all_cores
from midline3d.tracking.workers import Crew, side_by_side


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many threads as there were four cores, whatever this machine has."""
    pool = ThreadPoolExecutor(4, thread_name_prefix=picture_threads.THREADS)
    monkeypatch.setattr(picture_threads, "_threads", lambda: pool)
    monkeypatch.setattr("midline3d.tracking.threads.cores", lambda: 4)


def test_what_is_made_comes_in_order_and_each_by_one_core(four_cores: None) -> None:
    before, here = torch.get_num_threads(), threading.get_ident()
    asked: list[int] = []

    def items() -> list[int]:
        asked.append(threading.get_ident())
        return list(range(12))

    def work(item: int) -> tuple[int, int, int]:
        time.sleep(0.01 * (item % 3 == 0))  # the first of three is done last
        return item, torch.get_num_threads(), threading.get_ident()

    made = list(on_all_cores(work, items()))
    assert [item for item, _, _ in made] == list(range(12))
    assert {number for _, number, _ in made} == {1}
    assert here not in {thread for _, _, thread in made} and asked == [here]
    assert torch.get_num_threads() == before


def test_a_device_of_its_own_takes_one_after_the_other(four_cores: None) -> None:
    there = list(on_all_cores(lambda _: threading.get_ident(), range(3), torch.device("cuda")))
    assert there == 3 * [threading.get_ident()]


def test_a_fault_is_the_callers_and_leaving_early_leaves_torch_as_it_was(four_cores: None) -> None:
    before = torch.get_num_threads()

    def work(item: int) -> int:
        if item == 5:
            raise ValueError("the sixth is bad")
        return item

    with pytest.raises(ValueError, match="the sixth is bad"):
        list(on_all_cores(work, range(9)))
    some = on_all_cores(work, range(4))
    assert next(some) == 0
    some.close()
    assert torch.get_num_threads() == before


def test_work_may_ask_for_all_cores_itself(four_cores: None) -> None:
    sums = on_all_cores(lambda start: sum(on_all_cores(lambda more: start + more, range(3))), range(40))
    assert list(sums) == [3 * start + 3 for start in range(40)]


def test_few_items_share_all_cores(four_cores: None) -> None:
    assert list(on_all_cores(lambda _: torch.get_num_threads(), (1, -1))) == [2, 2]
    assert list(on_all_cores(lambda _: torch.get_num_threads(), iter((1, -1)))) == [1, 1]


def test_a_batch_is_shared_between_few_threads_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = [16]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[-1])
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    with few_threads():
        assert threads[-1] == FEW
    assert threads[-1] == 16
    threads.append(1)
    with few_threads():
        assert threads[-1] == 1


def test_a_process_uses_as_many_cores_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    use_cores(1)
    assert cores() == 1 and told == [1]


class _Willing:
    """Takes any task, and remembers it."""

    asked: ClassVar[list[dict[str, Any]]] = []

    def given(self, content: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self.asked.append(content)
        yield {"ended": True}

    def end(self) -> None: ...


@pytest.mark.parametrize(("workers", "tasks", "share"), [(16, 2, 8), (16, 40, 1), (4, 5, 4), (1, 3, 16)])
def test_processes_share_the_cores_by_how_many_have_something_to_do(
    monkeypatch: pytest.MonkeyPatch, workers: int, tasks: int, share: int
) -> None:
    monkeypatch.setattr("midline3d.tracking.workers.cores", lambda: 16)
    monkeypatch.setattr("midline3d.tracking.workers.Child", lambda *_: _Willing())
    monkeypatch.setattr(_Willing, "asked", [])
    events = list(side_by_side([{"clip": number} for number in range(tasks)], Crew(workers, [])))
    assert sorted(event.task for event in events) == list(range(tasks))
    assert [content["cores"] for content in _Willing.asked] == [share] * tasks
