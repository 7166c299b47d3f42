"""References from an event to its cause. Each event is written with its reference, which is never derived later.

The node that makes a decision knows the decision's cause, and writes it in one of these forms. Within a node, the cause
is an event in the node's own journal. Between nodes, the cause is an identifier that the protocol contains anyway: the
zxid of a transaction (a watch event contains it, ZOOKEEPER-4655), a session, a broker's registration, a partition's
leader epoch, a proposal's epoch. `causes` finds the events for these references.
"""

from __future__ import annotations

from typing import NewType

from zabka.journal.event import TopicPartition

Cause = NewType("Cause", str)
"""Reference to the cause of an event, in one of the forms below; empty if the node does not know the cause."""

UNKNOWN = Cause("")
START = Cause("start")
"""Cause of the events that follow from the start of the node itself."""
LINK, SILENCE, LOOKING = "link", "silence", "looking"
PRODUCER, DECISION, OPEN = "producer", "decision", "open"


def event_cause(node: str, node_seq: int) -> Cause:
    """Return a reference to the event with sequence number `node_seq` in a node's journal: `broker-2#812`."""
    return Cause(f"{node}#{node_seq}")


def transaction_cause(zxid: int) -> Cause:
    """Return a reference to a transaction of the ensemble: `0x100000012`.

    The reference is empty if the server sent no zxid with the watch event, as servers before 3.9 do.
    """
    return Cause(f"0x{zxid:x}") if zxid > 0 else UNKNOWN


def session_text(session_id: int) -> str:
    """Return a session id in ZooKeeper's notation, such as 0x1008a…."""
    return f"0x{session_id & (1 << 64) - 1:x}"


def expiry_cause(session_id: int) -> Cause:
    """Return a reference to the expiry of a session by the ensemble's leader: `expiry 0x1008a…`."""
    return Cause(f"expiry {session_text(session_id)}")


def owner_cause(session_id: int) -> Cause:
    """Return a reference to the deletion of a session's ephemeral znode: `owner 0x1008a…`.

    The znode is deleted when the session ends, or by a client.
    """
    return Cause(f"owner {session_text(session_id)}")


def absence_cause(broker_id: int) -> Cause:
    """Return a reference to the absence of a broker that was never registered while this node ran: `absence 2`."""
    return Cause(f"absence {broker_id}")


def link_cause(peer_id: int) -> Cause:
    """Return a reference to a failed connection with a peer: `link peer-3`.

    The peer's process ended, or the peer closed the connection.
    """
    return Cause(f"{LINK} peer-{peer_id}")


def silence_cause(peer_id: int) -> Cause:
    """Return a reference to a peer's silence: `silence peer-3`.

    The peer sent nothing for longer than a limit, although the connection to it was open.
    """
    return Cause(f"{SILENCE} peer-{peer_id}")


def looking_cause(peer_id: int) -> Cause:
    """Return a reference to the start of leader election (LOOKING) at a peer: `looking peer-3`.

    The peer can be the node itself.
    """
    return Cause(f"{LOOKING} peer-{peer_id}")


def registration_cause(broker_id: int, broker_epoch: int) -> Cause:
    """Return a reference to the end of a broker's registration: `registration 2@0x100000012`.

    The broker epoch is the czxid of the registration.
    """
    return Cause(f"registration {broker_id}@0x{broker_epoch:x}")


def election_cause(partition: TopicPartition, leader_epoch: int) -> Cause:
    """Return a reference to the election that started a partition's leader epoch: `election orders-0@7`."""
    return Cause(f"election {partition}@{leader_epoch}")


def proposal_cause(partition: TopicPartition, partition_epoch: int) -> Cause:
    """Return a reference to the leader's AlterPartition request: `proposal orders-0@12`.

    The request contains that partition epoch.
    """
    return Cause(f"proposal {partition}@{partition_epoch}")


def topic_cause(topic_id: str) -> Cause:
    """Return a reference to the request that created a topic: `topic DAwc7UzVR_W8E5vQF1Uqgw`."""
    return Cause(f"topic {topic_id}")


def fault_cause(fault_id: str) -> Cause:
    """Return a reference to the injection of a fault: `fault f1a2b3c4`."""
    return Cause(f"fault {fault_id}")


def producer_cause(producer_id: int) -> Cause:
    """Return a reference to the last change of a producer's transactional id: `producer 7`."""
    return Cause(f"{PRODUCER} {producer_id}")


def decision_cause(producer_id: int, producer_epoch: int) -> Cause:
    """Return a reference to the decision to commit or abort a producer's transaction: `decision 7@1`.

    Such a decision is the cause of a transaction marker. The marker contains only the producer's id and epoch.
    """
    return Cause(f"{DECISION} {producer_id}@{producer_epoch}")


def open_transaction_cause(producer_id: int, partition: TopicPartition, first_offset: int) -> Cause:
    """Return a reference to a producer's open transaction: `open 7 orders-0@12`.

    The transaction's first record in the partition is at `first_offset`.
    """
    return Cause(f"{OPEN} {producer_id} {partition}@{first_offset}")


TIMERS = frozenset(
    {
        "session-expiry", "isr-expiration", "auto-leader-rebalance", "initLimit", "transaction-abort",
        "transactionalId-expiration", "group-session", "pending-sync", "offsets-retention",
    }
)  # fmt: skip
REQUESTS = frozenset(
    {
        "closeSession", "Fetch", "AlterConfigs", "AlterPartition", "AllocateProducerIds", "ListPartitionReassignments",
        "ControlledShutdown", "ReplicaLeaderElection", "ApiPartitionReassignment",
        "reconfig", "FOLLOWERINFO", "LEADERINFO", "ACKEPOCH", "TRUNC", "PROPOSAL", "of a broken protocol",
        "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "DeleteRecords",
        "JoinGroup", "SyncGroup", "LeaveGroup", "DeleteGroups", "OffsetDelete", "UpdateMetadata",
        "LeaderAndIsr", "StopReplica", "of a later controller", "shutdown", "of whoever took the registration away",
    }
)  # fmt: skip
"""Request names that nodes use in `request_cause`; the checker rejects other names."""


def timer_cause(name: str) -> Cause:
    """Return a cause that refers to an expired timer of the node, such as `timer isr-expiration`.

    The name is the timer's name in Kafka or ZooKeeper.
    """
    return Cause(f"timer {name}")


def request_cause(name: str) -> Cause:
    """Return a cause that refers to a request by its protocol name, for example `request Fetch`.

    Used for requests that no event records.
    """
    return Cause(f"request {name}")
