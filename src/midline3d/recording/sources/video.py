"""Videos by PyAV. Frames are counted and found by their time stamps, never by what the container claims."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.recording.sources.source import Picture, checked_size, fault_of
from midline3d.recording.sources.threads import decoding_threads

TRIED = 50
"""Frames from the first that are tried for one that can be decoded, which has the size of all: a stream that was cut
begins with some that cannot."""
LONGEST_GAP = 10_000
"""Frames: a longer jump of the time stamps is a clock that was set, not frames that were lost."""


class VideoSource:
    """A video whose packets were listed once; `indices` puts each time stamp on the grid of frames."""

    def __init__(self, path: Path, stamps: NDArray[np.int64], keys: NDArray[np.bool_], base: Fraction) -> None:
        self.path = path
        self._stamps = stamps
        places = _places(stamps)
        self._index = dict(zip(stamps.tolist(), places.tolist(), strict=True))
        self._keys = [index for index, key in zip(places.tolist(), keys.tolist(), strict=True) if key]
        self._stamp_of = dict(zip(places.tolist(), stamps.tolist(), strict=True))
        self.count = int(places[-1]) + 1
        self.missing = tuple(sorted(set(range(self.count)) - set(places.tolist())))
        span = float((stamps[-1] - stamps[0]) * base)
        self.rate = (self.count - 1) / span if span > 0 else None
        steps = np.diff(stamps) / np.maximum(np.diff(places), 1)
        self.jitter = float(np.std(steps) / max(float(np.mean(steps)), 1e-9)) if steps.size else 0.0
        first = next((picture for _, picture in self.frames(0, min(self.count, TRIED)) if picture is not None), None)
        if first is None:
            raise InputError(f"{path}: none of its first frames can be decoded; is the video whole?")
        self.size, self.depth = checked_size(path, first), first.itemsize

    def frames(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Picture | None]]:
        stop = self.count if stop is None else min(stop, self.count)
        expected = start
        for index, picture in self._decode(start, ahead=True):
            if index >= stop:
                break
            for lost in range(expected, index):
                yield lost, None
            yield index, picture
            expected = index + 1
        for lost in range(expected, stop):
            yield lost, None

    def read(self, indices: Sequence[int]) -> Iterator[tuple[int, Picture | None]]:
        wanted = list(indices)
        while wanted:
            decoding = self._decode(wanted[0])
            for index, picture in decoding:
                while wanted and wanted[0] < index:
                    yield wanted.pop(0), None
                if wanted and wanted[0] == index:
                    yield wanted.pop(0), picture
                # A key frame beyond here and before the next wanted one makes a jump cheaper than going on.
                if not wanted or self._key_before(wanted[0]) > index:
                    break
            else:
                yield from ((index, None) for index in wanted)
                return
            decoding.close()

    def near(self, index: int, reach: int) -> int:
        place = bisect_right(self._keys, index)
        close = min(self._keys[max(0, place - 1) : place + 1], key=lambda key: abs(key - index), default=index)
        return close if abs(close - index) <= reach else index

    def fault(self, index: int) -> str:
        if index in self.missing:
            return "it was dropped"
        decoded = next(((at, picture) for at, picture in self._decode(index, any_size=True) if at >= index), None)
        return fault_of(decoded[1] if decoded is not None and decoded[0] == index else None, self.size, "it")

    def _key_before(self, index: int) -> int:
        place = bisect_right(self._keys, index)
        return self._keys[place - 1] if place else 0

    def _decode(
        self, start: int, ahead: bool = False, any_size: bool = False
    ) -> Generator[tuple[int, Picture | None], None, None]:
        """Readable frames from `start` on, by rising index; ahead: several of them are decoded at once, where there are
        cores for it. That pays for many, not for one. any_size: not only those of the first one's size."""
        import av

        last = start - 1
        with av.open(str(self.path)) as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count = decoding_threads(3)
            if ahead and stream.codec_context.thread_count > 1:
                stream.thread_type = "AUTO"  # frames, too, and not the slices of one alone, of which most have but one
            if self._key_before(start) > 0:
                with suppress(av.FFmpegError):  # with a broken index all is decoded from the beginning
                    container.seek(self._stamp_of[self._key_before(start)], stream=stream, backward=True)
            for frames in _decoded(container, stream):
                for frame in frames:
                    index = self._index.get(frame.pts if frame.pts is not None else frame.dts, last + 1)
                    if index <= last:
                        continue
                    last = index
                    yield index, self._picture(frame, any_size)

    def _picture(self, frame: Any, any_size: bool) -> Picture | None:
        """A decoded frame's grey values; None where it is broken, or of another size than the first if that matters."""
        if frame.is_corrupt:
            return None
        try:
            picture = luminance(frame)
        except Exception:  # whatever a broken frame makes of its planes: it is lost, the run is not
            return None
        return picture if any_size or not hasattr(self, "size") or picture.shape[::-1] == self.size else None


