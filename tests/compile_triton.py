"""Compiles every Triton kernel for a GPU that need not be there: `python tests/compile_triton.py`.

Triton's interpreter runs what its compiler refuses (a name that has another type in each branch, say). So the tests'
own calls are made once more with each launch replaced by a compilation, whose code nobody runs: what those tests then
say of the values counts for nothing. The kernels' names go to standard output, a line each.
"""

import os
from contextlib import suppress

os.environ["TRITON_INTERPRET"] = "0"  # read once, when Triton is imported
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # everywhere the same, with a GPU and without

import test_kernels
import test_rendering_gpu
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction, mangle_type

HOPPER = GPUTarget("cuda", 90, 32)
compiled: set[str] = set()


def compile_instead(kernel: JITFunction, *args: object, grid: object, warmup: bool, **options: object) -> None:
    """Stands in for a launch."""
    name = kernel.fn.__name__
    if name in compiled:
        return
    values = dict(zip(kernel.arg_names, args, strict=False)) | options
    constants = {p.name: values[p.name] for p in kernel.params if p.is_constexpr or values[p.name] is None}
    types = {key: "constexpr" if key in constants else mangle_type(values[key]) for key in kernel.arg_names}
    triton.compile(ASTSource(kernel, types, constants), HOPPER)
    compiled.add(name)
    print(name, flush=True)


JITFunction.run = compile_instead
by_triton = test_kernels.CANDIDATES["Triton"]
sizes = (by_triton, 1, 5, 3, 5)
calls = [
    (test_kernels.test_integrate, ("waves", *sizes)),
    (test_kernels.test_project, (False, 1.0, *sizes)),
    (test_kernels.test_optics, (False, *sizes)),
    (test_kernels.test_looks, (True, *sizes)),
    (test_kernels.test_energies, ("waves", *sizes)),
    (test_kernels.test_normal_equations, ("waves", False, 1.0, *sizes)),
    (test_kernels.test_steps, ("waves", 0.02, *sizes)),
    (test_rendering_gpu.test_forward_and_backward_agree_with_the_reference, (torch.float32, {})),
    (test_rendering_gpu.test_gradients_flow_through_the_operator, ()),
    (
        test_rendering_gpu.test_products_agree_with_the_reference,
        (torch.float32, test_rendering_gpu.Objective(0.004), {}),
    ),
]
for call, arguments in calls:
    with suppress(AssertionError, RuntimeError):  # of values that nobody computed
        call(*arguments)
