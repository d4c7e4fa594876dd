"""`midline3d doctor`: what it says where all is well, and what where something is missing."""

import json
import platform
import shutil
from importlib.metadata import version as real_version
from pathlib import Path

import pytest
import torch
from test_cli import Command, midline3d  # noqa: F401

from midline3d import checkup
from midline3d.checkup import Checkup, Part, doctor
from midline3d.kernels import cpu as backend
from midline3d.rendering import cpu


def part(found: Checkup, name: str) -> Part:
    return next(part for part in found.parts if part.name == name)


def test_all_that_matters_is_looked_at(midline3d: Command) -> None:  # noqa: F811
    run = midline3d("doctor")
    for reported in (platform.python_version(), torch.__version__.split("+")[0], "processor", "renderer in C", "GPU"):
        assert reported in run.out
    assert run.status == (0 if run.out.splitlines()[-1] == "nothing to mend" else 1)
    content = json.loads(midline3d("doctor", "--json").out)
    assert content["ok"] == (run.status == 0)
    assert {"numpy", "xarray", "torch"} <= {entry["name"] for entry in content["parts"]}


def test_the_compiled_code_is_named_by_its_instruction_set() -> None:
    assert part(doctor(), "renderer in C").found.startswith(f"in use, by {cpu.versions()[-1]}")
    assert part(doctor(), "curves and steps in C").found.startswith(f"in use, by {backend.versions()[-1]}")


def test_what_was_not_built_is_slow_and_has_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(backend, "__file__", str(tmp_path / "cpu.py"))
    found = part(doctor(), "curves and steps in C")
    assert found.verdict == "slow" and "_backend was not built" in found.found and "pip install" in found.remedy
    assert not doctor().ok and "mend it: install a C compiler" in doctor().text()


def test_a_package_that_is_too_old_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    old = {"numpy": "1.20.0"}
    monkeypatch.setattr(checkup, "version", lambda name: old.get(name) or real_version(name))
    found = part(doctor(), "numpy")
    assert found.verdict == "broken" and "1.20.0, but >=" in found.found
    assert found.remedy.startswith('pip install "numpy>=')


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine whose torch sees no GPU")
def test_a_gpu_that_torch_cannot_use_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    found = part(doctor(), "GPU")
    assert found.verdict == "slow" and found.found.startswith("there, but not in use") and found.remedy
