"""A machine that runs `zabka peer`: its zoo.cfg, its disk, and its recorded events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import structlog

from zabka.ensemble.request_fault_uses import Counts
from zabka.ensemble.runtime.files import Files
from zabka.ensemble.server.config.zoo_cfg import ConfigError, ZooConfig, load
from zabka.ensemble.server.operator.running_peer import RunningPeer
from zabka.ensemble.server.process.endings import Crashed, Stopped
from zabka.ensemble.server.process.environment import PeerEnvironment
from zabka.ensemble.server.process.peer_process import load_history, serve
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.files import LOG_PREFIX, make_directories, zxid_of
from zabka.ensemble.zab.application import EnsembleConfig
from zabka.simulation.cluster.node_names import peer_name
from zabka.simulation.cluster.reached import Reached
from zabka.simulation.cluster.server_machine import RecordJournal, ServerMachine, write_durably
from zabka.simulation.cluster.watched_service import WatchedService
from zabka.simulation.engine.machine import Ground, SimProcess
from zabka.simulation.filesystem.process_files import ProcessFiles
from zabka.simulation.record import Record

ROOT = Path("/")
DATA = ROOT / "data"
ZOO_CFG = ROOT / "zoo.cfg"
PEER_PORTS = CLIENT_PORT, QUORUM_PORT, ELECTION_PORT = 2181, 2888, 3888
_TROUBLES = (ConfigError, DataDirectoryError, Stopped)
"""Errors with which `zabka peer` is allowed to exit: the cause is its machine or another peer."""


def peer_address(peer: int) -> str:
    """Return the IP address of a peer's machine."""
    return f"10.0.0.{peer}"


class PeerMachine(ServerMachine):
    """A computer that runs a peer.  `keys` is the peer's zoo.cfg without dataDir."""

    def __init__(
        self, ground: Ground, record: Record, reached: Reached, peer_id: int, keys: dict[str, str], skew_ms: int
    ) -> None:
        super().__init__(
            ground, record, peer_name(peer_id), peer_address(peer_id), self._run, skew_ms=skew_ms, troubles=_TROUBLES
        )
        self.peer_id = peer_id
        self.running: RunningPeer | None = None
        self.service: WatchedService | None = None
        """The ZooKeeper service of the current or last peer process."""
        self.reached = reached
        self.on_unlink = self._unlinks
        self.on_no_member: Callable[[PeerMachine], None] = _nobody
        """Called with this machine when its server cannot start because it is no longer a member of the ensemble."""
        self.on_trouble = self._gives_up
        self._keys = keys
        self._set_up()

    def format(self) -> None:
        """Replace the disk by a new one that contains only the files of a new installation."""
        self.volume = self.new_volume()
        self._set_up()

    def _set_up(self) -> None:
        """Write zoo.cfg and myid to the disk."""
        files = ProcessFiles(self.volume)
        make_directories(DATA, files)
        write_durably(DATA / "myid", f"{self.peer_id}\n", files)
        self._configure(self._keys, files)

    def _configure(self, keys: Mapping[str, str], files: Files) -> None:
        lines = [f"{key}={value}\n" for key, value in {**keys, "dataDir": str(DATA)}.items()]
        write_durably(ZOO_CFG, "".join(lines), files)

    @property
    def serves(self) -> bool:
        """Whether the peer is the established leader, or follows the established leader."""
        running = self.running
        return self.process is not None and running is not None and running.peer.status().serving

    def note_end(self) -> None:
        """Add the leader's counts of rare situations to `reached`. Called when the process has ended."""
        running, self.running = self.running, None
        if running is not None:
            self.reached.process_ended(self.name, running)

    def _may_end_with(self, failure: BaseException | None) -> bool:
        """Return whether the process is allowed to end with this failure.

        For a crashed task, check the error that crashed it.
        """
        return super()._may_end_with(failure.__cause__ if isinstance(failure, Crashed) else failure)

    def _unlinks(self, path: Path) -> None:
        running = self.running
        if running is not None and path.name.startswith(LOG_PREFIX):
            beside = (zxid_of(Path(name), LOG_PREFIX) for name in self.volume.parent(path).entries)
            zxids = sorted(zxid for zxid in beside if zxid is not None)
            self.reached.unlinks(self.name, oldest_log=len(zxids) > 1 and zxids[0] == zxid_of(path, LOG_PREFIX))

    async def _run(self, process: SimProcess) -> bool:
        """Run the peer in the same way as `zabka.ensemble.server.process.peer_process.main`."""
        self.running = None
        log = self.log_of(process)
        while True:
            config = load(ZOO_CFG, process.files)
            with ExitStack() as held:
                loaded = load_history(config, held, log, process.files)
                if not await serve(config, loaded, self._environment(config, process, log)):
                    return False

    def _environment(self, config: ZooConfig, process: SimProcess, log: structlog.BoundLogger) -> PeerEnvironment:
        random = process.random
        return PeerEnvironment(
            log=log,
            journal=RecordJournal(self.record, config.node, process.loop),
            random=random,
            nonce=lambda: f"{random.getrandbits(128):032x}",
            files=process.files,
            workers=process.workers,
            clock_ns=process.loop.mono_ns,
            started=self._started,
            make_service=self._make_service,
            count_use=self.ground.fault_counts.count,
            messages=process.messages,
        )

    def _make_service(self, config: EnsembleConfig, nonce: Callable[[], str]) -> WatchedService:
        self.service = WatchedService(config, nonce)
        return self.service

    def _started(self, running: RunningPeer) -> None:
        self.running = running
        self.apply_faults()

    def apply_faults(self) -> None:
        """Pass the machine's current faults to the peer's process."""
        if self.running is not None:
            self.running.hold_faults(self.faults)

    def fault_counts(self) -> Counts:
        """Return how often the peer matched and applied each request fault."""
        return {} if self.running is None else self.running.clients.fault_counts()

    def _gives_up(self, failure: BaseException) -> None:
        if isinstance(failure, ConfigError):
            self.on_no_member(self)

    def join(self, members: Mapping[int, str]) -> None:
        """Write a new zoo.cfg with the current members, so that this server can join the ensemble that it has left."""
        self.volume.repair()
        files = ProcessFiles(self.volume)
        own = {key: value for key, value in self._keys.items() if not key.startswith("server.")}
        mine = self._keys[f"server.{self.peer_id}"]
        lines = {f"server.{peer}": line for peer, line in members.items()} | {f"server.{self.peer_id}": mine}
        self._configure({**own, **lines}, files)


def _nobody(_: PeerMachine) -> None:
    return
