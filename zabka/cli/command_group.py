"""Groups of Typer commands: suggestions for misspelt names, and the handling of a closed output pipe."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from zabka.cli.broken_pipe import PipeClosed
from zabka.ensemble.close_names import close_name, did_you_mean

try:
    # Newer versions of Typer contain their own copy of Click.
    from typer._click.exceptions import NoSuchOption, UsageError
except ImportError:
    from click.exceptions import NoSuchOption, UsageError  # type: ignore[assignment]


class CommandGroup(TyperGroup):
    """A group of commands that suggests a command only if its name is close to the misspelt one.

    See `zabka.ensemble.close_names`. Typer itself also suggests names that share only a few letters.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options of the group itself, before the command's name. Raises NoSuchOption."""
        try:
            return super().parse_args(ctx, args)
        except NoSuchOption as unknown:
            raise _with_close_options(unknown) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the first argument names. Raises UsageError if there is none."""
        self.suggest_commands = False
        try:
            return super().resolve_command(ctx, args)
        except UsageError as unknown:
            unknown.message = unknown.message.rstrip(".") + (did_you_mean(args[0], self.commands) or ".")
            raise

    def invoke(self, ctx: Any) -> Any:
        """Call the command. Raises NoSuchOption with suggestions."""
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
    """A group of commands whose output may go to a pipe. Raises PipeClosed if the reader has closed the pipe.

    Typer would exit with code 1, which some verbs use for a failed check.
    """

    def invoke(self, ctx: Any) -> Any:
        """Call the command. Raises PipeClosed, NoSuchOption."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as failed:
            raise PipeClosed from failed
