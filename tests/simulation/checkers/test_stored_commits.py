"""An acknowledged offset commit must be in the logs of all in-sync replicas and in the coordinator's response."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.events import InvariantViolated, TopicPartition
from zabka.kafka.record_batch import Record, build_batch
from zabka.kafka.zk.znodes import ReplicaAssignment, TopicAssignment
from zabka.simulation.checkers.stored_commits import ANSWERED, ON_DISKS, StoredCommits, commits_in

T0 = TopicPartition("t", 0)
KEPT_IN = "__consumer_offsets-0"
KEY = bytes.fromhex("0001 0001 67 0001 74 00000000")
"""Group g, topic t, partition 0, as Kafka's GroupMetadataManager writes it (OffsetCommitKey, version 1)."""
OTHERS = (bytes.fromhex("0002 0001 67"), bytes.fromhex("0001 0001 68 0001 74 00000000"), KEY[:-1] + b"\x01")
"""Keys of the group itself, of another group, and of another partition."""


def value(offset: int) -> bytes:
    """Return an OffsetCommitValue version 3: offset, no leader epoch, no metadata, and a timestamp."""
    return bytes.fromhex("0003") + offset.to_bytes(8) + bytes.fromhex("ffffffff 0000 0000000000000000")


def log_of(*offsets: int) -> bytes:
    every = [(KEY, value(offset)) for offset in offsets] + [(other, value(99)) for other in OTHERS] + [(KEY, None)]
    return b"".join(
        build_batch([Record(key=key, value=data, timestamp_ms=0)], base_offset=at)
        for at, (key, data) in enumerate(every)
    )


class Court:
    """Checker of a group whose log has one replica per tuple of committed offsets. The brokers in `in_sync` are in the
    ISR.
    """

    def __init__(self, *replicas: tuple[int, ...], in_sync: tuple[int, ...] = (1, 2), forgiven: bool = False) -> None:
        self.found: list[InvariantViolated] = []
        nodes: Any = {}
        for broker, offsets in enumerate(replicas, 1):
            directory = MemoryLogDirectory()
            directory.create_partition(KEPT_IN)
            directory.open(KEPT_IN, "00000000000000000000.log").append(log_of(*offsets))
            nodes[broker] = SimpleNamespace(files=directory.files)
        topics = {"__consumer_offsets": TopicAssignment(None, {0: ReplicaAssignment((1, 2, 3))})}
        replication: Any = SimpleNamespace(
            znodes=SimpleNamespace(topics=topics),
            in_sync=lambda name: list(in_sync),
            forgiven=lambda: {KEPT_IN: None} if forgiven else {},
        )
        self.check = StoredCommits("g", T0, nodes, replication, CheckCounts(), self.found.append)

    def said(self) -> list[str]:
        return [violation.invariant for violation in self.found]


def test_offset_commits_of_one_group_are_read_from_the_log() -> None:
    assert list(commits_in(log_of(4, 7), "g", T0)) == [4, 7]
    assert list(commits_in(log_of(4, 7)[:-1], "g", T0)) == [4, 7]
    assert list(commits_in(b"", "g", T0)) == []


@pytest.mark.parametrize(
    ("replicas", "in_sync", "forgiven", "said"),
    [
        (((1, 2), (1, 2)), (1, 2), False, []),
        (((1, 2), (1,)), (1, 2), False, [ON_DISKS]),
        (((1, 2), (1,)), (1,), False, []),
        (((1, 2), (1,)), (1, 2), True, []),
    ],
)
def test_acknowledged_commit_must_be_in_the_logs_of_the_isr(
    replicas: tuple[tuple[int, ...], ...], in_sync: tuple[int, ...], forgiven: bool, said: list[str]
) -> None:
    court = Court(*replicas, in_sync=in_sync, forgiven=forgiven)
    court.check.asked(2)
    assert court.said() == []
    court.check.was_acknowledged(2)
    assert court.said() == said


@pytest.mark.parametrize(
    ("answered", "said"),
    [(5, []), (4, []), (6, []), (3, [ANSWERED]), (-1, [ANSWERED]), (7, [ANSWERED])],
)
def test_offset_fetch_must_return_the_last_acked_or_later_commit(answered: int, said: list[str]) -> None:
    court = Court((3, 4, 5, 6), (3, 4, 5, 6))
    for offset in (3, 4, 5, 6):
        court.check.asked(offset)
    court.check.was_acknowledged(3)
    court.check.was_acknowledged(5)
    court.check.was_answered(answered)
    assert court.said() == said
