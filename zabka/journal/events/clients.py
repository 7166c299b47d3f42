"""What is known of Kafka's clients: consumer groups, by their coordinators' word, and the workloads that run inside."""

from __future__ import annotations

from zabka.journal.event import Event


class GroupChanged(Event):
    """Where a consumer group stands, by its coordinator's word: `state` as Kafka's tools name it."""

    broker_id: int
    group_id: str
    state: str
    generation_id: int
    leader_id: str
    members: list[str]


class WorkloadProgressed(Event):
    """How a workload stands."""

    workload_id: str
    topic: str
    sent: int
    acknowledged: int
    failed: int
    lost: int


class ConsumerProgressed(Event):
    """How a consumer of a workload stands; its lag is in records."""

    workload_id: str
    topic: str
    group_id: str
    consumed: int
    duplicates: int
    out_of_order: int
    lag: int
    partitions: list[int]


class AdminRequested(Event):
    """Somebody asked for a change, over HTTP or with one of Kafka's administrative requests, by its name: an effect's
    chain of causes may end here.

    `subjects` are what it is about: topics, partitions, nodes; of CreateTopics the topic and the id that it is to have.
    """

    request: str
    subjects: list[str]
    client: str


class LossesAcknowledged(Event):
    """A user has taken note of all records that were lost up to that number of the history, and of so many that each
    producer did not find again: they no longer count against the cluster's health."""

    through_seq: int
    producers: dict[str, int]
