"""What the README promises is there."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from midline3d.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_make_commands() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    named = set(re.findall(r"^    make (\w+)", README, re.M))
    assert {"demo", "test"} <= named <= targets


def test_commands_and_their_options() -> None:
    commands = {command.name or command.callback.__name__: command.callback for command in app.registered_commands}
    commands |= {group.name: group.callback for group in app.registered_groups}
    assert set(re.findall(r"midline3d ([a-z-]+) ?", "\n".join(re.findall(r"`midline3d .*`", README)))) == set(commands)
    assert set(re.findall(r"^\| `midline3d ([a-z-]+)", README, re.M)) == set(commands)


def test_linked_files_exist() -> None:
    for document in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            # Pages of the reference are made when the site is built.
            made = target.removeprefix("docs/").startswith("reference/")
            assert made or (document.parent / target).exists(), f"{document.name} points to {target}"


def test_the_picture_is_small() -> None:
    picture = ROOT / "docs" / "images" / "demo.png"
    assert 20_000 < picture.stat().st_size < 400_000


def test_the_recording_in_the_readme_is_one(tmp_path: Path) -> None:
    from midline3d.recording.description import load_description

    (tmp_path / "recording.toml").write_text(re.findall(r"```toml\n(.*?)```", README, re.S)[0], encoding="utf-8")
    _, description = load_description(tmp_path)
    assert [camera.source for camera in description.cameras] == ["cam0.avi", "cam1.avi", "cam2.avi"]


def test_the_oldest_versions_are_those_that_are_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8")
    tested = dict(line.split("==") for line in text.splitlines() if "==" in line)
    for needed in map(Requirement, project["dependencies"]):
        (least,) = needed.specifier
        assert least.operator == ">=" and needed.specifier.contains(tested[needed.name])
        assert tested[needed.name].startswith(least.version), f"{needed} is tested with {tested[needed.name]}"
    assert f"\nversion: {project['version']}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
