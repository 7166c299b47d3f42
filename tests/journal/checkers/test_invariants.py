"""For each invariant, a history that violates it, and correct histories that look similar."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from zabka.journal import events as e
from zabka.journal.checkers.invariants import check
from zabka.journal.events import Entry, Event

CHECKSUM = 77


def history(*rows: tuple[str, Event]) -> list[Entry]:
    return [Entry(node, n, n, n, event) for n, (node, event) in enumerate(rows, start=1)]


def violated(rows: Iterable[tuple[str, Event]]) -> list[str]:
    return [violation.invariant for violation in check(history(*rows))]


def established(leader: int, epoch: int) -> Event:
    return e.LeaderEstablished(leader, epoch, epoch << 32, [1, 2])


def committed(zxid: int, digest: int = 1, path: str = "/a") -> Event:
    return e.TxnCommitted(zxid, 1, 1, "create", path, 0, digest)


def leading(last_zxid: int) -> Event:
    return e.PeerStateChanged("LEADING", "DISCOVERY", 1, 1, 1, 1, last_zxid)


def elected(
    leader: int,
    epoch: int,
    isr: list[int],
    partition_epoch: int,
    *,
    controller: int = 1,
    unclean: bool = False,
    zxid: int = 0,
) -> e.LeaderElected:
    return e.LeaderElected("t", 0, leader, epoch, isr, [1, 2, 3], partition_epoch, controller, unclean, "offline", zxid)


def taken_from_eligible(*, eligible: list[int]) -> list[tuple[str, Event]]:
    """Return a history in which broker 1 becomes leader although it has lost records.

    Brokers 2 and 1 lose power and records one after the other, while broker 1 is not in the ISR.
    """
    election = msgspec.structs.replace(elected(2, 1, [2], 1, zxid=11), eligible=eligible)
    lost = msgspec.structs.replace(election, leader=-1, leader_epoch=2, partition_epoch=2, zxid=12)
    return [
        ("broker-3", election),
        *power_lost(2),
        *power_lost(1),
        ("broker-3", lost),
        ("broker-3", elected(1, 3, [1], 3, zxid=30)),
        ("broker-1", leads(1, 3, 0)),
    ]


def recovering(event: e.LeaderElected) -> e.LeaderElected:
    return msgspec.structs.replace(event, recovering=True)


def with_eligible(eligible: list[int], event: e.LeaderElected) -> e.LeaderElected:
    return msgspec.structs.replace(event, eligible=eligible)


def appended(broker: int, first: int, last: int, epoch: int = 0, checksum: int = CHECKSUM) -> Event:
    return e.RecordsAppended(broker, "t", 0, epoch, first, last, checksum)


def replicated(broker: int, first: int, last: int, epoch: int = 0) -> e.RecordsReplicated:
    return e.RecordsReplicated(broker, "t", 0, epoch, first, last, CHECKSUM)


def marked(broker: int, offset: int, *, is_leader: bool = True) -> Event:
    return e.HighWatermarkMoved(broker, "t", 0, 0, offset, is_leader)


def acknowledged(broker: int, first: int, last: int) -> Event:
    return e.RecordsAcknowledged(broker, "t", 0, 0, first, last, -1, CHECKSUM)


def leads(broker: int, epoch: int, end: int) -> Event:
    return e.LeadershipTaken(broker, "t", 0, epoch, end, 0)


IN_SYNC: list[tuple[str, Event]] = [
    ("broker-1", e.BrokerRegistered(1, 5, 0x51)),
    ("broker-2", e.BrokerRegistered(2, 6, 0x52)),
    ("broker-3", elected(1, 0, [1, 2], 0, zxid=10)),
    ("broker-1", leads(1, 0, 0)),
    ("broker-2", e.FollowershipTaken(2, "t", 0, 1, 0, 0)),
    ("broker-1", appended(1, 0, 0)),
    ("broker-2", replicated(2, 0, 0)),
    ("broker-1", acknowledged(1, 0, 0)),
]
"""History in which broker 1 leads and broker 2 is in sync. Both have the acknowledged record."""


def power_lost(broker: int) -> list[tuple[str, Event]]:
    """Return the events of a power loss of a broker, which loads an empty log afterwards."""
    name = f"broker-{broker}"
    return [
        ("world", e.FaultInjected("f1", "power_loss", name, name, False)),
        (name, e.NodeStarted("broker", broker, {})),
        (name, e.ReplicaLoaded(broker, "t", 0, 0, 0)),
    ]


def disk_replaced(broker: int) -> list[tuple[str, Event]]:
    """Return the events of a power loss of a broker whose disk is then replaced. The broker finds no log to load."""
    name = f"broker-{broker}"
    return [
        ("world", e.FaultInjected("f1", "power_loss", name, name, False)),
        ("world", e.FaultInjected("f2", "disk_replaced", name, name, False)),
        (name, e.NodeStarted("broker", broker, {})),
    ]


def one_leads(*, partition_epoch: int = 1, leader_epoch: int = 1) -> list[tuple[str, Event]]:
    """Return the events in which broker 1 registers again, is elected, and leads with an empty log."""
    return [
        ("broker-1", e.BrokerRegistered(1, 20, 0x61)),
        ("broker-3", elected(1, leader_epoch, [1], partition_epoch, zxid=30)),
        ("broker-1", leads(1, leader_epoch, 0)),
    ]


GONE: tuple[str, Event] = ("peer-1", e.SessionClosed(0x52, 25, ["/brokers/ids/2"]))
"""Event of the deletion of broker 2's registration, before the election of broker 1."""

