"""The compiled libraries: which are loaded, what sanitizers see in them, and what another processor makes of them."""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from native_cases import Case, Maker, decode, encode, impossible, odd, plausible

import midline3d
from midline3d import native
from midline3d.kernels import cpu as backend
from midline3d.rendering import cpu

PACKAGE = Path(midline3d.__file__).parent
ROOT = Path(__file__).parents[1]
SOURCES = {
    "backend": [PACKAGE / "kernels" / f"_backend{which}.c" for which in ("", "_avx2", "_avx512")],
    "kernel": [PACKAGE / "rendering" / "_kernel.c"],
}
EIGHT = "-DPLAIN_LANES=8"
"""Compiles the renderer's code for vectors of eight, which on x86 AVX2 and AVX-512 run, for any processor."""
PLAIN = ["-O2", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
SANITIZED = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# Against the same library on this machine's own processor: both are float32 at the end, and sum in another order.
TOLERANCE = {np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-10}


def build(folder: Path, name: str, compiler: str, flags: list[str]) -> Path:
    """The driver with one of the libraries in it."""
    program = folder / f"{name}{len(list(folder.iterdir()))}"
    command = [compiler, "-std=gnu11", *flags, f"-D{name.upper()}", str(ROOT / "tests" / "native" / "driver.c")]
    command += [*map(str, SOURCES[name]), "-lm", "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def run(
    program: Sequence[object], cases: Sequence[Case], folder: Path, most: int = -1, leaks: bool = False
) -> list[tuple[int, dict]]:
    """The cases' results; what a sanitizer has to say is the failure's message."""
    encode(cases, folder / "cases", most)
    options = {"ASAN_OPTIONS": f"detect_leaks={int(leaks)}", "UBSAN_OPTIONS": "print_stacktrace=1"}
    command = [*map(str, program), str(folder / "cases"), str(folder / "results")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **options})
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("case ")]
        case = cases[int(said[-1].split()[1])]
        reported = "\n".join(line for line in done.stderr.splitlines() if not line.startswith("case "))
        pytest.fail(f"{case.name} {case.sizes} doubles={case.doubles} most={most}:\n{reported[:4000]}")
    return decode(cases, folder / "results")


def needs(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}")


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    needs("gcc")
    folder = tmp_path_factory.mktemp("sanitized")
    (folder / "try.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")
    command = ["gcc", *SANITIZED, str(folder / "try.c"), "-o", str(folder / "try")]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this compiler brings no sanitizers")
    made = {name: build(folder, name, "gcc", SANITIZED) for name in SOURCES}
    return {**made, "kernel of eight": build(folder, "kernel", "gcc", [*SANITIZED, EIGHT])}


@pytest.mark.parametrize("seed", range(3))
def test_odd_calls_stay_within_bounds(seed: int, sanitized: dict[str, Path], tmp_path: Path) -> None:
    """AddressSanitizer and UBSan over every entry point; seed 0 has odd sizes alone, the others odd numbers too."""
    calls, scenes = odd(Maker(seed, odd=0.1 * seed), 60)
    for most in range(len(backend.versions())):
        # Looking for leaks takes seconds, and all seeds take the same ways out.
        for status, _ in run([sanitized["backend"]], calls, tmp_path, most, leaks=seed == 2):
            assert status in (0, backend.NO_SUCH_SIZE, backend.NO_SUCH_VERTEX)
    for most in range(len(cpu.versions())):
        assert {status for status, _ in run([sanitized["kernel"]], scenes, tmp_path, most)} == {0}
    assert {status for status, _ in run([sanitized["kernel of eight"]], scenes, tmp_path, 0)} == {0}


def test_impossible_sizes_are_refused(sanitized: dict[str, Path], tmp_path: Path) -> None:
    calls, scenes = impossible()
    assert {status for status, _ in run([sanitized["backend"]], calls, tmp_path)} == {backend.NO_SUCH_SIZE}
    assert {status for status, _ in run([sanitized["kernel"]], scenes, tmp_path)} == {-1}


