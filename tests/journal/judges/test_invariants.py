"""Each invariant: a history that violates it, and histories that only look wrong."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from zabka.journal import events as e
from zabka.journal.events import Entry, Event
from zabka.journal.judges.invariants import check

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
    """Brokers 2 and 1 lose power and records in turn, while broker 1 is out of the ISR; then 1 leads."""
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
"""Brokers 1 and 2 are in sync, and 1 leads; both hold the acknowledged record."""


def power_lost(broker: int) -> list[tuple[str, Event]]:
    """A broker loses power, and loads an empty log."""
    name = f"broker-{broker}"
    return [
        ("world", e.FaultInjected("f1", "power_loss", name, name, False)),
        (name, e.NodeStarted("broker", broker, {})),
        (name, e.ReplicaLoaded(broker, "t", 0, 0, 0)),
    ]


def disk_replaced(broker: int) -> list[tuple[str, Event]]:
    """A broker loses power and its disk, and finds no log to load."""
    name = f"broker-{broker}"
    return [
        ("world", e.FaultInjected("f1", "power_loss", name, name, False)),
        ("world", e.FaultInjected("f2", "disk_replaced", name, name, False)),
        (name, e.NodeStarted("broker", broker, {})),
    ]


def one_leads(*, partition_epoch: int = 1, leader_epoch: int = 1) -> list[tuple[str, Event]]:
    """Broker 1 registers again, is elected, and leads with an empty log."""
    return [
        ("broker-1", e.BrokerRegistered(1, 20, 0x61)),
        ("broker-3", elected(1, leader_epoch, [1], partition_epoch, zxid=30)),
        ("broker-1", leads(1, leader_epoch, 0)),
    ]


GONE: tuple[str, Event] = ("peer-1", e.SessionClosed(0x52, 25, ["/brokers/ids/2"]))
"""Broker 2's registration is deleted before broker 1 is elected."""

