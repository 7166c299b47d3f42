"""Removes state of a cluster that earlier tests left and that is not deleted with their topics.

This state consists of znodes of clients, dynamic configurations of brokers, quotas of clients, and consumer groups.
`LiveCluster` resets nodes, faults, workloads and topics through the HTTP API. This module uses clients of the ensemble
and of the brokers, because the API cannot change state that it does not show.

A broker applies a configuration change shortly after the znode changes, and it applies changes in order. So the reset
makes one last change, to the entity MARKER, which no client uses, and waits until the journals of all brokers contain
it.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from zabka.ensemble.client.aio import connect
from zabka.ensemble.client.client import Client
from zabka.ensemble.errors import NoAuth, NodeExists, NoNode, NotEmpty, ZooKeeperError
from zabka.ensemble.ports import Runtime
from zabka.journal.reader import node_files
from zabka.kafka.acls import AclFilter, EntryFilter, PatternFilter, PatternType, ResourceType
from zabka.kafka.client.acl_admin import delete_acls, describe_acls
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client import ATTEMPT_MS_MAX
from zabka.kafka.client.client_errors import KafkaRequestFailed
from zabka.kafka.client.group_admin import GroupAdmin
from zabka.kafka.ports import ChannelBroken
from zabka.kafka.topic_names import INTERNAL_TOPICS
from zabka.kafka.wire.kafka_schema import ApiKey, request
from zabka.kafka.zk import znodes
from zabka.testing.cluster import ClusterFailed

MARKER = "clients/zabka-test-reset"
RESET_TIMEOUT_S = 30.0
_POLL_S = 0.01
_CHANGE_PREFIX = "config_change_"
_ENTITY_KINDS = ("brokers", "clients", "users", "ips")
_ENSEMBLE = "zookeeper"
_QUOTAS = "/zookeeper/quota"
_KAFKA = frozenset(
    {
        *(path.split("/")[1] for path in znodes.PERSISTENT_PATHS),
        *("cluster", "controller", "controller_epoch", "delegation_token", "feature", "migration"),
        *("kafka-acl", "kafka-acl-changes", "kafka-acl-extended", "kafka-acl-extended-changes"),
    }
)
"""Names of top-level znodes that Kafka brokers create (kafka.zk.ZkData).

All other top-level znodes except /zookeeper were created by clients.
"""


Configs = dict[str, dict[str, str]]
"""The configuration of each entity, keyed by a path such as topics/__consumer_offsets."""


async def reset_znodes(
    connect_string: str,
    journals: Sequence[Path],
    internal: Configs,
    users: Configs,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Delete the znodes of clients and reset dynamic configurations, and wait until all brokers have applied this.

    `journals` are the brokers' journal directories; if it is empty, all znodes outside /zookeeper count as clients'
    znodes. `internal` stores the configurations of internal topics that the first reset found.
    `users` have the configurations of the users that the cluster keeps, and `tls` is the TLS context of the ensemble's
    client ports. Raises ClusterFailed.
    """
    try:
        async with (
            asyncio.timeout(RESET_TIMEOUT_S),
            connect(connect_string, name="zabka-test-reset", ssl_context=tls) as client,
        ):
            kept = _KAFKA if journals else frozenset[str]()
            for name in await client.get_children("/"):
                if name != _ENSEMBLE and name not in kept:
                    await _delete(client, f"/{name}")
            for parent in (_QUOTAS, *(("/consumers",) if journals else ())):
                for name in await _children(client, parent):
                    await _delete(client, f"{parent}/{name}")
            if journals:
                await _reset_configs(client, journals, internal, users)
    except (ZooKeeperError, TimeoutError) as reason:
        raise ClusterFailed(f"the znodes cannot be reset: {type(reason).__name__} {reason}") from None


async def _children(client: Client, path: str) -> list[str]:
    try:
        found: list[str] = await client.get_children(path)
    except NoNode:
        return []
    return found


async def _delete(client: Client, path: str) -> None:
    """Delete a znode and its descendants, even if a running client creates more of them at the same time."""
    while True:
        for child in await _children(client, path):
            await _delete(client, f"{path}/{child}")
        try:
            await client.delete(path)
        except NotEmpty:
            continue
        except NoNode:
            pass
        except NoAuth:
            raise ClusterFailed(
                f"{path} cannot be deleted before the next test, because its parent's ACL does not allow that: give "
                "a test that sets ACLs a cluster of its own with @pytest.mark.zabka(...)"
            ) from None
        return


