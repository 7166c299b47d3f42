"""`zabka scenarios` as a child of the API's process: plays a script, and dies with whoever asked for it."""

from __future__ import annotations

import signal
import sys

from compose.launch import die_with_parent


def main() -> None:
    """Run `zabka scenarios` with this process's arguments."""
    die_with_parent(signal.SIGKILL)
    sys.argv.insert(1, "scenarios")
    from tools.cli import main as run

    run()


if __name__ == "__main__":
    main()
