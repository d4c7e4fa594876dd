"""Every setting has a reason and a range, and what is out of range is answered by one sentence."""

import ast
import dataclasses
import typing
from pathlib import Path
from typing import Any

import pytest

import midline3d.settings
from midline3d.errors import InputError
from midline3d.settings import NAMED, Settings, dump_settings, load_settings
from midline3d.settings.ranges import Range

SECTIONS = {item.name: type(getattr(Settings(), item.name)) for item in dataclasses.fields(Settings)}
ALL = [(section, item.name) for section, kind in SECTIONS.items() for item in dataclasses.fields(kind)]
NUMBERS = [
    (section, name) for section, name in ALL if not isinstance(getattr(getattr(Settings(), section), name), bool | str)
]


def reasons() -> dict[str, dict[str, str]]:
    """What stands below every field in the source, by record and field."""
    found: dict[str, dict[str, str]] = {}
    for file in Path(midline3d.settings.__file__).parent.glob("*.py"):
        for record in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(record, ast.ClassDef):
                fields = found[record.name] = {}
                for field, below in zip(record.body, record.body[1:], strict=False):
                    said = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
                    if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and said:
                        fields[field.target.id] = str(below.value.value)
    return found


REASONS = reasons()


def range_of(section: str, name: str) -> Range:
    hint = typing.get_type_hints(SECTIONS[section], include_extras=True)[name]
    return next(part for part in typing.get_args(hint)[1:] if isinstance(part, Range))


def refused(path: Path, section: str, name: str, value: Any) -> str:
    path.write_text(f"[{section}]\n{name} = {value}\n", encoding="utf-8")
    with pytest.raises(InputError) as fault:
        load_settings(path)
    return str(fault.value)


@pytest.mark.parametrize(("section", "name"), ALL)
def test_a_setting_says_what_it_is_and_why(section: str, name: str) -> None:
    said = REASONS[SECTIONS[section].__name__].get(name, "")
    assert len(said.split()) >= 5, f"{section}.{name} says only {said!r}"


@pytest.mark.parametrize(("section", "name"), NUMBERS)
def test_a_number_has_a_range_and_both_sides_of_it_are_refused(tmp_path: Path, section: str, name: str) -> None:
    default, allowed = getattr(getattr(Settings(), section), name), range_of(section, name)
    for value in default if isinstance(default, tuple) else (default,):
        assert allowed.low <= value <= allowed.high
    for wrong in (allowed.low - 1, allowed.high * 2 + 1):
        number = int(wrong) if isinstance(default, int) else float(wrong)
        said = refused(
            tmp_path / "s.toml", section, name, [number, number + 1] if isinstance(default, tuple) else number
        )
        assert f"'{section}.{name}' is " in said and "is possible; correct it" in said and "\n" not in said


@pytest.mark.parametrize(("section", "name"), [each for each in ALL if each not in NUMBERS])
def test_a_choice_refuses_what_it_does_not_know(tmp_path: Path, section: str, name: str) -> None:
    said = refused(tmp_path / "s.toml", section, name, '"perhaps"')
    assert f"'{section}.{name}' is 'perhaps', but " in said and "\n" not in said


def test_settings_come_back_as_they_were_written(tmp_path: Path) -> None:
    for settings in (Settings(), *map(load_settings, NAMED)):
        (tmp_path / "s.toml").write_text(dump_settings(settings), encoding="utf-8")
        assert load_settings(tmp_path / "s.toml") == settings


@pytest.mark.parametrize("name", NAMED)
def test_a_named_file_says_why_it_differs(name: str) -> None:
    """It has comments enough for a reader, and every section is one of ours (else it would not load)."""
    assert load_settings(name) != Settings()
    assert NAMED[name].read_text(encoding="utf-8").count("#") > 20
