"""Brokers that replicate over SASL_SSL as User:broker, with an authorizer and without rights of User:ANONYMOUS.

The long tests run one of our brokers and an Apache Kafka 3.9.1 broker on one ensemble: each replicates from the other,
each is the controller, and both use the same ACLs and SCRAM users.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.ensemble.server.pem_files import Authority, needs_openssl
from tests.interop.interop_brokers import broker_cluster
from tests.interop.interop_servers import Ensemble
from tests.interop.kafka_tools import Output, ToolServer, called
from tests.interop.mixed_cluster import KAFKA, SOCKETS_ARE_LEFT, MixedCluster, mixed_cluster, until
from tests.interop.real_kafka import KafkaServer
from tests.interop.secured_brokers import (
    LOGIN,
    PASSWORDS,
    authority_of,
    client_settings,
    java_properties,
    secured_settings,
)
from zabka.broker_sim.configs.oauth_keys import LOGIN_MODULE
from zabka.cli import configs

pytestmark = [needs_openssl, *SOCKETS_ARE_LEFT]
OUR, TOPIC, SCRAM = 1, "orders", "SCRAM-SHA-512"
REPLICAS = ((OUR, KAFKA), (KAFKA, OUR))
"""Replicas of two partitions: the first is led by our broker, the second by Kafka's."""


class Clients:
    """Clients of a cluster that authenticate over SASL_SSL."""

    def __init__(self, authority: Authority, mechanism: str, bootstrap: str) -> None:
        self.authority, self.mechanism, self.bootstrap = authority, mechanism, bootstrap

    def settings(self, user: str, **more: Any) -> dict[str, Any]:
        own = {"bootstrap.servers": self.bootstrap, "log_level": 0, **more}
        return {**client_settings(self.authority, self.mechanism, user), **own}

    def create(self, topic: str, *assigned: tuple[int, ...]) -> None:
        new = NewTopic(topic, len(assigned), replica_assignment=[list(replicas) for replicas in assigned])
        admin = AdminClient(self.settings("admin"))
        admin.create_topics([new])[topic].result(60)

    def isr(self, topic: str, partition: int = 0) -> set[int]:
        try:
            metadata = AdminClient(self.settings("admin")).list_topics(topic, timeout=10)
        except KafkaException:
            return set()
        found = metadata.topics[topic].partitions.get(partition)
        return set() if found is None else set(found.isrs)

    def send(self, topic: str, *values: str, partition: int = 0, user: str = "admin") -> list[int]:
        """Produce with acks=all, and return the codes of the errors."""
        errors: list[int] = []
        producer = Producer(self.settings(user))
        for value in values:
            producer.produce(
                topic,
                value.encode(),
                partition=partition,
                on_delivery=lambda error, _: errors.append(error.code()) if error else None,
            )
        assert producer.flush(60) == 0
        return errors

    def read(self, topic: str, count: int, user: str = "admin", group: str = "readers") -> list[str]:
        """Return `count` committed records of all partitions, sorted."""
        consumer = Consumer(self.settings(user, **{"group.id": group, "auto.offset.reset": "earliest"}))
        consumer.subscribe([topic])
        values: list[str] = []

        def enough() -> bool:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                values.append(message.value().decode())
            return len(values) >= count

        try:
            until(enough, f"only {values} of {count} records")
        finally:
            consumer.close()
        return sorted(values)


def test_brokers_replicate_over_sasl_ssl_and_survive_faults(tmp_path: Path) -> None:
    """The controller is killed, and comes back with a wrong password for the other brokers: the others go on."""
    authority = authority_of(tmp_path / "tls")
    settings = {**secured_settings(authority, "PLAIN"), "min.insync.replicas": 2}
    with broker_cluster(tmp_path, **settings) as cluster:
        clients = Clients(authority, "PLAIN", cluster.bootstrap)
        clients.create(TOPIC, (1, 2, 3))
        cluster.until(lambda: clients.isr(TOPIC) == {1, 2, 3})
        assert clients.send(TOPIC, "a") == []
        assert clients.send(TOPIC, "refused", user="shop") == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
        killed = cluster.controller()
        killed.kill()
        cluster.until(lambda: clients.isr(TOPIC) == {1, 2, 3} - {killed.broker_id})
        assert clients.send(TOPIC, "b") == []
        config = killed.home / "server.properties"
        right = config.read_text()
        config.write_text(right.replace(LOGIN, LOGIN.replace("secret", "wrong")))
        killed.start()
        reason = "reason='Authentication failed: Invalid username or password'"
        cluster.until(lambda: reason in killed.output())
        assert clients.send(TOPIC, "c") == [] and clients.isr(TOPIC) == {1, 2, 3} - {killed.broker_id}
        killed.kill()
        config.write_text(right)
        killed.start()
        cluster.until(lambda: clients.isr(TOPIC) == {1, 2, 3})
        assert clients.read(TOPIC, 3) == ["a", "b", "c"]
        assert any("authentication failed" in event["reason"] for event in killed.events("peer_protocol_broken"))


