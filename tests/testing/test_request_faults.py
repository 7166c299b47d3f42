"""Request faults in tests with fixtures: how a test specifies them, and what they do in simulated and live clusters."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from zabka.ensemble.request_fault import RequestFault
from zabka.testing import LiveCluster, SimulatedCluster, running_world
from zabka.testing.request_faults import HowOften, RequestSelection

Choose = Callable[[RequestSelection[RequestFault]], HowOften[RequestFault]]


def on_request(name: str, **match: Any) -> RequestSelection[RequestFault]:
    return RequestSelection(lambda rule: rule, name, match)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("choose", "expected"),
    [
        (lambda s: s.error("NOT_LEADER_OR_FOLLOWER"), {"effect": "error", "error": "NOT_LEADER_OR_FOLLOWER"}),
        (lambda s: s.delay_before(5), {"effect": "delay_before", "delay_ms": 5}),
        (lambda s: s.delay_after(5), {"effect": "delay_after", "delay_ms": 5}),
        (lambda s: s.drop_response(keep_open=True), {"effect": "drop_response", "keep_open": True}),
        (lambda s: s.drop_request(), {"effect": "drop_request"}),
        (lambda s: s.close(), {"effect": "close"}),
        (lambda s: s.hang(), {"effect": "hang"}),
        (lambda s: s.throttle(9), {"effect": "throttle", "throttle_ms": 9}),
        (lambda s: s.corrupt(), {"effect": "corrupt"}),
        (lambda s: s.truncate(), {"effect": "truncate"}),
    ],
)
def test_builder_method_selects_the_fault_effect(choose: Choose, expected: dict[str, Any]) -> None:
    made = choose(on_request("Produce", topic="orders")).once()
    assert made == RequestFault(**{"kind": "request", "api": "Produce", "topic": "orders", "times": 1, **expected})


@pytest.mark.parametrize(
    ("choose", "expected"),
    [
        (lambda o: o.times(3), {"times": 3}),
        (lambda o: o.nth(2), {"nth": 2}),
        (lambda o: o.every(2, times=4), {"every": 2, "times": 4}),
        (lambda o: o.with_probability(0.5), {"probability": 0.5}),
        (lambda o: o.for_ms(100), {"for_ms": 100}),
        (lambda o: o.until_removed(), {}),
    ],
)
def test_last_builder_method_sets_how_often_the_fault_applies(
    choose: Callable[[HowOften[RequestFault]], RequestFault], expected: dict[str, Any]
) -> None:
    assert choose(on_request("Fetch").close()) == RequestFault(
        **{"kind": "request", "api": "Fetch", "effect": "close", **expected}
    )


def test_zookeeper_operation_is_recognized_by_its_name() -> None:
    assert on_request("create", path="/app/*").close().once().opcode == "create"
    assert on_request("*", path="/app/*").close().once().opcode == "*"
    assert on_request("*", node="broker-1").close().once().api == "*"


def test_impossible_fault_is_rejected_when_it_is_created() -> None:
    with pytest.raises(ValueError, match="Produce cannot return NOT_COORDINATOR"):
        on_request("Produce").error("NOT_COORDINATOR").once()


def test_fault_that_was_never_added_causes_a_warning() -> None:
    unfinished = on_request("Produce").close()
    with pytest.warns(RuntimeWarning, match="the fault close on Produce was never added"):
        del unfinished
        gc.collect()


# ---- in a simulated world -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world() -> Any:
    with running_world(seed=3, peers=1, brokers=1) as cluster:
        cluster.topics.create("orders", partitions=1, replication_factor=1)
        yield cluster


def test_simulated_producer_receives_the_injected_error(world: SimulatedCluster) -> None:
    fault = world.faults.on_request("Produce", topic="orders").error("NOT_ENOUGH_REPLICAS").once()
    world.produce("orders", "a")
    world.until(lambda: fault.used == 1, 10)
    applied = world.events("request_fault_applied")[-1]
    assert (applied["request"], applied["subject"], applied["effect"]) == ("Produce", "orders-0", "error")
    fault.heal()


def test_simulated_request_fault_survives_a_node_restart(world: SimulatedCluster) -> None:
    fault = world.faults.on_request("Produce", topic="orders").delay_before(10).until_removed()
    world.brokers[1].kill()
    world.brokers[1].start()
    world.until_ready()
    world.produce("orders", "b")
    assert fault.used >= 1
    fault.heal()
    assert world.events("fault_removed")


def test_simulated_peers_share_the_injection_count_of_a_fault() -> None:
    with running_world(seed=4, peers=3, brokers=1) as cluster:
        fault = cluster.faults.on_request("multi", path="/brokers/topics/orders*").close().times(2)
        cluster.topics.create("orders", partitions=1, replication_factor=1)
        assert fault.used == 2


def test_predefined_fault_set_is_added_and_healed_in_simulation(world: SimulatedCluster) -> None:
    faults = world.faults.add_set("ack-lost", topic="orders")
    world.produce("orders", "c")
    assert faults.used == 1
    world.faults.heal()


# ---- with a live cluster ------------------------------------------------------------------------------------------


def test_live_producer_stores_a_record_twice_if_an_ack_is_lost(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("orders", partitions=1, replication_factor=1)
    fault = zabka_cluster.faults.on_request("Produce", topic="orders").drop_response().once()
    producer = Producer({"bootstrap.servers": zabka_cluster.bootstrap, "enable.idempotence": False})
    producer.produce("orders", b"a")
    assert producer.flush(30) == 0
    assert zabka_cluster.consume("orders") == ["a", "a"]
    assert fault.used == 1
    (applied,) = zabka_cluster.events("request_fault_applied")
    assert (applied["client"], applied["caused_by"]) == ("rdkafka", f"fault {fault.ids[0]}")


def test_live_faults_of_a_test_are_removed_before_the_next_test(zabka_cluster: LiveCluster) -> None:
    assert zabka_cluster.get("/api/v1/faults") == []


def test_live_fault_selects_a_zookeeper_client_by_its_principal(zabka_cluster: LiveCluster) -> None:
    bob, other = (KazooClient(zabka_cluster.zookeeper_connect) for _ in range(2))
    for client in (bob, other):
        client.start()
    bob.add_auth("digest", "bob:secret")
    zabka_cluster.faults.on_request("create", principal="digest:bob").error("QUOTA_EXCEEDED").until_removed()
    other.create("/other")
    with pytest.raises(KazooException):
        bob.create("/bob")
    for client in (bob, other):
        client.stop()
        client.close()
