"""The `zabka` command.  Every room's own command is imported when it is called, so that this starts fast."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

app = typer.Typer(
    name="zabka",
    help="A Kafka control plane that you can break on purpose, watch, rewind and measure.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Data = Annotated[Path, typer.Option("--data", envvar="ZABKA_DATA", help="The cluster's directory")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", envvar="ZABKA_SET", help="Any ZooKeeper or Kafka key"),
]
_PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def _fail(message: object, code: int = 1) -> NoReturn:
    print(f"zabka: {message}", file=sys.stderr)  # noqa: T201
    raise typer.Exit(code)


@app.command()
def up(
    peers: Annotated[int | None, typer.Option(envvar="ZABKA_PEERS", help="Voting servers [default: 3]")] = None,
    observers: Annotated[int | None, typer.Option(envvar="ZABKA_OBSERVERS", help="Observers [default: 0]")] = None,
    brokers: Annotated[int | None, typer.Option(envvar="ZABKA_BROKERS", help="Brokers [default: 3]")] = None,
    data: Data = Path(".zabka"),
    host: Annotated[
        str | None, typer.Option(envvar="ZABKA_HOST", help="Address to listen on [default: 127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None, typer.Option(envvar="ZABKA_PORT", help="The dashboard; 0 picks one [default: 8080]")
    ] = None,
    zk_port: Annotated[
        int | None, typer.Option(envvar="ZABKA_ZK_PORT", help="Peer 1's client port [default: 2181]")
    ] = None,
    kafka_port: Annotated[
        int | None, typer.Option(envvar="ZABKA_KAFKA_PORT", help="Broker 1's port [default: 9092]")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(envvar="ZABKA_PROFILE", help="default (time-outs to watch), or kafka (its own)")
    ] = None,
    set_: Settings = None,
    detach: Annotated[bool, typer.Option("--detach", envvar="ZABKA_DETACH", help="Return once it is ready")] = False,
) -> None:
    """Start a cluster on this machine: an ensemble, brokers and the dashboard.  Ctrl-C stops it."""
    from compose.config_keys import BadSetting, split_settings
    from compose.files import InUse
    from compose.plan import BadPlan, Wanted
    from compose.ports import PortTaken
    from compose.progress import PlainProgress, TerminalProgress
    from compose.topology import BadTopology
    from compose.up import CannotStart
    from compose.up import up as run

    progress = TerminalProgress() if sys.stdout.isatty() else PlainProgress()
    try:
        wanted = Wanted(
            peers=peers,
            observers=observers,
            brokers=brokers,
            host=host,
            api_port=port,
            zk_port=zk_port,
            kafka_port=kafka_port,
            profile=profile,
            overrides=split_settings(set_ or []),
        )
        code = run(wanted, data.absolute(), progress, detach=detach)
    except PortTaken as taken:
        progress.error(f"{taken}; name another one (0 picks one): --port, --zk-port, --kafka-port")
        code = 1
    except (BadSetting, BadPlan, BadTopology, InUse, CannotStart, OSError) as reason:
        progress.error(str(reason))
        code = 1
    raise typer.Exit(code)


@app.command()
def down(data: Data = Path(".zabka")) -> None:
    """Stop the cluster of a data directory."""
    from compose.up import CannotStart
    from compose.up import down as run

    try:
        stopped = run(data.absolute())
    except (CannotStart, OSError) as reason:
        _fail(reason)
    print("stopped" if stopped else f"no cluster runs in {data}")  # noqa: T201


@app.command()
def status(
    data: Data = Path(".zabka"),
    as_json: Annotated[bool, typer.Option("--json", envvar="ZABKA_JSON", help="For programs")] = False,
) -> None:
    """Say what runs where."""
    from compose.status import read_status, show
    from compose.topology import BadTopology

    try:
        found = read_status(data.absolute())
    except (BadTopology, OSError) as reason:
        _fail(reason)
    if found is None:
        _fail(f"there is no cluster in {data}")
    print(json.dumps(found, indent=2) if as_json else show(found))  # noqa: T201
    raise typer.Exit(0 if found["running"] else 3)


@app.command()
def peer(config: Annotated[Path, typer.Option(help="A ZooKeeper zoo.cfg")]) -> None:
    """Run one ensemble server in the foreground."""
    from compose.node import run_peer

    raise typer.Exit(run_peer(str(config)))


@app.command()
def broker(config: Annotated[Path, typer.Option(help="A Kafka server.properties")]) -> None:
    """Run one broker in the foreground."""
    from compose.node import run_broker

    raise typer.Exit(run_broker(str(config)))


@app.command()
def agent(config: Annotated[Path, typer.Option(help="An agent.json, as `up` and the containers write it")]) -> None:
    """Run one host agent in the foreground, as a container's first process."""
    from compose.agent import main as run

    raise typer.Exit(run(config))


