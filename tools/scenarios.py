"""`zabka scenarios`: the options of its two verbs, which `outage_library` carries out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tools.options import Settings

app = typer.Typer(
    help="The outage library: what went wrong elsewhere, as scripts that must go right here.",
    add_completion=False,
    rich_markup_mode=None,
)


@app.command("list")
def list_scenarios(
    as_json: Annotated[bool, typer.Option("--json", envvar="ZABKA_JSON", help="For programs: whole scripts")] = False,
) -> None:
    """Name every scenario, and say why it holds."""
    from testing.live.scenarios import LivePlayer
    from tools.outage_library import list_all

    raise typer.Exit(list_all(as_json, LivePlayer()))


@app.command("run")
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
    from tools.outage_library import Wanted, run

    wanted = Wanted(seed, tuple(set_ or ()), as_json, story, out)
    if not live:
        raise typer.Exit(run(names or [], None, wanted))
    from testing.live.scenarios import LivePlayer

    raise typer.Exit(run(names or [], LivePlayer(), wanted))
