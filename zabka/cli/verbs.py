"""The verbs of the command `zabka`, and the modules that implement them.

`zabka VERB` is `zabka/cli/VERB.py`, with an underscore for a hyphen. The verbs in `WITHOUT_TYPER` parse their options
themselves, as Kafka's tools do. Their modules have `main(arguments) -> exit code`, and run in any installation. The
other verbs need the extra `cli` (`zabka.cli.typer_verbs`).

To add a verb, write its module and add its line to `VERBS`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

VERBS = {
    "up": "Start a cluster on this machine: an ensemble, brokers and the dashboard.  Ctrl-C stops it.",
    "down": "Stop the cluster of a data directory.",
    "status": "Print the health of a cluster, its processes and their addresses.",
    "compose": "Write the compose.yaml of a cluster of containers.",
    "kubernetes": "Write the Kubernetes manifests of a cluster.",
    "peer": "Run one ensemble server in the foreground.",
    "broker": "Run one broker in the foreground.",
    "agent": "Run one host agent in the foreground: one of several hosts, or a container's first process.",
    "topics": "Create, describe, alter, delete or list topics, as kafka-topics.sh does.",
    "elect": "Trigger leader elections, as kafka-leader-election.sh does.",
    "configs": "Describe or alter configurations, as kafka-configs.sh does.",
    "acls": "Add, remove or list ACLs, as kafka-acls.sh does.",
    "reassign": "Move partitions between brokers, as kafka-reassign-partitions.sh does.",
    "consumer-groups": "List, describe, reset or delete consumer groups, as kafka-consumer-groups.sh does.",
    "get-offsets": "Print offsets, as kafka-get-offsets.sh does.",
    "delete-records": "Delete records, as kafka-delete-records.sh does.",
    "produce": "Produce lines of standard input, as kafka-console-producer.sh does.",
    "consume": "Print the records of a topic, as kafka-console-consumer.sh does.",
    "transactions": "List, describe or abort transactions, as kafka-transactions.sh does.",
    "broker-api-versions": "Print the requests that brokers serve, as kafka-broker-api-versions.sh does.",
    "log-dirs": "Print log directories, as kafka-log-dirs.sh does.",
    "fault": "Add, list and remove faults of requests and links in a running cluster.",
    "simulate": "Run seeds in the simulated world; exit code 1 if an invariant was violated.",
    "replay": "Replay a seed, or a choice sequence of a search, byte-identical every time, and write its journal.",
    "what-if": "Play a seed with a change from a moment on, or forecast the death of a running cluster's node.",
    "search": "Search for a violation by changing runs that reached something new; exit code 1 if one is found.",
    "explore": "Visit every state of the bare protocol in a small scope; exit code 1 if an invariant was violated.",
    "why": "Explain a decision: its rule, and its causes back to a fault, a request, a timer or a start.",
    "export": "Write a run as one HTML file that opens in a browser without a server.",
    "pipeline": "The Spark jobs that build tables from the journals.",
    "campaign": "Run all settings with all seeds in the simulated world; exit code 1 if an invariant was violated.",
    "scenarios": "The outage library: outages of Kafka and ZooKeeper as scenarios that zabka must pass.",
}
"""Every verb with its description, in the order of `zabka --help`."""
WITHOUT_TYPER = frozenset({
    "peer", "broker", "topics", "elect", "configs", "acls", "reassign", "consumer-groups", "get-offsets",
    "delete-records", "produce", "consume", "transactions", "broker-api-versions", "log-dirs", "fault",
})  # fmt: skip
"""The verbs that run without the extra `cli`."""


def main_of(verb: str) -> Callable[[list[str]], int]:
    """Return the function `main` of a verb in `WITHOUT_TYPER`."""
    run: Callable[[list[str]], int] = import_module(module_name(verb)).main
    return run


def module_name(verb: str) -> str:
    """Return the module name of a verb."""
    return f"zabka.cli.{verb.replace('-', '_')}"
