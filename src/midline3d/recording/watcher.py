"""A process that looks for the worm in frames, for another (see `watchers`).

What the first look over the recording found comes on standard input, then frame after frame; what is seen in each goes
to standard output. When the input ends, because the other process is done with it or has died, this one ends too.
"""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from midline3d.cameras import Cameras
from midline3d.recording.background.light import Background
from midline3d.recording.locating.locator import Locator, Look
from midline3d.recording.locating.survey import Survey
from midline3d.settings import LocatingSettings


@dataclass(frozen=True, eq=False)
class Known:
    """What a locator knows, without the pictures that lie on the disk."""

    cameras: Cameras
    survey: Survey
    """Without its backgrounds."""
    settings: LocatingSettings
    backgrounds: tuple[tuple[np.ndarray, Path], ...]
    """Per camera, their moments and the file that holds them."""

    @staticmethod
    def of(locator: Locator) -> Known:
        """What `locator` knows, its backgrounds being mapped into memory from files."""
        files = []
        for background in locator.survey.backgrounds:
            assert isinstance(background.pictures, np.memmap)
            files.append((background.moments, Path(str(background.pictures.filename))))
        return Known(locator.cameras, replace(locator.survey, backgrounds=()), locator.settings, tuple(files))

    def locator(self) -> Locator:
        """A locator that sees what the first one does, to the last bit."""
        backgrounds = tuple(Background(moments, np.load(path, mmap_mode="r")) for moments, path in self.backgrounds)
        return Locator(self.cameras, replace(self.survey, backgrounds=backgrounds), self.settings)


def serve() -> None:
    """Frames until there are no more."""
    answers, sys.stdout = os.fdopen(os.dup(1), "wb"), sys.stderr
    os.dup2(2, 1)  # what libraries print is no answer
    cv2.setNumThreads(1)
    frames = sys.stdin.buffer
    try:
        locator = pickle.load(frames).locator()
        while True:
            pickle.dump(_seen(locator, *pickle.load(frames)), answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
    except (EOFError, BrokenPipeError):
        os._exit(0)  # nobody asks any more, and nothing here is worth keeping


def _seen(locator: Locator, frame: int, small: list[np.ndarray]) -> Look | str:
    """What is in a frame, without the pictures in which the things are marked; or what went wrong."""
    try:
        look = locator.look(frame, small)
    except Exception as fault:
        if os.environ.get("MIDLINE3D_DEBUG"):
            sys.excepthook(*sys.exc_info())
        return f"{type(fault).__name__}: {' '.join(str(fault).split())}"
    return replace(look, seen=[replace(things, label=np.zeros((0, 0), np.uint16)) for things in look.seen])