# ---- one of our brokers and an Apache Kafka broker --------------------------------------------------------------


class Shared:
    """The cluster, its clients, and Kafka's tools."""

    def __init__(self, cluster: MixedCluster, authority: Authority, tools: ToolServer, config: Path) -> None:
        self.cluster = cluster
        self._tools, self._config = tools, config
        self.clients = Clients(authority, SCRAM, ",".join(map(self.at, (OUR, KAFKA))))

    def at(self, broker_id: int) -> str:
        return f"127.0.0.1:{self.cluster.nodes[broker_id].port}"

    def tool(self, name: str, at: int, *arguments: str) -> Output:
        """Run one of Kafka's tools as admin."""
        done = self._tools.run(
            name, "--bootstrap-server", self.at(at), "--command-config", str(self._config), *arguments
        )
        assert done.code == 0, done
        return done


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """Yield the cluster. Kafka's tool writes one SCRAM user before the brokers start, and ours writes the other."""
    directory = tmp_path_factory.mktemp("secured")
    authority, tools = authority_of(directory / "tls"), ToolServer(directory)

    def write_users(ensemble: Ensemble) -> None:
        def change(user: str) -> list[str]:
            added = f"{SCRAM}=[iterations=8192,password={PASSWORDS[user]}]"
            entity = ["--entity-type", "users", "--entity-name", user]
            return ["--zookeeper", ensemble.hosts, "--alter", *entity, "--add-config", added]

        theirs, ours = tools.run("configs", *change("broker")), called(configs.main, *change("admin"))
        assert theirs.code == ours.code == 0, (theirs, ours)
        assert theirs.out.replace("broker", "admin").endswith(ours.out)
        listed = ["--zookeeper", ensemble.hosts, "--describe", "--entity-type", "users"]
        lines = [
            sorted(out.splitlines()) for out in (tools.run("configs", *listed).out, called(configs.main, *listed).out)
        ]
        assert [line for line in lines[0] if line.startswith("Configs")] == lines[1] and len(lines[1]) == 2

    config = directory / "admin.properties"
    config.write_text(java_properties(authority, SCRAM, "admin"))
    client = client_settings(authority, SCRAM, "admin")
    settings = {**secured_settings(authority, SCRAM), "offsets_topic_replication_factor": 2,
                "transaction_state_log_replication_factor": 2, "transaction_state_log_min_isr": 1}  # fmt: skip
    try:
        with mixed_cluster(directory, (OUR,), (KAFKA,), client=client, prepare=write_users, **settings) as cluster:
            yield Shared(cluster, authority, tools, config)
    finally:
        tools.close()


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("controller", [OUR, KAFKA])
def test_each_broker_replicates_from_the_other(shared: Shared, controller: int) -> None:
    cluster, clients = shared.cluster, shared.clients
    cluster.make_controller(controller)
    topic = f"both-ways-{controller}"
    clients.create(topic, *REPLICAS)
    cluster.until_in_sync(topic, *REPLICAS)
    for partition, (leader, _) in enumerate(REPLICAS):
        assert cluster.state(topic, partition)["leader"] == leader
        assert clients.send(topic, *map(str, range(100)), partition=partition) == []
        cluster.until_logs_equal(topic, (OUR, KAFKA), partition)
    # Each leader reports ISR changes to the controller.
    follower = OUR + KAFKA - controller
    with cluster.paused(follower):
        until(lambda: cluster.state(topic, (OUR, KAFKA).index(controller))["isr"] == [controller], "no shrink")
    cluster.until_in_sync(topic, *REPLICAS)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_transactions_span_partitions_of_both_brokers(shared: Shared) -> None:
    """Coordinators of three ids write markers at both brokers, and both leaders verify transactions at them."""
    clients, topic = shared.clients, "transactions"
    clients.create(topic, *REPLICAS)
    sent = []
    for number in range(6):
        producer = Producer(clients.settings("admin", **{"transactional.id": f"id-{number}"}))
        producer.init_transactions(60)
        for commits in (True, False):
            producer.begin_transaction()
            for partition in (0, 1):
                value = f"{number}-{partition}-{commits}"
                producer.produce(topic, value.encode(), partition=partition)
                sent += [value] * commits
            (producer.commit_transaction if commits else producer.abort_transaction)(60)
    assert clients.read(topic, len(sent)) == sorted(sent)
    leaders = {shared.cluster.state("__transaction_state", number)["leader"] for number in range(3)}
    assert leaders == {OUR, KAFKA}


