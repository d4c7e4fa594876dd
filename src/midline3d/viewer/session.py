"""One result as the viewer sees it: kept up to date while it grows, and everything that is asked about it."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from midline3d import cameras as rig
from midline3d.calibration import load_calibration
from midline3d.errors import InputError
from midline3d.store import EDITS, PENDING, REASONS, STATUSES, Edit, StoredFrames
from midline3d.store.edits import KINDS, standing
from midline3d.store.log import LOG
from midline3d.tracking.clip import kept_body
from midline3d.tracking.correcting import Bench
from midline3d.viewer.digest import FULL, PLACES, SMOOTHED, Digest, head_doubts, seams, speed
from midline3d.viewer.drafts import Drafts
from midline3d.viewer.pictures import ACROSS, LAYERS, STRIP, Originals, Strips

LOOKED = 0.5
"""Seconds between two looks at the folder."""
RADIUS = 1.2
"""Radius of the body in standard deviations of its image's middle."""
WORDS = {"status": (*STATUSES, PENDING), "reason": tuple(REASONS), "edited": tuple(EDITS)}
"""The words that a frame can have, in the order of the numbers that stand for them."""
Floats = NDArray[np.float32]


class Session:
    """A result, and what is derived from it."""

    def __init__(self, folder: Path, recording: Path | None = None) -> None:
        self.frames = StoredFrames(folder)
        self.originals = Originals(self.frames, recording)
        self.digest = Digest(self.frames)
        self._lock = threading.RLock()
        self._looked = 0.0
        self._bench: Bench | None = None
        self._strips: Strips | None = None
        self._drafts: Drafts | None = None
        self._shown: tuple[Bench | None, dict[str, Any]] = (None, {})

    def start(self) -> None:
        self.digest.start()

    def stop(self) -> None:
        self.digest.stop()
        if self._drafts is not None:
            self._drafts.stop()
        self.frames.close()

    def refresh(self, now: bool = False) -> None:
        """Takes in what was written to the folder since, by a run or by an edit."""
        with self._lock:
            if not now and time.monotonic() - self._looked < LOOKED:
                return
            self._looked = time.monotonic()
            before, run = self.frames.overlay.standing, self.frames.run
            with suppress(InputError):  # being written anew: the next look sees it
                if not self.frames.refresh():
                    return
            if self.frames.run != run:
                self._bench = self._strips = self._drafts = None
                self.digest.update(np.ones(len(self.frames.header.frames), np.bool_))
            else:
                self.digest.update(self._touched(before, self.frames.overlay.standing))

    def _touched(self, before: list[Edit], after: list[Edit]) -> NDArray[np.bool_]:
        """Frames whose edits are not the same."""
        kept = {edit.id for edit in before} & {edit.id for edit in after}
        changed = np.zeros(len(self.frames.header.frames), np.bool_)
        numbers = np.asarray(self.frames.header.frames)
        for edit in (*before, *after):
            if edit.id not in kept:
                for first, last in edit.frames:
                    changed |= (numbers >= first) & (numbers <= last)
        return changed

    @property
    def bench(self) -> Bench:
        """What refitting and rendering need; refused in one sentence while the run has not learned the animal yet."""
        with self._lock:
            if self._bench is None:
                self._bench = Bench(self.frames)
            return self._bench

    @property
    def strips(self) -> Strips:
        with self._lock:
            if self._strips is None:
                self._strips = Strips(self.bench)
            return self._strips

    @property
    def drafts(self) -> Drafts:
        with self._lock:
            if self._drafts is None:
                self._drafts = Drafts(self.bench)
            return self._drafts

    def about(self) -> dict[str, Any]:
        """All that stays the same while frames come and go."""
        header, crops = self.frames.header, self._crops()
        return {
            "name": header.attributes.get("recording", self.frames.folder.resolve().name),
            "folder": str(self.frames.folder.resolve()),
            "frames": [list(run) for run in _runs(header.frames)],
            "fps": header.fps,
            "keypoints": header.keypoints,
            "cameras": self._cameras(),
            "version": header.version,
            "device": header.device,
            "head_confidence": header.attributes.get("head_confidence"),
            "words": {name: list(words) for name, words in WORDS.items()},
            "meanings": {"reason": REASONS, "edited": EDITS, "kind": KINDS},
            "layers": list(LAYERS),
            "strip": {"frames": STRIP, "across": ACROSS},
            "kymograph": {"places": PLACES, "full": FULL},
            "series": self._series(),
            "originals": self.originals.fault,
            **crops,
        }

    def _crops(self) -> dict[str, Any]:
        """What the views and the tube need; why there are none."""
        try:
            bench = self.bench
        except (InputError, OSError, ValueError, KeyError) as fault:
            return {"crops": None, "fault": str(fault), "centre": [0.0, 0.0, 0.0], "radius": [], "length": None}
        if self._shown[0] is not bench:
            self._shown = bench, self._body(bench)
        return self._shown[1]

    def _body(self, bench: Bench) -> dict[str, Any]:
        clip, body = bench.clip, kept_body(self.frames.folder)
        place = torch.linspace(0, 1, self.frames.header.keypoints)
        width, _ = body.shape.profile(place, torch.zeros(2))
        known = clip.prepared.log.centre[np.isfinite(clip.prepared.log.centre).all(1)]
        return {
            "crops": {"window": clip.prepared.window, "side": clip.prepared.side, "scale": clip.prepared.scale},
            "fault": None,
            "centre": np.median(known, 0).tolist() if len(known) else [0.0, 0.0, 0.0],
            "radius": (RADIUS * float(body.sharp) * width).tolist(),
            "length": float(body.length),
        }

    def _cameras(self) -> list[dict[str, Any]]:
        path = self.frames.folder / "calibration.json"
        names = self.frames.header.cameras
        if not path.exists():
            return [{"name": name} for name in names]
        return [
            {
                "name": name,
                "size": list(camera.size) if camera.size else None,
                "rotation": camera.rotation.tolist(),
                "position": (-camera.rotation.T @ camera.translation).tolist(),
            }
            for name, camera in zip(names, load_calibration(path).cameras_for(names).cameras, strict=True)
        ]

    def _series(self) -> list[dict[str, Any]]:
        """The time series that can be asked for: name, columns, unit, meaning."""
        header = self.frames.header
        views = list(header.cameras)
        all_series: dict[str, tuple[list[str], str, str]] = {
            "loss": (["loss", *self._terms()], "", "what the fit has left over"),
            "confidence": (["body", "head", "tail"], "", "probability that the light drawn is there in all views"),
            "deviation": (["body", "head", "tail"], "mm", "standard deviation of the midline to its side"),
            "head_confidence": (["head"], "", "probability that keypoint 0 is the head"),
            "explained": (views, "", "light that image and render have in common"),
            "length": (["length"], "mm", "length of the midline"),
            "speed": (["speed"], "mm/s", f"of the centroid, over {SMOOTHED} frames"),
            "sigma": (views, "px", "width of the animal's image"),
            "iota": (views, "", "brightness of the animal's image"),
            "rho": (views, "", "sharpness of the animal's image"),
            "shift": ([f"axis {axis}" for axis in range(header.sizes["axis"])], "px", "how the views have moved"),
        }
        return [
            {"name": name, "columns": columns, "unit": unit, "meaning": meaning}
            for name, (columns, unit, meaning) in all_series.items()
        ]

    def state(self) -> dict[str, Any]:
        """What changes: asked for every second or two."""
        self.refresh()
        frames = self.frames
        edits = frames.overlay.edits
        return {
            "version": frames.version,
            "total": len(frames.header.frames),
            "done": int(frames.done.sum()),
            "complete": frames.complete,
            "digested": int(self.digest.known.sum()),
            "ready": (frames.folder / "body.json").exists(),
            "log": _last_line(frames.folder / LOG),
            "edits": len(edits),
            "standing": len(standing(edits)),
        }

    def words(self) -> bytes:
        """A byte for every frame's status, then for every reason, for what people did, and for doubts: 1 the head, 2 a
        seam."""
        stored = self.frames.small(["head_confidence"])
        codes = []
        for name, words in WORDS.items():
            there, which = np.unique(stored[name].values.astype(str), return_inverse=True)
            number = np.array([words.index(word) if word in words else 0 for word in there.tolist()], np.uint8)
            codes.append(number[which])
        numbers, sure = self.digest.numbers, stored["head_confidence"].values
        codes.append((head_doubts(numbers, sure) + 2 * seams(numbers)).astype(np.uint8))
        return b"".join(code.tobytes() for code in codes)

    def series(self, name: str) -> bytes:
        """float32, column after column."""
        numbers, fps = self.digest.numbers, self.frames.header.fps
        if name == "speed":
            found: NDArray[Any] = speed(numbers.centroid, fps)[:, None]
        elif name == "confidence":
            found = numbers.confidence
        elif name == "deviation":
            found = numbers.deviation
        elif name == "centroid":
            found = numbers.centroid - np.array(self._crops()["centre"])
        elif name in {each["name"] for each in self._series()}:
            columns = ["loss", *(f"loss_{term}" for term in self._terms())] if name == "loss" else [name]
            stored = self.frames.small(columns)
            found = np.concatenate([stored[each].values.reshape(len(stored["frame"]), -1) for each in columns], 1)
        else:
            raise InputError(f"there is no series '{name[:40]}'; there are {', '.join(WORDS)} and those of /api/about")
        return np.ascontiguousarray(found.T, dtype="<f4").tobytes()

    def _terms(self) -> list[str]:
        """Of the loss."""
        return sorted(name.removeprefix("loss_") for name in self.frames.names if name.startswith("loss_"))

    def kymograph(self, first: int, stop: int, columns: int) -> bytes:
        """int8 (column, place): frames at equal steps of places `first` to before `stop`."""
        known = self.digest.numbers.kymograph
        if not 0 <= first < stop <= len(known) or not 1 <= columns <= 8192:
            raise InputError(f"a kymograph has places 0 to {len(known)} and 1 to 8192 columns")
        chosen = np.minimum((first + (np.arange(columns) + 0.5) * (stop - first) / columns).astype(int), stop - 1)
        return known[chosen].tobytes()

    def curves(self, first: int) -> bytes:
        """float32 of a strip of frames: position (frame, keypoint, 3) in mm from the centre, projection (frame, camera,
        keypoint, 2) in px, first pixels of the crops (frame, camera, 2), confidence (frame, keypoint)."""
        count = len(self.frames.header.frames)
        if not 0 <= first < count:
            raise InputError(f"strips begin at places 0 to {count - 1}, not at {first}")
        part = self.frames.part(first, min(first + STRIP, count), ("projection", "confidence"))
        position = part["position"].isel(individual=0).transpose("time", "keypoint", "space").values
        arrays = [
            position - np.array(self._crops()["centre"]),
            part["projection"].values,
            self._origins(part["frame"].values),
            part["confidence"].isel(individual=0).values,
        ]
        return b"".join(np.ascontiguousarray(values, dtype="<f4").tobytes() for values in arrays)

    def _origins(self, frames: NDArray[np.int64]) -> NDArray[np.float64]:
        found = np.full((len(frames), len(self.frames.header.cameras), 2), np.nan)
        with suppress(InputError, OSError, ValueError, KeyError):
            prepared = self.bench.clip.prepared
            places = frames - prepared.start
            there = (places >= 0) & (places < len(prepared))
            found[there] = prepared.log.origin[places[there]]
        return found

    def epipolar(self, camera: int, frame: int, u: float, v: float) -> list[list[list[float]]]:
        """For every camera the places (px) that a place in one of them can be at, along the depth of its crop."""
        bench = self.bench
        clip, place = bench.clip, bench.place(frame)
        count = clip.cameras.count
        if not 0 <= camera < count:
            raise InputError(f"there is no camera {camera}; there are 0 to {count - 1}")
        shift = np.nan_to_num(bench.shown(frame)["shift"].values)
        apart = torch.einsum("kia,a->ki", clip.cameras.shift_basis, torch.from_numpy(shift).double())
        pixels = torch.zeros(1, count, 2, dtype=torch.float64)
        pixels[0, camera] = torch.tensor([u, v], dtype=torch.float64) - apart[camera]
        way, start = (each[0, camera] for each in rig.rays_through(clip.cameras, pixels))
        middle = ((clip.centres([place])[0] - start) * way).sum()
        reach = clip.prepared.window / clip.prepared.scale
        depths = middle + torch.linspace(-reach, reach, 65, dtype=torch.float64)
        points = (start + depths[:, None] * way)[None]
        seen = rig.project(clip.cameras, points, torch.from_numpy(shift)[None].double())[0]
        found: list[list[list[float]]] = seen.tolist()
        return found

    def history(self, last: int = 100) -> dict[str, Any]:
        """The last edits, the newest first, and whether each stands."""
        edits = self.frames.overlay.edits
        stands = {edit.id for edit in standing(edits)}
        shown = [edit.as_json() | {"stands": edit.id in stands} for edit in edits[-last:]]
        pins = [vars(pin) for edit in standing(edits) for pin in edit.pins]
        return {"edits": shown[::-1], "count": len(edits), "pins": pins}


def _runs(frames: tuple[int, ...]) -> list[tuple[int, int]]:
    numbers = np.asarray(frames)
    breaks = np.flatnonzero(np.diff(numbers) != 1)
    firsts, lasts = [0, *(breaks + 1)], [*breaks, len(numbers) - 1]
    return [(int(numbers[first]), int(numbers[last])) for first, last in zip(firsts, lasts, strict=True)]


def _last_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 2000))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return lines[-1][:300] if lines else ""
