"""`zabka agent --hosts` on three hosts, each with an agent, a peer and a broker, while the network or a disk fails.

A host is a network namespace with its own hosts file. Its disk is a small file system in memory. The tests need
permission to create both, and are skipped with the kernel's reason otherwise.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from zabka.journal.events import FaultInjected, FaultRemoved
from zabka.journal.reader import read_directory

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["alpha", "beta", "gamma"]
SEEN_S = 3.0
BACK_S = 60.0
DISK_BYTES = 256 * 1024 * 1024
SETTINGS = ["zookeeper.session.timeout.ms=4500", "replica.lag.time.max.ms=1500"]


def run(*command: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60, check=False)
    assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done


def why_not() -> str:
    """Return the reason why these tests cannot run on this machine, or an empty string."""
    if shutil.which("ip") is None:
        return "there is no ip command here"
    name = f"zabka-try-{os.getpid()}"
    made = run("ip", "netns", "add", name, check=False)
    if made.returncode:
        return f"ip netns add: {made.stderr.strip()}"
    made = run("ip", "link", "add", f"zt{os.getpid() % 10**6}", "type", "veth", "peer", "name", "eth0", "netns", name,
               check=False)  # fmt: skip
    run("ip", "netns", "delete", name)
    return f"ip link add: {made.stderr.strip()}" if made.returncode else ""


def until(condition: Callable[[], bool], within_s: float) -> float:
    """Wait until the condition is true, and return how many seconds the wait took."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < within_s
        time.sleep(0.05)
    return time.monotonic() - begin


