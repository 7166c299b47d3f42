"""The programs of a node's process: a peer, a broker or the API, which end with their parent.

The module has no heavy imports, so that a node starts fast.
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
"""Packages that structlog and kio import if installed, but no node uses: a quarter of a broker's start time."""


def config_of(arguments: Sequence[str]) -> tuple[str, Path]:
    """Return the kind and the file of `KIND --config FILE`. Block the import of unused packages."""
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
            # Imported objects are never freed, so scanning them would waste the garbage collector's time.
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
