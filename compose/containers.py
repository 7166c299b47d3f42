"""The same topology as containers: this module makes `compose.yaml` and `Dockerfile`; a test holds them to it.

One image, many commands: each container's first process is a host agent, which owns the one node of that container.  No
Docker socket is mounted anywhere: the API asks the agents, over the containers' network.
Write both files anew with `python -m compose.containers`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import yaml

from compose.topology import BrokerSpec, HostSpec, PeerSpec, Topology, save

HERE = Path(__file__).parent
IMAGE = "zabka"
DATA = "/data"
TOKENS = "/tokens"
ANYWHERE = "0.0.0.0"
CLIENT_PORT, QUORUM_PORT, ELECTION_PORT = 2181, 2888, 3888
INNER_PORT, KAFKA_PORT, API_PORT, AGENT_PORT = 19092, 9092, 8080, 7070
USER_ID = 10001
# The API's container comes first, whoever is added later.
API_HOST = "api"


def container_topology(peers: int = 3, brokers: int = 3) -> Topology:
    """Each node on a host of its own, reached by its service's name."""
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
        allowed_hosts=[API_HOST],
        token_directory=TOKENS,
    )


def _published(topology: Topology, host: HostSpec) -> list[str]:
    """What this machine's loopback reaches."""
    if host.runs_api:
        return [f"127.0.0.1:{topology.api_port}:{topology.api_port}"]
    for peer in topology.peers:
        if peer.name in host.nodes:
            return [f"127.0.0.1:{CLIENT_PORT + peer.id - 1}:{peer.client_port}"]
    return [
        f"127.0.0.1:{broker.external_port}:{broker.external_port}"
        for broker in topology.brokers
        if broker.name in host.nodes
    ]


def _waits_for(topology: Topology, host: HostSpec) -> dict[str, Any]:
    if any(node.startswith("peer-") for node in host.nodes):
        return {}
    return {peer.address: {"condition": "service_healthy"} for peer in topology.peers}


def _service(topology: Topology, host: HostSpec) -> dict[str, Any]:
    service: dict[str, Any] = {
        "image": IMAGE,
        "build": {"context": "..", "dockerfile": "compose/Dockerfile"},
        "command": ["python", "-m", "compose.containers", host.name],
        "hostname": host.address,
        "init": True,
        "user": f"{USER_ID}:{USER_ID}",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "environment": {
            "ZABKA_PEERS": str(len(topology.peers)),
            "ZABKA_BROKERS": str(len(topology.brokers)),
        },
        "volumes": [f"{host.address}:{DATA}", f"tokens:{TOKENS}"],
        "ports": _published(topology, host),
        # The agent stops its node cleanly; it needs longer than Docker's own ten seconds.
        "stop_grace_period": "20s",
        "restart": "unless-stopped",
        "healthcheck": {
            "test": ["CMD", "python", "-m", "compose.healthcheck", host.name],
            "interval": "10s",
            "timeout": "5s",
            "retries": 6,
            "start_period": "30s",
            "start_interval": "1s",
        },
    }
    waits_for = _waits_for(topology, host)
    if waits_for:
        service["depends_on"] = waits_for
    return service


def compose_yaml(topology: Topology) -> str:
    """compose.yaml, as text."""
    document = {
        "name": "zabka",
        "services": {host.address: _service(topology, host) for host in topology.hosts},
        "volumes": {**{host.address: {} for host in topology.hosts}, "tokens": {}},
    }
    head = (
        "# Made by `python -m compose.containers` from the topology; change that, not this file.\n"
        "# docker compose -f compose/compose.yaml up --build --wait\n"
        f"# Calls that change something need the token: docker compose exec {API_HOST} cat {TOKENS}/token\n"
    )
    return head + yaml.safe_dump(document, sort_keys=False, width=120)


def dockerfile() -> str:
    """The Dockerfile: the page's libraries, the locked dependencies, then zabka itself; run by a user of its own."""
    return f"""\
# Made by `python -m compose.containers`; change that, not this file.
FROM node:22-slim AS page
WORKDIR /page
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund

FROM python:3.11-slim
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONSAFEPATH=1 ZABKA_API_NODE_MODULES=/page/node_modules
WORKDIR /src
COPY requirements.lock ./
RUN python -m pip install --no-cache-dir --require-hashes -r requirements.lock
COPY . .
RUN python -m pip install --no-cache-dir --no-deps . \\
 && useradd --uid {USER_ID} --create-home zabka \\
 && install -d -o zabka -g zabka {DATA} {TOKENS}
COPY --from=page /page/node_modules /page/node_modules
WORKDIR /home/zabka
USER zabka
VOLUME ["{DATA}", "{TOKENS}"]
CMD ["zabka", "--help"]
"""


def dockerignore() -> str:
    """What stays out of the image's build context."""
    ignored = (".git", ".venv", ".zabka", "node_modules", "**/__pycache__", "tests", "bench", ".ci", "*.egg-info")
    return "".join(f"{name}\n" for name in ignored)


def run_host(name: str, data: Path) -> int:
    """A container's first process: write what its host starts from, then be its agent."""
    from compose.agent import main
    from compose.files import write_host

    topology = container_topology(int(os.environ.get("ZABKA_PEERS", "3")), int(os.environ.get("ZABKA_BROKERS", "3")))
    host = next(h for h in topology.hosts if h.name == name)
    # The user of the containers, who is somebody else, has to read it.
    save(topology, data, 0o644)
    return main(write_host(topology, host, data))


def write_files() -> None:
    """Write compose.yaml, Dockerfile and its ignore file beside this module."""
    (HERE / "compose.yaml").write_text(compose_yaml(container_topology()))
    (HERE / "Dockerfile").write_text(dockerfile())
    (HERE / "Dockerfile.dockerignore").write_text(dockerignore())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(run_host(sys.argv[1], Path(DATA)))
    write_files()
