"""Runs the program of a node's process: a peer, a broker or the API.

The process ends when its parent ends. The module has no heavy imports, so that a node starts fast.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import cast

from zabka.compose.launch import die_with_parent, player_argv

_NEVER_USED = ("rich", "attr", "hypothesis", "greenlet")
"""Packages that structlog and kio import if they are installed, but that no node uses. Importing them takes a quarter
of a broker's start time.
"""


def config_of(arguments: Sequence[str]) -> tuple[str, Path]:
    """Return the kind of node and the configuration file from the arguments `KIND --config FILE`.

    Also block the import of unused packages.
    """
    for package in _NEVER_USED:
        # Python does not import a module whose entry in sys.modules is None.
        sys.modules.setdefault(package, cast(ModuleType, None))
    kind, option, config = arguments
    assert option == "--config"
    return kind, Path(config)


def run(kind: str, config: Path) -> int:
    """Run a peer, a broker or the API until it or its parent ends. Return the exit code."""
    die_with_parent(signal.SIGKILL)
    match kind:
        case "peer":
            return run_peer(config)
        case "broker":
            return run_broker(config)
        case _:
            # The objects of imported modules are never freed, so exclude them from garbage collection, which would scan
            # them in vain.
            gc.disable()
            from zabka.api.main import main as run_api

            gc.freeze()
            gc.enable()
            return run_api(config, player_argv())


def run_peer(config: Path) -> int:
    """Run one ensemble server in the foreground."""
    from zabka.ensemble.server.process.peer_process import main

    return main(config)


def run_broker(config: Path) -> int:
    """Run one broker in the foreground."""
    from zabka.broker_sim.broker_process import main

    return main(config)
