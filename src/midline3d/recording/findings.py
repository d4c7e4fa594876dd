"""What is, or may be, wrong with a recording, each as one sentence, and the limits beyond which it is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from midline3d.recording.description import Recording
from midline3d.recording.order import Order

LENGTHS = (0.05, 10.0)
"""mm: no nematode that is filmed like this is smaller or larger."""
GHOSTLY = (
    "the background pictures show the worm itself, so they are left aside and backgrounds made of the recording: "
    "take them without the worm, or leave them out of recording.toml"
)


@dataclass(frozen=True)
class Limits:
    """Beyond these a recording does not pass; the report states them."""

    found: float = 0.98
    """Least share of frames in which the worm is found."""
    seen: float = 0.9
    """Least share of frames in which each view shows it."""
    residual: float = 15.0
    """px: largest median reprojection error of its centre; refinement of the cameras takes up what is below."""
    mixed: float = 2.0
    """px by which the views may drift apart as the worm moves, if in another order they drift far less."""
    mixed_share: float = 0.4
    """Far less: this share."""
    contrast: float = 8.0
    """Least peak of the worm over the noise."""
    missing: float = 0.01
    """Largest share of frames dropped or unreadable in a camera."""
    rate: float = 0.005
    """Largest relative difference of the cameras' frame rates."""
    jitter: float = 0.3
    """Largest spread of the time between frames, in frames."""
    lag: float = 1.5
    """Frames by which a camera may run before or after the others."""
    focus: float = 0.35
    """Least sharpness, of each camera's own median."""
    second: float = 0.3
    """Largest share of frames with a second thing like a worm."""


@dataclass(frozen=True)
class Finding:
    """One thing that is, or may be, wrong."""

    severity: Literal["error", "warning"]
    text: str


def timing_findings(recording: Recording, limits: Limits, shortest: bool = False) -> Iterator[Finding]:
    """What counts, rates and time stamps say; shortest: that longer cameras lose their tails is wanted."""
    least, most = min(recording.views, key=_count), max(recording.views, key=_count)
    if most.count != least.count:
        more = f"{most.name} has {most.count - least.count} frames more than {least.name} ({most.count}, {least.count})"
        if shortest:
            yield _warning(f"{more}: all beyond {recording.count} frames is left out")
        else:
            yield _error(f"{more}: set cameras.offset, or --shortest to drop the tail")
    rates = sorted((view.source.rate, view.name) for view in recording.views if view.source.rate)
    if rates and rates[-1][0] > (1 + limits.rate) * rates[0][0]:
        yield _error(
            f"{rates[-1][1]} runs at {rates[-1][0]:.3f} frames a second, {rates[0][1]} at {rates[0][0]:.3f} "
            f"(limit {limits.rate:.1%} apart): the cameras are not synchronised"
        )
    if rates and all(abs(recording.fps - rate) > 0.02 * recording.fps for rate, _ in rates):
        yield _warning(
            f"fps is {recording.fps:g} in recording.toml, but the videos' time stamps say {rates[0][0]:.3f}; "
            "the time axis follows fps"
        )
    for view in recording.views:
        dropped, count = len(view.source.missing), view.source.count
        if dropped > limits.missing * count:
            yield _error(f"{view.name} has dropped {dropped} of {count} frames (limit {limits.missing:.0%})")
        elif dropped:
            yield _warning(f"{view.name} has dropped {dropped} of {count} frames: they will be unreadable")
        if view.source.jitter > limits.jitter:
            yield _warning(
                f"{view.name}'s time stamps are irregular (spread {view.source.jitter:.2f} frames, limit "
                f"{limits.jitter:g}); record at a fixed rate"
            )


