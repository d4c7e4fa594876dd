"""Every shape that the package declares is checked while the tests run."""

import torch
from jaxtyping import install_import_hook

torch.set_num_threads(2)
install_import_hook("midline3d", "beartype.beartype")