@app.command(context_settings=_PASS_ON, help="Create, describe, alter, delete or list topics, as kafka-topics.sh does.")
def topics(context: typer.Context) -> None:
    """Pass on to the tool that reads Kafka's own options."""
    from tools.kafka_topics import main as run

    raise typer.Exit(run(context.args))


@app.command(context_settings=_PASS_ON, help="Hold leader elections, as kafka-leader-election.sh does.")
def elect(context: typer.Context) -> None:
    """Pass on to the tool that reads Kafka's own options."""
    from tools.kafka_elect import main as run

    raise typer.Exit(run(context.args))


@app.command(context_settings=_PASS_ON, help="Describe or alter configurations, as kafka-configs.sh does.")
def configs(context: typer.Context) -> None:
    """Pass on to the tool that reads Kafka's own options."""
    from tools.kafka_configs import main as run

    raise typer.Exit(run(context.args))


@app.command(context_settings=_PASS_ON, help="Move partitions between brokers, as kafka-reassign-partitions.sh does.")
def reassign(context: typer.Context) -> None:
    """Pass on to the tool that reads Kafka's own options."""
    from tools.kafka_reassign import main as run

    raise typer.Exit(run(context.args))


@app.command(
    "consumer-groups",
    context_settings=_PASS_ON,
    help="List, describe, reset or delete consumer groups, as kafka-consumer-groups.sh does.",
)
def consumer_groups(context: typer.Context) -> None:
    """Pass on to the tool that reads Kafka's own options."""
    from tools.kafka_groups import main as run

    raise typer.Exit(run(context.args))


@app.command("get-offsets", context_settings=_PASS_ON, help="Print offsets, as kafka-get-offsets.sh does.")
def get_offsets(context: typer.Context) -> None:
    """Pass on to the tool that reads Kafka's own options."""
    from tools.kafka_offsets import main as run

    raise typer.Exit(run(context.args))


@app.command("delete-records", context_settings=_PASS_ON, help="Delete records, as kafka-delete-records.sh does.")
def delete_records(context: typer.Context) -> None:
    """Pass on to the tool that reads Kafka's own options."""
    from tools.kafka_offsets import delete_main as run

    raise typer.Exit(run(context.args))


@app.command(context_settings=_PASS_ON, help="Produce lines of standard input, as kafka-console-producer.sh does.")
def produce(context: typer.Context) -> None:
    """Pass on to the tool that reads Kafka's own options."""
    from tools.kafka_console import produce_main as run

    raise typer.Exit(run(context.args))


@app.command(context_settings=_PASS_ON, help="Print the records of a topic, as kafka-console-consumer.sh does.")
def consume(context: typer.Context) -> None:
    """Pass on to the tool that reads Kafka's own options."""
    from tools.kafka_console import consume_main as run

    raise typer.Exit(run(context.args))


@app.command(
    "broker-api-versions",
    context_settings=_PASS_ON,
    help="Print the requests that brokers serve, as kafka-broker-api-versions.sh does.",
)
def broker_api_versions(context: typer.Context) -> None:
    """Pass on to the tool that reads Kafka's own options."""
    from tools.kafka_brokers import api_versions_main as run

    raise typer.Exit(run(context.args))


@app.command("log-dirs", context_settings=_PASS_ON, help="Print log directories, as kafka-log-dirs.sh does.")
def log_dirs(context: typer.Context) -> None:
    """Pass on to the tool that reads Kafka's own options."""
    from tools.kafka_brokers import log_dirs_main as run

    raise typer.Exit(run(context.args))


Scenario = Annotated[
    str,
    typer.Option(
        envvar="ZABKA_SCENARIO",
        help="What happens to the simulated cluster: chaos, calm, ensemble (peers alone), reconfiguring, read-only, "
        "disks (that fail, fill up, stall and forget), or a scenario that `zabka scenarios list` names",
    ),
]


@app.command()
def simulate(
    seeds: Annotated[str, typer.Option(envvar="ZABKA_SEEDS", help="A-B, both ends included, or one number")],
    scenario: Scenario = "chaos",
    set_: Settings = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, envvar="ZABKA_JOBS", help="Processes; by default one a core")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", envvar="ZABKA_JSON", help="For programs")] = False,
) -> None:
    """Run seeds in the simulated world; exit code 1 where an invariant did not hold."""
    from tools.simulate import simulate as run

    raise typer.Exit(run(seeds, scenario, set_ or [], jobs or os.cpu_count() or 1, as_json))


