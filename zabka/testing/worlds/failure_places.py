"""Places in the user's own code at which a test or a program failed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from traceback import FrameSummary

from zabka.simulation.engine.refusal import LIBRARIES

TIMED_OUT = ("until",)
"""Cause of a failure: a condition did not become true in time."""
_OWN = Path(__file__).parents[2]


def own_line(frames: Sequence[FrameSummary]) -> tuple[str, int]:
    """Return file and line of the innermost frame outside installed packages; without frames, an empty name and 0."""
    own = [each for each in frames if not each.filename.startswith((*LIBRARIES, str(_OWN)))] or frames
    return (own[-1].filename, own[-1].lineno or 0) if own else ("", 0)
