"""`zabka scenarios`: options of `list` and `run`, which `outage_library` implements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zabka.cli.command_group import CommandGroup
from zabka.cli.options import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from zabka.simulation.scenarios.scenario import StepTaken
    from zabka.testing.live.running import RunningPlayer

app = typer.Typer(
    cls=CommandGroup,
    help="The outage library: outages of Kafka and ZooKeeper as scenarios that zabka must pass.",
    add_completion=False,
    rich_markup_mode=None,
)


@app.command("list")
def list_scenarios(
    subject: Annotated[
        str | None, typer.Option(envvar="ZABKA_SUBJECT", help="Only scenarios about this, such as election")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", envvar="ZABKA_JSON", help="Print whole scenarios as JSON")] = False,
) -> None:
    """List every scenario, and the reason why zabka passes it."""
    from zabka.cli.outage_library import list_all
    from zabka.testing.live.running import running_obstacle
    from zabka.testing.live.scenarios import LivePlayer

    raise typer.Exit(list_all(as_json, LivePlayer(), running_obstacle, subject))


@app.command("run")
def run_scenarios(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Names or JSON files of scenarios, - for standard input; default: all"),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live/--simulated", envvar="ZABKA_LIVE", help="Run on real processes")
    ] = False,
    on: Annotated[
        str | None,
        typer.Option(envvar="ZABKA_ON", help="Run on the cluster at this URL; the run breaks it"),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(envvar="ZABKA_TOKEN_FILE", help="With --on: file with the token of the API")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(envvar="ZABKA_OUT", help="File for the journal; of the run with the bug, if there is one"),
    ] = None,
    messages: Annotated[
        Path | None,
        typer.Option(envvar="ZABKA_MESSAGES", help="File for every message of that run; simulated worlds only"),
    ] = None,
    journals: Annotated[
        Path | None,
        typer.Option(
            envvar="ZABKA_JOURNALS", help="Directory for NAME.jsonl, NAME.bug.jsonl, and messages of every scenario"
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, envvar="ZABKA_SEED", help="Seed of the delays, instead of the scenario's own")
    ] = None,
    set_: Settings = None,
    story: Annotated[
        bool, typer.Option("--story", envvar="ZABKA_STORY", help="Print each step and its effects")
    ] = False,
    progress: Annotated[
        bool, typer.Option("--progress", envvar="ZABKA_PROGRESS", help="With --on: print each step when it begins")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", envvar="ZABKA_JSON", help="Print verdicts and stories as JSON")
    ] = False,
) -> None:
    """Run scenarios; exit code 0 if each verdict is the expected one."""
    from zabka.cli.outage_library import PlayOptions, print_json_step, print_step, run

    if on is None and (token_file is not None or progress):
        option = "--progress" if token_file is None else "--token-file"
        typer.echo(f"{option} needs --on: it is for a running cluster", err=True)
        raise typer.Exit(2)
    options = PlayOptions(
        seed, tuple(set_ or ()), as_json, with_story=story, out=out, messages=messages, journals=journals
    )
    if on is not None:
        report = None if not progress else print_json_step if as_json else print_step
        raise typer.Exit(run(names or [], _running(on, token_file, names or [], report, live=live), options))
    if not live:
        raise typer.Exit(run(names or [], None, options))
    from zabka.testing.live.scenarios import LivePlayer

    raise typer.Exit(run(names or [], LivePlayer(), options))


def _running(
    url: str, token_file: Path | None, names: list[str], report: Callable[[StepTaken], None] | None, *, live: bool
) -> RunningPlayer:
    """Return the player that runs scenarios on a running cluster. Exit with code 2 if the options are incompatible."""
    from zabka.agent.token_file import BadToken, read_token
    from zabka.testing.live.running import RunningPlayer

    if live or len(names) != 1:
        typer.echo("--on runs one scenario on a running cluster: give its name, and leave --live out", err=True)
        raise typer.Exit(2)
    try:
        token = None if token_file is None else read_token(token_file)
    except BadToken as wrong:
        typer.echo(str(wrong), err=True)
        raise typer.Exit(2) from None
    except OSError as unread:
        typer.echo(f"cannot read the token from {token_file}: {unread.strerror}", err=True)
        raise typer.Exit(2) from None
    player = RunningPlayer(url, token) if report is None else RunningPlayer(url, token, report)
    # Check first that the API is reachable, because a failed connection is not a result of the scenario.
    if (reason := player.unreachable()) is not None:
        typer.echo(reason, err=True)
        raise typer.Exit(2)
    return player
