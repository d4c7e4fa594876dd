"""Places that take no files: said in one sentence, before anything is computed, by every command that writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small import read_only
from test_cli import clean, midline3d, refused  # noqa: F401

from midline3d import files
from midline3d.errors import InputError

LINUX = Path("/proc/version").exists()


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with read_only(tmp_path_factory.mktemp("card") / "ro") as place:
        yield place


@pytest.mark.parametrize(
    "words",
    (
        "picture RESULT -o CARD/x.png",
        "video RESULT -o CARD/x.mp4",
        "report RESULT -o CARD/report",
        "kinematics RESULT -o CARD/kin",
        "compare RESULT --midlines RESULT --csv CARD/c.csv",
        "compare RESULT --midlines RESULT --plot CARD/c.png",
        "evaluate RESULT --annotations CLICKS --csv CARD/c.csv",
        "check RECORDING --picture CARD/c.png",
        "simulate CARD/x",
        "demo -o CARD/demo",
        "reconstruct RECORDING -o CARD/out",
        "refine-cameras RECORDING -o CARD/x.json",
        "calibrate RECORDING -o CARD/x.json --grid 9x6 --square 1",
        "baseline RECORDING -o CARD/out",
        "ablate RECORDING -o CARD/out",
        "benchmark CARD/out",
        "limits CARD/out",
        "bench --plot CARD/x.png",
        *(f"export RESULT --to {name} -o CARD/e{end}" for name, end in (
            ("csv", ".csv"), ("mat", ".mat"), ("movement", ".nc"), ("wcon", ".wcon"), ("parquet", ""))),
    ),
)  # fmt: skip
def test_a_read_only_card_is_found_out_first(
    card: Path,
    clean: Path,  # noqa: F811
    worm_result: Path,
    tmp_path: Path,
    refused: Callable[..., str],  # noqa: F811
    words: str,
) -> None:
    (tmp_path / "clicks.csv").write_text("frame,camera,u,v\n")
    places = {"RESULT": worm_result, "RECORDING": clean, "CARD": card, "CLICKS": tmp_path / "clicks.csv"}
    for name, place in places.items():
        words = words.replace(name, str(place))
    told = refused(*words.split())
    assert "cannot be written to (Read-only file system); give another output folder" in told and str(card) in told


@pytest.mark.skipif(not LINUX, reason="needs a /proc")
@pytest.mark.parametrize("words", ("reconstruct RECORDING -o /proc/out", "export RESULT --to csv -o /proc/x.csv"))
def test_a_place_where_the_system_makes_no_files(
    clean: Path,  # noqa: F811
    worm_result: Path,
    refused: Callable[..., str],  # noqa: F811
    words: str,
) -> None:
    words = words.replace("RESULT", str(worm_result)).replace("RECORDING", str(clean))
    assert "cannot be written to (No such file or directory); give another output folder" in refused(*words.split())


def test_folders_and_long_names_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"folder.csv: is a folder; give the name of a file"):
        files.check_file(tmp_path / "folder.csv")
    with pytest.raises(InputError, match="has 304 letters, too many for a file"):
        files.write_whole(tmp_path / f"{'x' * 300}.csv", b"")
    with pytest.raises(InputError, match="is a file, or lies in one"):
        files.check_file(tmp_path / "file" / "x.csv")
    files.check_file(tmp_path / "new" / "x.csv")
    assert sorted(place.name for place in tmp_path.iterdir()) == ["file", "folder.csv"]
