"""`zabka agent`: the process that manages the nodes of one host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zabka.cli.options import Data, Settings


def command(
    config: Annotated[
        Path | None,
        typer.Option(help="An agent.json, as `up` and the containers write it; it replaces all other options"),
    ] = None,
    hosts: Annotated[
        str,
        typer.Option(
            envvar="ZABKA_HOSTS",
            help="Names of all hosts, comma-separated, the same on each host; the API runs on the first",
        ),
    ] = "",
    here: Annotated[str, typer.Option(envvar="ZABKA_HERE", help="Name of this host")] = "",
    tokens: Annotated[
        Path | None,
        typer.Option(
            envvar="ZABKA_TOKENS", help="Directory of agent.token, which is the same on each host [default: --data]"
        ),
    ] = None,
    peers: Annotated[int, typer.Option(envvar="ZABKA_PEERS", help="Voting servers on all hosts together")] = 3,
    brokers: Annotated[int, typer.Option(envvar="ZABKA_BROKERS", help="Brokers on all hosts together")] = 3,
    profile: Annotated[
        str, typer.Option(envvar="ZABKA_PROFILE", help="default (short timeouts) or kafka (Kafka's own timeouts)")
    ] = "default",
    data: Data = Path(".zabka"),
    set_: Settings = None,
) -> None:
    """Run one host agent in the foreground, for one of several hosts or as a container's first process."""
    from zabka.cli.failure import fail
    from zabka.compose.config_keys import BadSetting
    from zabka.compose.plan import BadPlan

    if config is not None:
        from zabka.compose.agent import main as run

        raise typer.Exit(run(config))
    from zabka.compose.hosts import host_called, hosts_topology
    from zabka.compose.share import run_host

    data = data.absolute()
    shared = data if tokens is None else tokens.absolute()
    try:
        if not hosts or not here:
            raise BadPlan("name every host with --hosts and this one with --here, or give --config")
        topology = hosts_topology(
            [name.strip() for name in hosts.split(",")],
            peers=peers,
            brokers=brokers,
            profile=profile,
            settings=set_ or [],
            tokens=shared,
        )
        data.mkdir(parents=True, exist_ok=True)
        name = host_called(topology, here, shared)
    except (BadSetting, BadPlan, OSError) as reason:
        fail(reason)
    raise typer.Exit(run_host(topology, name, data))
