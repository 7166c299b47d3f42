"""`zabka replay`: one seed again, with its journal."""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer

from simulation.settings import BadSetting
from tools.options import Scenario, Settings
from tools.simulate import USAGE, configured, say, seldom_collected


def replay(seed: int, scenario: str, settings: list[str], out: Path | None) -> int:
    """Run one seed again and write its journal; 0 when every invariant held, 1 otherwise, 2 for bad arguments."""
    try:
        world = configured(scenario, settings)
    except (ValueError, BadSetting) as reason:
        say(str(reason), error=True)
        return USAGE
    from simulation.run import run_with_journal

    with seldom_collected():
        outcome, lines = run_with_journal(seed, scenario, world)
    digest = sha256()
    if out is None:
        for line in lines:
            digest.update(line)
            sys.stdout.buffer.write(line)
        sys.stdout.flush()
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("wb") as file:
            for line in lines:
                digest.update(line)
                file.write(line)
    for problem in outcome.problems:
        say(f"seed {seed}: {problem}", error=True)
    where = f" in {out}" if out else ""
    say(
        f"seed {seed}: {outcome.events} events{where}, {outcome.virtual_ms / 1000:.1f} simulated seconds in "
        f"{outcome.wall_s:.2f} s, sha256 {digest.hexdigest()}",
        error=True,
    )
    return 0 if outcome.held else 1


def command(
    seed: Annotated[int, typer.Option(min=0, envvar="ZABKA_SEED", help="The seed to play again")],
    scenario: Scenario = "chaos",
    set_: Settings = None,
    out: Annotated[Path | None, typer.Option(envvar="ZABKA_OUT", help="The journal goes there, not to stdout")] = None,
) -> None:
    """Run one seed again, byte-identical every time, and write its journal."""
    raise typer.Exit(replay(seed, scenario, set_ or [], out))
