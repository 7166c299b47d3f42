"""TLS listeners of a broker: which clients are served, and that bad clients are reported and affect no other client."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest
import structlog
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_key_and_certificates,
)
from cryptography.x509 import load_pem_x509_certificate, load_pem_x509_certificates
from structlog.testing import capture_logs

from tests.broker_sim.test_port_connection import FRAME_BYTES_MAX, Served, run, serving, until
from tests.ensemble.server.dated_certificates import Chains
from tests.ensemble.server.pem_files import Authority, needs_openssl
from tests.event_loops import each_event_loop  # noqa: F401
from zabka.broker_sim import secure_kafka_port
from zabka.broker_sim.broker_process import BrokerProcess, host_environment
from zabka.broker_sim.configs.broker_config import config_from
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.listeners import Listener
from zabka.broker_sim.configs.principal_mapping import PrincipalMapper
from zabka.broker_sim.configs.tls_keys import TlsKeys
from zabka.broker_sim.kafka_port import KafkaPort, first_client
from zabka.broker_sim.listener_stores import OpenStores
from zabka.broker_sim.quotas.connection_quotas import ConnectionLimits, ConnectionQuotas
from zabka.broker_sim.secure_kafka_port import SecureKafkaPort, tls_store
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.ensemble.runtime.client_links import ClientLinks
from zabka.ensemble.runtime.link_fault import HeldFault
from zabka.ensemble.runtime.links import FaultTable
from zabka.journal.events import AuthenticationFailed, Event, PeerProtocolBroken
from zabka.kafka.ports import Endpoint
from zabka.kafka.wire.frames import encode_request
from zabka.kafka.wire.kafka_schema import ApiKey, request

pytestmark = needs_openssl
LEAST = {
    "broker.id": "1",
    "zookeeper.connect": "h:1",
    "listeners": "PLAINTEXT://h:1,SECURE://h:2",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SSL",
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority(tmp_path_factory.mktemp("ssl"))
    authority.store("broker", "/CN=broker", "DNS:localhost,IP:127.0.0.1")
    authority.store("locked", "/CN=locked", "DNS:localhost", password="sesame")
    return authority


@pytest.fixture(scope="module")
def chains(tmp_path_factory: pytest.TempPathFactory) -> Chains:
    return Chains(tmp_path_factory.mktemp("chains"))


def tls_keys(**keys: object) -> TlsKeys:
    return config_from({**LEAST, **{f"ssl.{key.replace('_', '.')}": str(value) for key, value in keys.items()}}).tls[
        "SECURE"
    ]


def broker_keys(authority: Authority, name: str = "broker", **more: object) -> dict[str, object]:
    return {"keystore_location": authority.directory / f"{name}.pem", **more}


@asynccontextmanager
async def securely(
    keys: dict[str, object], limits: ConnectionLimits | None = None
) -> AsyncIterator[tuple[Served, SecureKafkaPort]]:
    """Open a TLS listener; after the test, wait until every connection and handshake has ended."""
    served = Served()
    loop = asyncio.get_running_loop()
    quotas = ConnectionQuotas(AsyncioRuntime(loop), 11, 1, "PLAINTEXT")
    quotas.configure(limits or ConnectionLimits())
    port = SecureKafkaPort(
        tls_store(tls_keys(**keys), served.failures.append),
        PrincipalMapper(tls_keys(**keys).mapping_rules),
        served.unauthenticated.append,
        "SECURE",
        served.handle,
        lambda remote, reason: served.broken.append(reason),
        lambda name, failure: served.failures.append(f"{name}: {failure}"),
        quotas,
        None,
        frame_bytes_max=FRAME_BYTES_MAX,
        idle_ms_max=0,
    )
    served.number = await port.start("127.0.0.1", 0)
    try:
        yield served, port
        await until(lambda: not port.connections and not port.handshakes.handshakes)
    finally:
        await port.close()
        await asyncio.sleep(0.01)


def trusting(authority: Authority, store: Path | None = None) -> ssl.SSLContext:
    """Return a client's TLS context that verifies the broker's name, with a certificate of its own if one is given."""
    context = ssl.create_default_context(cafile=authority.ca)
    if store is not None:
        context.load_cert_chain(store)
    return context


def careless(store: Path | None = None) -> ssl.SSLContext:
    """Return a client's TLS context that trusts every broker."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if store is not None:
        context.load_cert_chain(store)
    return context


