"""Groups of Typer's commands: their suggestions for a misspelt name, and their handling of a closed output pipe."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from zabka.cli.broken_pipe import PipeClosed
from zabka.ensemble.close_names import close_name, did_you_mean

try:
    # A copy of Click, in newer versions of Typer.
    from typer._click.exceptions import NoSuchOption, UsageError
except ImportError:
    from click.exceptions import NoSuchOption, UsageError  # type: ignore[assignment]


class CommandGroup(TyperGroup):
    """Commands and their options.

    Typer suggests names that share a few letters; here only a close name is suggested (`zabka.ensemble.close_names`).
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the group's own options.  Raises NoSuchOption."""
        try:
            return super().parse_args(ctx, args)
        except NoSuchOption as unknown:
            raise _with_close_options(unknown) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command by the first argument.  Raises UsageError."""
        self.suggest_commands = False
        try:
            return super().resolve_command(ctx, args)
        except UsageError as unknown:
            unknown.message = unknown.message.rstrip(".") + (did_you_mean(args[0], self.commands) or ".")
            raise

    def invoke(self, ctx: Any) -> Any:
        """Call a command.  Raises NoSuchOption."""
        try:
            return super().invoke(ctx)
        except NoSuchOption as unknown:
            raise _with_close_options(unknown) from None


def _with_close_options(unknown: NoSuchOption) -> NoSuchOption:
    params = unknown.ctx.command.params if unknown.ctx is not None else []
    options = [option for param in params for option in (*param.opts, *param.secondary_opts)]
    near = close_name(unknown.option_name, (option for option in options if option.startswith("--")))
    unknown.possibilities = [] if near is None else [near]
    return unknown


class PipedGroup(CommandGroup):
    """Commands whose output may go to a pipe.

    For a closed pipe Typer exits with 1, the verdict of some verbs, so this group raises an exception instead.
    """

    def invoke(self, ctx: Any) -> Any:
        """Call a command.  Raises PipeClosed, NoSuchOption."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as failed:
            raise PipeClosed from failed
