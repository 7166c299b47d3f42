"""Commands that a container engine for the tests takes, and why there is none where one of them fails."""

from __future__ import annotations

import subprocess
from pathlib import Path


class NoEngine(Exception):
    """No engine can be had here, and why."""


def says(*command: str, timeout_s: float = 60, directory: Path | None = None) -> tuple[bool, str]:
    """Whether a command works, and the last line of what it says."""
    try:
        done = subprocess.run(command, cwd=directory, check=False, capture_output=True, text=True, timeout=timeout_s)
    except (OSError, subprocess.TimeoutExpired) as reason:
        return False, str(reason)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1] if lines else ""


def must(*command: str, timeout_s: float = 600, directory: Path | None = None) -> None:
    """Raises NoEngine where a command does not work, with what it says."""
    works, said = says(*command, timeout_s=timeout_s, directory=directory)
    if not works:
        raise NoEngine(f"{' '.join(command[:4])}: {said}")
