"""Run commands that set up a container engine for the tests. If one fails, report why."""

from __future__ import annotations

import subprocess
from pathlib import Path


class NoEngine(Exception):
    """No container engine is available on this machine. The message is the reason."""


def try_command(*command: str, timeout_s: float = 60, directory: Path | None = None) -> tuple[bool, str]:
    """Run a command, and return whether it succeeded and the last line of its output."""
    try:
        done = subprocess.run(command, cwd=directory, check=False, capture_output=True, text=True, timeout=timeout_s)
    except (OSError, subprocess.TimeoutExpired) as reason:
        return False, str(reason)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1] if lines else ""


def must(*command: str, timeout_s: float = 600, directory: Path | None = None) -> None:
    """Run a command. Raise NoEngine with the last line of its output if it fails."""
    works, output = try_command(*command, timeout_s=timeout_s, directory=directory)
    if not works:
        raise NoEngine(f"{' '.join(command[:4])}: {output}")
