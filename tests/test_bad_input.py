"""Bad input of every kind, in real files: one sentence that names the thing, and nothing else."""

import json
import re
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
from drawn import DrawnRecording, rig, write
from hypothesis import given, settings
from hypothesis import strategies as st
from test_recording import GRAINY, STEPS, write_video

from midline3d.calibration import load_calibration, save_calibration
from midline3d.calibration.opencv import DEEPEST, nesting
from midline3d.errors import InputError
from midline3d.recording import check, load_recording, prepare
from midline3d.recording.crops import LOG, MANIFEST
from midline3d.recording.sources import open_source
from midline3d.settings import LocatingSettings, load_settings

QUICK = LocatingSettings(background_frames=13)
DEEP = 30_000


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    return write(tmp_path_factory.mktemp("drawn"), DrawnRecording(frames=12).pictures())


def sentence(fault: pytest.ExceptionInfo) -> str:
    text = str(fault.value)
    assert "\n" not in text and len(text) < 700, text
    return text


# --- calibrations ---------------------------------------------------------------------------------------------------


def with_rig(folder: Path, drawn: Path, change) -> Path:
    """A recording description with the drawn's sources and a calibration changed by `change(cameras)`."""
    content = json.loads((drawn / "calibration.json").read_text())
    change(content)
    (folder / "c.json").write_text(json.dumps(content))
    text = (drawn / "recording.toml").read_text().replace("calibration.json", str(folder / "c.json"))
    for index in range(3):
        text = text.replace(f'"cam{index}.npy"', f'"{drawn}/cam{index}.npy"')
    (folder / "recording.toml").write_text(text)
    return folder


def put(key, place, value):
    """Sets one number of the second camera."""

    def change(content):
        target = content["cameras"][1][key]
        for step in place[:-1]:
            target = target[step]
        target[place[-1]] = value

    return change


def far(content):
    for camera in content["cameras"]:
        camera["translation"][2] *= 1000


def same_direction(content):
    for index, camera in enumerate(content["cameras"]):
        camera["rotation"] = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
        camera["translation"][0] += 0.1 * index


IMPOSSIBLE = {
    "focal lengths 1e+300": put("matrix", (0, 0), 1e300),
    "1e-300 px": put("matrix", (1, 1), 1e-300),
    "matrix contains 1e+300": put("matrix", (0, 2), 1e300),
    "list of distortions contains 1e+300": put("distortions", (0,), 1e300),
    "fold its image": put("distortions", (0,), -3e8),
    "translation contains 1e+300": put("translation", (2,), 1e300),
    "does not look where the others do": put("translation", (0,), 900.0),
    "mm behind it": put("translation", (2,), -1000.0),
    "has 9e+04 px/mm": lambda content: content.update(units="um"),
    "has 0.09 px/mm": far,
    "look in the same direction": same_direction,
    "beyond 1e+06": lambda content: (far(content), content.update(units="m")),
}


@pytest.mark.parametrize("message", IMPOSSIBLE)
def test_rigs_that_cannot_be(tmp_path, drawn, message):
    folder = with_rig(tmp_path, drawn, IMPOSSIBLE[message])
    with pytest.raises(InputError, match=re.escape(message)) as fault:
        load_recording(folder)
    assert "c.json" in sentence(fault)


@settings(max_examples=80, deadline=None)
@given(
    key=st.sampled_from(["matrix", "distortions", "rotation", "translation"]),
    place=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    value=st.sampled_from([0.0, -1.0, 1e-300, 1e-9, 1e9, 1e18, 1e300, -1e300, float("nan"), float("inf")]),
)
def test_no_number_of_a_calibration_does_worse_than_an_input_error(tmp_path_factory, drawn, key, place, value):
    where = place if key in ("matrix", "rotation") else place[:1]
    folder = with_rig(tmp_path_factory.getbasetemp(), drawn, put(key, where, value))
    try:
        recording = load_recording(folder)
    except InputError as fault:
        assert str(fault)
    else:  # then it is a rig that can be computed with
        assert np.isfinite(recording.calibration.to_cameras().shift_basis.numpy()).all()


NESTED = {
    "a.json": '{"cameras": ' + "[" * DEEP + "]" * DEEP + "}",
    "a.toml": "a = " + "[" * DEEP + "]" * DEEP,
    "tags.xml": '<?xml version="1.0"?>\n<opencv_storage>\n' + "<a>" * DEEP + "</a>" * DEEP + "</opencv_storage>",
    "lines.xml": '<?xml version="1.0"?>\n<opencv_storage>\n' + '<a b="1">\n' * DEEP,
    "json.xml": '{"a":' * DEEP + "1" + "}" * DEEP,
    "flow.yml": "%YAML:1.0\n---\na: " + "[" * DEEP + "]" * DEEP,
    "maps.yml": "%YAML:1.0\n---\na: " + "{a: " * DEEP,
    "indents.yml": "%YAML:1.0\n---\n" + "\n".join(" " * level + "a:" for level in range(2000)),
    "dashes.yml": "%YAML:1.0\n---\na:\n   " + "- " * DEEP + "1",
}