class Answered:
    """A client's connection after its request was answered."""

    def __init__(self, correlation_id: int, secured: ssl.SSLObject) -> None:
        self.correlation_id = correlation_id
        self.version, self.cipher = secured.version(), secured.cipher()


async def ask(number: int, context: ssl.SSLContext) -> Answered | None:
    """Send one request over TLS. Return None if the broker closes the connection instead of answering."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", number, ssl=context)
    except OSError:
        return None
    try:
        writer.write(encode_request(7, "shop", request(ApiKey.API_VERSIONS, 0)))
        size = int.from_bytes(await reader.readexactly(4))
        correlation_id = int.from_bytes((await reader.readexactly(size))[:4])
        return Answered(correlation_id, writer.get_extra_info("ssl_object"))
    except (OSError, EOFError):
        return None
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def check(
    keys: dict[str, object],
    test: Callable[[Served, SecureKafkaPort], Awaitable[None]],
    limits: ConnectionLimits | None = None,
) -> None:
    async def main() -> None:
        async with securely(keys, limits) as (served, port):
            await test(served, port)

    run(main)


def test_client_is_served_over_tls(authority: Authority) -> None:
    async def test(served: Served, port: SecureKafkaPort) -> None:
        answered = await ask(served.number, trusting(authority))
        assert answered is not None and answered.correlation_id == 7
        assert served.requests[0][1:] == ("shop", "SECURE")
        assert served.broken == served.failures == served.unauthenticated == []

    check(broker_keys(authority), test)


# ---- key stores --------------------------------------------------------------------------------------------------


def pkcs12(authority: Authority, path: Path, password: bytes) -> Path:
    own = load_pem_private_key((authority.directory / "broker.key").read_bytes(), None)
    certificate = load_pem_x509_certificate((authority.directory / "broker.crt").read_bytes())
    path.write_bytes(
        serialize_key_and_certificates(b"broker", own, certificate, None, BestAvailableEncryption(password))  # type: ignore[arg-type]
    )
    return path


def trust_pkcs12(authority: Authority, path: Path) -> Path:
    trusted = [PKCS12Certificate(each, b"ca") for each in load_pem_x509_certificates(authority.ca.read_bytes())]
    path.write_bytes(serialize_key_and_certificates(None, None, None, trusted, BestAvailableEncryption(b"open")))  # type: ignore[arg-type]
    return path


def inline(authority: Authority, *, on_one_line: bool, name: str = "broker") -> dict[str, object]:
    key, chain = (authority.directory / f"{name}.{kind}" for kind in ("key" if name == "broker" else "locked", "crt"))
    texts = [key.read_text(), chain.read_text(), authority.ca.read_text()]
    if on_one_line:
        texts = [" ".join(text.split("\n")) for text in texts]
    return {
        "keystore_type": "PEM", "keystore_key": texts[0], "keystore_certificate_chain": texts[1],
        "truststore_type": "PEM", "truststore_certificates": texts[2],
    }  # fmt: skip


STORES: dict[str, Callable[[Authority, Path], dict[str, object]]] = {
    "an encrypted key": lambda authority, _: broker_keys(authority, "locked", key_password="sesame"),
    "PKCS12": lambda authority, path: {
        "keystore_location": pkcs12(authority, path / "broker.p12", b"open"), "keystore_password": "open",
        "key_password": "open",
        "truststore_location": trust_pkcs12(authority, path / "trust.p12"), "truststore_password": "open",
        "client_auth": "required",
    },
    "PKCS12 by its type": lambda authority, path: {
        "keystore_location": pkcs12(authority, path / "store", b"open"), "keystore_type": "PKCS12",
        "keystore_password": "open",
    },
    "PEM in the file": lambda authority, _: {**inline(authority, on_one_line=False), "client_auth": "required"},
    "PEM on one line": lambda authority, _: {**inline(authority, on_one_line=True), "client_auth": "required"},
    "an encrypted key in the file": lambda authority, _: {
        **inline(authority, on_one_line=True, name="locked"), "key_password": "sesame",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", STORES)
def test_every_kind_of_key_store_is_read(authority: Authority, tmp_path: Path, kind: str) -> None:
    keys = STORES[kind](authority, tmp_path)
    context = ssl.create_default_context(cafile=authority.ca)
    context.check_hostname = False
    if "client_auth" in keys:
        context.load_cert_chain(authority.directory / "locked.pem", password="sesame")

    async def test(served: Served, port: SecureKafkaPort) -> None:
        assert await ask(served.number, context) is not None
        if "client_auth" in keys:
            assert await ask(served.number, trusting(authority)) is None

    check(keys, test)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"keystore_location": "/no/such.pem"}, "ssl.keystore.location=/no/such.pem cannot be used: No such file"),
        ({"key_password": "wrong"}, "wrong password"),
        ({"truststore_location": "/no/such.pem"}, "ssl.truststore.location=/no/such.pem cannot be used: No such file"),
        ({"cipher_suites": "TLS_RSA_WITH_NULL_MD9"}, "ssl.cipher.suites=TLS_RSA_WITH_NULL_MD9 is no cipher suite"),
        ({"cipher_suites": "DEFAULT"}, "ssl.cipher.suites=DEFAULT is no cipher suite"),
        ({"cipher_suites": "TLS_AES_256_GCM_SHA384"}, "Python offers all of TLS 1.3's or none"),
    ],
)
def test_unusable_key_store_or_cipher_suite_is_rejected(
    authority: Authority, change: dict[str, object], expected: str
) -> None:
    with pytest.raises(ConfigError, match=f"^listener SECURE: .*{expected}"):
        tls_store(tls_keys(**{**broker_keys(authority, "locked", key_password="sesame"), **change}), print)


# ---- protocols, suites and certificates --------------------------------------------------------------------------


def test_only_the_enabled_protocols_are_offered(authority: Authority) -> None:
    modern, older = trusting(authority), trusting(authority)
    modern.minimum_version = ssl.TLSVersion.TLSv1_3
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    for enabled, served_context, rejected in (("TLSv1.2", older, modern), ("TLSv1.3", modern, older)):

        async def test(
            served: Served, port: SecureKafkaPort, good: ssl.SSLContext = served_context, bad: ssl.SSLContext = rejected
        ) -> None:
            assert await ask(served.number, good) is not None
            assert await ask(served.number, bad) is None

        check(broker_keys(authority, enabled_protocols=enabled), test)


def test_only_the_configured_cipher_suites_are_offered(authority: Authority) -> None:
    async def test(served: Served, port: SecureKafkaPort) -> None:
        answered = await ask(served.number, trusting(authority))
        assert answered is not None and answered.cipher is not None
        assert (answered.version, answered.cipher[0]) == ("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256")

    check(broker_keys(authority, cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"), test)


@pytest.mark.parametrize("client_auth", ["none", "requested", "required"])
def test_client_certificate_is_checked_as_configured(chains: Chains, client_auth: str) -> None:
    keys = {
        "keystore_location": chains.key_store, "truststore_location": chains.trust_store, "client_auth": client_auth,
    }  # fmt: skip

    async def test(served: Served, port: SecureKafkaPort) -> None:
        assert (await ask(served.number, careless()) is not None) == (client_auth != "required")
        assert await ask(served.number, careless(chains.in_time[0])) is not None
        failed = len(served.unauthenticated)
        for store in chains.refused:
            assert (await ask(served.number, careless(store)) is not None) == (client_auth == "none"), store
        reported = [each for each in served.unauthenticated[failed:] if "certificate verify failed" in each.reason]
        assert len(reported) == (0 if client_auth == "none" else len(chains.refused))
        assert any("expired" in each.reason for each in reported) == (client_auth != "none")

    check(keys, test)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("DEFAULT", r"User:OU=Shop,O=Zabka\, Inc.,CN=Ann \<ann\>"),
        (r"RULE:^.*CN=([^,<\\]*) .*$/$1/L,DEFAULT", "User:ann"),
    ],
)
def test_client_certificate_gives_the_mapped_principal(tmp_path: Path, rules: str, expected: str) -> None:
    own = Authority(tmp_path)
    own.store("broker", "/CN=broker", "DNS:localhost,IP:127.0.0.1")
    client = own.store("ann", "/CN=Ann <ann>/O=Zabka, Inc./OU=Shop")

    async def test(served: Served, port: SecureKafkaPort) -> None:
        assert await ask(served.number, trusting(own, client)) is not None
        assert await ask(served.number, trusting(own)) is not None
        assert served.principals == [expected, "User:ANONYMOUS"]

    keys = broker_keys(own, truststore_location=own.ca, client_auth="requested", principal_mapping_rules=rules)
    check(keys, test)


def test_certificate_without_a_matching_rule_is_dropped(chains: Chains) -> None:
    keys = {
        "keystore_location": chains.key_store, "truststore_location": chains.trust_store, "client_auth": "required",
        "principal_mapping_rules": "RULE:^CN=(stranger)$/$1/",
    }  # fmt: skip

    async def test(served: Served, port: SecureKafkaPort) -> None:
        assert await ask(served.number, careless(chains.in_time[0])) is None
        (failed,) = served.unauthenticated
        assert (failed.mechanism, failed.cause) == ("TLS", "unmapped_certificate")
        assert failed.reason == "No rules apply to CN=valid, ssl.principal.mapping.rules=RULE:^CN=(stranger)$/$1/"
        assert served.requests == []

    check(keys, test)


def test_reloaded_store_applies_to_new_connections_only(authority: Authority, tmp_path: Path) -> None:
    """A modified key store is loaded, and a connection that is already open stays."""
    authority.store("renewed", "/CN=broker", "DNS:localhost,IP:127.0.0.1")
    path = tmp_path / "broker.pem"
    path.write_bytes((authority.directory / "broker.pem").read_bytes())

    async def serial_number(number: int) -> str:
        _, writer = await asyncio.open_connection("127.0.0.1", number, ssl=trusting(authority))
        writer.close()
        return str(writer.get_extra_info("ssl_object").getpeercert()["serialNumber"])

    async def test(served: Served, port: SecureKafkaPort) -> None:
        stores = OpenStores(None, served.failures.append, lambda line: None)
        keys = {"SECURE": tls_keys(keystore_location=path)}
        stores.load(keys["SECURE"])
        stores.opened(port)
        before = await serial_number(served.number)
        reader, writer = await asyncio.open_connection("127.0.0.1", served.number, ssl=trusting(authority))
        path.write_bytes((authority.directory / "renewed.pem").read_bytes())
        os.utime(path, ns=(1, 1))
        stores.reload(keys)
        assert await serial_number(served.number) != before
        writer.write(PLAIN)
        assert await reader.readexactly(4)
        writer.close()
        assert served.failures == []

    check({"keystore_location": path}, test)


# ---- bad clients -------------------------------------------------------------------------------------------------


async def raw(number: int, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", number)
    writer.write(data)
    return reader, writer


async def dropped(number: int, data: bytes) -> None:
    """Send these bytes without TLS, and wait until the broker closes the connection."""
    reader, writer = await raw(number, data)
    with suppress(OSError):
        await reader.read()
    writer.close()


PLAIN = encode_request(1, "shop", request(ApiKey.API_VERSIONS, 0))
BAD = {
    "a client without TLS": (PLAIN, "no TLS handshake", "no_tls"),
    "an HTTP request": (b"GET / HTTP/1.1\r\n\r\n", "no TLS handshake", "no_tls"),
    "garbage in a record": (b"\x16\x03\x01\x00\x10" + bytes(range(100, 116)), "SSL", "handshake_failed"),
    "half of a record, then zeros": (b"\x16\x03\x01" + bytes(4096), "SSL", "handshake_failed"),
}


@pytest.mark.parametrize("kind", BAD)
def test_client_without_a_handshake_is_dropped_and_reported(authority: Authority, kind: str) -> None:
    data, expected, cause = BAD[kind]

    async def test(served: Served, port: SecureKafkaPort) -> None:
        await dropped(served.number, data)
        await until(lambda: bool(served.unauthenticated))
        (failed,) = served.unauthenticated
        assert (failed.mechanism, failed.host, failed.cause) == ("TLS", "127.0.0.1", cause)
        assert str(failed).startswith("TLS handshake failed on the listener SECURE: ") and expected in failed.reason
        assert await ask(served.number, trusting(authority)) is not None
        assert served.failures == [] and len(served.requests) == 1

    check(broker_keys(authority), test)


def old_protocol() -> ssl.SSLContext:
    context = careless()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


REFUSED: dict[str, Callable[[Chains], ssl.SSLContext]] = {
    "no_certificate": lambda chains: careless(),
    "expired_certificate": lambda chains: careless(chains.refused[0]),
    "early_certificate": lambda chains: careless(chains.refused[2]),
    "untrusted_certificate": lambda chains: careless(chains.refused[-1]),
    "no_common_parameters": lambda chains: old_protocol(),
}


@pytest.mark.parametrize("cause", REFUSED)
def test_failed_handshake_has_its_cause(chains: Chains, cause: str) -> None:
    keys = {
        "keystore_location": chains.key_store,
        "truststore_location": chains.trust_store,
        "client_auth": "required",
        "enabled_protocols": "TLSv1.3",
    }

    async def test(served: Served, port: SecureKafkaPort) -> None:
        assert await ask(served.number, REFUSED[cause](chains)) is None
        await until(lambda: bool(served.unauthenticated))
        assert [failed.cause for failed in served.unauthenticated] == [cause] and served.broken == []
        assert await ask(served.number, careless(chains.in_time[0])) is not None

    check(keys, test)


def test_alert_of_the_client_is_a_cause_of_its_own(authority: Authority, chains: Chains) -> None:
    """The client rejects the broker's certificate.  asyncio closes without an alert, so a blocking client is used."""
    wary = ssl.create_default_context(cafile=chains.trust_store)

    def connect(number: int) -> None:
        with socket.create_connection(("127.0.0.1", number), 10) as client, pytest.raises(ssl.SSLError):
            wary.wrap_socket(client, server_hostname="localhost")

    async def test(served: Served, port: SecureKafkaPort) -> None:
        await asyncio.to_thread(connect, served.number)
        await until(lambda: bool(served.unauthenticated))
        assert [failed.cause for failed in served.unauthenticated] == ["rejected_by_client"]

    check(broker_keys(authority), test)


