"""The result on disk: whole at every moment, whatever happens to the run."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from midline3d.errors import InputError
from midline3d.store import FrameResult, Header, Result, dataset, locked, open_result

HEADER = Header(
    frames=tuple(range(10, 20)),
    fps=25.0,
    cameras=("cam0", "cam1", "cam2"),
    keypoints=16,
    settings="[fitting]\nsteps = 40\n",
    inputs={"cam0.avi": "sha256:aa", "calibration.json": "sha256:bb", "worm": "dark"},
    seed=3,
    device="cpu",
    version="0.1.0",
    attributes={"recording": "trial-037"},
)


def record(frame: int, keypoints: int = 16) -> FrameResult:
    """A frame whose every number is its own."""
    rng = np.random.default_rng(frame)
    return FrameResult(
        status="ok",
        position=rng.normal(size=(keypoints, 3)),
        confidence=rng.random(keypoints),
        projection=rng.normal(size=(3, keypoints, 2)),
        curvature=rng.normal(size=(keypoints, 2)),
        length=1.0 + frame / 1000,
        sigma=rng.random(3),
        iota=rng.random(3),
        rho=rng.random(3),
        shift=rng.normal(size=3),
        loss=0.5 * frame,
        loss_terms={"pixels": 0.1 * frame, "smoothness": 0.01},
        steps=frame,
    )


def same(found: xr.Dataset, frame: int, expected: FrameResult) -> None:
    row = found.swap_dims(time="frame").sel(frame=frame)
    assert np.array_equal(row.position.values[..., 0].T, expected.position)
    assert row.projection.values == pytest.approx(expected.projection, rel=1e-6)
    assert row.curvature.values == pytest.approx(expected.curvature, rel=1e-6)
    assert row.confidence.values[:, 0] == pytest.approx(expected.confidence, rel=1e-6)
    assert row["shift"].values == pytest.approx(expected.shift, rel=1e-6)
    assert float(row.loss_pixels) == pytest.approx(expected.loss_terms["pixels"], rel=1e-6)
    assert str(row.status.values) == expected.status and int(row.steps) == expected.steps


def test_a_result_from_birth_to_netcdf(tmp_path: Path) -> None:
    order = [15, 16, 14, 17, 13, 18, 12, 19, 11, 10]  # both ways from a start frame
    with Result.create(tmp_path, HEADER) as result:
        for frame in order[:5]:
            result.append(frame, record(frame))
        result.flush()
        growing = open_result(tmp_path)
        same(growing, 13, record(13))
        late = growing.swap_dims(time="frame").sel(frame=10)
        assert late.status == "pending" and np.isnan(late.position).all() and np.isnan(late.loss)
        with pytest.raises(InputError, match="5 of 10 frames"):
            result.consolidate()
        for frame in order[5:]:
            result.append(frame, FrameResult("unreadable") if frame == 11 else record(frame))
        assert result.done == set(order)
        path = result.consolidate()
    assert path == tmp_path / "midline.nc"
    for final in (open_result(tmp_path), open_result(path), xr.load_dataset(path)):
        for frame in set(order) - {11}:
            same(final, frame, record(frame))
        lost = final.swap_dims(time="frame").sel(frame=11)
        assert lost.status == "unreadable" and np.isnan(lost.position).all() and np.isnan(lost.sigma).all()
    xr.testing.assert_identical(result.dataset(), open_result(path))


def test_names_dimensions_and_attributes(tmp_path: Path) -> None:
    with Result.create(tmp_path, HEADER) as result:
        for frame in HEADER.frames:
            result.append(frame, record(frame))
        found = open_result(result.consolidate())
    assert {name: variable.dims for name, variable in found.data_vars.items()} == {
        "position": ("time", "space", "keypoint", "individual"),
        "confidence": ("time", "keypoint", "individual"),
        "projection": ("time", "camera", "keypoint", "image"),
        "curvature": ("time", "keypoint", "bishop"),
        "length": ("time",),
        "sigma": ("time", "camera"),
        "iota": ("time", "camera"),
        "rho": ("time", "camera"),
        "defocus": ("time", "camera"),
        "shift": ("time", "axis"),
        "loss": ("time",),
        "loss_pixels": ("time",),
        "loss_smoothness": ("time",),
        "steps": ("time",),
        "status": ("time",),
        "reason": ("time",),
        "edited": ("time",),
        "explained": ("time", "camera"),
        "unexplained": ("time", "camera"),
        "unbacked": ("time", "camera"),
        "beyond": ("time", "end"),
        "sigma_across": ("time", "keypoint"),
        "sigma_along": ("time", "keypoint"),
        "doubt": ("time",),
        "source_frame": ("time", "camera"),
        "head_confidence": ("time",),
    }
    for name, variable in found.variables.items():
        assert variable.attrs["units"] and variable.attrs["long_name"], name
    # xarray would turn numbers with the unit "seconds" into spans of time.
    assert found.time.dtype == np.float64 and found.time.attrs["units"] == "s"
    assert found.time.values == pytest.approx(np.arange(10, 20) / 25)
    expected = {"source_software": "midline3d", "ds_type": "poses", "fps": 25.0, "time_unit": "seconds"}
    expected |= {"settings": HEADER.settings, "seed": 3, "device": "cpu", "version": "0.1.0", "recording": "trial-037"}
    assert {name: found.attrs[name] for name in expected} == expected
    assert found.sel(camera="cam1", keypoint=0).projection.shape == (10, 2)


def test_a_result_without_a_frame_can_be_read(tmp_path: Path) -> None:
    Result.create(tmp_path, HEADER)
    empty = open_result(tmp_path)
    assert empty.position.shape == (10, 3, 16, 1) and np.isnan(empty.position).all()
    assert (empty.status == "pending").all()


def test_movement_takes_it(tmp_path: Path) -> None:
    validators = pytest.importorskip("movement.validators.datasets")
    with Result.create(tmp_path, HEADER) as result:
        for frame in HEADER.frames:
            result.append(frame, record(frame))
        found = open_result(result.consolidate())
    names = validators.ValidPosesInputs.DIM_NAMES
    # Before 0.17 movement's dimensions were plural.
    found = found.rename({name[:-1]: name for name in names if name.endswith("s") and name[:-1] in found.dims})
    validators.ValidPosesInputs.validate(found)
    assert found.position.dims == names


def test_the_last_of_two_wins(tmp_path: Path) -> None:
    with Result.create(tmp_path, HEADER) as result:
        result.append(12, record(12))
        result.flush()
        result.append(12, replace(record(99), status="suspect"))
        result.append(13, record(13))
        result.flush()
        result.append(13, FrameResult("lost"))
    found = open_result(tmp_path)
    same(found, 12, replace(record(99), status="suspect"))
    gone = found.swap_dims(time="frame").sel(frame=13)
    assert gone.status == "lost" and np.isnan(gone.position).all() and np.isnan(gone.loss_pixels)


def test_correcting_a_complete_result_shows_at_once(tmp_path: Path) -> None:
    with Result.create(tmp_path, HEADER) as result:
        for frame in HEADER.frames:
            result.append(frame, record(frame))
        result.consolidate()
    with Result.resume(tmp_path, HEADER) as result:
        result.append(14, record(77))
    same(open_result(tmp_path), 14, record(77))


def test_reading_back_is_exact(tmp_path: Path) -> None:
    judged = replace(record(12), reason="border", edited="accepted", explained=np.array([0.9, 0.8, np.nan]))
    with Result.create(tmp_path, HEADER) as result:
        result.append(12, replace(judged, source_frame=np.array([12, 13, 40])))
        result.append(13, FrameResult("lost", reason="not located"))
    again = Result.resume(tmp_path, HEADER)
    found, expected = again.read(12), record(12)
    assert found is not None and found.loss_terms == expected.loss_terms
    assert (found.reason, found.edited) == ("border", "accepted") and found.source_frame is not None
    assert found.source_frame.tolist() == [12, 13, 40]
    assert np.array_equal(found.arrays()["explained"], judged.arrays()["explained"], equal_nan=True)
    for name, values in expected.arrays().items():
        assert np.array_equal(found.arrays()[name], values), name
    lost = again.read(13)
    assert lost is not None and lost.status == "lost" and lost.reason == "not located" and lost.source_frame is None
    assert np.isnan(lost.arrays()["position"]).all()
    assert again.read(14) is None


WRITER = """
import sys
from pathlib import Path
import test_store
from midline3d.store import Result, result
result.SEGMENT_FRAMES = 2
header = test_store.replace(test_store.HEADER, frames=tuple(range(5000)))
with Result.start(Path(sys.argv[1]), header) as out:
    print("ready", flush=True)
    for frame in sorted(set(header.frames) - out.done):
        out.append(frame, test_store.record(frame))