@pytest.mark.parametrize("name", NESTED)
def test_nesting_is_answered_before_a_parser_sees_it(tmp_path, name):
    (tmp_path / name).write_text(NESTED[name])
    with pytest.raises(InputError, match=name) as fault:
        load_calibration(tmp_path / name)
    assert "nest" in sentence(fault) or "recursion" in sentence(fault)


def test_what_opencv_writes_is_not_deep(tmp_path):
    for suffix in (".xml", ".yml"):
        save_calibration(rig(), tmp_path / f"c{suffix}")
        assert nesting((tmp_path / f"c{suffix}").read_text()) < DEEPEST / 2


def test_a_file_of_gigabytes_is_not_read(tmp_path):
    with (tmp_path / "c.json").open("wb") as file:
        file.truncate(3 * 2**30)
    with pytest.raises(InputError, match="is it the right file"):
        load_calibration(tmp_path / "c.json")


# --- settings -------------------------------------------------------------------------------------------------------

SILLY = {
    "curve.vertices": "2",
    "start.starts": "0",
    "curve.length": "[3.0, 0.3]",
    "pixels.cutoff": "-1.0",
    "locating.memory": "nan",
    "second_order.smoothness": "-5.0",
    "adam.decay": "2.0",
    "body.sure": "-1e300",
    "locating.candidates": "1000000",
}


@pytest.mark.parametrize("name", SILLY)
def test_settings_out_of_range(tmp_path, name):
    table, key = name.split(".")
    (tmp_path / "s.toml").write_text(f"[{table}]\n{key} = {SILLY[name]}\n")
    with pytest.raises(InputError, match=f"'{name}' is .*, but .*; correct it"):
        load_settings(tmp_path / "s.toml")


# --- sources and backgrounds ----------------------------------------------------------------------------------------


def test_an_npz_called_npy(tmp_path):
    with (tmp_path / "s.npy").open("wb") as file:
        np.savez(file, a=STEPS)
    with pytest.raises(InputError, match=r"is an .npz archive"):
        open_source(tmp_path / "s.npy")


STACKS = {
    "whole numbers; save stack.round().astype(numpy.uint8)": STEPS.astype(np.float32),
    "a stack has the axes (frame, height, width), or": STEPS[1],
    "which is empty; save the pictures again": STEPS[:0],
    "save it as numpy.uint8 or numpy.uint16": STEPS.astype(complex),
    "goes down to -9, but grey values begin at 0; give the pictures as filmed": STEPS.astype(np.int16) - 9,
}


@pytest.mark.parametrize("message", STACKS)
def test_stacks_that_are_no_pictures(tmp_path, message):
    np.save(tmp_path / "s.npy", STACKS[message])
    with pytest.raises(InputError, match=re.escape(message)) as fault:
        open_source(tmp_path / "s.npy")
    assert "s.npy: holds" in sentence(fault)


def test_a_stack_of_signed_integers_from_0_on(tmp_path):
    np.save(tmp_path / "s.npy", STEPS.astype(np.int32))
    assert open_source(tmp_path / "s.npy").count == len(STEPS)


@pytest.mark.parametrize("side", range(1, 9))
def test_stacks_of_a_few_pixels(tmp_path, side):
    np.save(tmp_path / "s.npy", np.full((5, side, side), 7, np.uint8))
    with pytest.raises(InputError, match=f"pictures are {side} x {side} px"):
        open_source(tmp_path / "s.npy")


@pytest.mark.parametrize("name", ["img\u00b2.png", "img\u0663.png", "i" + "9" * 200 + ".png"])
def test_pictures_with_odd_digits(tmp_path, name):
    for file in (name, "img1.png", "img10.png"):
        (tmp_path / file).write_bytes(cv2.imencode(".png", STEPS[1])[1].tobytes())
    assert open_source(tmp_path).count == 3


