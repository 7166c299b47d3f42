"""Generates compose.yaml for a topology of containers. `zabka compose` writes it, for any number of nodes.

Settings that all services share are under YAML anchors; a service contains only its own settings. Sources: the Compose
specification (merge keys, profiles, `start_interval`).
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath

from zabka.compose.containers import AGENT_PORT, API_HOST, API_PORT, DATA, TOKENS, USER_ID, published
from zabka.compose.files import API_TOKEN_FILE
from zabka.compose.secured_nodes import API, secrets_of
from zabka.compose.topology import HostSpec, Topology

NODE_IMAGE, SPARK_IMAGE = "zabka", "zabka-spark"
JOURNALS = "/journals"
TABLES = "/tables"


def compose_yaml(
    topology: Topology, settings: list[str] | None = None, root: str = "..", secrets: str = "./zabka-secrets"
) -> str:
    """Return the content of compose.yaml.

    `settings` are the settings from which the topology was created; `root` is the project's directory relative to the
    file's directory, and `secrets` the directory of a secured cluster's certificates and passwords.
    """
    parts = [
        _head(topology, settings or [], root),
        "services:\n",
        *(_service(topology, host) for host in topology.hosts),
        _spark(topology),
        _volumes(topology),
        _secrets(topology, secrets) if topology.secure else "",
    ]
    return "".join(parts)


def _quoted(text: str) -> str:
    """Return a YAML scalar in double quotes. JSON is valid YAML. `$` is doubled, because Compose substitutes
    variables.
    """
    return json.dumps(text.replace("$", "$$"))


def _head(topology: Topology, settings: list[str], root: str) -> str:
    return f"""\
# Made by `zabka compose --peers {len(topology.peers)} --brokers {len(topology.brokers)}`; change that, not this file.
# Calls that change something need the token: docker compose exec {API_HOST} cat {DATA}/{API_TOKEN_FILE}
name: zabka

x-build: &build
  context: {_quoted(root)}
  dockerfile: compose/Dockerfile

x-limits: &limits
  init: true
  user: "{USER_ID}:{USER_ID}"
  read_only: true
  tmpfs: ["/tmp:mode=1777,size=64m"]
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  pids_limit: 512
  logging:
    driver: json-file
    options: {{max-size: 10m, max-file: "3"}}

x-node: &node
  <<: *limits
  image: {NODE_IMAGE}
  mem_limit: 1g
  restart: unless-stopped
  # The agent stops its node cleanly; it needs longer than Docker's own ten seconds.
  stop_grace_period: 20s
  environment:
    ZABKA_PEERS: "{len(topology.peers)}"
    ZABKA_BROKERS: "{len(topology.brokers)}"
    ZABKA_PROFILE: {topology.profile}
    ZABKA_SETTINGS: {_quoted(json.dumps(settings))}
{'    ZABKA_SECURE: "true"' + chr(10) if topology.secure else ""}\
  healthcheck: &health
    test: [CMD, python, -I, -m, zabka.compose.healthcheck, "{AGENT_PORT}"]
    # Failed health checks do not count against a container until it has had time to start on a busy machine.
    start_period: 180s
    start_interval: 2s
    interval: 30s
    timeout: 15s
    retries: 5

x-after-peers: &after-peers
{"".join(f"  {p.address}: {{condition: service_healthy}}{chr(10)}" for p in topology.peers)}
"""


def _service(topology: Topology, host: HostSpec) -> str:
    own, secured = "", "tls:" if topology.secure else ""
    if host.runs_api:
        own = (
            "    build:\n      <<: *build\n      target: nodes\n"
            "    healthcheck:\n      <<: *health\n"
            f'      test: [CMD, python, -I, -m, zabka.compose.healthcheck, "{AGENT_PORT}", "{secured}{API_PORT}"]\n'
        )
    if not any(node.startswith("peer-") for node in host.nodes):
        own += "    depends_on: *after-peers\n"
    if topology.secure:
        own += f"    secrets: [{', '.join(secrets_of(_kind(host)))}]\n"
    ports = ", ".join(f'"127.0.0.1:{outside}:{inside}"' for outside, inside in published(topology, host))
    return f"""\
  {host.address}:
    <<: *node
    hostname: {host.address}
    command: [python, -m, zabka.compose.containers, {host.name}]
    volumes: ["{host.address}:{DATA}", "tokens:{TOKENS}"]
    ports: [{ports}]
{own}"""


def _spark(topology: Topology) -> str:
    """Return the Spark service, which builds tables from all journals.

    The service reads the volumes of all nodes, and writes to its own volume.
    """
    mounts = "".join(
        f'      - "{host.address}:{PurePosixPath(JOURNALS) / host.address}:ro"\n' for host in topology.hosts
    )
    return f"""\
  spark:
    <<: *limits
    image: {SPARK_IMAGE}
    build:
      <<: *build
      target: spark
    profiles: [spark]
    hostname: spark
    command: [zabka, pipeline, tables, --data, {JOURNALS}, --out, {TABLES}]
    mem_limit: 3g
    # Parquet's compression is a native library that Java unpacks to this directory and loads.
    tmpfs: ["/tmp:mode=1777,size=1g,exec"]
    volumes:
{mounts}      - "tables:{TABLES}"
"""


def _secrets(topology: Topology, directory: str) -> str:
    names = sorted({name for host in topology.hosts for name in secrets_of(_kind(host))})
    return "secrets:\n" + "".join(f"  {name}: {{file: {_quoted(f'{directory}/{name}')}}}\n" for name in names)


def _kind(host: HostSpec) -> str:
    return API if host.runs_api else host.nodes[0].partition("-")[0]


def _volumes(topology: Topology) -> str:
    names = [*(host.address for host in topology.hosts), "tokens", "tables"]
    return "volumes:\n" + "".join(f"  {name}: {{}}\n" for name in names)
