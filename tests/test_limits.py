"""Where it breaks: the ladders of nuisances, how levels are counted, and one tiny course."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from midline3d.errors import InputError
from midline3d.limits import Course, Limits, find_limits
from midline3d.limits.table import Row
from midline3d.population.score import Frames
from midline3d.population.worst import Shot, worst_of
from midline3d.settings import Settings
from midline3d.synth import LADDERS, VARIED, Plan
from midline3d.synth.files import truth
from midline3d.synth.levels import draw_level, easy
from midline3d.synth.varied import make_varied_scene

QUICK = replace(Settings(), start=replace(Settings().start, pairs=1, apart=2, starts=5))


@pytest.mark.parametrize("nuisance", LADDERS)
def test_one_nuisance_grows_and_all_else_stays(nuisance: str) -> None:
    levels = LADDERS[nuisance].levels
    drawn = [draw_level(4, nuisance, level) for level in levels]
    assert len({repr(one) for one in drawn}) == len(levels)
    parts = {name for one in drawn for name, value in vars(one).items() if value != getattr(drawn[0], name)}
    allowed = {"cameras": {"rig", "optics"}, "magnification": {"rig", "optics", "motion"}}
    where = {"blur": "optics", "contrast": "optics", "overlap": "motion", "motion": "motion", "calibration": "rig"}
    assert parts - {"family"} == allowed.get(nuisance, {where.get(nuisance, "medium")})
    assert all(one.body == easy(4).body for one in drawn)


def scene_figures(nuisance: str, level: float) -> dict[str, Any]:
    scene = make_varied_scene(Plan(VARIED, frames=6, size=512, seed=2, nuisance=nuisance, level=level))
    found = truth(scene)
    return {"inside": float(found.inside.min()), **found.attrs}


def test_what_a_level_says_is_what_is_drawn() -> None:
    fast = scene_figures("motion", 20)
    assert 12 < fast["fastest_px"] < 30 and fast["inside"] == 1
    small = scene_figures("magnification", 40)
    assert small["length_px"] == pytest.approx(40, rel=0.02)
    assert len(scene_figures("cameras", 4)["px_per_mm"]) == 4
    assert (
        np.median(scene_figures("contrast", 3)["contrast"]) < 12 < np.median(scene_figures("contrast", 40)["contrast"])
    )


def test_what_cannot_be_drawn_is_said() -> None:
    for plan, said in (
        (Plan(VARIED, nuisance="fog", level=3), "nuisance is 'fog'"),
        (Plan(VARIED, nuisance="blur"), "level none"),
        (Plan("swim", nuisance="blur", level=3), "preset 'swim'"),
        (Plan(VARIED, nuisance="blur", level=float("nan")), "level of blur is nan"),
        (Plan(VARIED, nuisance="cameras", level=9), "choose 2 to 4"),
    ):
        with pytest.raises(InputError, match=said):
            plan.check()


def row(level: float, wrong: int = 0, hidden: int = 0, reason: str | None = None, midline: float | None = 0.1) -> Row:
    figures: dict[str, Any] = {"reason": reason, "seed": 1}
    if reason is None:
        figures |= {"midline_px": midline, "worst_midline_px": midline, "ends_px": 1.0, "wrong": wrong}
        figures |= {"hidden": hidden, "alarms": 1, "lost": 0, "clear": 20}
    return Row(f"blur-{level:g}", "blur", level, 20, figures)


def test_levels_are_summed_up_and_the_first_that_breaks_is_told() -> None:
    ladders = {"blur": LADDERS["blur"]}
    limits = Limits(ladders, (row(1), row(1, 3, 2), row(4, 5, 1, midline=3.0), row(9, reason="no worm")), 12)
    first, second, third = limits.levels("blur")
    assert (first["frames"], first["wrong"], first["hidden"], first["alarms"], first["not_ok"]) == (40, 3, 2, 2, 3 / 40)
    assert second["worst_midline_px"] == 3.0 and second["not_ok"] == (5 - 1 + 1) / 20
    assert (third["lost"], third["failed"], third["midline_px"], third["not_ok"]) == (20, 1, None, 1.0)
    assert limits.breaks_at("blur") == 4 and Limits(ladders, (row(1),), 12).breaks_at("blur") is None
    lines = list(csv.DictReader(limits.csv().splitlines()))
    assert [line["level"] for line in lines] == ["1", "4", "9"] and lines[2]["midline_px"] == ""
    assert limits.table().row_count == 3 and json.dumps(limits.as_dict())


def frames(midline: list[float], given: list[bool]) -> Frames:
    count = len(midline)
    ends = np.tile(np.array(midline)[:, None], 2)
    known: dict[str, Any] = {name: np.zeros(count) for name in ("head", "tail", "length")}
    flags = {name: np.zeros(count, dtype=bool) for name in ("flipped", "gone")}
    return Frames(
        midline=np.array(midline), ends=ends, given=np.array(given), ok=np.ones(count, bool),
        clear=np.ones(count, bool), points=np.zeros((count, 2)), confidence=np.ones((count, 2)), doubt=np.zeros(count),
        coverage=None,
        **known, **flags,
    )  # fmt: skip


def test_the_worst_frame_is_a_wrong_one_before_a_lost_one() -> None:
    assert worst_of(frames([0.1, 3.0, 2.5, np.nan], [True, True, True, False])) == 1
    assert worst_of(frames([0.1, 0.3, np.nan], [True, True, False])) == 2
    assert worst_of(frames([0.1, 0.3, 0.2], [True, True, True])) == 1


@pytest.mark.long
def test_a_tiny_course_goes_on_and_shows_its_failure(tmp_path: Path) -> None:
    """A worm that cannot be seen at all fails; the easy one does not."""
    ladders = {"contrast": replace(LADDERS["contrast"], levels=(40.0, 0.1))}
    course = Course(("contrast",), 1, frames=3, size=320, limit=300, settings=QUICK, ladders=ladders)
    found = find_limits(tmp_path / "out", course, jobs=1)
    easiest, hardest = found.levels("contrast")
    assert easiest["wrong"] == easiest["lost"] == easiest["failed"] == 0 and easiest["midline_px"] < 1
    assert hardest["wrong"] + hardest["lost"] == 3 and hardest["hidden"] == 0
    assert found.breaks_at("contrast") == 0.1
    for name in ("limits.png", "contrast.png"):
        assert (tmp_path / "out" / name).stat().st_size > 10_000, name
    shot = Shot.load(tmp_path / "out" / "worst" / "contrast-0-00001.npz")
    assert shot.status == "ok" and shot.pictures.shape[0] == 3 and shot.midline_px < 1
    # The worm is darker than what is around it, where both midlines say that it is.
    for picture, seen, true in zip(shot.pictures, shot.seen, shot.true, strict=True):
        column, line = np.rint(true[20:-20]).astype(int).T
        assert picture[line, column].mean() < np.median(picture) - 20
        assert np.abs(seen[40:-40] - true[40:-40]).max() < 8
    written = (tmp_path / "out" / "rows" / "contrast-0-00001.json").stat().st_mtime_ns
    again = find_limits(tmp_path / "out", course, jobs=1)
    assert again.rows == found.rows
    assert (tmp_path / "out" / "rows" / "contrast-0-00001.json").stat().st_mtime_ns == written
    with pytest.raises(InputError, match="frames 3, not 4"):
        find_limits(tmp_path / "out", replace(course, frames=4))


def test_a_course_that_is_cut_short_sums_up_what_is_there(tmp_path: Path) -> None:
    course = Course(("blur",), 1, frames=2, size=256)
    found = find_limits(tmp_path / "out", course, jobs=1, within=0.3)
    assert found.rows == () and found.asked == 6 and found.levels("blur") == []
    assert (tmp_path / "out" / "limits.csv").read_text().startswith("nuisance,level,")


def test_what_cannot_be_run_is_said(tmp_path: Path) -> None:
    for course, said in (
        (Course(("fog",)), "nuisance is 'fog'"),
        (Course(()), "no nuisance is named"),
        (Course(animals=0), "animals is 0"),
        (Course(frames=0), "frames is 0"),
        (Course(limit=0), "limit is 0 s"),
    ):
        with pytest.raises(InputError, match=said):
            find_limits(tmp_path / "out", course)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "thesis.txt").write_text("")
    with pytest.raises(InputError, match="no course of limits"):
        find_limits(tmp_path / "else")
