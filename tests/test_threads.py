"""Batches of frames on all cores: in order, each on a core of its own, and the same whatever the number of cores."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from midline3d.recording.sources import threads as picture_threads
from midline3d.tracking.threads import on_all_cores


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
