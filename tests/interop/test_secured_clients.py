"""confluent-kafka and aiokafka over SSL, SASL_SSL and SASL_PLAINTEXT, against two broker processes."""

from __future__ import annotations

import asyncio
import ssl
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from aiokafka.errors import KafkaConnectionError
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from kio.schema.errors import ErrorCode

from bench.free_ports import free_ports
from tests.broker_sim.sasl.sasl_client import SaslClient
from tests.ensemble.server.pem_files import Authority, needs_openssl
from tests.interop.interop_brokers import BrokerCluster, broker_cluster
from zabka.kafka.scram import scram_messages
from zabka.kafka.wire.kafka_schema import ApiKey, request

pytestmark = needs_openssl
RECORDS = 100
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = {"tls": "SSL", "both": "SASL_SSL", "sasl": "SASL_PLAINTEXT"}
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
WRONG = "wrong, wrong"


class Secured:
    """A cluster with one listener for each security protocol, and the user alice with each mechanism."""

    def __init__(self, cluster: BrokerCluster, authority: Authority, ports: dict[str, list[int]]) -> None:
        self.cluster = cluster
        self.authority = authority
        self.ports = ports

    def bootstrap(self, listener: str) -> str:
        return ",".join(f"localhost:{port}" for port in self.ports[listener])

    def librdkafka(self, listener: str, mechanism: str = "", password: str = "secret") -> dict[str, object]:
        settings: dict[str, object] = {
            "bootstrap.servers": self.bootstrap(listener),
            "security.protocol": PROTOCOLS[listener],
            "ssl.ca.location": str(self.authority.ca),
            "broker.address.family": "v4",
        }
        if listener == "tls":
            directory = self.authority.directory
            settings |= {
                "ssl.certificate.location": directory / "client.crt",
                "ssl.key.location": directory / "client.key",
            }
        if mechanism:
            settings |= {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": password}
        return {key: str(value) for key, value in settings.items()}

    def python(self, listener: str, mechanism: str = "", password: str = "secret") -> dict[str, Any]:
        """Return the settings of aiokafka and kafka-python."""
        settings: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap(listener).split(","),
            "security_protocol": PROTOCOLS[listener],
        }
        if listener != "sasl":
            settings["ssl_context"] = ssl.create_default_context(cafile=self.authority.ca)
        if listener == "tls":
            settings["ssl_context"].load_cert_chain(self.authority.directory / "client.pem")
        if mechanism:
            settings |= {
                "sasl_mechanism": mechanism, "sasl_plain_username": "alice", "sasl_plain_password": password,
            }  # fmt: skip
        return settings


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    authority = Authority(tmp_path_factory.mktemp("ssl"))
    store = authority.store("broker", "/CN=broker", "DNS:localhost,IP:127.0.0.1")
    authority.store("client", "/CN=client")
    plain, ports = free_ports(2), {name: list(free_ports(2)) for name in PROTOCOLS}

    def listeners(broker_id: int, host: str = "127.0.0.1") -> str:
        own = [f"{name.upper()}://{host}:{ports[name][broker_id - 1]}" for name in PROTOCOLS]
        return ",".join([f"PLAINTEXT://127.0.0.1:{plain[broker_id - 1]}", *own])

    options: dict[str, object] = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,"
        + ",".join(f"{name.upper()}:{protocol}" for name, protocol in PROTOCOLS.items()),
        "ssl.keystore.location": store,
        "ssl.truststore.location": authority.ca,
        "ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connection.failed.authentication.delay.ms": 50,
        "default.replication.factor": 2,
        "offsets.topic.replication.factor": 2,
        "group.initial.rebalance.delay.ms": 0,
        **{f"listener.name.{name}.plain.sasl.jaas.config": JAAS for name in ("both", "sasl")},
    }
    with broker_cluster(
        tmp_path_factory.mktemp("brokers"),
        plain,
        listeners=listeners,
        advertised_listeners=lambda broker_id: listeners(broker_id, "localhost"),
        **options,
    ) as cluster:
        made = Secured(cluster, authority, ports)
        upsert_alice(made)
        yield made


