"""The `zabka` command: finds the verb's module (`zabka.cli.verbs`) and runs it.

A module is imported when its verb is called, and the implementation inside its functions, so that help and usage errors
appear at once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from zabka.cli.broken_pipe import PipeClosed
from zabka.cli.verbs import VERBS, WITHOUT_TYPER, main_of
from zabka.ensemble.runtime.extras import is_installed, sentence

USAGE = 2
MISSING = 78
"""The exit code if the command line is not installed: EX_CONFIG of sysexits.h; 1 and 2 have other meanings."""
INTERRUPTED = 130
"""The exit code after Ctrl-C, by the shell's convention: 128 plus the number of SIGINT."""


def _run(arguments: list[str]) -> int:
    verb = arguments[0] if arguments else ""
    if verb in WITHOUT_TYPER:
        return main_of(verb)(arguments[1:])
    if not is_installed("cli"):
        missing = f"the command zabka {verb} is" if verb in VERBS else "the command line is"
        print(f"zabka: {sentence('cli', missing)}", file=sys.stderr)  # noqa: T201
        return MISSING
    from zabka.cli.typer_verbs import run

    return run(arguments)


def _open_closed_streams() -> None:
    """Open the null device for each standard stream that was closed at the start (`>&-`), where Python has None."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115


def main() -> None:
    """Run the console script.

    A failure to write output is reported in one line, with exit code 2, because 1 is a verdict of some verbs.
    """
    _open_closed_streams()
    try:
        try:
            code = _run(sys.argv[1:])
        finally:
            # Flush now, because an error can still be reported here, but not at exit.
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except (OSError, PipeClosed) as failed:
        if not isinstance(failed, BrokenPipeError | PipeClosed):
            print(f"zabka: {failed}", file=sys.stderr)  # noqa: T201
        # Redirect stdout, because Python tries at exit to write the buffered output again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = USAGE
    sys.exit(code)


if __name__ == "__main__":
    main()
