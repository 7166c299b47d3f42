"""The player as a child of the API's process: `zabka scenarios` or `zabka replay`, which ends with its parent."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from zabka.compose.launch import die_with_parent

VERBS = ("scenarios", "replay")


def main() -> None:
    """Run one of the player's verbs with this process's arguments."""
    if "--on" in sys.argv:
        # A broken cluster is repaired before the player ends, also if the parent has died.
        signal.signal(signal.SIGTERM, _interrupt)
        die_with_parent(signal.SIGTERM)
    else:
        die_with_parent(signal.SIGKILL)
    if sys.argv[1:2] and sys.argv[1] not in VERBS:
        sys.exit(f"the player has the verbs {' and '.join(VERBS)}, not {sys.argv[1]}")
    from zabka.cli.main import main as run

    run()


def _interrupt(number: int, _: FrameType | None) -> None:
    """Interrupt the play, as Ctrl-C does; only once, so that nothing interrupts the repair of the cluster."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
