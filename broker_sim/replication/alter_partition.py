"""Sends ISR changes to the controller (Kafka's AlterPartitionManager, KIP-497).

At most one proposal per partition and one request per broker is in flight. If a request got no response or failed as a
whole, it is sent again after 50 ms. This is safe, because the proposals are conditional on the leader epoch and the
partition epoch.
"""

from __future__ import annotations

from collections.abc import Callable

from zabka.broker_sim.ports import ControllerGate
from zabka.broker_sim.replication.partition_host import IsrAnswer, IsrProposal
from zabka.ensemble.ports import Runtime, Task, Timer
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import ChannelBroken, KafkaMessage
from zabka.kafka.topic_ids import topic_id_from_kafka, topic_id_to_kafka
from zabka.kafka.wire.kafka_schema import ApiKey, request

RETRY_BACKOFF_MS = 50
VERSION = 3
VERSION_BY_NAME = 1
"""The last request version that identifies topics by name. It is used if a topic has no id."""


class AlterPartitionManager:
    """Collects ISR proposals and sends them to the active controller."""

    def __init__(
        self,
        broker_id: int,
        controller: ControllerGate,
        runtime: Runtime,
        broker_epoch: Callable[[], int],
        timeout_ms: int,
    ) -> None:
        self._broker_id = broker_id
        self._controller = controller
        self._runtime = runtime
        self._broker_epoch = broker_epoch
        self._timeout_ms = timeout_ms
        self._unsent: dict[TopicPartition, IsrProposal] = {}
        self._task: Task | None = None
        self._timer: Timer | None = None
        self._closed = False

    def submit(self, proposal: IsrProposal) -> bool:
        """Queue the proposal for the next request. Return False if this partition already has a proposal in flight."""
        if self._closed or proposal.topic_partition in self._unsent:
            return False
        self._unsent[proposal.topic_partition] = proposal
        self._send()
        return True

    def close(self) -> None:
        """Stop sending proposals."""
        self._closed = True
        self._unsent.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _send(self) -> None:
        if self._task is None and self._timer is None and self._unsent and not self._closed:
            self._task = self._runtime.spawn(self._run(), "alter-partition")

    def _send_later(self) -> None:
        if not self._closed:
            self._timer = self._runtime.call_later(RETRY_BACKOFF_MS, self._retry)

    def _retry(self) -> None:
        self._timer = None
        self._send()

    async def _run(self) -> None:
        proposals = list(self._unsent.values())
        settled = False
        try:
            response = await self._controller.call(self._request(proposals), self._timeout_ms)
            settled = self._take(response, proposals)
        except ChannelBroken:
            pass
        self._task = None
        if settled:
            self._send()
        else:
            self._send_later()

    def _request(self, proposals: list[IsrProposal]) -> KafkaMessage:
        epoch = self._broker_epoch()
        by_id = all(proposal.topic_id is not None for proposal in proposals)
        topics: dict[tuple[str, str | None], list[dict[str, object]]] = {}
        for proposal in proposals:
            topics.setdefault((proposal.topic_partition.topic, proposal.topic_id), []).append(
                {
                    "partition_index": proposal.topic_partition.partition,
                    "leader_epoch": proposal.leader_epoch,
                    "new_isr": proposal.isr,
                    "new_isr_with_epochs": [
                        {
                            "broker_id": broker,
                            "broker_epoch": epoch if broker == self._broker_id else seen,
                        }
                        for broker, seen in zip(proposal.isr, proposal.member_epochs, strict=True)
                    ],
                    "leader_recovery_state": proposal.recovery_state,
                    "partition_epoch": proposal.partition_epoch,
                }
            )
        rows = [
            {"topic_name": name, "topic_id": topic_id_to_kafka(topic_id), "partitions": parts}
            for (name, topic_id), parts in topics.items()
        ]
        version = VERSION if by_id else VERSION_BY_NAME
        return request(ApiKey.ALTER_PARTITION, version, broker_id=self._broker_id, broker_epoch=epoch, topics=rows)

    def _take(self, response: KafkaMessage, proposals: list[IsrProposal]) -> bool:
        """Pass the results in a response to the partitions.

        Return False if a proposal must be sent again, after a pause.
        """
        if response.error_code:
            return False
        names = {proposal.topic_id: proposal.topic_partition.topic for proposal in proposals}
        answers: dict[TopicPartition, IsrAnswer] = {}
        for topic in response.topics:
            by_name = getattr(topic, "topic_name", None)
            name = str(by_name) if by_name is not None else names.get(topic_id_from_kafka(topic.topic_id), "")
            for row in topic.partitions:
                answers[TopicPartition(name, row.partition_index)] = IsrAnswer(
                    int(row.error_code), row.leader_epoch, tuple(int(b) for b in row.isr), row.partition_epoch
                )
        settled = True
        for proposal in proposals:
            answer = answers.get(proposal.topic_partition)
            if answer is None or self._unsent.get(proposal.topic_partition) is not proposal:
                settled = False
                continue
            del self._unsent[proposal.topic_partition]
            proposal.answered(answer)
            settled = settled and (not answer.error or proposal.topic_partition not in self._unsent)
        return settled
