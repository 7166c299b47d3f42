"""Handlers of requests between brokers, and of ElectLeaders.

They call the replica manager, the metadata cache and the controller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.broker_sim.configs.entity_configs import EntityConfigs
from zabka.broker_sim.groups.coordinator import GroupCoordinator
from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.replication.replica_manager import ReplicaManager
from zabka.broker_sim.request_context import Handler, RequestContext, RequestRefused
from zabka.broker_sim.transactions.coordinator import TransactionCoordinator
from zabka.controller.controller import KafkaController
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, respond, version_of
from zabka.kafka.wire.kafka_schema import request as build_request

_ELECT_LEADERS_VERSION = 2
PREFERRED = 0

OnControllerRequest = Callable[[int, int], None]
"""Called with (controller id, controller epoch) after a controller's request was accepted."""


class ControlHandlers:
    """Handles requests of the controller and, if this broker is the controller, requests of other brokers."""

    def __init__(
        self,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        configs: EntityConfigs,
        controller: KafkaController,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        on_controller_request: OnControllerRequest,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._configs = configs
        self._controller = controller
        self._groups = groups
        self._transactions = transactions
        self._on_controller_request = on_controller_request
        self._last_accepted = (-1, 0)
        """The highest controller epoch of an accepted request, and the number of the connection on which that request
        arrived.
        """

    def table(self) -> Mapping[ApiKey, Handler]:
        """Return the handlers of this class, keyed by ApiKey."""
        return {
            ApiKey.LEADER_AND_ISR: self.leader_and_isr,
            ApiKey.UPDATE_METADATA: self.update_metadata,
            ApiKey.STOP_REPLICA: self.stop_replica,
            ApiKey.ALTER_PARTITION: self.alter_partition,
            ApiKey.CONTROLLED_SHUTDOWN: self.controlled_shutdown,
            ApiKey.ELECT_LEADERS: self.elect_leaders,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: self.alter_partition_reassignments,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: self.list_partition_reassignments,
            ApiKey.ALLOCATE_PRODUCER_IDS: self.allocate_producer_ids,
        }

    # ---- from the controller ----------------------------------------------------------------------------------

    async def leader_and_isr(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process LeaderAndIsr.

        First read the topics' overrides, then check the controller epoch. No other task runs between this check and the
        application of the request.
        """
        states = (*getattr(request, "topic_states", ()), *getattr(request, "ungrouped_partition_states", ()))
        await self._configs.read_ahead(list(dict.fromkeys(str(state.topic_name) for state in states)))
        self._check_connection(request, context)
        response = self._replicas.become_leader_or_follower(request)
        self._roles_changed()
        return self._accepted(request, context, await self._replicas.when_stored(request, response))

    async def stop_replica(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process a StopReplica request."""
        self._check_connection(request, context)
        response = self._replicas.stop_replica(request)
        self._roles_changed()
        return self._accepted(request, context, response)

    async def update_metadata(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process an UpdateMetadata request."""
        self._check_connection(request, context)
        error = self._replicas.accept_control_request("UpdateMetadata", request)
        if error == ErrorCode.none:
            deleted_partitions = self._metadata.apply(request)
            self._replicas.leave_strays(request)
            self._roles_changed()
            self._groups.partitions_deleted(deleted_partitions)
            for topic in dict.fromkeys(deleted.topic for deleted in deleted_partitions):
                if topic not in self._metadata:
                    self._configs.forget_topic(topic)
        return self._accepted(request, context, respond(request, error_code=error))

    def _roles_changed(self) -> None:
        self._groups.roles_changed()
        self._transactions.roles_changed()

    def _check_connection(self, request: KafkaMessage, context: RequestContext) -> None:
        """Reject a request that arrives on a connection that the controller has replaced. Raises RequestRefused.

        A controller has one connection to each broker at a time. After it has opened a new connection, it resends the
        requests that got no response. So a request that still arrives on the old connection is older than those on the
        new one, but it contains no field that shows its age.
        """
        epoch, connection = self._last_accepted
        if request.controller_epoch == epoch and 0 < context.connection < connection:
            raise RequestRefused("the controller has another connection by now")

    def _accepted(self, request: KafkaMessage, context: RequestContext, response: KafkaMessage) -> KafkaMessage:
        if response.error_code == ErrorCode.none:
            self._last_accepted = max(self._last_accepted, (int(request.controller_epoch), context.connection))
            self._on_controller_request(int(request.controller_id), int(request.controller_epoch))
        return response

    # ---- to the controller ------------------------------------------------------------------------------------

    async def alter_partition(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process an AlterPartition request."""
        return await self._controller.alter_partition(request)

    async def controlled_shutdown(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process a ControlledShutdown request."""
        return await self._controller.controlled_shutdown(request)

    async def allocate_producer_ids(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process an AllocateProducerIds request."""
        return await self._controller.allocate_producer_ids(request)

    async def alter_partition_reassignments(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process an AlterPartitionReassignments request."""
        return await self._controller.alter_partition_reassignments(request, context.client_id)

    async def list_partition_reassignments(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process a ListPartitionReassignments request."""
        return await self._controller.list_partition_reassignments(request)

    async def elect_leaders(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process ElectLeaders. Requests and responses of older versions are converted to and from version 2."""
        if version_of(request) == _ELECT_LEADERS_VERSION:
            return await self._controller.elect_leaders(request, context.client_id)
        asked = request.topic_partitions
        topics = None
        if asked is not None:
            topics = [{"topic": topic.topic, "partitions": topic.partitions} for topic in asked]
        newest = build_request(
            ApiKey.ELECT_LEADERS,
            _ELECT_LEADERS_VERSION,
            election_type=getattr(request, "election_type", PREFERRED),
            topic_partitions=topics,
            timeout=0,
        )
        answer = await self._controller.elect_leaders(newest, context.client_id)
        return respond(
            request,
            error_code=answer.error_code,
            replica_election_results=[
                {"topic": topic.topic, "partition_result": [_election_row(row) for row in topic.partition_result]}
                for topic in answer.replica_election_results
            ],
        )


def _election_row(row: KafkaMessage) -> dict[str, Any]:
    return {"partition_id": row.partition_id, "error_code": row.error_code, "error_message": row.error_message}