def test_client_that_only_connects_is_no_failed_authentication(authority: Authority) -> None:
    async def test(served: Served, port: SecureKafkaPort) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", served.number)
        writer.close()
        await until(lambda: bool(served.broken))
        assert served.broken == ["TLS handshake failed on the listener SECURE: closed before the TLS handshake"]
        assert served.unauthenticated == []

    check(broker_keys(authority), test)


def test_handshake_on_a_plain_listener_is_reported(authority: Authority) -> None:
    async def test() -> None:
        async with serving() as (served, _):
            assert await ask(served.number, careless()) is None
            assert served.broken == ["a TLS handshake on the plain listener PLAINTEXT"]

    run(test)


def test_garbage_after_the_handshake_is_dropped(authority: Authority) -> None:
    async def test(served: Served, port: SecureKafkaPort) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.number, ssl=trusting(authority))
        writer.write(b"\xff" * 64)
        assert await reader.read() == b""
        writer.close()
        assert served.broken == ["invalid frame length -1"]
        assert await ask(served.number, trusting(authority)) is not None

    check(broker_keys(authority), test)


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02"], ids=["nothing", "half of a hello"])
def test_stalled_handshake_ends_in_time_and_delays_no_client(authority: Authority, sent: bytes) -> None:
    async def test(served: Served, port: SecureKafkaPort) -> None:
        _, writer = await raw(served.number, sent)
        await until(lambda: port.handshakes.handshakes == 1)
        assert await ask(served.number, trusting(authority)) is not None
        assert port.handshakes.handshakes == 1
        await until(lambda: port.handshakes.handshakes == 0)
        assert [failed.cause for failed in served.unauthenticated] == ["handshake_timeout"]
        writer.close()

    with mock.patch.object(secure_kafka_port, "HANDSHAKE_TIMEOUT_MS", 400):
        check(broker_keys(authority), test)


