"""`zabka down` ends the cluster that runs, and nobody else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from compose import up as running
from compose.files import Run, save_run
from compose.plan import BadPlan, Wanted
from compose.progress import PlainProgress


@pytest.fixture
def somebody() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any cluster."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_the_pid_that_an_earlier_run_left_behind_is_not_signalled(
    tmp_path: Path, somebody: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_run(tmp_path, Run(somebody.pid, "http://127.0.0.1:1"))
    monkeypatch.setattr(running, "STOP_TIMEOUT_S", 0.5)

    def down_meanwhile(_wanted: Wanted, data: Path) -> NoReturn:
        with pytest.raises(running.CannotStart, match="does not say which process it is"):
            running.down(data)
        raise BadPlan("enough was seen")

    monkeypatch.setattr(running, "prepare", down_meanwhile)
    with pytest.raises(BadPlan, match="enough was seen"):
        running.up(Wanted(), tmp_path, PlainProgress(), detach=True)
    assert somebody.poll() is None
