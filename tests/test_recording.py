"""Recordings: what recording.toml may say, every kind of source, and crops that are prepared once."""

import dataclasses
import importlib
import io
import re
from fractions import Fraction

import av
import cv2
import numpy as np
import pytest
import tifffile
from drawn import SIZE, DrawnRecording, centre, rig, write
from hypothesis import given, settings
from hypothesis import strategies as st

from midline3d.calibration import Calibration, save_calibration
from midline3d.errors import InputError
from midline3d.recording import crop_pass, load_recording, prepare
from midline3d.recording.crops import BEGUN, MANIFEST, ROWS, Begun, Log
from midline3d.recording.description import load_description
from midline3d.recording.locating.locator import Locator
from midline3d.recording.locating.survey import survey
from midline3d.recording.sources import ahead, open_source
from midline3d.recording.sources.tiff import alone
from midline3d.settings import LocatingSettings, Settings, load_settings

PREPARE = importlib.import_module("midline3d.recording.prepare")  # the package has a function of this name
QUICK = LocatingSettings(background_frames=13)
STEPS = np.stack([np.full((32, 48), 20 * index, np.uint8) for index in range(12)])
"""Twelve frames whose grey value tells which they are."""
GRAINY = STEPS + np.random.default_rng(0).integers(0, 20, STEPS.shape, np.uint8)
"""The same, not so easily compressed."""


def write_video(path, stack, codec="ffv1", pixels="gray", drop=()):
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25)
        stream.height, stream.width, stream.pix_fmt = *stack.shape[1:], pixels
        for index, picture in enumerate(stack):
            if index in drop:
                continue
            frame = av.VideoFrame.from_ndarray(picture, format="gray")
            frame.pts, frame.time_base = index, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    return write(tmp_path_factory.mktemp("drawn"), DrawnRecording().pictures())


# --- sources --------------------------------------------------------------------------------------------------------


def sources(folder, kind):
    if kind == "npy":
        np.save(folder / "s.npy", STEPS)
        return folder / "s.npy"
    if kind == "tiff pages":
        tifffile.imwrite(folder / "s.tif", STEPS, photometric="minisblack", metadata=None)
        return folder / "s.tif"
    if kind == "tiff block":
        tifffile.imwrite(folder / "b.tif", STEPS, photometric="minisblack")
        return folder / "b.tif"
    if kind == "tiff LZW":  # as ImageJ and MATLAB write it
        assert cv2.imwritemulti(str(folder / "l.tif"), list(STEPS), [cv2.IMWRITE_TIFF_COMPRESSION, 5])
        return folder / "l.tif"
    if kind == "pictures":
        (folder / "pictures").mkdir()
        for index, picture in enumerate(STEPS):
            cv2.imwrite(str(folder / "pictures" / f"img{index}.png"), picture)
        return folder / "pictures"
    codec, pixels, suffix = kind.split()
    return write_video(folder / f"v{suffix}", STEPS, codec, pixels)


