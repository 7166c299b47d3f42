"""The recipes of the guide, one test each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from kazoo.client import KazooClient
from orders import Billing, Leader, Shop

from zabka.testing import LiveCluster, LiveEnsemble


def order(number: int) -> str:
    return json.dumps({"id": number, "euros": 10 * number})


def test_clean_leader_change_loses_nothing(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("orders", assignment={0: [1, 2]})
    shop = Shop(zabka_cluster.client_config("confluent"))
    shop.place("1")
    zabka_cluster.move_leader("orders", 0, to=2)
    shop.place("2")
    zabka_cluster.brokers[2].kill()
    shop.place("3")
    zabka_cluster.until_leads(1, "orders")
    assert zabka_cluster.consume("orders") == ["1", "2", "3"]


def test_leader_isolated_from_its_followers_acknowledges_nothing(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("orders", assignment={0: [1, 2, 3]}, config={"min.insync.replicas": "2"})
    producer = Producer({**zabka_cluster.client_config("confluent"), "acks": "all", "delivery.timeout.ms": 60_000})
    failures: list[object] = []
    # Isolate broker 1 from the other nodes, but not from clients.
    cut = zabka_cluster.faults.cut(zabka_cluster.brokers[1], "*")
    producer.produce("orders", b"1", on_delivery=lambda error, _: failures.append(error))
    zabka_cluster.until(lambda: zabka_cluster.topics["orders"].partitions[0].leader in (2, 3))
    cut.heal()
    assert producer.flush(60) == 0
    zabka_cluster.until_in_sync("orders")
    # The producer has sent the record again, to the new leader. Broker 1 has truncated its own copy.
    assert failures == [None]
    assert set(zabka_cluster.consume("orders")) == {"1"}


@contextmanager
def billing(cluster: LiveCluster) -> Iterator[Billing]:
    worker = Billing(cluster.client_config("confluent"))
    yield worker
    worker.close()


def test_poison_message_is_moved_to_its_own_topic(zabka_cluster: LiveCluster) -> None:
    for name in ("orders", "orders.failed"):
        zabka_cluster.topics.create(name)
    zabka_cluster.produce("orders", [b"\xff\x00", order(1), "{}"])
    with billing(zabka_cluster) as worker:
        zabka_cluster.until(lambda: worker.work() and worker.billed == {1: 10})
        zabka_cluster.until(worker.work)
        zabka_cluster.until_caught_up("billing")
    failed = zabka_cluster.records("orders.failed")
    assert [record.value for record in failed] == [b"\xff\x00", b"{}"]
    assert failed[0].headers == (("reason", b"not an order"),)


def test_rebalance_in_the_middle_of_a_batch_bills_each_order_once(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("orders", partitions=2)
    zabka_cluster.produce("orders", [order(number) for number in range(4)], partition=0)
    zabka_cluster.produce("orders", [order(number) for number in range(4, 8)], partition=1)
    with billing(zabka_cluster) as first:
        zabka_cluster.until(first.work)
        with billing(zabka_cluster) as second:
            members = [first, second]
            zabka_cluster.until(lambda: [m.work() for m in members] and zabka_cluster.until_stable("billing", 2, 0.1))
            zabka_cluster.until(lambda: [m.work() for m in members] and len(first.billed | second.billed) == 8)
    assert first.billed | second.billed == {number: 10 * number for number in range(8)}


def test_fenced_producer_cannot_commit(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("orders")
    config = {**zabka_cluster.client_config("confluent"), "transactional.id": "shop"}
    old, new = Producer(config), Producer(config)
    old.init_transactions(30)
    old.begin_transaction()
    old.produce("orders", b"old")
    old.flush(10)
    # A second instance with the same transactional id starts, as after a restart on another machine.
    new.init_transactions(30)
    new.begin_transaction()
    new.produce("orders", b"new")
    with pytest.raises(KafkaException) as refused:
        old.commit_transaction(10)
    assert refused.value.args[0].code() == KafkaError._FENCED
    new.commit_transaction(10)
    committed = zabka_cluster.records("orders", isolation_level="read_committed")
    assert [record.text for record in committed] == ["new"]


def test_record_with_a_lost_acknowledgement_is_stored_once(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("orders")
    lost = zabka_cluster.faults.on_request("Produce", topic="orders").drop_response().once()
    config = {**zabka_cluster.client_config("confluent"), "enable.idempotence": True, "socket.timeout.ms": 2_000}
    producer = Producer(config)
    producer.produce("orders", b"1")
    assert producer.flush(30) == 0
    assert zabka_cluster.consume("orders") == ["1"]
    zabka_cluster.until(lambda: lost.used == 1)


def test_leader_with_an_expired_session_stops(zabka_ensemble: LiveEnsemble) -> None:
    stopped: list[str] = []
    client = KazooClient(zabka_ensemble.zookeeper_connect)
    client.start()
    leader = Leader(client, "first", lambda: stopped.append("first"))
    zabka_ensemble.expire_session(client.client_id)
    zabka_ensemble.until(lambda: stopped == ["first"] and not leader.leads)
    other = KazooClient(zabka_ensemble.zookeeper_connect)
    other.start()
    assert Leader(other, "second", lambda: None).leads
    for each in (client, other):
        each.stop()
        each.close()
