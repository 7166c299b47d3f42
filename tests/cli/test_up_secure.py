"""A cluster of `zabka up --secure`: its clients, its refusals, its secrets, and its restart."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from zabka.agent.http_call import NoAnswer, call
from zabka.compose.healthcheck import trouble
from zabka.compose.secured_nodes import read_users
from zabka.compose.status import read_status
from zabka.ensemble.client.aio import connect
from zabka.ensemble.server.config.client_context import client_context
from zabka.ensemble.server.config.tls_stores import Store

PORTS = ("--peers", "1", "--brokers", "2", "--port", "0", "--zk-port", "0", "--kafka-port", "0")
QUICK = ("--set", "group.initial.rebalance.delay.ms=0")
REFUSED_S = 2.0
RECORD = b"paid"


@contextmanager
def cluster(data: Path, *options: str) -> Iterator[str]:
    """Run `zabka up` until the block ends, and yield the page's URL. Check that it stops without an error."""
    process = subprocess.Popen(
        [sys.executable, "-m", "zabka.cli.main", "up", "--data", str(data), *PORTS, *QUICK, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "ZABKA_PARENT": str(os.getpid())},
    )
    assert process.stdout is not None
    output = ""
    for line in process.stdout:
        output += line
        if "zabka is ready" in line:
            break
    found = re.search(r"zabka is ready: (\S+)", output)
    assert found, output
    pids = [each["pid"] for each in (read_status(data) or {})["processes"]]
    try:
        yield found[1]
    finally:
        process.send_signal(signal.SIGINT)
        with process.stdout:
            process.stdout.read()
        assert process.wait(30) == 0
    assert len(pids) == 4 and not any(Path(f"/proc/{pid}").exists() for pid in pids)


def zabka(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zabka.cli.main", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def consumed(settings: dict[str, str], group: str = "shop") -> bytes | None:
    consumer = Consumer({**settings, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    try:
        message = consumer.poll(30)
        return None if message is None or message.error() else message.value()
    finally:
        consumer.close()


def check_clients(data: Path, settings: dict[str, str], tmp_path: Path) -> None:
    """Produce and consume with both client settings, and with wrong and without credentials."""
    bootstrap, config = settings["bootstrap.servers"], str(data / "client.properties")
    create = ("--create", "--topic", "orders", "--replication-factor", "2")
    made = zabka("topics", "--bootstrap-server", bootstrap, "--command-config", config, *create)
    assert (made.returncode, made.stdout) == (0, "Created topic orders.\n"), made.stderr
    producer = Producer(settings)
    producer.produce("orders", RECORD)
    assert producer.flush(30) == 0
    assert consumed(settings) == RECORD
    wrong = tmp_path / "wrong.properties"
    wrong.write_text(re.sub(r'password="[^"]*"', 'password="guess"', Path(config).read_text()))
    denied = zabka("topics", "--command-config", str(wrong), "--list")
    assert denied.returncode == 1 and "Authentication failed: Invalid username or password" in denied.stdout
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=REFUSED_S)
    # alice authenticates, and no ACL allows her anything yet.
    alice = ("--command-config", str(data / "security" / "alice.properties"))
    assert "orders" not in zabka("topics", *alice, "--list").stdout
    allow = ("--add", "--allow-principal", "User:alice", "--operation", "Describe", "--topic", "orders")
    assert zabka("acls", "--data", str(data), *allow).returncode == 0
    assert "orders" in zabka("topics", *alice, "--list").stdout


def check_api(data: Path, url: str) -> None:
    """Change something with and without the token, over HTTPS and without it."""
    authority, body = data / "security" / "ca.pem", json.dumps({"name": "bills", "partitions": 1}).encode()
    headers = {"content-type": "application/json"}

    def create(token: str) -> int:
        sent = {**headers, "authorization": f"Bearer {token}"}
        return call("POST", f"{url}/api/v1/topics", body, sent, timeout_s=30, authority=authority).status

    assert (create("guess"), create((data / "token").read_text().strip())) == (401, 201)
    assert trouble(int(url.rpartition(":")[2]), tls=True) == ""
    with pytest.raises(NoAnswer):
        call("GET", url.replace("https", "http"), timeout_s=REFUSED_S)


async def is_served(address: str, directory: Path, owner: str | None) -> bool:
    """Return whether a peer serves a client that trusts the authority and presents the certificate of `owner`."""
    own = None if owner is None else Store(directory / f"{owner}.pem", "PEM", "")
    context = client_context(Store(directory / "ca.pem", "PEM", ""), own)
    try:
        async with asyncio.timeout(REFUSED_S), connect(address, ssl_context=context) as client:
            return "controller" in await client.get_children("/")
    except TimeoutError:
        return False


def check_peers(address: str, directory: Path) -> None:
    assert asyncio.run(is_served(address, directory, "admin"))
    assert not asyncio.run(is_served(address, directory, None))


def check_secrets(data: Path) -> None:
    """Only files that must contain passwords contain them: not the logs, the journals or the API's files."""
    passwords = [password.encode() for password in read_users(data / "security").values()]
    holding = {
        path.relative_to(data).as_posix()
        for path in data.rglob("*")
        if path.is_file() and any(password in path.read_bytes() for password in passwords)
    }
    kept = {f"broker-{number}/server.properties" for number in (1, 2)} | {"client.properties", "client.json"}
    assert {name for name in holding if not name.startswith("security/")} == kept


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")
def test_secured_cluster_serves_only_authenticated_clients(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with cluster(data, "--secure") as url:
        settings = json.loads((data / "client.json").read_text())
        status = read_status(data)
        assert status is not None and status["health"]["quorum"]
        check_clients(data, settings, tmp_path)
        check_api(data, url)
        check_peers(status["zookeeper_connect"], data / "security")
        check_secrets(data)
    with cluster(data):
        # The second start keeps the security, the users, the ACLs and the records.
        assert json.loads((data / "client.json").read_text()) == settings
        assert consumed(settings, group="again") == RECORD
        alice = ("--command-config", str(data / "security" / "alice.properties"))
        assert "orders" in zabka("topics", *alice, "--list").stdout
