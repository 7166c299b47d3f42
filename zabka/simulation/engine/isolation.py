"""What a test's own programs may not share with the host while their world runs: randomness, threads, sockets.

A program of a test is not written for simulation.  It draws from `random`, `uuid` and `secrets`, which here continue a
stream of the seed's.  It may also start what no world can simulate; a call of that kind raises NotSimulated in the
program, with an alternative.  Native threads that a C extension starts are found when the world stops next.

The world's own servers need none of this: they get their randomness through ports.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any

from zabka.simulation.engine.program_loop import Step
from zabka.simulation.engine.virtual_time import Turn

_THREADS = Path("/proc/self/task")
_REFUSED: tuple[tuple[Any, str, str, str], ...] = (
    (threading.Thread, "start", "threading.Thread.start", "use asyncio tasks, or loop.run_in_executor"),
    (subprocess.Popen, "__init__", "subprocess.Popen", "replace the command in the test"),
    (socket.socket, "__init__", "socket.socket", "use asyncio.open_connection, or loop.create_connection"),
)


class NotSimulated(RuntimeError):
    """A program called what a world cannot simulate."""


class Isolation:
    """The isolation of the programs of one world; a context manager that is entered whenever the world runs."""

    def __init__(self, seed: random.Random, turn: Turn) -> None:
        self.loops: list[object] = []
        """The loops of the programs; other processes of the world are not restricted."""
        self.steps: list[Step] | None = None
        """The turns of the programs, if they are traced."""
        self._turn = turn
        self._thread = threading.get_ident()
        self._bytes = seed.randbytes
        self._state = random.Random(seed.getrandbits(64)).getstate()
        self._hosts_state = self._state
        self._depth = 0
        self._native_threads = 0
        self._replaced = [
            (os, "urandom", os.urandom, self._seeded),
            # SystemRandom, and with it `secrets`, has imported the function by this name.
            (random, "_urandom", os.urandom, self._seeded),
            *(
                (owner, attribute, getattr(owner, attribute), self._refusing(getattr(owner, attribute), name, instead))
                for owner, attribute, name, instead in _REFUSED
            ),
        ]
        self._urandom = os.urandom

    def __enter__(self) -> None:
        """Let the programs' randomness continue, and refuse what cannot be simulated."""
        self._depth += 1
        if self._depth > 1:
            return
        self._thread = threading.get_ident()
        self._hosts_state = random.getstate()
        random.setstate(self._state)
        self._native_threads = _native_threads()
        for owner, attribute, _, replacement in self._replaced:
            setattr(owner, attribute, replacement)
        _stamp_records_of_aiokafka()

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Restore the host's randomness.  Raises NotSimulated if there are new native threads."""
        self._depth -= 1
        if self._depth:
            return
        for owner, attribute, original, _ in self._replaced:
            setattr(owner, attribute, original)
        self._state = random.getstate()
        random.setstate(self._hosts_state)
        if raised is None and _native_threads() > self._native_threads:
            raise NotSimulated(
                "a program of this world has started threads outside Python, as clients in C (confluent-kafka) do: "
                "they run in real time; use aiokafka in a simulated world, or the fixture zabka_cluster"
            )

    def _seeded(self, size: int, /) -> bytes:
        return self._bytes(size) if self._has_turn() else self._urandom(size)

    def _has_turn(self) -> bool:
        taker = self._turn.taker
        return any(taker is loop for loop in self.loops) and threading.get_ident() == self._thread

    def _refusing(self, original: Callable[..., Any], name: str, instead: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if self._has_turn():
                caller = sys._getframe(1)
                place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
                raise NotSimulated(f"{name} at {place} does not work in a simulated world: {instead}")
            return original(*args, **options)

        return call


def _native_threads() -> int:
    """Return the number of threads that Python did not start; 0 where the system does not tell."""
    try:
        return len(list(_THREADS.iterdir())) - threading.active_count()
    except OSError:
        return 0


def _stamp_records_of_aiokafka() -> None:
    """Let aiokafka's producer, if it is imported, take record timestamps from `time.time` at each call.

    Its batches have bound the host's clock at import, in Python and in C.
    """
    module = sys.modules.get("aiokafka.producer.message_accumulator")
    if module is None or hasattr(module.BatchBuilder.append, "__wrapped__"):
        return
    append = module.BatchBuilder.append

    @wraps(append)
    def stamped(self: Any, *, timestamp: int | None, **fields: Any) -> Any:
        return append(self, timestamp=round(time.time() * 1000) if timestamp is None else timestamp, **fields)

    module.BatchBuilder.append = stamped
