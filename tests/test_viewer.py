"""The viewer's answers: what it shows of a result, how it is corrected, and whom it refuses."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from test_cli import Command, midline3d  # noqa: F401
from viewing import SETTINGS, Viewer, small_result, viewing

from midline3d import open_result
from midline3d.errors import InputError
from midline3d.report import read_frame
from midline3d.store import Result
from midline3d.store.manifest import Manifest
from midline3d.tracking.reconstruct import Job, reconstruct
from midline3d.viewer import digest
from midline3d.viewer.serve import Place, announcement, listening

FRAMES = 8


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return small_result(tmp_path_factory.mktemp("made"), FRAMES)


@pytest.fixture
def out(made: tuple[Path, Path], tmp_path: Path) -> Path:
    """A copy of the result, to be corrected."""
    return Path(shutil.copytree(made[1], tmp_path / "out"))


@pytest.fixture
def viewer(out: Path) -> Iterator[Viewer]:
    with viewing(out) as listens:
        yield listens


def test_what_a_result_is(viewer: Viewer, out: Path) -> None:
    about, state = viewer.get("/api/about").json, viewer.get("/api/state").json
    assert about["frames"] == [[0, FRAMES - 1]] and [camera["name"] for camera in about["cameras"]] == [
        "cam0",
        "cam1",
        "cam2",
    ]
    assert about["crops"]["window"] == read_frame(out, 0).images.shape[1] and about["originals"] is None
    assert len(about["radius"]) == 128 and 0.01 < max(about["radius"]) < 0.1, "mm"
    assert state["done"] == state["total"] == FRAMES and state["complete"] and state["edits"] == 0
    assert "frames:" in state["log"] or "done in" in state["log"]


def test_series_and_words(viewer: Viewer, out: Path) -> None:
    result = open_result(out)
    viewer.wait("/api/state", lambda state: state["digested"] == FRAMES)
    loss = np.frombuffer(viewer.get("/api/series?name=loss").body, "<f4").reshape(4, FRAMES)
    assert np.array_equal(loss[0], result.loss.values) and np.array_equal(loss[2], result.loss_pixels.values)
    sigma = np.frombuffer(viewer.get("/api/series?name=sigma").body, "<f4").reshape(3, FRAMES)
    assert np.array_equal(sigma, result.sigma.values.T)
    sure = np.frombuffer(viewer.get("/api/series?name=confidence").body, "<f4").reshape(3, FRAMES)
    assert sure[0] == pytest.approx(result.confidence.values[..., 0].mean(1), rel=1e-5)
    speed = np.frombuffer(viewer.get("/api/series?name=speed").body, "<f4")
    assert np.isnan(speed[:3]).all() and np.isfinite(speed[3:5]).all()
    words = np.frombuffer(viewer.get("/api/words").body, np.uint8).reshape(4, FRAMES)
    names = viewer.get("/api/about").json["words"]["status"]
    assert [names[code] for code in words[0]] == result.status.values.tolist() and not words[2].any()
    assert viewer.get("/api/series?name=../etc").status == 400


def test_curves_are_those_of_the_result(viewer: Viewer, out: Path) -> None:
    result, centre = open_result(out), np.array(viewer.get("/api/about").json["centre"])
    numbers = np.frombuffer(viewer.get("/api/curves?first=0").body, "<f4")
    sizes = np.cumsum([FRAMES * 128 * 3, FRAMES * 3 * 128 * 2, FRAMES * 3 * 2, FRAMES * 128])
    position, projection, origin, sure = np.split(numbers, sizes[:-1])
    assert numbers.size == sizes[-1]
    there = position.reshape(FRAMES, 128, 3) + centre
    assert np.abs(there - result.position.values[..., 0].transpose(0, 2, 1)).max() < 1e-5
    assert np.array_equal(projection.reshape(FRAMES, 3, 128, 2), result.projection.values)
    assert np.array_equal(sure.reshape(FRAMES, 128), result.confidence.values[..., 0])
    inside = projection.reshape(FRAMES, 3, 128, 2) - origin.reshape(FRAMES, 3, 1, 2)
    assert inside.min() > 0 and inside.max() < read_frame(out, 0).images.shape[1]
    for bad in ("first=-1", f"first={FRAMES}", "first=x", "", "first=1e400", "first=99999999999999999999"):
        assert viewer.get(f"/api/curves?{bad}").status == 400, bad


def cells(content: bytes, window: int) -> np.ndarray:
    """(frame, camera, w, w) of a strip's picture."""
    picture = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_GRAYSCALE)
    assert picture.shape == (4 * 3 * window, 8 * window)
    return picture.reshape(4, 3, window, 8, window).transpose(0, 3, 1, 2, 4).reshape(32, 3, window, window)


