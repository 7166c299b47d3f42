"""`zabka export`: a run as one file that opens in a browser without a server."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zabka.cli.failure import fail
from zabka.cli.options import Settings

if TYPE_CHECKING:
    from zabka.api.exports.file import Format
    from zabka.api.exports.recorded import Recorded

DEFAULT_URL = "http://127.0.0.1:8080"
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)\s*s?")


def command(
    out: Annotated[Path, typer.Option(envvar="ZABKA_OUT", help="The file to write")],
    run: Annotated[
        str | None, typer.Option(envvar="ZABKA_RUN", help="A run of a running cluster: live, or the id of a stored run")
    ] = None,
    on: Annotated[str, typer.Option(envvar="ZABKA_ON", help="With --run: URL of that cluster's API")] = DEFAULT_URL,
    seed: Annotated[
        int | None, typer.Option(min=0, envvar="ZABKA_SEED", help="A seed, or the seed of a scenario's delays")
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            envvar="ZABKA_SCENARIO",
            help="A scenario of the outage library, with its bug; with --seed also a source of random faults "
            "(default: chaos)",
        ),
    ] = None,
    journals: Annotated[
        Path | None,
        typer.Option(envvar="ZABKA_JOURNALS", help="A cluster's data directory, any with journals, or one journal"),
    ] = None,
    set_: Settings = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            envvar="ZABKA_FROM",
            help="Begin here: seconds since the start of the run, or a time such as 2026-11-29T12:00:05",
        ),
    ] = None,
    to: Annotated[str | None, typer.Option(envvar="ZABKA_TO", help="End here, as for --from")] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            envvar="ZABKA_FORMAT",
            help="html, or a trace for another viewer: perfetto (Chrome trace JSON) or shiviz",
        ),
    ] = "html",
) -> None:
    """Write a run as one HTML file: the page with its tracks, messages, causes and comparison. It opens from disk,
    without a server and without a network."""
    given = [run is not None, seed is not None or scenario is not None, journals is not None]
    if sum(given) != 1:
        fail("zabka export takes one of --run, --seed or --scenario, and --journals", 2)
    if set_ and not given[1]:
        fail("--set works with --seed and --scenario: other runs have happened already", 2)
    _check(form, from_, to)
    if run is not None:
        _write(out, _downloaded(on, run, form, from_, to))
        return
    from zabka.api.exports.document import NoPage
    from zabka.api.exports.file import file_of
    from zabka.api.exports.recorded import NothingToExport
    from zabka.api.runs.intake import NoHistory

    try:
        runs = _journal(journals) if journals is not None else _simulated(seed, scenario, set_ or [])
        parts = [_part(each, from_, to) for each in runs]
        # If a scenario has two runs, export the last one, which has the injected bug.
        page = file_of(parts, parts[-1].about.id, _format(form))
    except (OSError, ValueError, NoHistory, NoPage, NothingToExport) as reason:
        fail(reason, 2)
    _write(out, page)


def _format(text: str) -> Format:
    """Return the format of that name. Raises ValueError."""
    from zabka.api.exports.file import Format

    try:
        return Format(text)
    except ValueError:
        raise ValueError(f"there is no format {text}; there are {', '.join(Format)}") from None


def _journal(path: Path) -> list[Recorded]:
    from zabka.api.exports.played import journal_run

    return [journal_run(path)]


def _simulated(seed: int | None, scenario: str | None, settings: list[str]) -> list[Recorded]:
    """Run a seed, or a scenario with its injected bug, and return the recorded run.

    Raises ValueError for an invalid argument.
    """
    from zabka.api.exports.played import scenario_runs, seed_run
    from zabka.cli.outage_library import found_scenario
    from zabka.cli.simulate import configured as configured_world
    from zabka.simulation.run import SEARCHED
    from zabka.simulation.scenarios.library import configured, seeded
    from zabka.simulation.settings import BadSetting

    try:
        if seed is not None and (scenario is None or scenario in SEARCHED):
            name = scenario or "chaos"
            replay = " ".join(
                ["zabka replay", f"--seed {seed} --scenario {name}", *(f"--set {each}" for each in settings)]
            )
            return [seed_run(seed, name, configured_world(name, settings) if settings else None, replay)]
        if scenario in SEARCHED:
            raise ValueError(f"{scenario} draws its faults from a seed: add --seed")
        found = found_scenario(scenario or "")
        return scenario_runs(configured(found if seed is None else seeded(found, seed), settings), seed, settings)
    except BadSetting as reason:
        raise ValueError(str(reason)) from None


def _part(recorded: Recorded, from_: str | None, to: str | None) -> Recorded:
    first_us = recorded.about.first_us
    return recorded.part(_time_us(from_, first_us), _time_us(to, first_us))


def _time_us(text: str | None, first_us: int) -> int | None:
    """Parse a time option as microseconds on the clock of the run. Raises ValueError."""
    if text is None:
        return None
    if (seconds := _SECONDS.fullmatch(text.strip())) is not None:
        return first_us + round(float(seconds[1]) * 1_000_000)
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1_000_000)
    except ValueError:
        raise ValueError(f"{text!r} is no time: give seconds, such as 12.5, or 2026-11-29T12:00:05") from None


def _check(form: str, *texts: str | None) -> None:
    """Exit with an error if the format or a time is invalid. Called before the run is executed."""
    try:
        _format(form)
        for text in texts:
            _time_us(text, 0)
    except ValueError as reason:
        fail(reason, 2)


def _downloaded(url: str, run: str, form: str, from_: str | None, to: str | None) -> bytes:
    """Download the exported file from the API of a cluster. Exit with an error if the export fails."""
    import json

    from zabka.agent.http_call import NoAnswer, call

    def read(path: str) -> bytes:
        answer = call("GET", f"{url.rstrip('/')}/api/v1/runs/{run}{path}", b"", {}, timeout_s=120.0)
        if answer.is_success:
            return answer.body
        try:
            detail = json.loads(answer.body)["detail"]
        except (ValueError, KeyError, TypeError):
            detail = f"HTTP {answer.status}"
        fail(f"{url} does not export {run}: {detail}", 2)

    try:
        limits: dict[str, int | None] = {}
        if from_ is not None or to is not None:
            first_us = json.loads(read(""))["first_us"]
            limits = {"from": _time_us(from_, first_us), "to": _time_us(to, first_us)}
        query = "&".join(f"{name}={at_us}" for name, at_us in limits.items() if at_us is not None)
        return read(f"/export?format={_format(form)}&{query}")
    except (NoAnswer, ValueError) as reason:
        fail(f"{url}: {reason}", 2)


def _write(out: Path, page: bytes) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(page)
    except OSError as reason:
        fail(reason, 2)
    typer.echo(f"{out}: {len(page) / 1_000_000:.2f} MB", err=True)
