"""Definitions of the options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[Path, typer.Option("--data", envvar="ZABKA_DATA", help="The cluster's directory")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", envvar="ZABKA_SET", help="Any ZooKeeper or Kafka key"),
]

Scenario = Annotated[
    str,
    typer.Option(
        envvar="ZABKA_SCENARIO",
        help="Faults of the simulated cluster: chaos, calm, requests (chaos in which single requests "
        "fail), ensemble (peers only), reconfiguring, read-only, "
        "disks (that fail, fill up, stall and lose writes), swarm, swarm-ensemble, swarm-disks (a few faults by role, "
        "as `zabka search` draws them), whole, whole-cluster (drawn configuration keys; peers alone, or with brokers), "
        "or a scenario that `zabka scenarios list` names, or a scenario's JSON file",
    ),
]
Secure = Annotated[
    bool, typer.Option("--secure", envvar="ZABKA_SECURE", help="TLS, users and ACLs; writes secrets next to --out")
]
