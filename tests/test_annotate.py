"""Hand clicks on pictures: what is shown, what is kept and where, and that nobody sees what others clicked."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from drawn import DrawnRecording, rig, write
from viewing import Viewer, listening_to

from midline3d import InputError, Settings, load_recording, save_calibration
from midline3d.evaluate import Click, read_clicks, write_clicks
from midline3d.recording import prepare
from midline3d.store import Header, Result
from midline3d.viewer import annotating
from midline3d.viewer.annotating import Annotating, agreement_in
from midline3d.viewer.app import annotation_application

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FRAMES = 4


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result without any midline, whose pictures are crops already."""
    folder = tmp_path_factory.mktemp("made")
    extra = 'centre = "fixed"\nbackground = "none"\nworm = "dark"\ncrop = 160'
    recording = load_recording(write(folder / "recording", DrawnRecording(frames=FRAMES, dirt=0).pictures(), extra))
    prepare(recording, Settings().locating, folder / "out" / "crops")
    save_calibration(rig(), folder / "out" / "calibration.json")
    header = Header(frames=tuple(range(FRAMES)), fps=25.0, cameras=("cam0", "cam1", "cam2"), keypoints=8)
    with Result.create(folder / "out", header):
        pass
    return folder / "out"


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "out"))


@pytest.fixture
def viewer(out: Path) -> Iterator[Viewer]:
    annotating = Annotating(out, "ada", count=2)
    with listening_to(annotation_application(annotating), annotating) as listens:
        yield listens


def test_clicks_are_kept_in_the_full_pictures_coordinates(viewer: Viewer, out: Path) -> None:
    task = viewer.get("/api/task").json
    assert task["who"] == "ada" and task["window"] == 160 and len(task["images"]) == 6
    assert {image["frame"] for image in task["images"]} == {0, 3} and not any(i["clicks"] for i in task["images"])
    shown = cv2.imdecode(np.frombuffer(viewer.get("/api/crop?image=2").body, np.uint8), cv2.IMREAD_UNCHANGED)
    assert shown.shape == (160, 160), "a plain grey picture: nothing is drawn over it"
    clicks = [{"u": 10.25, "v": 20.5, "label": "head"}, {"u": 30, "v": 40, "label": ""}]
    assert viewer.post("/api/clicks", {"image": 2, "clicks": clicks}).json == {"clicks": 2}
    head, body = read_clicks(out / "annotations.csv")
    image = task["images"][2]
    assert (head.frame, head.camera, head.label, head.who) == (image["frame"], image["camera"], "head", "ada")
    assert (head.u, head.v) == (50.25, 60.5) and (body.u, body.v, body.label) == (70, 80, ""), (
        "the crop begins at 40, 40"
    )
    assert viewer.get("/api/task").json["images"][2]["clicks"] == clicks
    viewer.post("/api/clicks", {"image": 2, "clicks": clicks[1:]})
    assert read_clicks(out / "annotations.csv") == [body], "a picture's clicks are replaced, not added to"


def test_people_do_not_see_or_touch_each_others_clicks(viewer: Viewer, out: Path) -> None:
    image = viewer.get("/api/task").json["images"][0]
    theirs = [Click(image["frame"], image["camera"], 60.0 + step, 70.0, "", "bob") for step in range(3)]
    write_clicks(out / "annotations.csv", theirs)
    assert viewer.get("/api/task").json["images"][0]["clicks"] == []
    mine = [{"u": 20.0 + step, "v": 31.0, "label": ""} for step in range(3)]
    viewer.post("/api/clicks", {"image": 0, "clicks": mine})
    assert [click for click in read_clicks(out / "annotations.csv") if click.who == "bob"] == theirs
    (pair,) = viewer.get("/api/agreement").json
    assert pair["people"] == ["ada", "bob"] and pair["line_px"] == pytest.approx(1.0)
    assert agreement_in(out)[0].summary() == pair


def test_two_people_who_click_at_once_lose_nothing(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with a process of their own, that is, without a lock in common but the folder's."""
    people = [Annotating(out, who, count=2) for who in ("ada", "bob")]
    both, read = threading.Barrier(2), annotating.read_clicks

    def slowly(*given: Any) -> list[Click]:
        """Gives the other time to read the same, too; who holds the lock waits in vain."""
        before = read(*given)
        with suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        return before

    write_clicks(out / "annotations.csv", [])
    monkeypatch.setattr(annotating, "read_clicks", slowly)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda person: person.keep(0, [{"u": 1.0, "v": 2.0, "label": ""}]), people))
    assert {click.who for click in read_clicks(out / "annotations.csv")} == {"ada", "bob"}


def test_what_cannot_be_clicked_is_said(viewer: Viewer, out: Path, tmp_path: Path) -> None:
    wrong = [[{"u": 900, "v": 1}], [{"u": 1, "v": 1, "label": "nose"}], ["here"], None]
    for given in ({"image": 9, "clicks": []}, *({"image": 0, "clicks": clicks} for clicks in wrong)):
        answer = viewer.post("/api/clicks", given)
        assert answer.status == 400 and "error" in answer.json
    assert not (out / "annotations.csv").exists()
    with pytest.raises(InputError, match="--who"):
        Annotating(out, " ", 2)
    with pytest.raises(InputError, match="no located frame from 40"):
        Annotating(out, "ada", 2, (40, 50))
    with pytest.raises(InputError, match="make clicks first"):
        agreement_in(out)
    with pytest.raises(InputError, match="has no crops"):
        Annotating(tmp_path, "ada", 2)


def test_the_page_in_a_browser(viewer: Viewer, out: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here: install Debian's chromium, or Chrome")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 700, "height": 600})
        page.set_default_timeout(60_000)
        page.goto(viewer.link)
        page.wait_for_function("document.getElementById('picture').width === 3 * 160")
        page.keyboard.press("h")
        # The middle of pixel (20, 30), each 3 px wide on the screen.
        page.locator("#picture").click(position={"x": 3 * 20 + 1.5, "y": 3 * 30 + 1.5})
        page.locator("#picture").click(position={"x": 3 * 25 + 1.5, "y": 3 * 30 + 1.5})
        page.wait_for_function("document.getElementById('place').textContent.includes('2 clicks')")
        viewer.wait("/api/task", lambda task: len(task["images"][0]["clicks"]) == 2)
        page.keyboard.press("Backspace")
        page.keyboard.press("ArrowRight")
        page.wait_for_function("document.getElementById('place').textContent.includes('picture 2 of 6')")
        viewer.wait("/api/task", lambda task: len(task["images"][0]["clicks"]) == 1)
        browser.close()
    (head,) = read_clicks(out / "annotations.csv")
    assert (head.label, head.who) == ("head", "ada") and (head.u, head.v) == pytest.approx((60, 70), abs=0.35)