CAUGHT: dict[str, tuple[str, list[tuple[str, Event]]]] = {
    "two leaders in an epoch": (
        "one ZAB leader per epoch",
        [("peer-1", established(1, 3)), ("peer-2", established(2, 3))],
    ),
    "another transaction under a zxid": (
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
    "a checkpoint with another digest than the others' at that zxid": (
        "digests agree",
        [
            ("peer-1", e.ZxidCheckpoint(5, 0xA, 7, 1)),
            ("peer-2", e.ZxidCheckpoint(6, 0xB, 7, 1)),
            ("peer-3", e.ZxidCheckpoint(5, 0xB, 7, 1)),
        ],
    ),
    "a peer whose tree is another after a restart": (
        "digests agree",
        [("peer-1", e.ZxidCheckpoint(5, 0xA, 7, 1)), ("peer-1", e.ZxidCheckpoint(5, 0xB, 7, 1))],
    ),
    "a checkpoint that is not what was committed": (
        "digests agree",
        [("peer-1", committed(5, digest=1)), ("peer-2", e.ZxidCheckpoint(5, 2, 7, 1))],
    ),
    "applied backwards": ("committed prefixes agree", [("peer-1", committed(6)), ("peer-1", committed(5))]),
    "a leader without an acknowledged write": (
        "no acknowledged write lost",
        [
            ("peer-1", e.WriteAcknowledged(1, 1, (1 << 32) + 5, "create", "/a")),
            ("peer-2", leading((1 << 32) + 4)),
            ("peer-2", established(2, 2)),
        ],
    ),
    "truncating an acknowledged write": (
        "no acknowledged write lost",
        [
            ("peer-1", e.WriteAcknowledged(1, 1, 5, "create", "/a")),
            ("peer-2", e.TxnLogTruncated(6, 4)),
        ],
    ),
    "an ephemeral left behind": (
        "no ephemeral outlives its session",
        [("peer-1", e.EphemeralCreated("/e", 9, 5)), ("peer-1", e.SessionClosed(9, 6, []))],
    ),
    "an ephemeral of a dead session": (
        "no ephemeral outlives its session",
        [("peer-1", e.SessionClosed(9, 6, [])), ("peer-2", e.EphemeralCreated("/e", 9, 7))],
    ),
    "a controller epoch twice": (
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
    "a stranger in the ISR": ("ISR within the assignment", [("broker-1", elected(1, 0, [1, 9], 0))]),
    "a record acknowledged after an unclean election is lost while the partition still recovers from it": (
        "committed and acks=all records survive",
        [
            ("broker-3", recovering(elected(1, 1, [1, 2], 1, unclean=True))),
            ("broker-1", appended(1, 0, 0)),
            ("broker-1", e.RecordsAcknowledged(1, "t", 0, 1, 0, 0, -1, CHECKSUM)),
            ("broker-3", recovering(elected(2, 2, [2], 2))),
            ("broker-2", leads(2, 2, 0)),
        ],
    ),
    "an unclean election called clean": (
        "only unclean elections leave the ISR",
        [("broker-3", elected(1, 0, [1, 2], 0)), ("broker-3", elected(3, 1, [3], 1))],
    ),
    "an unclean election called clean, and told before what it left": (
        "only unclean elections leave the ISR",
        [("broker-3", elected(3, 1, [3], 1)), ("broker-2", elected(1, 0, [1, 2], 0))],
    ),
    "a clean election called unclean": (
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
    "two batches at an offset of a leader epoch": (
        "epoch and offset name one batch",
        [("broker-1", appended(1, 3, 3)), ("broker-2", appended(2, 3, 3, checksum=8))],
    ),
    "a high watermark beyond the log": (
        "high watermark within the log",
        [("broker-2", replicated(2, 0, 0)), ("broker-2", marked(2, 2, is_leader=False))],
    ),
    "a leader's high watermark falls": (
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
    "a record lost to a power loss that another in-sync replica kept": (
        "committed and acks=all records survive",
        [*IN_SYNC, *power_lost(1), *one_leads()],
    ),
    "a record lost to a power loss that a replica kept which the controller took out of the ISR": (
        "committed and acks=all records survive",
        [
            *IN_SYNC,
            *power_lost(1),
            ("broker-3", elected(-1, 1, [1], 1, zxid=12)),
            *one_leads(partition_epoch=2, leader_epoch=2),
        ],
    ),
    "a record lost to a power loss by a replica that had to catch up first": (
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
    "a record lost to a power loss that an in-sync replica never had": (
        "committed and acks=all records survive",
        [*[row for row in IN_SYNC if not isinstance(row[1], e.RecordsReplicated)], *power_lost(1), *one_leads()],
    ),
    "a record lost to a power loss that a replica kept which had come into the ISR since": (
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
    "a record that was given back after the power loss, and lost again without one": (
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
    "a record that a replica lost by being deleted, and whose power loss came later": (
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
    "a record of which a copy in sync lay in a log directory that did not fail": (
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
    "a record lost with a disk that was replaced, while another replica in sync stayed": (
        "committed and acks=all records survive",
        [*IN_SYNC, *disk_replaced(1), *one_leads()],
    ),
    "a record that a log lacks which was found longer than the journal says, and was cut since": (
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
    "a record that a log lacks which was found longer, was cut, and took others in its place": (
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
    "a restarted broker that leads on in the leader epoch of the process before it": (
        "one leader per partition and leader epoch",
        [
            ("broker-1", e.NodeStarted("broker", 1, {})),
            ("broker-1", leads(1, 4, 0)),
            ("broker-1", e.NodeStarted("broker", 1, {})),
            ("broker-1", leads(1, 4, 0)),
        ],
    ),
    "a controller that could not process an event": (
        "no node and no judge of the world reports a broken rule",
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


def test_different_tree_at_a_zxid_violates_both_invariants() -> None:
    rows = [("peer-1", committed(5, digest=1)), ("peer-2", committed(5, digest=2))]

    assert violated(rows) == ["committed prefixes agree", "digests agree"]


@pytest.mark.parametrize("case", CAUGHT)
def test_history_that_violates_an_invariant_is_caught(case: str) -> None:
    invariant, rows = CAUGHT[case]
    assert violated(rows) == [invariant]


EXCUSED: dict[str, list[tuple[str, Event]]] = {
    "nothing happened": [],
    "a broker at whose id somebody else stands": [
        (
            "broker-3",
            e.ControllerEventFailed(
                3, 0, "RegisterBrokerAndReelect", "BrokerIdInUse: /brokers/ids/3 is held by session 0x1"
            ),
        )
    ],
    "an unclean election of which its controller died before it told": [
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
    "one of the ISR is elected uncleanly where another was eligible, to whom it had to give way": [
        ("broker-3", with_eligible([3], elected(-1, 0, [1], 0))),
        ("broker-3", elected(1, 1, [1], 1, unclean=True)),
    ],
    "an eligible replica is elected uncleanly, for the minimum has changed since": [
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
    "a power loss took the last copy: every replica in sync lost its own to one": [
        *IN_SYNC,
        *power_lost(2),
        *power_lost(1),
        *one_leads(),
    ],
    "a power loss took the last copy: the other replica in sync had gone": [
        *IN_SYNC,
        *power_lost(1),
        GONE,
        *one_leads(),
    ],
    "a power loss took the last copy: the other replica in sync was no more the process it had been": [
        *IN_SYNC,
        *power_lost(1),
        ("broker-2", e.BrokerRegistered(2, 26, 0x62)),
        *one_leads(),
    ],
    "a power loss took the last copy: its leader had asked before to drop the other, which lagged": [
        *IN_SYNC,
        *power_lost(1),
        ("broker-3", e.IsrChanged("t", 0, [1], 1, 0, 1, "lag", zxid=11)),
        *one_leads(partition_epoch=2),
    ],
    "a power loss took the last copy: the other was deleted, for the partition had moved to who lost it unnoticed": [
        *IN_SYNC,
        *power_lost(1),
        ("broker-3", e.LeaderElected("t", 0, 1, 1, [1, 2], [1], 1, 1, False, "reassignment", 12)),
        ("broker-3", e.LeaderElected("t", 0, 1, 2, [1], [1], 2, 1, False, "replica_offline", 13)),
        ("broker-3", e.AssignmentChanged("t", 0, [1], [], [], 1, 14)),
        *one_leads(partition_epoch=3, leader_epoch=3),
    ],
    "an election told late, when its replicas have been reassigned since (seed 981285)": [
        ("broker-1", e.AssignmentChanged("t", 0, [2, 3, 1], [], [1], 1, 10)),
        ("broker-3", e.LeaderElected("t", 0, 2, 2, [2, 3], [2, 3], 2, 2, False, "replica_offline", 12)),
        ("broker-3", e.AssignmentChanged("t", 0, [2, 3], [], [], 2, 14)),
        ("broker-1", e.LeaderElected("t", 0, 2, 1, [2, 3, 1], [2, 3], 1, 1, False, "reassignment", 11)),
    ],
    "a power loss took the last copy: the other replica in sync had left in order, to who lost it unnoticed": [
        *IN_SYNC,
        *power_lost(1),
        ("broker-3", e.LeaderElected("t", 0, 1, 1, [1], [1, 2], 1, 1, False, "controlled_shutdown", 12)),
        *one_leads(partition_epoch=2, leader_epoch=2),
    ],
    "a power loss took the last copy: the other lies in a log directory that failed": [
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
    "a broker found what an append had left that failed": [
        *IN_SYNC,
        *power_lost(2),
        ("broker-2", e.NodeStarted("broker", 2, {})),
        ("broker-2", e.ReplicaLoaded(2, "t", 0, 1, 0)),
        ("broker-3", elected(2, 1, [2], 1, zxid=30)),
        ("broker-2", leads(2, 1, 1)),
    ],
    "a broker found what an append had left that failed, took more, and was started once more": [
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
    "a power loss took a record, and who was in sync nobody lived to tell": [
        *IN_SYNC,
        *power_lost(1),
        *one_leads(partition_epoch=2),
    ],
    "a power loss took the last copy: one before it, outside the ISR, had found no log to load": [
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
    "a power loss took the last copy from who was eligible, when the last of the ISR had lost its own": [
        *IN_SYNC,
        *taken_from_eligible(eligible=[1]),
    ],
    "a leader of old is told late of its election": [
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
    "the new leader has everything": [
        ("broker-1", appended(1, 0, 0)),
        ("broker-2", replicated(2, 0, 0)),
        ("broker-1", acknowledged(1, 0, 0)),
        ("broker-2", leads(2, 1, 1)),
    ],
    "unacknowledged records may go": [
        ("broker-1", appended(1, 0, 0)),
        ("broker-2", leads(2, 1, 0)),
        ("broker-1", e.LogTruncated(1, "t", 0, 1, 0, 1)),
    ],
    "a snapshot sync begins a new history": [
        ("peer-1", committed(6)),
        ("peer-1", e.LearnerSynced(1, 2, 2, "SNAP", 6, 4)),
        ("peer-1", committed(5)),
    ],
    "a write in flight when the next controller begins, ordered before it": [
        ("broker-1", e.ControllerElected(1, 1, 1, 10)),
        ("broker-2", e.ControllerElected(2, 2, 2, 20)),
        ("broker-1", elected(1, 1, [1], 1, controller=1, zxid=19)),
    ],
}


@pytest.mark.parametrize("case", EXCUSED)
def test_history_that_only_looks_wrong_is_no_violation(case: str) -> None:
    assert violated(EXCUSED[case]) == []


def test_power_loss_outside_isr_and_eligible_set_is_no_excuse() -> None:
    assert "committed and acks=all records survive" in violated([*IN_SYNC, *taken_from_eligible(eligible=[])])
