"""The report: a page that needs nothing else, whose numbers are the result's, of every kind of result there can be."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import killing
import numpy as np
import pytest
import torch

from midline3d import kinematics, open_result, write_report
from midline3d.cameras import Cameras, project, shift_basis
from midline3d.curve import rotation_exp
from midline3d.errors import InputError
from midline3d.report import courses, material, ranking, shapes, words
from midline3d.report.write import FIGURES
from midline3d.store import EditLog, Result, edit_of
from midline3d.store.manifest import Manifest

SEEN = os.environ.get("MIDLINE3D_SCREENSHOTS")
"""Folder for pictures of the page, to look at."""
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page(HTMLParser):
    """A page's headings, figures, links and texts; complains about tags that are not closed."""

    VOID = ("meta", "br", "img", "link", "path", "use", "image", "rect", "circle")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.figures: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"
        self.text = " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.targets += [given[name] for name in ("href", "src") if name in given]
        self.figures += [given["id"]] if tag == "figure" else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def whole(worm_result: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result with frames that are ok, lost and unreadable, and its report."""
    out = Path(shutil.copytree(worm_result, tmp_path_factory.mktemp("report") / "out"))
    write_report(out)
    return out


@pytest.fixture(scope="module")
def given(whole: Path) -> material.Material:
    return material.gathered(whole)


@pytest.fixture(scope="module")
def page(whole: Path) -> str:
    return (whole / "report" / "report.html").read_text(encoding="utf-8")


def few(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Of all figures only these: a test need not draw what it does not look at."""

    def left_out(_: Any) -> Any:
        raise material.Undrawable("left out")

    chosen = {name: reported if name in names else (left_out, reported[1]) for name, reported in FIGURES.items()}
    monkeypatch.setattr("midline3d.report.write.FIGURES", chosen)


def test_a_page_with_every_figure_that_needs_nothing_else(whole: Path, page: str) -> None:
    read = Page(page)
    assert read.figures == [name for name in ORDER if name in FIGURES] and set(read.figures) == set(FIGURES)
    assert "http" not in page and "//" not in re.sub(r"base64,[^\"]*", "", page), "nothing from elsewhere"
    inner = [target for target in read.targets if target.startswith("#")]
    assert {target[1:] for target in inner} <= set(read.ids) and len(set(read.ids)) == len(read.ids)
    assert all(target.startswith(("#", "data:image/png;base64,")) for target in read.targets)
    for name in FIGURES:
        for kind, mark in (("png", b"\x89PNG"), ("svg", b"<?xml")):
            assert (whole / "report" / f"{name}.{kind}").read_bytes().startswith(mark)
    assert len(page) < 4_000_000 and "var(--view0)" in page and "prefers-color-scheme: dark" in page


ORDER = (
    *("statuses", "best-to-worst", "render-parameters", "explained", "disagreement", "kymograph", "trajectory"),
    *("postures", "motion"),
)


def test_its_numbers_are_those_of_the_result(whole: Path, page: str) -> None:
    result, text = open_result(whole), Page(page).text
    status = result.status.values.tolist()
    assert status.count("lost") and status.count("unreadable"), "the film has such frames"
    gone = sum(status.count(word) for word in ("lost", "unreadable"))
    assert f"lost or unreadable {gone / len(status):.1%} {gone} frames" in text
    assert f"ok {status.count('ok') / len(status):.1%} {status.count('ok')} frames" in text
    assert f"length {float(np.nanmedian(result.length)):.3f} mm" in text
    assert f"± {result.attrs['length_std']:.3f} mm" in text and f"head {result.attrs['head_confidence']:.1%}" in text
    worst = np.nanmedian(result.explained.values, 0).min()
    assert f"explained light {worst:.0%} median of" in text
    frames = result.frame.values[(result.status.values == "lost") & (result.reason.values == "no fit")]
    assert len(frames) and f"lost no fit {len(frames)} {', '.join(map(str, frames))}" in text
    assert "body.span 6 48" in text, "a setting that is not the default, and the default"
    assert f"--frames 0:{len(status)} --seed 0 --device cpu --settings" in text
    assert "span = 6" in (whole / "report" / "settings.toml").read_text()


def test_frames_are_ranked_by_the_worst_of_their_views(given: material.Material) -> None:
    order, _ = ranking.ranked(given)
    least = given.result.explained.values.min(1)
    assert set(order.tolist()) == set(np.flatnonzero(given.found).tolist())
    assert (np.diff(least[order]) <= 0).all()
    shown = ranking.chosen(given)
    assert shown[0][0] == order[0] and shown[-1][0] == order[-1] and len(shown) == ranking.SHOWN


def test_a_miss_is_the_distance_from_the_epipolar_line(given: material.Material) -> None:
    """A view moved across the other's epipolar line by a pixel misses it by a pixel; one moved along it does not."""
    cameras = given.cameras
    assert cameras is not None
    place = torch.zeros(1, 1, 3, dtype=torch.float64)
    steps = torch.eye(3, dtype=torch.float64)[None] * 1e-3
    seen = project(cameras, place + steps) - project(cameras, place)
    # Motion along the first camera's line of sight draws the second's epipolar line.
    sight = torch.linalg.svd(seen[0, 0].T)[2][-1]
    along = torch.einsum("vi,v->i", seen[0, 1], sight)
    along = along / along.norm()
    across = torch.stack([-along[1], along[0]])
    basis = cameras.shift_basis.reshape(-1, cameras.shift_basis.shape[-1])
    moves = (project(cameras, place + steps) - project(cameras, place))[0].permute(0, 2, 1).reshape(6, 3)
    both = torch.cat([basis, moves / moves.norm()], 1)
    for way, miss in ((across, 1.0), (along, 0.0)):
        wanted = torch.zeros(3, 2, dtype=torch.float64)
        wanted[1] = way
        shift = torch.linalg.solve(both, wanted.reshape(6))[:3]
        moved = given.result.copy()
        moved["shift"] = moved["shift"] * 0 + shift.numpy()
        reported = courses.pair_misses(replace(given, result=moved))
        assert np.nanmedian(np.abs(reported["cam0", "cam1"])) == pytest.approx(miss, abs=0.02)


def test_a_file_alone_is_told_as_far_as_it_can_be(whole: Path, tmp_path: Path, monkeypatch: Any) -> None:
    few(monkeypatch, "best-to-worst", "disagreement", "statuses")
    shutil.copy(whole / "midline.nc", tmp_path / "midline.nc")
    read = Page(write_report(tmp_path / "midline.nc", tmp_path / "page").read_text(encoding="utf-8"))
    assert read.figures == ["statuses"] and "has no crops, which is needed here" in read.text
    assert "The cameras are not known" in read.text


@pytest.mark.parametrize("chosen", [(0, 2), (0, 1, 2, 0)])
def test_two_and_four_cameras(given: material.Material, chosen: tuple[int, ...]) -> None:
    """Every figure over time of as many views; a pair of the same view twice misses itself by nothing."""
    assert given.cameras is not None
    names = [f"view{number}" for number in range(len(chosen))]
    views = given.result.isel(camera=list(chosen)).assign_coords(camera=names)
    axes = 2 * len(chosen) - 3
    shift = np.random.default_rng(0).normal(size=(len(given.frames), axes))
    views = views.drop_vars("shift").assign(shift=(("time", "axis"), shift))
    reported = replace(given, result=views, cameras=_rig(given.cameras, chosen))
    misses = courses.pair_misses(reported)
    assert len(misses) == len(chosen) * (len(chosen) - 1) // 2 and all(
        np.isfinite(miss).all() for miss in misses.values()
    )
    for draw in (courses.appearances, courses.explained, courses.disagreements):
        assert len(draw(reported).axes[0].get_legend().texts) == (
            len(misses) if "disa" in draw.__name__ else len(chosen)
        )
    assert [row[0] for row in words.shares(reported).rows] == names


