"""What a node's process runs first: tie its life to its parent's, then become a peer, a broker, the API or an agent.

`python -P -m compose.node peer --config FILE`; `scenarios run NAME` is a child of the API's that plays a script.  Kept
free of heavy imports, so that a node is up soon.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def argv_for(kind: str, *arguments: str) -> list[str]:
    """The command line of a node process.  `-P` keeps the working directory from shadowing packages."""
    return [sys.executable, "-P", "-m", "compose.node", kind, *arguments]


def die_with_parent(number: signal.Signals) -> None:
    """Ask the kernel for this signal when the parent dies.

    Only where the parent asked for it, by naming itself in ZABKA_PARENT; elsewhere than on Linux nothing is asked.
    """
    parent = os.environ.pop("ZABKA_PARENT", "")
    if not parent or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != int(parent):
        # The parent died before the kernel was asked.
        os.kill(os.getpid(), number)


def main() -> int:
    """Run what the arguments say; the process's exit code."""
    if sys.argv[1] == "scenarios":
        die_with_parent(signal.SIGKILL)
        return run_scenarios()
    kind, option, config = sys.argv[1:4]
    assert option == "--config"
    die_with_parent(signal.SIGTERM if kind == "agent" else signal.SIGKILL)
    if kind == "peer":
        return run_peer(config)
    if kind == "broker":
        return run_broker(config)
    if kind == "api":
        from api.main import main as run_api

        return run_api(Path(config), argv_for("scenarios"))
    from compose.agent import main as run_agent

    return run_agent(Path(config))


def run_peer(config: str) -> int:
    """One ensemble server in the foreground."""
    from ensemble.server.peer_process import main as run

    return run(Path(config))


def run_broker(config: str) -> int:
    """One broker in the foreground."""
    from broker_sim.broker_process import main as run

    return run(Path(config))


def run_scenarios() -> int:
    """`zabka scenarios`."""
    from compose.cli import main as run

    run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