def upsert_alice(secured: Secured, password: str = "secret") -> None:
    """Set the SCRAM credentials of alice, and wait until each broker accepts them."""
    admin = AdminClient({"bootstrap.servers": secured.cluster.bootstrap})
    alterations = [
        UserScramCredentialUpsertion("alice", ScramCredentialInfo(mechanism, 4096), password.encode())
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    ]
    for alteration in alterations:
        admin.alter_user_scram_credentials([alteration])["alice"].result(30)

    def accepts(port: int, mechanism: str) -> bool:
        async def main() -> bool:
            client = await SaslClient.to(port)
            await client.handshake(mechanism)
            exchange: Any = scram_messages(mechanism, "alice", password, "client")
            first = await client.authenticate(next(exchange))
            is_right = bool(first.auth_bytes) and bool(
                (await client.authenticate(exchange.send(first.auth_bytes))).auth_bytes
            )
            client.writer.close()
            await client.writer.wait_closed()
            return is_right

        return asyncio.run(main())

    for port in secured.ports["sasl"]:
        for mechanism in MECHANISMS[1:]:
            secured.cluster.until(lambda port=port, mechanism=mechanism: accepts(port, mechanism))  # type: ignore[misc]


CASES = [("tls", ""), *((listener, mechanism) for listener in ("both", "sasl") for mechanism in MECHANISMS)]


@pytest.mark.parametrize(("listener", "mechanism"), CASES)
def test_confluent_clients_produce_and_consume(secured: Secured, listener: str, mechanism: str) -> None:
    settings, topic = secured.librdkafka(listener, mechanism), f"confluent-{listener}-{mechanism}".lower()
    producer = confluent_kafka.Producer({**settings, "acks": "all"})
    failures: list[object] = []
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode(), on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(30) == 0 and failures == [None] * RECORDS
    consumer = confluent_kafka.Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: set[int] = set()
    while len(found) < RECORDS:
        message = consumer.poll(30)
        assert message is not None and message.error() is None
        found.add(int(message.value()))
    consumer.close()
    assert found == set(range(RECORDS))


# aiokafka does not wait until its TLS connections are closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize(("listener", "mechanism"), CASES)
def test_aiokafka_clients_produce_and_consume(secured: Secured, listener: str, mechanism: str) -> None:
    topic = f"aiokafka-{listener}-{mechanism}".lower()

    async def main() -> list[Any]:
        options = secured.python(listener, mechanism)
        async with aiokafka.AIOKafkaProducer(**options, acks="all") as producer:
            for number in range(RECORDS):
                await producer.send_and_wait(topic, b"%d" % number, partition=number % 2)
        async with aiokafka.AIOKafkaConsumer(
            topic, **options, group_id=topic, auto_offset_reset="earliest"
        ) as consumer:
            return [(await consumer.getone()).value for _ in range(RECORDS)]

    found = asyncio.run(asyncio.wait_for(main(), 120))
    assert sorted(map(int, found)) == list(range(RECORDS))


@pytest.mark.parametrize(("listener", "mechanism"), CASES)
def test_kafka_python_client_describes_the_cluster(secured: Secured, listener: str, mechanism: str) -> None:
    with warnings.catch_warnings():
        # kafka-python reads its schemas with a function of importlib.resources that is deprecated in Python 3.11.
        warnings.simplefilter("ignore")
        from kafka import KafkaAdminClient

        admin = KafkaAdminClient(**secured.python(listener, mechanism))
    try:
        brokers = {(broker["broker_id"], broker["port"]) for broker in admin.describe_cluster()["brokers"]}
        assert brokers == set(enumerate(secured.ports[listener], 1))
    finally:
        admin.close()


# ---- wrong passwords ---------------------------------------------------------------------------------------------

WITH_PASSWORDS = CASES[1:]
SCRAM_REFUSED = "Authentication failed during authentication due to invalid credentials with SASL mechanism"
PLAIN_REFUSED = "Authentication failed: Invalid username or password"


def refused(mechanism: str) -> str:
    """Return Kafka's message to a client with a wrong password."""
    return PLAIN_REFUSED if mechanism == "PLAIN" else f"{SCRAM_REFUSED} {mechanism}"


@pytest.mark.parametrize(("listener", "mechanism"), WITH_PASSWORDS)
def test_confluent_client_reports_a_wrong_password(secured: Secured, listener: str, mechanism: str) -> None:
    errors: list[confluent_kafka.KafkaError] = []
    settings = {**secured.librdkafka(listener, mechanism, WRONG), "error_cb": errors.append}
    producer = confluent_kafka.Producer(settings)

    def reported() -> bool:
        producer.poll(0.1)
        return any(
            error.code() == confluent_kafka.KafkaError._AUTHENTICATION and refused(mechanism) in error.str()
            for error in errors
        )

    secured.cluster.until(reported)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize(("listener", "mechanism"), WITH_PASSWORDS)
