"""A broker's cluster metadata, from UpdateMetadata requests (Kafka's ZkMetadataCache).

Requests can wait for changes of the metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from zabka.ensemble.ports import Future, Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import Endpoint, KafkaMessage
from zabka.kafka.wire.kafka_schema import KafkaUuid

LEADER_DURING_DELETE = -2
"""Value of the leader field in UpdateMetadata for a partition that is being deleted."""
ENDED_MAX = 10_000
"""Maximum number of remembered ids of deleted topics."""


class LiveBroker(NamedTuple):
    """A broker that the controller considers live: the host and port of each listener, and the rack."""

    broker_id: int
    endpoints: Mapping[str, tuple[str, int]]
    rack: str | None


class PartitionMetadata(NamedTuple):
    """A partition's state from UpdateMetadata. Leader -1 means that there is no leader."""

    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    partition_epoch: int


class MetadataCache:
    """Brokers, topics and the controller, according to the UpdateMetadata requests received so far.

    `generation` changes with every change that requests may wait for. `control_plane_listener` is "" if brokers connect
    to the controller through the inter-broker listener.
    """

    def __init__(self, runtime: Runtime, inter_broker_listener: str, control_plane_listener: str = "") -> None:
        self._runtime = runtime
        self._inter_broker_listener = inter_broker_listener
        self._control_plane_listener = control_plane_listener
        self._brokers: dict[int, LiveBroker] = {}
        self._topics: dict[str, dict[int, PartitionMetadata]] = {}
        self._topic_ids: dict[str, KafkaUuid] = {}
        self._names: dict[KafkaUuid, str] = {}
        self._ended: dict[KafkaUuid, None] = {}
        """Ids of topics that were deleted or replaced by a new topic of the same name."""
        self._waiters: dict[Future[None], None] = {}
        self.controller_id = -1
        self.generation = 0

    # ---- queries --------------------------------------------------------------------------------------------

    def is_alive(self, broker_id: int) -> bool:
        """Return whether the controller considers the broker live."""
        return broker_id in self._brokers

    def endpoint(self, broker_id: int, listener: str | None = None) -> Endpoint | None:
        """Return a live broker's address on a listener, or None if it lacks that listener.

        Without `listener`, return the address of the inter-broker listener. There is no fallback to another listener:
        the client may be unable to reach it, and it may have another security protocol.
        """
        broker = self._brokers.get(broker_id)
        address = None if broker is None else broker.endpoints.get(listener or self._inter_broker_listener)
        return None if address is None else Endpoint(broker_id, *address)

    def controller_endpoint(self) -> Endpoint | None:
        """Return the address for requests to the controller, or None if no controller with that listener is known."""
        found = self.endpoint(self.controller_id, self._control_plane_listener)
        return None if found is None else found._replace(listener=self._control_plane_listener)

    def rack(self, broker_id: int) -> str | None:
        """Return a live broker's rack, or None if it has none or is not alive."""
        broker = self._brokers.get(broker_id)
        return None if broker is None else broker.rack

    def brokers(self) -> list[LiveBroker]:
        """Return the live brokers, ordered by id."""
        return [self._brokers[broker_id] for broker_id in sorted(self._brokers)]

    def live_controller(self) -> int:
        """Return the controller's id; -1 if none is known or it is not alive."""
        return self.controller_id if self.controller_id in self._brokers else -1

    def topics(self) -> list[str]:
        """Return topic names, sorted."""
        return sorted(self._topics)

    def __contains__(self, topic: object) -> bool:
        return topic in self._topics

    def partitions(self, topic: str) -> list[PartitionMetadata]:
        """Return a topic's partitions in order; empty if it is unknown."""
        known = self._topics.get(topic, {})
        return [known[partition] for partition in sorted(known)]

    def partition(self, topic_partition: TopicPartition) -> PartitionMetadata | None:
        """Return one partition, or None if it is unknown."""
        known = self._topics.get(topic_partition.topic)
        return None if known is None else known.get(topic_partition.partition)

    def topic_id(self, topic: str) -> KafkaUuid | None:
        """Return a topic's id, or None if it has none or is unknown."""
        return self._topic_ids.get(topic)

    def topic_of_id(self, topic_id: KafkaUuid) -> str | None:
        """Return the name of the topic with this id, or None if the id is unknown."""
        return self._names.get(topic_id)

    # ---- change ---------------------------------------------------------------------------------------------

    def apply(self, request: KafkaMessage) -> list[TopicPartition]:
        """Apply an UpdateMetadata request. Return the partitions that it deletes.

        A partition state that is older than the known state of the same topic is ignored. A request that timed out and
        was sent again can bring such a state, because it may arrive after all later requests. The live brokers in such
        a late request are also ignored. Kafka's brokers would apply such a request.
        """
        states = list(_partition_states(request))
        if not any(self._is_late(*each) for each in states):
            self.controller_id = int(request.controller_id) if request.controller_id >= 0 else -1
            self._brokers = {int(broker.id_): _live_broker(broker) for broker in request.live_brokers}
        deleted = []
        for topic, topic_id, state in states:
            if self._is_late(topic, topic_id, state):
                continue
            if state.leader == LEADER_DURING_DELETE:
                deleted.append(TopicPartition(topic, state.partition))
                self._remove(topic, topic_id, state.partition)
            else:
                self._set(topic, topic_id, state)
        self.changed()
        return deleted

    def _set(self, topic: str, topic_id: KafkaUuid | None, state: PartitionMetadata) -> None:
        known_id = self._topic_ids.get(topic)
        if topic_id is not None and known_id != topic_id:
            if known_id is not None:
                # The topic was deleted and created again, possibly with fewer partitions, so drop the old topic's
                # state.
                self._end(topic, known_id)
            self._topic_ids[topic] = topic_id
            self._names[topic_id] = topic
        self._topics.setdefault(topic, {})[state.partition] = state

    def _remove(self, topic: str, topic_id: KafkaUuid | None, partition: int) -> None:
        known, known_id = self._topics.get(topic, {}), self._topic_ids.get(topic, topic_id)
        known.pop(partition, None)
        if topic_id not in (None, known_id):
            # The id belongs to a newer topic of this name. The controller failed before it announced the deletion of
            # the known topic, so drop the known topic's state.
            self._end(topic, known_id)
            known, known_id = {}, topic_id
        if not known:
            self._end(topic, known_id)

    def _end(self, topic: str, topic_id: KafkaUuid | None) -> None:
        self._topics.pop(topic, None)
        self._topic_ids.pop(topic, None)
        if topic_id is not None:
            self._names.pop(topic_id, None)
            self._ended[topic_id] = None
            if len(self._ended) > ENDED_MAX:
                del self._ended[next(iter(self._ended))]

    def _is_late(self, topic: str, topic_id: KafkaUuid | None, state: PartitionMetadata) -> bool:
        """Return whether a partition state is outdated.

        It is outdated if it is older than the known one, or belongs to a deleted topic with the same name.
        """
        if topic_id is None:
            return False
        known_id = self._topic_ids.get(topic)
        if state.leader == LEADER_DURING_DELETE:
            # This broker has never received this topic id, so the deletion is later than the known state of the topic
            # of that name, and no other state of the deleted topic will follow.
            return known_id not in (None, topic_id) and topic_id in self._ended
        if known_id != topic_id:
            return topic_id in self._ended
        known = self._topics[topic].get(state.partition)
        return known is not None and state.partition_epoch < known.partition_epoch

    def changed(self) -> None:
        """Increment `generation` and wake all requests that wait for a change."""
        self.generation += 1
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_until(self, condition: Callable[[], bool], timeout_ms: int) -> bool:
        """Wait for metadata changes until `condition` returns True. Return False after `timeout_ms`."""
        deadline_ms = self._runtime.now().mono_ms + timeout_ms
        while not condition():
            left_ms = deadline_ms - self._runtime.now().mono_ms
            if left_ms <= 0:
                return False
            waiter: Future[None] = self._runtime.future()
            self._waiters[waiter] = None
            timer = self._runtime.call_later(left_ms, lambda waiter=waiter: self._give_up(waiter))  # type: ignore[misc]
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiters.pop(waiter, None)
        return True

    def _give_up(self, waiter: Future[None]) -> None:
        if not waiter.done():
            waiter.set_result(None)


