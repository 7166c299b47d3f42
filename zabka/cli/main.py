"""The `zabka` command: finds the module of a verb (`zabka.cli.verbs`) and runs it.

A verb's module is imported only when the verb is called, and the module imports its implementation inside its
functions. Therefore help and usage errors appear at once.
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
"""Exit code if the extra `cli` is not installed: EX_CONFIG of sysexits.h, because verbs already use 1 and 2."""
INTERRUPTED = 130
"""Exit code after Ctrl-C. By the shell's convention, it is 128 plus the number of SIGINT."""


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
    """Open /dev/null for each standard stream that was closed at the start (`>&-`).

    Python sets such a stream to None.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115


def main() -> None:
    """Run the console script.

    Report a failure to write output in one line, with exit code 2, because exit code 1 means a failed check for some
    commands.
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
        # Redirect stdout: Python writes the rest of its buffer at exit, and this write would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = USAGE
    sys.exit(code)


if __name__ == "__main__":
    main()