def put_pictures(folder: Path, names, picture=STEPS[1]) -> Path:
    """A folder of pictures under these names."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(cv2.imencode(".png", picture)[1].tobytes())
    return folder


def test_hidden_files_are_no_frames(tmp_path):
    folder = put_pictures(tmp_path / "cam0", [f"{index:06d}.png" for index in range(5)])
    for name in ("._000003.png", ".DS_Store", ".000009.png", "Thumbs.db"):
        (folder / name).write_bytes(b"\x00\x05\x16\x07")
    source = open_source(folder)
    assert (source.count, source.missing) == (5, ())
    assert all(picture is not None for _, picture in source.frames())


@pytest.mark.parametrize("stray", ["background.png", "img3 copy.png", "img2.jpg", "img2_small.png"])
def test_a_picture_that_is_none_of_the_numbered_ones(tmp_path, stray):
    folder = put_pictures(tmp_path / "cam0", [f"img{index}.png" for index in range(1, 13)] + [stray])
    with pytest.raises(InputError, match=f"'{stray}' is none of the numbered pictures img1.png to img12.png") as fault:
        open_source(folder)
    assert sentence(fault).endswith("move it out of the folder")


GAPS = {
    "grabber": ([f"{index:06d}.png" for index in range(10, 22) if index not in (16, 17)], (6, 7)),
    "several numbers": ([f"exp2_cam1_{index:06d}.png" for index in range(12) if index != 5], (5,)),
    "tens": ([f"img{index}0.png" for index in range(1, 13) if index != 7], (6,)),
    "none": ([f"img{index}.png" for index in range(7, 19)], ()),
    "none, in tens": ([f"img{index}0.png" for index in range(12)], ()),
    "chosen": (["img1.png", "img2.png", "img7.png", "img11.png", "img12.png", "img30.png"], ()),
    "two series": ([f"img{index}.png" for index in (1, 2, 3, 4, 5, 6001, 6002, 6003, 6004, 6005)], ()),
    "a number that stands still last": ([f"{index}_of_40.png" for index in (0, 1, 2, 4, 5, 6)], (3,)),
}


@pytest.mark.parametrize("kind", GAPS)
def test_a_number_left_out_is_a_dropped_frame(tmp_path, kind):
    names, missing = GAPS[kind]
    source = open_source(put_pictures(tmp_path / "cam0", names))
    assert (source.count, source.missing) == (len(names) + len(missing), missing)
    assert tuple(index for index, picture in source.frames() if picture is None) == missing


def test_frames_after_a_gap_stay_in_step(tmp_path):
    folder = tmp_path / "cam0"
    for index in (0, 1, 2, 3, 5, 6, 7):
        put_pictures(folder, [f"{index}.png"], STEPS[index])
    assert [int(picture[0, 0]) for _, picture in open_source(folder).read([3, 5, 7])] == [60, 100, 140]


ORDERLESS = {
    "words": ["ant.png", "bee.png", "cat.png", "dog.png"],
    "time stamps": ["t103.png", "t141.png", "t183.png", "t222.png", "last.png"],
    "two cameras": ["a1.png", "a2.png", "a3.png", "b1.png", "b2.png", "b3.png"],
}


@pytest.mark.parametrize("kind", ORDERLESS)
def test_names_that_are_no_series_are_all_frames(tmp_path, kind):
    source = open_source(put_pictures(tmp_path / "cam0", ORDERLESS[kind]))
    assert (source.count, source.missing) == (len(ORDERLESS[kind]), ())


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.95])
@pytest.mark.parametrize("block", [True, False])
def test_a_truncated_tiff(tmp_path, share, block):
    tifffile.imwrite(tmp_path / "s.tif", GRAINY, photometric="minisblack", metadata={} if block else None)
    content = (tmp_path / "s.tif").read_bytes()
    (tmp_path / "s.tif").write_bytes(content[: int(share * len(content))])
    try:
        pictures = dict(open_source(tmp_path / "s.tif").frames())
    except InputError as fault:
        assert "s.tif" in str(fault)
    else:
        assert all(picture is None or picture.shape == (32, 48) for picture in pictures.values())


def test_a_video_whose_size_changes(tmp_path):
    first, second = write_video(tmp_path / "a.mjpeg", GRAINY, "mjpeg", "yuvj420p"), tmp_path / "b.mjpeg"
    write_video(second, np.repeat(GRAINY, 2, 1), "mjpeg", "yuvj420p")
    (tmp_path / "v.mjpeg").write_bytes(first.read_bytes() + second.read_bytes())
    source = open_source(tmp_path / "v.mjpeg")
    shapes = [None if picture is None else picture.shape for _, picture in source.frames()]
    assert set(shapes) == {(32, 48), None}
    assert source.fault(shapes.index(None)) == "it is 48 x 64 px, but the first picture is 48 x 32 px"


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), number=st.integers(1, 200), suffix=st.sampled_from([".avi", ".mp4", ".mkv"]))
def test_flipped_bytes_in_a_video(tmp_path_factory, seed, number, suffix):
    folder = tmp_path_factory.getbasetemp()
    whole = folder / f"whole{suffix}"
    if not whole.exists():
        codec, pixels = {".avi": ("mjpeg", "yuvj420p"), ".mp4": ("libx264", "yuv420p"), ".mkv": ("ffv1", "gray")}[
            suffix
        ]
        write_video(whole, GRAINY, codec, pixels)
    content = np.frombuffer(whole.read_bytes(), np.uint8).copy()
    rng = np.random.default_rng(seed)
    content[rng.integers(0, len(content), number)] = rng.integers(0, 256, number)
    (folder / f"flipped{suffix}").write_bytes(content.tobytes())
    try:
        source = open_source(folder / f"flipped{suffix}")
        pictures = [picture for _, picture in source.frames(0, 100)]
        list(source.read([0, source.count - 1]))
    except InputError as fault:
        assert "flipped" in str(fault)
    else:
        assert all(picture is None or picture.shape[::-1] == source.size for picture in pictures)


BACKGROUNDS = {
    "cannot be read as a picture": lambda path: path.write_bytes(b""),
    "black all over": lambda path: cv2.imwrite(str(path), np.zeros((240, 240), np.uint8)),
    "the background is 100 x 240 px": lambda path: cv2.imwrite(str(path), np.full((240, 100), 9, np.uint8)),
    "cannot be read as a picture; is it whole": lambda path: path.write_bytes(b"GIF89a"),
}


@pytest.mark.parametrize("message", BACKGROUNDS)
def test_bad_background_pictures(tmp_path, drawn, message):
    BACKGROUNDS[message](tmp_path / "bg.png")
    text = (drawn / "recording.toml").read_text().replace('"cam1.npy"', f'"cam1.npy"\nbackground = "{tmp_path}/bg.png"')
    (drawn / "bad.toml").write_text(text)
    with pytest.raises(InputError, match=message) as fault:
        prepare(load_recording(drawn / "bad.toml"), QUICK, tmp_path / "p")
    assert "bg.png" in sentence(fault)


@pytest.mark.parametrize("name", [".", "..", "empty"])
def test_a_folder_for_a_background_picture(drawn, name):
    (drawn / "empty").mkdir(exist_ok=True)
    text = (drawn / "recording.toml").read_text().replace('"cam1.npy"', f'"cam1.npy"\nbackground = "{name}"')
    (drawn / "bad.toml").write_text(text)
    with pytest.raises(InputError, match=r"is a folder, but the background of 'cam1' is a picture; give") as fault:
        load_recording(drawn / "bad.toml")
    sentence(fault)


@pytest.mark.parametrize("key", ["calibration", "cam1.npy"])
def test_the_recordings_own_folder_for_a_file(drawn, key):
    name = "calibration.json" if key == "calibration" else key
    (drawn / "bad.toml").write_text((drawn / "recording.toml").read_text().replace(f'"{name}"', '"."'))
    with pytest.raises(InputError, match="the folder holds no") as fault:
        load_recording(drawn / "bad.toml")
    sentence(fault)


@pytest.mark.parametrize("length", [256, 5000])
def test_names_too_long(tmp_path, drawn, length):
    for key in ("cam1.npy", "calibration.json"):
        text = (drawn / "recording.toml").read_text().replace(f'"{key}"', '"' + "n" * length + '"')
        (drawn / "long.toml").write_text(text)
        with pytest.raises(InputError) as fault:
            load_recording(drawn / "long.toml")
        sentence(fault)
    with pytest.raises(InputError) as fault:
        load_recording(tmp_path / ("n" * length))
    sentence(fault)


def test_pictures_need_a_rate(tmp_path, drawn):
    (drawn / "rateless.toml").write_text((drawn / "recording.toml").read_text().replace("fps = 25.0", ""))
    with pytest.raises(InputError, match=r"says no fps, .* add the line fps = 25.0"):
        load_recording(drawn / "rateless.toml")


# --- what is in the pictures, and what lies in the folder -----------------------------------------------------------


def test_contrast_inverted_half_way(tmp_path):
    pictures = DrawnRecording(frames=20).pictures()
    pictures[1, 10:] = 255 - pictures[1, 10:]
    folder = write(tmp_path, pictures)
    with pytest.raises(InputError, match="cam1's pictures are negatives from about frame 1"):
        prepare(load_recording(folder), QUICK, tmp_path / "p")
    assert not check(folder, QUICK).ok


@pytest.mark.parametrize("fault", ["missing", "strange", "text", "log"])
def test_crops_whose_manifest_is_broken_are_made_again(tmp_path, fault):
    recording = load_recording(write(tmp_path, DrawnRecording(frames=5, cameras=2).pictures()))
    right = prepare(recording, QUICK, tmp_path / "p")
    manifest = json.loads((tmp_path / "p" / MANIFEST).read_text())
    if fault == "missing":
        del manifest["gain"]
    elif fault == "strange":
        manifest["start"] = [3]
    (tmp_path / "p" / MANIFEST).write_text("{" if fault == "text" else json.dumps(manifest))
    if fault == "log":
        (tmp_path / "p" / LOG).write_bytes(b"PK")
    again = prepare(recording, QUICK, tmp_path / "p")
    np.testing.assert_array_equal(again[3].images, right[3].images)
