"""Settings of a result that an older version made: it can still be looked at, and what is ignored is said."""

import warnings
from dataclasses import replace
from pathlib import Path

import killing
import pytest

from midline3d.errors import InputError
from midline3d.settings import Settings, dump_settings, load_settings, stored_settings


def test_what_this_version_wrote_comes_back_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert stored_settings(dump_settings(killing.settings()), "a result's settings") == killing.settings()


def test_keys_that_are_gone_are_ignored_with_a_warning() -> None:
    text = dump_settings(Settings()).replace("[curve]", "[curve]\nwobble = 3.0") + "\n[magic]\nwand = 1\n"
    text = text.replace("vertices = 128", "vertices = 64")
    with pytest.warns(UserWarning, match=r"OUT: this version no longer has \[magic\], curve\.wobble; ignored"):
        found = stored_settings(text, "OUT")
    assert found == replace(Settings(), curve=replace(Settings().curve, vertices=64))


def test_a_file_of_the_user_still_refuses_them(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[curve]\nwobble = 3.0\n")
    with pytest.raises(InputError, match=r"unknown key 'curve\.wobble'"):
        load_settings(tmp_path / "mine.toml")


def test_values_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match=r"OUT: 'curve\.vertices' is 'many'"):
        stored_settings('[curve]\nvertices = "many"\n', "OUT")
    with pytest.raises(InputError, match="OUT: are not valid TOML"):
        stored_settings("[curve", "OUT")
