"""The `zabka` command: finds the verb's own module (`zabka.cli.verbs`) and runs it.

A module is imported when its verb is called, and what carries the verb out within its functions, so that help and
refusals come at once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from zabka.cli.broken_pipe import NobodyReads
from zabka.cli.verbs import VERBS, WITHOUT_TYPER, main_of
from zabka.ensemble.runtime.extras import is_installed, sentence

USAGE = 2
MISSING = 78
"""The exit code where the command line is not installed (EX_CONFIG of sysexits.h): 1 and 2 mean other things."""
INTERRUPTED = 130
"""As the shell has it: 128 and SIGINT's number."""


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
    """What was closed by whoever began this (`>&-`) leads nowhere, and nowhere comes from it; Python has None there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115


def main() -> None:
    """The console script.  What cannot be written is told in a line, with exit code 2: 1 is some verbs' verdict."""
    _open_closed_streams()
    try:
        try:
            code = _run(sys.argv[1:])
        finally:
            # Later nobody could be told that what is buffered cannot be written.
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except (OSError, NobodyReads) as failed:
        if not isinstance(failed, BrokenPipeError | NobodyReads):
            print(f"zabka: {failed}", file=sys.stderr)  # noqa: T201
        # What is buffered would be tried once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = USAGE
    sys.exit(code)


if __name__ == "__main__":
    main()
