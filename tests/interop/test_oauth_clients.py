"""Clients over SASL_SSL with signed tokens of OAUTHBEARER and with SCRAM, on a broker with ACLs.

The issuer's keys are fetched over HTTP, and change while the broker runs.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from bench.free_ports import free_ports
from tests.broker_sim.sasl.token_cases import key_set, signed
from tests.ensemble.server.pem_files import Authority, needs_openssl
from tests.interop.interop_brokers import BrokerCluster, broker_cluster
from tests.interop.kafka_jars import classpath
from tests.interop.kafka_tools import Output, ToolServer
from zabka.broker_sim.configs.authorizer_keys import AUTHORIZER_CLASS
from zabka.broker_sim.configs.oauth_keys import SIGNED_HANDLERS

pytestmark = needs_openssl
LISTENER = "listener.name.clients."
ISSUER, AUDIENCE = "https://issuer.example", "kafka"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
TOKEN_S = 4


class Issuer:
    """An HTTP server with the issuer's keys. `key_set` is its response, and `served` counts the requests."""

    def __init__(self) -> None:
        issuer = self
        self.key_set = b""
        self.served = 0

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.served += 1
                self.send_response(200)
                self.end_headers()
                self.wfile.write(issuer.key_set)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Secured:
    """A broker with the listener CLIENTS, and the issuer of its clients' tokens."""

    def __init__(
        self, cluster: BrokerCluster, issuer: Issuer, authority: Authority, bootstrap: str, home: Path
    ) -> None:
        self.cluster, self.issuer, self.bootstrap, self.home = cluster, issuer, bootstrap, home
        self.ca = str(authority.ca)
        self.tokens: list[str] = []

    def token(self, user: str, lifetime_s: int) -> str:
        token = signed(int(time.time()), "ec", "ES256", sub=user, exp=lifetime_s, iss=ISSUER, aud=AUDIENCE)
        self.tokens.append(token)
        return token

    def everything_written(self) -> str:
        """Return the logs and journals of the broker."""
        return "".join(
            file.read_text(errors="replace")
            for broker in self.cluster.brokers.values()
            for file in broker.home.rglob("*")
            if file.is_file() and file.suffix in (".log", ".jsonl")
        )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    authority = Authority(tmp_path_factory.mktemp("ssl"))
    plain, port = free_ports(2)
    issuer = Issuer()
    rsa_only = [key for key in json.loads(key_set())["keys"] if key["kid"] == "rsa"]
    issuer.key_set = json.dumps({"keys": rsa_only}).encode()
    listeners = f"PLAINTEXT://127.0.0.1:{plain},CLIENTS://localhost:{port}"
    options = {
        "listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_SSL",
        "ssl.keystore.location": authority.store("broker", "/CN=broker", "DNS:localhost"),
        f"{LISTENER}sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-512",
        f"{LISTENER}oauthbearer.sasl.server.callback.handler.class": SIGNED_HANDLERS[0],
        f"{LISTENER}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": issuer.url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "authorizer.class.name": AUTHORIZER_CLASS,
        "super.users": "User:ANONYMOUS;User:admin",
        "default.replication.factor": 1,
        "offsets.topic.replication.factor": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    home = tmp_path_factory.mktemp("brokers")
    with broker_cluster(home, [plain], **options) as cluster:
        yield Secured(cluster, issuer, authority, f"localhost:{port}", home)
    issuer.server.shutdown()
    issuer.server.server_close()


def test_client_renews_its_session_with_new_tokens(secured: Secured) -> None:
    """The broker does not know the issuer's new key at first. A token is valid for four seconds."""
    secured.issuer.key_set = key_set()
    errors: list[confluent_kafka.KafkaError] = []

    def token(_: str) -> tuple[str, float]:
        return secured.token("admin", TOKEN_S), time.time() + TOKEN_S

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": secured.bootstrap, "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER",
            "ssl.ca.location": secured.ca, "oauth_cb": token, "error_cb": errors.append, "log_level": 0,
            "broker.address.family": "v4",
        }
    )  # fmt: skip
    delivered: list[confluent_kafka.KafkaError | None] = []

    def has_renewed() -> bool:
        producer.produce("renewed", b"x", on_delivery=lambda error, _: delivered.append(error))
        producer.poll(0.2)
        return len(secured.tokens) >= 4 and len(delivered) >= 10

    secured.cluster.until(has_renewed, within_s=60)
    assert producer.flush(30) == 0 and set(delivered) == {None}
    assert any("invalid_token" in error.str() for error in errors)
    assert secured.issuer.served == 2
    written = secured.everything_written()
    assert "invalid_token: no key of the issuer has the id 'ec'" in written
    assert not any(part in written for token in secured.tokens for part in token.split("."))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_java_tools_use_tokens_and_scram_over_tls(secured: Secured, tmp_path: Path) -> None:
    """An admin with SCRAM grants permissions to alice, who has a signed token."""
    classpath()
    secured.issuer.key_set = key_set()
    admin = AdminClient({"bootstrap.servers": secured.cluster.bootstrap})
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion("admin", credential, b"secret")])["admin"].result(
        30
    )
    (tmp_path / "token").write_text(secured.token("alice", 600))
    common = f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={secured.ca}\n"
    scram = f'{SCRAM_MODULE} required username="admin" password="secret";'
    (tmp_path / "admin").write_text(f"{common}sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={scram}\n")
    (tmp_path / "alice").write_text(
        f"{common}sasl.mechanism=OAUTHBEARER\nsasl.jaas.config={OAUTH_MODULE} required;\n"
        f"sasl.oauthbearer.token.endpoint.url={(tmp_path / 'token').as_uri()}\n"
        "sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
    )
    tools = ToolServer(tmp_path)

    def run(tool: str, option: str, user: str, *arguments: str, stdin: str = "") -> Output:
        config = (option, str(tmp_path / user))
        return tools.run(tool, "--bootstrap-server", secured.bootstrap, *config, *arguments, stdin=stdin)

    try:
        made = run("topics", "--command-config", "admin", "--create", "--topic", "orders")
        assert (made.code, made.err) == (0, "")
        consume = ("--topic", "orders", "--group", "shop", "--from-beginning", "--max-messages", "2")
        assert run("console-consumer", "--consumer.config", "alice", *consume).out == ""
        (broker,) = secured.cluster.brokers.values()
        secured.cluster.until(lambda: "User:alice" in str(broker.events("authorization_denied")))
        for permission in ("--producer", "--consumer"):
            group = ("--group", "shop") if permission == "--consumer" else ()
            what = ("--add", "--allow-principal", "User:alice", permission, "--topic", "orders", *group)
            granted = run("acls", "--command-config", "admin", *what)
            assert (granted.code, granted.err) == (0, "")
        listed = run("acls", "--command-config", "admin", "--list", "--topic", "orders").out
        assert listed.count("principal=User:alice") == 4
        sent = run("console-producer", "--producer.config", "alice", "--topic", "orders", stdin="one\ntwo\n")
        assert (sent.code, sent.err) == (0, "")
        assert run("console-consumer", "--consumer.config", "alice", *consume).out == "one\ntwo\n"
    finally:
        tools.close()
