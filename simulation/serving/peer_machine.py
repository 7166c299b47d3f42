"""A machine on which `zabka peer` runs: its zoo.cfg, its disk, and its place in the world's record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import structlog

from ensemble.ports import Instant
from ensemble.runtime.files import Files
from ensemble.server.config.zoo_cfg import ConfigError, ZooConfig, load
from ensemble.server.net.sockets import PortError
from ensemble.server.operator.running_peer import RunningPeer
from ensemble.server.process.driver import Stopped
from ensemble.server.process.peer_process import load_history, serve
from ensemble.server.process.surroundings import Surroundings
from ensemble.txnlog.errors import DataDirectoryError
from ensemble.txnlog.files import LOG_PREFIX, make_directories, replace_file, zxid_of
from journal.cause import UNKNOWN, Cause
from journal.events import Event
from simulation.filesystem.process_files import ProcessFiles
from simulation.network.addresses import peer_name
from simulation.processes.loop import ProcessLoop
from simulation.processes.machine import Ground, Machine, SimProcess
from simulation.record import Record
from simulation.serving.reached import Reached

ROOT = Path("/")
DATA = ROOT / "data"
ZOO_CFG = ROOT / "zoo.cfg"
CLIENT_PORT, QUORUM_PORT, ELECTION_PORT = 2181, 2888, 3888
RESTART_US = 500_000
"""How soon a supervisor starts a peer again that has given up, as the host agent does."""

_TROUBLES = (ConfigError, DataDirectoryError, PortError, Stopped, OSError)
"""What `zabka peer` says in one line, and ends with."""


def peer_address(peer: int) -> str:
    """The IP address of a peer's machine."""
    return f"10.0.0.{peer}"


def write_durably(path: Path, text: str, files: Files) -> None:
    """Put a file where it survives a power loss."""
    replace_file(path, text.encode(), path.name + ".tmp", files)


class RecordJournal:
    """A process's journal, which is the world's record."""

    def __init__(self, record: Record, node: str, loop: ProcessLoop) -> None:
        self._record = record
        self._node = node
        self._loop = loop

    def write(self, event: Event) -> Cause:
        """Others see it at once: what a buffer would lose with its process has happened all the same."""
        if self._loop.killed:
            return UNKNOWN
        now = Instant(self._loop.mono_ns() // 1_000_000, self._loop.wall_ns() // 1_000_000)
        return self._record.write(self._node, now, event)

    def flush(self) -> None:
        """Nothing waits."""


class _Silent:
    """The log for people, in a world without them."""

    def __call__(self, *_: object, **__: object) -> None:
        return

    def __getattr__(self, name: str) -> _Silent:
        return self


class PeerMachine(Machine):
    """A computer with a peer on it; `keys` are those of its zoo.cfg, but for its data directory."""

    def __init__(
        self, ground: Ground, record: Record, reached: Reached, peer_id: int, keys: dict[str, str], skew_ms: int
    ) -> None:
        super().__init__(
            ground, peer_name(peer_id), peer_address(peer_id), self._run, on_exit=self._ended,
            skew_us=skew_ms * 1000,
        )  # fmt: skip
        self.peer_id = peer_id
        self.record = record
        self.running: RunningPeer | None = None
        self.gave_up = 0
        """How often the process ended without being told to."""
        self.is_wanted = False
        """Is a process that ends to be started again?"""
        self.reached = reached
        self.on_unlink = self._unlinks
        self.on_no_member: Callable[[PeerMachine], None] = _nobody
        """Hears of a server that cannot start, since it has left the ensemble."""
        self._restart_due = False
        self._keys = keys
        self._set_up()

    def format(self) -> None:
        """Another disk, with nothing on it but what an administrator puts there."""
        self.volume = self.new_volume()
        self._set_up()

    def _set_up(self) -> None:
        """zoo.cfg and myid."""
        files = ProcessFiles(self.volume)
        make_directories(DATA, files)
        write_durably(DATA / "myid", f"{self.peer_id}\n", files)
        self._configure(self._keys, files)

    def _configure(self, keys: Mapping[str, str], files: Files) -> None:
        lines = [f"{key}={value}\n" for key, value in {**keys, "dataDir": str(DATA)}.items()]
        write_durably(ZOO_CFG, "".join(lines), files)

    def switch_on(self) -> None:
        """Run the peer, and again whenever it ends by itself."""
        self.is_wanted = True
        self.start()

    @property
    def serves(self) -> bool:
        """Does it lead, or follow a leader that is established?"""
        running = self.running
        return self.process is not None and running is not None and running.peer.status().serving

    def terminate(self) -> None:
        """SIGTERM; its supervisor starts it again."""
        if self.process is not None:
            self.process.loop.terminate()

    def kill(self) -> None:
        """SIGKILL; nobody starts it again."""
        self.is_wanted = False
        self._note_end()
        super().kill()

    def lose_power(self) -> None:
        """Pull the plug."""
        self.is_wanted = False
        self._note_end()
        super().lose_power()

    def _note_end(self) -> None:
        running, self.running = self.running, None
        if running is not None:
            self.reached.process_ended(self.name, running)

    def _unlinks(self, path: Path) -> None:
        running = self.running
        if running is not None and path.name.startswith(LOG_PREFIX):
            beside = (zxid_of(Path(name), LOG_PREFIX) for name in self.volume.parent(path).entries)
            zxids = sorted(zxid for zxid in beside if zxid is not None)
            self.reached.unlinks(self.name, oldest_log=len(zxids) > 1 and zxids[0] == zxid_of(path, LOG_PREFIX))

    async def _run(self, process: SimProcess) -> bool:
        """What `ensemble.server.process.peer_process.main` does."""
        self.running = None
        silent: Any = _Silent()
        while True:
            config = load(ZOO_CFG, process.files)
            with ExitStack() as held:
                loaded = load_history(config, held, silent, process.files)
                if not await serve(config, loaded, self._surroundings(config, process, silent)):
                    return False

    def _surroundings(self, config: ZooConfig, process: SimProcess, log: structlog.BoundLogger) -> Surroundings:
        random = process.random
        return Surroundings(
            log=log,
            journal=RecordJournal(self.record, config.node, process.loop),
            random=random,
            nonce=lambda: f"{random.getrandbits(128):032x}",
            files=process.files,
            workers=process.workers,
            clock_ns=process.loop.mono_ns,
            started=self._started,
        )

    def _started(self, running: RunningPeer) -> None:
        self.running = running

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """The process has ended by itself."""
        self._note_end()
        failure = None if task.cancelled() else task.exception()
        if failure is not None and not isinstance(failure, _TROUBLES):
            self.ground.failures.append(f"{self.name}: {failure!r}")
        self.gave_up += 1
        if isinstance(failure, ConfigError):
            self.on_no_member(self)
        if not self._restart_due:
            self._restart_due = True
            self.ground.scheduler.after(RESTART_US, self._start_again)

    def _start_again(self) -> None:
        self._restart_due = False
        if self.is_wanted and self.process is None:
            self.start()

    def join(self, members: Mapping[int, str]) -> None:
        """Give a server that has left a zoo.cfg with the present members, and its own line."""
        self.volume.mend()
        files = ProcessFiles(self.volume)
        own = {key: value for key, value in self._keys.items() if not key.startswith("server.")}
        mine = self._keys[f"server.{self.peer_id}"]
        lines = {f"server.{peer}": line for peer, line in members.items()} | {f"server.{self.peer_id}": mine}
        self._configure({**own, **lines}, files)


def _nobody(_: PeerMachine) -> None:
    return
