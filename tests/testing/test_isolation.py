"""A live cluster that two tests use: the first test affects neither the second test nor its report."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import pytest

from zabka.ensemble.client.aio import connect
from zabka.ensemble.ports import Runtime
from zabka.journal.events import TopicPartition
from zabka.kafka.acls import (
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    EntryFilter,
    PatternFilter,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from zabka.kafka.client.acl_admin import create_acls, describe_acls
from zabka.kafka.client.admin_client import BROKER_RESOURCE, AdminClient
from zabka.kafka.client.group_admin import GroupAdmin
from zabka.testing import LiveCluster
from zabka.testing.journal_report import report

DYNAMIC = (2, 3)
"""Config sources in DescribeConfigs: the broker's own dynamic value, and the dynamic default of all brokers."""


def overrides(cluster: LiveCluster) -> dict[str, dict[str, str | None]]:
    """Return the dynamic config values of each broker, as the broker itself reports them."""

    async def ask(client: AdminClient, _: Runtime) -> dict[str, dict[str, str | None]]:
        return {
            str(broker): {
                entry.name: entry.value
                for entry in await client.describe_configs(BROKER_RESOURCE, str(broker))
                if entry.source in DYNAMIC
            }
            for broker in cluster.brokers
        }

    return cluster.call(ask)


def set_broker_config(cluster: LiveCluster, broker: str, values: Mapping[str, str]) -> None:
    cluster.call(lambda client, _: client.alter_configs(BROKER_RESOURCE, broker, values))


def test_dynamic_broker_configs_are_reset_between_tests(zabka_cluster: LiveCluster) -> None:
    set_broker_config(zabka_cluster, "", {"message.max.bytes": "1000"})
    set_broker_config(zabka_cluster, "2", {"log.cleaner.threads": "2"})
    zabka_cluster.start_test()
    assert overrides(zabka_cluster) == {"1": {}, "2": {}, "3": {}}
    zabka_cluster.topics.create("orders")
    zabka_cluster.produce("orders", ["a" * 2_000])


def test_quotas_of_users_and_clients_are_reset_between_tests(zabka_cluster: LiveCluster) -> None:
    rate = {"producer_byte_rate": 1000.0}
    zabka_cluster.quotas.set(rate, client_id="shop")
    zabka_cluster.quotas.set(rate, user="ada")
    zabka_cluster.quotas.set(rate, user="ada", client_id="shop")
    assert len(zabka_cluster.quotas.all()) == 3
    zabka_cluster.start_test()
    assert zabka_cluster.quotas.all() == []


def test_znodes_created_by_a_test_are_deleted_after_the_test(zabka_cluster: LiveCluster) -> None:
    async def write_and_read(write: bool) -> tuple[list[str], list[str]]:
        async with connect(zabka_cluster.zookeeper_connect) as client:
            if write:
                for path in ("/shop", "/shop/leader", "/shop/leader/a", "/consumers/old", "/consumers/old/ids"):
                    await client.create(path)
            return sorted(await client.get_children("/")), await client.get_children("/consumers")

    root, _ = asyncio.run(write_and_read(True))
    zabka_cluster.start_test()
    assert asyncio.run(write_and_read(False)) == ([name for name in root if name != "shop"], [])
    assert zabka_cluster.controller is not None


def test_groups_of_earlier_tests_are_deleted(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("orders")
    offsets = {TopicPartition("orders", 0): 0}

    zabka_cluster.call(lambda client, runtime: GroupAdmin(client, runtime).commit("billing", offsets))
    zabka_cluster.start_test()
    assert zabka_cluster.call(lambda client, runtime: GroupAdmin(client, runtime).listed()) == []


def test_configs_of_internal_topics_are_reset_between_tests(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("orders")
    zabka_cluster.call(
        lambda client, runtime: GroupAdmin(client, runtime).commit("billing", {TopicPartition("orders", 0): 0})
    )
    zabka_cluster.start_test()
    offsets = zabka_cluster.topics["__consumer_offsets"]
    before = offsets.config
    assert before["cleanup.policy"] == "compact"
    offsets.set_config({"segment.bytes": "2000000", "max.message.bytes": "2000"})
    zabka_cluster.until(lambda: offsets.config["max.message.bytes"] == "2000")
    zabka_cluster.start_test()
    zabka_cluster.until(lambda: offsets.config == before)


def test_failure_report_covers_only_its_test_and_its_topics(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("orders")
    zabka_cluster.topics["orders"].delete()
    zabka_cluster.topics.create("payments")
    consumer = zabka_cluster.consumer("payments", "billing")
    zabka_cluster.until(lambda: consumer.counts.partitions)
    text = report(zabka_cluster.journal(), zabka_cluster.began_us)
    assert "orders" in text
    consumer.stop()
    zabka_cluster.start_test()
    zabka_cluster.topics.create("refunds")
    zabka_cluster.until(lambda: zabka_cluster.events("leader_elected"))
    text = report(zabka_cluster.journal(), zabka_cluster.began_us)
    assert "refunds" in text and "causes of the newest leader_elected:" in text
    # Brokers report positions late: the group's last commit can be reported during the next test.
    lines = "\n".join(line for line in text.splitlines() if "high watermark" not in line)
    assert not {"orders", "payments", "__consumer_offsets"} & set(lines.replace("-", " ").split())


def test_cluster_calls_log_nothing(zabka_cluster: LiveCluster, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        zabka_cluster.topics.create("orders")
        zabka_cluster.until(lambda: zabka_cluster.controller)
    assert [record.name for record in caplog.records if record.name != "asyncio"] == []


@pytest.mark.zabka(peers=1, brokers=1, settings={"num.partitions": "2"})
def test_initial_rebalance_delay_of_the_fixture_is_zero(zabka_cluster: LiveCluster) -> None:
    assert zabka_cluster.settings()["group.initial.rebalance.delay.ms"] == "0"


@pytest.mark.zabka(
    peers=1,
    brokers=2,
    settings={
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    },
)
def test_acls_of_a_test_are_removed_before_the_next_test(zabka_cluster: LiveCluster) -> None:
    binding = AclBinding(
        ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL),
        AclEntry("User:alice", "*", AclOperation.READ, Permission.DENY),
    )
    every = AclFilter(PatternFilter(ResourceType.ANY, None, PatternType.ANY), EntryFilter())
    zabka_cluster.call(lambda client, _: create_acls(client, [binding]))
    assert zabka_cluster.call(lambda client, _: describe_acls(client, every)) == [binding]
    zabka_cluster.start_test()
    assert zabka_cluster.call(lambda client, _: describe_acls(client, every)) == []
