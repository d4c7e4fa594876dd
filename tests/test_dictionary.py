"""The data dictionary says what the files say, and is the page that the code makes."""

from pathlib import Path

from test_export import made

from midline3d import dictionary, open_result

PAGE = Path(__file__).parents[1] / "docs" / "data-dictionary.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == dictionary.text(), (
        "python -m midline3d.dictionary > docs/data-dictionary.md"
    )


def test_everything_in_a_result_is_in_it(tmp_path: Path) -> None:
    result, page = open_result(made(tmp_path / "out")), PAGE.read_text(encoding="utf-8")
    for name, variable in result.variables.items():
        assert variable.attrs["units"] and variable.attrs["long_name"], name
        assert f"`{name}`" in page, name
    for name in result.attrs:
        assert name in dictionary.ATTRIBUTES, name
