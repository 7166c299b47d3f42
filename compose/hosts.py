"""The topology on several hosts, each with an agent that a user starts there: `zabka agent --hosts …`.

Every host gets the same list of addresses and computes the same topology, so only the agents' token has to be
distributed. Nodes are assigned to the hosts in turn. The API runs on the first host.
"""

from __future__ import annotations

from pathlib import Path

from zabka.compose.config_keys import split_settings
from zabka.compose.containers import AGENT_PORT, ANYWHERE, API_PORT, CLIENT_PORT, ELECTION_PORT, KAFKA_PORT, QUORUM_PORT
from zabka.compose.files import TOKEN_FILE
from zabka.compose.plan import BadPlan
from zabka.compose.topology import NODES_MAX, PROFILES, BrokerSpec, HostSpec, PeerSpec, Topology

PER_HOST_MAX = 100
"""Maximum number of nodes of one kind on one host, because their ports are consecutive numbers."""


def hosts_topology(
    addresses: list[str],
    *,
    peers: int = 3,
    brokers: int = 3,
    profile: str = "default",
    settings: list[str] | None = None,
    tokens: Path,
) -> Topology:
    """Return a topology with peers and brokers assigned to these hosts.

    `tokens` is the directory on each host that contains the agents' token. Raises BadPlan, BadSetting.
    """
    _check(addresses, peers, brokers, profile)
    overrides = split_settings(settings or [])
    count = len(addresses)
    names = [f"host-{number}" for number in range(1, count + 1)]
    peer_specs = [
        PeerSpec(
            i + 1,
            host=names[i % count],
            address=addresses[i % count],
            bind=ANYWHERE,
            client_port=CLIENT_PORT + i // count,
            quorum_port=QUORUM_PORT + i // count,
            election_port=ELECTION_PORT + i // count,
        )
        for i in range(peers)
    ]
    broker_specs = [
        BrokerSpec(i + 1, names[i % count], ANYWHERE, addresses[i % count], KAFKA_PORT + i // count)
        for i in range(brokers)
    ]
    nodes: list[PeerSpec | BrokerSpec] = [*peer_specs, *broker_specs]
    return Topology(
        peers=peer_specs,
        brokers=broker_specs,
        hosts=[
            HostSpec(
                name,
                address,
                ANYWHERE,
                AGENT_PORT,
                [node.name for node in nodes if node.host == name],
                runs_api=name == names[0],
            )
            for name, address in zip(names, addresses, strict=True)
        ],
        api_bind=ANYWHERE,
        api_port=API_PORT,
        profile=profile,
        zookeeper=overrides.zookeeper,
        kafka=overrides.kafka,
        allowed_hosts=[addresses[0]],
        token_directory=str(tokens),
        platform="hosts",
    )


def _check(addresses: list[str], peers: int, brokers: int, profile: str) -> None:
    if "" in addresses or len(set(addresses)) < len(addresses):
        raise BadPlan("--hosts names each host once, by commas")
    for option, count, least in (("--peers", peers, 1), ("--brokers", brokers, 0)):
        if not least <= count <= min(NODES_MAX, PER_HOST_MAX * len(addresses)):
            raise BadPlan(f"{option} {count} does not fit on {len(addresses)} hosts")
    if profile not in PROFILES:
        raise BadPlan(f"--profile is one of {', '.join(PROFILES)}, not {profile!r}")


def host_called(topology: Topology, here: str, tokens: Path) -> str:
    """Return the name of the host at this address. Raises BadPlan for an unknown address or a missing token."""
    host = next((h for h in topology.hosts if h.address == here), None)
    if host is None:
        raise BadPlan(f"--here is one of {', '.join(h.address for h in topology.hosts)}, not {here!r}")
    if not host.runs_api and not (tokens / TOKEN_FILE).is_file():
        first = topology.hosts[0].address
        raise BadPlan(
            f"there is no {tokens / TOKEN_FILE}: the agents of all hosts share it, so copy it from {first}, which "
            "makes it when it starts"
        )
    return host.name
