"""A machine that runs `zabka broker`: its server.properties, its log directories, and its recorded events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from zabka.broker_sim.broker import Broker
from zabka.broker_sim.broker_process import NoEnsemble, lock_log_dirs, serve
from zabka.broker_sim.configs.broker_config import parse_config
from zabka.broker_sim.environment import BrokerEnvironment
from zabka.broker_sim.logs.segment import SUFFIX
from zabka.ensemble.errors import ZooKeeperError
from zabka.ensemble.properties import decode_properties
from zabka.ensemble.request_fault_uses import Counts
from zabka.ensemble.runtime.links import FaultTable
from zabka.ensemble.txnlog.files import read_bytes
from zabka.kafka.zk.registration import BrokerIdInUse
from zabka.simulation.cluster.node_names import broker_name
from zabka.simulation.cluster.server_machine import RecordJournal, ServerMachine, write_durably
from zabka.simulation.engine.machine import Ground, SimProcess
from zabka.simulation.filesystem.inode import DirectoryNode, FileNode
from zabka.simulation.filesystem.process_files import ProcessFiles
from zabka.simulation.filesystem.volume import Volume
from zabka.simulation.record import Record

SERVER_PROPERTIES = Path("/server.properties")
KAFKA_PORT = 9092
DIRECTORIES_FAILED, LEFT_AT_ONCE = 1, 130
"""Exit codes of a broker whose log directories have all failed, and of a broker that received a second stop signal."""

_TROUBLES = (NoEnsemble, BrokerIdInUse, ZooKeeperError)
"""Errors with which `zabka broker` may exit if the network is faulty."""


def broker_address(broker: int) -> str:
    """Return the IP address of a broker's machine."""
    return f"10.0.2.{broker}"


class _SegmentFile(NamedTuple):
    """A segment file on the simulated disk, readable without an open handle."""

    node: FileNode

    def size(self) -> int:
        return self.node.size

    def read(self, position: int, size: int, /) -> bytes:
        return self.node.read(position, size)


class BrokerMachine(ServerMachine):
    """A computer that runs a broker.

    `keys` is its server.properties without broker.id, listeners and log.dirs.
    """

    def __init__(
        self, ground: Ground, record: Record, broker_id: int, keys: Mapping[str, str], log_dirs: int, skew_ms: int
    ) -> None:
        super().__init__(
            ground, record, broker_name(broker_id), broker_address(broker_id), self._run,
            skew_ms=skew_ms, troubles=_TROUBLES,
        )  # fmt: skip
        self.broker_id = broker_id
        self.log_dirs = [Path(f"/kafka-{number}") for number in range(1, log_dirs + 1)]
        self._on_power_loss: Callable[[BrokerMachine], object] = _nothing
        self._keys = dict(keys)
        self._broker: Broker | None = None
        self._hold_faults: Callable[[FaultTable], None] = _nothing
        """Applies the current faults to the running broker process."""
        self._segments: dict[str, tuple[tuple[Volume, int], dict[str, _SegmentFile]]] = {}
        """Cached segment files of each replica. The first value identifies the disk and its change count at the time of
        the listing.
        """
        self._set_up()

    def format(self) -> None:
        """Replace the disk by a new one that contains only the files of a new installation."""
        self.volume = self.new_volume()
        self._set_up()

    def _set_up(self) -> None:
        own = {
            "broker.id": str(self.broker_id),
            "listeners": f"PLAINTEXT://{self.address}:{KAFKA_PORT}",
            "log.dirs": ",".join(map(str, self.log_dirs)),
        }
        lines = [f"{key}={value}\n" for key, value in {**self._keys, **own}.items()]
        write_durably(SERVER_PROPERTIES, "".join(lines), ProcessFiles(self.volume))

    # -- the broker's process ----------------------------------------------------------------------------------------

    @property
    def broker(self) -> Broker | None:
        """The running broker, or None while the process is down."""
        return self._broker if self.process is not None else None

    def note_end(self) -> None:
        """Set the broker to None, because its process ends."""
        self._broker = None

    async def _run(self, process: SimProcess) -> None:
        """Run the broker in the same way as `zabka.broker_sim.broker_process.main`."""
        config = parse_config(decode_properties(read_bytes(SERVER_PROPERTIES, process.files)))
        with ExitStack() as held:
            lock_log_dirs(config, held, process.files)
            await serve(config, self._environment(process))

    def _environment(self, process: SimProcess) -> BrokerEnvironment:
        def leave(code: int, said: str) -> NoReturn:
            if not self._may_leave_with(code):
                self.ground.failures.append(f"{self.name}: exit code {code}: {said}")
            self.note_end()
            self.gave_up += 1
            self.start_again_soon()
            self.exit(process)

        return BrokerEnvironment(
            log=self.log_of(process),
            journal=RecordJournal(self.record, self.name, process.loop),
            files=process.files,
            workers=process.workers,
            exit=leave,
            made=self._made,
            started=lambda: None,
            nonce=lambda: f"{process.random.getrandbits(128):x}",
            random_seed=process.random.getrandbits(64),
            count_use=self.ground.fault_counts.count,
            messages=process.messages,
        )

    def _may_leave_with(self, code: int) -> bool:
        if code == DIRECTORIES_FAILED:
            return self.disk_failed
        return code == LEFT_AT_ONCE and self.told_to_stop > 1

    def _made(self, broker: Broker, hold_faults: Callable[[FaultTable], None]) -> None:
        self._broker, self._hold_faults = broker, hold_faults
        self.apply_faults()

    def apply_faults(self) -> None:
        """Pass the machine's current faults to the broker's process."""
        if self._broker is not None:
            self._hold_faults(self.faults)

    def fault_counts(self) -> Counts:
        """Return how often the broker matched and applied each request fault."""
        return {} if self._broker is None else self._broker.fault_counts()

    # -- power losses ------------------------------------------------------------------------------------------------

    def lose_power_after(self, operations: int, told: Callable[[BrokerMachine], object]) -> None:
        """Lose power at the first file operation after `operations` more operations, and then call `told`."""
        self.volume.lose_power_after(operations)
        self._on_power_loss = told

    def power_went(self) -> None:
        """Handle a power loss that happened during a file operation of the process."""
        if self.process is not None and not self.process.loop.killed:
            self._on_power_loss(self)
        super().power_went()

    # -- the machine's disk ------------------------------------------------------------------------------------------

    def files(self, partition: str, /) -> Mapping[str, _SegmentFile]:
        """Return a replica's segment files by name.  An unchanged file is returned as the same object every time."""
        as_of = self.volume, self.volume.changes
        read_as_of, before = self._segments.get(partition, (None, {}))
        if read_as_of == as_of:
            return before
        found: dict[str, _SegmentFile] = {}
        for log_dir in self.log_dirs:
            for name, node in self._entries(log_dir / partition).items():
                if name.endswith(SUFFIX) and isinstance(node, FileNode):
                    known = before.get(name)
                    found[name] = known if known is not None and known.node is node else _SegmentFile(node)
            if found:
                break
        self._segments[partition] = as_of, found
        return found

    def partitions(self, log_dir: Path) -> list[str]:
        """Return the names of all entries in a log directory, including the partition directories."""
        return list(self._entries(log_dir))

    def _entries(self, path: Path) -> Mapping[str, Any]:
        try:
            node = self.volume.find(path)
        except OSError:
            return {}
        return node.entries if isinstance(node, DirectoryNode) else {}


def _nothing(_: object) -> None:
    return
