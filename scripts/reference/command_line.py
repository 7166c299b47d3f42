"""Reference page of the command line: every command with its options, read from the argument parsers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any, NoReturn
from unittest.mock import patch

import typer.main

from scripts.reference.markdown import code, document, table
from zabka.cli.pipeline import jobs_of_spark
from zabka.cli.typer_verbs import load
from zabka.cli.verbs import VERBS, WITHOUT_TYPER, main_of

_INTRODUCTION = (
    "`make setup` puts `zabka` into `.venv/bin`. Each verb tells its options with `--help`. An option of "
    "zabka's own may also be set by the environment variable that is named beside it. The verbs that stand in "
    "for Kafka's tools take Kafka's options; they find the brokers of the cluster in `--data` where no "
    "`--bootstrap-server` is named."
)


class _Caught(Exception):
    """Exception that transports the parser out of a tool's `main`."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def page() -> str:
    """Return the page of the command line."""
    listed = table(
        ["verb", "what it does"], ([f"[`zabka {verb}`](#zabka-{verb})", said] for verb, said in VERBS.items())
    )
    return document("Command line", _INTRODUCTION, listed, *(part for verb in VERBS for part in _parts(verb)))


def _command(verb: str) -> Any:
    return typer.main.get_command(jobs_of_spark) if verb == "pipeline" else load(verb)


def _help(verb: Any) -> str:
    return " ".join((verb.help or "").split())


def _parts(verb: str) -> Iterator[str]:
    name = f"zabka {verb}"
    head = f"## {name}\n\n{' '.join(VERBS[verb].split())}\n"
    if verb in WITHOUT_TYPER:
        yield f"{head}\n{_parser_options(main_of(verb))}"
        return
    command = _command(verb)
    if hasattr(command, "commands"):
        yield head
        yield from _below(name, command)
    else:
        yield f"{head}\n{_options(command)}"


def _below(name: str, group: Any) -> Iterator[str]:
    for below, verb in group.commands.items():
        yield f"### {name} {below}\n\n{_help(verb)}\n\n{_options(verb)}"


def _options(verb: Any) -> str:
    rows = []
    for parameter in verb.params:
        names = ", ".join(code(o) for o in (*parameter.opts, *parameter.secondary_opts) if o.startswith("-"))
        default = "" if parameter.default in (None, False, ()) else str(parameter.default)
        rows.append(
            [
                names or code(parameter.name.upper()),
                "required" if parameter.required else code(default),
                code(parameter.envvar if isinstance(parameter.envvar, str) else ""),
                getattr(parameter, "help", None) or "",
            ]
        )
    return table(["option", "default", "variable", "what it says"], rows)


def _parser_options(main: Callable[[list[str]], int]) -> str:
    """Return the options of a command that does not use Typer, read from the parser that it creates."""

    def caught(self: argparse.ArgumentParser, *_: object, **__: object) -> NoReturn:
        raise _Caught(self)

    with patch.object(argparse.ArgumentParser, "parse_args", caught):
        try:
            main([])
        except _Caught as found:
            parser = found.parser
    exclusive = [group for group in parser._mutually_exclusive_groups if group.required]
    one_of = {action.dest for group in exclusive for action in group._group_actions}
    rows = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        value = action.metavar or ("" if action.nargs == 0 else action.dest.upper())
        if action.choices:
            value = "{" + ",".join(str(choice) for choice in action.choices) + "}"
        needed = "required" if action.required else "one of these" if action.dest in one_of else ""
        names = ", ".join(code(o) for o in action.option_strings) or code(action.dest)
        rows.append([names, code(str(value)), needed, action.help or ""])
    return table(["option", "value", "", "what it says"], rows)
