"""The isolation of a test's own programs from the host while their world runs.

A program of a test is not written for simulation. It reads the clocks of its simulated machine, and its random numbers
depend on the seed (`host_values`). It may call functions that a world cannot simulate: such a call raises NotSimulated
in the program, and the message names an alternative. If an unknown C extension starts native threads, this is detected
the next time the world stops.

The world's own servers do not need this: they get clocks and random numbers as arguments.
"""

from __future__ import annotations

import _thread
import multiprocessing.process
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from zabka.simulation.engine.c_clients import CClients
from zabka.simulation.engine.host_values import stamp_records_of_aiokafka, virtual_values
from zabka.simulation.engine.program_loop import ProgramLoop, Step
from zabka.simulation.engine.refusal import NotSimulated, not_simulated
from zabka.simulation.engine.sockets import SimulatedSocket
from zabka.simulation.engine.virtual_time import Clocked, Turn
from zabka.simulation.filesystem.aio_files import path_of
from zabka.simulation.filesystem.process_files import ProcessFiles

_THREADS = Path("/proc/self/task")
_NO_THREADS = "use asyncio tasks, asyncio.to_thread or loop.run_in_executor"
_NO_WAITS = "no thread can end it; use asyncio.Event, asyncio.Condition or asyncio.Queue"
_NO_ALARMS = "use loop.call_later"
_NO_COMMANDS = "replace the command in the test"
_NO_DNS = "use loop.getaddrinfo, which knows the machines of the world"
_REFUSED: tuple[tuple[Any, str, str, str], ...] = (
    (threading.Thread, "start", "threading.Thread.start", _NO_THREADS),
    (_thread, "start_new_thread", "_thread.start_new_thread", _NO_THREADS),
    (threading.Condition, "wait", "a wait for a thread", _NO_WAITS),
    (select, "select", "select.select", _NO_WAITS),
    (signal, "alarm", "signal.alarm", _NO_ALARMS),
    (signal, "setitimer", "signal.setitimer", _NO_ALARMS),
    (subprocess.Popen, "__init__", "subprocess.Popen", _NO_COMMANDS),
    (multiprocessing.process.BaseProcess, "start", "multiprocessing.Process.start", _NO_COMMANDS),
    *(
        (os, name, f"os.{name}", _NO_COMMANDS)
        for name in ("system", "fork", "forkpty", "posix_spawn", "posix_spawnp", "execv", "execve")
    ),
    (socket.socket, "__init__", "a subclass of socket.socket", "use socket.socket itself, and ssl=… for TLS"),
    (socket, "socketpair", "socket.socketpair", "use asyncio.Queue, or connect to localhost"),
    *(
        (socket, name, f"socket.{name}", _NO_DNS)
        for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo")
    ),
)


