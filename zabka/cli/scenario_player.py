"""Child process of the API that runs `zabka scenarios`, `replay` or `what-if`. It exits when the API process exits."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from zabka.compose.launch import die_with_parent

VERBS = ("scenarios", "replay", "what-if")


def main() -> None:
    """Run one of the verbs with this process's arguments."""
    if "--on" in sys.argv:
        # Before it exits, the player repairs the cluster that it has broken, even if the parent process is dead.
        signal.signal(signal.SIGTERM, _interrupt)
        die_with_parent(signal.SIGTERM)
    else:
        die_with_parent(signal.SIGKILL)
    if sys.argv[1:2] and sys.argv[1] not in VERBS:
        sys.exit(f"the player has the verbs {', '.join(VERBS)}, not {sys.argv[1]}")
    from zabka.cli.main import main as run

    run()


def _interrupt(number: int, _: FrameType | None) -> None:
    """Interrupt the run as Ctrl-C does, but only once: a second signal must not interrupt the repair of the cluster."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
