"""Builds the compiled renderer and fitter. Optional: without a C compiler the package installs too, and is slower."""

import sys
from pathlib import Path

from setuptools import Extension, setup

windows = sys.platform == "win32"
# Not -ffast-math: NaN has to come out as NaN, and sums in the order that they are written in.
flags = ["/O2"] if windows else ["-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]

setup(
    ext_modules=[
        Extension(
            "midline3d.rendering._kernel",
            sources=["src/midline3d/rendering/_kernel.c"],
            depends=[str(path) for path in Path("src/midline3d/rendering").glob("*.h")],
            extra_compile_args=flags,
            libraries=[] if windows else ["m"],
            optional=True,
        ),
        Extension(
            "midline3d._chain",
            sources=["src/midline3d/_chain.c"],
            depends=[str(path) for path in Path("src/midline3d").glob("*.h")],
            extra_compile_args=flags,
            libraries=[] if windows else ["m"],
            optional=True,
        ),
    ]
)
