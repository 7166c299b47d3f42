"""`zabka scenarios`: the options of its two verbs, which `outage_library` carries out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zabka.cli.command_group import CommandGroup
from zabka.cli.options import Settings

if TYPE_CHECKING:
    from zabka.testing.live.running import RunningPlayer

app = typer.Typer(
    cls=CommandGroup,
    help="The outage library: what went wrong elsewhere, as scripts that must go right here.",
    add_completion=False,
    rich_markup_mode=None,
)


@app.command("list")
def list_scenarios(
    as_json: Annotated[bool, typer.Option("--json", envvar="ZABKA_JSON", help="For programs: whole scripts")] = False,
) -> None:
    """Name every scenario, and say why it holds."""
    from zabka.cli.outage_library import list_all
    from zabka.testing.live.running import running_obstacle
    from zabka.testing.live.scenarios import LivePlayer

    raise typer.Exit(list_all(as_json, LivePlayer(), running_obstacle))


@app.command("run")
def run_scenarios(
    names: Annotated[list[str] | None, typer.Argument(help="Names, or a scenario's JSON file; none for all")] = None,
    live: Annotated[bool, typer.Option("--live/--simulated", envvar="ZABKA_LIVE", help="On real processes")] = False,
    on: Annotated[
        str | None,
        typer.Option(envvar="ZABKA_ON", help="On the cluster that runs there, which it breaks; a URL"),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(envvar="ZABKA_TOKEN_FILE", help="With --on: holds the token that the API wants")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(envvar="ZABKA_OUT", help="The journal goes there, of the outage if there is one")
    ] = None,
    messages: Annotated[
        Path | None,
        typer.Option(envvar="ZABKA_MESSAGES", help="Every message of that play goes there; simulated worlds alone"),
    ] = None,
    journals: Annotated[
        Path | None,
        typer.Option(envvar="ZABKA_JOURNALS", help="A directory for all: NAME.jsonl, NAME.bug.jsonl, and messages"),
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
    from zabka.cli.outage_library import Wanted, run

    if token_file is not None and on is None:
        typer.echo("--token-file goes with --on: only a cluster that runs elsewhere wants a token", err=True)
        raise typer.Exit(2)
    wanted = Wanted(seed, tuple(set_ or ()), as_json, with_story=story, out=out, messages=messages, journals=journals)
    if on is not None:
        raise typer.Exit(run(names or [], _running(on, token_file, names or [], live=live), wanted))
    if not live:
        raise typer.Exit(run(names or [], None, wanted))
    from zabka.testing.live.scenarios import LivePlayer

    raise typer.Exit(run(names or [], LivePlayer(), wanted))


def _running(url: str, token_file: Path | None, names: list[str], *, live: bool) -> RunningPlayer:
    """Who plays on a cluster that runs.  Exits with 2 where that makes no sense."""
    from zabka.agent.token_file import BadToken, read_token
    from zabka.testing.live.running import RunningPlayer

    if live or len(names) != 1:
        typer.echo("--on plays one script, on the cluster that is named: give its name, and not --live", err=True)
        raise typer.Exit(2)
    try:
        token = None if token_file is None else read_token(token_file)
    except BadToken as wrong:
        typer.echo(str(wrong), err=True)
        raise typer.Exit(2) from None
    except OSError as unread:
        typer.echo(f"the token cannot be read from {token_file}: {unread.strerror}", err=True)
        raise typer.Exit(2) from None
    player = RunningPlayer(url, token)
    # That nobody answers is no verdict of a script.
    if (reason := player.unreachable()) is not None:
        typer.echo(reason, err=True)
        raise typer.Exit(2)
    return player