async def write_users(connect_string: str, journals: Sequence[Path], users: Configs) -> None:
    """Write the configurations of these users, and wait until each broker has read them. Raises ClusterFailed."""
    try:
        async with asyncio.timeout(RESET_TIMEOUT_S), connect(connect_string, name="zabka-test-users") as client:
            await _write_configs(client, journals, users)
    except (ZooKeeperError, TimeoutError) as reason:
        raise ClusterFailed(f"the users cannot be written: {type(reason).__name__} {reason}") from None


async def _reset_configs(client: Client, journals: Sequence[Path], internal: Configs, users: Configs) -> None:
    wanted: Configs = {**{entity: {} for entity in await _entities(client)}, **users}
    for topic in INTERNAL_TOPICS.intersection(await _children(client, "/config/topics")):
        entity = f"topics/{topic}"
        if entity not in internal:
            internal[entity] = await _config(client, entity)
        wanted[entity] = internal[entity]
    await _write_configs(client, journals, wanted)


async def _write_configs(client: Client, journals: Sequence[Path], wanted: Configs) -> None:
    """Write configurations, and wait until each broker has read those that have changed."""
    changed = [entity for entity, config in wanted.items() if await _config(client, entity) != config]
    if not changed:
        return
    for entity in changed:
        await _set_config(client, entity, wanted[entity])
    marker, value = f"/config/{MARKER}", str(time.monotonic_ns())
    with suppress(NodeExists):
        await client.create(marker)
    await _set_config(client, MARKER, {"consumer_byte_rate": value})
    while not all(_is_journalled(value, directory) for directory in journals):  # noqa: ASYNC110 (files, not events)
        await asyncio.sleep(_POLL_S)
    await client.delete(marker)


async def _entities(client: Client) -> list[str]:
    """Return all entities that have a configuration, except topics, whose configuration is deleted with them."""
    found = [f"{kind}/{name}" for kind in _ENTITY_KINDS for name in await _children(client, f"/config/{kind}")]
    users = [entity for entity in found if entity.startswith("users/")]
    for user in users:
        found += [f"{user}/clients/{name}" for name in await _children(client, f"/config/{user}/clients")]
    return found


async def _config(client: Client, entity: str) -> dict[str, str]:
    try:
        data, _ = await client.get(f"/config/{entity}")
    except NoNode:
        return {}
    return znodes.decode_config(data) or {}


async def _set_config(client: Client, entity: str, config: dict[str, str]) -> None:
    try:
        await client.set(f"/config/{entity}", znodes.encode_config(config))
    except NoNode:
        await client.create(f"/config/{entity}", znodes.encode_config(config))
    notice = znodes.encode_config_change(entity)
    await client.create(f"{znodes.CONFIG_CHANGES}/{_CHANGE_PREFIX}", notice, sequential=True)


def _is_journalled(text: str, journal: Path) -> bool:
    """Return whether one of the two newest files of a journal contains a text.

    Two files are read, because the newest may be almost empty.
    """
    return any(text.encode() in path.read_bytes() for path in node_files(journal)[-2:])


async def remove_acls(client: AdminClient, runtime: Runtime) -> None:
    """Delete all ACLs, and wait until no broker has any. Without an authorizer, there are none.

    Raises KafkaRequestFailed, KafkaUnavailable, ChannelBroken.
    """
    every = AclFilter(PatternFilter(ResourceType.ANY, None, PatternType.ANY), EntryFilter())
    try:
        await delete_acls(client, [every])
    except KafkaRequestFailed as failed:
        if failed.error.name == "security_disabled":
            return
        raise
    for broker in (await client.metadata([])).brokers.values():
        while await describe_acls(client, every, broker):
            await runtime.sleep(int(_POLL_S * 1000))


async def remove_groups(client: AdminClient, runtime: Runtime) -> None:
    """Remove all members of all groups, and delete the groups. Raises KafkaRequestFailed, KafkaUnavailable.

    If a member's client is still running, the member joins again, and its group is not deleted.
    """
    groups = GroupAdmin(client, runtime)
    for listing in await groups.listed():
        group = await groups.described(listing.group_id)
        if group.members:
            members = [{"member_id": member.member_id} for member in group.members]
            leave = request(ApiKey.LEAVE_GROUP, 4, group_id=group.group_id, members=members)
            with suppress(ChannelBroken):
                await client.call(group.coordinator, leave, ATTEMPT_MS_MAX)
        await groups.delete(listing.group_id)
