"""Batches in the log files of replicas, read from the simulated disks whenever the files change."""

from __future__ import annotations

from typing import NamedTuple

from zabka.broker_sim.logs.segment import SUFFIX
from zabka.kafka.record_batch import MAGIC, checksum_of, header_is_sane, read_header
from zabka.simulation.checkers.audited_broker import AuditedBroker, LogBytes


class Stored(NamedTuple):
    """A batch as it is stored in the log of a replica."""

    first: int
    last: int
    leader_epoch: int
    checksum: int
    """Checksum computed from the stored bytes, which may differ from the checksum in the batch header."""


class ReplicaLog:
    """Batches of one replica's log, by first offset.

    `read` adds appended batches; after a truncation, call `again`.
    """

    __slots__ = ("_broker", "_last", "_name", "_newest", "_read", "batches", "damaged", "end", "epochs_rise", "start")

    def __init__(self, broker: AuditedBroker, name: str) -> None:
        self._broker = broker
        self._name = name
        self.again()

    def again(self) -> None:
        """Discard all state, because the log files were truncated, removed or created again."""
        self._read: dict[str, tuple[LogBytes, int]] = {}
        self._newest = ""
        """Name of the active segment file."""
        self._last: Stored | None = None
        self.batches: dict[int, Stored] = {}
        self.start = -1
        self.end = 0
        self.epochs_rise = True
        self.damaged: int | None = None
        """Offset of the first batch with a wrong checksum, or of bytes that are not a batch; None if intact."""

    def read(self) -> None:
        """Read the batches that were appended after the last call."""
        files = self._broker.files(self._name)
        unchanged = len(files) == len(self._read)
        if unchanged and self._newest:
            file, size = self._read[self._newest]
            if files.get(self._newest) is file and file.size() == size:
                # Nothing has changed: a truncation would have shortened the newest file, or made another file the
                # newest.
                return
        for name, (file, size) in self._read.items():
            size_now = file.size()
            if files.get(name) is not file or size_now < size:
                self.again()
                unchanged = False
                break
            unchanged = unchanged and size_now == size
        if unchanged:
            return
        for name in sorted(files):
            if self.start < 0:
                self.start = self.end = int(name.removesuffix(SUFFIX))
            file = files[name]
            position = self._read[name][1] if name in self._read else 0
            size = file.size()
            if size > position:
                self._take(file.read(position, size - position))
            self._read[name] = file, size
            self._newest = name

    def _take(self, data: bytes) -> None:
        at = 0
        while (header := read_header(data, at)) is not None:
            if header.magic != MAGIC or not header_is_sane(header):
                # Stop here: after zeros or garbage from a power loss, the beginning of the next batch cannot be found.
                self.damaged = self.end if self.damaged is None else self.damaged
                return
            last_offset = header.last_offset
            checksum = checksum_of(data, at, header)
            stored = Stored(header.base_offset, last_offset, header.leader_epoch, checksum)
            if checksum != header.crc and self.damaged is None:
                self.damaged = stored.first
            self.epochs_rise &= self._last is None or self._last.leader_epoch <= stored.leader_epoch
            self.batches[stored.first] = self._last = stored
            self.end = last_offset + 1
            at += header.size