def worm_findings(facts: dict[str, Any], limits: Limits) -> Iterator[Finding]:
    """What locating the worm here and there says."""
    worm = facts["worm"]
    if worm["found"] < limits.found:
        yield _error(
            f"the worm is found in {worm['found']:.1%} of the frames looked at (limit {limits.found:.0%}), first not "
            f"in frame {worm['lost_first']}"
        )
    if worm["aside"]:
        yield _warning(GHOSTLY)
    fault = size_fault(worm["length_mm"], worm["scale"])
    if fault is not None:
        yield _error(fault)
    yield from _order_findings(facts, limits)
    residual = worm["residual_median"] or 0.0
    if residual > limits.residual:
        yield _error(
            f"the views miss each other by {residual:.1f} px (limit {limits.residual:g}): the calibration is wrong, "
            "the cameras are mixed up, or out of step"
        )
    elif residual > limits.residual / 3:
        yield _warning(
            f"the views miss each other by {residual:.1f} px: the calibration is off by about that much, which "
            "reconstruct takes up; midline3d refine-cameras makes a better one"
        )
    if worm["second"] > limits.second:
        yield _warning(second_worm(worm["second"]))
    for camera in facts["cameras"]:
        yield from _view_findings(camera, limits)
    if facts["disk_needed"] > facts["disk_free"]:
        yield _error(
            f"the reconstruction needs {facts['disk_needed'] / 1e9:.1f} GB, but only {facts['disk_free'] / 1e9:.1f} GB "
            "are free beside the recording"
        )


def _order_findings(facts: dict[str, Any], limits: Limits) -> Iterator[Finding]:
    """Whether the pictures fit together far better when they change places."""
    if facts["worm"]["order"] is None or facts["worm"]["second"] > limits.second:
        return  # of two worms each view may show another as the heaviest
    order = Order(**facts["worm"]["order"])
    if order.wrong(limits.mixed, limits.mixed_share):
        names, sources = ([camera[key] for camera in facts["cameras"]] for key in ("name", "source"))
        yield _error(order.remedy(names, sources))


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


def _view_findings(camera: dict[str, Any], limits: Limits) -> Iterator[Finding]:
    name = camera["name"]
    if camera["unreadable_share"] > limits.missing:
        yield _error(
            f"{name}: {camera['unreadable_share']:.1%} of the frames looked at are unreadable or black "
            f"(limit {limits.missing:.0%})"
        )
    if camera["seen"] < 1:
        where = f"first not in frame {camera['not_seen_first']}: it leaves the view or is hidden"
        judge = _error if camera["seen"] < limits.seen else _warning
        yield judge(f"{name} shows the worm in {camera['seen']:.1%} of the frames (limit {limits.seen:.0%}), {where}")
    if camera["contrast"] < limits.contrast:
        yield _error(
            f"{name}: the worm stands out by {camera['contrast']:.1f} times the noise (limit {limits.contrast:g}); "
            "give more light or less gain"
        )
    if camera["focus"] and camera["focus_low"] < limits.focus * camera["focus"]:
        yield _warning(
            f"{name}: the worm goes out of focus (sharpness down to {camera['focus_low'] / camera['focus']:.0%} of its "
            f"median, limit {limits.focus:.0%})"
        )
    lag, error = camera["lag"], camera["lag_error"]
    if abs(lag) > limits.lag and abs(lag) > 4 * error:
        yield _error(
            f"{name} seems {abs(lag):.1f} +- {error:.1f} frames {'late' if lag > 0 else 'early'} "
            f"(limit {limits.lag:g}): {_offset_advice(name, camera['offset'], round(lag))}"
        )


def _offset_advice(name: str, offset: int, lag: int) -> str:
    """What brings a camera into step; offsets skip frames, so that they only go up, and the lengths then differ."""
    if offset + lag >= 0:
        step = f"set the offset of {name} to {offset + lag}"
    else:
        step = f"add {-lag} to the offset of every other camera"
    return f"{step} in recording.toml, and give --shortest, for the lengths then differ"


def _count(view: Any) -> int:
    return int(view.count)


def _error(text: str) -> Finding:
    return Finding("error", text)


def _warning(text: str) -> Finding:
    return Finding("warning", text)
