"""What a node's process runs first: tie its life to its parent's, then become a peer, a broker, the API or an agent.

`python -P -m compose.node peer --config FILE`.  Kept free of heavy imports, so that a node is up soon.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from compose.launch import die_with_parent, player_argv


def main() -> int:
    """Run what the arguments say; the process's exit code."""
    kind, option, config = sys.argv[1:4]
    assert option == "--config"
    die_with_parent(signal.SIGTERM if kind == "agent" else signal.SIGKILL)
    if kind == "peer":
        return run_peer(config)
    if kind == "broker":
        return run_broker(config)
    if kind == "api":
        from api.main import main as run_api

        return run_api(Path(config), player_argv())
    from compose.agent import main as run_agent

    return run_agent(Path(config))


def run_peer(config: str) -> int:
    """One ensemble server in the foreground."""
    from ensemble.server.process.peer_process import main as run

    return run(Path(config))


def run_broker(config: str) -> int:
    """One broker in the foreground."""
    from broker_sim.broker_process import main as run

    return run(Path(config))


if __name__ == "__main__":
    sys.exit(main())