"""


def test_killed_while_appending(tmp_path: Path) -> None:
    """SIGKILL in the midst of it, three times: what was flushed is there, and the run goes on where it was."""
    header = replace(HEADER, frames=tuple(range(5000)))
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")])
    before = 0
    for more in (9, 2, 5):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths},
        )
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        growing = open_result(tmp_path)  # a reader beside the writer
        while int((growing.status == "ok").sum()) < before + more and writer.poll() is None:
            growing = open_result(tmp_path)
        writer.kill()  # SIGKILL: no handler, no flush
        writer.wait()
        writer.stdout.close()
        found = open_result(tmp_path)
        count = int((found.status == "ok").sum())
        assert before <= int((growing.status == "ok").sum()) <= count
        assert (found.status[:count] == "ok").all() and (found.status[count:] == "pending").all()
        assert count == len(Result.resume(tmp_path, header).done)
        if count:
            same(found, count - 1, record(count - 1))
        before = count
    assert before >= 9 + 2 + 5
    assert not [path for path in tmp_path.rglob("*.part.*") if path.parent.name == "segments"]


@pytest.mark.parametrize("damage", ["cut", "flip", "remove"])
def test_a_segment_that_is_not_whole_is_dropped(tmp_path: Path, damage: str) -> None:
    with Result.create(tmp_path, HEADER) as result:
        for frame in (10, 11, 12):
            result.append(frame, record(frame))
            result.flush()
    (tmp_path / "segments" / "000099.part.npz").write_bytes(b"left over by a crash")
    (tmp_path / "segments" / "000098-0123456789abcdef.npz").write_bytes(b"not what its name says")
    first, path, last = sorted((tmp_path / "segments").glob("00000?-*.npz"))
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        path.write_bytes(content[:500] + bytes([content[500] ^ 1]) + content[501:])
    else:
        path.unlink()
    assert [str(status) for status in open_result(tmp_path).status.values[:3]] == ["ok", "pending", "ok"]
    with Result.resume(tmp_path, HEADER) as again:
        assert again.done == {10, 12}
        assert sorted((tmp_path / "segments").iterdir()) == [first, last]
        again.append(11, record(11))
    same(open_result(tmp_path), 11, record(11))
    same(open_result(tmp_path), 12, record(12))


def test_the_words_and_numbers_beside_a_midline(tmp_path: Path) -> None:
    header = replace(HEADER, offsets=(0, 5, 100))
    with Result.create(tmp_path, header) as result:
        result.append(10, replace(record(10), status="suspect", reason="jump", explained=np.array([0.9, 0.8, 0.1])))
        result.append(11, replace(record(11), source_frame=np.array([1, 2, 3])))
        result.append(12, FrameResult("unreadable", reason="unreadable"))
    found = open_result(tmp_path).swap_dims(time="frame")
    assert found.reason.sel(frame=[10, 11, 12, 13]).values.tolist() == ["jump", "", "unreadable", ""]
    assert set(found.edited.values.tolist()) == {"automatic"}
    assert found.source_frame.sel(frame=10).values.tolist() == [10, 15, 110]
    assert found.source_frame.sel(frame=11).values.tolist() == [1, 2, 3]
    assert found.source_frame.sel(frame=19).values.tolist() == [19, 24, 119], "known before the frame is done"
    assert found.explained.sel(frame=10).values == pytest.approx([0.9, 0.8, 0.1])
    assert np.isnan(found.explained.sel(frame=12)).all() and np.isnan(found.sigma_across).all()


def test_the_finished_file_is_the_same_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written a few frames at a time, and with a term of the loss that only some of them have."""
    monkeypatch.setattr(dataset, "BLOCK", 3)
    with Result.create(tmp_path, HEADER) as result:
        for frame in (15, 16, 14, 17, 13, 18):
            result.append(frame, record(frame))
            result.flush()
        for frame in (12, 19, 11, 10):
            result.append(frame, replace(record(frame), loss_terms={"temporal": 0.5}))
        xr.testing.assert_identical(open_result(result.consolidate()), result.dataset())
    assert open_result(tmp_path).loss_temporal.isnull().sum() == 6