class Isolation:
    """Isolates the programs of one world from the host. Enter this context manager whenever the world runs."""

    def __init__(self, seed: random.Random, turn: Turn) -> None:
        self.loops: dict[ProgramLoop, str] = {}
        """Event loops of the test's programs, each with the name of its machine.

        Only these programs are isolated from the host.
        """
        self.steps: list[Step] | None = None
        """Traced event loop iterations of the programs, or None if they are not traced."""
        self._turn = turn
        self._thread = threading.get_ident()
        self._bytes = seed.randbytes
        self._state = random.Random(seed.getrandbits(64)).getstate()
        self._hosts_state = self._state
        self._native_threads = 0
        self._entered = ExitStack()

    def __enter__(self) -> None:
        """Restore the programs' random state, and make calls that cannot be simulated raise NotSimulated."""
        self._thread = threading.get_ident()
        self._hosts_state = random.getstate()
        self._native_threads = _native_threads()
        self._entered.enter_context(virtual_values(self._taker, self._bytes, self._machine))
        for owner, attribute, name, instead in _REFUSED:
            self._replace(owner, attribute, self._refusing(getattr(owner, attribute), name, instead))
        for name in ("fsync", "fdatasync"):
            self._replace(os, name, self._syncing(getattr(os, name)))
        clients = CClients(self._refusing, self._replace)
        clients.guard()
        sys.meta_path.insert(0, clients)
        self._entered.callback(sys.meta_path.remove, clients)
        self._make_sockets()
        self._replace(os, "open", self._opening(os.open))
        self._replace(os, "close", self._closing(os.close))
        self._replace(signal, "signal", self._setting_signal(signal.signal))
        self._replace(signal, "raise_signal", self._raising_signal(signal.raise_signal))
        self._replace(os, "kill", self._killing(os.kill))
        random.setstate(self._state)
        stamp_records_of_aiokafka()

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Restore the host's clocks, random state and functions.

        Raises NotSimulated if there are new native threads.
        """
        self._entered.close()
        self._state = random.getstate()
        random.setstate(self._hosts_state)
        if raised is None and _native_threads() > self._native_threads:
            raise NotSimulated(
                "a program of this world has started threads outside Python, as clients in C (confluent-kafka) do: "
                "they run in real time; use aiokafka in a simulated world, or the fixture zabka_cluster"
            )

    def _make_sockets(self) -> None:
        """Let `socket.socket()` return a SimulatedSocket in a program."""
        original: Callable[[type], Any] = socket.socket.__new__

        def new(cls: type, *_: Any, **__: Any) -> Any:
            return original(SimulatedSocket if cls is socket.socket and self._taker() is not None else cls)

        self._replace(socket.socket, "__new__", new)

    def _replace(self, owner: Any, attribute: str, replacement: Any) -> None:
        self._entered.callback(setattr, owner, attribute, getattr(owner, attribute))
        setattr(owner, attribute, replacement)

    def _taker(self) -> Clocked | None:
        """Return the program that is running, or None if no program is running."""
        taker = self._turn.taker
        return taker if taker in self.loops and threading.get_ident() == self._thread else None

    def _machine(self) -> str:
        taker = self._turn.taker
        return self.loops[taker] if isinstance(taker, ProgramLoop) else ""

    def _refusing(self, original: Callable[..., Any], name: str, instead: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if self._taker() is not None:
                raise not_simulated(name, instead)
            return original(*args, **options)

        return call

    def _setting_signal(self, original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """Return a replacement for signal(2) that sets the signal handler of the running program."""

        def set_handler(number: int, handler: Any, /) -> Any:
            taker = self._taker()
            if not isinstance(taker, ProgramLoop):
                return original(number, handler)
            before = taker.signals.pop(number, None)
            if callable(handler):
                taker.signals[number] = partial(handler, number, None)
            return signal.SIG_DFL if before is None else before

        return set_handler

    def _raising_signal(self, original: Callable[[int], None]) -> Callable[[int], None]:
        def send(number: int, /) -> None:
            taker = self._taker()
            if not isinstance(taker, ProgramLoop):
                original(number)
            elif number in taker.signals:
                taker.signals[number]()
            else:
                raise SystemExit(128 + number)

        return send

    def _killing(self, original: Callable[[int, int], None]) -> Callable[[int, int], None]:
        """Return a replacement for kill(2) with which a program can send signals to itself."""

        def kill(process: int, number: int, /) -> None:
            if self._taker() is None:
                original(process, number)
            elif process != os.getpid():
                raise not_simulated("os.kill", "call a method of the program, as world.start returns it")
            elif number:
                signal.raise_signal(number)

        return kill

    def _syncing(self, original: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return a replacement for fsync(2) that syncs the program's simulated files.

        For other file descriptors, the replacement calls the host's fsync.
        """

        def sync(descriptor: Any, /) -> None:
            files = self._files()
            number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
            if files is not None and files.has(number):
                files.fsync(number)
            else:
                original(descriptor)

        return sync

    def _files(self) -> ProcessFiles | None:
        """Return the disk of the running program, or None if no program is running."""
        taker = self._taker()
        return taker.disk if isinstance(taker, ProgramLoop) and isinstance(taker.disk, ProcessFiles) else None

    def _opening(self, original: Callable[..., int]) -> Callable[..., int]:
        """Return a replacement for open(2) that opens directories of the simulated disk, because programs sync them.

        All other files are opened on the host.
        """

        def open_directory(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            files = self._files()
            if files is not None and dir_fd is None and flags & os.O_ACCMODE == os.O_RDONLY:
                with suppress(OSError):
                    return files.open(path_of(path), os.O_RDONLY | os.O_DIRECTORY)
            return original(path, flags, mode, dir_fd=dir_fd)

        return open_directory

    def _closing(self, original: Callable[[int], None]) -> Callable[[int], None]:
        def close(descriptor: int, /) -> None:
            files = self._files()
            if files is not None and files.has(descriptor):
                files.close(descriptor)
            else:
                original(descriptor)

        return close


def _native_threads() -> int:
    """Return the number of threads that Python did not start, or 0 if the system does not report it."""
    try:
        return len(list(_THREADS.iterdir())) - threading.active_count()
    except OSError:
        return 0
