"""The package as a library: the examples of its functions, strings for paths, silence, and results without torch."""

import doctest
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from test_calibration import board_pictures

import midline3d
from midline3d import api
from midline3d.errors import InputError

EXAMPLES = ("simulate", "check", "reconstruct", "refine_cameras", "calibrate", "benchmark")
"""In this order: each may use what those before it wrote."""


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which all examples have been run."""
    folder = tmp_path_factory.mktemp("workshop")
    _, paths, _ = board_pictures(folder)
    for name, files in paths.items():
        (folder / "pictures" / name).mkdir(parents=True)
        for file in files:
            file.rename(folder / "pictures" / name / file.name)
    runner = doctest.DocTestRunner()
    finder = doctest.DocTestFinder(recurse=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in EXAMPLES:
            (example,) = finder.find(getattr(api, name), name, module=api)
            assert example.examples, name
            said: list[str] = []
            assert not runner.run(example, out=said.append).failed, "".join(said)
    return folder


def test_every_function_has_an_example_that_holds(workshop: Path) -> None:
    functions = {name for name, home in midline3d._HOMES.items() if home == "api"}
    assert functions == set(EXAMPLES)
    assert (workshop / "refined.json").is_file() and (workshop / "calibration.json").is_file()


def test_nothing_is_printed_unless_it_is_asked_for(workshop: Path, capfd: pytest.CaptureFixture[str]) -> None:
    reported: list[tuple[str, int, int]] = []
    plan = midline3d.Plan(preset="clean", frames=1, size=200, px_per_mm=60.0, source="npy")
    midline3d.simulate(str(workshop / "another"), plan)
    assert capfd.readouterr() == ("", "")
    midline3d.simulate(str(workshop / "another"), plan, progress=lambda *step: reported.append(step))
    assert reported[-1] == ("simulating", 3, 3) and capfd.readouterr() == ("", "")
    midline3d.check(str(workshop / "recording"), progress=lambda *step: reported.append(step))
    assert reported[-1][0] == "looking around" and capfd.readouterr() == ("", "")


def test_strings_are_paths_everywhere(workshop: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("[curve]\nvertices = 64\n", encoding="utf-8")
    assert midline3d.load_settings(str(tmp_path / "settings.toml")).curve.vertices == 64
    assert api.chosen_settings(str(tmp_path / "settings.toml")).curve.vertices == 64
    calibration = midline3d.load_calibration(str(workshop / "recording" / "calibration.json"))
    midline3d.save_calibration(calibration, str(tmp_path / "same.toml"))
    assert midline3d.load_recording(str(workshop / "recording")).count == 8
    assert midline3d.frame_figure(str(workshop / "out"), 1, str(tmp_path / "frame.png")).stat().st_size > 10_000
    assert midline3d.evaluate_truth(str(workshop / "out"), str(workshop / "recording" / "truth.nc")).summary()["frames"]
    assert midline3d.info(str(workshop / "out")).counts
    midline3d.check(str(workshop / "recording")).picture(str(tmp_path / "check.png"))
    assert (tmp_path / "check.png").is_file()


def test_what_is_wrong_is_one_sentence(workshop: Path, tmp_path: Path) -> None:
    recording = str(workshop / "recording")
    with pytest.raises(InputError, match="the device is 'gpu'; choose auto, cpu or cuda"):
        midline3d.reconstruct(recording, str(tmp_path / "out"), device="gpu")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="strats"):
        midline3d.reconstruct(recording, str(tmp_path / "out"), settings={"start": {"strats": 3}})
    with pytest.raises(InputError, match="no such file"):
        midline3d.reconstruct(str(tmp_path / "none"), str(tmp_path / "out"))
    with pytest.raises(InputError, match=r"\.json"):
        midline3d.calibrate(str(tmp_path), midline3d.Board("chessboard", 7, 5, 2.0), out=str(tmp_path / "c.txt"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("there", "cores", "auto"), [(True, 2, "cuda"), (True, 16, "cpu"), (False, 2, "cpu")])
def test_a_gpu_is_taken_where_cores_are_few(
    there: bool, cores: int, auto: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr("midline3d.processors._given", lambda: cores)
    assert api.chosen_device("auto") == auto and api.chosen_device("cpu") == "cpu"
    if there:
        assert api.chosen_device("cuda") == "cuda"


def test_results_are_read_without_torch(workshop: Path, tmp_path: Path) -> None:
    """Complete, growing, and the truth against it: on a laptop with no torch at all."""
    growing = Path(shutil.copytree(workshop / "out", tmp_path / "growing"))
    (growing / "midline.nc").unlink()
    code = f"""
import sys
for name in ("torch", "cv2", "av"):
    sys.modules[name] = None
import midline3d
whole, grows = midline3d.open_result({str(workshop / "out")!r}), midline3d.open_result({str(growing)!r})
assert whole.position.shape == grows.position.shape == (8, 3, 128, 1)
assert midline3d.open_result({str(workshop / "out" / "midline.nc")!r}).identical(whole)
print(midline3d.info({str(workshop / "out")!r}).text())
print(midline3d.evaluate_truth(whole, {str(workshop / "recording" / "truth.nc")!r}).summary()["midline_px"])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout.splitlines()[-1]) < 1