_LISTENERS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
"""Listener names of endpoints that are identified only by a security protocol (UpdateMetadata 1 and 2)."""


def _live_broker(broker: KafkaMessage) -> LiveBroker:
    """Convert a broker in an UpdateMetadata request. In version 0, it has one endpoint without a protocol."""
    if hasattr(broker, "v0_host"):
        endpoints = {_LISTENERS[0]: (str(broker.v0_host), int(broker.v0_port))}
    else:
        endpoints = {_listener(at): (str(at.host), int(at.port)) for at in broker.endpoints}
    return LiveBroker(int(broker.id_), endpoints, getattr(broker, "rack", None))


def _listener(endpoint: KafkaMessage) -> str:
    if hasattr(endpoint, "listener"):
        return str(endpoint.listener)
    return _LISTENERS.get(int(endpoint.security_protocol), "")


def _partition_states(request: KafkaMessage) -> Iterator[tuple[str, KafkaUuid | None, PartitionMetadata]]:
    for state in getattr(request, "ungrouped_partition_states", ()):
        yield str(state.topic_name), None, _partition_metadata(state)
    for topic in getattr(request, "topic_states", ()):
        topic_id = getattr(topic, "topic_id", None)
        for state in topic.partition_states:
            yield str(topic.topic_name), topic_id, _partition_metadata(state)


def _partition_metadata(state: KafkaMessage) -> PartitionMetadata:
    return PartitionMetadata(
        partition=int(state.partition_index),
        leader=int(state.leader),
        leader_epoch=int(state.leader_epoch),
        isr=tuple(state.isr),
        replicas=tuple(state.replicas),
        offline_replicas=tuple(getattr(state, "offline_replicas", ())),
        partition_epoch=int(state.zk_version),
    )
