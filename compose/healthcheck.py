"""A container's health: its agent answers and its node does its work."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx
import msgspec

from api.agent_protocol import Snapshot
from compose.containers import API_PORT, DATA
from compose.files import TOKEN_FILE
from compose.topology import HostSpec, load

STALE_MS = 5_000


def trouble(host: HostSpec, snapshot: Snapshot) -> str | None:
    """Why a host is not healthy, None when it is."""
    statuses = {s.name: s for s in snapshot.statuses}
    for process in snapshot.processes:
        if process.process != "running":
            return f"{process.name} is {process.process}"
        if process.name in host.nodes:
            status = statuses.get(process.name)
            if status is None or status.age_ms > STALE_MS:
                return f"{process.name} does not answer"
            if process.name.startswith("peer-") and not status.status.get("serving"):
                return f"{process.name} does not serve"
    return None


def check(name: str, data: Path) -> str | None:
    """Ask the agent (and the API where this host runs it); why it is not healthy, None when it is."""
    topology = load(data)
    if topology is None:
        return "there is no topology yet"
    host = next(h for h in topology.hosts if h.name == name)
    token = (topology.tokens(data) / TOKEN_FILE).read_text().strip()
    with httpx.Client(trust_env=False, timeout=2.0) as client:
        url = f"http://127.0.0.1:{host.agent_port}/v1/snapshot"
        answer = client.get(url, headers={"Authorization": f"Bearer {token}"}).raise_for_status()
        if host.runs_api:
            client.get(f"http://127.0.0.1:{API_PORT}/healthz").raise_for_status()
    return trouble(host, msgspec.json.decode(answer.content, type=Snapshot))


def main() -> int:
    """Exit code 0 for healthy."""
    try:
        reason = check(sys.argv[1], Path(DATA))
    except (httpx.HTTPError, OSError, ValueError) as failure:
        reason = str(failure)
    if reason:
        print(reason, file=sys.stderr)  # noqa: T201
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