def test_strips_hold_every_camera_of_32_frames(viewer: Viewer, out: Path) -> None:
    """Held against the picture that `report` draws of the same frame by itself."""
    frame, drawn = 5, read_frame(out, 5)
    window = drawn.images.shape[1]
    image, render, residual, difference = (
        cells(viewer.get(f"/api/strip?first=0&layer={layer}").body, window).astype(float)
        for layer in ("image", "render", "residual", "difference")
    )
    assert not image[FRAMES:].any() and (np.abs(residual[FRAMES:] - 128) < 2).all()
    worm = drawn.render > 0.3
    for camera in range(3):
        seen = worm[camera]
        assert np.corrcoef(image[frame, camera][seen], drawn.images[camera][seen])[0, 1] > 0.95
    assert np.abs(render[frame] / 170 - np.clip(drawn.render, 0, 1.5)).mean() < 0.01
    assert np.abs((residual[frame] - 128) / 127 * 0.6 - np.clip(drawn.residual, -0.6, 0.6)).mean() < 0.02
    assert np.abs(difference[frame] / 255 * 0.6 - np.clip(np.abs(drawn.residual), 0, 0.6)).mean() < 0.02
    assert viewer.get("/api/strip?first=0&layer=nonsense").status == 400
    assert viewer.get(f"/api/strip?first={FRAMES}&layer=image").status == 400


def test_whole_pictures_come_from_the_recording(made: tuple[Path, Path], out: Path, tmp_path: Path) -> None:
    recording = made[0]
    with viewing(out) as viewer:
        content = viewer.get("/api/picture?camera=1&frame=3")
        picture = cv2.imdecode(np.frombuffer(content.body, np.uint8), cv2.IMREAD_GRAYSCALE).astype(float)
        assert content.headers["content-type"] == "image/jpeg"
        assert np.abs(picture - np.load(recording / "cam1.npy")[3]).mean() < 2
        for bad in ("camera=3&frame=1", "camera=0&frame=99", "camera=0", "frame=0", "camera=-1&frame=0"):
            assert viewer.get(f"/api/picture?{bad}").status == 400, bad
    other = Path(shutil.copytree(recording, tmp_path / "other"))
    stack = np.load(other / "cam1.npy")
    stack[:, 0, 0] += 1
    np.save(other / "cam1.npy", stack)
    with viewing(out, other) as viewer:
        refused = viewer.get("/api/picture?camera=1&frame=3")
        assert refused.status == 400 and "another recording: camera cam1" in refused.json["error"]
    with viewing(out, tmp_path / "nowhere") as viewer:
        assert "no such file" in viewer.get("/api/about").json["originals"]


def test_epipolar_lines_pass_through_the_midline(viewer: Viewer, out: Path) -> None:
    """A point of the midline, clicked in one view, lies on its line in the others."""
    projection = open_result(out).projection.values[4]
    u, v = projection[0, 40].tolist()
    lines = np.array(viewer.get(f"/api/epipolar?camera=0&frame=4&u={u}&v={v}").json)
    assert np.abs(lines[0] - [u, v]).max() < 0.01
    for camera in (1, 2):
        point, start, along = projection[camera, 40], lines[camera, :-1], np.diff(lines[camera], axis=0)
        share = (((point - start) * along).sum(-1) / (along**2).sum(-1)).clip(0, 1)
        away = np.linalg.norm(start + share[:, None] * along - point, axis=-1)
        assert away.min() < 0.01, "the lens bends the line"
        assert 8 < away.argmin() < 56, "the line runs about the animal"


