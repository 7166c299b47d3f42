"""Runs one host of a topology with several hosts: writes the files of its agent, and runs the agent."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from zabka.compose.files import InUse, Run, save_run, take_lock, write_host
from zabka.compose.plan import BadPlan
from zabka.compose.topology import BadTopology, Platform, Topology, load, node_directory, save

_RESET_ADVICE: dict[Platform, str] = {
    "compose": "remove the volumes (docker compose down --volumes)",
    "kubernetes": "remove the volumes (kubectl delete pvc -l app.kubernetes.io/name=zabka)",
    "hosts": "choose another --data on every host",
    "local": "choose another --data",
}


def lay_out(name: str, data: Path, topology: Topology) -> Path:
    """Write the files that a host needs. Return the path of its agent's configuration file.

    `name` is the name of the host or of the node on it. Raises BadPlan if there is no such host, or if `data` contains
    the history of an ensemble of another size, or of a node that belongs to another host.
    """
    before = load(data)
    if before is not None and len(before.peers) != len(topology.peers):
        # Reject another number of peers: new, empty voters could form a quorum without the voters that have the
        # history, so data would be lost.
        raise BadPlan(
            f"{data} belongs to an ensemble of {len(before.peers)} peers, not {len(topology.peers)}: go back to that "
            f"number, or {_RESET_ADVICE[topology.platform]}"
        )
    host = next((h for h in topology.hosts if name in (h.name, *h.nodes)), None)
    if host is None:
        raise BadPlan(f"there is no host {name} among the {len(topology.hosts)}")
    moved = [n.name for n in topology.nodes() if n.name not in host.nodes and node_directory(data, n.name).is_dir()]
    if moved:
        # If the hosts were listed in another order, each host would start another host's nodes without their data.
        raise BadPlan(
            f"{data} holds {' and '.join(moved)}, and {host.name} is to have {' and '.join(host.nodes)}: name the "
            f"hosts in the order in which they were named before, or {_RESET_ADVICE[topology.platform]}"
        )
    save(topology, data)
    save_run(data, Run(os.getpid(), topology.api_url))
    return write_host(topology, host, data)


def run_host(topology: Topology, name: str, data: Path) -> int:
    """Write the files that a host needs, then run its agent until it ends. Return the exit code."""
    from zabka.compose.agent import main

    try:
        # This process holds the lock as long as it lives, so `zabka status` can detect that the host runs.
        take_lock(data)
        config = lay_out(name, data, topology)
    except (BadPlan, BadTopology, InUse, OSError) as reason:
        print(f"zabka: {reason}", file=sys.stderr)  # noqa: T201
        return 1
    return main(config)
