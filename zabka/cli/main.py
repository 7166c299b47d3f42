"""The `zabka` command: finds the verb's own module and runs it.

`zabka VERB` is `zabka/cli/VERB.py`, with an underscore for a hyphen.  A module is imported when its verb is called, and
what carries the verb out within its functions, so that help and refusals come at once.  The verbs of `WITHOUT_TYPER`
read their options themselves, as Kafka's tools do: their modules have `main(arguments) -> exit code`, and run in any
installation.  The others need the extra `cli` (`zabka.cli.typer_verbs`).

To add a verb: write its module, and its line in `VERBS`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from zabka.cli.broken_pipe import NobodyReads
from zabka.ensemble.runtime.extras import is_installed, sentence

VERBS = {
    "up": "Start a cluster on this machine: an ensemble, brokers and the dashboard.  Ctrl-C stops it.",
    "down": "Stop the cluster of a data directory.",
    "status": "Say what runs where.",
    "compose": "Write the compose.yaml of a cluster of containers.",
    "kubernetes": "Write the Kubernetes manifests of a cluster.",
    "peer": "Run one ensemble server in the foreground.",
    "broker": "Run one broker in the foreground.",
    "agent": "Run one host agent in the foreground: one of several hosts, or a container's first process.",
    "topics": "Create, describe, alter, delete or list topics, as kafka-topics.sh does.",
    "elect": "Hold leader elections, as kafka-leader-election.sh does.",
    "configs": "Describe or alter configurations, as kafka-configs.sh does.",
    "reassign": "Move partitions between brokers, as kafka-reassign-partitions.sh does.",
    "consumer-groups": "List, describe, reset or delete consumer groups, as kafka-consumer-groups.sh does.",
    "get-offsets": "Print offsets, as kafka-get-offsets.sh does.",
    "delete-records": "Delete records, as kafka-delete-records.sh does.",
    "produce": "Produce lines of standard input, as kafka-console-producer.sh does.",
    "consume": "Print the records of a topic, as kafka-console-consumer.sh does.",
    "broker-api-versions": "Print the requests that brokers serve, as kafka-broker-api-versions.sh does.",
    "log-dirs": "Print log directories, as kafka-log-dirs.sh does.",
    "simulate": "Run seeds in the simulated world; exit code 1 where an invariant did not hold.",
    "replay": "Run one seed, or a tape that a search has found, byte-identical every time, and write its journal.",
    "search": "Change runs by what they reached, until an invariant does not hold; then exit code 1.",
    "explore": "Visit every state of the bare protocol in a small scope; exit code 1 where an invariant did not hold.",
    "why": "Say what a decision was made from, and what led to it, back to a fault, a request, a timer or a start.",
    "pipeline": "The Spark jobs: tables made of the journals.",
    "campaign": "Settings times seeds in the simulated world, as Spark tasks; exit code 1 where an invariant broke.",
    "scenarios": "The outage library: what went wrong elsewhere, as scripts that must go right here.",
}
"""Every verb in the order of `zabka --help`, and what it is for."""
WITHOUT_TYPER = frozenset({
    "peer", "broker", "topics", "elect", "configs", "reassign", "consumer-groups", "get-offsets", "delete-records",
    "produce", "consume", "broker-api-versions", "log-dirs",
})  # fmt: skip
"""The verbs that need no extra."""
USAGE = 2
MISSING = 78
"""The exit code where the command line is not installed (EX_CONFIG of sysexits.h): 1 and 2 mean other things."""
INTERRUPTED = 130
"""As the shell has it: 128 and SIGINT's number."""


def main_of(verb: str) -> Callable[[list[str]], int]:
    """What runs a verb of `WITHOUT_TYPER`."""
    run: Callable[[list[str]], int] = import_module(module_name(verb)).main
    return run


def module_name(verb: str) -> str:
    """The module of a verb."""
    return f"zabka.cli.{verb.replace('-', '_')}"


def _run(arguments: list[str]) -> int:
    verb = arguments[0] if arguments else ""
    if verb in WITHOUT_TYPER:
        return main_of(verb)(arguments[1:])
    if not is_installed("cli"):
        missing = f"the command zabka {verb} is" if verb in VERBS else "the command line is"
        print(f"zabka: {sentence('cli', missing)}", file=sys.stderr)  # noqa: T201
        return MISSING
    from zabka.cli.typer_verbs import run

    return run(arguments)


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
            code = _run(sys.argv[1:])
        finally:
            # Later nobody could be told that what is buffered cannot be written.
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except (OSError, NobodyReads) as failed:
        if not isinstance(failed, BrokenPipeError | NobodyReads):
            print(f"zabka: {failed}", file=sys.stderr)  # noqa: T201
        # What is buffered would be tried once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = USAGE
    sys.exit(code)


if __name__ == "__main__":
    main()
