"""The same topology as containers: what each container's first process is.

One image, many commands: each container's first process is a host agent, which owns the one node of that container.  No
Docker socket is mounted anywhere: the API asks the agents, over the containers' network.  `composition` writes
compose.yaml of the same topology, and `image` the Dockerfile; `python -m compose.kept_files` writes both anew.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from compose.config_keys import split_settings
from compose.plan import BadPlan
from compose.topology import NODES_MAX, PROFILES, BrokerSpec, HostSpec, PeerSpec, Topology, load, save

DATA = "/data"
TOKENS = "/tokens"
ANYWHERE = "0.0.0.0"
CLIENT_PORT, QUORUM_PORT, ELECTION_PORT = 2181, 2888, 3888
INNER_PORT, KAFKA_PORT, API_PORT, AGENT_PORT = 19092, 9092, 8080, 7070
USER_ID = 10001
# The API's container comes first, whoever is added later.
API_HOST = "api"


def container_topology(
    peers: int = 3, brokers: int = 3, profile: str = "default", settings: list[str] | None = None
) -> Topology:
    """Each node on a host of its own, reached by its service's name.  Raises BadPlan, BadSetting."""
    _check_counts(peers, brokers)
    if profile not in PROFILES:
        raise BadPlan(f"--profile is one of {', '.join(PROFILES)}, not {profile!r}")
    overrides = split_settings(settings or [])
    names = [API_HOST, *(f"peer-{i}" for i in range(1, peers + 1)), *(f"broker-{i}" for i in range(1, brokers + 1))]
    hosts = [
        HostSpec(f"host-{number}", name, ANYWHERE, AGENT_PORT, [] if name == API_HOST else [name], name == API_HOST)
        for number, name in enumerate(names, 1)
    ]
    by_node = {h.address: h.name for h in hosts}
    return Topology(
        peers=[
            PeerSpec(
                i,
                host=by_node[f"peer-{i}"],
                address=f"peer-{i}",
                bind=ANYWHERE,
                client_port=CLIENT_PORT,
                quorum_port=QUORUM_PORT,
                election_port=ELECTION_PORT,
            )
            for i in range(1, peers + 1)
        ],
        brokers=[
            BrokerSpec(
                i,
                host=by_node[f"broker-{i}"],
                bind=ANYWHERE,
                advertised=f"broker-{i}",
                port=INNER_PORT,
                external="127.0.0.1",
                external_port=KAFKA_PORT + i - 1,
            )
            for i in range(1, brokers + 1)
        ],
        hosts=hosts,
        api_bind=ANYWHERE,
        api_port=API_PORT,
        profile=profile,
        zookeeper=overrides.zookeeper,
        kafka=overrides.kafka,
        allowed_hosts=[API_HOST],
        token_directory=TOKENS,
    )


def _check_counts(peers: int, brokers: int) -> None:
    for option, count, least in (("--peers", peers, 1), ("--brokers", brokers, 0)):
        if not least <= count <= NODES_MAX:
            raise BadPlan(f"{option} is between {least} and {NODES_MAX}, not {count}")
    # The ports published on this machine, one for each node, from each kind's first on.
    if CLIENT_PORT + peers > API_PORT or KAFKA_PORT + brokers > INNER_PORT:
        raise BadPlan("so many ports do not fit")


def published(topology: Topology, host: HostSpec) -> list[tuple[int, int]]:
    """Ports of a host that this machine's loopback reaches: (outside, inside the container)."""
    if host.runs_api:
        return [(topology.api_port, topology.api_port)]
    peers = [(CLIENT_PORT + p.id - 1, p.client_port) for p in topology.peers if p.name in host.nodes]
    return peers or [(b.external_port, b.external_port) for b in topology.brokers if b.name in host.nodes]


def topology_here() -> Topology:
    """The topology that a container's environment describes, as `composition` wrote it.  Raises BadPlan, BadSetting."""
    return container_topology(
        int(os.environ.get("ZABKA_PEERS", "3")),
        int(os.environ.get("ZABKA_BROKERS", "3")),
        os.environ.get("ZABKA_PROFILE", "default"),
        json.loads(os.environ.get("ZABKA_SETTINGS", "[]")),
    )


def lay_out(name: str, data: Path, topology: Topology) -> Path:
    """Write what a container's host starts from; returns its agent's configuration.  Raises BadPlan where the volume
    holds the history of an ensemble of another size.
    """
    from compose.files import Run, save_run, write_host

    before = load(data)
    if before is not None and len(before.peers) != len(topology.peers):
        # New, empty voters could form a quorum without those that hold the history: that would lose data.
        raise BadPlan(
            f"this volume belongs to an ensemble of {len(before.peers)} peers, not {len(topology.peers)}: go back to "
            "that number, or remove the volumes (docker compose down --volumes)"
        )
    host = next(h for h in topology.hosts if h.name == name)
    save(topology, data)
    save_run(data, Run(os.getpid(), topology.api_url))
    return write_host(topology, host, data)


def run_host(name: str, data: Path) -> int:
    """A container's first process: write what its host starts from, then be its agent."""
    from compose.agent import main
    from compose.config_keys import BadSetting
    from compose.files import InUse, take_lock
    from compose.topology import BadTopology

    try:
        # Held for as long as this process lives: `zabka status` in this container tells by it that the host runs.
        take_lock(data)
        config = lay_out(name, data, topology_here())
    except (BadPlan, BadSetting, BadTopology, InUse, OSError, ValueError) as reason:
        print(f"zabka: {reason}", file=sys.stderr)  # noqa: T201
        return 1
    return main(config)


if __name__ == "__main__":
    sys.exit(run_host(sys.argv[1], Path(DATA)))
