"""The ablation: what its variants change, one tiny run of it, and how its table is counted."""

import json
from pathlib import Path

import pytest

from midline3d import InputError, Plan, simulate
from midline3d.ablation import VARIANTS, Ablation, Variant, ablate
from midline3d.ablation.run import _averages
from midline3d.settings import load_settings
from midline3d.store import open_result

QUICK = {"start": {"pairs": 1, "apart": 2, "starts": 5, "kept": 2, "polish": 1}, "body": {"iterations": 6}}
TINY = (
    Variant("default", "default", "", QUICK),
    Variant("straight", "default", "bends", QUICK | {"curve": {"circles": 0.1}}),
)


def test_the_papers_variants_stand_beside_their_published_ratios() -> None:
    published = {variant.name: variant.published for variant in VARIANTS if variant.base == "paper"}
    assert [round(ratio, 2) for ratio in published.values() if ratio] == [1.0, 1.81, 1.16, 1.07, 1.0, 0.93, 0.99]
    assert all(variant.reference in {whole.name for whole in VARIANTS if not whole.without} for variant in VARIANTS)


def test_a_variant_changes_what_it_says_and_nothing_else() -> None:
    whole = Variant("default", "default", "").settings()
    found = Variant("d", "default", "scores", {"losses": {"scores": 0.0}}).settings({"adam": {"steps": 7}})
    assert found.losses.scores == 0 and found.adam.steps == 7 and whole.losses.scores > 0
    assert found.body == whole.body and found.start == whole.start
    with pytest.raises(InputError, match=r"variant 'odd'.*colour"):
        Variant("odd", "default", "colour", {"losses": {"colour": 1.0}}).settings()


def test_ratios_are_taken_over_frames_that_both_have() -> None:
    rows = {
        "default": {"losses": [1.0, None, 3.0], "midline_px": 0.2, "reason": None},
        "straight": {"losses": [2.0, 50.0, None], "midline_px": None, "reason": None},
    }
    whole, part = Ablation(TINY, rows).figures()
    assert whole["ratio"] == 1 and part["ratio"] == 2 and part["frames"] == 2 and part["loss"] == 26
    failed = Ablation(TINY, rows | {"straight": {"reason": "no worm"}}).figures()[1]
    assert failed["ratio"] is None and failed["reason"] == "no worm" and failed["loss"] is None


@pytest.mark.long
def test_a_tiny_ablation_goes_on_and_knows_its_recording(tmp_path: Path) -> None:
    recording = simulate(tmp_path / "clean", Plan("clean", 4, size=256, px_per_mm=80.0, source="npy"))
    found = ablate(recording, tmp_path / "out", TINY[:1], frames=(0, 2), jobs=1)
    (whole,) = found.figures()
    assert whole["reason"] is None, whole["reason"]
    assert whole["frames"] == 2 and whole["midline_px"] < 2 and 0 < whole["loss"] < 0.1 and whole["ratio"] == 1
    held, result = _averages(tmp_path / "out" / "default")["adam"], open_result(tmp_path / "out" / "default")
    assert held["held_sigma"] == pytest.approx(result.sigma.mean("time").values, rel=1e-4)
    assert json.loads((tmp_path / "out" / "summary.json").read_text())[0]["variant"] == "default"
    # One that takes the whole run's averages waits for it, and takes them.
    held_too = Variant("held", "default", "fitted look", QUICK, averaged=True)
    both = ablate(recording, tmp_path / "both", (held_too, TINY[0]), frames=(0, 1), jobs=2).figures()
    assert [row["reason"] for row in both] == [None, None] and both[0]["frames"] == 1
    kept = load_settings(tmp_path / "both" / "held.toml").adam.held_sigma
    assert kept == pytest.approx(open_result(tmp_path / "both" / "default").sigma.mean("time").values, rel=1e-4)
    written = (tmp_path / "out" / "default.json").stat().st_mtime_ns
    again = ablate(recording, tmp_path / "out", TINY[:1], frames=(0, 2))
    assert again.figures() == found.figures() and (tmp_path / "out" / "default.json").stat().st_mtime_ns == written
    with pytest.raises(InputError, match="frames"):
        ablate(recording, tmp_path / "out", TINY[:1], frames=(0, 3))
    cut = ablate(recording, tmp_path / "cut", TINY[:1], frames=(0, 2), jobs=1, within=0.3).figures()
    assert cut[0]["reason"] == "not run" and cut[0]["ratio"] is None, "stopped early, it says what is missing"
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "thesis.txt").write_text("")
    with pytest.raises(InputError, match="no ablation"):
        ablate(recording, tmp_path / "else", TINY[:1])
