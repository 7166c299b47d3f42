"""What led to an event, as the event itself names it: a reference that is written down, never worked out afterwards.

A node that decides knows what it decided upon in one of these forms.  Within a node that is an event of its own
journal.  Between nodes it is what the wire carries anyway, and what identifies exactly one thing: the zxid of a
transaction (a watch tells it, ZOOKEEPER-4655), a session, a broker's registration, a partition's leader epoch, a
proposal's epoch.  `causes` finds the events behind these references.
"""

from __future__ import annotations

from typing import NewType

from zabka.journal.event import TopicPartition

Cause = NewType("Cause", str)
"""One of the forms below; empty where the node that writes the event does not know."""

UNKNOWN = Cause("")
START = Cause("start")
"""The node's own start."""
LINK, SILENCE, LOOKING = "link", "silence", "looking"


def event_cause(node: str, node_seq: int) -> Cause:
    """The line of that number in a node's journal: `broker-2#812`."""
    return Cause(f"{node}#{node_seq}")


def transaction_cause(zxid: int) -> Cause:
    """A transaction of the ensemble: `0x100000012`.  Unknown where the server that told of it gave no zxid, as servers
    before 3.9 do."""
    return Cause(f"0x{zxid:x}") if zxid > 0 else UNKNOWN


def expiry_cause(session_id: int) -> Cause:
    """The ensemble's leader declared that session dead: `expiry 0x1008a…`."""
    return Cause(f"expiry 0x{session_id & (1 << 64) - 1:x}")


def owner_cause(session_id: int) -> Cause:
    """A znode is gone that this session held: the session ended, or somebody deleted the znode: `owner 0x1008a…`."""
    return Cause(f"owner 0x{session_id & (1 << 64) - 1:x}")


def absence_cause(broker_id: int) -> Cause:
    """That broker is not registered, and whoever says so never saw it registered: `absence 2`."""
    return Cause(f"absence {broker_id}")


def link_cause(peer_id: int) -> Cause:
    """The connection with that peer ended, or none came about: its process is gone, or it gave up: `link peer-3`."""
    return Cause(f"{LINK} peer-{peer_id}")


def silence_cause(peer_id: int) -> Cause:
    """That peer was not heard of for a limit's time, though its connection stood: `silence peer-3`."""
    return Cause(f"{SILENCE} peer-{peer_id}")


def looking_cause(peer_id: int) -> Cause:
    """That peer, which may be the one that says so, began to look for a leader: `looking peer-3`."""
    return Cause(f"{LOOKING} peer-{peer_id}")


def registration_cause(broker_id: int, broker_epoch: int) -> Cause:
    """The end of a broker's registration, which its czxid names: `registration 2@0x100000012`."""
    return Cause(f"registration {broker_id}@0x{broker_epoch:x}")


def election_cause(partition: TopicPartition, leader_epoch: int) -> Cause:
    """The election that began a leader epoch: `election orders-0@7`."""
    return Cause(f"election {partition}@{leader_epoch}")


def proposal_cause(partition: TopicPartition, partition_epoch: int) -> Cause:
    """What the partition's leader proposed upon that partition epoch (AlterPartition): `proposal orders-0@12`."""
    return Cause(f"proposal {partition}@{partition_epoch}")


def topic_cause(topic_id: str) -> Cause:
    """The request that made the topic of that id: `topic DAwc7UzVR_W8E5vQF1Uqgw`."""
    return Cause(f"topic {topic_id}")


TIMERS = frozenset({"session-expiry", "isr-expiration", "auto-leader-rebalance", "initLimit"})
REQUESTS = frozenset(
    {
        "closeSession", "Fetch", "AlterConfigs", "AlterPartition", "AllocateProducerIds", "ListPartitionReassignments",
        "ControlledShutdown", "ReplicaLeaderElection", "ApiPartitionReassignment",
        "reconfig", "FOLLOWERINFO", "LEADERINFO", "ACKEPOCH", "TRUNC", "PROPOSAL", "of a broken protocol",
        "LeaderAndIsr", "StopReplica", "of a later controller", "shutdown", "of whoever took the registration away",
    }
)  # fmt: skip
"""The names that nodes give; the judge takes no others."""


def timer_cause(name: str) -> Cause:
    """A timer of the node ran out, by Kafka's or ZooKeeper's name: `timer isr-expiration`."""
    return Cause(f"timer {name}")


def request_cause(name: str) -> Cause:
    """A request that is no event of its own, by the protocol's name: `request Fetch`."""
    return Cause(f"request {name}")
