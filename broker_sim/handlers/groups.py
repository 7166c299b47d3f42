"""Handlers of JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ListGroups, DescribeGroups and DeleteGroups.

They convert the requests to calls of the group coordinator, and its results to responses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from zabka.broker_sim.groups.coordinator import GroupCoordinator
from zabka.broker_sim.groups.metadata import Member
from zabka.broker_sim.groups.requests import Joining, Leaving, Syncing
from zabka.broker_sim.handlers.authorized_operations import GROUP_OPERATIONS
from zabka.broker_sim.request_context import Handler, RequestContext
from zabka.kafka.ports import KafkaMessage
from zabka.kafka.wire.kafka_schema import ApiKey, milliseconds, respond, version_of

_MEMBER_ID_REQUIRED_FROM = 4
_SKIPS_ASSIGNMENT_FROM = 9
_NULL_PROTOCOL_FROM = 7
_PROTOCOL_GIVEN_FROM = 5
_LEAVES_IN_BATCHES_FROM = 3
CLASSIC = "classic"


class GroupHandlers:
    """Handles requests of group members and administrators."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def table(self) -> Mapping[ApiKey, Handler]:
        """Return the handlers of this class, keyed by ApiKey."""
        return {
            ApiKey.JOIN_GROUP: self.join_group,
            ApiKey.SYNC_GROUP: self.sync_group,
            ApiKey.HEARTBEAT: self.heartbeat,
            ApiKey.LEAVE_GROUP: self.leave_group,
            ApiKey.LIST_GROUPS: self.list_groups,
            ApiKey.DESCRIBE_GROUPS: self.describe_groups,
            ApiKey.DELETE_GROUPS: self.delete_groups,
        }

    # ---- members ----------------------------------------------------------------------------------------------

    async def join_group(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process JoinGroup. Requests of version 0 have no rebalance timeout, so the session timeout is used
        instead.
        """
        version = version_of(request)
        instance_id = getattr(request, "group_instance_id", None)
        session_ms = milliseconds(request.session_timeout)
        rebalance_ms = milliseconds(request.rebalance_timeout) if version >= 1 else session_ms
        result = await self._groups.join(
            Joining(
                group_id=request.group_id,
                member_id=request.member_id,
                group_instance_id=instance_id,
                client_id=context.client_id,
                client_host=context.client_host,
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=rebalance_ms,
                protocol_type=request.protocol_type,
                protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
                requires_known_member_id=version >= _MEMBER_ID_REQUIRED_FROM and instance_id is None,
                can_skip_assignment=version >= _SKIPS_ASSIGNMENT_FROM,
            )
        )
        name = result.protocol_name
        return respond(
            request,
            error_code=result.error,
            generation_id=result.generation_id,
            protocol_type=result.protocol_type,
            protocol_name="" if name is None and version < _NULL_PROTOCOL_FROM else name,
            leader=result.leader_id,
            skip_assignment=result.skip_assignment,
            member_id=result.member_id,
            members=[member._asdict() for member in result.members],
        )

    async def sync_group(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process SyncGroup. Since version 5, the request must contain the member's protocol."""
        protocol_type = getattr(request, "protocol_type", None)
        protocol_name = getattr(request, "protocol_name", None)
        if version_of(request) >= _PROTOCOL_GIVEN_FROM and (protocol_type is None or protocol_name is None):
            return respond(request, error_code=ErrorCode.inconsistent_group_protocol)
        result = await self._groups.sync(
            Syncing(
                group_id=request.group_id,
                generation_id=int(request.generation_id),
                member_id=request.member_id,
                group_instance_id=getattr(request, "group_instance_id", None),
                protocol_type=protocol_type,
                protocol_name=protocol_name,
                assignments={row.member_id: bytes(row.assignment) for row in request.assignments},
            )
        )
        return respond(
            request,
            error_code=result.error,
            protocol_type=result.protocol_type,
            protocol_name=result.protocol_name,
            assignment=result.assignment,
        )

    async def heartbeat(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process a Heartbeat request."""
        instance_id = getattr(request, "group_instance_id", None)
        error = self._groups.heartbeat(request.group_id, request.member_id, instance_id, int(request.generation_id))
        return respond(request, error_code=error)

    async def leave_group(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process LeaveGroup. Up to version 2, a request is about one member, and its error is the error of the
        response.
        """
        in_batches = version_of(request) >= _LEAVES_IN_BATCHES_FROM
        if in_batches:
            leaving = [Leaving(member.member_id, member.group_instance_id) for member in request.members]
        else:
            leaving = [Leaving(request.member_id, None)]
        error, errors = self._groups.leave(request.group_id, leaving)
        if not in_batches and errors:
            error = errors[0]
        rows = [
            {"member_id": member_id, "group_instance_id": instance_id, "error_code": member_error}
            for (member_id, instance_id), member_error in zip(leaving, errors, strict=False)
        ]
        return respond(request, error_code=error, members=rows)

    # ---- administration ---------------------------------------------------------------------------------------

    async def list_groups(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process ListGroups, with its filters by state (case-insensitive) and by type."""
        states = [state.lower() for state in getattr(request, "states_filter", None) or ()]
        types = [kind.lower() for kind in getattr(request, "types_filter", None) or ()]
        error, groups = self._groups.groups()
        rows = [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type or "",
                "group_state": str(group.state),
                "group_type": CLASSIC,
            }
            for group in groups
            if (not states or group.state.lower() in states) and (not types or CLASSIC in types)
        ]
        return respond(request, error_code=error, groups=rows)

    async def describe_groups(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process DescribeGroups. The response contains metadata and assignments only for stable groups."""
        operations = getattr(request, "include_authorized_operations", False)
        return respond(request, groups=[self._described(group_id, operations) for group_id in request.groups])

    def _described(self, group_id: str, with_operations: bool) -> dict[str, Any]:
        summary = self._groups.describe(group_id)
        row: dict[str, Any] = {
            "error_code": summary.error,
            "group_id": group_id,
            "group_state": str(summary.state),
            "protocol_type": summary.protocol_type,
            "protocol_data": summary.protocol_name,
            "members": [_member_row(member, summary.protocol_name) for member in summary.members],
        }
        if with_operations and summary.error is ErrorCode.none:
            row["authorized_operations"] = GROUP_OPERATIONS
        return row

    async def delete_groups(self, request: KafkaMessage, context: RequestContext) -> KafkaMessage:
        """Process a DeleteGroups request."""
        errors = self._groups.delete_groups(dict.fromkeys(request.groups_names))
        return respond(
            request, results=[{"group_id": group_id, "error_code": error} for group_id, error in errors.items()]
        )


def _member_row(member: Member, protocol_name: str) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": member.metadata(protocol_name) if protocol_name else b"",
        "member_assignment": member.assignment if protocol_name else b"",
    }