KINDS = [
    *("npy", "tiff pages", "tiff block", "tiff LZW", "pictures"),
    *("ffv1 gray .avi", "mjpeg yuvj420p .avi", "libx264 yuv420p .mp4", "mpeg4 yuv420p .avi", "ffv1 gray16le .mkv"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_source_gives_the_same_frames(tmp_path, kind):
    source = open_source(sources(tmp_path, kind))
    assert (source.count, source.size) == (12, (48, 32))
    full = 257 if "gray16" in kind else 1
    got = {index: float(picture.mean()) / full for index, picture in source.frames()}
    assert list(got) == list(range(12))
    np.testing.assert_allclose(list(got.values()), STEPS[:, 0, 0], atol=3)
    picked = {index: float(picture.mean()) / full for index, picture in source.read([1, 2, 7, 11])}
    np.testing.assert_allclose(list(picked.values()), STEPS[[1, 2, 7, 11], 0, 0], atol=3)
    assert [index for index, _ in source.frames(4, 7)] == [4, 5, 6]


@pytest.mark.parametrize(
    "written", [{}, {"byteorder": ">"}, {"tile": (16, 16)}, {"bigtiff": True}, {"rowsperstrip": 7}]
)
@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_a_page_can_be_taken_out_of_its_file(tmp_path, written, kind):
    pages = np.random.default_rng(0).integers(0, 255, (3, 32, 48)).astype(kind) << 8 * (np.dtype(kind).itemsize - 1)
    tifffile.imwrite(tmp_path / "s.tif", pages, photometric="minisblack", metadata=None, **written)
    with tifffile.TiffFile(tmp_path / "s.tif") as file:
        found = [tifffile.imread(io.BytesIO(alone(page))) for page in file.pages]
    np.testing.assert_array_equal(found, pages)


def test_colour_becomes_grey(tmp_path):
    np.save(tmp_path / "c.npy", np.repeat(STEPS[..., None], 3, -1))
    assert next(open_source(tmp_path / "c.npy").read([3]))[1][0, 0] == 60


def test_frames_are_counted_by_time(tmp_path):
    source = open_source(write_video(tmp_path / "v.avi", STEPS, drop=(4, 5)))
    assert (source.count, source.missing) == (12, (4, 5))
    got = dict(source.frames())
    assert [index for index, picture in got.items() if picture is None] == [4, 5]
    assert got[6][0, 0] == 120


def test_a_broken_picture_is_one_lost_frame(tmp_path):
    folder = sources(tmp_path, "pictures")
    (folder / "img5.png").write_bytes(b"no picture")
    lost = [index for index, picture in open_source(folder).frames() if picture is None]
    assert lost == [5]


def test_a_broken_packet_is_one_lost_frame(tmp_path):
    path = write_video(tmp_path / "v.avi", GRAINY, "mjpeg", "yuvj420p")
    content = bytearray(path.read_bytes())
    starts = [place for place in range(len(content) - 1) if content[place : place + 2] == b"\xff\xd8"]
    content[starts[6] : starts[7] - 8] = bytes(starts[7] - 8 - starts[6])  # up to the header of the next
    path.write_bytes(content)
    lost = [index for index, picture in open_source(path).frames() if picture is None]
    assert lost == [6]


def test_a_truncated_video_keeps_what_is_left(tmp_path):
    path = write_video(tmp_path / "v.avi", GRAINY)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    source = open_source(path)
    assert 0 < source.count < 12


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.avi", b"", r"is empty \(0 bytes\); copy it again"),
        ("text.avi", b"this is no video\n" * 50, "cannot read it as a video"),
        ("text.npy", b"this is no stack", "cannot be read as .npy"),
        ("text.tif", b"this is no picture", "cannot be read as TIFF"),
        ("one.png", b"x", "is a single picture"),
        ("absent.avi", None, "no such source"),
    ],
)
def test_bad_sources_are_one_sentence(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as fault:
        open_source(tmp_path / name)
    assert name in str(fault.value)


def test_an_mp4_cut_off_before_its_index_is_one_sentence(tmp_path):
    path = write_video(tmp_path / "v.mp4", STEPS, "libx264", "yuv420p")
    path.write_bytes(path.read_bytes()[:400])
    with pytest.raises(InputError, match=r"v.mp4"):
        open_source(path)


def test_a_video_without_frames_is_one_sentence(tmp_path):
    write_video(tmp_path / "v.avi", STEPS, drop=range(12))
    with pytest.raises(InputError, match=r"v.avi"):
        open_source(tmp_path / "v.avi")


def test_wrong_arrays_are_one_sentence(tmp_path):
    np.save(tmp_path / "f.npy", np.zeros((3, 4)))
    with pytest.raises(InputError, match=r"\(frame, height, width\)"):
        open_source(tmp_path / "f.npy")
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="holds no pictures"):
        open_source(tmp_path / "none")