def test_stalled_handshakes_are_limited_by_address(authority: Authority) -> None:
    async def test(served: Served, port: SecureKafkaPort) -> None:
        stalled = [await raw(served.number, b"\x16\x03\x01") for _ in range(2)]
        await until(lambda: port.handshakes.handshakes == 2)
        assert await ask(served.number, trusting(authority)) is None
        assert served.broken == ["too many TLS handshakes in progress on the listener SECURE"]
        for _, writer in stalled:
            writer.close()
        await until(lambda: port.handshakes.handshakes == 0)
        assert await ask(served.number, trusting(authority)) is not None

    with mock.patch.object(secure_kafka_port, "HANDSHAKES_PER_ADDRESS_MAX", 2):
        check(broker_keys(authority), test)


def test_client_over_its_connection_limit_begins_no_handshake(authority: Authority) -> None:
    async def test(served: Served, port: SecureKafkaPort) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", served.number, ssl=trusting(authority))
        await until(lambda: len(port.connections) == 1)
        with mock.patch.object(port, "connection", side_effect=AssertionError):
            assert await ask(served.number, trusting(authority)) is None
        writer.close()
        await until(lambda: not port.connections)
        assert await ask(served.number, trusting(authority)) is not None

    check(broker_keys(authority), test, ConnectionLimits(per_address=1))