def _rig(cameras: Cameras, chosen: tuple[int, ...]) -> Cameras:
    """Some of the cameras; one that comes twice stands a little aside the second time."""
    fields = {name: getattr(cameras, name)[:, list(chosen)] for name in vars(cameras) if name != "shift_basis"}
    turn = rotation_exp(torch.tensor([[0.0, 0.05 * number, 0.0] for number in range(len(chosen))]).double())
    fields["rotation"] = turn @ fields["rotation"]
    made = Cameras(**fields, shift_basis=torch.zeros(len(chosen), 2, 0))
    return replace(made, shift_basis=shift_basis(made))


def test_a_result_that_grows_and_one_in_which_all_is_lost(whole: Path, tmp_path: Path, monkeypatch: Any) -> None:
    few(monkeypatch, "statuses", "motion", "postures")
    growing = Path(shutil.copytree(whole, tmp_path / "growing", ignore=shutil.ignore_patterns("*.nc", "report")))
    manifest = Manifest.read(growing)
    longer = replace(manifest, header=replace(manifest.header, frames=tuple(range(killing.FRAMES + 10))))
    longer.write(growing)
    result = Result(growing, longer)
    read = Page(write_report(growing).read_text(encoding="utf-8"))
    assert f"not complete: {killing.FRAMES} of {killing.FRAMES + 10} frames are done" in read.text
    assert read.figures == ["statuses", "postures", "motion"]
    EditLog(growing).append(edit_of("bad", sorted(result.done), longer.run))
    read = Page(write_report(growing).read_text(encoding="utf-8"))
    assert read.figures == ["statuses"] and "lost marked bad" in read.text
    assert "midlines found wrong, and taken away" in read.text, "the correction is listed"
    assert not (growing / "report" / "motion.png").exists(), "what an earlier report drew is gone"


