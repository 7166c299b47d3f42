"""The `zabka` command: finds the verb's own module and runs it.

`zabka VERB` is `zabka/cli/VERB.py`, with an underscore for a hyphen.  A module is imported when its verb is called, and
what carries the verb out within its functions, so that help and refusals come at once.  A module has one of three
things:

- `command`, a function whose parameters Typer makes options of;
- `main(arguments) -> exit code`, where the verb reads its options itself, as Kafka's tools do;
- `app`, a Typer application, where the verb has verbs of its own.

To add a verb: write its module, and its line in `VERBS`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from zabka.cli.broken_pipe import NobodyReads, PipedGroup

VERBS = {
    "up": "Start a cluster on this machine: an ensemble, brokers and the dashboard.  Ctrl-C stops it.",
    "down": "Stop the cluster of a data directory.",
    "status": "Print the processes of a cluster and their addresses.",
    "compose": "Write the compose.yaml of a cluster of containers.",
    "kubernetes": "Write the Kubernetes manifests of a cluster.",
    "peer": "Run one ensemble server in the foreground.",
    "broker": "Run one broker in the foreground.",
    "agent": "Run one host agent in the foreground: one of several hosts, or a container's first process.",
    "topics": "Create, describe, alter, delete or list topics, as kafka-topics.sh does.",
    "elect": "Trigger leader elections, as kafka-leader-election.sh does.",
    "configs": "Describe or alter configurations, as kafka-configs.sh does.",
    "reassign": "Move partitions between brokers, as kafka-reassign-partitions.sh does.",
    "consumer-groups": "List, describe, reset or delete consumer groups, as kafka-consumer-groups.sh does.",
    "get-offsets": "Print offsets, as kafka-get-offsets.sh does.",
    "delete-records": "Delete records, as kafka-delete-records.sh does.",
    "produce": "Produce lines of standard input, as kafka-console-producer.sh does.",
    "consume": "Print the records of a topic, as kafka-console-consumer.sh does.",
    "broker-api-versions": "Print the requests that brokers serve, as kafka-broker-api-versions.sh does.",
    "log-dirs": "Print log directories, as kafka-log-dirs.sh does.",
    "simulate": "Run seeds in the simulated world; exit code 1 if an invariant was violated.",
    "replay": "Replay a seed, or a choice sequence of a search, byte-identical every time, and write its journal.",
    "search": "Search for a violation by changing runs that reached something new; exit code 1 if one is found.",
    "explore": "Visit every state of the bare protocol in a small scope; exit code 1 if an invariant was violated.",
    "why": "Explain a decision: its rule, and its causes back to a fault, a request, a timer or a start.",
    "pipeline": "The Spark jobs that build tables from the journals.",
    "campaign": "Run settings times seeds in the simulated world; exit code 1 if an invariant was violated.",
    "scenarios": "The outage library: outages of Kafka and ZooKeeper as scenarios that zabka must pass.",
}
"""Every verb in the order of `zabka --help`, and what it is for."""
USAGE = 2
_PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def _passing_on(main: Callable[[list[str]], int]) -> Callable[[typer.Context], None]:
    def pass_on(context: typer.Context) -> None:
        raise typer.Exit(main(context.args))

    return pass_on


def load(verb: str) -> Any:
    """The command of a verb, made of its module."""
    module: Any = import_module(f"zabka.cli.{verb.replace('-', '_')}")
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        if hasattr(module, "main"):
            app.command(verb, context_settings=_PASS_ON, help=VERBS[verb])(_passing_on(module.main))
        else:
            app.command(verb, help=VERBS[verb])(module.command)
    return typer.main.get_command(app)


class _Verbs(PipedGroup):
    """Lists the verbs without their modules, and loads the one that is called."""

    def __init__(self) -> None:
        super().__init__(
            name="zabka",
            help="A Kafka control plane that you can break on purpose, watch, rewind and measure.",
            commands={verb: TyperCommand(verb, help=text) for verb, text in VERBS.items()},
            no_args_is_help=True,
            rich_markup_mode=None,
        )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        verb, command, rest = super().resolve_command(ctx, args)
        return verb, command if verb is None else load(verb), rest


def _open_closed_streams() -> None:
    """What was closed by whoever began this (`>&-`) leads nowhere, and nowhere comes from it; Python has None there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115


def main() -> None:
    """The console script.  What cannot be written is told in a line, with exit code 2: 1 is some verbs' verdict."""
    _open_closed_streams()
    try:
        try:
            _Verbs()()
        finally:
            # Later nobody could be told that what is buffered cannot be written.
            sys.stdout.flush()
    except (OSError, NobodyReads) as failed:
        if not isinstance(failed, BrokenPipeError | NobodyReads):
            print(f"zabka: {failed}", file=sys.stderr)  # noqa: T201
        # What is buffered would be tried once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(USAGE)


if __name__ == "__main__":
    main()