HOLDER = """
import sys, time
from pathlib import Path
from midline3d.store import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_two_processes_cannot_write_one_result_and_a_dead_one_holds_nothing(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=rf"is being written by process {other.pid} on .*; wait until"):
            locked(tmp_path).__enter__()
        other.kill()
    with locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_what_is_noted_later_stays_with_the_result(tmp_path: Path) -> None:
    with Result.create(tmp_path, HEADER) as result:
        result.note(head_confidence=0.97)
    assert open_result(tmp_path).attrs["head_confidence"] == 0.97
    with Result.resume(tmp_path, HEADER) as result:
        assert result.header.attributes == {"recording": "trial-037", "head_confidence": 0.97}


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no result"):
        open_result(tmp_path)
    with pytest.raises(InputError, match="manifest"):
        Result.resume(tmp_path, HEADER)
    result = Result.create(tmp_path, HEADER)
    with pytest.raises(InputError, match="already holds"):
        Result.create(tmp_path, HEADER)
    with pytest.raises(ValueError, match="frame 5"):
        result.append(5, record(5))
    with pytest.raises(ValueError, match="position"):
        result.append(10, record(10, keypoints=12))
    with pytest.raises(ValueError, match="reason is 'ugly'"):
        result.append(10, replace(record(10), reason="ugly"))  # type: ignore[arg-type]
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        open_result(tmp_path)
