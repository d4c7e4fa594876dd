"""Where tasks run: a scheduler that somebody has started, or workers on this machine for as long as it takes."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midline3d.errors import InputError
from midline3d.processors import cores
from midline3d.tracking.workers import usual_workers

if TYPE_CHECKING:
    from distributed import Client

ALLOWED = 1000
"""Workers that may die over a task before it is given up. Three are usual, but on clusters workers are killed as a
matter of course (time limits, preemption), and a task that was killed goes on where it was."""
GPU = {"GPU": 1}
"""What a worker has, and a task on a GPU takes, in dask's words."""
SCHEMES = ("tcp", "tls", "ws", "wss", "ucx")
"""Of addresses, as dask knows them."""
CONNECTING = 15
"""Seconds to wait for the scheduler."""


@dataclass(frozen=True)
class Place:
    """Where to run."""

    scheduler: str | None = None
    """Its address, such as tcp://node7:8786, or the file that it wrote (`dask scheduler --scheduler-file`)."""
    workers: int | None = None
    """On this machine, where there is no scheduler; else as many as suit it."""


@contextmanager
def connected(place: Place, device: str) -> Iterator[Client]:
    """A client of the place's scheduler. device: cpu or cuda, for workers on this machine."""
    _import()
    import dask
    from distributed import Client

    if device == "auto" and place.scheduler is None:
        raise ValueError("on this machine the device has to be known")
    with dask.config.set({"distributed.scheduler.allowed-failures": ALLOWED}), _quiet():
        if place.scheduler is not None:
            with _client(place.scheduler) as client:
                yield client
            return
        with _workers_here(place.workers, device) as cluster, Client(cluster, set_as_default=False) as client:
            yield client


def has_gpus(client: Client) -> bool:
    """Whether a worker says that it has one."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return any(worker.get("resources", {}).get("GPU") for worker in workers)


def _import() -> None:
    try:
        import distributed  # noqa: F401
    except ImportError as fault:
        raise InputError(
            f'dask.distributed is not there ({fault}); pip install "midline3d[cluster]" on every machine'
        ) from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence: that workers come and go is nothing to report, and a command says its own."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    before = {name: logging.getLogger(name).level for name in names}  # some have a level of their own
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


@contextmanager
def _client(scheduler: str) -> Iterator[Client]:
    from distributed import Client

    from midline3d.cluster.crew import allow

    try:
        client = Client(_address(scheduler), timeout=CONNECTING, set_as_default=False)
    except (OSError, ValueError, TypeError, KeyError) as fault:
        text = " ".join(str(fault).split())[:200]
        raise InputError(
            f"--scheduler is '{scheduler}', where none answers ({text}); give the address that `dask scheduler` tells, "
            "such as tcp://node7:8786, or the file that it writes with --scheduler-file"
        ) from None
    with client:
        with suppress(Exception):  # a scheduler may refuse foreign code; killed tasks are then given again from here
            client.run_on_scheduler(allow, failures=ALLOWED)
        yield client


def _address(scheduler: str) -> str:
    """Host and port at least: of other words dask makes a client that cannot be closed, of none a cluster."""
    from distributed.comm.addressing import parse_address, parse_host_port

    if Path(scheduler).is_file():
        scheduler = str(json.loads(Path(scheduler).read_text(encoding="utf-8"))["address"])
    scheme, place = parse_address(scheduler)
    host, port = parse_host_port(place)
    if scheme not in SCHEMES or not host or not 0 < int(port) < 65536:
        raise ValueError("no such address can be")
    return scheduler


@contextmanager
def _workers_here(workers: int | None, device: str) -> Iterator[Any]:
    """Workers on this machine: with a core each, or a GPU each; those that die are replaced."""
    from distributed import Nanny, Scheduler, SpecCluster

    here: dict[str, Any] = {"host": "127.0.0.1", "dashboard": False}
    if device == "cpu":
        count = workers or usual_workers(cores())
        own: list[dict[str, Any]] = [{} for _ in range(count)]
    else:
        import torch

        gpus = range(min(workers or torch.cuda.device_count(), torch.cuda.device_count()))
        own = [{"resources": GPU, "env": {"CUDA_VISIBLE_DEVICES": str(number)}} for number in gpus]
    # No limit: what takes memory is not the worker, but the process that it gives its tasks to.
    usual = here | {"nthreads": 1, "memory_limit": 0, "silence_logs": logging.CRITICAL}
    with SpecCluster(
        workers={number: {"cls": Nanny, "options": usual | more} for number, more in enumerate(own)},
        scheduler={"cls": Scheduler, "options": here},
        silence_logs=logging.CRITICAL,
    ) as cluster:
        yield cluster
