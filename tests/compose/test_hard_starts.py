"""Difficult starts of the composition with a real engine: with data of an earlier version, and on a busy machine.

`make test-compose` runs these too (see `test_engine`). The earlier version is built from this repository's history.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.compose.test_containers import NODES, ROOT
from tests.compose.test_engine import BACK_S, FILE, asking, container, docker, healthy, until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

EARLIER = os.environ.get("ZABKA_TEST_EARLIER", "10a502713c2409ce2be651e2d54f8dccfd4b32a9")
"""First commit with working containers and these volumes. Its users must be able to upgrade."""
SERVERS = "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
UP_S = 900.0


@pytest.fixture(scope="module", autouse=True)
def volumes(container_engine: None) -> Iterator[None]:
    """Delete the volumes of an earlier composition, and the test's volumes at its end."""
    docker(*FILE, "down", "--volumes")
    yield
    docker(*FILE, "down", "--volumes")


def earlier(directory: Path) -> Path:
    """Return the composition file of the earlier version, next to everything that it is built from."""
    packed = directory / "earlier.tar"
    done = subprocess.run(["git", "archive", "-o", str(packed), EARLIER], cwd=ROOT, check=False, capture_output=True)
    if done.returncode:
        output = done.stderr.decode().strip()
        if "CI" in os.environ:
            pytest.fail(output)
        pytest.skip(f"this clone lacks the earlier version: {output}")
    subprocess.run(["tar", "-C", str(directory), "-xf", str(packed)], check=True)
    return directory / "compose" / "compose.yaml"


def produce(values: range) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": SERVERS, "acks": "all"})
    for value in values:
        producer.produce("orders", b"%d" % value)
    assert producer.flush(30) == 0


def records(count: int) -> list[int]:
    """Return the first `count` records of the topic."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": SERVERS, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition("orders", 0, 0)])
    values: list[int] = []

    def read() -> bool:
        values.extend(int(m.value() or b"") for m in consumer.consume(count, 0.2) if m.error() is None)
        return len(values) >= count

    until(read, BACK_S)
    consumer.close()
    return values


def elected(api: httpx.Client) -> list[int]:
    """Return the epochs of all controller elections in the API's history."""
    events = api.get("/journal", params={"limit": 10_000}).json()
    return [event["controller_epoch"] for event in events if event["type"] == "controller_elected"]


def test_upgrade_of_the_image_keeps_records_and_history(tmp_path: Path) -> None:
    file = ("compose", "-p", "zabka-test", "-f", str(earlier(tmp_path)))
    docker(*file, "up", "--build", "--wait", timeout_s=UP_S)
    create = ("zabka", "topics", "--create", "--topic", "orders", "--partitions", "1", "--replication-factor", "3")
    docker(*file, "exec", "-T", "api", *create)
    produce(range(100))
    assert records(100) == list(range(100))
    with asking() as api:
        epochs = elected(api)
    image = docker("image", "inspect", "--format", "{{.Id}}", "zabka")
    docker(*FILE, "up", "--build", "--wait", timeout_s=UP_S)
    assert docker("image", "inspect", "--format", "{{.Id}}", "zabka") != image
    produce(range(100, 150))
    assert records(150) == list(range(150))
    with asking() as api:
        assert epochs and elected(api)[: len(epochs)] == epochs


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """Run a busy loop on every core."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_containers_start_while_every_core_is_busy() -> None:
    docker(*FILE, "down", "--volumes")
    docker(*FILE, "build", timeout_s=UP_S)
    with busy_cores():
        docker(*FILE, "up", "--wait", timeout_s=UP_S)
        names = ("api", *NODES)
        assert [name for name in names if not healthy(name)] == []
        started = docker("inspect", "--format", "{{.RestartCount}}", *(container(name) for name in names))
        assert started.split() == ["0"] * len(names)
