"""The viewer's page in a real browser: looked at, played, corrected, reloaded. Skipped where there is no Chromium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
sync_api = pytest.importorskip("playwright.sync_api")

from viewing import Viewer, small_result, viewing  # noqa: E402

from midline3d import open_result  # noqa: E402
from midline3d.store import FrameResult, Result  # noqa: E402
from midline3d.store.manifest import Manifest  # noqa: E402

FRAMES = 40
SEEN = os.environ.get("MIDLINE3D_SCREENSHOTS")
"""Folder for pictures of the page, to look at."""
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Pictures are drawn by the processor, which is slow enough: only what needs WebGL goes through its software.
FLAGS = [
    *("--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"),
    *("--disable-gpu-compositing", "--disable-gpu-rasterization", "--disable-accelerated-2d-canvas"),
]
PATIENCE = 60_000
"""ms."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here: install Debian's chromium, or Chrome")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> tuple[Path, Path]:
    """A result that was made longer than its recording is: frames 8 to 39 repeat the first ones, with faults."""
    recording, out = small_result(tmp_path_factory.mktemp("made"), 8)
    return recording, longer(out)


def longer(out: Path) -> Path:
    """The result's frames over and over, some of them suspect and some lost: as the store would hold them."""
    from dataclasses import replace

    manifest = Manifest.read(out)
    result = Result(out, manifest)
    records = [result.read(frame) for frame in range(8)]
    crops = np.load(out / "crops" / "crops.npy")
    order = [frame % 8 for frame in range(FRAMES)]
    np.save(out / "crops" / "crops.npy", crops[order])
    with np.load(out / "crops" / "frames.npz") as log:
        arrays = {name: log[name][order] for name in log.files}
    np.savez(out / "crops" / "frames.npz", **arrays)
    (out / "midline.nc").unlink()
    shutil.rmtree(out / "segments")
    wider = replace(manifest, header=replace(manifest.header, frames=tuple(range(FRAMES))))
    wider.write(out)
    with Result(out, wider) as growing:
        for frame in range(FRAMES):
            record = records[order[frame]]
            assert record is not None
            if 20 <= frame < 24:
                record = replace(record, status="suspect", reason="light unexplained")
            growing.append(frame, FrameResult("lost", reason="no fit") if frame == 30 else record)
        growing.consolidate()
    return out


@pytest.fixture
def out(made: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made[1], tmp_path / "out"))


@pytest.fixture
def viewer(out: Path) -> Iterator[Viewer]:
    with viewing(out) as listens:
        yield listens