def test_decoding_ahead_is_bounded_and_stops():
    made = []

    def make():
        for index in range(1000):
            made.append(index)
            yield index

    items = ahead(make(), 3)
    assert next(items) == 0
    items.close()
    assert len(made) < 10

    def fail():
        yield 1
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        list(ahead(fail(), 2))


# --- recording.toml -------------------------------------------------------------------------------------------------


def test_what_is_not_said_has_a_default(drawn):
    recording = load_recording(drawn)
    assert (recording.count, recording.fps, recording.worm, recording.centre) == (24, 25.0, "auto", "track")
    assert load_recording(drawn / "recording.toml").views[0].name == "cam0"


WRONG = {
    "unknown key 'framerate'; the known keys there are calibration": "framerate = 3",
    "fps is -1": "fps = -1",
    "crop is 3 px": "crop = 3",
    "worm": 'worm = "green"',
    "not valid TOML": "name = ",
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_keys_are_one_sentence(tmp_path, message):
    text = (
        WRONG[message]
        + '\ncalibration = "c.json"\n[[cameras]]\nname="a"\nsource="a"\n[[cameras]]\nname="b"\nsource="b"\n'
    )
    (tmp_path / "recording.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        load_description(tmp_path)


TABLES = '[[cameras]]\nname="a"\nsource="a"\n[[cameras]]\nname="b"\nsource="b"\n'
PLAIN = {
    "a misplaced key": (
        TABLES + "fps = 25",
        r"the key 'fps' stands below [[cameras]], which makes it a key of that; move it above the first [[cameras]]",
    ),
    "below the frame": ("[frame]\nworm = 'dark'\n" + TABLES, "the key 'worm' stands below [frame], which makes it"),
    "one table": ('[cameras]\nname="a"', "write [[cameras]] above each, not [cameras]"),
    "no tables": ('cameras = ["a.avi", "b.avi"]', "'cameras.0' is 'a.avi', but a table with the keys name, source, "),
    "a word": ('crop = "big"\n' + TABLES, "'crop' is 'big', but a whole number or 'auto' is wanted; correct it"),
    "a colour": ('worm = "green"\n' + TABLES, "'worm' is 'green', but 'dark', 'bright' or 'auto' is wanted"),
    "a number for text": ("name = 37\n" + TABLES, "'name' is 37, but a text in quotes is wanted"),
    "a text for a list": (
        TABLES + '[frame]\ngrid = "9x6"',
        "'frame.grid' is '9x6', but a list in [ ] is wanted; write [9, 6]",
    ),
    "too long": (TABLES + "[frame]\ngrid = [9, 6, 3]", "'frame.grid' is [9, 6, 3], but 2 values are wanted; leave out"),
    "too short": (TABLES + "[frame]\ngrid = [9]", "'frame.grid' is [9], but that is too short; add what is missing"),
    "a path of Windows": (
        'name = "D:\\data"\n' + TABLES,
        "write / for each \\ in line 2, or single quotes for the double",
    ),
}


@pytest.mark.parametrize("kind", PLAIN)
def test_wrong_kinds_are_said_in_plain_words(tmp_path, kind):
    text, message = PLAIN[kind]
    (tmp_path / "recording.toml").write_text(f'calibration = "c.json"\n{text}\n')
    with pytest.raises(InputError, match=re.escape(message)) as fault:
        load_description(tmp_path)
    assert "recording.toml" in str(fault.value) and "should" not in str(fault.value)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_text_of_another_encoding(tmp_path, encoding):
    (tmp_path / "recording.toml").write_bytes(f'calibration = "c.json"\nname = "Würmer"\n{TABLES}'.encode(encoding))
    line = 2 if encoding == "latin-1" else 1
    with pytest.raises(
        InputError, match=rf"cannot be read as text in UTF-8 \(line {line}\); save it as UTF-8"
    ) as fault:
        load_description(tmp_path)
    assert "codec" not in str(fault.value)


def test_a_backslash_that_changes_the_letter_after_it(drawn):
    for path in ("D:\\trials\\cam0.avi", "D:\\new\\cam0.avi"):
        text = (drawn / "recording.toml").read_text().replace('"cam0.npy"', f'"{path}"', 1).replace("\\cam", "/cam")
        (drawn / "windows.toml").write_text(text)
        with pytest.raises(InputError, match=r"in double quotes a \\ changes the letter after it; write / for it"):
            load_recording(drawn / "windows.toml")


def test_the_background_of_all_cameras_below_the_last(drawn):
    (drawn / "below.toml").write_text((drawn / "recording.toml").read_text() + 'background = "none"\n')
    with pytest.raises(
        InputError, match=r'background = "none" stands below \[\[cameras\]\], .* move it above the first'
    ):
        load_recording(drawn / "below.toml")


TRUTHS = {
    "fps": "fps = true",
    "crop": "crop = false",
    "cameras.0.offset": "",
    "frame.origin.1": "frame = { up = [0, 0, 1], heading = [1, 0, 0], origin = [0, true, 0] }",
    "frame.grid.0": 'frame = { board = { a = "b.png" }, grid = [true, 6], square = 0.5 }',
}


@pytest.mark.parametrize("key", TRUTHS)
def test_true_and_false_are_no_numbers(tmp_path, key):
    offset = "offset = true\n" if key == "cameras.0.offset" else ""
    tables = f'[[cameras]]\nname="a"\nsource="a"\n{offset}[[cameras]]\nname="b"\nsource="b"\n'
    (tmp_path / "recording.toml").write_text(f'calibration = "c.json"\n{TRUTHS[key]}\n{tables}')
    with pytest.raises(InputError, match=rf"'{key}' is (true|false), but a number is wanted; correct it"):
        load_description(tmp_path)


def test_cameras_must_be_two_of_different_names(tmp_path):
    table = '[[cameras]]\nname="a"\nsource="a"\n'
    for text, message in ((table, "lists 1 camera"), (table * 2, "two cameras are named 'a'")):
        (tmp_path / "recording.toml").write_text('calibration = "c.json"\n' + text)
        with pytest.raises(InputError, match=message):
            load_description(tmp_path)
    with pytest.raises(InputError, match=r"nowhere: there is no such file; a recording is a folder"):
        load_description(tmp_path / "nowhere")


def test_two_cameras_have_two_sources(tmp_path):
    folder = write(tmp_path, list(np.zeros((3, 5, SIZE, SIZE), np.uint8)))
    toml = folder / "recording.toml"
    toml.write_text(toml.read_text().replace("cam1.npy", "./cam0.npy"))
    with pytest.raises(
        InputError, match=r"toml: 'cam0' and 'cam1' have one source, ./cam0.npy; give each camera its own"
    ):
        load_recording(folder)


def test_one_camera_41_frames_longer(tmp_path):
    pictures = list(np.zeros((3, 5, SIZE, SIZE), np.uint8))
    pictures[1] = np.zeros((46, SIZE, SIZE), np.uint8)
    folder = write(tmp_path, pictures)
    with pytest.raises(
        InputError, match=r"cam1 has 41 frames more than cam0 \(46, 5\): set cameras.offset, or --shortest"
    ):
        load_recording(folder)
    assert load_recording(folder, shortest=True).count == 5
    text = (folder / "recording.toml").read_text().replace('source = "cam1.npy"', 'source = "cam1.npy"\noffset = 41')
    (folder / "recording.toml").write_text(text)
    assert load_recording(folder).count == 5


def test_images_of_another_size_than_the_calibration(tmp_path):
    folder = write(tmp_path, np.zeros((3, 2, SIZE, SIZE // 2), np.uint8))
    with pytest.raises(InputError, match="cam0's images are 120 x 240 px, but its calibration is for 240 x 240"):
        load_recording(folder)


def test_cameras_in_another_order_than_the_calibration(drawn, tmp_path):
    save_calibration(Calibration(rig().cameras[::-1]), tmp_path / "c.json")
    text = (drawn / "recording.toml").read_text().replace("calibration.json", str(tmp_path / "c.json"))
    (drawn / "other.toml").write_text(text)
    recording = load_recording(drawn / "other.toml")
    assert recording.calibration.names == ("cam0", "cam1", "cam2")


@settings(max_examples=60, deadline=None)
@given(
    text=st.text(max_size=60),
    key=st.sampled_from(["fps", "crop", "worm", "name", "background", "centre", "calibration", "cameras", "x"]),
    value=st.sampled_from(
        ["1", "-1", "nan", "inf", '""', "[]", "{}", "true", "[[1]]", '"auto"', "1e400", "2020-01-01"]
    ),
)
def test_only_input_errors_come_out_of_recordings(tmp_path_factory, text, key, value):
    folder = tmp_path_factory.getbasetemp()
    tables = '\n[[cameras]]\nname="a"\nsource="a"\n[[cameras]]\nname="b"\nsource="b"\n' if key != "cameras" else ""
    base = 'calibration = "c.json"\n' if key != "calibration" else ""
    for content in (text, f"{base}{key} = {value}{tables}"):
        (folder / "recording.toml").write_text(content, encoding="utf-8")
        with pytest.raises(InputError):
            load_recording(folder)


names = st.sampled_from([item.name for item in dataclasses.fields(Settings)] + ["x"])
keys = st.sampled_from([item.name for item in dataclasses.fields(LocatingSettings)] + ["vertices", "x"])
values = st.sampled_from(["1", "-1", "nan", "1e400", '""', "[]", "{}", "true", "[1, 2]", "[[1]]", "2020-01-01", "0x"])


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=60), table=names, key=keys, value=values)
def test_only_input_errors_come_out_of_settings(tmp_path_factory, text, table, key, value):
    path = tmp_path_factory.getbasetemp() / "settings.toml"
    for content in (text, f"[{table}]\n{key} = {value}", f"{table} = {value}"):
        path.write_text(content, encoding="utf-8")
        try:
            load_settings(path)
        except InputError as fault:
            assert "settings.toml" in str(fault)


# --- prepared crops -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("prepared")


def test_prepared_once_and_then_read(drawn, kept):
    recording, calls = load_recording(drawn), []
    prepared = prepare(recording, QUICK, kept, progress=lambda *done: calls.append(done))
    assert calls[-1] == (24, 24)
    assert len(prepared) == 24
    calls.clear()
    again = prepare(recording, QUICK, kept, progress=lambda *done: calls.append(done))
    assert not calls
    np.testing.assert_array_equal(again[5].images, prepared[5].images)


def test_what_was_interrupted_or_made_for_other_settings_is_made_again(tmp_path):
    recording = load_recording(write(tmp_path, DrawnRecording(frames=5, cameras=2).pictures()))
    calls = []
    prepare(recording, QUICK, tmp_path / "p")
    (tmp_path / "p" / MANIFEST).unlink()  # it is written last
    prepare(recording, QUICK, tmp_path / "p", progress=lambda *done: calls.append(done))
    assert calls.pop() == (5, 5)
    prepare(
        recording,
        LocatingSettings(background_frames=13, margin=0.3),
        tmp_path / "p",
        progress=lambda *done: calls.append(done),
    )
    assert calls.pop() == (5, 5)


def stopping_at(frame, times=1):
    """A progress that is interrupted when so many frames are done for the so-manieth time."""
    left = [times]

    def stop(done, total):
        left[0] -= done == frame
        if not left[0]:
            raise KeyboardInterrupt

    return stop


def assert_same_crops(one, other):
    np.testing.assert_array_equal(
        np.stack([frame.images for frame in one]), np.stack([frame.images for frame in other])
    )
    for name, values in vars(one.log).items():
        np.testing.assert_array_equal(values, getattr(other.log, name), err_msg=name)
    np.testing.assert_array_equal(one.noise, other.noise)
    assert one.window == other.window


def test_what_was_interrupted_goes_on(tmp_path, drawn, monkeypatch):
    monkeypatch.setattr(crop_pass, "SAVED", 5)
    recording, chosen = load_recording(drawn), LocatingSettings(background_frames=13, lag=4)
    whole = prepare(recording, chosen, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        prepare(recording, chosen, tmp_path / "half", progress=stopping_at(18))
    calls = []
    half = prepare(recording, chosen, tmp_path / "half", progress=lambda done, total: calls.append(done))
    assert calls == [15, *range(15, 24), 24]  # 15 were saved, and only those after are cut again
    assert_same_crops(whole, half)
    assert not (tmp_path / "half" / BEGUN).exists()


def test_a_worm_that_turns_out_longer_is_cut_again_but_not_located_again(tmp_path, drawn, monkeypatch):
    """The first look is made to take it for half as long; interrupted at any moment all comes out the same."""
    monkeypatch.setattr(crop_pass, "SAVED", 5)
    recording, chosen, seen = load_recording(drawn), LocatingSettings(background_frames=13, lag=4), []
    expected = prepare(recording, chosen, tmp_path / "right")

    def short_sighted(*arguments):
        found = survey(*arguments)
        return dataclasses.replace(found, extent=found.extent / 2)

    monkeypatch.setattr(PREPARE, "survey", short_sighted)
    look = Locator.look
    monkeypatch.setattr(Locator, "look", lambda self, *frame: seen.append(frame[0]) or look(self, *frame))
    again = prepare(recording, chosen, tmp_path / "again")
    assert sorted(seen) == list(range(24))
    assert_same_crops(expected, again)
    for stop in (stopping_at(17), stopping_at(3), stopping_at(17, times=2)):
        with pytest.raises(KeyboardInterrupt):
            prepare(recording, chosen, tmp_path / "half", progress=stop)
    assert_same_crops(expected, prepare(recording, chosen, tmp_path / "half"))


def test_a_begun_preparation_that_does_not_fit_is_begun_again(tmp_path):
    log = Log.blank(3, 2)
    log.centre[:2] = 3.5
    Begun("ours", 64, 0, log, []).further(2, [np.ones(4, np.float32)] * 2, tmp_path)
    assert Begun.load(tmp_path, "ours") is None  # there are no crops
    (tmp_path / "crops.npy").write_bytes(b"")
    found = Begun.load(tmp_path, "ours")
    assert found.done == 2
    np.testing.assert_array_equal(found.log.centre[:, 0], [3.5, 3.5, np.nan])
    assert Begun.load(tmp_path, "other") is None
    (tmp_path / BEGUN).write_bytes((tmp_path / BEGUN).read_bytes()[:100])
    assert Begun.load(tmp_path, "ours") is None


def test_a_begun_log_is_saved_as_far_as_it_is_new_and_known_when_damaged(tmp_path):
    log = Log.blank(4000, 2)
    log.reach[:] = np.arange(4000)
    begun, written = Begun("ours", 64, 0, log, []), []
    (tmp_path / "crops.npy").write_bytes(b"")
    for done in (250, 2000, 2250):
        begun = begun.further(done, [np.ones(4, np.float32)] * 2, tmp_path)
        written.append((tmp_path / BEGUN).stat().st_size)
    assert written[0] == written[-1] < 4000  # whatever is done already
    assert (tmp_path / ROWS).stat().st_size == 2250 * log.row.itemsize
    found = Begun.load(tmp_path, "ours")
    assert found.further(2500, found.quiet, tmp_path).done == 2500
    np.testing.assert_array_equal(
        Begun.load(tmp_path, "ours").log.reach[:2500], log.reach[:2250].tolist() + [np.nan] * 250
    )
    content = bytearray((tmp_path / ROWS).read_bytes())
    content[100] ^= 1
    (tmp_path / ROWS).write_bytes(content)
    assert Begun.load(tmp_path, "ours") is None


def test_crops_hold_the_worm_on_a_quiet_ground(drawn, kept):
    prepared = prepare(load_recording(drawn), QUICK, kept)
    assert prepared.window % 8 == 0
    assert prepared.scale == pytest.approx(90, rel=0.01)
    assert set(np.round(prepared.noise, 1)) <= {1.3, 1.4, 1.5, 1.6, 1.7}
    for frame in prepared:
        assert frame.location == "located"
        assert np.linalg.norm(frame.centre - centre(frame.frame)) * 90 < 3
        edge = np.concatenate([frame.images[:, :2].ravel(), frame.images[:, -2:].ravel()])
        assert frame.images.max() > 100
        assert edge.max() < 30


def test_a_part_of_the_frames(drawn, tmp_path):
    prepared = prepare(load_recording(drawn), QUICK, tmp_path / "p", frames=range(6, 10))
    assert [frame.frame for frame in prepared] == [6, 7, 8, 9]
    with pytest.raises(InputError, match=r"frames 6:99 were asked for, but the recording has 0:24"):
        prepare(load_recording(drawn), QUICK, tmp_path / "q", frames=range(6, 99))


def test_black_and_unreadable_frames_are_bridged(tmp_path):
    pictures = DrawnRecording().pictures()
    pictures[1, 7] = 0
    pictures[:, 12:14] = 0
    prepared = prepare(load_recording(write(tmp_path, pictures)), QUICK, tmp_path / "p")
    lost = [frame.frame for frame in prepared if frame.location == "unreadable"]
    assert lost == [7, 12, 13]
    assert np.isnan(prepared[12].centre).all()
    assert prepared[14].location == "located"


def test_all_black_is_one_sentence(tmp_path):
    folder = write(tmp_path, np.zeros((3, 8, SIZE, SIZE), np.uint8))
    with pytest.raises(InputError, match="all black"):
        prepare(load_recording(folder), QUICK, tmp_path / "p")


def test_worm_centred_images_are_taken_whole(tmp_path):
    pictures = DrawnRecording(frames=4, bright=True, dirt=0).pictures()
    folder = write(tmp_path, pictures, 'worm = "bright"\nbackground = "none"\ncentre = "fixed"')
    prepared = prepare(load_recording(folder), QUICK, tmp_path / "p")
    assert prepared.window == SIZE
    np.testing.assert_array_equal(prepared[2].images, pictures[:, 2])
    np.testing.assert_array_equal(prepared[2].origin, 0)
    np.testing.assert_allclose(prepared[2].centre, 0, atol=1e-6)


def test_own_background_and_16_bits(tmp_path):
    pictures = DrawnRecording(frames=10).pictures()
    empty = DrawnRecording(frames=1, worms=(), noise=0).pictures()[:, 0]
    folder = write(tmp_path, pictures.astype(np.uint16) * 16)
    text = (folder / "recording.toml").read_text()
    for index, picture in enumerate(empty):
        cv2.imwrite(str(folder / f"bg{index}.png"), picture.astype(np.uint16) * 16)
        text = text.replace(f'"cam{index}.npy"', f'"cam{index}.npy"\nbackground = "bg{index}.png"')
    (folder / "recording.toml").write_text(text)
    prepared = prepare(load_recording(folder), QUICK, tmp_path / "p")
    assert all(frame.location == "located" for frame in prepared)
    assert np.abs(prepared.log.centre - [centre(index) for index in range(10)]).max() * 90 < 3
    assert np.median(prepared[3].images) <= 3
