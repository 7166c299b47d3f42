"""The settings of the API process, from one JSON file that is generated from the topology.

Environment variables ZABKA_API_… apply to settings that are not in the file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from zabka.api.collector.numbered import KEPT_BYTES_MAX
from zabka.api.runs.kept import RUNS_BYTES_MAX, RUNS_MAX
from zabka.api.runs.uploads import UPLOAD_BYTES_MAX

_PREFIX = "ZABKA_API_"


class AgentAddress(BaseModel):
    """The address of a host agent, and the nodes that the agent runs."""

    name: str
    url: str
    nodes: list[str]
    remedy: str = Field(default="", description="What brings it back where it does not answer, for people")


class Security(BaseModel):
    """How the API connects to a secured cluster, and how clients connect to the API."""

    directory: Path = Field(description="The directory of the cluster's secrets, for programs on the same machine")
    authority: Path = Field(description="The certificate that verifies peers and brokers")
    certificate: Path = Field(description="The API's own key and certificate, for its HTTPS server and for peers")
    client_properties: Path = Field(description="The settings of the API's Kafka clients")


class Settings(BaseModel):
    """The API's configuration."""

    model_config = ConfigDict(extra="forbid")

    data: Path = Field(description="The API's own directory: collected journal, state")
    cluster_data: Path = Field(description="The cluster's data directory, named in messages to people")
    host: str = "127.0.0.1"
    port: int = 8080
    token_file: Path = Field(description="Bearer token for calls that change something, unless on loopback")
    agent_token_file: Path
    agents: list[AgentAddress]
    peers: list[int]
    observers: list[int] = []
    brokers: list[int]
    zookeeper_connect: str
    bootstrap: str
    external: list[str] = Field(
        default=[], description="Each broker's HOST:PORT for clients beyond the nodes' own network, where they have one"
    )
    session_timeout_ms: int = 6000
    tables: Path = Field(description="Where the Spark tables are kept, as Parquet")
    security: Security | None = Field(default=None, description="Set if the cluster is secured")
    allowed_hosts: list[str] = Field(default=[], description="More Host names to answer to; '*' for any")
    collected_bytes_max: int = Field(
        default=KEPT_BYTES_MAX, ge=1 << 20, description="The collected history; beyond this its oldest events go"
    )
    runs_max: int = Field(default=RUNS_MAX, ge=1, description="Kept runs; beyond this the oldest goes")
    runs_bytes_max: int = Field(default=RUNS_BYTES_MAX, ge=1 << 20, description="Kept runs, all together")
    upload_bytes_max: int = Field(default=UPLOAD_BYTES_MAX, ge=1 << 20, description="A journal that is uploaded")
    web: Path | None = Field(default=None, description="The page's files; default: those of this package")
    node_modules: Path | None = Field(
        default=None, description="The page's libraries; default: found beside the package"
    )


def load_settings(path: Path) -> Settings:
    """Read a settings file. Raises OSError, and pydantic's ValueError with the reason."""
    raw: dict[str, Any] = json.loads(path.read_text())
    return Settings(**{**_from_environment(), **raw})


def _from_environment() -> dict[str, Any]:
    """Read settings from environment variables.

    A value that begins with `[` is parsed as JSON; all others are strings.
    """
    found = {name: os.environ.get(f"{_PREFIX}{name.upper()}") for name in Settings.model_fields}
    return {
        name: json.loads(value) if value.startswith("[") else value
        for name, value in found.items()
        if value is not None
    }