class Tab:
    """A page that is open, and whatever went wrong in it."""

    def __init__(self, browser: Any, viewer: Viewer, size: tuple[int, int] = (1366, 768), scheme: str = "dark") -> None:
        self.context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.faults: list[str] = []
        self.asked: list[str] = []
        self.page.on("pageerror", lambda fault: self.faults.append(str(fault)))
        self.page.on("console", lambda line: line.type == "error" and self.faults.append(line.text))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.open(viewer.link)

    def open(self, link: str) -> None:
        self.page.goto(link)
        self.page.wait_for_selector("body[data-ready=yes]")
        self.drawn()

    def drawn(self, frame: int | None = None) -> None:
        """Waits until the frame that is shown, or this one, is drawn."""
        if frame is not None:
            self.page.wait_for_selector(f"body[data-frame='{frame}']")
        self.until("document.body.dataset.drawn === document.body.dataset.frame")

    def until(self, expression: str) -> None:
        """Waits until it holds. Asked from outside: the page's own rules forbid to evaluate text inside."""
        for _ in range(PATIENCE // 50):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never: {expression}")

    @property
    def frame(self) -> int:
        return int(self.page.evaluate("document.body.dataset.frame"))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def text(self, selector: str) -> str:
        return str(self.page.text_content(selector)).strip()

    def click(self, selector: str, across: float, down: float = 0.5) -> None:
        """Clicks at a share of an element's width and height."""
        box = self.page.locator(selector).bounding_box()
        self.page.mouse.click(box["x"] + across * box["width"], box["y"] + down * box["height"])

    def pixels(self, selector: str) -> np.ndarray:
        """(height, width, 3) of an element as it is shown."""
        import cv2

        png = np.frombuffer(self.page.locator(selector).screenshot(), np.uint8)
        return cv2.imdecode(png, cv2.IMREAD_COLOR)

    def at(self, camera: int, u: float, v: float) -> tuple[float, float]:
        """Where a camera's px is on the screen: by the crop that fills the view."""
        box = self.page.locator(".camera canvas").nth(camera).bounding_box()
        place = self.page.evaluate(
            "([camera, u, v]) => { const at = window.midline3d.views.views[camera].at;"
            " return [at.x + u * at.scale, at.y + v * at.scale]; }",
            [camera, float(u), float(v)],
        )
        return box["x"] + place[0], box["y"] + place[1]

    def shot(self, name: str) -> None:
        if SEEN:
            Path(SEEN).mkdir(parents=True, exist_ok=True)
            self.page.wait_for_timeout(700)
            self.page.screenshot(path=str(Path(SEEN) / f"{name}.png"))

    def close(self) -> None:
        self.context.close()
        assert not self.faults, self.faults


@pytest.fixture
def tab(browser: Any, viewer: Viewer) -> Iterator[Tab]:
    opened = Tab(browser, viewer)
    yield opened
    opened.close()


def test_a_result_is_shown(tab: Tab, viewer: Viewer, out: Path) -> None:
    """Views, 3D, charts and kymograph all have something in them, and nothing came from elsewhere."""
    assert tab.text("#run") == f"{FRAMES} frames" and tab.text("#verdict .badge") == "ok"
    assert tab.page.locator(".camera").count() == 3
    for selector in (".camera >> nth=0", ".camera >> nth=2", "#space", "#kymograph", "#charts .chart >> nth=0"):
        assert tab.pixels(selector).std() > 8, selector
    loss = float(open_result(out).loss.values[0])
    assert f"{loss:.1f}" in tab.text("#numbers")
    assert {url.split("/")[2] for url in tab.asked if url.startswith("http")} == {viewer.link.split("/")[2]}
    assert sum("/api/strip" in url for url in tab.asked) == 2, "32 frames and all cameras in one request, and the next"
    tab.shot("laptop-dark")


def test_scrubbing_stepping_and_jumping(tab: Tab) -> None:
    before = tab.pixels(".camera >> nth=1")
    tab.click("#timeline canvas", 10.5 / FRAMES)
    tab.drawn(10)
    assert np.abs(before.astype(float) - tab.pixels(".camera >> nth=1")).mean() > 0.2
    tab.press("ArrowRight")
    tab.drawn(11)
    tab.press("Shift+ArrowLeft")
    tab.drawn(1)
    tab.press("n")
    tab.drawn(20)
    assert tab.text("#verdict .badge") == "suspect" and "light unexplained" in tab.text("#verdict .why")
    tab.press("n", "n", "n", "n")
    tab.drawn(30)
    assert tab.text("#verdict .badge") == "lost"
    tab.press("g")
    tab.drawn(31)
    tab.press("Shift+N")
    tab.drawn(30)
    tab.press("End")
    tab.drawn(FRAMES - 1)
    tab.page.fill("#frame", "17")
    tab.page.press("#frame", "Enter")
    tab.drawn(17)
    box = tab.page.locator("#timeline canvas").bounding_box()
    tab.page.mouse.move(box["x"] + 2, box["y"] + 10)
    tab.page.mouse.down()
    for share in np.linspace(0.1, 32.5 / FRAMES, 12):
        tab.page.mouse.move(box["x"] + share * box["width"], box["y"] + 10)
    tab.page.mouse.up()
    tab.drawn(32)


def test_playing(tab: Tab) -> None:
    tab.press("Home", " ")
    assert tab.page.evaluate("document.body.dataset.playing") == "yes"
    tab.until("Number(document.body.dataset.frame) >= 5")
    tab.press(" ")
    stopped = tab.frame
    tab.page.wait_for_timeout(200)
    assert tab.frame == stopped and tab.page.evaluate("document.body.dataset.playing") == ""
    tab.press("End", "ArrowLeft", "ArrowLeft", " ")
    tab.until(f"document.body.dataset.frame === '{FRAMES - 1}' && !document.body.dataset.playing")


def test_a_click_on_a_plot_goes_there(tab: Tab) -> None:
    tab.page.wait_for_selector("#charts .u-over")
    tab.click("#charts .u-over >> nth=0", 25.5 / FRAMES)
    tab.drawn(25)
    tab.click("#kymograph canvas", 7.5 / FRAMES)
    tab.drawn(7)
    tab.page.click("#chips [data-series=sigma]")
    tab.page.wait_for_selector("#charts [data-series=sigma] .u-over")
    tab.page.click("#chips [data-series=loss]")
    assert tab.page.locator("#charts [data-series=loss]").count() == 0


def test_layers_and_whole_pictures(tab: Tab) -> None:
    shown = {}
    for key, name in zip("1234", ("image", "render", "residual", "difference"), strict=True):
        tab.press(key)
        tab.drawn()
        shown[name] = tab.pixels(".camera >> nth=0").astype(float)
        tab.shot(f"layer-{name}")
    assert np.abs(shown["image"] - shown["render"]).mean() > 0.3
    assert shown["residual"].mean() < shown["image"].mean(), "what is left over is less than what was there"
    tab.press("1", "m")
    tab.drawn()
    bare = tab.pixels(".camera >> nth=0").astype(float)
    assert np.abs(bare - shown["image"]).max() > 50
    tab.press("m", "z")
    tab.until("window.midline3d.data.pictures.things.size === 3")
    whole = tab.pixels(".camera >> nth=0").astype(float)
    assert whole.mean() > 2 * bare.mean(), "a dark worm on a bright picture"
    tab.shot("whole")


def test_a_pin_is_set_fitted_carried_on_kept_and_undone(browser: Any, tab: Tab, viewer: Viewer, out: Path) -> None:
    """The head, clicked where the tail is: the frame turns round, and its neighbours with it."""
    before = open_result(out)
    tab.press("Home", "ArrowRight", "ArrowRight", "ArrowRight")
    tab.drawn(3)
    tail = before.projection.values[3, 1, -1]
    tab.press("h")
    place = tab.at(1, *tail)
    tab.page.mouse.move(*place)
    tab.until("window.midline3d.views.epipolar !== null")
    tab.page.mouse.click(*place)
    tab.page.wait_for_selector("#draft:not([hidden])")
    assert (open_result(out).edited == "automatic").all(), "nothing is written before it is kept"
    assert "loss" in tab.text("#losses") and "px" in tab.text("#losses")
    pinned = tab.page.evaluate("window.midline3d.corrections.pins[0]")
    assert abs(pinned["u"] - tail[0]) < 1 and abs(pinned["v"] - tail[1]) < 1 and pinned["camera"] == "cam1"
    tab.shot("draft")
    for leave in (lambda: tab.page.mouse.click(*place), lambda: tab.press("Escape")):
        tab.until("!window.midline3d.corrections.busy")
        leave()  # a pin that is clicked again goes, and so does all of it
        tab.page.wait_for_selector("#draft[hidden]", state="attached")
        tab.until("!window.midline3d.corrections.busy")
        assert tab.page.evaluate("window.midline3d.corrections.pins.length") == 0
        tab.press("h")
        tab.page.mouse.click(*place)
        tab.page.wait_for_selector("#draft:not([hidden])")
    tab.until("!window.midline3d.corrections.busy")
    tab.press("ArrowLeft")
    tab.until("Number(document.body.dataset.draft) === 4 && !document.body.dataset.running")
    assert tab.frame == 3, "with a draft the arrows carry it on"
    assert tab.text("#ended") == "Carried on: it ends at frame 0: there are no more."
    tab.shot("carried")
    tab.press("Enter")
    tab.page.wait_for_selector("#verdict .badge.pinned")
    after = open_result(out)
    assert after.edited.values[:5].tolist() == ["refitted"] * 3 + ["pinned", "automatic"]
    assert np.linalg.norm(after.projection.values[3, 1, 0] - tail) < 4
    assert "refitted frames 0 to 3" in tab.text("#history")
    tab.shot("kept")
    tab.open(viewer.link + "/#frame=3")
    tab.page.reload()
    tab.page.wait_for_selector("body[data-ready=yes]")
    tab.drawn(3)
    tab.page.wait_for_selector("#verdict .badge.pinned")
    tab.press("Control+z")
    tab.page.wait_for_selector("#history li.undone")
    tab.page.wait_for_selector("#verdict .badge.pinned", state="detached")
    assert np.array_equal(open_result(out).position.values, before.position.values, equal_nan=True)


def test_a_range_is_swapped_accepted_and_undone(tab: Tab, out: Path) -> None:
    before = open_result(out)
    tab.press("n")
    tab.drawn(20)
    tab.press("i", "ArrowRight", "ArrowRight", "ArrowRight")
    tab.drawn(23)
    tab.press("o")
    assert tab.text("#range") == "frames 20 to 23"
    tab.press("a")
    tab.page.wait_for_selector("#verdict .badge.accepted")
    assert (open_result(out).edited.values[20:24] == "accepted").all()
    tab.press("u")
    tab.drawn(30)
    tab.press("ArrowLeft")
    tab.drawn(29)
    tab.press("s")
    tab.page.wait_for_selector("#verdict .badge.pinned")
    swapped = open_result(out)
    assert np.array_equal(swapped.position.values[29], before.position.values[29, :, ::-1])
    tab.press("Control+z")
    tab.page.wait_for_selector("#verdict .badge.pinned", state="detached")
    tab.press("Control+Shift+Z")
    tab.page.wait_for_selector("#verdict .badge.pinned")
    tab.press("ArrowLeft")
    tab.drawn(28)
    tab.press("x")
    tab.page.wait_for_selector("#verdict .badge.lost")
    assert open_result(out).reason.values[28] == "marked bad"


def test_a_refusal_is_shown_as_it_was_said(tab: Tab) -> None:
    tab.press("Control+z")
    tab.page.wait_for_selector("#notice.fault:not([hidden])")
    assert tab.text("#notice") == "there is nothing to undo"
    tab.faults.clear()  # the browser notes every answer of 400


@pytest.mark.parametrize(
    ("name", "size", "scheme"),
    [
        ("laptop-light", (1366, 768), "light"),
        ("large-dark", (2560, 1440), "dark"),
        ("large-light", (2560, 1440), "light"),
    ],
)
def test_every_size_and_theme(browser: Any, viewer: Viewer, name: str, size: tuple[int, int], scheme: str) -> None:
    tab = Tab(browser, viewer, size, scheme)
    paper = tab.pixels("#transport").mean()
    assert (paper > 160) == (scheme == "light")
    wide = tab.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    assert wide[0] <= size[0] and wide[1] <= size[1], "nothing hangs over the edge"
    tab.press("n")
    tab.drawn(20)
    tab.shot(name)
    tab.page.click("#theme")
    assert (tab.pixels("#transport").mean() > 160) != (scheme == "light")
    tab.close()


def test_a_run_is_watched(browser: Any, out: Path) -> None:
    manifest = Manifest.read(out)
    records = {frame: Result(out, manifest).read(frame) for frame in range(FRAMES)}
    (out / "midline.nc").unlink()
    shutil.rmtree(out / "segments")
    with Result(out, manifest) as growing:
        for frame in range(5):
            growing.append(frame, records[frame])
        growing.flush()
        with viewing(out) as viewer:
            tab = Tab(browser, viewer)
            assert tab.text("#run") == f"5 of {FRAMES} frames"
            tab.press("End")
            tab.page.wait_for_selector("#verdict .badge.pending")
            for frame in range(5, FRAMES):
                growing.append(frame, records[frame])
            growing.consolidate()
            tab.until(f"document.getElementById('run').textContent === '{FRAMES} frames'")
            tab.page.wait_for_selector("#verdict .badge.ok")
            tab.close()
