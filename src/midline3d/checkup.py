"""What this machine has and lacks: versions, processor, compiled code, GPU; and the line that mends each lack."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Literal

from midline3d.native import REMEDY
from midline3d.processors import gpu_is_faster

Verdict = Literal["fine", "slow", "broken"]
FLAGS = ("neon", "asimd", "sve", "sse2", "avx", "avx2", "fma", "avx512f", "avx512vl", "avx512bw", "avx512dq")
"""Processor features that matter here, by the names that Linux gives them."""


@dataclass(frozen=True)
class Part:
    """One thing that was looked at."""

    name: str
    found: str
    """What there is, or why there is nothing."""
    verdict: Verdict = "fine"
    """slow: midline3d works, and would work faster; broken: it does not."""
    remedy: str = ""
    """The line that would mend it."""


@dataclass(frozen=True)
class Checkup:
    """All that was looked at."""

    parts: tuple[Part, ...]

    @property
    def ok(self) -> bool:
        """Whether there is nothing to mend."""
        return all(part.verdict == "fine" for part in self.parts)

    def as_dict(self) -> dict[str, Any]:
        """All of it, in the types of JSON."""
        return {"ok": self.ok, "parts": [asdict(part) for part in self.parts]}

    def text(self) -> str:
        """All of it, for people: a line for each part, and under it the line that mends it."""
        wide = max(len(part.name) for part in self.parts)
        lines = []
        for part in self.parts:
            mark = "" if part.verdict == "fine" else f"{part.verdict}: "
            lines.append(f"{part.name:<{wide}}  {mark}{part.found}")
            if part.remedy:
                lines.append(f"{'':<{wide}}  mend it: {part.remedy}")
        lines.append("nothing to mend" if self.ok else "see the lines above that mend it")
        return "\n".join(lines)


def doctor() -> Checkup:
    """Looks at everything that decides whether midline3d works here, and how fast."""
    parts = [_package(), _python(), *_dependencies(), _processor()]
    torch_works = any(part.name == "torch" and part.verdict != "broken" for part in parts)
    if torch_works:
        parts += [_compiled("renderer in C", _renderer), _compiled("curves and steps in C", _functions), *_gpu()]
    return Checkup(tuple(parts))


def _package() -> Part:
    import midline3d

    return Part("midline3d", f"{midline3d.__version__}, in {Path(__file__).parent}")


def _python() -> Part:
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return Part("Python", f"{platform.python_version()}, {sys.executable}, on {system}")


def _dependencies() -> Iterator[Part]:
    """Every package that midline3d asks for, and whether it is there in a version that it can be used in."""
    from packaging.requirements import Requirement

    try:
        wanted = [Requirement(text) for text in requires("midline3d") or []]
    except PackageNotFoundError:
        yield Part("packages", "midline3d is not installed, only found on the path", "slow", "pip install .")
        return
    for one in wanted:
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            continue
        asked = f"{one.name}{one.specifier}"
        try:
            found = version(one.name)
        except PackageNotFoundError:
            yield Part(one.name, "missing", "broken", f'pip install "{asked}"')
            continue
        if one.specifier.contains(found, prereleases=True):
            yield Part(one.name, found)
        else:
            yield Part(one.name, f"{found}, but {one.specifier} is needed", "broken", f'pip install "{asked}"')


def _processor() -> Part:
    name, flags = platform.processor() or platform.machine(), set[str]()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    if model := re.search(r"^model name\s*:\s*(.+)$", text, re.M):
        name = model[1]
    if listed := re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.M):
        flags = set(listed[1].split())
    known = ", ".join(flag for flag in FLAGS if flag in flags)
    return Part("processor", f"{name}, {os.cpu_count()} cores" + (f", {known}" if known else ""))


def _compiled(name: str, versions: Callable[[], list[str]]) -> Part:
    try:
        found = versions()
    except OSError as reason:
        return Part(name, f"not in use, many times slower: {reason}", "slow", REMEDY)
    others = f" (it also has {', '.join(found[:-1])})" if found[1:] else ""
    return Part(name, f"in use, by {found[-1]}{others}")


def _renderer() -> list[str]:
    from midline3d.rendering import cpu

    return cpu.versions()


def _functions() -> list[str]:
    from midline3d.kernels import cpu

    return cpu.versions()


def _gpu() -> list[Part]:
    import torch

    if torch.cuda.is_available():
        names = {torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())}
        text = f"{torch.cuda.device_count()} x {', '.join(sorted(names))}, CUDA {torch.version.cuda}"
        use = "in use" if gpu_is_faster() else "there, and taken by --device cuda; this machine's cores are faster"
        return [Part("GPU", f"{use}: {text}"), _triton()]
    if not _has_nvidia():
        return [Part("GPU", f"none by NVIDIA here, so that the CPU is taken, by {torch.get_num_threads()} threads")]
    if torch.version.cuda is None:
        reason, remedy = f"torch {torch.__version__} was built without CUDA", "uv pip install --torch-backend=auto "
        return [Part("GPU", f"there, but not in use: {reason}", "slow", remedy + "--reinstall-package torch torch")]
    reason = f"torch was built for CUDA {torch.version.cuda}, but finds no GPU that it can use"
    return [Part("GPU", f"there, but not in use: {reason}", "slow", "nvidia-smi    # says what the driver is about")]


def _triton() -> Part:
    try:
        import triton
    except ImportError as reason:
        if platform.system() != "Linux":
            return Part("GPU kernels", "not in use, slower: Triton is for Linux alone")
        return Part("GPU kernels", f"not in use, slower: {reason}", "slow", 'pip install "triton>=3.0"')
    return Part("GPU kernels", f"in use, by Triton {triton.__version__}")


def _has_nvidia() -> bool:
    """Whether the machine has a GPU by NVIDIA, whatever torch says."""
    return shutil.which("nvidia-smi") is not None or Path("/proc/driver/nvidia/version").exists()
