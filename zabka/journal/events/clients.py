"""Events about Kafka clients: consumer groups, as their coordinators report them, and the built-in workloads."""

from __future__ import annotations

import msgspec

from zabka.journal.event import Event


class GroupChanged(Event):
    """State of a consumer group, as its coordinator reports it. `state` has the name that Kafka's tools print.

    `after` is the reason for the change. A rebalance begins after "member joined", "member left", "session timed out",
    "static member joined again", "leader joined again" or "member changed its subscription"; after "members did not
    fetch their assignment", "assignment not stored" or "more members than group.max.size"; and it ends after "all
    members joined" or "rebalance timed out", then "assignment stored". A group is "loaded" if a broker became its
    coordinator, and removed after "group deleted", "offsets deleted" or "offsets expired". `member_id` and `client_id`
    are the member that the reason is about, and `timeout_ms` its session timeout if that has ended.
    """

    broker_id: int
    group_id: str
    state: str
    generation_id: int
    leader_id: str
    members: list[str]
    after: str = ""
    member_id: str = ""
    client_id: str = ""
    timeout_ms: int = 0
    caused_by: str = ""


class TransactionChanged(Event):
    """State of a transactional id, as its coordinator stored it. `state` has the name that Kafka's tools print.

    `partitions` are the partitions that still need a marker. `after` is the reason for the change: "producer started",
    "partitions added", "ended by its producer", "fenced", "timed out", "markers written", "expired", or "loaded" if a
    broker became the coordinator of an unfinished transaction. `client_id` is from the producer's last request to this
    coordinator. `started_ms` is when the transaction began, in milliseconds of the coordinator's wall clock; -1 if no
    transaction is open.
    """

    broker_id: int
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    partitions: list[str]
    after: str
    client_id: str = ""
    started_ms: int = -1
    timeout_ms: int = 0
    caused_by: str = ""


class LostSpan(msgspec.Struct, frozen=True, gc=False):
    """Acknowledged records of a partition that are lost: `count` records from `first_offset` to `last_offset`."""

    partition: int
    first_offset: int
    last_offset: int
    count: int


class WorkloadProgressed(Event):
    """Counts of a workload's records since its start.

    `acks` is all, 1 or 0, and empty in journals of older versions. `missing` contains the offsets of the `lost`
    records, as at most 20 ranges per partition; if there are more, the last range extends to the last lost offset. A
    range has the fields `partition`, `first_offset`, `last_offset` and `count`, the number of lost records from its
    first to its last offset. `running_ms` is how long the workload has produced. `waited_ms` is the part of that time
    in which it waited for a write that was not acknowledged or took more than a second. Both are -1 in journals of
    older versions.
    """

    workload_id: str
    topic: str
    sent: int
    acknowledged: int
    failed: int
    lost: int
    acks: str = ""
    missing: list[LostSpan] = []
    running_ms: int = -1
    waited_ms: int = -1


class ConsumerProgressed(Event):
    """Counts of a workload's consumer, and its lag in records."""

    workload_id: str
    topic: str
    group_id: str
    consumed: int
    duplicates: int
    out_of_order: int
    lag: int
    partitions: list[int]


class AdminRequested(Event):
    """A client requested a change, over HTTP or with a Kafka admin request. A chain of causes can end here.

    `subjects` are the topics, partitions or nodes in the request; for CreateTopics, the topic and the id that it will
    get.
    """

    request: str
    subjects: list[str]
    client: str


class LossesAcknowledged(Event):
    """A user acknowledged that records were lost. They no longer count against the cluster's health.

    The event covers all records that were lost up to the sequence number `through_seq` of the history. It also covers
    the lost records that the workloads have found: `producers` contains their number, keyed by the name of the
    workload.
    """

    through_seq: int
    producers: dict[str, int]