def test_bad_clients_leave_no_file_descriptor_open(authority: Authority, chains: Chains) -> None:
    keys = {"keystore_location": chains.key_store, "truststore_location": chains.trust_store, "client_auth": "required"}

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    async def test(served: Served, port: SecureKafkaPort) -> None:
        counts: list[int] = []
        for _ in range(3):
            for data, *_ in BAD.values():
                await dropped(served.number, data)
            assert await ask(served.number, careless()) is None
            assert await ask(served.number, careless(chains.refused[0])) is None
            assert await ask(served.number, careless(chains.in_time[0])) is not None
            _, writer = await raw(served.number, b"\x16\x03")
            writer.close()
            await until(lambda: not port.connections and not port.handshakes.handshakes)
            await asyncio.sleep(0.01)
            counts.append(descriptors())
        assert counts[0] >= counts[-1]

    check(keys, test)


# ---- faults ------------------------------------------------------------------------------------------------------


def test_link_fault_delays_a_client_with_tls(authority: Authority) -> None:
    async def test(served: Served, port: SecureKafkaPort) -> None:
        links = ClientLinks("client", first_client, lambda event: None)

        def hold(*faults: Any) -> None:
            links.apply(FaultTable(list(faults), "broker-1"))
            port.hold_links(links)

        hold(HeldFault("client:shop", "*", "cut", id="f1"))
        asking = asyncio.ensure_future(ask(served.number, trusting(authority)))
        done, _ = await asyncio.wait((asking,), timeout=0.2)
        assert not done and not served.requests
        hold()
        assert await asking is not None

    check(broker_keys(authority), test)


