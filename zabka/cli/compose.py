"""`zabka compose`: write a compose.yaml for a cluster of containers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from zabka.cli.options import Secure, Settings


def command(
    peers: Annotated[int, typer.Option(envvar="ZABKA_PEERS", help="Voting servers")] = 3,
    brokers: Annotated[int, typer.Option(envvar="ZABKA_BROKERS", help="Brokers")] = 3,
    profile: Annotated[
        str, typer.Option(envvar="ZABKA_PROFILE", help="default (short timeouts) or kafka (Kafka's own timeouts)")
    ] = "default",
    set_: Settings = None,
    secure: Secure = False,
    out: Annotated[Path | None, typer.Option(help="File to write [default: standard output]")] = None,
) -> None:
    """Write the compose.yaml of a cluster of containers."""
    from zabka.cli.failure import fail
    from zabka.compose.composition import compose_yaml
    from zabka.compose.config_keys import BadSetting
    from zabka.compose.containers import container_topology
    from zabka.compose.plan import BadPlan
    from zabka.compose.security import secrets_beside
    from zabka.compose.topology import PRIVATE, write_atomically
    from zabka.ensemble.runtime.extras import Lacking

    settings = set_ or []
    try:
        if secure and out is None:
            raise BadPlan("--secure writes certificates and passwords next to the file: name it with --out")
        topology = container_topology(peers, brokers, profile, settings, secure=secure)
        project = Path(__file__).parents[2]
        inside = out is not None and out.absolute().is_relative_to(project)
        root = os.path.relpath(project, out.absolute().parent) if out is not None and inside else str(project)
        if secure and out is not None:
            # A container's user must be able to read the files; only the directory's owner can reach them otherwise.
            secrets_beside(out, topology, 0o644)
        text = compose_yaml(topology, settings, root)
        if out is None:
            sys.stdout.write(text)
        else:
            # Settings may contain passwords, so only the owner can read the file if it contains settings.
            write_atomically(out, text.encode(), PRIVATE if settings else 0o644)
    except (BadSetting, BadPlan, Lacking, OSError) as reason:
        fail(reason)
