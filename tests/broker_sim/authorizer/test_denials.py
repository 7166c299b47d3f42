"""Events about denied requests are limited."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker_sim.authorizer.secured_cluster import secured_cluster, send
from tests.broker_sim.broker_world import Cluster
from zabka.broker_sim.event_limit import EVENTS_PER_SECOND_MAX, REPEATED_AFTER_MS
from zabka.journal.events import AuthorizationDenied
from zabka.kafka.wire.kafka_schema import ApiKey


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = secured_cluster()
    made.wait(1_000)
    yield made
    made.stop_all()


def events(cluster: Cluster) -> list[AuthorizationDenied]:
    return cluster.nodes[1].of(AuthorizationDenied)


def describe(cluster: Cluster, group: str, host: str = "10.0.0.1") -> None:
    send(cluster, "eve", ApiKey.DESCRIBE_GROUPS, groups=[group], host=host)


def test_denied_request_is_one_event_with_its_details(cluster: Cluster) -> None:
    describe(cluster, "g")
    assert events(cluster) == [
        AuthorizationDenied(1, "DESCRIBE_GROUPS", "User:eve", "10.0.0.1", "Describe", "Group", "g", "client", 0)
    ]


def test_equal_denials_are_counted_until_the_next_event(cluster: Cluster) -> None:
    for _ in range(5):
        describe(cluster, "g")
    describe(cluster, "h")
    assert [(event.resource_name, event.suppressed) for event in events(cluster)] == [("g", 0), ("h", 4)]
    cluster.wait(REPEATED_AFTER_MS)
    describe(cluster, "g")
    assert [event.resource_name for event in events(cluster)] == ["g", "h", "g"]


def test_different_denials_are_limited_per_second(cluster: Cluster) -> None:
    for number in range(1_000):
        describe(cluster, f"g{number}")
    first = len(events(cluster))
    assert first <= EVENTS_PER_SECOND_MAX * 3
    cluster.wait(1_000)
    describe(cluster, "last")
    assert sum(event.suppressed for event in events(cluster)) + len(events(cluster)) == 1_001


def test_long_names_are_cut_in_the_event(cluster: Cluster) -> None:
    describe(cluster, "g" * 30_000)
    assert [event.resource_name for event in events(cluster)] == ["g" * 260]


def test_filtered_topics_and_super_users_cause_no_event(cluster: Cluster) -> None:
    send(cluster, "eve", ApiKey.METADATA, topics=None)
    send(cluster, "eve", ApiKey.LIST_GROUPS)
    send(cluster, "admin", ApiKey.DESCRIBE_GROUPS, groups=["g"])
    assert events(cluster) == []


def test_ipv6_address_has_javas_format(cluster: Cluster) -> None:
    describe(cluster, "g", host="::1")
    describe(cluster, "g", host="fe80::a%eth0")
    assert [event.host for event in events(cluster)] == ["0:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:a%eth0"]
