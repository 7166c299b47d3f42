"""What a node is once its process has begun: a peer, a broker or the API, its life tied to its parent's.

Kept free of heavy imports, so that a node is up soon.
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
"""What structlog and kio import where it is installed, and no node uses: a quarter of a broker's time to start."""


def config_of(arguments: Sequence[str]) -> tuple[str, Path]:
    """The kind and the file of `KIND --config FILE`; what is never used cannot be imported from then on."""
    for package in _NEVER_USED:
        # What is None there cannot be imported.
        sys.modules.setdefault(package, cast(ModuleType, None))
    kind, option, config = arguments
    assert option == "--config"
    return kind, Path(config)


def run(kind: str, config: Path) -> int:
    """Be a peer, a broker or the API until its end, which is the parent's at the latest; the process's exit code."""
    die_with_parent(signal.SIGKILL)
    match kind:
        case "peer":
            return run_peer(config)
        case "broker":
            return run_broker(config)
        case _:
            # Nothing of what is imported goes away: the collector would look through it in vain, now and later.
            gc.disable()
            from zabka.api.main import main as run_api

            gc.freeze()
            gc.enable()
            return run_api(config, player_argv())


def run_peer(config: Path) -> int:
    """One ensemble server in the foreground."""
    from zabka.ensemble.server.process.peer_process import main

    return main(config)


def run_broker(config: Path) -> int:
    """One broker in the foreground."""
    from zabka.broker_sim.broker_process import main

    return main(config)
