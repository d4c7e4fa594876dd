"""The examples run as they stand, of a shorter recording."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs(example: Path, tmp_path: Path) -> None:
    text = example.read_text(encoding="utf-8")
    # The report has tests of its own, as lengths that are tried do, and every frame and figure costs.
    shorter = text
    for whole, less in (
        ("FRAMES = 120", "FRAMES = 10"),
        ("print(midline3d.write_report(out))", ""),
        ('"frames": 6}', '"frames": 6, "stretch": 0.0}'),
    ):
        assert whole in shorter
        shorter = shorter.replace(whole, less)
    (tmp_path / "example.py").write_text(shorter, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "swimming" / "swimming.png").stat().st_size > 20_000
    assert "midline 0." in run.stdout and "forward_speed" in run.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_it_is_in_cells(example: Path) -> None:
    """Every cell says what it is for, and every line belongs to one."""
    lines = example.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# %% [markdown]" and lines.count("# %%") + 1 >= lines.count("# %% [markdown]") >= 3
