"""The order of docs/architecture.md, and what may be imported where."""

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import midline3d

ROOT = Path(__file__).parents[1]
PACKAGE = Path(midline3d.__file__).parent
ORDER = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.M)
CORE = ("curve", "distortion", "cameras", "rendering", "appearance", "state", "scoring", "losses", "kernels", "fitting")


def imports() -> list[tuple[str, str]]:
    """(module, module of ours that it imports), both by their place in the house."""
    found = []
    for file in PACKAGE.rglob("*.py"):
        own = file.relative_to(PACKAGE).with_suffix("").parts[0]
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [(own, name.split(".")[1]) for name in names if name.startswith("midline3d.")]
    return [(own, other) for own, other in found if own != other and own not in ("__init__", "__main__")]


def files_imported() -> dict[str, set[str]]:
    """Every file of ours by its module's name, and the files that it imports, wherever in it the import stands."""
    files = {file.relative_to(PACKAGE).with_suffix("").parts: file for file in PACKAGE.rglob("*.py")}
    names = {".".join(("midline3d", *parts)).removesuffix(".__init__"): file for parts, file in files.items()}
    graph: dict[str, set[str]] = {}
    for name, file in names.items():
        found: set[str] = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                parts = [f"{node.module}.{alias.name}" for alias in node.names]
                found |= {part if part in names else node.module for part in parts}
        graph[name] = (found & names.keys()) - {name, "midline3d"}
    return graph


def test_no_file_leads_back_to_itself() -> None:
    """Inside folders too, and whether the import stands at the top, in a function or for types alone."""
    graph = files_imported()
    graph.pop("midline3d")  # it looks names up when they are first used
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as circle:
        raise AssertionError(" imports ".join(reversed(circle.args[1]))) from None


def test_every_module_has_its_place() -> None:
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert there - {"__init__", "__main__"} == set(ORDER)


def test_a_module_imports_only_what_stands_above_it() -> None:
    wrong = {(own, other) for own, other in imports() if ORDER.index(other) > ORDER.index(own)}
    assert not wrong


def test_the_simulator_shares_nothing_with_the_renderer() -> None:
    assert not {"rendering", "appearance", "cameras", "curve"} & {other for own, other in imports() if own == "synth"}


def test_files_that_matter_are_written_whole() -> None:
    """Through `files`, but for the lock, the logs, crops, which are counted as far as they are on the disk, and what
    processes ask of each other while they run, which is asked again."""
    plain = re.compile(r"\.write_text\(|\.write_bytes\(|open\([^)]*\"(?:w|a|r\+|x)|json\.dump\(|np\.save\(")
    found = {
        file.relative_to(PACKAGE).as_posix()
        for part in ("store", "tracking", "recording")
        for file in (PACKAGE / part).rglob("*.py")
        if plain.search(file.read_text(encoding="utf-8"))
    }
    assert found <= {"store/lock.py", "store/log.py", "store/edits.py", "recording/crops.py", "tracking/parts.py"}


def python(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_core_needs_torch_and_numpy_alone() -> None:
    """Everything else that we depend on is made impossible to import."""
    python(f"""
import sys
for name in ("scipy", "cv2", "av", "tifffile", "pydantic", "xarray", "matplotlib", "typer", "rich", "jaxtyping"):
    sys.modules[name] = None
import importlib, pkgutil, midline3d
for name in {CORE!r}:
    module = importlib.import_module(f"midline3d.{{name}}")
    for part in pkgutil.iter_modules(getattr(module, "__path__", [])):
        if part.name.startswith("gpu") or part.name.endswith("_triton") or part.name in ("_kernel", "_backend"):
            continue  # Triton, where there is a GPU; the compiled libraries are no Python modules
        importlib.import_module(f"midline3d.{{name}}.{{part.name}}")
""")


def test_kinematics_need_no_torch() -> None:
    """Whoever analyses results need not have what made them."""
    there = python("import sys, midline3d; midline3d.kinematics, midline3d.midlines; print('torch' in sys.modules)")
    assert there.strip() == "False"


def test_importing_the_package_does_nothing_but_define() -> None:
    heavy = python("import sys, midline3d; print([n for n in ('torch', 'numpy', 'typer') if n in sys.modules])")
    assert heavy.strip() == "[]"
    helped = python("import sys, midline3d.cli; print([n for n in ('torch', 'numpy') if n in sys.modules])")
    assert helped.strip() == "[]"


def test_public_names_are_there() -> None:
    for name in midline3d.__all__:
        assert getattr(midline3d, name) is not None, name
    assert set(midline3d.__all__) == set(dir(midline3d))
