"""The command `python -m bench NAME [options]`."""

from __future__ import annotations

import sys
from importlib import import_module

import typer

BENCHES = {
    "ensemble": ("bench.ensemble", "throughput and latency of the ensemble and Apache ZooKeeper, or an earlier commit"),
    "kafka": ("bench.kafka", "throughput and latency of the brokers and Apache Kafka"),
    "transactions": ("bench.transactions", "transactions a second and their cost, of the brokers and Apache Kafka"),
    "failover": ("bench.failover", "time without a leader or a controller after a crash or a freeze, on both sides"),
    "start": ("bench.start", "time, processor time and memory to start a cluster, and Apache's servers"),
    "idle": ("bench.idle", "processor time and memory of an idle cluster"),
    "soak": ("bench.soak", "an hour of records under faults; checks records, journal, memory and descriptors"),
    "histories": ("bench.histories", "records what clients see under faults, and checks it"),
    "page": ("tests.browser.page_times", "times of the dashboard: draw, seek, event and kill to pixel, long tasks"),
}
"""Benchmarks by name: the module that has `main`, and a one-line description."""


def app_of(name: str) -> typer.Typer:
    """Import a benchmark and return its command line.  Benchmarks are imported late because some need Spark or a
    browser.
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(import_module(BENCHES[name][0]).main)
    return app


def main(arguments: list[str]) -> None:
    """Run a benchmark, or list them.  The exit code is 2 for an unknown name."""
    name = arguments[0] if arguments else "--help"
    if name in BENCHES:
        app_of(name)(arguments[1:], prog_name=f"bench {name}")
    listed = "\n".join(f"  {each:12} {text}" for each, (_, text) in BENCHES.items())
    usage = f"Usage: python -m bench NAME [OPTIONS]; NAME --help lists the options.\n\n{listed}"
    typer.echo(usage, err=name != "--help")
    raise SystemExit(0 if name == "--help" else 2)


if __name__ == "__main__":
    main(sys.argv[1:])
