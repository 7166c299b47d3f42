"""The oracle of an ensemble of two: a file that lets a server go on without the other (QuorumOracleMaj)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

AGREES = b"1"


def ask(path: Path) -> bool:
    """Does the file begin with a 1?  One that is not there, or cannot be read, says no."""
    try:
        with path.open("rb") as file:
            return file.read(1) == AGREES
    except OSError:
        return False


class OracleWatch:
    """Asks every half tick, while the loop runs, and tells of each change.  (ZooKeeper asks when it has to decide; half
    a tick is how soon it notices that it must.)"""

    def __init__(self, path: Path, tick_time_ms: int, tell: Callable[[bool], None]) -> None:
        self._path = path
        self._pause_s = tick_time_ms / 2000
        self._tell = tell
        self._said = False

    def start(self) -> None:
        """Ask now, and from now on."""
        says = ask(self._path)
        if says is not self._said:
            self._said = says
            self._tell(says)
        asyncio.get_running_loop().call_later(self._pause_s, self.start)
