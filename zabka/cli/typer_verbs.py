"""The verbs that parse their options with Typer, and the Typer group of all verbs, which needs the extra `cli`.

The module of such a verb has one of these:

- `command`, a function whose parameters become options, and for a Typer command of another class, `command_class`;
- `app`, a Typer application, if the verb has subcommands;
- `main(arguments) -> exit code`, if the verb calls Typer itself.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand

from zabka.cli.command_group import PipedGroup
from zabka.cli.verbs import VERBS, module_name

_PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def _passing_on(main: Callable[[list[str]], int]) -> Callable[[typer.Context], None]:
    def pass_on(context: typer.Context) -> None:
        raise typer.Exit(main(context.args))

    return pass_on


def load(verb: str) -> Any:
    """Import a verb's module and return its Typer command."""
    module: Any = import_module(module_name(verb))
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        if hasattr(module, "main"):
            app.command(verb, context_settings=_PASS_ON, help=VERBS[verb])(_passing_on(module.main))
        else:
            cls = getattr(module, "command_class", TyperCommand)
            app.command(verb, cls=cls, help=VERBS[verb])(module.command)
    return typer.main.get_command(app)


class Verbs(PipedGroup):
    """A group that lists all verbs without importing their modules, and imports only the called verb."""

    def __init__(self) -> None:
        super().__init__(
            name="zabka",
            help="A Kafka control plane that you can break on purpose, watch, rewind and measure.",
            commands={verb: TyperCommand(verb, help=text) for verb, text in VERBS.items()},
            no_args_is_help=True,
            rich_markup_mode=None,
        )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        verb, command, rest = super().resolve_command(ctx, args)
        return verb, command if verb is None else load(verb), rest


def run(arguments: list[str]) -> NoReturn:
    """Run the command line. Raises SystemExit with the exit code, or OSError or PipeClosed if output fails."""
    Verbs()(arguments)
    raise AssertionError("a command of Typer's ends the process")