def test_start_vertices_outside_the_curve_are_refused(sanitized: dict[str, Path], tmp_path: Path) -> None:
    sizes = {"batch": 1, "vertices": 5, "cameras": 1, "axes": 0, "nodes": 0, "loose": 0, "own": 0}
    cases = [Maker(0, odd=0).call("integrate", sizes) for _ in range(4)]
    for case, wrong in zip(cases, (5, -6, 2**40, -(2**62)), strict=True):
        case.arrays["start"][:] = wrong
    assert {status for status, _ in run([sanitized["backend"]], cases, tmp_path)} == {backend.NO_SUCH_VERTEX}


def test_images_without_a_pixel_give_nothing(sanitized: dict[str, Path], tmp_path: Path) -> None:
    sizes = {"views": 2, "vertices": 3}
    shapes = [{"height": height, "width": width} for height, width in ((0, 0), (0, 7), (7, 0))]
    cases = [Maker(1, odd=0).scene("products", {**sizes, **shape}, False) for shape in shapes]
    for _, filled in run([sanitized["kernel"]], cases, tmp_path):
        assert all(not array.any() for array in filled.values())


def assert_same(cases: Sequence[Case], found: list, expected: list) -> None:
    for case, (status, filled), (_, right) in zip(cases, found, expected, strict=True):
        assert status == 0
        for field, array in filled.items():
            if array.dtype == np.int32:  # two blobs may be equal but for rounding
                assert (array != right[field]).mean() < 0.01, (case.name, case.sizes, field)
                continue
            size = max(1e-3, float(np.abs(right[field]).max(initial=0)))
            error = float(np.abs(array - right[field]).max(initial=0)) / size
            assert error < TOLERANCE[array.dtype], f"{case.name} {case.sizes} {field}: {error:.1e}"


@pytest.mark.parametrize("name", list(SOURCES))
def test_x86_agrees_with_this_processor(name: str, tmp_path: Path) -> None:
    """SSE2 alone, and the most that the emulator has (AVX2 from its version 7.2 on)."""
    needs("gcc", "x86_64-linux-gnu-gcc", "qemu-x86_64")
    cases = dict(zip(SOURCES, plausible(Maker(5, odd=0)), strict=True))[name]
    here = run([build(tmp_path, name, "gcc", PLAIN)], cases, tmp_path)
    there = build(tmp_path, name, "x86_64-linux-gnu-gcc", PLAIN)
    for processor in ("qemu64", "max"):
        emulator = ["qemu-x86_64", "-L", "/usr/x86_64-linux-gnu", "-cpu", processor]
        assert_same(cases, run([*emulator, there], cases, tmp_path), here)


def test_a_library_with_other_records_is_not_called() -> None:
    """The same size, two addresses exchanged: a comparison of sizes would not see it."""
    fields = list(backend.RECORDS["solve"]._fields_)
    fields[2], fields[3] = fields[3], fields[2]
    other = type("Record", (ctypes.Structure,), {"_fields_": fields})
    records = [*list(backend.RECORDS.values())[:-1], other]
    with pytest.raises(OSError, match=r"another version of midline3d: record 7 differs in .*hessian.*gradient"):
        native.open_library(PACKAGE / "kernels", "_backend", records)
    with pytest.raises(OSError, match="more records"):
        native.open_library(PACKAGE / "kernels", "_backend", list(backend.RECORDS.values())[:-1])
    with pytest.raises(OSError, match="was not built"):
        native.open_library(PACKAGE / "kernels", "_nothing", [])


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    suffix = ".pyd" if sys.platform == "win32" else ".abi3.so"
    (tmp_path / f"_backend{suffix}").write_bytes(b"not a library")
    with pytest.raises(OSError, match="cannot be loaded"):
        native.open_library(tmp_path, "_backend", [])
