"""Requests to join, sync and leave a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zabka.broker_sim.groups.metadata import Protocols


class Joining(NamedTuple):
    """A JoinGroup request.

    `member_id` is empty at first. Since version 4, clients then receive an id and send the request again. Since version
    9, clients support `skip_assignment`.
    """

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    requires_known_member_id: bool
    can_skip_assignment: bool


class Syncing(NamedTuple):
    """A SyncGroup request. The leader's request contains all assignments, keyed by member id."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


class Leaving(NamedTuple):
    """One member in a LeaveGroup request. An administrator can identify a static member by group.instance.id alone."""

    member_id: str
    group_instance_id: str | None