def test_a_frame_is_refitted_kept_and_undone(viewer: Viewer, out: Path) -> None:
    """A head pinned where the tail is: the frame turns round; carried on to the end it turns the others too."""
    before = open_result(out)
    tail = before.projection.values[3, 0, -1].tolist()
    pins = [{"camera": "cam0", "u": tail[0], "v": tail[1], "part": "head"}]
    reported = viewer.post("/api/refit", {"frame": 3, "pins": pins}).json
    (frame,) = reported["draft"]["frames"]
    assert frame["frame"] == 3 and frame["distances"][0] < 2.5 and frame["before"] > 0 and frame["loss"] > 0
    curve = viewer.get("/api/draft-curve?frame=3").json
    turned = np.array(curve["projection"])[:, ::-1]
    assert (
        np.linalg.norm(turned - before.projection.values[3], axis=-1).mean() < 6
    )  # px along the body: its ends taper otherwise
    assert (open_result(out).edited == "automatic").all(), "nothing is written before it is kept"
    viewer.post("/api/carry-on", {"way": 1})
    reported = viewer.wait("/api/draft", lambda reported: not reported["running"])
    assert [each["frame"] for each in reported["draft"]["frames"]] == list(range(3, FRAMES)) and not reported["fault"]
    assert reported["ended"] == f"it ends at frame {FRAMES - 1}: there are no more"
    version = viewer.get("/api/state").json["version"]
    kept = viewer.post("/api/keep").json
    assert (
        kept["edit"]["kind"] == "refit" and kept["edit"]["frames"] == [[3, FRAMES - 1]] and kept["version"] != version
    )
    after = open_result(out)
    assert after.edited.values.tolist() == ["automatic"] * 3 + ["pinned"] + ["refitted"] * (FRAMES - 4)
    swapped = after.projection.values[FRAMES - 1, :, ::-1] - before.projection.values[FRAMES - 1]
    assert np.linalg.norm(swapped, axis=-1).mean() < 6  # px along the body: its ends taper otherwise
    shown = np.frombuffer(viewer.get("/api/curves?first=0").body, "<f4")[FRAMES * 128 * 3 :]
    assert np.array_equal(shown[: after.projection.size], after.projection.values.ravel())
    assert viewer.get("/api/history").json["pins"] == [{"frame": 3, **pins[0]}]
    assert viewer.post("/api/undo").status == 200
    assert np.array_equal(open_result(out).position.values, before.position.values)
    assert viewer.post("/api/redo").status == 200
    assert np.array_equal(open_result(out).position.values, after.position.values)
    assert viewer.post("/api/redo").json["error"] == "there is nothing to redo"


def test_a_correction_ends_where_nothing_changes(viewer: Viewer, out: Path) -> None:
    head = open_result(out).projection.values[3, 1, 0].tolist()
    pins = [{"camera": "cam1", "u": head[0], "v": head[1], "part": "head"}]
    viewer.post("/api/refit", {"frame": 3, "pins": pins})
    viewer.post("/api/carry-on", {"way": 1})
    reported = viewer.wait("/api/draft", lambda reported: not reported["running"])
    assert [each["frame"] for each in reported["draft"]["frames"]] == [3], "the neighbours were right already"
    assert reported["ended"] == "frames 4 to 6 come out as they were, so that it ends before them"
    assert viewer.post("/api/drop").json["draft"] is None
    assert viewer.post("/api/keep").status == 400 and not (out / "edits.jsonl").exists()


