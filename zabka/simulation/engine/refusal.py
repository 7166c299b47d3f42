"""Exception for calls that a world cannot simulate; its message names the line of the call in the user's own code."""

from __future__ import annotations

import site
import sys
import sysconfig
from types import FrameType

LIBRARIES = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), *site.getsitepackages()})
"""The folders of Python's own modules and of installed packages."""
CALLERS_MAX = 50


class NotSimulated(RuntimeError):
    """A program called a function that a world cannot simulate."""


def not_simulated(name: str, instead: str, *, frames: int = 2) -> NotSimulated:
    """Return the exception for a call of `name`, `frames` stack frames up; `instead` is the alternative to use."""
    place = _place(sys._getframe(frames))
    return NotSimulated(f"{name} at {place} does not work in a simulated world: {instead}")


def _place(caller: FrameType) -> str:
    """Return the nearest line outside installed packages on the call stack of `caller`."""
    frame: FrameType | None = caller
    for _ in range(CALLERS_MAX):
        if frame is None:
            break
        if not frame.f_code.co_filename.startswith((*LIBRARIES, "<")):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return f"{caller.f_code.co_filename}:{caller.f_lineno}"
