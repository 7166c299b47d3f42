"""`zabka up`: start a cluster on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from zabka.cli.options import Data, Settings
from zabka.ensemble.runtime.extras import Lacking, is_installed, sentence


def command(
    peers: Annotated[int | None, typer.Option(envvar="ZABKA_PEERS", help="Voting servers [default: 3]")] = None,
    observers: Annotated[int | None, typer.Option(envvar="ZABKA_OBSERVERS", help="Observers [default: 0]")] = None,
    brokers: Annotated[int | None, typer.Option(envvar="ZABKA_BROKERS", help="Brokers [default: 3]")] = None,
    data: Data = Path(".zabka"),
    host: Annotated[
        str | None, typer.Option(envvar="ZABKA_HOST", help="Address to listen on [default: 127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None, typer.Option(envvar="ZABKA_PORT", help="Port of the dashboard; 0 picks a free one [default: 8080]")
    ] = None,
    zk_port: Annotated[
        int | None, typer.Option(envvar="ZABKA_ZK_PORT", help="Peer 1's client port [default: 2181]")
    ] = None,
    kafka_port: Annotated[
        int | None, typer.Option(envvar="ZABKA_KAFKA_PORT", help="Broker 1's port [default: 9092]")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(envvar="ZABKA_PROFILE", help="default (short timeouts) or kafka (Kafka's own timeouts)"),
    ] = None,
    set_: Settings = None,
    secure: Annotated[
        bool | None,
        typer.Option(envvar="ZABKA_SECURE", help="TLS, users and ACLs for all connections [default: as before]"),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", envvar="ZABKA_DETACH", help="Return once it is ready")] = False,
    pipeline: Annotated[
        bool,
        typer.Option("--pipeline", envvar="ZABKA_PIPELINE", help="Also run the stream that updates the Spark tables"),
    ] = False,
) -> None:
    """Start a cluster on this machine: an ensemble, brokers and the dashboard.  Ctrl-C stops it."""
    from zabka.compose.config_keys import BadSetting, split_settings
    from zabka.compose.files import InUse
    from zabka.compose.plan import BadPlan, Requested
    from zabka.compose.ports import PortTaken
    from zabka.compose.progress import PlainProgress, TerminalProgress
    from zabka.compose.topology import BadTopology
    from zabka.compose.up import CannotStart
    from zabka.compose.up import up as run

    progress = TerminalProgress() if sys.stdout.isatty() else PlainProgress()
    try:
        wanted = Requested(
            peers=peers,
            observers=observers,
            brokers=brokers,
            host=host,
            api_port=port,
            zk_port=zk_port,
            kafka_port=kafka_port,
            profile=profile,
            secure=secure,
            overrides=split_settings(set_ or []),
        )
        code = run(
            wanted,
            data.absolute(),
            progress,
            detach=detach,
            companion=_pipeline_of(data.absolute()) if pipeline else None,
        )
    except PortTaken as taken:
        progress.error(f"{taken}; choose another port (0 picks a free one) with --port, --zk-port or --kafka-port")
        code = 1
    except (BadSetting, BadPlan, BadTopology, InUse, CannotStart, Lacking, OSError) as reason:
        progress.error(str(reason))
        code = 1
    finally:
        progress.close()
    raise typer.Exit(code)


def _pipeline_of(data: Path) -> Callable[[], str]:
    """Return a function that starts the pipeline's stream job for a cluster's journals.

    The job ends after the cluster has stopped. The function returns a message about the job.
    """

    def start() -> str:
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            return "pipeline  not started: Spark needs Java 17 or newer"
        if not is_installed("spark"):
            return f"pipeline  not started: {sentence('spark', 'the Spark jobs are')}"
        log = data / "pipeline.log"
        try:
            with log.open("ab") as out:
                subprocess.Popen(
                    ["nice", sys.executable, "-m", "zabka.cli.main", "pipeline", "stream", "--data", str(data),
                    "--follow",
                     "--while-up"],
                    stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
        except OSError as reason:
            return f"pipeline  not started: {reason}"
        return f"pipeline  tables in {data / 'analytics'}, log in {log}"

    return start
