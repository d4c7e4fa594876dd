"""What Triton's interpreter runs, its compiler must take, too."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

# Not importorskip: other tests have yet to choose the interpreter, which Triton asks for once, when it is imported.
pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="there is no wheel of Triton for this system")

KERNELS = {
    *("integrate_curve", "take_step"),
    *("project_view", "optics_view", "taper_view"),
    *("sum_energy", "derive_places", "couple_blobs", "multiply_places"),
    *("render_tile", "residual_tile", "sum_blob", "differentiate_blob", "multiply_blob"),
}


def test_every_kernel_compiles_for_a_gpu() -> None:
    script = Path(__file__).with_name("compile_triton.py")
    made = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-2000:]
    assert set(made.stdout.split()) == KERNELS
