"""Input of the replication checkers: a broker on any machine, and the bytes of its logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from zabka.broker_sim.broker import Broker


class LogBytes(Protocol):
    """One segment file, for reading."""

    def size(self) -> int: ...
    def read(self, position: int, size: int, /) -> bytes: ...


class AuditedBroker(Protocol):
    """A machine with a broker on it."""

    @property
    def name(self) -> str: ...
    @property
    def broker(self) -> Broker | None:
        """The running broker, None while the process is down."""
        ...

    def files(self, partition: str, /) -> Mapping[str, LogBytes]:
        """A replica's segment files by name.  Each file keeps its object as long as it is the same file."""
        ...


def log_bytes(broker: AuditedBroker, partition: str) -> bytes:
    """Return the bytes of all segments of a replica, in order."""
    files = broker.files(partition)
    return b"".join(files[name].read(0, files[name].size()) for name in sorted(files))


def replicas_agree(brokers: Mapping[int, AuditedBroker], partition: str, replicas: Sequence[int]) -> bool:
    """Return whether all replicas of a partition hold the same log, byte for byte."""
    logs = [log_bytes(brokers[replica], partition) for replica in replicas]
    return all(log == logs[0] for log in logs)
