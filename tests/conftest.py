"""Every shape that the core declares is checked while the tests run."""

import os

import torch
from jaxtyping import install_import_hook

# As many as there are cores, divided among the processes that run tests side by side.
THREADS = max(1, 2 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
torch.set_num_threads(THREADS)
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # of the processes that tests start
    os.environ.setdefault(name, str(THREADS))
# The core alone: modules at the rim are handed wrong things on purpose, and have to say so themselves.
CORE = ["curve", "cameras", "rendering", "appearance", "state", "scoring", "losses", "kernels", "fitting"]
install_import_hook([f"midline3d.{name}" for name in CORE], "beartype.beartype")
