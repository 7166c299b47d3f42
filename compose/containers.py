"""Creates the topology for containers, and runs the first process of each container.

There is one image with several commands. Each container's first process is a host agent, which runs the one node of
that container. No Docker socket is mounted anywhere: the API sends requests to the agents over the containers' network.
`composition` writes compose.yaml of the topology, `manifests` the Kubernetes manifests, and `image` the Dockerfile;
`python -m zabka.compose.kept_files` writes all of them again.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

from zabka.compose.config_keys import BadSetting, split_settings
from zabka.compose.plan import BadPlan
from zabka.compose.share import run_host
from zabka.compose.topology import NODES_MAX, PROFILES, BrokerSpec, HostSpec, PeerSpec, Platform, Topology

DATA = "/data"
TOKENS = "/tokens"
SECRETS = "/run/secrets"
"""The directory in which a container of a secured cluster finds its certificates and passwords."""
ANYWHERE = "0.0.0.0"
CLIENT_PORT, QUORUM_PORT, ELECTION_PORT = 2181, 2888, 3888
INNER_PORT, KAFKA_PORT, API_PORT, AGENT_PORT = 19092, 9092, 8080, 7070
USER_ID = 10001
# The API runs on the first host, so that its name does not depend on the number of nodes.
API_HOST = "api"


class Naming(NamedTuple):
    """The host names that containers use for each other.

    The fields are the suffix of peers' names, the suffix of brokers' names, and the address of the agent in the API's
    own container.
    """

    peers: str
    brokers: str
    api: str


NAMINGS: dict[Platform, Naming] = {
    # In Compose, the name of a service is also its host name on the network.
    "compose": Naming("", "", API_HOST),
    # The DNS name of a StatefulSet's pod is below its headless service.
    "kubernetes": Naming(".peers", ".brokers", "127.0.0.1"),
}


def container_topology(
    peers: int = 3,
    brokers: int = 3,
    profile: str = "default",
    settings: list[str] | None = None,
    platform: Platform = "compose",
    *,
    secure: bool = False,
) -> Topology:
    """Return a topology in which each node has its own host, named like the node on that platform.

    Raises BadPlan, BadSetting.
    """
    _check_counts(peers, brokers)
    if profile not in PROFILES:
        raise BadPlan(f"--profile is one of {', '.join(PROFILES)}, not {profile!r}")
    overrides = split_settings(settings or [])
    naming = NAMINGS[platform]
    addresses = {
        **{f"peer-{i}": f"peer-{i}{naming.peers}" for i in range(1, peers + 1)},
        **{f"broker-{i}": f"broker-{i}{naming.brokers}" for i in range(1, brokers + 1)},
    }
    by_node = {name: f"host-{number}" for number, name in enumerate(addresses, 2)}
    return Topology(
        peers=[
            PeerSpec(
                i,
                host=by_node[f"peer-{i}"],
                address=addresses[f"peer-{i}"],
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
                advertised=addresses[f"broker-{i}"],
                port=INNER_PORT,
                external="127.0.0.1",
                external_port=KAFKA_PORT + i - 1,
            )
            for i in range(1, brokers + 1)
        ],
        hosts=[
            HostSpec("host-1", naming.api, ANYWHERE, AGENT_PORT, [], runs_api=True),
            *(HostSpec(by_node[name], at, ANYWHERE, AGENT_PORT, [name]) for name, at in addresses.items()),
        ],
        api_bind=ANYWHERE,
        api_port=API_PORT,
        profile=profile,
        zookeeper=overrides.zookeeper,
        kafka=overrides.kafka,
        allowed_hosts=[API_HOST],
        token_directory=TOKENS,
        platform=platform,
        secure=secure,
        secrets_directory=SECRETS if secure else "",
    )


def _check_counts(peers: int, brokers: int) -> None:
    for option, count, least in (("--peers", peers, 1), ("--brokers", brokers, 0)):
        if not least <= count <= NODES_MAX:
            raise BadPlan(f"{option} is between {least} and {NODES_MAX}, not {count}")
    # Each node publishes its own port, counted up from the first port for its kind of node. The ranges must not
    # overlap.
    if CLIENT_PORT + peers > API_PORT or KAFKA_PORT + brokers > INNER_PORT:
        raise BadPlan("so many ports do not fit")


def published(topology: Topology, host: HostSpec) -> list[tuple[int, int]]:
    """Return the ports of a host that are published on this machine's loopback: (outside, inside the container)."""
    if host.runs_api:
        return [(topology.api_port, topology.api_port)]
    peers = [(CLIENT_PORT + p.id - 1, p.client_port) for p in topology.peers if p.name in host.nodes]
    return peers or [(b.external_port, b.external_port) for b in topology.brokers if b.name in host.nodes]


def topology_here() -> Topology:
    """Return the topology that a container's environment variables describe.

    `composition` or `manifests` has written these variables. Raises BadPlan, BadSetting.
    """
    platform = os.environ.get("ZABKA_PLATFORM", "compose")
    return container_topology(
        int(os.environ.get("ZABKA_PEERS", "3")),
        int(os.environ.get("ZABKA_BROKERS", "3")),
        os.environ.get("ZABKA_PROFILE", "default"),
        json.loads(os.environ.get("ZABKA_SETTINGS", "[]")),
        "kubernetes" if platform == "kubernetes" else "compose",
        secure=os.environ.get("ZABKA_SECURE", "") == "true",
    )


def main(name: str, data: Path) -> int:
    """Run the agent as a container's first process.

    `name` is the name of the agent's host, or of the node on it.
    """
    try:
        topology = topology_here()
    except (BadPlan, BadSetting, ValueError) as reason:
        print(f"zabka: {reason}", file=sys.stderr)  # noqa: T201
        return 1
    return run_host(topology, name, data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(DATA)))