def test_ranges_are_swapped_marked_and_accepted(viewer: Viewer, out: Path) -> None:
    before = open_result(out)
    assert viewer.post("/api/mark", {"kind": "swap", "first": 1, "last": 2}).json["edit"]["frames"] == [[1, 2]]
    viewer.post("/api/mark", {"kind": "bad", "first": 4, "last": 4})
    viewer.post("/api/mark", {"kind": "accept", "first": 7, "last": 6})
    after = open_result(out)
    assert after.edited.values.tolist() == [
        *("automatic", "pinned", "pinned", "automatic", "pinned", "automatic", "accepted", "accepted"),
    ]
    assert np.array_equal(after.position.values[1:3], before.position.values[1:3, :, ::-1])
    assert np.isnan(after.position.values[4]).all() and after.reason.values[4] == "marked bad"
    viewer.wait("/api/state", lambda state: state["digested"] == FRAMES)
    words = np.frombuffer(viewer.get("/api/words").body, np.uint8).reshape(4, FRAMES)
    assert words[2].tolist() == [0, 1, 1, 0, 1, 0, 3, 3] and words[0, 4] == 2
    assert words[3, 1] & 1 and words[3, 3] & 1, "the head is doubted where it changes places"
    assert words[3, 5] & 2, "a seam behind the gap"
    kymograph = np.frombuffer(viewer.get(f"/api/kymograph?first=0&stop={FRAMES}&columns={FRAMES}").body, np.int8)
    assert (kymograph.reshape(FRAMES, 64)[4] == -128).all() and (kymograph.reshape(FRAMES, 64)[3] != -128).all()
    for bad in (
        {"kind": "burn", "first": 0, "last": 1},
        {"kind": "bad", "first": 0},
        {"kind": "bad", "first": 0, "last": 99},
    ):
        assert viewer.post("/api/mark", bad).status == 400, bad


@pytest.mark.long
def test_pins_are_applied_again_when_the_recording_is_run_again(made: tuple[Path, Path], out: Path) -> None:
    """Another seed is another run: its frames are its own, and the pinned ones go through their pins again."""
    tail = open_result(out).projection.values[2, 0, -1].tolist()
    pins = [{"camera": "cam0", "u": tail[0], "v": tail[1], "part": "head"}]
    with viewing(out) as viewer:
        viewer.post("/api/refit", {"frame": 2, "pins": pins})
        viewer.post("/api/keep")
    run = Manifest.read(out).run
    reconstruct(Job(made[0], out, SETTINGS, seed=5, redo=True), lambda doing, done, total: None)
    assert Manifest.read(out).run != run
    found = open_result(out)
    assert found.edited.values.tolist() == ["automatic"] * 2 + ["pinned"] + ["automatic"] * (FRAMES - 3)
    assert np.linalg.norm(found.projection.values[2, 0, 0] - tail) < 2.5
    assert "fitted again to their pins" in (out / "log.txt").read_text()


def test_a_run_that_is_still_going(out: Path) -> None:
    (out / "midline.nc").unlink()
    manifest = Manifest.read(out)
    result = Result(out, manifest)
    records = {frame: result.read(frame) for frame in range(FRAMES)}
    shutil.rmtree(out / "segments")
    with Result(out, manifest) as growing:
        growing.append(0, records[0])
        growing.flush()
        with viewing(out) as viewer:
            state = viewer.get("/api/state").json
            assert state["done"] == 1 and state["total"] == FRAMES and not state["complete"]
            assert viewer.get("/api/curves?first=0").status == 200
            for frame in range(1, FRAMES):
                growing.append(frame, records[frame])
            growing.flush()
            later = viewer.wait("/api/state", lambda state: state["done"] == FRAMES)
            assert later["version"] != state["version"]
            growing.consolidate()
            assert viewer.wait("/api/state", lambda state: state["complete"])["done"] == FRAMES


