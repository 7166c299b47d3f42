"""Child process of the API that runs scenarios, seeds, forecasts and jobs of the Lab. It exits when the API exits."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from zabka.compose.launch import die_with_parent, end_soon

VERBS = ("scenarios", "replay", "what-if", "pipeline", "campaign")
JOBS = VERBS[3:]


def main() -> None:
    """Run `zabka` with this process's arguments, which begin with one of VERBS."""
    is_job = bool(sys.argv[1:2]) and sys.argv[1] in JOBS
    if "--on" in sys.argv or is_job:
        # Before it exits, the player repairs the cluster that it has broken, even if the parent process is dead. A job
        # stores its results and stops its own processes.
        signal.signal(signal.SIGTERM, _interrupt_job if is_job else _interrupt)
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


def _interrupt_job(number: int, frame: FrameType | None) -> None:
    """Interrupt the job like a run. A job that then still runs ends soon: it holds the lock of the lake."""
    end_soon()
    _interrupt(number, frame)


if __name__ == "__main__":
    main()
