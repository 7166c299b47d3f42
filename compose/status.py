"""`zabka status`: the cluster's processes and their state, as the host agents report them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from zabka.agent.http_call import NoAnswer, call
from zabka.agent.protocol import Snapshot
from zabka.compose.files import TOKEN_FILE, agent_url, is_running, load_run
from zabka.compose.health import read_health, show_health
from zabka.compose.topology import HostSpec, Topology, load

ANSWER_S = 2.0


def read_status(data: Path) -> dict[str, Any] | None:
    """Return the status of a data directory's cluster, or None if the directory has no cluster.

    Raises BadTopology, OSError.
    """
    topology = load(data)
    if topology is None:
        return None
    running = is_running(data)
    run = load_run(data)
    known, silent = _processes(topology, data) if running else ({}, set())
    ports = {**{p.name: p.client_port for p in topology.peers}, **{b.name: b.port for b in topology.brokers}}
    names = [name for host in topology.hosts for name in _names(host)]
    processes = [
        {
            "name": name,
            # The nodes of an agent that does not respond may be running, so their state is unknown.
            "process": known[name].process if name in known else "unknown" if name in silent else "down",
            "pid": known[name].pid if name in known else None,
            "port": ports.get(name, topology.api_port),
        }
        for name in names
    ]
    return {
        "running": running,
        "url": topology.api_url,
        "data": str(data),
        "agent_pid": run.agent_pid if running and run else None,
        "zookeeper_connect": topology.connect,
        "bootstrap_servers": topology.bootstrap,
        "processes": processes,
        "health": read_health(topology.api_url, topology.authority(data)) if running else None,
    }


def _names(host: HostSpec) -> list[str]:
    return [*host.nodes, *(["api"] if host.runs_api else [])]


def _processes(topology: Topology, data: Path) -> tuple[dict[str, Any], set[str]]:
    """Return the processes that the agents report, and the names of the nodes whose agent does not respond."""
    token = (topology.tokens(data) / TOKEN_FILE).read_text().strip()
    found: dict[str, Any] = {}
    silent: set[str] = set()
    for host in topology.hosts:
        try:
            snapshot = read_snapshot(host, token)
        except (NoAnswer, msgspec.MsgspecError):
            silent.update(_names(host))
            continue
        found.update({p.name: p for p in snapshot.processes})
    return found, silent


def read_snapshot(host: HostSpec, token: str) -> Snapshot:
    """Request the snapshot of processes and node statuses from a host's agent. Raises NoAnswer, MsgspecError."""
    answer = call(
        "GET", f"{agent_url(host)}/v1/snapshot", headers={"Authorization": f"Bearer {token}"}, timeout_s=ANSWER_S
    )
    if not answer.is_success:
        raise NoAnswer(f"the agent answers {answer.status}")
    return msgspec.json.decode(answer.body, type=Snapshot)


def show(status: dict[str, Any], *, colours: bool = False) -> str:
    """Format the status as lines."""
    head = f"zabka in {status['data']}: " + (f"running, {status['url']}" if status["running"] else "stopped")
    lines = [head, *(show_health(status["health"], colours=colours) if status["running"] else [])]
    for process in status["processes"]:
        pid = f"pid {process['pid']}" if process["pid"] else ""
        lines.append(f"  {process['name']:<12} {process['process']:<8} port {process['port']:<6} {pid}".rstrip())
    if status["agent_pid"]:
        lines.append(f"  {'host agent':<12} {'running':<8} {'':<11} pid {status['agent_pid']}")
    return "\n".join(lines)
