"""Builds the compiled renderer and fitter: plain C without a Python symbol, so that one wheel serves all of Python 3.

Where it cannot be built (no C compiler) the package installs too, and is slower; MIDLINE3D_REQUIRE_COMPILED=1 makes
that an error, for those who build wheels for others. On Windows clang-cl is taken where it is found: under Microsoft's
own compiler the vectors are off.
"""

import os
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

WINDOWS = sys.platform == "win32"
CLANG = shutil.which("clang-cl") if WINDOWS else None
REQUIRED = os.environ.get("MIDLINE3D_REQUIRE_COMPILED", "") not in ("", "0")
# Not -ffast-math: NaN has to come out as NaN, and sums in the order that they are written in.
EXACT = ["-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
FLAGS = ["/O2", *(f"/clang:{flag}" for flag in EXACT if CLANG)] if WINDOWS else ["-O3", *EXACT]
PACKAGE = Path("src/midline3d")


class BuildLibraries(build_ext):
    """setuptools' own, but for the compiler on Windows."""

    def build_extensions(self) -> None:
        if CLANG and self.compiler.compiler_type == "msvc":
            self.compiler.initialize()
            self.compiler.cc = CLANG
        super().build_extensions()


def library(name: str, *sources: str) -> Extension:
    """One compiled library; its headers are found beside its sources."""
    return Extension(
        f"midline3d.{name}",
        sources=[str(PACKAGE / source) for source in sources],
        depends=sorted(map(str, PACKAGE.rglob("*.h"))),
        extra_compile_args=FLAGS,
        libraries=[] if WINDOWS else ["m"],
        optional=not REQUIRED,
        py_limited_api=True,
    )


setup(
    ext_modules=[
        library("rendering._kernel", "rendering/_kernel.c"),
        library(
            "kernels._backend",
            *(f"kernels/{name}.c" for name in ("_backend", "_backend_avx2", "_backend_avx512")),
        ),
    ],
    cmdclass={"build_ext": BuildLibraries},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