@app.command()
def replay(
    seed: Annotated[int, typer.Option(min=0, envvar="ZABKA_SEED", help="The seed to play again")],
    scenario: Scenario = "chaos",
    set_: Settings = None,
    out: Annotated[Path | None, typer.Option(envvar="ZABKA_OUT", help="The journal goes there, not to stdout")] = None,
) -> None:
    """Run one seed again, byte-identical every time, and write its journal."""
    from tools.simulate import replay as run

    raise typer.Exit(run(seed, scenario, set_ or [], out))


@app.command()
def explore(
    writes: Annotated[int, typer.Option(min=0, max=9, envvar="ZABKA_WRITES", help="How many writes, at most")] = 1,
    crashes: Annotated[int, typer.Option(min=0, max=9, envvar="ZABKA_CRASHES", help="How many crashes, at most")] = 1,
    peers: Annotated[int, typer.Option(min=1, max=5, envvar="ZABKA_PEERS", help="How many voters")] = 3,
    start: Annotated[
        Literal["leader", "power-on"],
        typer.Option(envvar="ZABKA_START", help="From a leader that serves, or from processes just started"),
    ] = "leader",
    timeouts: Annotated[
        int, typer.Option(min=0, max=9, envvar="ZABKA_TIMEOUTS", help="How often patience may end with links fine")
    ] = 0,
    breaks: Annotated[int, typer.Option(min=0, max=9, envvar="ZABKA_BREAKS", help="How many links may break")] = 0,
    elections: Annotated[
        int | None,
        typer.Option(min=0, max=99, envvar="ZABKA_ELECTIONS", help="How often somebody may begin to lead [faults + 1]"),
    ] = None,
    losses: Annotated[
        bool, typer.Option(envvar="ZABKA_LOSSES", help="May what a peer sent before it died be lost?")
    ] = True,
    states: Annotated[int, typer.Option(min=1, envvar="ZABKA_STATES", help="Stop after that many states")] = 10_000_000,
    out: Annotated[
        Path | None, typer.Option(envvar="ZABKA_OUT", help="A failure is written there as a scenario")
    ] = None,
) -> None:
    """Visit every state of the bare protocol in a small scope; exit code 1 where an invariant did not hold."""
    from simulation.search.explore import Begin, Bounds
    from tools.explore import explore as run

    limit = -1 if elections is None else elections
    bounds = Bounds(peers, writes, crashes, timeouts, breaks, limit, losses, Begin(start), states)
    raise typer.Exit(run(bounds, out))


scenarios = typer.Typer(help="The outage library: what went wrong elsewhere, as scripts that must go right here.")
app.add_typer(scenarios, name="scenarios")


@scenarios.command("list")
def list_scenarios(
    as_json: Annotated[bool, typer.Option("--json", envvar="ZABKA_JSON", help="For programs: whole scripts")] = False,
) -> None:
    """Name every scenario, and say why it holds."""
    from testing.live.scenarios import LivePlayer
    from tools.scenarios import list_all

    raise typer.Exit(list_all(as_json, LivePlayer()))


@scenarios.command("run")
def run_scenarios(
    names: Annotated[list[str] | None, typer.Argument(help="Names, or a scenario's JSON file; none for all")] = None,
    live: Annotated[bool, typer.Option("--live/--simulated", envvar="ZABKA_LIVE", help="On real processes")] = False,
    out: Annotated[
        Path | None, typer.Option(envvar="ZABKA_OUT", help="The journal goes there, of the outage if there is one")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, envvar="ZABKA_SEED", help="Draws other delays than the script's own seed")
    ] = None,
    set_: Settings = None,
    story: Annotated[
        bool, typer.Option("--story", envvar="ZABKA_STORY", help="Tell each step, and what came of it")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", envvar="ZABKA_JSON", help="For programs: verdicts and stories")
    ] = False,
) -> None:
    """Play scenarios; exit code 0 when each verdict is the expected one."""
    from tools.scenarios import Wanted, run

    wanted = Wanted(seed, tuple(set_ or ()), as_json, story, out)
    if not live:
        raise typer.Exit(run(names or [], None, wanted))
    from testing.live.scenarios import LivePlayer

    raise typer.Exit(run(names or [], LivePlayer(), wanted))


@app.command(context_settings=_PASS_ON, help="The Spark jobs: tables made of the journals.")
def pipeline(context: typer.Context) -> None:
    """Pass on to the pipeline."""
    from tools.pipeline import app as run

    run(context.args, prog_name="zabka pipeline")


def main() -> None:
    """The console script."""
    app()


if __name__ == "__main__":
    main()
