"""confluent-kafka and aiokafka over TLS, with certificates on both sides, against two broker processes."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from bench.free_ports import free_ports
from tests.ensemble.server.pem_files import Authority, needs_openssl
from tests.interop.interop_brokers import BrokerCluster, BrokerServer, broker_cluster
from zabka.kafka.wire.frames import encode_request
from zabka.kafka.wire.kafka_schema import ApiKey, request

pytestmark = needs_openssl
RECORDS = 200


class Secured:
    """A cluster whose clients must present a certificate on the TLS listeners."""

    def __init__(self, cluster: BrokerCluster, authority: Authority, ports: list[int]) -> None:
        self.cluster = cluster
        self.authority = authority
        self.ports = ports
        self.bootstrap = ",".join(f"localhost:{port}" for port in ports)

    def librdkafka(self, certificate: str = "client") -> dict[str, object]:
        directory = self.authority.directory
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority.ca),
            "ssl.certificate.location": str(directory / f"{certificate}.crt"),
            "ssl.key.location": str(directory / f"{certificate}.key"),
            "broker.address.family": "v4",
        }

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority.ca)
        context.load_cert_chain(self.authority.directory / "client.pem")
        return context


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    authority = Authority(tmp_path_factory.mktemp("ssl"))
    store = authority.store("broker", "/CN=broker", "DNS:localhost,IP:127.0.0.1")
    authority.store("client", "/CN=client")
    Authority(authority.directory / "other").store("stranger", "/CN=stranger")
    plain, ports = free_ports(2), free_ports(2)

    def listeners(broker_id: int) -> str:
        return f"PLAINTEXT://127.0.0.1:{plain[broker_id - 1]},CLIENTS://127.0.0.1:{ports[broker_id - 1]}"

    with broker_cluster(
        tmp_path_factory.mktemp("brokers"),
        plain,
        listeners=listeners,
        advertised_listeners=lambda broker_id: listeners(broker_id).replace(
            "CLIENTS://127.0.0.1", "CLIENTS://localhost"
        ),
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CLIENTS:SSL",
        ssl_keystore_location=store,
        ssl_truststore_location=authority.ca,
        ssl_client_auth="required",
        default_replication_factor=2,
        offsets_topic_replication_factor=2,
    ) as cluster:
        yield Secured(cluster, authority, list(ports))


def test_confluent_clients_produce_and_consume_over_tls(secured: Secured) -> None:
    admin = AdminClient(secured.librdkafka())
    metadata = admin.list_topics(timeout=30)
    assert {(broker.host, broker.port) for broker in metadata.brokers.values()} == {
        ("localhost", port) for port in secured.ports
    }
    topic = confluent_kafka.admin.NewTopic("payments", 4, 2)
    admin.create_topics([topic])["payments"].result(30)
    producer = confluent_kafka.Producer({**secured.librdkafka(), "acks": "all"})
    failures: list[object] = []
    for number in range(RECORDS):
        producer.produce("payments", str(number).encode(), on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(30) == 0 and failures == [None] * RECORDS
    consumer = confluent_kafka.Consumer(
        {**secured.librdkafka(), "group.id": "readers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["payments"])
    found: set[int] = set()
    while len(found) < RECORDS:
        message = consumer.poll(30)
        assert message is not None and message.error() is None
        found.add(int(message.value()))
    consumer.close()
    assert found == set(range(RECORDS))


# aiokafka does not wait until its TLS connections are closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:unclosed:ResourceWarning")
def test_aiokafka_clients_produce_and_consume_over_tls(secured: Secured) -> None:
    async def main() -> list[bytes]:
        options = {"bootstrap_servers": secured.bootstrap, "security_protocol": "SSL", "ssl_context": secured.context()}
        async with aiokafka.AIOKafkaProducer(**options, acks="all") as producer:
            for number in range(RECORDS):
                await producer.send_and_wait("orders", b"%d" % number, partition=number % 2)
        async with aiokafka.AIOKafkaConsumer(
            "orders", **options, group_id="shop", auto_offset_reset="earliest"
        ) as consumer:
            return [(await consumer.getone()).value for _ in range(RECORDS)]

    found = asyncio.run(asyncio.wait_for(main(), 120))
    assert sorted(map(int, found)) == list(range(RECORDS))


def rejected(port: int, context: ssl.SSLContext | None, data: bytes = b"") -> None:
    """Connect as a bad client, and wait until the broker closes the connection."""
    client = socket.create_connection(("127.0.0.1", port), 30)
    try:
        secured = client if context is None else context.wrap_socket(client, server_hostname="localhost")
    except OSError:
        client.close()
        return
    with secured, suppress(ConnectionError, ssl.SSLError):
        secured.sendall(data)
        assert secured.recv(100) == b""


def test_bad_clients_are_reported_and_affect_no_other_client(secured: Secured) -> None:
    broker = secured.cluster.brokers[1]

    def reported(text: str, cause: str) -> bool:
        causes = [event["cause"] for event in broker.events("authentication_failed")]
        causes += [event["reason"] for event in broker.events("peer_protocol_broken")]
        return cause in causes and text in broker.output()

    authority, tls_port = secured.authority, secured.ports[0]
    stranger = ssl.create_default_context(cafile=authority.ca)
    stranger.load_cert_chain(authority.directory / "other" / "stranger.pem")
    rejected(tls_port, None, b"GET / HTTP/1.1\r\n\r\n")
    rejected(tls_port, ssl.create_default_context(cafile=authority.ca))
    rejected(tls_port, stranger)
    rejected(broker.port, stranger)
    plain = "a TLS handshake on the plain listener PLAINTEXT"
    for text, cause in (("no TLS handshake", "no_tls"), ("peer did not return a certificate", "no_certificate"),
                        ("certificate verify failed", "untrusted_certificate"), (plain, plain)):  # fmt: skip
        secured.cluster.until(lambda text=text, cause=cause: reported(text, cause))  # type: ignore[misc]
    assert AdminClient(secured.librdkafka()).list_topics(timeout=30).brokers.keys() == {1, 2}


def test_modified_key_store_is_loaded_by_an_admin_request(secured: Secured) -> None:
    """The same path is set again by confluent-kafka's AdminClient. A connection that is open already stays."""
    authority = secured.authority
    store = authority.directory / "broker.pem"
    before = ssl.get_server_certificate(("127.0.0.1", secured.ports[0]))
    open_context = secured.context()
    with socket.create_connection(("localhost", secured.ports[0]), 30) as plain:
        living = open_context.wrap_socket(plain, server_hostname="localhost")
        authority.store("broker", "/CN=broker", "DNS:localhost,IP:127.0.0.1")
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{secured.cluster.brokers[1].port}"})
        entry = ConfigEntry(
            "listener.name.clients.ssl.keystore.location",
            str(store),
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        for _ in range(2):
            # The first request changes the value, the second one loads the modified file if the value is the same.
            admin.incremental_alter_configs([resource])[resource].result(30)
        secured.cluster.until(lambda: certificate_at(secured.ports[0]) not in ("", before))
        living.sendall(encode_request(7, "shop", request(ApiKey.API_VERSIONS, 0)))
        assert living.recv(4)
        living.close()
    assert AdminClient(secured.librdkafka()).list_topics(timeout=30).brokers.keys() == {1, 2}


def certificate_at(port: int) -> str:
    try:
        return ssl.get_server_certificate(("127.0.0.1", port))
    except OSError:
        return ""


def test_broker_with_an_unreadable_tls_store_reports_the_reason(secured: Secured, tmp_path: Path) -> None:
    settings: dict[str, object] = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl_keystore_location": "/no/such.pem",
    }
    broker = BrokerServer(9, 0, tmp_path / "broker-9", secured.cluster.ensemble.hosts, **settings)
    broker.start()
    secured.cluster.until(lambda: not broker.is_running)
    assert broker.output().splitlines()[-1] == (
        "zabka broker: listener SSL: ssl.keystore.location=/no/such.pem cannot be used: No such file or directory"
    )
