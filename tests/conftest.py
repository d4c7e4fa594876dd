"""Every shape that the core declares is checked while the tests run; a result that several files look at."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Before torch is loaded, as the command does: threads that wait for each other sleep.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest
import torch
from jaxtyping import config, install_import_hook

# As many as there are cores, divided among the processes that run tests side by side.
THREADS = max(1, 2 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
torch.set_num_threads(THREADS)
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # of the processes that tests start
    os.environ.setdefault(name, str(THREADS))
# The core alone: modules at the rim are handed wrong things on purpose, and have to say so themselves.
CORE = ["curve", "cameras", "rendering", "appearance", "state", "scoring", "losses", "kernels", "fitting"]
install_import_hook([f"midline3d.{name}" for name in CORE], "beartype.beartype")
WHOLE_RUNS = {
    f"test_{name}"
    for name in [
        "api",
        "cli",
        "cli_products",
        "clips",
        "cluster",
        "examples",
        "movie",
        "population",
        "presets",
        "reconstruct",
        "refine",
        "report",
        "resume",
        "rivals",
        "second_look",
        "several",
        "viewer",
        "viewer_page",
    ]
}
"""Files that reconstruct whole recordings, as test_tracking does with every shape checked: they do without, which takes
a sixth off their time."""


@pytest.fixture(scope="module", autouse=True)
def checked_shapes(request: pytest.FixtureRequest) -> Iterator[None]:
    config.update("jaxtyping_disable", request.module.__name__ in WHOLE_RUNS)
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def worm_result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small result with frames that are ok, suspect, lost and unreadable, its recording `worm` beside it; only to be
    read. Made once, by whichever process comes first."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "worm-result"
    with _one_at_a_time(folder.with_suffix(".lock")):
        if not (folder / "out" / "midline.nc").exists():
            import killing

            from midline3d.tracking.reconstruct import Job, reconstruct

            killing.simulated(folder / "worm")
            reconstruct(Job(folder / "worm", folder / "out", killing.settings()), lambda *_: None)
    return folder / "out"


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        except ImportError:  # Windows, where tests run in one process
            pass
        yield