CAUGHT: dict[str, tuple[str, list[tuple[str, Event]]]] = {
    "two leaders in an epoch": (
        "one ZAB leader per epoch",
        [("peer-1", established(1, 3)), ("peer-2", established(2, 3))],
    ),
    "two transactions with one zxid": (
        "committed prefixes agree",
        [("peer-1", committed(5, path="/a")), ("peer-2", committed(5, path="/b"))],
    ),
    "an acks=all record lost by a broker that was only killed": (
        "committed and acks=all records survive",
        [
            ("broker-1", appended(1, 0, 0)),
            ("broker-1", acknowledged(1, 0, 0)),
            ("broker-1", e.ReplicaLoaded(1, "t", 0, 0, 0)),
            ("broker-1", leads(1, 1, 0)),
        ],
    ),
    "two checkpoints at one zxid with different digests": (
        "digests agree",
        [
            ("peer-1", e.ZxidCheckpoint(5, 0xA, 7, 1)),
            ("peer-2", e.ZxidCheckpoint(6, 0xB, 7, 1)),
            ("peer-3", e.ZxidCheckpoint(5, 0xB, 7, 1)),
        ],
    ),
    "a peer with a different tree after a restart": (
        "digests agree",
        [("peer-1", e.ZxidCheckpoint(5, 0xA, 7, 1)), ("peer-1", e.ZxidCheckpoint(5, 0xB, 7, 1))],
    ),
    "a checkpoint that differs from the committed transaction": (
        "digests agree",
        [("peer-1", committed(5, digest=1)), ("peer-2", e.ZxidCheckpoint(5, 2, 7, 1))],
    ),
    "transactions committed in reverse order": (
        "committed prefixes agree",
        [("peer-1", committed(6)), ("peer-1", committed(5))],
    ),
    "a leader that lacks an acknowledged write": (
        "no acknowledged write lost",
        [
            ("peer-1", e.WriteAcknowledged(1, 1, (1 << 32) + 5, "create", "/a")),
            ("peer-2", leading((1 << 32) + 4)),
            ("peer-2", established(2, 2)),
        ],
    ),
    "a truncated acknowledged write": (
        "no acknowledged write lost",
        [
            ("peer-1", e.WriteAcknowledged(1, 1, 5, "create", "/a")),
            ("peer-2", e.TxnLogTruncated(6, 4)),
        ],
    ),
    "an ephemeral not deleted with its session": (
        "no ephemeral outlives its session",
        [("peer-1", e.EphemeralCreated("/e", 9, 5)), ("peer-1", e.SessionClosed(9, 6, []))],
    ),
    "an ephemeral created by a closed session": (
        "no ephemeral outlives its session",
        [("peer-1", e.SessionClosed(9, 6, [])), ("peer-2", e.EphemeralCreated("/e", 9, 7))],
    ),
    "a session that writes after its end": (
        "no session writes after its end",
        [
            ("peer-1", e.TxnCommitted(6, 9, 1, "closeSession", "", 0, 0)),
            ("peer-1", e.TxnCommitted(7, 9, 2, "setData", "/a", 0, 0)),
        ],
    ),
    "a late write of a session whose end is seen later": (
        "no session writes after its end",
        [
            ("peer-1", e.TxnCommitted(7, 9, 2, "setData", "/a", 0, 0)),
            ("peer-2", e.TxnCommitted(6, 9, 1, "closeSession", "", 0, 0)),
        ],
    ),
    "a controller epoch used twice": (
        "controller epochs rise and fence",
        [("broker-1", e.ControllerElected(1, 3, 3, 10)), ("broker-2", e.ControllerElected(2, 3, 3, 11))],
    ),
    "a zombie's write that took effect": (
        "controller epochs rise and fence",
        [
            ("broker-1", e.ControllerElected(1, 1, 1, 10)),
            ("broker-2", e.ControllerElected(2, 2, 2, 20)),
            ("broker-1", elected(1, 1, [1], 1, controller=1, zxid=21)),
        ],
    ),
    "two leaders in a leader epoch": (
        "one leader per partition and leader epoch",
        [("broker-1", leads(1, 4, 0)), ("broker-2", leads(2, 4, 0))],
    ),
    "an ISR member that is no replica": ("ISR within the assignment", [("broker-1", elected(1, 0, [1, 9], 0))]),
    "a record acknowledged during recovery from an unclean election is lost": (
        "committed and acks=all records survive",
        [
            ("broker-3", recovering(elected(1, 1, [1, 2], 1, unclean=True))),
            ("broker-1", appended(1, 0, 0)),
            ("broker-1", e.RecordsAcknowledged(1, "t", 0, 1, 0, 0, -1, CHECKSUM)),
            ("broker-3", recovering(elected(2, 2, [2], 2))),
            ("broker-2", leads(2, 2, 0)),
        ],
    ),
    "an unclean election logged as clean": (
        "only unclean elections leave the ISR",
        [("broker-3", elected(1, 0, [1, 2], 0)), ("broker-3", elected(3, 1, [3], 1))],
    ),
    "an unclean election logged as clean before the earlier election is logged": (
        "only unclean elections leave the ISR",
        [("broker-3", elected(3, 1, [3], 1)), ("broker-2", elected(1, 0, [1, 2], 0))],
    ),
    "a clean election logged as unclean": (
        "only unclean elections leave the ISR",
        [("broker-3", elected(1, 0, [1, 2], 0)), ("broker-3", elected(2, 1, [2], 1, unclean=True))],
    ),
    "a leader outside the ISR": ("ISR within the assignment", [("broker-1", elected(3, 0, [1, 2], 0))]),
    "a partition epoch written twice": (
        "ISR within the assignment",
        [("broker-1", elected(1, 0, [1, 2], 0)), ("broker-1", e.IsrChanged("t", 0, [1], 1, 0, 0, "lag"))],
    ),
    "an acks=all record lost in a clean election": (
        "committed and acks=all records survive",
        [("broker-1", appended(1, 0, 0)), ("broker-1", acknowledged(1, 0, 0)), ("broker-2", leads(2, 1, 0))],
    ),
    "two batches at one offset of a leader epoch": (
        "epoch and offset name one batch",
        [("broker-1", appended(1, 3, 3)), ("broker-2", appended(2, 3, 3, checksum=8))],
    ),
    "a high watermark beyond the log": (
        "high watermark within the log",
        [("broker-2", replicated(2, 0, 0)), ("broker-2", marked(2, 2, is_leader=False))],
    ),
    "a leader's high watermark that decreases": (
        "high watermark within the log",
        [("broker-1", appended(1, 0, 4)), ("broker-1", marked(1, 5)), ("broker-1", marked(1, 3))],
    ),
    "an acks=all record replaced by another": (
        "committed and acks=all records survive",
        [
            ("broker-1", appended(1, 0, 0)),
            ("broker-1", acknowledged(1, 0, 0)),
            ("broker-2", appended(2, 0, 0, epoch=1, checksum=8)),
            ("broker-2", leads(2, 1, 1)),
        ],
    ),
    "a record lost in a power loss that another in-sync replica kept": (
        "committed and acks=all records survive",
        [*IN_SYNC, *power_lost(1), *one_leads()],
    ),
    "a record lost in a power loss that a replica removed from the ISR kept": (
        "committed and acks=all records survive",
        [
            *IN_SYNC,
            *power_lost(1),
            ("broker-3", elected(-1, 1, [1], 1, zxid=12)),
            *one_leads(partition_epoch=2, leader_epoch=2),
        ],
    ),
    "a record lost in a power loss by a replica that had to catch up first": (
        "committed and acks=all records survive",
        [
            *IN_SYNC,
            *power_lost(1),
            ("broker-3", elected(2, 1, [2], 1, zxid=12)),
            ("broker-2", leads(2, 1, 1)),
            ("broker-3", e.IsrChanged("t", 0, [2, 1], 2, 1, 2, "caught_up", zxid=13)),
            GONE,
            *one_leads(partition_epoch=3, leader_epoch=2),
        ],
    ),
    "a record lost in a power loss that an in-sync replica never had": (
        "committed and acks=all records survive",
        [*[row for row in IN_SYNC if not isinstance(row[1], e.RecordsReplicated)], *power_lost(1), *one_leads()],
    ),
    "a record lost in a power loss that a newly added ISR member kept": (
        "committed and acks=all records survive",
        [
            *IN_SYNC,
            ("broker-3", e.BrokerRegistered(3, 7, 0x53)),
            *power_lost(1),
            ("broker-3", replicated(3, 0, 0)),
            ("broker-3", e.IsrChanged("t", 0, [1, 2, 3], 2, 0, 1, "caught_up", zxid=12)),
            GONE,
            *one_leads(partition_epoch=2),
        ],
    ),
    "a record restored after a power loss, and lost again without one": (
        "committed and acks=all records survive",
        [
            *IN_SYNC,
            *power_lost(1),
            ("broker-1", replicated(1, 0, 0)),
            ("broker-1", e.ReplicaLoaded(1, "t", 0, 0, 0)),
            GONE,
            *one_leads(),
        ],
    ),
    "a record that a replica had lost by truncation before its power loss": (
        "committed and acks=all records survive",
        [
            *IN_SYNC,
            ("broker-3", elected(2, 1, [2], 1, zxid=11)),
            ("broker-2", leads(2, 1, 1)),
            ("broker-1", e.FollowershipTaken(1, "t", 0, 2, 1, 0)),
            ("broker-3", e.IsrChanged("t", 0, [2, 1], 2, 1, 2, "caught_up", zxid=12)),
            *power_lost(1),
            GONE,
            *one_leads(partition_epoch=3, leader_epoch=2),
        ],
    ),
    "a record with an in-sync copy in a log directory that did not fail": (
        "committed and acks=all records survive",
        [
            *IN_SYNC,
            *power_lost(1),
            ("broker-2", e.LogDamageFound("log.dirs[1]", 0, "EIO", "taken offline")),
            ("broker-1", e.BrokerRegistered(1, 20, 0x61)),
            ("broker-3", elected(1, 1, [1, 2], 1, zxid=30)),
            ("broker-1", leads(1, 1, 0)),
        ],
    ),
    "a record lost with a replaced disk while another in-sync replica stayed": (
        "committed and acks=all records survive",
        [*IN_SYNC, *disk_replaced(1), *one_leads()],
    ),
    "a record missing from a log that was loaded longer than journalled, then truncated": (
        "committed and acks=all records survive",
        [
            *IN_SYNC,
            *power_lost(2),
            ("broker-2", e.ReplicaLoaded(2, "t", 0, 1, 0)),
            ("broker-2", e.LogTruncated(2, "t", 0, 1, 0, 0)),
            ("broker-3", elected(2, 1, [2], 1, zxid=30)),
            ("broker-2", leads(2, 1, 0)),
        ],
    ),
    "a record replaced in a log that was loaded longer than journalled, then truncated": (
        "committed and acks=all records survive",
        [
            ("broker-1", appended(1, 0, 0)),
            ("broker-1", appended(1, 1, 1)),
            ("broker-1", acknowledged(1, 1, 1)),
            ("broker-2", e.ReplicaLoaded(2, "t", 0, 2, 0)),
            ("broker-2", e.LogTruncated(2, "t", 0, 2, 0, 0)),
            ("broker-2", replicated(2, 0, 2, epoch=1)),
            ("broker-2", leads(2, 1, 3)),
        ],
    ),
    "a restarted broker that leads in its earlier leader epoch": (
        "one leader per partition and leader epoch",
        [
            ("broker-1", e.NodeStarted("broker", 1, {})),
            ("broker-1", leads(1, 4, 0)),
            ("broker-1", e.NodeStarted("broker", 1, {})),
            ("broker-1", leads(1, 4, 0)),
        ],
    ),
    "a controller that could not process an event": (
        "no node and no check of the world reports a broken rule",
        [("broker-3", e.ControllerEventFailed(3, 1, "TopicChange", "KeyError: 'orders'"))],
    ),
    "a committed record lost in a clean election": (
        "committed and acks=all records survive",
        [
            ("broker-1", appended(1, 0, 3)),
            ("broker-1", e.HighWatermarkMoved(1, "t", 0, 0, 4, True)),
            ("broker-2", leads(2, 1, 2)),
        ],
    ),
}


