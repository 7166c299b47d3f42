"""The console script `zabka`: looks whether its packages are its own, then runs the command line."""

from __future__ import annotations

import sys

from zabka.shadowed import shadowed


def main() -> None:
    """Run `zabka.cli.main`; exit code 1, with a sentence, where it would be somebody else's."""
    if sentence := shadowed():
        print(f"zabka: {sentence}", file=sys.stderr)  # noqa: T201
        sys.exit(1)
    from zabka.cli.main import main as run

    run()