@pytest.mark.long
@pytest.mark.timeout(600)
def test_acls_and_scram_users_are_shared(shared: Shared) -> None:
    clients, topic = shared.clients, "shared"
    clients.create(topic, *REPLICAS)
    shared.tool("configs", OUR, "--alter", "--entity-type", "users", "--entity-name", "shop",
                "--add-config", f"{SCRAM}=[password={PASSWORDS['shop']}]")  # fmt: skip
    rights = ("--allow-principal", "User:shop", "--operation", "Write", "--operation", "Describe", "--topic", topic)

    def codes() -> list[int]:
        """Return the codes of the errors of a record to each leader; 0 for none."""
        return [next(iter(clients.send(topic, "x", partition=partition, user="shop")), 0) for partition in (0, 1)]

    refused = [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 2
    for adding, removing in ((OUR, KAFKA), (KAFKA, OUR)):
        until(lambda: codes() == refused, "shop can write without an ACL")
        shared.tool("acls", adding, "--add", *rights)
        until(lambda: codes() == [0, 0], "shop cannot write with an ACL")
        shared.tool("acls", removing, "--remove", "--force", "--topic", topic)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_brokers_take_over_from_each_other(shared: Shared) -> None:
    cluster, clients, topic = shared.cluster, shared.clients, "fails-over"
    clients.create(topic, *REPLICAS)
    for number, killed in enumerate((KAFKA, OUR)):
        cluster.until_in_sync(topic, *REPLICAS)
        cluster.make_controller(killed)
        cluster.kill(killed)
        survivor = OUR + KAFKA - killed
        for partition in (0, 1):
            cluster.until_led(survivor, topic, partition)
            assert clients.send(topic, f"{number}-{partition}", partition=partition) == []
        cluster.start(killed)
    cluster.until_in_sync(topic, *REPLICAS)
    assert clients.read(topic, 4, group="after") == ["0-0", "0-1", "1-0", "1-1"]
    kafka = cluster.nodes[KAFKA]
    assert isinstance(kafka, KafkaServer)
    assert [line for line in kafka.complaints() if "authentication" in line.lower()] == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_brokers_use_unsigned_tokens_with_each_other(tmp_path: Path) -> None:
    """Our broker and Kafka's log in to each other with OAUTHBEARER, and authenticate again every five seconds."""
    login = f'{LOGIN_MODULE} required unsecuredLoginStringClaim_sub="broker" unsecuredLoginExtension_host="a";'
    settings = {
        **secured_settings(authority_of(tmp_path / "tls"), "PLAIN"),
        "listener.security.protocol.map": "SECURE:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "listener.name.secure.oauthbearer.sasl.jaas.config": login,
        "connections.max.reauth.ms": 5_000,
    }
    client = {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=admin",
    }  # fmt: skip
    with mixed_cluster(tmp_path, (OUR,), (KAFKA,), client=client, **settings) as cluster:
        own = {**client, "log_level": 0, "bootstrap.servers": f"127.0.0.1:{cluster.nodes[OUR].port}"}
        new = NewTopic(TOPIC, 2, replica_assignment=[list(replicas) for replicas in REPLICAS])
        admin = AdminClient(own)
        admin.create_topics([new])[TOPIC].result(60)
        cluster.until_in_sync(TOPIC, *REPLICAS)
        producer, errors = Producer(own), []
        for _ in range(20):
            for partition in (0, 1):
                producer.produce(
                    TOPIC, b"x", partition=partition, on_delivery=lambda error, _: errors.append(error) if error else 0
                )
            assert producer.flush(60) == 0
            time.sleep(0.5)
        assert errors == []
        for partition in (0, 1):
            cluster.until_logs_equal(TOPIC, (OUR, KAFKA), partition)
        assert cluster.nodes[OUR].events("peer_protocol_broken") == []
