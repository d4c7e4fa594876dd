"""A recording is known by its content; its prepared crops serve whoever asks for the same."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import cv2
import numpy as np
import pytest
from drawn import DrawnRecording, write
from small import file_system, fill

from midline3d.errors import InputError
from midline3d.recording import Recording, adopt, crop_pass, load_recording, prepare
from midline3d.recording.crops import IMAGES, MANIFEST
from midline3d.recording.identity import BLOCK, BLOCKS, ENDS, content_of, inputs_of
from midline3d.settings import LocatingSettings

QUICK = LocatingSettings(background_frames=13)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("drawn") / "drawn", DrawnRecording(frames=12, cameras=2).pictures())


@pytest.fixture(scope="module")
def crops(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("crops") / "crops"
    prepare(load_recording(folder), QUICK, place)
    return place


@pytest.fixture
def undecoded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No frame may be decoded meanwhile."""

    def decoded(*_: object, **__: object) -> None:
        raise AssertionError("decoded again")

    # By its name: the package has a function of the same one.
    monkeypatch.setattr(import_module("midline3d.recording.prepare"), "survey", decoded)
    yield


def test_a_copy_is_the_same_recording(folder: Path, tmp_path: Path) -> None:
    """Elsewhere, at another time, and with the sources under other names."""
    copy = Path(shutil.copytree(folder, tmp_path / "elsewhere"))
    text = (copy / "recording.toml").read_text(encoding="utf-8").replace('"cam1.npy"', '"left.npy"')
    (copy / "cam1.npy").rename(copy / "left.npy")
    (copy / "recording.toml").write_text(text, encoding="utf-8")
    for path in copy.iterdir():
        os.utime(path, (1e9, 1e9))
    assert inputs_of(load_recording(copy)) == inputs_of(load_recording(folder))


def test_what_is_different_is_named(folder: Path, tmp_path: Path) -> None:
    def different() -> set[str]:
        now = inputs_of(load_recording(copy))
        return {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}

    before = inputs_of(load_recording(folder))
    copy = Path(shutil.copytree(folder, tmp_path / "elsewhere"))
    stack = np.load(copy / "cam1.npy")
    stack[7, 100, 100] ^= 1
    np.save(copy / "cam1.npy", stack)
    assert different() == {"camera cam1"}
    text = (copy / "recording.toml").read_text(encoding="utf-8")
    (copy / "recording.toml").write_text('worm = "dark"\n' + text, encoding="utf-8")
    assert different() == {"camera cam1", "worm"}
    numbers = (copy / "calibration.json").read_text(encoding="utf-8").replace("1000.0", "1000.5", 1)
    (copy / "calibration.json").write_text(numbers, encoding="utf-8")
    assert different() == {"camera cam1", "worm", "calibration"}


def test_a_large_file_is_known_by_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "long.avi"
    size = 3 * (2 * ENDS + BLOCKS * BLOCK)
    path.write_bytes(np.random.default_rng(0).bytes(size))
    before = content_of(path)
    for place in (0, ENDS - 1, ENDS + 5, size - 1):
        with path.open("r+b") as file:
            file.seek(place)
            old = file.read(1)
            file.seek(place)
            file.write(bytes([old[0] ^ 1]))
        assert content_of(path) != before, place
        with path.open("r+b") as file:
            file.seek(place)
            file.write(old)
    assert content_of(path) == before
    with path.open("ab") as file:
        file.write(b"x")
    assert content_of(path) != before


