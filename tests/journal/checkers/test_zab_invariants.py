"""ZAB's invariants: one violating history for each, and one correct history."""

from __future__ import annotations

import pytest

from zabka.journal.checkers.invariants import Watchdog
from zabka.journal.checkers.zab_invariants import zab_checkers
from zabka.journal.events import (
    Entry,
    Event,
    HistoryReplaced,
    LeaderEstablished,
    LearnerSynced,
    NodeStarted,
    PeerProtocolBroken,
    PeerStateChanged,
    TxnCommitted,
    TxnLogTruncated,
    TxnProposed,
    ZxidCheckpoint,
)


def z(epoch: int, counter: int) -> int:
    return epoch << 32 | counter


def proposed(epoch: int, counter: int, cxid: int = 0) -> TxnProposed:
    return TxnProposed(z(epoch, counter), 7, cxid or counter)


def committed(epoch: int, counter: int, cxid: int = 0) -> TxnCommitted:
    return TxnCommitted(z(epoch, counter), 7, cxid or counter, "setData", "/", 0, 0)


def leads(epoch: int, phase: str = "SYNCHRONIZATION") -> PeerStateChanged:
    return PeerStateChanged("LEADING", phase, 1, 1, epoch, epoch, 0)


def established(epoch: int, end: int) -> LeaderEstablished:
    return LeaderEstablished(1, epoch, end, [1, 2])


def violated(*history: tuple[int, Event]) -> list[str]:
    watchdog = Watchdog(zab_checkers())
    for number, (peer, event) in enumerate(history):
        watchdog.see(Entry(f"peer-{peer}", number, 0, number, event))
    return [violation.invariant for violation in watchdog.violations]


TWO_PROPOSED = [(1, established(1, 0)), (1, proposed(1, 1)), (1, proposed(1, 2))]


def test_valid_history_has_no_violations() -> None:
    history: list[tuple[int, Event]] = [
        (1, leads(1)),
        *TWO_PROPOSED,
        (1, committed(1, 1)),
        (1, committed(1, 2)),
        (2, committed(1, 1)),
        (3, HistoryReplaced(z(1, 2))),
        (2, leads(2)),
        (2, LearnerSynced(1, 2, 2, "DIFF", z(1, 2), z(1, 2))),
        (2, committed(1, 2)),
        (2, established(2, z(1, 2))),
        (2, proposed(2, 1)),
        (3, committed(2, 1)),
        (1, NodeStarted("peer", 1, {})),
        (1, committed(1, 2)),
        (1, committed(2, 1)),
    ]
    assert violated(*history) == []


@pytest.mark.parametrize(
    ("invariant", "history"),
    [
        ("Leadership", [(1, leads(3)), (2, leads(3, "BROADCAST"))]),
        ("Integrity", [(1, committed(1, 1))]),
        ("Integrity", [(1, proposed(1, 1)), (2, committed(1, 1, cxid=9))]),
        ("Integrity", [(1, proposed(1, 1)), (2, proposed(1, 1, cxid=9))]),
        ("TotalOrder", [*TWO_PROPOSED, (1, committed(1, 1)), (1, committed(1, 1))]),
        ("TotalOrder", [*TWO_PROPOSED, (1, proposed(1, 3)), (1, committed(1, 1)), (1, committed(1, 3))]),
        ("TotalOrder", [*TWO_PROPOSED, (1, committed(1, 2)), (2, committed(1, 1))]),
        ("PrimaryIntegrity", [*TWO_PROPOSED, (2, established(2, z(1, 1))), (1, committed(1, 2))]),
        ("committedLogDurability", [*TWO_PROPOSED, (1, committed(1, 1)), (2, established(2, 0))]),
        ("committedLogDurability", [*TWO_PROPOSED, (1, committed(1, 1)), (2, TxnLogTruncated(z(1, 2), 0))]),
        (
            "committedLogDurability",
            [*TWO_PROPOSED, (1, committed(1, 1)), (2, LearnerSynced(2, 1, 1, "SNAP", z(1, 2), 0))],
        ),
        ("committedLogDurability", [*TWO_PROPOSED, (1, committed(1, 1)), (1, ZxidCheckpoint(0, 0, 0, 0))]),
        ("messageIllegal", [(1, PeerProtocolBroken("peer-2", "gap"))]),
    ],
)
def test_violated_invariant_is_reported(invariant: str, history: list[tuple[int, Event]]) -> None:
    assert invariant in violated(*history)


def test_leaders_own_proposal_can_be_truncated_and_resent() -> None:
    follows = PeerStateChanged("FOLLOWING", "SYNCHRONIZATION", 1, 1, 1, 1, z(1, 1))
    cut: tuple[tuple[int, Event], ...] = ((1, committed(1, 1)), (2, TxnLogTruncated(z(1, 1), 0)))
    assert violated(*TWO_PROPOSED, (2, follows), *cut) == []
    follows_another = PeerStateChanged("FOLLOWING", "SYNCHRONIZATION", 3, 2, 2, 1, z(1, 1))
    assert violated(*TWO_PROPOSED, (2, follows_another), *cut) == ["committedLogDurability"]


def test_protocol_error_of_a_client_is_not_a_violation() -> None:
    assert violated((1, PeerProtocolBroken("127.0.0.1", "garbage"))) == []


def test_impossible_zxid_is_a_violation_and_raises_no_exception() -> None:
    assert violated((1, ZxidCheckpoint(-1, 0, 0, 0))) == ["committedLogDurability"]