def test_a_result_without_its_crops_is_shown_without_pictures(out: Path) -> None:
    shutil.rmtree(out / "crops")
    with viewing(out) as viewer:
        about = viewer.get("/api/about").json
        assert about["crops"] is None and "has no crops" in about["fault"]
        assert viewer.get("/api/curves?first=0").status == 200 and viewer.get("/api/series?name=loss").status == 200
        assert viewer.get("/api/strip?first=0&layer=image").status == 400
        assert viewer.post("/api/refit", {"frame": 1, "pins": []}).status == 400


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        ({"Host": "evil.example"}, "as localhost only"),
        ({"Host": "evil.example:8750"}, "as localhost only"),
        ({"Host": "127.0.0.1.evil.example"}, "as localhost only"),
        ({"Host": ""}, "as localhost only"),
        ({"Origin": "http://evil.example"}, "its own page only"),
        ({"Origin": "null"}, "its own page only"),
        ({"Sec_Fetch_Site": "cross-site"}, "its own page only"),
    ],
)
def test_pages_from_elsewhere_are_refused(viewer: Viewer, headers: dict[str, str], sentence: str) -> None:
    """A page that has its own name point here (DNS rebinding), and one that posts here."""
    for refused in (viewer.get("/api/about", **headers), viewer.post("/api/undo", **headers)):
        assert refused.status == 403 and sentence in refused.json["error"]
    assert viewer.get("/api/about", Host="localhost:1234").status == 200, "through ssh -L the port is another"
    assert viewer.get("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 200, (
        "a link may be followed"
    )
    assert viewer.get("/api/about", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 403


def test_bad_requests_get_a_plain_answer(viewer: Viewer, capfd: pytest.CaptureFixture[str]) -> None:
    answers = [
        (viewer.post("/api/undo", Content_Type="text/plain"), 415),
        (viewer.post("/api/refit", body=b"{"), 400),
        (viewer.post("/api/refit", body=b"[" * 100_000), 400),
        (viewer.post("/api/refit", body=b"[]"), 400),
        (viewer.post("/api/refit", body=b" " * 300_000), 413),
        (viewer.post("/api/refit", {"frame": 1.5}), 400),
        (viewer.post("/api/refit", {"frame": True}), 400),
        (viewer.post("/api/refit", {"frame": 1, "pins": "all"}), 400),
        (viewer.post("/api/refit", {"frame": 1, "pins": [{"camera": "cam0", "u": 1, "v": 1, "part": "leg"}]}), 400),
        (viewer.post("/api/refit", {"frame": 1, "pins": [{"camera": "cam9", "u": 1, "v": 1, "part": "head"}]}), 400),
        (viewer.post("/api/refit", {"frame": 1, "pins": [{"camera": "cam0", "u": "x", "v": 1, "part": "head"}]}), 400),
        (viewer.post("/api/refit", {"frame": 1, "pins": [{"camera": "cam0", "u": 1e99, "v": 1, "part": "head"}]}), 400),
        (viewer.post("/api/carry-on", {"way": 1}), 400),
        (viewer.post("/api/carry-on", {"way": 3}), 400),
        (viewer.post("/api/about"), 405),
        (viewer.get("/api/undo"), 405),
        (viewer.get("/api/nothing"), 404),
        (viewer.get("/static/../app.py"), 404),
        (viewer.get("/static/%2e%2e/app.py"), 404),
        (viewer.get("/static/..%2f..%2fpyproject.toml"), 404),
        (viewer.get("//etc/passwd"), 404),
        (viewer.get("/static//etc/passwd"), 404),
    ]
    for answer, status in answers:
        assert answer.status == status and set(answer.json) == {"error"} and "\n" not in answer.json["error"], answer
        assert "Traceback" not in answer.json["error"]
    assert "Traceback" not in capfd.readouterr().err


def test_nothing_is_loaded_from_elsewhere(viewer: Viewer) -> None:
    page = viewer.get("/")
    assert page.status == 200 and "default-src 'self'" in page.headers["content-security-policy"]
    assert b"http://" not in page.body and b"https://" not in page.body


def test_a_token_is_asked_for_where_others_can_reach_it(out: Path) -> None:
    assert not Place.of("127.0.0.1", None).token and not Place.of("::1", None).token
    assert not Place.of("localhost", None).token
    for host in ("0.0.0.0", "192.168.1.4", "::", "worms.example"):
        assert len(Place.of(host, None).token) > 20, host
    assert Place.of("127.0.0.1", None, token=True).token
    with viewing(out, token="secret") as viewer:
        assert viewer.get("/api/about").status == 403 and viewer.get("/").status == 403
        assert viewer.get("/?token=wrong").status == 403 and viewer.get("/api/about?token=secret").status == 403
        welcome = viewer.get("/?token=secret")
        assert welcome.status == 303 and welcome.headers["location"] == "/"
        cookie = welcome.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Lax" in cookie
        assert viewer.get("/api/about", Cookie=cookie.split(";")[0]).status == 200
        assert viewer.get("/api/about", Cookie=cookie.split(";")[0] + "x").status == 403
        assert viewer.get("/api/about", Authorization="Bearer secret", Host="worms.example").status == 200
        assert viewer.get("/api/about", Authorization="Bearer secret", Origin="http://evil.example").status == 403


def test_where_it_listens_and_what_it_says() -> None:
    with listening(Place(port=0)) as door:
        port = door.getsockname()[1]
        assert door.getsockname()[0] == "127.0.0.1"
        with pytest.raises(InputError, match=rf"port {port} cannot be used .*--port"):
            listening(Place(port=port))
    lines = announcement(Place(), 8750, "http://127.0.0.1:8750/")
    assert "http://127.0.0.1:8750/" in lines[0]
    assert "ssh -L 8750:localhost:8750 " in lines[1] and socket.gethostname() in lines[1]
    open_to_all = announcement(Place("0.0.0.0", None, "t"), 8750, "http://host:8750/?token=t")
    assert "Everybody who has this link" in open_to_all[1]


def test_the_command_refuses_what_is_no_result(midline3d: Command, tmp_path: Path) -> None:  # noqa: F811
    run = midline3d("view", str(tmp_path), "--no-browser")
    assert run.status == 2 and "is no result" in run.err and "Traceback" not in run.err


def test_the_speed_is_that_of_a_known_motion() -> None:
    """Straight on with noise: differences of neighbours overstate it, the slope over some frames hardly does."""
    rng = np.random.default_rng(0)
    path = np.outer(np.arange(400) / 25.0, [0.3, 0.0, 0.4]) + rng.normal(0, 0.01, (400, 3))
    found = digest.speed(path, 25.0)
    assert np.isnan(found[:3]).all() and np.nanmean(found) == pytest.approx(0.5, rel=0.03)
    assert np.linalg.norm(np.diff(path, axis=0), axis=1).mean() * 25 > 0.6
    path[200] = np.nan
    assert np.isnan(digest.speed(path, 25.0)[197:204]).all()
    assert np.isnan(digest.speed(path[:5], 25.0)).all()


def test_the_kymograph_does_not_depend_on_the_free_angle() -> None:
    """A travelling wave, every frame's Bishop frame turned by an angle of its own."""
    rng = np.random.default_rng(1)
    place, time = np.linspace(0, 1, 128), np.arange(50)[:, None]
    wave = 6 * np.sin(2 * np.pi * (1.5 * place - time / 25))
    bent = wave * np.exp(1j * rng.uniform(0, 2 * np.pi, (50, 1)))
    found = digest.kymograph(np.stack([bent.real, bent.imag], -1)).astype(float) * digest.FULL / 127
    middle = wave.reshape(50, 64, 2).mean(-1)
    sign = np.sign((found * middle).sum())
    assert np.abs(found * sign - middle).max() < 0.12
    halves = [digest.kymograph(np.stack([bent.real, bent.imag], -1)[:25])]
    halves.append(digest.kymograph(np.stack([bent.real, bent.imag], -1)[25:], halves[0][-1].astype(float)))
    assert np.array_equal(np.concatenate(halves) * digest.FULL / 127, found), "blocks carry one another on"


def test_doubts_and_seams() -> None:
    numbers = digest.Numbers.blank(10)
    middle = np.arange(10)[:, None] * [0.01, 0.0, 0.0]
    numbers.centroid[:] = middle
    numbers.ends[:] = middle[:, None] + np.array([[[0.5, 0, 0], [-0.5, 0, 0]]])
    numbers.ends[4:] = numbers.ends[4:, ::-1]
    numbers.confidence[:] = 0.9
    numbers.confidence[7, 1] = 0.2
    numbers.moved[:] = 0.01
    numbers.moved[4] = 0.9
    numbers.centroid[2] = np.nan
    assert np.flatnonzero(digest.head_doubts(numbers, np.ones(10))).tolist() == [4, 7]
    unsure = np.array([0.9, 0.6, 0.6, 0.6, 0.9, 0.9, 0.9, 0.9, np.nan, 0.6])
    assert np.flatnonzero(digest.head_doubts(numbers, unsure)).tolist() == [1, 4, 7, 9]
    assert np.flatnonzero(digest.seams(numbers)).tolist() == [3, 4]