def test_a_folder_of_pictures_is_known_by_names_sizes_and_some_contents(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for index in range(40):
        cv2.imwrite(str(tmp_path / f"{index}.png"), rng.integers(0, 255, (8, 8), np.uint8))
    before = content_of(tmp_path)
    (tmp_path / "Thumbs.db").write_bytes(b"")
    (tmp_path / ".DS_Store").write_bytes(b"")
    assert content_of(tmp_path) == before
    (tmp_path / "39.png").rename(tmp_path / "40.png")
    assert content_of(tmp_path) != before


def test_crops_serve_another_result(folder: Path, crops: Path, tmp_path: Path, undecoded: None) -> None:
    recording, source = load_recording(folder), Path(shutil.copytree(crops, tmp_path / "one"))
    kept = prepare(recording, QUICK, source)
    other = adopt(recording, QUICK, tmp_path / "two", source)
    assert adopt(recording, QUICK, tmp_path / "two", tmp_path / "none")[3].frame == 3, "there already"
    np.testing.assert_array_equal(other[5].images, kept[5].images)
    np.testing.assert_array_equal(other.log.origin, kept.log.origin)
    (tmp_path / "one" / IMAGES).write_bytes(b"")  # on the same disk it is the same file, written twice nowhere
    assert not (tmp_path / "two" / IMAGES).stat().st_size or os.name == "nt"


def test_crops_made_anew_leave_those_of_others_alone(folder: Path, crops: Path, tmp_path: Path) -> None:
    recording, source = load_recording(folder), Path(shutil.copytree(crops, tmp_path / "one"))
    adopt(recording, QUICK, tmp_path / "two", source)
    before = (tmp_path / "two" / IMAGES).read_bytes()
    prepare(recording, replace(QUICK, margin=0.4), source)
    assert (tmp_path / "two" / IMAGES).read_bytes() == before
    assert (source / IMAGES).stat().st_size != len(before)


def test_crops_of_something_else_are_refused(folder: Path, crops: Path, tmp_path: Path, undecoded: None) -> None:
    recording = load_recording(folder)

    def refused(one: Recording, settings: LocatingSettings, source: Path, frames: range | None = None) -> str:
        with pytest.raises(InputError) as refusal:
            adopt(one, settings, tmp_path / "out", source, frames)
        assert not (tmp_path / "out").exists() and "leave --crops out" in str(refusal.value)
        return str(refusal.value)

    assert "locating.margin" in refused(recording, replace(QUICK, margin=0.4), crops)
    assert "frames 0:12, not 2:5" in refused(recording, QUICK, crops, range(2, 5))
    assert "worm auto, not dark" in refused(replace(recording, worm="dark"), QUICK, crops)
    assert "no prepared crops" in refused(recording, QUICK, tmp_path / "none")
    broken = Path(shutil.copytree(crops, tmp_path / "broken"))
    (broken / IMAGES).write_bytes((broken / IMAGES).read_bytes()[:-10])
    assert "damaged" in refused(recording, QUICK, broken)
    (broken / MANIFEST).unlink()
    assert "none that are complete" in refused(recording, QUICK, broken)


def test_crops_that_were_cut_off_are_made_again(folder: Path, crops: Path, tmp_path: Path) -> None:
    source = Path(shutil.copytree(crops, tmp_path / "one"))
    (source / IMAGES).write_bytes((source / IMAGES).read_bytes()[:-10])
    again = prepare(load_recording(folder), QUICK, source)
    assert again[11].images.shape == prepare(load_recording(folder), QUICK, crops)[11].images.shape


def test_a_full_disk_while_crops_are_cut(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crop_pass, "SAVED", 4)
    recording, settings = load_recording(folder), replace(QUICK, lag=4)
    whole = prepare(recording, settings, tmp_path / "whole")
    with file_system(tmp_path / "small", 4) as small:
        other: list[Path] = []

        def later(done: int, total: int) -> None:
            if done == 10 and not other:
                other.append(fill(small, 0))

        with pytest.raises(InputError, match=r"disk is full .*the same command goes on") as refusal:
            prepare(recording, settings, small / "crops", progress=later)
        assert "\n" not in str(refusal.value)
        other[0].unlink()
        again = prepare(recording, settings, small / "crops")
        for one, two in zip(whole, again, strict=True):
            np.testing.assert_array_equal(one.images, two.images)
        shutil.rmtree(small / "crops")
        fill(small, 100_000)
        with pytest.raises(InputError, match="disk is full"):
            prepare(recording, settings, small / "crops")
