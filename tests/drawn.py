"""Small films of a bent dark line among dirt, from three sides: quick to draw, for tests of the input side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from midline3d.calibration import Calibration, Camera, save_calibration

SIZE = 240
SCALE = 90.0
"""px per mm."""
DISTANCE, FOCAL = 1000.0, SCALE * 1000.0
SIDES = (
    np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]], float),
    np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]], float),
    np.array([[0, 0, 1], [0, 1, 0], [-1, 0, 0]], float),
)


def rig(cameras: int = 3) -> Calibration:
    """Nearly telecentric cameras that look at the origin along z, y and x."""
    middle = (SIZE - 1) / 2
    matrix = np.array([[FOCAL, 0, middle], [0, FOCAL, middle], [0, 0, 1]])
    return Calibration(
        tuple(
            Camera(f"cam{index}", (SIZE, SIZE), matrix, np.zeros(5), side, np.array([0, 0, DISTANCE]))
            for index, side in enumerate(SIDES[:cameras])
        )
    )


def midline(frame: int, speed: float = 0.012, length: float = 1.0) -> np.ndarray:
    """(point, 3) mm: a wave that swims along x."""
    along = np.linspace(-0.5, 0.5, 40) * length
    phase = 2 * np.pi * (along / 0.8 - 0.04 * frame)
    start = np.array([-0.3 + speed * frame, 0.1, -0.1])
    return np.stack([along, 0.12 * np.sin(phase), 0.1 * np.sin(0.7 * phase + 1)], -1) * [0.85, 1, 1] + start


@dataclass(frozen=True)
class DrawnRecording:
    """What to draw."""

    frames: int = 24
    cameras: int = 3
    dirt: int = 12
    noise: float = 1.0
    light: float = 170.0
    bright: bool = False
    worms: tuple[Callable[[int], np.ndarray], ...] = (midline,)
    seed: int = 0

    def pictures(self) -> np.ndarray:
        """(camera, frame, height, width) uint8."""
        rng = np.random.default_rng(self.seed)
        y, x = np.mgrid[:SIZE, :SIZE] / SIZE
        stacks = []
        for camera in rig(self.cameras).cameras:
            still = np.zeros((SIZE, SIZE), np.float32)
            for u, v in rng.uniform(10, SIZE - 10, (self.dirt, 2)):
                cv2.circle(still, (int(u), int(v)), int(rng.integers(2, 4)), 0.5, -1)
            light = self.light * (1 - 0.25 * (x - rng.uniform(0.3, 0.7)) ** 2 - 0.2 * (y - 0.5) ** 2)
            stacks.append([self._picture(frame, camera, still, light, rng) for frame in range(self.frames)])
        return np.array(stacks)

    def _picture(self, frame, camera, still, light, rng):
        density = still.copy()
        for worm in self.worms:
            points = worm(frame) @ camera.rotation.T + camera.translation
            pixels = (points / points[:, 2:]) @ camera.matrix.T
            body = np.zeros_like(density)
            line = np.rint(pixels[:, :2] * 16).astype(np.int32)
            cv2.polylines(body, [line], False, 1.0, 5, cv2.LINE_AA, 4)
            density += body
        density = cv2.GaussianBlur(density, (0, 0), 1.2)
        grey = self.light * 0.05 + 0.9 * light * (1 - np.exp(-density)) if self.bright else light * np.exp(-density)
        noisy = grey * (1 + 0.003 * rng.standard_normal()) + rng.normal(0, self.noise, grey.shape)
        return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def centre(frame: int) -> np.ndarray:
    """(3,) mm: the worm's true centre."""
    return midline(frame).mean(0)


def write(folder: Path, pictures: np.ndarray, extra: str = "", calibration: Calibration | None = None) -> Path:
    """A recording of .npy stacks; `extra` goes on top of recording.toml."""
    folder.mkdir(parents=True, exist_ok=True)
    save_calibration(calibration or rig(len(pictures)), folder / "calibration.json")
    tables = ""
    for index, stack in enumerate(pictures):
        np.save(folder / f"cam{index}.npy", stack)
        tables += f'[[cameras]]\nname = "cam{index}"\nsource = "cam{index}.npy"\n'
    (folder / "recording.toml").write_text(f'calibration = "calibration.json"\nfps = 25.0\n{extra}\n{tables}')
    return folder
