"""A broker process that exits immediately."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ENDS = (
    "from zabka.broker_sim.broker_process import host_environment\n"
    "from zabka.ensemble.runtime.node_process import node_logger\n"
    "host_environment(node_logger('broker-1'), journal=None).exit(130, 'zabka broker: over')"
)


@pytest.mark.parametrize("standard_error", ["2>&-", "2>/dev/full"])
def test_broker_exits_even_if_it_cannot_log_the_reason(standard_error: str) -> None:
    command = ["sh", "-c", f'exec "$0" -c "$1" {standard_error}', sys.executable, ENDS]
    assert subprocess.run(command, cwd=Path(__file__).parents[2], check=False).returncode == 130
