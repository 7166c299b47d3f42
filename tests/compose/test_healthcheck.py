"""Health of a container: what the agent reports about its host, and the cost of a probe in CPU time."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from zabka.compose import healthcheck
from zabka.compose.agent import create_app
from zabka.compose.host import STALE_MS, Host
from zabka.compose.plan import Requested, plan

INTERPRETERS_MAX = 3
"""Maximum CPU time of a probe, relative to a Python interpreter that does nothing.

A probe takes 1.3 times as long, or 5 times if it imports an HTTP client.
"""


class Link:
    """Fake control link: the node's last status, and its age."""

    def __init__(self, age_ms: int = 0, **status: Any) -> None:
        self.status = status
        self._age_ms = age_ms

    def age_ms(self) -> int:
        return self._age_ms


class RunningHost(Host):
    """Host whose processes all run. The last reported statuses of its nodes are preset; `set_link` changes them."""

    def __init__(self, tmp_path: Path) -> None:
        topology = plan(Requested(peers=1, brokers=1, zk_port=0, kafka_port=0, api_port=0), None)
        super().__init__(topology, topology.hosts[0], tmp_path)
        for process in self.processes.values():
            process.state = "running"
        self.set_link("peer-1", Link(serving=True))
        self.set_link("broker-1", Link(is_controller=False))

    def set_link(self, node: str, link: Any) -> None:
        self.links[node] = link

    def close_journal(self) -> None:
        self._journal.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RunningHost]:
    made = RunningHost(tmp_path)
    yield made
    made.close_journal()


def test_health_probe_imports_only_the_standard_library() -> None:
    listing = "import sys, zabka.compose.healthcheck; print(*{name.partition('.')[0] for name in sys.modules})"
    found = subprocess.run([sys.executable, "-S", "-P", "-c", listing], env=os.environ | {"PYTHONPATH": str(
        Path(healthcheck.__file__).parents[2])}, capture_output=True, text=True, check=True)  # fmt: skip
    foreign = {name for name in found.stdout.split() if name not in sys.stdlib_module_names}
    assert foreign <= {"__main__", "zabka"}


def cpu_s(argv: list[str], message: str, code: int) -> float:
    """Run the command three times. Return the smallest CPU time in seconds."""
    costs = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            argv, cwd=Path(healthcheck.__file__).parents[2], check=False, capture_output=True, text=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert (done.returncode, message in done.stderr) == (code, True)
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(costs)


def test_health_probe_uses_little_more_cpu_than_python_itself() -> None:
    with socket.socket() as closed_port:
        closed_port.bind(("127.0.0.1", 0))
        port = closed_port.getsockname()[1]
        probe = cpu_s([sys.executable, "-P", "-m", "zabka.compose.healthcheck", str(port)], f"port {port}:", 1)
    assert probe < INTERPRETERS_MAX * cpu_s([sys.executable, "-P", "-c", "pass"], "", 0)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b'HTTP/1.1 200 OK\r\n\r\n{"status":"ok"}', ""),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\npeer-1 does not serve", "peer-1 does not serve"),
        (b"", "port"),
        (b"SSH-2.0-x\r\n", "port"),
    ],
)
def test_only_http_status_200_is_healthy(answer: bytes, message: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            link, _ = listener.accept()
            with link:
                link.recv(1024)
                link.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        found = healthcheck.trouble(listener.getsockname()[1])
        thread.join()
    assert message in found and bool(found) is bool(message)


def test_host_whose_nodes_all_serve_requests_is_healthy(host: RunningHost) -> None:
    assert host.trouble() is None


def test_host_with_a_paused_or_dead_process_is_unhealthy(host: RunningHost) -> None:
    host.processes["broker-1"].state = "paused"
    assert host.trouble() == "broker-1 is paused"
    host.processes["broker-1"].state = "down"
    assert host.trouble() == "broker-1 is down"


@pytest.mark.parametrize("link", [Link(), Link(STALE_MS + 1, up=True)])
def test_host_with_an_unresponsive_node_is_unhealthy(host: RunningHost, link: Link) -> None:
    host.set_link("broker-1", link)
    assert host.trouble() == "broker-1 does not answer"


def test_peer_without_a_quorum_is_unhealthy(host: RunningHost) -> None:
    host.set_link("peer-1", Link(serving=False))
    assert host.trouble() == "peer-1 does not serve"


def asked(of: Host, path: str) -> httpx.Response:
    """Send a request to the agent's app and return the response. Skip the app's lifespan, which would start the
    nodes.
    """

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(of, "secret"))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(path)

    return asyncio.run(ask())


def test_request_without_a_token_can_only_read_agent_health(host: RunningHost) -> None:
    assert asked(host, "/healthz").status_code == 200
    host.processes["peer-1"].state = "down"
    answer = asked(host, "/healthz")
    assert (answer.status_code, answer.json()["detail"]) == (503, "peer-1 is down")
    assert asked(host, "/v1/snapshot").status_code == 401


def test_agent_exits_with_code_0_on_sigterm(tmp_path: Path) -> None:
    from zabka.compose.files import write_host
    from zabka.compose.launch import argv_for
    from zabka.compose.topology import save

    topology = plan(Requested(peers=1, brokers=0, zk_port=0, kafka_port=0, api_port=0), None)
    save(topology, tmp_path)
    config = write_host(topology, topology.hosts[0], tmp_path)
    agent = subprocess.Popen(argv_for("agent", "--config", str(config)))
    try:
        port = json.loads((tmp_path / "topology.json").read_text())["hosts"][0]["agent_port"]
        deadline = time.monotonic() + 60
        while healthcheck.trouble(port):
            assert agent.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(30) == 0
    finally:
        agent.kill()
        agent.wait()
