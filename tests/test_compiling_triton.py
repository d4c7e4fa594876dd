"""What Triton's interpreter runs, its compiler must take, too."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed: there is no wheel of it for this system")

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
