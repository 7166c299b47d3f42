"""A stand-in for the `zabka` command of jobs: prints its arguments and a line, and runs until SIGTERM or for ever.

An audit ends at once with exit code 1. A campaign named `stubborn` ignores SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
import time


def write(line: str) -> None:
    """Write a line to standard output at once."""
    os.write(1, f"{line}\n".encode())


def main() -> None:
    """Run as the arguments request."""
    arguments = sys.argv[1:]
    if "stubborn" in " ".join(arguments):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    write("arguments: " + " ".join(arguments))
    write(f"pid {os.getpid()}")
    if "audit" in arguments:
        os.write(2, b"2 runs, 1 with violations\n")
        sys.exit(1)
    while True:
        time.sleep(60)


main()
