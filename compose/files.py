"""The files that `up` writes besides the nodes' files: tokens, the configuration of agent and API, and the run record.

The run record contains the agent's process id and the page's URL.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import time
from pathlib import Path

import msgspec

from zabka.agent.token_file import read_token
from zabka.compose.secured_nodes import api_security
from zabka.compose.topology import HostSpec, Topology, bracketed, reachable, secrets_directory, write_atomically

TOKEN_FILE = "agent.token"
API_TOKEN_FILE = "token"
RUN_FILE = "run.json"
LOCK_FILE = "lock"
_LOCK_TRIES = 3
_LOCK_PAUSE_S = 0.03


class Run(msgspec.Struct, frozen=True):
    """The record of a running cluster: its agent's process id and the URL of its page."""

    agent_pid: int
    url: str


class AgentConfig(msgspec.Struct, frozen=True):
    """The configuration of an agent (`agent.json`): the cluster's data directory, and the agent's host.

    If `preloads` is set, the agent starts its nodes as forks of itself (`zabka.compose.forked`).
    """

    data: str
    host: str
    preloads: bool = False


class InUse(Exception):
    """A running cluster already uses the data directory."""


def take_lock(data: Path) -> int:
    """Lock the data directory. Return the lock's file descriptor, which the agent inherits.

    Raises InUse.
    """
    handle = os.open(data / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    for _ in range(_LOCK_TRIES):
        # Retry, because another process may hold the lock for a moment to check whether a cluster runs.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        time.sleep(_LOCK_PAUSE_S)
    os.close(handle)
    run = load_run(data)
    where = f" (agent's pid {run.agent_pid}, page {run.url})" if run else ""
    raise InUse(f"{data} is in use by a cluster that runs{where}; stop it with: zabka down --data {data}")


def is_running(data: Path) -> bool:
    """Return whether a running cluster has locked the data directory."""
    if not (data / LOCK_FILE).exists():
        return False
    try:
        os.close(take_lock(data))
    except InUse:
        return True
    return False


def load_run(data: Path) -> Run | None:
    """Return the run record in the data directory, whether its agent still runs or not."""
    try:
        return msgspec.json.decode((data / RUN_FILE).read_bytes(), type=Run)
    except (OSError, msgspec.MsgspecError):
        return None


def save_run(data: Path, run: Run) -> None:
    """Write the run record into the data directory."""
    write_atomically(data / RUN_FILE, msgspec.json.encode(run) + b"\n")


def forget_run(data: Path) -> None:
    """Delete the run record."""
    with contextlib.suppress(FileNotFoundError):
        (data / RUN_FILE).unlink()


def token(path: Path) -> str:
    """Return the token in a file that only this user can read. Create the file if it does not exist.

    Raises BadToken, OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_uid == os.getuid():
            # If the token file is provided (a Secret that Kubernetes mounts), do not change its permissions.
            path.chmod(0o600)
        return read_token(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    write_atomically(aside, f"{secrets.token_urlsafe(32)}\n".encode(), 0o600)
    try:
        # Use a link, because it fails if another process has created the file in the meantime. A rename would replace
        # that process's token.
        path.hardlink_to(aside)
    except FileExistsError:
        pass
    finally:
        aside.unlink()
    return read_token(path)


def agent_url(host: HostSpec) -> str:
    """Return the URL of the agent on a host."""
    return f"http://{bracketed(reachable(host.address))}:{host.agent_port}"


def remedy(topology: Topology, host: HostSpec, data: Path) -> str:
    """Return a message that states how to repair a host's agent that does not respond."""
    at = host.address
    match topology.platform:
        case "compose":
            return f"start it with docker compose start {at}, or unpause it, or repair the network to {at}"
        case "kubernetes":
            pod = at.partition(".")[0]
            return f"see what kubectl describe pod {pod} says; Kubernetes starts a pod that has ended by itself"
        case "hosts":
            return f"start it there with zabka agent, or continue it (kill -CONT), or repair the network to {at}"
        case "local":
            return f"continue that process where it is stopped (kill -CONT), or run zabka up --data {data}"


def api_settings(topology: Topology, data: Path) -> dict[str, object]:
    """Return the API's settings as JSON data for `zabka.api.settings.Settings`."""
    timeout = topology.kafka.get("zookeeper.session.timeout.ms", "6000" if topology.profile == "default" else "18000")
    return {
        "data": str(data / "api"),
        "cluster_data": str(data),
        "host": topology.api_bind,
        "port": topology.api_port,
        "token_file": str(data / API_TOKEN_FILE),
        "agent_token_file": str(topology.tokens(data) / TOKEN_FILE),
        "agents": [
            {"name": h.name, "url": agent_url(h), "nodes": h.nodes, "remedy": remedy(topology, h, data)}
            for h in topology.hosts
        ],
        "peers": [p.id for p in topology.peers if not p.observer],
        "observers": [p.id for p in topology.peers if p.observer],
        "brokers": [b.id for b in topology.brokers],
        "zookeeper_connect": topology.connect,
        "bootstrap": topology.bootstrap,
        "external": [f"{b.external}:{b.external_port}" for b in topology.brokers if b.external_port],
        "session_timeout_ms": int(timeout),
        "tables": str(data / "analytics"),
        "allowed_hosts": topology.allowed_hosts,
        **({"security": api_security(secrets_directory(topology, data))} if topology.secure else {}),
    }


def write_host(topology: Topology, host: HostSpec, data: Path, *, preloads: bool = False) -> Path:
    """Write the files that one host's agent needs. Return the path of the agent's configuration file."""
    token(topology.tokens(data) / TOKEN_FILE)
    home = data / host.name
    home.mkdir(parents=True, exist_ok=True)
    if host.runs_api:
        # Only the API needs this token, so do not write it on other hosts.
        token(data / API_TOKEN_FILE)
        (data / "api").mkdir(exist_ok=True)
        settings = json.dumps(api_settings(topology, data), indent=2) + "\n"
        write_atomically(data / "api" / "api.json", settings.encode())
    path = home / "agent.json"
    write_atomically(path, msgspec.json.encode(AgentConfig(str(data), host.name, preloads)) + b"\n")
    return path
