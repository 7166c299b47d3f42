"""A cluster of real processes: the first steps of a new user, and faults that the cluster must survive."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from zabka.api.collector.agents import CALL_TIMEOUT_S
from zabka.compose.files import load_run
from zabka.compose.processes import STOP_TIMEOUT_S
from zabka.compose.topology import load
from zabka.testing.cluster import ClusterFailed
from zabka.testing.live.cluster import LiveCluster

ZABKA = [sys.executable, "-P", "-m", "zabka.cli.main"]
FREE = ["--port", "0", "--zk-port", "0", "--kafka-port", "0"]


@pytest.mark.long
def test_killed_controller_is_replaced_and_leaders_are_elected(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("orders", partitions=3)
    before = zabka_cluster.until(lambda: zabka_cluster.controller)
    epoch = zabka_cluster.controller_epoch

    before.kill()
    after = zabka_cluster.until(lambda: zabka_cluster.controller not in (None, before) and zabka_cluster.controller)

    assert isinstance(after, type(before))
    assert zabka_cluster.controller_epoch == epoch + 1
    zabka_cluster.until(lambda: all(p.leader not in (-1, before.id) for p in zabka_cluster.topics["orders"].partitions))
    before.start()
    zabka_cluster.until(lambda: all(sorted(p.isr) == [1, 2, 3] for p in zabka_cluster.topics["orders"].partitions))


def test_paused_controller_is_shown_with_its_last_status_and_age(zabka_cluster: LiveCluster) -> None:
    controller = zabka_cluster.until(lambda: zabka_cluster.controller)
    epoch = zabka_cluster.controller_epoch
    zabka_cluster.until(lambda: controller.is_controller)

    controller.pause()
    zabka_cluster.until(lambda: zabka_cluster.controller_epoch > epoch and zabka_cluster.controller)

    shown = controller.describe()
    assert shown["process"] == "paused"
    assert shown["is_controller"] is True
    assert shown["believes"]["controller_id"] == controller.id
    assert shown["believes"]["controller_epoch"] == epoch
    session_ms = int(zabka_cluster.settings()["zookeeper.session.timeout.ms"])
    assert shown["believes"]["age_ms"] > session_ms / 2
    controller.resume()
    zabka_cluster.until(lambda: not controller.is_controller and controller.registered)
    zabka_cluster.until(
        lambda: [e for e in zabka_cluster.events("controller_resigned") if e["broker_id"] == controller.id]
    )


def test_nodes_of_a_frozen_host_are_shown_as_unknown(zabka_cluster: LiveCluster) -> None:
    agent = load_run(zabka_cluster.data)
    assert agent is not None
    os.kill(agent.agent_pid, signal.SIGSTOP)
    try:
        whole = zabka_cluster.until(
            lambda: (c := zabka_cluster.get("/api/v1/cluster"))["peers"][0]["process"] == "unknown" and c
        )
        assert {n["process"] for n in (*whole["peers"], *whole["brokers"])} == {"unknown"}
        assert whole["controller"]["broker_id"] > 0, "the controller is known from the ensemble"
        with pytest.raises(ClusterFailed, match=r"host-1 .*has not responded since"):
            zabka_cluster.get("/readyz")
        began_s = time.monotonic()
        with pytest.raises(ClusterFailed, match=r"no action on broker-1.*zabka up --data"):
            zabka_cluster.brokers[1].start()
        assert time.monotonic() - began_s < CALL_TIMEOUT_S, "the call waited for an answer"
    finally:
        os.kill(agent.agent_pid, signal.SIGCONT)
    zabka_cluster.until(lambda: zabka_cluster.get("/api/v1/brokers/1")["process"] == "running")
    zabka_cluster.until_ready()


def test_last_known_state_is_marked_stale_without_a_quorum(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("orders")
    known = zabka_cluster.get("/api/v1/controller")
    zabka_cluster.peers[1].kill()
    zabka_cluster.peers[2].kill()
    found = zabka_cluster.until(lambda: (c := zabka_cluster.get("/api/v1/controller"))["stale"] and c)

    assert found["broker_id"] == known["broker_id"]
    assert zabka_cluster.topics["orders"].describe()["stale"]
    with pytest.raises(ClusterFailed, match="no quorum"):
        zabka_cluster.get("/readyz")
    with pytest.raises(ClusterFailed, match="503"):
        zabka_cluster.topics.create("more")
    assert [p["process"] for p in zabka_cluster.get("/api/v1/peers")] == ["down", "down", "running"]
    zabka_cluster.peers[1].start()
    zabka_cluster.until_ready()


def test_cut_link_makes_the_follower_leave_the_isr(zabka_cluster: LiveCluster) -> None:
    controller = zabka_cluster.until(lambda: zabka_cluster.controller)
    assert controller is not None
    follower = next(b for b in zabka_cluster.brokers.values() if b.id != controller.id)
    zabka_cluster.topics.create("orders", assignment={0: [controller.id, follower.id]})
    workload = zabka_cluster.workload("orders", records_per_s=20)
    since_us = time.time_ns() // 1000

    def since(kind: str) -> list[dict[str, Any]]:
        return [e for e in zabka_cluster.events(kind) if e["wall_us"] >= since_us]

    zabka_cluster.faults.cut(follower, controller)
    zabka_cluster.until(lambda: zabka_cluster.topics["orders"].partitions[0].isr == [controller.id])
    # Look only at the topic `orders`. The network partition also affects __consumer_offsets, if an earlier test created
    # that topic.
    evicted = zabka_cluster.until(lambda: [e for e in since("isr_changed") if e["topic"] == "orders"])
    assert [e["cause"] for e in evicted] == ["lag"]
    zabka_cluster.faults.heal()
    zabka_cluster.until(lambda: len(zabka_cluster.topics["orders"].partitions[0].isr) == 2)
    done = workload.stop()

    assert done.lost == 0
    assert done.acknowledged > 0
    faults = zabka_cluster.until(lambda: since("fault_removed"))
    assert [e["node"] for e in faults] == ["host-1"]


def test_link_faults_persist_across_a_node_restart(zabka_cluster: LiveCluster) -> None:
    broker = zabka_cluster.brokers[1]
    zabka_cluster.faults.cut(broker, "*")
    broker.kill()
    broker.start()
    # The new process is partitioned from all peers, so it has no session, and the session of the old process expires.
    # The new process may notice the faults late: if it opened a session before they took effect, that session looks
    # connected at first.
    zabka_cluster.until(lambda: not broker.registered and broker.session_state in ("connecting", "suspended"), 60)
    assert broker.process == "running"
    zabka_cluster.faults.heal()
    zabka_cluster.until(lambda: broker.registered)


def test_event_stream_has_no_gap_after_the_api_was_killed(zabka_cluster: LiveCluster) -> None:
    before = zabka_cluster.seq
    api = next(p for p in status(zabka_cluster.data)["processes"] if p["name"] == "api")
    os.kill(api["pid"], signal.SIGKILL)
    zabka_cluster.until(
        lambda: (
            next(p for p in status(zabka_cluster.data)["processes"] if p["name"] == "api")["pid"]
            not in (None, api["pid"])
        )
    )
    zabka_cluster.until(lambda: zabka_cluster.get("/healthz"))
    zabka_cluster.until(lambda: zabka_cluster.seq > before)

    numbers = [e["seq"] for e in zabka_cluster.events(after_us=-1)]
    assert numbers == list(range(1, len(numbers) + 1))
    per_node: dict[str, list[int]] = {}
    for event in zabka_cluster.events(after_us=-1):
        per_node.setdefault(event["node"], []).append(event["node_seq"])
    assert {n: found for n, found in per_node.items() if found != list(range(1, len(found) + 1))} == {}


def test_event_stream_resumes_after_the_last_event_id(zabka_cluster: LiveCluster) -> None:
    def read(headers: dict[str, str], count: int) -> list[int]:
        ids: list[int] = []
        with httpx.stream("GET", f"{zabka_cluster.url}/api/v1/events", headers=headers, timeout=10) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    ids.append(int(line[4:]))
                if len(ids) == count:
                    return ids
        return ids

    first = read({}, 5)
    assert first == [1, 2, 3, 4, 5]
    assert read({"Last-Event-ID": "5"}, 3) == [6, 7, 8]


def test_znode_responses_have_data_stat_and_watchers(zabka_cluster: LiveCluster) -> None:
    found = zabka_cluster.until(lambda: zabka_cluster.get("/api/v1/znodes/controller"))

    assert json.loads(found["data"])["brokerid"] == zabka_cluster.get("/api/v1/controller")["broker_id"]
    assert found["stat"]["ephemeral_owner"] != "0x0"
    assert found["acl"] == [{"scheme": "world", "id": "anyone", "perms": 31}]
    assert len(found["watchers"]) == 3
    with pytest.raises(ClusterFailed, match="404"):
        zabka_cluster.get("/api/v1/znodes/no/such/node")


# ---- Kafka's tools without Java ---------------------------------------------------------------------------------


def zabka(data: Path, *arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [*ZABKA, *arguments, "--data", str(data)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def status(data: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zabka(data, "status", "--json"))
    return found


def test_topics_are_printed_as_the_kafka_topics_tool_does(zabka_cluster: LiveCluster) -> None:
    data = zabka_cluster.data
    assert zabka(data, "topics", "--create", "--topic", "t", "--replica-assignment", "1:2:3,2:3:1",
                 "--config", "min.insync.replicas=2") == "Created topic t.\n"  # fmt: skip
    topic_id = zabka_cluster.topics["t"].describe()["topic_id"]

    def expected() -> list[str]:
        # Read the ISR again for each attempt: on a busy machine, a follower may be out of the ISR for a while.
        isr = [",".join(map(str, partition.isr)) for partition in zabka_cluster.topics["t"].partitions]
        return [
            f"Topic: t\tTopicId: {topic_id}\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: min.insync.replicas=2",
            f"\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: {isr[0]}\tElr: N/A\tLastKnownElr: N/A",
            f"\tTopic: t\tPartition: 1\tLeader: 2\tReplicas: 2,3,1\tIsr: {isr[1]}\tElr: N/A\tLastKnownElr: N/A",
        ]

    zabka_cluster.until(lambda: all(partition.in_sync for partition in zabka_cluster.topics["t"].partitions))
    zabka_cluster.until(lambda: zabka(data, "topics", "--describe", "--topic", "t").splitlines() == expected())
    assert zabka(data, "topics", "--list", "--exclude-internal") == "t\n"
    assert zabka(data, "topics", "--describe", "--under-replicated-partitions") == ""
    zabka(data, "topics", "--alter", "--topic", "t", "--partitions", "3")
    # The API returns the state that it last read from the ensemble, which may be slightly outdated.
    zabka_cluster.until(lambda: len(zabka_cluster.topics["t"].partitions) == 3)
    refusal = zabka(data, "topics", "--create", "--topic", "t", code=1)
    assert refusal == "Error while executing topic command : Topic 't' already exists.\n"
    zabka(data, "topics", "--delete", "--topic", "t")
    zabka_cluster.until(lambda: zabka_cluster.topics.names() == [])


def test_configs_are_printed_as_the_kafka_configs_tool_does(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("t")
    of_t = ("--entity-type", "topics", "--entity-name", "t")
    key = "unclean.leader.election.enable"

    assert zabka(zabka_cluster.data, "configs", "--alter", *of_t, "--add-config", f"{key}=true") == (
        "Completed updating config for topic t.\n"
    )
    zabka_cluster.until(lambda: zabka_cluster.topics["t"].config == {key: "true"})
    assert zabka(zabka_cluster.data, "configs", "--describe", *of_t) == (
        f"Dynamic configs for topic t are:\n  {key}=true sensitive=false "
        f"synonyms={{DYNAMIC_TOPIC_CONFIG:{key}=true, DEFAULT_CONFIG:{key}=false}}\n"
    )


def test_elections_are_printed_as_the_kafka_tool_does(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("t", assignment={0: [1, 2]})

    assert zabka(zabka_cluster.data, "elect", "--election-type", "preferred", "--topic", "t", "--partition", "0") == (
        "Valid replica already elected for partitions t-0\n"
    )


# ---- start and stop ---------------------------------------------------------------------------------------------


def test_data_directory_in_use_is_reported(zabka_cluster: LiveCluster) -> None:
    output = zabka(zabka_cluster.data, "up", *FREE, code=1)

    assert "is in use by a cluster that runs" in output
    assert "Traceback" not in output


def test_status_lists_every_process_with_its_pid(zabka_cluster: LiveCluster) -> None:
    found = status(zabka_cluster.data)

    assert found["running"] is True
    assert {p["name"] for p in found["processes"]} == {
        *("peer-1", "peer-2", "peer-3", "broker-1", "broker-2", "broker-3", "api")
    }
    by_name = {p["name"]: p["pid"] for p in found["processes"]}
    assert by_name["broker-2"] == zabka_cluster.brokers[2].pid


def test_status_of_nodes_with_a_silent_agent_is_unknown(zabka_cluster: LiveCluster) -> None:
    agent = status(zabka_cluster.data)["agent_pid"]
    os.kill(agent, signal.SIGSTOP)
    try:
        found = status(zabka_cluster.data)
    finally:
        os.kill(agent, signal.SIGCONT)
    assert {p["process"] for p in found["processes"]} == {"unknown"}
    assert {p["process"] for p in status(zabka_cluster.data)["processes"]} == {"running"}


class Foreground:
    """`zabka up` running in the foreground, as `make up` runs it."""

    def __init__(self, data: Path, *arguments: str) -> None:
        self.data = data
        self.process = subprocess.Popen(
            [*ZABKA, "up", "--data", str(data), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def ready(self) -> str:
        assert self.process.stdout is not None
        seen = ""
        for line in self.process.stdout:
            seen += line
            if line.startswith("zabka is ready: "):
                return line.removeprefix("zabka is ready: ").strip()
        raise AssertionError(seen)

    def pids(self) -> list[int]:
        found = status(self.data)
        return [found["agent_pid"], *(p["pid"] for p in found["processes"])]

    def end(self) -> int:
        assert self.process.stdout is not None
        self.process.stdout.read()
        self.process.stdout.close()
        return self.process.wait(25)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_second_up_reuses_the_data_and_ctrl_c_ends_all_processes(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    first = Foreground(tmp_path, "--peers", "1", "--brokers", "1", *FREE)
    url = first.ready()
    pids = first.pids()
    driven = LiveCluster(url, tmp_path)
    driven.topics.create("kept")
    driven.produce("kept", ["so is this"])
    driven.close()
    began = time.monotonic()
    first.process.send_signal(signal.SIGINT)
    assert first.end() == 0
    assert time.monotonic() - began < STOP_TIMEOUT_S, "a process had to be killed"
    assert not any(alive(pid) for pid in pids)

    second = Foreground(tmp_path)
    assert second.ready() == url
    driven = LiveCluster(url, tmp_path)
    assert driven.topics.names() == ["kept"]
    assert driven.consume("kept") == ["so is this"]
    driven.close()
    pids = second.pids()
    # All processes must end, even if their parent process is killed with SIGKILL.
    second.process.kill()
    second.end()
    deadline = time.monotonic() + 60
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("arguments", [[], ["--detach"]])
def test_ctrl_c_during_startup_restores_terminal_with_error_code(tmp_path: Path, arguments: list[str]) -> None:
    child, terminal = pty.fork()
    if child == 0:
        command = [*ZABKA, "up", "--data", str(tmp_path), "--peers", "1", "--brokers", "1", *FREE, *arguments]
        os.execve(command[0], command, {**os.environ, "TERM": "xterm"})
    shown = b""
    # `up` writes this file after the agent has started and the signal handlers are installed.
    while not (tmp_path / "run.json").exists():
        time.sleep(0.005)
    os.write(terminal, b"\x03")
    # Reading fails once the process at the other end of the terminal has exited.
    with contextlib.suppress(OSError):
        while read := os.read(terminal, 4096):
            shown += read
    _, status_ = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status_) == 130, shown
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")


def test_port_in_use_is_reported(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        output = zabka(tmp_path, "up", "--port", str(port), "--zk-port", "0", "--kafka-port", "0", code=1)
    assert f"port {port} on 127.0.0.1, wanted for the dashboard (--port), is in use" in output
    assert load(tmp_path) is None
