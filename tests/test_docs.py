"""The documents: pages that are made of the code tell all of it, and every page has its place on the site."""

import dataclasses
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

import midline3d
from midline3d.cli.command import COMMANDS
from midline3d.settings import Settings

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "site"))
import reference  # noqa: E402

NOTED = (
    *("curve", "cameras", "appearance", "losses", "scoring", "state", "rendering", "rendering.reference", "kernels"),
    *("fitting.pins", "fitting.uncertainty", "fitting.views", "fitting.body", "tracking.clip", "tracking.veil"),
)
"""Modules whose names docs/notation.md uses."""
NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_every_page_has_its_place() -> None:
    listed = set(re.findall(r": ([\w/-]+\.md)$", NAVIGATION, re.M))
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert listed == there | {f"reference/{name}.md" for name in ("commands", "settings", "python")}


def test_anchors_in_links_exist() -> None:
    """As Markdown makes them of headings."""

    def anchors(page: Path) -> set[str]:
        heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
        return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", head.lower()).strip()) for head in heads}

    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for name, anchor in re.findall(r"\]\(([\w./-]*\.md)?#([\w-]+)\)", page.read_text(encoding="utf-8")):
            target = page.parent / name if name else page
            if "reference/" not in name:
                assert anchor in anchors(target), f"{page.name} points to {name}#{anchor}"


def test_commands_are_told_by_their_own_help() -> None:
    page = reference.commands()
    for name in COMMANDS:
        assert f"## `midline3d {name}`" in page
    for option in ("`--frames`", "`--without-suspect`", "`--px-per-mm`", "`--to`", "`RECORDING...`"):
        assert option in page
    assert "midline3d cluster slurm-script" in page and "None" not in page


def test_every_setting_has_its_default_and_range() -> None:
    page = reference.settings_page()
    for section in dataclasses.fields(Settings):
        assert f"## [{section.name}]" in page
        for item in dataclasses.fields(getattr(Settings(), section.name)):
            assert f"| `{item.name}` | " in page, item.name
    assert "| `vertices` | `128` | 8 | 2048 | N" in page


def test_every_public_name_is_documented() -> None:
    page = reference.python_page()
    for name in midline3d.__all__:
        if name not in ("__version__", "kinematics", "midlines"):
            assert f"### midline3d.{name}\n" in page, name
    assert "### midline3d.kinematics.of\n" in page and "```pycon\n>>> import midline3d" in page
    assert "- `seed`: of everything random." in page


def test_the_notation_names_what_is_there() -> None:
    """Every name with a dot: of a setting, of something in a module, or of a record's field."""
    page = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
    modules = {name: import_module(f"midline3d.{name}") for name in NOTED}

    def has(thing: object, names: list[str]) -> bool:
        if not names:
            return True
        known = {**getattr(thing, "__annotations__", {}), **getattr(thing, "__dataclass_fields__", {})}
        return (hasattr(thing, names[0]) or names[0] in known) and has(getattr(thing, names[0], None), names[1:])

    for name in set(re.findall(r"`([A-Za-z_]\w*(?:\.\w+)+)`", page)) - {"recording.crop"}:
        first, *rest = name.split(".")
        if first == "settings":
            assert has(Settings(), rest), name
        else:
            homes = [module for path, module in modules.items() if path.split(".")[-1] == first]
            owners = [getattr(module, first) for module in modules.values() if hasattr(module, first)]
            packages = [modules[name]] if name in modules else []
            assert packages or any(has(thing, rest) for thing in homes + owners), name


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("material")
    commands = pytest.importorskip("mkdocs.commands.build")
    config = pytest.importorskip("mkdocs.config").load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path))
    commands.build(config)
    page = (tmp_path / "tutorial.html").read_text(encoding="utf-8")
    assert "From files to figures in ten minutes" in page and "fonts.googleapis" not in page
    assert (tmp_path / "reference" / "commands.html").exists()
