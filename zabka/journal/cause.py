"""The cause of an event, recorded as a reference in the event itself, never derived afterwards.

A node that decides knows the cause of its decision, and writes it in one of these forms. Within a node, the cause is an
event in the node's own journal. Between nodes, it is an identifier that the protocol carries anyway: the zxid of a
transaction (a watch event contains it, ZOOKEEPER-4655), a session, a broker's registration, a partition's leader epoch,
a proposal's epoch. `causes` finds the events for these references.
"""

from __future__ import annotations

from typing import NewType

from zabka.journal.event import TopicPartition

Cause = NewType("Cause", str)
"""The cause of an event in one of the forms below; empty if the node that writes the event does not know it."""

UNKNOWN = Cause("")
START = Cause("start")
"""The cause of events that follow from the node's own start."""
LINK, SILENCE, LOOKING = "link", "silence", "looking"
PRODUCER, DECISION, OPEN = "producer", "decision", "open"


def event_cause(node: str, node_seq: int) -> Cause:
    """Refer to the line with sequence number `node_seq` in a node's journal: `broker-2#812`."""
    return Cause(f"{node}#{node_seq}")


def transaction_cause(zxid: int) -> Cause:
    """Refer to a transaction of the ensemble: `0x100000012`.

    The cause is unknown if the server sent no zxid with the watch event, as servers before 3.9 do.
    """
    return Cause(f"0x{zxid:x}") if zxid > 0 else UNKNOWN


def session_text(session_id: int) -> str:
    """Return a session's id as ZooKeeper shows it."""
    return f"0x{session_id & (1 << 64) - 1:x}"


def expiry_cause(session_id: int) -> Cause:
    """Refer to the expiry of a session by the ensemble's leader: `expiry 0x1008a…`."""
    return Cause(f"expiry {session_text(session_id)}")


def owner_cause(session_id: int) -> Cause:
    """Refer to the deletion of a session's ephemeral znode, by the session's end or by a client: `owner 0x1008a…`."""
    return Cause(f"owner {session_text(session_id)}")


def absence_cause(broker_id: int) -> Cause:
    """Refer to a broker that is not registered, and that this node never saw registered: `absence 2`."""
    return Cause(f"absence {broker_id}")


def link_cause(peer_id: int) -> Cause:
    """Refer to a failed connection with a peer, whose process ended or which closed the connection: `link peer-3`."""
    return Cause(f"{LINK} peer-{peer_id}")


def silence_cause(peer_id: int) -> Cause:
    """Refer to a peer that sent nothing for longer than a limit, although its connection was open: `silence peer-3`."""
    return Cause(f"{SILENCE} peer-{peer_id}")


def looking_cause(peer_id: int) -> Cause:
    """Refer to the start of leader election (LOOKING) at a peer, which may be the node itself: `looking peer-3`."""
    return Cause(f"{LOOKING} peer-{peer_id}")


def registration_cause(broker_id: int, broker_epoch: int) -> Cause:
    """Refer to the end of a broker's registration, identified by its czxid: `registration 2@0x100000012`."""
    return Cause(f"registration {broker_id}@0x{broker_epoch:x}")


def election_cause(partition: TopicPartition, leader_epoch: int) -> Cause:
    """Refer to the election that started a leader epoch: `election orders-0@7`."""
    return Cause(f"election {partition}@{leader_epoch}")


def proposal_cause(partition: TopicPartition, partition_epoch: int) -> Cause:
    """Refer to the leader's AlterPartition request with that partition epoch: `proposal orders-0@12`."""
    return Cause(f"proposal {partition}@{partition_epoch}")


def topic_cause(topic_id: str) -> Cause:
    """Refer to the request that created the topic with that id: `topic DAwc7UzVR_W8E5vQF1Uqgw`."""
    return Cause(f"topic {topic_id}")


def fault_cause(fault_id: str) -> Cause:
    """Refer to the injection of a fault: `fault f1a2b3c4`."""
    return Cause(f"fault {fault_id}")


def producer_cause(producer_id: int) -> Cause:
    """Refer to the newest state of a producer's transactional id: `producer 7`."""
    return Cause(f"{PRODUCER} {producer_id}")


def decision_cause(producer_id: int, producer_epoch: int) -> Cause:
    """Refer to the decision about a producer's transaction that led to a marker: `decision 7@1`.

    Only the producer's id and epoch reach the partition.
    """
    return Cause(f"{DECISION} {producer_id}@{producer_epoch}")


def open_transaction_cause(producer_id: int, partition: TopicPartition, first_offset: int) -> Cause:
    """Refer to a producer's open transaction, which begins at that offset of the partition: `open 7 orders-0@12`."""
    return Cause(f"{OPEN} {producer_id} {partition}@{first_offset}")


TIMERS = frozenset(
    {
        "session-expiry", "isr-expiration", "auto-leader-rebalance", "initLimit", "transaction-abort",
        "transactionalId-expiration",
    }
)  # fmt: skip
REQUESTS = frozenset(
    {
        "closeSession", "Fetch", "AlterConfigs", "AlterPartition", "AllocateProducerIds", "ListPartitionReassignments",
        "ControlledShutdown", "ReplicaLeaderElection", "ApiPartitionReassignment",
        "reconfig", "FOLLOWERINFO", "LEADERINFO", "ACKEPOCH", "TRUNC", "PROPOSAL", "of a broken protocol",
        "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "DeleteRecords",
        "LeaderAndIsr", "StopReplica", "of a later controller", "shutdown", "of whoever took the registration away",
    }
)  # fmt: skip
"""The request names that nodes use in causes; the checker accepts no others."""


def timer_cause(name: str) -> Cause:
    """Refer to an expired timer of the node, by its name in Kafka or ZooKeeper: `timer isr-expiration`."""
    return Cause(f"timer {name}")


def request_cause(name: str) -> Cause:
    """Refer to a request that is not itself an event, by its protocol name: `request Fetch`."""
    return Cause(f"request {name}")
