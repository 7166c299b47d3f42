"""The first module of a node's process: `python -P -m zabka.compose.node peer --config FILE` runs that peer."""

from __future__ import annotations

import signal
import sys

from zabka.compose.launch import die_with_parent
from zabka.compose.programs import config_of, run


def main() -> int:
    """Run the peer, broker, API or agent that the arguments select. Return the exit code."""
    kind, config = config_of(sys.argv[1:])
    if kind != "agent":
        return run(kind, config)
    die_with_parent(signal.SIGTERM)
    from zabka.compose.agent import main as run_agent

    return run_agent(config)


if __name__ == "__main__":
    sys.exit(main())
