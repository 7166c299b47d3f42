"""The command line: every verb with its options, from the parsers themselves."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NoReturn
from unittest.mock import patch

import typer.main

from tools.cli import app
from tools.pipeline import app as pipeline
from tools.reference.markdown import code, document, table

_INTRODUCTION = (
    "`make setup` puts `zabka` into `.venv/bin`. Each verb tells its options with `--help`. An option of "
    "zabka's own may also be set by the environment variable that is named beside it. The verbs that stand in "
    "for Kafka's tools take Kafka's options; they find the brokers of the cluster in `--data` where no "
    "`--bootstrap-server` is named."
)


class _Caught(Exception):
    """Carries a tool's parser out of the tool."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def page() -> str:
    """The page."""
    command: Any = typer.main.get_command(app)
    verbs = [(f"zabka {name}", verb) for name, verb in command.commands.items()]
    listed = table(["verb", "what it does"], ([f"[`{name}`](#{_anchor(name)})", _help(verb)] for name, verb in verbs))
    return document(
        "Command line", _INTRODUCTION, listed, *(part for name, verb in verbs for part in _parts(name, verb))
    )


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _help(verb: Any) -> str:
    return " ".join((verb.help or "").split())


def _parts(name: str, verb: Any) -> Iterator[str]:
    if name == "zabka pipeline":
        yield f"## {name}\n\n{_help(verb)}\n"
        yield from _below(name, typer.main.get_command(pipeline))
    elif hasattr(verb, "commands"):
        yield f"## {name}\n\n{_help(verb)}\n"
        yield from _below(name, verb)
    elif verb.context_settings.get("ignore_unknown_options"):
        yield f"## {name}\n\n{_help(verb)}\n\n{_tool_options(name.split()[1])}"
    else:
        yield f"## {name}\n\n{_help(verb)}\n\n{_options(verb)}"


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


def _tool_options(verb: str) -> str:
    """The options of a tool that stands in for one of Kafka's: those of the parser that it makes."""

    def caught(self: argparse.ArgumentParser, *_: object, **__: object) -> NoReturn:
        raise _Caught(self)

    with patch.object(argparse.ArgumentParser, "parse_args", caught):
        try:
            app([verb], standalone_mode=False)
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