def test_aiokafka_client_reports_a_wrong_password(
    secured: Secured, caplog: pytest.LogCaptureFixture, listener: str, mechanism: str
) -> None:
    async def main() -> None:
        producer = aiokafka.AIOKafkaProducer(**secured.python(listener, mechanism, WRONG))
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(KafkaConnectionError):
        asyncio.run(asyncio.wait_for(main(), 60))
    assert f"SaslAuthenticationFailed: {refused(mechanism)}" in caplog.text


def test_wrong_passwords_do_not_disturb_other_clients(secured: Secured) -> None:
    """Clients that log in all the time with a wrong password leave no descriptors, and few log lines."""
    broker, port = secured.cluster.brokers[1], secured.ports["sasl"][0]

    def descriptors() -> int:
        assert broker._process is not None
        return len(list(Path(f"/proc/{broker._process.pid}/fd").iterdir()))

    async def fail() -> None:
        client = await SaslClient.to(port)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            answer = await client.plain(password=WRONG)
            assert answer.error_message == PLAIN_REFUSED
            assert await client.at_end()
        client.writer.close()
        await client.writer.wait_closed()

    async def main() -> int:
        good = await SaslClient.to(port)
        assert (await good.plain()).error_code == ErrorCode.none
        served = 0
        for _ in range(10):
            failing = [asyncio.ensure_future(fail()) for _ in range(50)]
            while not all(each.done() for each in failing):
                assert (await good.ask(request(ApiKey.METADATA, 5, topics=[]))).brokers
                served += 1
            await asyncio.gather(*failing)
        good.writer.close()
        await good.writer.wait_closed()
        return served

    before, lines = descriptors(), broker.output().count(PLAIN_REFUSED)
    assert asyncio.run(asyncio.wait_for(main(), 60)) >= 10
    secured.cluster.until(lambda: descriptors() <= before)
    assert broker.output().count(PLAIN_REFUSED) - lines < 50


@pytest.mark.parametrize(
    ("wrong", "listener", "expected"),
    [
        (
            "PLAINTEXT",
            "sasl",
            "Unexpected Kafka request of type Metadata during SASL handshake. Does the client use SASL?",
        ),
        ("PLAINTEXT", "tls", "TLS handshake failed on the listener TLS: no TLS handshake"),
        ("PLAINTEXT", "both", "TLS handshake failed on the listener BOTH: no TLS handshake"),
        ("SSL", "sasl", "SASL authentication failed on the listener SASL: a TLS handshake on the plain listener SASL"),
        ("SASL_PLAINTEXT", "both", "TLS handshake failed on the listener BOTH: no TLS handshake"),
    ],
)
def test_client_with_another_protocol_gets_a_clear_log_line(
    secured: Secured, wrong: str, listener: str, expected: str
) -> None:
    settings = {**secured.librdkafka(listener, "PLAIN"), "security.protocol": wrong, "log_level": 0}
    if wrong in ("PLAINTEXT", "SSL"):
        settings = {key: value for key, value in settings.items() if not key.startswith("sasl.")}
    client = confluent_kafka.Producer(settings)
    output = [broker.output for broker in secured.cluster.brokers.values()]
    secured.cluster.until(lambda: client.poll(0.1) >= 0 and any(expected in text() for text in output))
    assert AdminClient(secured.librdkafka("both", "PLAIN")).list_topics(timeout=30).brokers.keys() == {1, 2}


def test_changed_password_applies_to_new_connections(secured: Secured) -> None:
    """A living connection goes on after its user's credential has changed, as in Kafka."""

    async def log_in(client: SaslClient, password: str) -> int:
        await client.handshake("SCRAM-SHA-512")
        exchange: Any = scram_messages("SCRAM-SHA-512", "alice", password, "client")
        first = await client.authenticate(next(exchange))
        return int((await client.authenticate(exchange.send(first.auth_bytes))).error_code)

    async def main() -> None:
        clients = [await SaslClient.to(secured.ports["sasl"][0]) for _ in range(3)]
        living, renewed, former = clients
        assert await log_in(living, "secret") == ErrorCode.none
        await asyncio.to_thread(upsert_alice, secured, "changed")
        assert await log_in(renewed, "changed") == ErrorCode.none
        assert await log_in(former, "secret") == ErrorCode.sasl_authentication_failed
        assert (await living.ask(request(ApiKey.METADATA, 5, topics=[]))).brokers
        for client in clients:
            client.writer.close()
            await client.writer.wait_closed()

    try:
        asyncio.run(asyncio.wait_for(main(), 60))
    finally:
        upsert_alice(secured)