class Network:
    """Virtual switch that connects the hosts and this machine, which has the address `10.93.N.254`.

    The switch has its own namespace, so this machine's packet filter rules do not apply there. Docker's rules drop
    unknown traffic.
    """

    def __init__(self) -> None:
        self._number = os.getpid() % 10_000
        self._subnet = f"10.93.{self._number % 200}"
        self._uplink = f"zu{self._number}"
        self._switch = self.space("switch")
        self.addresses = {name: f"{self._subnet}.{number}" for number, name in enumerate(NAMES, 1)}
        run("ip", "netns", "add", self._switch)
        run("ip", "-n", self._switch, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", self._switch, "link", "set", "bridge", "up")
        run("ip", "link", "add", self._uplink, "type", "veth", "peer", "name", "uplink", "netns", self._switch)
        run("ip", "-n", self._switch, "link", "set", "uplink", "master", "bridge", "up")
        run("ip", "link", "set", self._uplink, "up")
        run("ip", "address", "add", f"{self._subnet}.254/24", "dev", self._uplink)
        for name in NAMES:
            self._add(name)
        self._write_hosts_files()

    def space(self, name: str) -> str:
        return f"zabka-{self._number}-{name}"

    def _add(self, name: str) -> None:
        space = self.space(name)
        run("ip", "netns", "add", space)
        run("ip", "-n", self._switch, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", space)
        run("ip", "-n", self._switch, "link", "set", name, "master", "bridge", "up")
        run("ip", "-n", space, "link", "set", "lo", "up")
        run("ip", "-n", space, "link", "set", "eth0", "up")
        run("ip", "-n", space, "address", "add", f"{self.addresses[name]}/24", "dev", "eth0")

    def _write_hosts_files(self) -> None:
        text = "127.0.0.1 localhost\n" + "".join(f"{at} {name}\n" for name, at in self.addresses.items())
        for name in NAMES:
            hosts = Path("/etc/netns") / self.space(name) / "hosts"
            hosts.parent.mkdir(parents=True, exist_ok=True)
            # Write the file in place instead of replacing it, because it is mounted as /etc/hosts in running processes.
            hosts.write_text(text)

    def disconnect(self, name: str) -> None:
        run("ip", "-n", self._switch, "link", "set", name, "down")

    def connect(self, name: str) -> None:
        run("ip", "-n", self._switch, "link", "set", name, "up")

    def move(self, name: str) -> None:
        """Give the host another IP address, and update the hosts files of all hosts."""
        space, before = self.space(name), self.addresses[name]
        self.addresses[name] = f"{self._subnet}.{int(before.rpartition('.')[2]) + 100}"
        run("ip", "-n", space, "address", "delete", f"{before}/24", "dev", "eth0")
        run("ip", "-n", space, "address", "add", f"{self.addresses[name]}/24", "dev", "eth0")
        self._write_hosts_files()

    def close(self) -> None:
        for name in NAMES:
            run("ip", "netns", "delete", self.space(name), check=False)
            shutil.rmtree(Path("/etc/netns") / self.space(name), ignore_errors=True)
        run("ip", "netns", "delete", self._switch, check=False)


class Hosts:
    """The agent processes of all hosts."""

    def __init__(self, network: Network, directory: Path) -> None:
        self.network = network
        self._directory = directory
        self._agents: dict[str, subprocess.Popen[bytes]] = {}
        for name in NAMES:
            self.disk(name).mkdir()
            run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "zabka-test", self.disk(name))
        for name in NAMES:
            self.start(name)
            until((self.disk(NAMES[0]) / "agent.token").is_file, 30)
            if name == NAMES[0]:
                for other in NAMES[1:]:
                    shutil.copyfile(self.disk(name) / "agent.token", self.disk(other) / "agent.token")

    def disk(self, name: str) -> Path:
        return self._directory / name

    def start(self, name: str) -> None:
        settings = [part for setting in SETTINGS for part in ("--set", setting)]
        with (self._directory / f"{name}.log").open("ab") as log:
            self._agents[name] = subprocess.Popen(
                ["ip", "netns", "exec", self.network.space(name), sys.executable, "-P", "-m", "zabka.cli.main", "agent",
                 "--hosts", ",".join(NAMES), "--here", name, "--data", str(self.disk(name)), *settings],
                env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def kill(self, name: str) -> None:
        """Kill the host's agent. Its node processes end with it."""
        self._agents[name].kill()
        self._agents[name].wait()

    def journalled_faults(self, name: str) -> list[str]:
        """Return the types of all link fault events in the journal of the host, in order."""
        number = NAMES.index(name) + 1
        entries = read_directory(self.disk(name) / f"host-{number}" / "journal")
        return [type(e.event).__name__ for e in entries if isinstance(e.event, FaultInjected | FaultRemoved)]

    def close(self) -> None:
        for agent in self._agents.values():
            agent.send_signal(signal.SIGTERM)
        for agent in self._agents.values():
            try:
                agent.wait(25)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()
        for name in NAMES:
            run("umount", "--lazy", self.disk(name), check=False)


class Cluster:
    """Cluster on all hosts, used through the API on the first host."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        self.network = hosts.network
        token = (hosts.disk(NAMES[0]) / "token").read_text().strip()
        self.http = httpx.Client(
            base_url=f"http://{self.network.addresses[NAMES[0]]}:8080",
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
            timeout=10,
        )

    def close(self) -> None:
        self.http.close()

    def get(self, path: str) -> Any:
        return self.http.get(path).json()

    def ready(self) -> bool:
        try:
            return self.http.get("/readyz").is_success
        except httpx.HTTPError:
            return False

    def nodes(self, number: int) -> set[str]:
        """Return the process states of peer `number` and broker `number`."""
        return {self.get(f"/api/v1/{kind}/{number}")["process"] for kind in ("peers", "brokers")}

    def in_sync(self, topic: str) -> list[int]:
        return sorted(self.get(f"/api/v1/topics/{topic}")["partitions"][0]["isr"])

    def topic(self, name: str) -> None:
        body = {"name": name, "partitions": 1, "replication_factor": 3, "config": {"min.insync.replicas": "2"}}
        assert self.http.post("/api/v1/topics", json=body).status_code == 201
        until(lambda: self.http.get(f"/api/v1/topics/{name}").is_success and self.in_sync(name) == [1, 2, 3], 20)

    def workload(self, topic: str) -> str:
        asked = {"topic": topic, "acks": "all", "records_per_s": 30}
        return str(self.http.post("/api/v1/workloads", json=asked).json()["id"])

    def acknowledged(self, workload: str) -> int:
        return int(self.get(f"/api/v1/workloads/{workload}")["acknowledged"])

    def ended(self, workload: str) -> dict[str, Any]:
        """Stop the workload. Return its final counts once it has read back all of its records."""
        done = self.http.delete(f"/api/v1/workloads/{workload}", timeout=60)
        assert done.is_success, done.text
        counts: dict[str, Any] = done.json()
        return counts


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if reason := why_not():
        pytest.skip(reason)
    network = Network()
    try:
        hosts = Hosts(network, tmp_path_factory.mktemp("hosts"))
        try:
            until((hosts.disk(NAMES[0]) / "token").is_file, 30)
            with contextlib.closing(Cluster(hosts)) as made:
                until(made.ready, BACK_S)
                yield made
        finally:
            hosts.close()
    finally:
        network.close()


def test_nodes_run_on_their_assigned_hosts(cluster: Cluster) -> None:
    assert [cluster.nodes(number) for number in (1, 2, 3)] == [{"running"}] * 3
    assert len({cluster.get(f"/api/v1/brokers/{number}")["host"] for number in (1, 2, 3)}) == 3


def test_state_of_isolated_host_is_unknown_and_no_record_is_lost(cluster: Cluster) -> None:
    cluster.topic("cut")
    workload = cluster.workload("cut")
    until(lambda: cluster.acknowledged(workload) > 20, 20)
    cluster.network.disconnect("gamma")
    try:
        until(lambda: cluster.nodes(3) == {"unknown"}, SEEN_S)
        refused = cluster.http.post("/api/v1/brokers/3/start")
        assert refused.status_code == 503 and "repair the way to gamma" in refused.json()["detail"]
        assert cluster.nodes(1) == cluster.nodes(2) == {"running"}
        until(lambda: cluster.in_sync("cut") == [1, 2], 20)
        before = cluster.acknowledged(workload)
        until(lambda: cluster.acknowledged(workload) > before + 20, 20)
    finally:
        cluster.network.connect("gamma")
    until(lambda: cluster.nodes(3) == {"running"}, SEEN_S)
    until(lambda: cluster.in_sync("cut") == [1, 2, 3], BACK_S)
    assert cluster.ended(workload)["lost"] == 0
    until(cluster.ready, BACK_S)


def test_host_is_found_by_name_after_its_address_changed(cluster: Cluster) -> None:
    cluster.topic("moved")
    workload = cluster.workload("moved")
    until(lambda: cluster.acknowledged(workload) > 20, 20)
    cluster.network.disconnect("beta")
    until(lambda: cluster.nodes(2) == {"unknown"}, SEEN_S)
    cluster.network.move("beta")
    cluster.network.connect("beta")
    until(lambda: cluster.nodes(2) == {"running"}, SEEN_S)
    until(lambda: cluster.in_sync("moved") == [1, 2, 3], BACK_S)
    until(lambda: cluster.get("/api/v1/peers/2")["state"] in ("FOLLOWING", "LEADING"), BACK_S)
    until(cluster.ready, BACK_S)
    assert cluster.ended(workload)["lost"] == 0


def test_restarted_agent_restores_the_active_link_faults(cluster: Cluster) -> None:
    body = {"from": "broker-2", "to": "broker-1", "kind": "delay", "delay_ms": 20}
    made = cluster.http.post("/api/v1/faults", json=body)
    assert made.status_code == 201, made.text
    assert cluster.hosts.journalled_faults("beta") == ["FaultInjected"]
    cluster.hosts.kill("beta")
    cluster.hosts.start("beta")
    again = ["FaultInjected", "FaultRemoved", "FaultInjected"]
    until(lambda: cluster.hosts.journalled_faults("beta") == again, BACK_S)
    assert [fault["id"] for fault in cluster.get("/api/v1/faults")] == [made.json()["id"]]
    assert cluster.http.delete(f"/api/v1/faults/{made.json()['id']}").status_code == 204
    assert cluster.hosts.journalled_faults("beta") == [*again, "FaultRemoved"]
    until(cluster.ready, BACK_S)


def fill_up(disk: Path) -> Path:
    """Create a file that uses all remaining space of the disk."""
    path = disk / "fill"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return path


def test_full_disk_stops_only_the_broker_that_uses_it(cluster: Cluster) -> None:
    cluster.topic("full")
    workload = cluster.workload("full")
    until(lambda: cluster.acknowledged(workload) > 20, 20)
    fill = fill_up(cluster.hosts.disk("gamma"))
    try:
        # The workload's records do not fit on the disk, so the broker loses its only log directory and stops.
        until(lambda: cluster.get("/api/v1/brokers/3")["process"] == "down", SEEN_S)
        again = cluster.http.post("/api/v1/brokers/3/start")
        # The start request may fail because the agent cannot write the broker's files. If it succeeds, the broker stops
        # again because of the full disk.
        assert again.status_code == 202 or "No space left on device" in again.json()["detail"]
        until(lambda: cluster.get("/api/v1/brokers/3")["process"] == "down", BACK_S)
        until(lambda: cluster.in_sync("full") == [1, 2], 20)
        before = cluster.acknowledged(workload)
        until(lambda: cluster.acknowledged(workload) > before + 20, 20)
        assert cluster.nodes(1) == cluster.nodes(2) == {"running"}
    finally:
        fill.unlink()
    for kind in ("peers", "brokers"):
        if cluster.get(f"/api/v1/{kind}/3")["process"] == "down":
            assert cluster.http.post(f"/api/v1/{kind}/3/start").status_code == 202
    until(lambda: cluster.in_sync("full") == [1, 2, 3], BACK_S)
    assert cluster.ended(workload)["lost"] == 0
    until(cluster.ready, BACK_S)
    events = cluster.get("/api/v1/journal?limit=100000")
    ends = [e for e in events if e["type"] == "process_changed" and (e["target"], e["process"]) == ("broker-3", "down")]
    assert ends, "events that waited for disk space are in the journal"