def open_video(path: Path) -> VideoSource:
    """List a video's packets (nothing is decoded) and put them in the order of their time stamps."""
    import av

    try:
        with av.open(str(path)) as container:
            if not container.streams.video:
                raise InputError(f"{path}: holds no video stream; is it the right file?")
            stream = container.streams.video[0]
            if stream.codec_context is None:
                raise InputError(f"{path}: FFmpeg has no decoder for its video stream; is it whole?")
            stamps, keys = _packets(container, stream)
            base = stream.time_base or Fraction(1, 25)
    except (av.FFmpegError, OSError, ValueError) as fault:
        if isinstance(fault, InputError):
            raise
        raise InputError(
            f"{path}: FFmpeg cannot read it as a video ({getattr(fault, 'strerror', None) or fault}); is it whole?"
        ) from None
    if not stamps:
        raise InputError(f"{path}: the video holds no frames; was the recording stopped before it began?")
    order = np.argsort(stamps, kind="stable")
    return VideoSource(path, np.asarray(stamps, np.int64)[order], np.asarray(keys, np.bool_)[order], base)


def _decoded(container: Any, stream: Any) -> Iterator[list[Any]]:
    """The frames of every packet; a packet that cannot be decoded has none, and a file that breaks off ends there."""
    import av

    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets)
        except (StopIteration, av.FFmpegError):
            return
        try:
            yield packet.decode()
        except av.FFmpegError:
            continue


def _packets(container: Any, stream: Any) -> tuple[list[int], list[bool]]:
    import av

    stamps: list[int] = []
    keys: list[bool] = []
    try:
        for packet in container.demux(stream):
            stamp = packet.pts if packet.pts is not None else packet.dts
            if packet.size and stamp is not None:
                stamps.append(stamp)
                keys.append(packet.is_keyframe)
    except av.FFmpegError:
        pass  # a file cut off in the middle: what came before it counts
    return stamps, keys


def _places(stamps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Frame number of each time stamp: a step of about n periods is n frames, so jitter never adds up."""
    steps = np.diff(stamps)
    if not steps.size:
        return np.zeros(1, np.int64)
    period = float(np.median(steps[steps > 0])) if (steps > 0).any() else 1.0
    frames = np.maximum(1, np.rint(steps / period).astype(np.int64))
    frames[frames > LONGEST_GAP] = 1
    return np.concatenate([[0], np.cumsum(frames)])


def luminance(frame: Any) -> Picture:
    """A decoded frame's grey values over the full range, without a colour conversion where there is a grey plane."""
    name = frame.format.name
    deep = any(component.bits > 8 for component in frame.format.components)
    planar = name.startswith(("gray", "yuv", "nv12", "nv16", "nv21")) and not name.endswith("be")
    if not planar or name.startswith(("yuyv", "yuva")):
        grey: Picture = frame.to_ndarray(format="gray16le" if deep else "gray")
        return grey
    plane = frame.planes[0]
    depth = frame.format.components[0].bits
    kind = np.dtype(np.uint16 if depth > 8 else np.uint8)
    rows = np.frombuffer(plane, kind).reshape(plane.height, -1)[:, : plane.width]
    full = name.startswith(("gray", "yuvj")) or int(frame.color_range) == 2
    if full:
        return rows.copy()
    return _expanded(rows, depth)


def _expanded(rows: NDArray, depth: int) -> Picture:
    """Television's range (16 to 235 in 8 bit) stretched to the whole one, so that black is 0."""
    unit = 1 << (depth - 8)
    levels = np.arange(256 * unit)
    table = np.clip(np.rint((levels - 16 * unit) * ((256 * unit - 1) / (219 * unit))), 0, 256 * unit - 1)
    table = table.astype(rows.dtype)
    if depth == 8:
        import cv2

        return np.asarray(cv2.LUT(np.ascontiguousarray(rows), table))
    return np.asarray(table[rows])
