"""Checks that acknowledged offset commits are not lost, by the replies to a client and the bytes of the logs.

An OffsetCommit is acknowledged after every in-sync replica of the group's partition of `__consumer_offsets` has stored
it (offsets.commit.required.acks is -1), so at that moment the files of these replicas contain it. After recovery, any
coordinator must return the commit (OffsetFetch, GroupMetadataManager), or a later commit that got no reply, because the
later commit may have been appended. A partition is exempt if Kafka allows it to lose records, after an unclean election
or a power loss of the last in-sync replica (`ReplicationAudit.forgiven`).

The checker parses the records itself. A key is its version (2 bytes, 0 or 1), the group, the topic (each a length of 2
bytes and the string) and the partition (4). A value begins with its version (2) and the offset (8).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping

from zabka.broker_sim.groups.config import CONSUMER_OFFSETS
from zabka.broker_sim.groups.store import java_hash
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.events import InvariantViolated, TopicPartition
from zabka.kafka.record_batch import decode_batch, read_header
from zabka.simulation.checkers.audited_broker import AuditedBroker, log_bytes
from zabka.simulation.checkers.replication_audit import ReplicationAudit

ON_DISKS = "acknowledged offset commits are in the logs of all in sync"
ANSWERED = "acknowledged offset commits are answered"
OFFSET_KEYS = (0, 1)
_SHORT, _INT, _OFFSET = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">hq")


def commits_in(log: bytes, group_id: str, name: TopicPartition) -> Iterator[int]:
    """Yield the offsets that a group has committed for a partition, in the order in which the log contains them."""
    wanted = b"".join(_SHORT.pack(len(text)) + text for text in (group_id.encode(), name.topic.encode()))
    wanted += _INT.pack(name.partition)
    at = 0
    while (header := read_header(log, at)) is not None and at + header.size <= len(log):
        for record in decode_batch(log, at, header):
            key = record.key or b""
            if key[2:] == wanted and record.value is not None and _SHORT.unpack_from(key)[0] in OFFSET_KEYS:
                yield _OFFSET.unpack_from(record.value)[1]
        at += header.size


class StoredCommits:
    """Checks one group that commits increasing offsets of one partition, one after another."""

    def __init__(
        self,
        group_id: str,
        name: TopicPartition,
        nodes: Mapping[int, AuditedBroker],
        replication: ReplicationAudit,
        checked: CheckCounts,
        emit: Callable[[InvariantViolated], object],
    ) -> None:
        self._group_id = group_id
        self._name = name
        self._nodes = nodes
        self._replication = replication
        self._checked = checked
        self._emit = emit
        self._asked: dict[int, None] = {}
        """Offsets of commits that have no reply yet."""
        self._said: dict[str, None] = {}
        self.acknowledged = -1
        """Last offset whose commit was acknowledged, or -1."""

    def asked(self, offset: int) -> None:
        """Record that a commit of this offset was sent to the coordinator."""
        self._asked[offset] = None

    def was_acknowledged(self, offset: int) -> None:
        """Process the acknowledgement of a commit: check that all in-sync replicas have it."""
        del self._asked[offset]
        self.acknowledged = offset
        self._check_disks()

    def was_answered(self, offset: int) -> None:
        """Check the committed offset that the coordinator returns after recovery."""
        self._check_disks()
        if self._is_to_be_kept():
            self._checked.note(ANSWERED)
            if offset != self.acknowledged and offset not in self._asked:
                doubtful = f"in doubt are {list(self._asked)}" if self._asked else "none is in doubt"
                self._violated(ANSWERED, f"{self.acknowledged} was acknowledged, {doubtful}; found is {offset}")

    def _check_disks(self) -> None:
        if self._is_to_be_kept():
            kept_in = self._kept_in()
            for broker in self._replication.in_sync(kept_in):
                self._checked.note(ON_DISKS)
                log = log_bytes(self._nodes[broker], str(kept_in))
                if self.acknowledged not in commits_in(log, self._group_id, self._name):
                    self._violated(ON_DISKS, f"{self.acknowledged} was acknowledged, and broker {broker} lacks it")

    def _is_to_be_kept(self) -> bool:
        return self.acknowledged >= 0 and str(self._kept_in()) not in self._replication.forgiven()

    def _kept_in(self) -> TopicPartition:
        """Return the partition that stores the group's offsets, by the hash of the group's name
        (GroupMetadataManager).
        """
        count = len(self._replication.znodes.topics[CONSUMER_OFFSETS].partitions)
        return TopicPartition(CONSUMER_OFFSETS, java_hash(self._group_id) % count)

    def _violated(self, invariant: str, detail: str) -> None:
        if invariant not in self._said:
            self._said[invariant] = None
            self._emit(InvariantViolated(invariant, f"group {self._group_id}, {self._name}: {detail}"))
