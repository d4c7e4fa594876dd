"""A worm that leaves one of three pictures is followed by the other two; one that leaves two is not trusted."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from test_batch import CPU, FRAMES, beginning, quick_settings

from midline3d.bench import pixels_of
from midline3d.state import merged
from midline3d.tracking.begin import Beginning, borne_out, wholly_shown
from midline3d.tracking.checkpoint import recorded
from midline3d.tracking.clip import Clip
from midline3d.tracking.follow import Tracked, follow
from midline3d.tracking.learning import Sample

__all__ = ["CPU", "FRAMES", "beginning", "quick_settings"]


def shown(clip: Clip, frame: int, camera: int, share: float) -> float:
    """The column of a camera's full picture that has a share of the body to its left."""
    midlines = clip.prepared.truth  # type: ignore[attr-defined]
    return float(np.quantile(midlines[frame, camera, :, 0], share))


def narrower(beginning: Beginning, widths: dict[int, float]) -> Beginning:
    """The same animal, before cameras whose pictures end at these columns."""
    prepared = copy.copy(beginning.clip.prepared)
    prepared.sizes, prepared._images = prepared.sizes.astype(np.float64), prepared._images.copy()
    for camera, width in widths.items():
        prepared.sizes[camera, 0] = round(width)
        for frame in range(len(prepared)):
            beyond = max(0, round(width) - int(prepared.log.origin[frame, camera, 0]))
            prepared._images[frame, camera, :, beyond:] = 0
    return replace(beginning, clip=replace(beginning.clip, prepared=prepared))


def followed(beginning: Beginning, frames: list[int]) -> list[Tracked]:
    return list(follow(beginning, frames))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_what_one_picture_does_not_show_the_others_do(beginning: Beginning, share: float) -> None:
    frames = [frame for frame in range(FRAMES) if frame > beginning.frame][:4]
    there = narrower(beginning, {0: shown(beginning.clip, frames[-1], 0, share)})
    for whole, cut in zip(followed(beginning, frames), followed(there, frames), strict=True):
        assert cut.status == "ok" and whole.fit is not None and cut.fit is not None
        apart = [pixels_of(beginning.clip, [whole.frame], each.fit.state) for each in (whole, cut)]
        distance = np.linalg.norm(apart[0] - apart[1], axis=-1)[0, 1:]
        assert distance.mean() < 0.3


def test_what_two_pictures_do_not_show_is_not_trusted(beginning: Beginning) -> None:
    frames = [frame for frame in range(FRAMES) if frame > beginning.frame][:1]
    cut = narrower(beginning, {camera: shown(beginning.clip, frames[0], camera, 0.7) for camera in (0, 1)})
    assert {tracked.reason for tracked in followed(cut, frames)} == {"outside"}


def test_an_animal_is_learned_from_frames_that_show_all_of_it(beginning: Beginning) -> None:
    tracks = followed(beginning, [frame for frame in range(FRAMES) if frame >= beginning.frame])
    sample = Sample(
        [each.frame for each in tracks], merged([each.fit.state for each in tracks if each.fit is not None])
    )
    assert wholly_shown(beginning.clip, sample) is sample
    farthest = [
        pixels_of(beginning.clip, [each.frame], each.fit.state)[0, 0, :, 0].max() for each in tracks if each.fit
    ]
    cut = narrower(beginning, {0: sorted(farthest)[4] + 1.5})
    assert wholly_shown(cut.clip, sample).frames == [
        each.frame for each, far in zip(tracks, farthest, strict=True) if far <= round(sorted(farthest)[4] + 1.5) - 1
    ]
    nothing = narrower(beginning, {0: min(farthest) - 9})
    assert wholly_shown(nothing.clip, sample) is sample, "there are no others"


def test_an_animal_is_learned_from_frames_that_bear_it_out(beginning: Beginning) -> None:
    frames = [frame for frame in range(FRAMES) if frame >= beginning.frame][:4]
    states = [each.fit.state for each in followed(beginning, frames) if each.fit is not None]
    sample = Sample(frames, merged(states))
    assert borne_out(beginning.clip, sample).frames == frames
    beside = states[1].translated(states[1].points.new_tensor([[0.0, 0.3, 0.3]]))
    assert borne_out(beginning.clip, Sample(frames, merged([states[0], beside, *states[2:]]))).frames == [
        frames[0],
        *frames[2:],
    ]
    nowhere = Sample(frames[:1], beside)
    assert borne_out(beginning.clip, nowhere) is nowhere, "there are no others"


def test_a_view_that_does_not_show_the_animal_explains_nothing_and_is_not_counted(beginning: Beginning) -> None:
    frame = beginning.frame + 1
    there = narrower(beginning, {0: shown(beginning.clip, frame, 0, 0.3)})
    (tracked,) = followed(there, [frame])
    explained = recorded(there.clip, tracked).explained
    assert explained is not None and np.isfinite(explained).tolist() == [False, True, True]
