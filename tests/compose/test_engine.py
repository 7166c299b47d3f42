"""The composition with a real container engine: the README's first steps, and how the API reports failed containers.

`make test-compose` runs these tests one after the other on one composition, which takes minutes. They publish the
README's ports, so no other cluster may run on this machine at the same time. Without an engine (`engine`) they are
skipped with the reason, or fail in CI.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.compose.test_containers import NODES, ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

FILE = ("compose", "-p", "zabka-test", "-f", "compose/compose.yaml")
SEEN_S = 3.0
BACK_S = 60.0


def docker(*arguments: str, timeout_s: float = 600) -> str:
    done = subprocess.run(
        ["docker", *arguments], cwd=ROOT, check=False, capture_output=True, text=True, timeout=timeout_s
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def api(container_engine: None) -> Iterator[httpx.Client]:
    """Build and start a composition without earlier volumes, and yield an HTTP client of its API."""
    docker(*FILE, "down", "--volumes")
    try:
        docker(*FILE, "up", "--build", "--wait", timeout_s=900)
        with asking() as client:
            yield client
    finally:
        docker(*FILE, "down", "--volumes")


@contextlib.contextmanager
def asking() -> Iterator[httpx.Client]:
    """Yield an HTTP client of the running composition's API, with its token."""
    token = docker(*FILE, "exec", "-T", "api", "cat", "/data/token").strip()
    with httpx.Client(
        base_url="http://127.0.0.1:8080/api/v1",
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
        timeout=10,
    ) as client:
        yield client


def container(service: str) -> str:
    return f"zabka-test-{service}-1"


def until(condition: Callable[[], bool], within_s: float) -> float:
    """Wait until the condition is true, and return how many seconds the wait took."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < within_s
        time.sleep(0.05)
    return time.monotonic() - begin


def process(api: httpx.Client, service: str) -> str:
    kind, _, number = service.partition("-")
    return str(api.get(f"/{kind}s/{number}").json()["process"])


def healthy(service: str) -> bool:
    return docker("inspect", "--format", "{{.State.Health.Status}}", container(service)).strip() == "healthy"


def test_every_container_is_healthy(api: httpx.Client) -> None:
    listed = docker(*FILE, "ps", "--format", "{{.Service}} {{.Health}}").split("\n")
    assert sorted(line for line in listed if line) == sorted(f"{name} healthy" for name in ("api", *NODES))


def test_node_image_is_smaller_than_250_mb(api: httpx.Client) -> None:
    assert int(docker("image", "inspect", "--format", "{{.Size}}", "zabka")) < 250_000_000


def test_clients_inside_and_outside_containers_share_records(api: httpx.Client) -> None:
    from confluent_kafka import Consumer, Producer

    docker(*FILE, "exec", "-T", "api", "zabka", "topics", "--create", "--topic", "orders", "--replication-factor", "3")
    addresses = [broker["external"] for broker in api.get("/brokers").json()]
    assert addresses == ["127.0.0.1:9092", "127.0.0.1:9093", "127.0.0.1:9094"]
    servers = {"bootstrap.servers": ",".join(addresses)}
    producer = Producer({**servers, "acks": "all"})
    for number in range(100):
        producer.produce("orders", b"%d" % number)
    assert producer.flush(30) == 0
    consumer = Consumer({**servers, "group.id": "outside", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    values: list[int] = []
    until(lambda: _take(consumer, values) == 100, BACK_S)
    consumer.close()
    assert sorted(values) == list(range(100))


def _take(consumer: Any, values: list[int]) -> int:
    values += [int(m.value()) for m in consumer.consume(100, 0.2) if m.error() is None]
    return len(values)


@pytest.mark.parametrize("service", ["broker-2", "peer-3"])
def test_killed_container_is_shown_within_three_seconds(api: httpx.Client, service: str) -> None:
    docker("kill", container(service))
    until(lambda: process(api, service) == "unknown", SEEN_S)
    kind, _, number = service.partition("-")
    refused = api.post(f"/{kind}s/{number}/start")
    assert refused.status_code == 503 and f"docker compose start {service}" in refused.json()["detail"]
    docker("start", container(service))
    until(lambda: process(api, service) == "running", BACK_S)


@pytest.mark.parametrize("service", ["broker-1", "peer-2"])
def test_paused_container_is_shown_within_three_seconds(api: httpx.Client, service: str) -> None:
    docker("pause", container(service))
    try:
        until(lambda: process(api, service) == "unknown", SEEN_S)
    finally:
        docker("unpause", container(service))
    until(lambda: process(api, service) == "running", SEEN_S)
    # Docker reports a paused container as unhealthy until its next probe.
    until(lambda: healthy(service), BACK_S)


@pytest.mark.parametrize("service", ["broker-3", "peer-1"])
def test_disconnected_container_is_shown_within_three_seconds(api: httpx.Client, service: str) -> None:
    docker("network", "disconnect", "zabka-test_default", container(service))
    try:
        until(lambda: process(api, service) == "unknown", SEEN_S)
    finally:
        docker("network", "connect", "--alias", service, "zabka-test_default", container(service))
    until(lambda: process(api, service) == "running", BACK_S)


def test_node_killed_over_http_leaves_its_container_running(api: httpx.Client) -> None:
    assert api.post("/brokers/2/kill").status_code == 202
    assert process(api, "broker-2") == "down"
    assert docker("inspect", "--format", "{{.State.Running}}", container("broker-2")).strip() == "true"
    assert api.post("/brokers/2/start").status_code == 202


@pytest.mark.parametrize("service", ["broker-2", "peer-2", "api"])
def test_stopped_container_exits_with_code_0(api: httpx.Client, service: str) -> None:
    docker(*FILE, "stop", service)
    assert docker("inspect", "--format", "{{.State.ExitCode}}", container(service)).strip() == "0"
    docker(*FILE, "up", "--wait", service)


def test_data_survives_container_recreation(api: httpx.Client) -> None:
    docker(*FILE, "down")
    docker(*FILE, "up", "--wait")
    output = docker(*FILE, "exec", "-T", "api", "zabka", "get-offsets", "--topic", "orders")
    assert sum(int(line.rpartition(":")[2]) for line in output.split()) == 100