def test_different_digests_violate_prefix_and_digest_invariants() -> None:
    rows = [("peer-1", committed(5, digest=1)), ("peer-2", committed(5, digest=2))]

    assert violated(rows) == ["committed prefixes agree", "digests agree"]


@pytest.mark.parametrize("case", CAUGHT)
def test_history_that_violates_an_invariant_is_detected(case: str) -> None:
    invariant, rows = CAUGHT[case]
    assert violated(rows) == [invariant]


EXCUSED: dict[str, list[tuple[str, Event]]] = {
    "nothing happened": [],
    "a broker whose id is registered by another session": [
        (
            "broker-3",
            e.ControllerEventFailed(
                3, 0, "RegisterBrokerAndReelect", "BrokerIdInUse: /brokers/ids/3 is held by session 0x1"
            ),
        )
    ],
    "an unclean election not logged because its controller died": [
        ("broker-1", appended(1, 0, 0)),
        ("broker-1", acknowledged(1, 0, 0)),
        ("broker-1", elected(1, 0, [1], 0)),
        ("broker-3", recovering(elected(2, 2, [2], 2))),
        ("broker-2", leads(2, 2, 0)),
    ],
    "an eligible replica outside the ISR is elected": [
        ("broker-3", with_eligible([3], elected(1, 0, [1], 0))),
        ("broker-3", elected(3, 1, [3], 1)),
    ],
    "an ISR member is elected uncleanly while another replica was eligible": [
        ("broker-3", with_eligible([3], elected(-1, 0, [1], 0))),
        ("broker-3", elected(1, 1, [1], 1, unclean=True)),
    ],
    "an eligible replica is elected uncleanly after min.insync.replicas changed": [
        ("broker-3", with_eligible([3], elected(-1, 0, [1], 0))),
        ("broker-3", elected(3, 1, [3], 1, unclean=True)),
    ],
    "an unclean election loses records": [
        ("broker-1", appended(1, 0, 0)),
        ("broker-1", acknowledged(1, 0, 0)),
        ("broker-1", elected(2, 1, [2], 1, unclean=True)),
        ("broker-2", leads(2, 1, 0)),
    ],
    "a power loss took the last copy: no other replica was in sync": [
        *IN_SYNC,
        ("broker-3", e.IsrChanged("t", 0, [1], 1, 0, 1, "lag", zxid=11)),
        *power_lost(1),
        *one_leads(partition_epoch=2),
    ],
    "a power loss took the last copy: every in-sync replica had a power loss": [
        *IN_SYNC,
        *power_lost(2),
        *power_lost(1),
        *one_leads(),
    ],
    "a power loss took the last copy: the other in-sync replica's session had ended": [
        *IN_SYNC,
        *power_lost(1),
        GONE,
        *one_leads(),
    ],
    "a power loss took the last copy: the other in-sync replica had restarted": [
        *IN_SYNC,
        *power_lost(1),
        ("broker-2", e.BrokerRegistered(2, 26, 0x62)),
        *one_leads(),
    ],
    "a power loss took the last copy: the leader had already removed the lagging replica": [
        *IN_SYNC,
        *power_lost(1),
        ("broker-3", e.IsrChanged("t", 0, [1], 1, 0, 1, "lag", zxid=11)),
        *one_leads(partition_epoch=2),
    ],
    "a power loss took the last copy: a reassignment had deleted the other replica": [
        *IN_SYNC,
        *power_lost(1),
        ("broker-3", e.LeaderElected("t", 0, 1, 1, [1, 2], [1], 1, 1, False, "reassignment", 12)),
        ("broker-3", e.LeaderElected("t", 0, 1, 2, [1], [1], 2, 1, False, "replica_offline", 13)),
        ("broker-3", e.AssignmentChanged("t", 0, [1], [], [], 1, 14)),
        *one_leads(partition_epoch=3, leader_epoch=3),
    ],
    "an election logged late, after its replicas were reassigned (seed 981285)": [
        ("broker-1", e.AssignmentChanged("t", 0, [2, 3, 1], [], [1], 1, 10)),
        ("broker-3", e.LeaderElected("t", 0, 2, 2, [2, 3], [2, 3], 2, 2, False, "replica_offline", 12)),
        ("broker-3", e.AssignmentChanged("t", 0, [2, 3], [], [], 2, 14)),
        ("broker-1", e.LeaderElected("t", 0, 2, 1, [2, 3, 1], [2, 3], 1, 1, False, "reassignment", 11)),
    ],
    "a power loss took the last copy: the other in-sync replica had shut down cleanly": [
        *IN_SYNC,
        *power_lost(1),
        ("broker-3", e.LeaderElected("t", 0, 1, 1, [1], [1, 2], 1, 1, False, "controlled_shutdown", 12)),
        *one_leads(partition_epoch=2, leader_epoch=2),
    ],
    "a power loss took the last copy: the other is in a failed log directory": [
        *IN_SYNC,
        *power_lost(1),
        ("broker-2", e.LogDamageFound("log.dirs[0]", 0, "EIO", "taken offline")),
        ("broker-3", e.IsrChanged("t", 0, [1], 1, 0, 1, "controller", zxid=12)),
        *one_leads(partition_epoch=2),
    ],
    "a disk was replaced by an empty one, and no other replica was in sync": [
        *IN_SYNC,
        ("broker-3", e.IsrChanged("t", 0, [1], 1, 0, 1, "lag", zxid=11)),
        *disk_replaced(1),
        *one_leads(partition_epoch=2),
    ],
    "a broker loaded the rest of a failed append": [
        *IN_SYNC,
        *power_lost(2),
        ("broker-2", e.NodeStarted("broker", 2, {})),
        ("broker-2", e.ReplicaLoaded(2, "t", 0, 1, 0)),
        ("broker-3", elected(2, 1, [2], 1, zxid=30)),
        ("broker-2", leads(2, 1, 1)),
    ],
    "a broker loaded the rest of a failed append, appended more, and restarted": [
        *IN_SYNC,
        *power_lost(2),
        ("broker-2", e.NodeStarted("broker", 2, {})),
        ("broker-2", e.ReplicaLoaded(2, "t", 0, 1, 0)),
        ("broker-2", replicated(2, 1, 1)),
        ("broker-2", e.NodeStarted("broker", 2, {})),
        ("broker-2", e.ReplicaLoaded(2, "t", 0, 2, 0)),
        ("broker-3", elected(2, 1, [2], 1, zxid=30)),
        ("broker-2", leads(2, 1, 2)),
    ],
    "a power loss took a record, and the last ISR was never logged": [
        *IN_SYNC,
        *power_lost(1),
        *one_leads(partition_epoch=2),
    ],
    "a power loss took the last copy: an earlier one outside the ISR found no log to load": [
        ("broker-1", e.BrokerRegistered(1, 5, 0x51)),
        ("broker-2", e.BrokerRegistered(2, 6, 0x52)),
        ("broker-3", elected(2, 0, [2], 0, zxid=10)),
        ("broker-2", leads(2, 0, 0)),
        ("broker-1", e.FollowershipTaken(1, "t", 0, 2, 0, 0)),
        ("world", e.FaultInjected("f0", "power_loss", "broker-1", "broker-1", False)),
        ("broker-1", e.NodeStarted("broker", 1, {})),
        ("broker-3", elected(2, 1, [2], 1, zxid=11)),
        ("broker-1", e.FollowershipTaken(1, "t", 0, 2, 1, 0)),
        ("broker-3", e.IsrChanged("t", 0, [2, 1], 2, 1, 2, "caught_up", zxid=12)),
        ("broker-2", appended(2, 0, 0, epoch=1)),
        ("broker-1", replicated(1, 0, 0, epoch=1)),
        ("broker-2", e.RecordsAcknowledged(2, "t", 0, 1, 0, 0, -1, CHECKSUM)),
        *power_lost(1),
        GONE,
        *one_leads(partition_epoch=3, leader_epoch=2),
    ],
    "a power loss took the last copy of an eligible replica after the ISR lost its own": [
        *IN_SYNC,
        *taken_from_eligible(eligible=[1]),
    ],
    "an earlier leader logs its leadership late": [
        *IN_SYNC,
        ("broker-3", elected(1, 2, [1], 2, zxid=30)),
        ("broker-1", leads(1, 2, 1)),
        ("broker-1", e.RecordsAppended(1, "t", 0, 2, 1, 1, CHECKSUM)),
        ("broker-1", e.RecordsAcknowledged(1, "t", 0, 2, 1, 1, -1, CHECKSUM)),
        ("broker-2", leads(2, 1, 1)),
    ],
    "a restarted broker leads in another leader epoch": [
        ("broker-1", e.NodeStarted("broker", 1, {})),
        ("broker-1", leads(1, 4, 0)),
        ("broker-1", e.NodeStarted("broker", 1, {})),
        ("broker-1", leads(1, 5, 0)),
    ],
    "the new leader has all records": [
        ("broker-1", appended(1, 0, 0)),
        ("broker-2", replicated(2, 0, 0)),
        ("broker-1", acknowledged(1, 0, 0)),
        ("broker-2", leads(2, 1, 1)),
    ],
    "unacknowledged records are lost": [
        ("broker-1", appended(1, 0, 0)),
        ("broker-2", leads(2, 1, 0)),
        ("broker-1", e.LogTruncated(1, "t", 0, 1, 0, 1)),
    ],
    "a snapshot sync starts a new history": [
        ("peer-1", committed(6)),
        ("peer-1", e.LearnerSynced(1, 2, 2, "SNAP", 6, 4)),
        ("peer-1", committed(5)),
    ],
    "a write in flight at the next election, ordered before it": [
        ("broker-1", e.ControllerElected(1, 1, 1, 10)),
        ("broker-2", e.ControllerElected(2, 2, 2, 20)),
        ("broker-1", elected(1, 1, [1], 1, controller=1, zxid=19)),
    ],
}


@pytest.mark.parametrize("case", EXCUSED)
def test_history_that_resembles_a_violation_passes_the_check(case: str) -> None:
    assert violated(EXCUSED[case]) == []


def test_power_loss_of_a_non_eligible_replica_excuses_no_loss() -> None:
    assert "committed and acks=all records survive" in violated([*IN_SYNC, *taken_from_eligible(eligible=[])])
