"""Every shape that the core declares is checked while the tests run."""

import torch
from jaxtyping import install_import_hook

torch.set_num_threads(2)
# The core alone: modules at the rim are handed wrong things on purpose, and have to say so themselves.
CORE = ["curve", "cameras", "rendering", "appearance", "state", "scoring", "losses", "fitting"]
install_import_hook([f"midline3d.{name}" for name in CORE], "beartype.beartype")
