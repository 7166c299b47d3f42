"""`zabka kubernetes`: write the Kubernetes manifests of a cluster to one file."""

from __future__ import annotations

import secrets
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
    image: Annotated[str, typer.Option(help="The image, as the cluster's nodes pull it")] = "zabka",
    storage: Annotated[str, typer.Option(help="The size of each volume")] = "2Gi",
    secret: Annotated[
        bool, typer.Option("--secret", help="Make the agents' token and write it, too, as a Secret")
    ] = False,
    secure: Secure = False,
    out: Annotated[Path | None, typer.Option(help="File to write [default: standard output]")] = None,
) -> None:
    """Write the Kubernetes manifests of a cluster."""
    from zabka.cli.failure import fail
    from zabka.compose.config_keys import BadSetting
    from zabka.compose.containers import container_topology
    from zabka.compose.manifests import kubernetes_yaml
    from zabka.compose.plan import BadPlan
    from zabka.compose.security import contents, secrets_beside
    from zabka.compose.topology import PRIVATE, write_atomically
    from zabka.ensemble.runtime.extras import Lacking

    settings = set_ or []
    try:
        if secure and out is None:
            raise BadPlan("--secure writes certificates and passwords next to the file: name it with --out")
        topology = container_topology(peers, brokers, profile, settings, "kubernetes", secure=secure)
        token = secrets.token_urlsafe(32) if secret else ""
        files = contents(secrets_beside(out, topology)) if secure and out is not None else None
        text = kubernetes_yaml(topology, settings, image=image, storage=storage, agents_token=token, secrets=files)
        if out is None:
            sys.stdout.write(text)
        else:
            # Settings may contain passwords, so only the owner can read the file if it contains settings.
            write_atomically(out, text.encode(), PRIVATE if settings or secret or secure else 0o644)
    except (BadSetting, BadPlan, Lacking, OSError) as reason:
        fail(reason)