def test_places_that_mean_nothing_are_left_out(given: material.Material) -> None:
    measured = kinematics.of(given.result.assign_attrs(inputs=json.dumps({"centre": "fixed"})))
    reported = replace(given, measured=measured)
    with pytest.raises(material.Undrawable, match="Left out: everything that needs a place"):
        shapes.trajectory(reported)
    assert [ax.get_title() for ax in courses.motions(reported).axes] == ["length (mm)", "planarity"]


def test_long_recordings_are_drawn_in_columns() -> None:
    status = np.full(90_000, "ok", dtype="<U10")
    status[[70, 50_000]] = "lost"
    status[100:300] = "suspect"
    reported = courses.stretches(status)
    assert [word for word, *_ in reported if word != "ok"] == ["lost", "suspect", "lost"]
    assert reported[0][1] == 0 and reported[-1][2] == len(status) - 1
    assert all(after[1] == before[2] + 1 for before, after in pairwise(reported))
    low, middle, high = courses._columns(np.sin(np.arange(90_000) / 7))
    assert len(low) == courses.COLUMNS and (low <= middle).all() and (middle <= high).all() and high.max() > 0.999


def test_what_cannot_be_reported_is_said(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no result"):
        write_report(tmp_path)
    with pytest.raises(InputError, match=r"page\.html is a file's name; give the folder"):
        write_report(whole, tmp_path / "page.html")


def test_the_command(whole: Path, tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from typer.testing import CliRunner

    from midline3d.cli import app

    few(monkeypatch, "statuses")
    run = CliRunner().invoke(app, ["report", str(whole), "-o", str(tmp_path / "here"), "--json"])
    reported = json.loads(run.stdout[run.stdout.index("{") :])
    assert run.exit_code == 0 and reported["figures"] == ["statuses.png", "statuses.svg"]
    assert Path(reported["report"]) == tmp_path / "here" / "report.html" and Path(reported["report"]).is_file()


def test_words_for_what_is_not_known(given: material.Material) -> None:
    assert words.state(given) == "" and words.edited(given) == (None, None)
    assert words.command(given, "my file.toml").endswith("--settings 'my file.toml'")


def test_it_fits_the_window(whole: Path) -> None:
    """In a real browser: nothing is wider than the window, no figure is empty, no word of a drawing leaves it."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here: install Debian's chromium, or Chrome")
    address = (whole / "report" / "report.html").as_uri()
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for width, scheme, ink in ((1280, "light", "rgb(28, 35, 48)"), (2200, "dark", "rgb(229, 233, 240)")):
            tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            asked: list[str] = []
            tab.on("console", lambda message, asked=asked: asked.append(message.text))
            tab.on("request", lambda request, asked=asked: asked.append(request.url))
            tab.goto(address)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            assert tab.evaluate(OUTSIDE) == []
            assert tab.evaluate("getComputedStyle(document.body).color") == ink
            assert [each for each in asked if not each.startswith("data:")] == [address]
            if SEEN:
                Path(SEEN).mkdir(parents=True, exist_ok=True)
                tab.screenshot(path=str(Path(SEEN) / f"report-{width}-{scheme}.png"), full_page=True)
        browser.close()


OUTSIDE = """[...document.querySelectorAll("figure")].flatMap((figure) => {
    const box = figure.querySelector("svg").getBoundingClientRect();
    const far = [...figure.querySelectorAll("text")].filter((text) => {
        const own = text.getBoundingClientRect();
        return own.left < box.left - 3 || own.right > box.right + 3 || own.bottom > box.bottom + 3;
    });
    return box.height < 60 ? [figure.id] : far.map((text) => `${figure.id}: ${text.textContent}`);
})"""
"""Figures that are empty, and words that leave their figure."""
