"""Every shape that the core declares is checked while the tests run."""

import os

import torch
from jaxtyping import install_import_hook

# As many as there are cores, divided among the processes that run tests side by side.
torch.set_num_threads(max(1, 2 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))))
# The core alone: modules at the rim are handed wrong things on purpose, and have to say so themselves.
CORE = ["curve", "cameras", "rendering", "appearance", "state", "scoring", "losses", "fitting"]
install_import_hook([f"midline3d.{name}" for name in CORE], "beartype.beartype")
