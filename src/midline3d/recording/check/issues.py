"""What is, or may be, wrong with a recording, each as one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from midline3d.reading import number_of
from midline3d.recording.check.facts import CameraFacts, Facts
from midline3d.recording.check.limits import Limits
from midline3d.recording.description import Recording, View

LENGTHS = (0.05, 10.0)
"""mm: no nematode that is filmed like this is smaller or larger."""
GHOSTLY = (
    "the background pictures show the worm itself, so they are left aside and backgrounds made of the recording: "
    "take them without the worm, or leave them out of recording.toml"
)
DROPPING = "film at a lower rate, in smaller pictures or to a faster disk, or give a whole copy of the files"
UNFOUND = (
    'midline3d check --picture shows where it was seen: if it is in all views, set worm to "dark" or "bright" in '
    "recording.toml; if it is not, reconstruct --frames A:B takes the part that shows it"
)
UNSEEN = "keep it nearer to the middle, or go on: the other cameras find such frames, less exactly"
MISSING_EACH_OTHER = (
    "give the calibration of that day, each camera its own source, and offsets that let all start together"
)
UNBENDING = (
    "something larger than the worm never changes its shape, a fibre or a bubble perhaps, and is left out; "
    "midline3d check --picture shows what is followed"
)


@dataclass(frozen=True)
class Issue:
    """One thing that is, or may be, wrong."""

    severity: Literal["error", "warning"]
    text: str


def timing_issues(recording: Recording, limits: Limits, shortest: bool = False) -> Iterator[Issue]:
    """What counts, rates and time stamps say; shortest: that longer cameras lose their tails is wanted."""
    least, most = min(recording.views, key=_count), max(recording.views, key=_count)
    if most.count != least.count:
        longer = number_of(most.count - least.count, "frame")
        more = f"{most.name} has {longer} more than {least.name} ({most.count}, {least.count})"
        if shortest:
            yield _warning(f"{more}: all beyond {recording.count} frames is left out")
        else:
            yield _error(f"{more}: set cameras.offset, or --shortest to drop the tail")
    rates = sorted((view.source.rate, view.name) for view in recording.views if view.source.rate)
    if rates and rates[-1][0] > (1 + limits.rate) * rates[0][0]:
        yield _error(
            f"{rates[-1][1]} runs at {rates[-1][0]:.3f} frames a second, {rates[0][1]} at {rates[0][0]:.3f} "
            f"(limit {limits.rate:.1%} apart): the cameras are not synchronised; "
            "film again with one trigger for all, or, where they had one, write the files anew at their true rate"
        )
    if rates and all(abs(recording.fps - rate) > limits.fps * recording.fps for rate, _ in rates):
        yield _warning(
            f"fps is {recording.fps:g} in recording.toml, but the videos' time stamps say {rates[0][0]:.3f}; "
            "the time axis follows fps: correct it, or take it out of recording.toml"
        )
    for view in recording.views:
        dropped, count = len(view.source.missing), view.source.count
        if dropped:
            judge = _error if dropped > limits.missing * count else _warning
            yield judge(
                f"{view.name} has dropped {dropped} of {count} frames (limit {limits.missing:.0%}), first its frame "
                f"{view.source.missing[0]}: they stay without a midline; {DROPPING}"
            )
        if view.source.jitter > limits.jitter:
            yield _warning(
                f"{view.name}'s time stamps are irregular (spread {view.source.jitter:.2f} frames, limit "
                f"{limits.jitter:g}); record at a fixed rate"
            )


def worm_issues(facts: Facts) -> Iterator[Issue]:
    """What locating the worm here and there says."""
    worm, limits = facts.worm, facts.limits
    if worm is None:
        return
    if worm.found < limits.found:
        yield _error(
            f"the worm is found in {worm.found:.1%} of the frames looked at (limit {limits.found:.0%}), first not "
            f"in frame {worm.lost_first}; {UNFOUND}"
        )
    if worm.aside:
        yield _warning(GHOSTLY)
    if worm.strangers:
        yield _warning(UNBENDING)
    fault = size_fault(worm.length_mm, worm.scale)
    if fault is not None:
        yield _error(fault)
    yield from _order_issues(facts)
    residual = worm.residual_median or 0.0
    if residual > limits.residual:
        yield _error(
            f"the views miss each other by {residual:.1f} px (limit {limits.residual:g}): the calibration is wrong, "
            f"the cameras are mixed up, or out of step; {MISSING_EACH_OTHER}"
        )
    elif residual > limits.residual / 3:
        yield _warning(
            f"the views miss each other by {residual:.1f} px: the calibration is off by about that much, which "
            "reconstruct takes up; midline3d refine-cameras makes a better one"
        )
    if worm.second > limits.second:
        yield _warning(second_worm(worm.second))
    for camera in facts.cameras:
        yield from _view_issues(camera, limits)
    needs = facts.needs
    if needs is not None and needs.disk_needed > needs.disk_free:
        yield _error(
            f"the reconstruction needs {needs.disk_needed / 1e9:.1f} GB, but only {needs.disk_free / 1e9:.1f} GB "
            "are free beside the recording; free some, or give -o a folder on another disk"
        )


def _order_issues(facts: Facts) -> Iterator[Issue]:
    """Whether the pictures fit together far better when they change places."""
    worm, limits = facts.worm, facts.limits
    if worm is None or worm.order is None or worm.second > limits.second:
        return  # of two worms each view may show another as the heaviest
    if worm.order.wrong(limits.mixed, limits.mixed_share):
        names, sources = [camera.name for camera in facts.cameras], [camera.source for camera in facts.cameras]
        yield _error(worm.order.remedy(names, sources))


def second_worm(share: float) -> str:
    """What to say of a second worm in this share of the frames."""
    return (
        f"a second thing looks like a worm in {share:.0%} of the frames: only one is followed, perhaps the wrong one; "
        "film one worm, or crop the other away"
    )


def size_fault(length: float, scale: float) -> str | None:
    """Why a worm that reaches over so many mm at this magnification (px/mm) cannot be one, if so."""
    if LENGTHS[0] <= length <= LENGTHS[1]:
        return None
    return (
        f"the worm would be {length:.3g} mm long at {scale:.3g} px/mm, but {LENGTHS[0]:g} to {LENGTHS[1]:g} mm are "
        "possible: is the calibration of these cameras, and in the unit that it says?"
    )


def _view_issues(camera: CameraFacts, limits: Limits) -> Iterator[Issue]:
    name, view = camera.name, camera.view
    if view is None:
        return
    if view.unreadable_share > limits.missing:
        yield _error(
            f"{name}: {view.unreadable_share:.1%} of the frames looked at are unreadable or black "
            f"(limit {limits.missing:.0%}), the first of them frame {view.unreadable_first}: {view.unreadable_fault}; "
            "copy the files again from where they were recorded, or such frames stay without a midline"
        )
    if view.seen < 1:
        where = f"first not in frame {view.not_seen_first}: it leaves the view or is hidden; {UNSEEN}"
        judge = _error if view.seen < limits.seen else _warning
        yield judge(f"{name} shows the worm in {view.seen:.1%} of the frames (limit {limits.seen:.0%}), {where}")
    if view.contrast < limits.contrast:
        yield _error(
            f"{name}: the worm stands out by {view.contrast:.1f} times the noise (limit {limits.contrast:g}); "
            "give more light or less gain"
        )
    if view.focus and view.focus_low is not None and view.focus_low < limits.focus * view.focus:
        yield _warning(
            f"{name}: the worm goes out of focus (sharpness down to {view.focus_low / view.focus:.0%} of its "
            f"median, limit {limits.focus:.0%}); close the aperture, or keep the worm nearer to the plane of focus"
        )
    lag, error = view.lag, view.lag_error
    if abs(lag) > limits.lag and abs(lag) > limits.lag_errors * error:
        yield _error(
            f"{name} seems {abs(lag):.1f} +- {error:.1f} frames {'late' if lag > 0 else 'early'} "
            f"(limit {limits.lag:g}): {_offset_advice(name, camera.offset, round(lag))}"
        )


def _offset_advice(name: str, offset: int, lag: int) -> str:
    """What brings a camera into step; offsets skip frames, so that they only go up, and the lengths then differ."""
    if offset + lag >= 0:
        step = f"set the offset of {name} to {offset + lag}"
    else:
        step = f"add {-lag} to the offset of every other camera"
    # By how fast the worm moves just then: of a lag of a tenth of its beat or more this is a part.
    return (
        f"{step} in recording.toml, and give --shortest, for the lengths then differ; then check again, "
        "for of a long lag only a part is seen at once"
    )


def _count(view: View) -> int:
    return view.count


def _error(text: str) -> Issue:
    return Issue("error", text)


def _warning(text: str) -> Issue:
    return Issue("warning", text)
