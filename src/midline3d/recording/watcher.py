"""A process that looks for the worm in frames, for another (see `watchers`).

What the first look over the recording found comes on standard input, then frame after frame, whose pictures lie in
memory that both processes see; what is seen in each, or cut out of it, goes to standard output. When the input ends,
because the other process is done with it or has died, this one ends too.
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
from midline3d.recording.background.light import Background, shrunken
from midline3d.recording.cutting import Crops, Cutter
from midline3d.recording.locating.locator import Locator, Look, Sight
from midline3d.recording.locating.survey import Survey
from midline3d.recording.shared_pictures import PicturesThere, Slot
from midline3d.recording.sources import Picture
from midline3d.settings import LocatingSettings

LARGE = 31 << 20
"""Bytes: somewhat less than the largest block that counts."""


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


@dataclass(frozen=True, eq=False)
class Cut:
    """How crops are to be cut out of a frame that was seen before."""

    light: list[float]
    registration: list[np.ndarray]
    window: int
    """px"""
    corner: np.ndarray
    """(camera, 2) px"""
    beside: bool
    """As `Cutter.crops` has it."""


@dataclass(frozen=True, eq=False)
class Task:
    """A frame that is to be looked at, or cut."""

    frame: int
    slot: Slot
    """Where its pictures lie."""
    cut: Cut | None = None


def serve() -> None:
    """Frames until there are no more."""
    answers, sys.stdout = os.fdopen(os.dup(1), "wb"), sys.stderr
    os.dup2(2, 1)  # what libraries print is no answer
    cv2.setNumThreads(1)
    # GNU's library gives memory back to the system, picture after picture, until a block as large was given back once.
    np.empty(LARGE, np.uint8)
    tasks = sys.stdin.buffer
    try:
        known, memory = pickle.load(tasks)
        locator, pictures = known.locator(), PicturesThere(memory)
        while True:
            pickle.dump(_done(locator, pictures, pickle.load(tasks)), answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
    except (EOFError, BrokenPipeError):
        os._exit(0)  # nobody asks any more, and nothing here is worth keeping


def _done(locator: Locator, memory: PicturesThere, tasks: list[Task]) -> list[Look | Crops] | str:
    """What is in some frames, or what was cut out of them; or what went wrong."""
    try:
        return [_one(locator, task, memory.get(task.slot)) for task in tasks]
    except Exception as fault:
        if os.environ.get("MIDLINE3D_DEBUG"):
            sys.excepthook(*sys.exc_info())
        return f"{type(fault).__name__}: {' '.join(str(fault).split())}"


def _one(locator: Locator, task: Task, pictures: list[Picture]) -> Look | Crops:
    return _seen(locator, task.frame, pictures) if task.cut is None else _cut(locator, task, task.cut, pictures)


def _seen(locator: Locator, frame: int, pictures: list[Picture]) -> Look:
    """What is in a frame, without the pictures in which the things are marked."""
    look = locator.look(frame, [shrunken(picture, locator.survey.factor) for picture in pictures])
    return replace(look, seen=[replace(things, label=np.zeros((0, 0), np.uint16)) for things in look.seen])


def _cut(locator: Locator, task: Task, asked: Cut, pictures: list[Picture]) -> Crops:
    sight = Sight(task.frame, pictures, asked.light, asked.registration, [])
    return Cutter(locator.survey, asked.window).crops(sight, asked.corner, asked.beside)