# ---- the broker's process ----------------------------------------------------------------------------------------


def process_with(directory: Path, events: list[Event], **keys: object) -> BrokerProcess:
    config = config_from(
        {
            **LEAST,
            "listeners": "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
            "advertised.listeners": "SECURE://outside:0,PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(directory),
            **{f"ssl.{key.replace('_', '.')}": str(value) for key, value in keys.items()},
        }
    )
    journal = cast(Any, SimpleNamespace(write=events.append, flush=lambda: None, high_watermarks_reached=dict))
    return BrokerProcess(config, host_environment(structlog.get_logger(), journal))


def test_process_serves_both_protocols_and_journals_bad_clients(authority: Authority, tmp_path: Path) -> None:
    async def test() -> None:
        events: list[Event] = []
        process = process_with(tmp_path, events, **broker_keys(authority))
        advertised = await process._listen()
        ports = {each.name: each.port for each in advertised}
        plain, secure = process._ports
        assert advertised == [
            Listener("SECURE", "outside", ports["SECURE"], "SSL"),
            Listener("PLAINTEXT", "127.0.0.1", ports["PLAINTEXT"]),
        ]
        assert type(plain) is KafkaPort and type(secure) is SecureKafkaPort
        _, writer = await asyncio.open_connection("127.0.0.1", ports["SECURE"], ssl=trusting(authority))
        await until(lambda: len(secure.connections) == 1)
        writer.close()
        assert await ask(ports["PLAINTEXT"], careless()) is None
        await dropped(ports["SECURE"], PLAIN)
        await until(lambda: len(events) == 2)
        broken, failed = events
        assert isinstance(broken, PeerProtocolBroken)
        assert broken.reason == "a TLS handshake on the plain listener PLAINTEXT"
        assert failed == AuthenticationFailed(1, "SECURE", "TLS", "127.0.0.1", "no_tls")
        await until(lambda: not secure.connections)
        for port in process._ports:
            await port.close()
        await asyncio.sleep(0.01)

    run(test)


def test_reason_of_a_failed_login_is_a_short_field(tmp_path: Path) -> None:
    async def test() -> None:
        events: list[Event] = []
        process = process_with(tmp_path, events, keystore_location="/no/such.pem")
        with capture_logs() as logs:
            process._authentication_failed(Endpoint(2, "b", 9092), "wrong\n[error] forged" + "x" * 1_000)
        (line,) = logs
        assert line["event"] == "Connection to node 2 (b:9092) failed authentication"
        assert line["reason"].startswith("wrong\n[error] forged") and len(line["reason"]) == 260
        (broken,) = events
        assert isinstance(broken, PeerProtocolBroken)
        assert broken.reason == f"authentication failed: {line['reason']}"

    run(test)


def test_process_with_an_unreadable_store_opens_no_tls_listener(tmp_path: Path) -> None:
    async def test() -> None:
        process = process_with(tmp_path, [], keystore_location="/no/such.pem")
        with pytest.raises(ConfigError, match=r"^listener SECURE: ssl.keystore.location=/no/such.pem cannot be used"):
            await process._listen()
        assert len(process._ports) == 1
        await process._ports[0].close()

    run(test)
