"""Input of the replication checkers: a machine, its running broker, and the bytes of the broker's logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from zabka.broker_sim.broker import Broker


class LogBytes(Protocol):
    """Read access to one segment file."""

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
        """Return a replica's segment files by name.  A file is the same object in every call as long as it exists."""
        ...


def log_bytes(broker: AuditedBroker, partition: str) -> bytes:
    """Return the bytes of all segments of a replica, joined in order."""
    files = broker.files(partition)
    return b"".join(files[name].read(0, files[name].size()) for name in sorted(files))


def replicas_agree(brokers: Mapping[int, AuditedBroker], partition: str, replicas: Sequence[int]) -> bool:
    """Return whether the logs of all replicas of a partition are equal, byte for byte."""
    logs = [log_bytes(brokers[replica], partition) for replica in replicas]
    return all(log == logs[0] for log in logs)
