"""Brokers that connect to each other with short tokens of an issuer, as our command line and librdkafka do."""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from bench.free_ports import free_ports
from tests.broker_sim.sasl.token_cases import key_set, signed
from tests.interop.interop_brokers import BrokerCluster, broker_cluster
from tests.interop.kafka_tools import called
from zabka.broker_sim.configs.login_keys import FETCHED_LOGINS
from zabka.broker_sim.configs.oauth_keys import LOGIN_MODULE, SIGNED_HANDLERS
from zabka.cli import topics

TOPIC, SECRET, TOKEN_S = "orders", "hidden-secret", 8
OWN = "listener.name.secure.oauthbearer."
LOGIN = 'clientId="broker"'
HANDLER, URL = "sasl.login.callback.handler.class", "sasl.oauthbearer.token.endpoint.url"


class Issuer:
    """Issues tokens to clients by their ids, with a key that is not in the key set for `stranger`."""

    def __init__(self) -> None:
        issuer = self
        self.tokens: list[str] = []
        self.issued: Counter[str] = Counter()

        # Make the keys before the threads serve them: two threads at once would make different ones.
        keys = key_set()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply(keys)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                name, _, secret = (
                    b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode().partition(":")
                )
                assert secret == SECRET
                self.reply(json.dumps({"access_token": issuer.token(name), "expires_in": TOKEN_S}).encode())

            def reply(self, body: bytes) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def token(self, name: str) -> str:
        """Return a token of a client, and count it."""
        key = "other" if name == "stranger" else "ec"
        self.issued[name] += 1
        self.tokens.append(signed(int(time.time()), key, "ES256", sub=name, exp=TOKEN_S))
        return self.tokens[-1]


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.server.shutdown()
    made.server.server_close()


def login(user: str, url: str, prefix: str = "") -> dict[str, object]:
    return {
        f"{prefix}sasl.jaas.config": f'{LOGIN_MODULE} required {user} clientSecret="{SECRET}";',
        f"{prefix}{HANDLER}": FETCHED_LOGINS[0],
        f"{prefix}{URL}": f"{url}/token",
    }


def test_brokers_replicate_with_tokens_that_they_replace(issuer: Issuer, tmp_path: Path) -> None:
    """Broker 2 comes back with tokens of an unknown key: it is refused, and leaves the ISR."""
    settings = {
        "listeners": "SECURE://127.0.0.1:{port}",
        "listener.security.protocol.map": "SECURE:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SECURE",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        f"{OWN}sasl.server.callback.handler.class": SIGNED_HANDLERS[0],
        f"{OWN}sasl.oauthbearer.jwks.endpoint.url": f"{issuer.url}/keys",
        **login(LOGIN, issuer.url, OWN),
    }
    with broker_cluster(tmp_path, free_ports(2), **settings) as cluster:
        client = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
        ours = tmp_path / "client.properties"
        lines = {**client, **login("clientId=admin", issuer.url)}
        ours.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        use = ("--bootstrap-server", cluster.bootstrap, "--command-config", str(ours))
        made = called(topics.main, *use, "--create", "--topic", TOPIC, "--replica-assignment", "1:2")
        assert (made.code, made.err) == (0, "")

        clients = {
            **client, "bootstrap.servers": cluster.bootstrap, "log_level": 0,
            "oauth_cb": lambda _: (issuer.token("shop"), time.time() + TOKEN_S),
        }  # fmt: skip
        producer, admin = Producer({**clients, "acks": "all"}), AdminClient(clients)
        admin.poll(0)

        def isr() -> set[int]:
            return set(admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0].isrs)

        def send(count: int) -> None:
            failed: list[object] = []
            for _ in range(count):
                producer.produce(TOPIC, b"x", on_delivery=lambda error, _: failed.append(error) if error else None)
            assert producer.flush(30) == 0 and failed == []

        send(1)
        # Each broker has replaced its token twice, so connections have authenticated again.
        cluster.until(lambda: issuer.issued["broker"] >= 6)
        send(1)
        assert isr() == {1, 2} and issuer.issued["admin"] == 1
        refuse(cluster, issuer)
        cluster.until(lambda: isr() == {1})
        send(1)
        check_secrecy(cluster, issuer)


def refuse(cluster: BrokerCluster, issuer: Issuer) -> None:
    """Restart broker 2 with another client of the issuer, and wait until broker 1 has refused it."""
    broker = cluster.brokers[2]
    broker.kill()
    config = broker.home / "server.properties"
    config.write_text(config.read_text().replace(LOGIN, 'clientId="stranger"'))
    broker.start()
    cluster.until(lambda: 'reason=\'{"status":"invalid_token"}\'' in broker.output())
    assert issuer.issued["stranger"] >= 1
    assert any("authentication failed" in event["reason"] for event in broker.events("peer_protocol_broken"))


def check_secrecy(cluster: BrokerCluster, issuer: Issuer) -> None:
    """Check that no log and no journal contains a token or the secret."""
    written = "".join(
        file.read_text(errors="replace")
        for broker in cluster.brokers.values()
        for file in broker.home.rglob("*")
        if file.is_file() and file.suffix in (".log", ".jsonl")
    )
    assert "authentication failed" in written and SECRET not in written
    assert not any(part in written for token in issuer.tokens for part in token.split("."))
