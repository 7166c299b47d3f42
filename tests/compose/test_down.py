"""`zabka down` stops only processes of the running cluster. A failed start leaves no process running."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from zabka.compose import up as running
from zabka.compose.files import Run, is_running, save_run
from zabka.compose.plan import BadPlan, Requested
from zabka.compose.progress import PlainProgress


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that is not part of a cluster."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_process_id_of_an_earlier_run_is_not_signalled(
    tmp_path: Path, bystander: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_run(tmp_path, Run(bystander.pid, "http://127.0.0.1:1"))
    monkeypatch.setattr(running, "STOP_TIMEOUT_S", 0.5)

    def down_meanwhile(_requested: Requested, data: Path) -> NoReturn:
        with pytest.raises(running.CannotStart, match="does not say which process it is"):
            running.down(data)
        raise BadPlan("enough was seen")

    monkeypatch.setattr(running, "prepare", down_meanwhile)
    with pytest.raises(BadPlan, match="enough was seen"):
        running.up(Requested(), tmp_path, PlainProgress(), detach=True)
    assert bystander.poll() is None


@pytest.fixture
def own_signals() -> Iterator[None]:
    """Restore the signal handlers after the test, because `up` replaces them."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("step", ["save_run", "wait_until_ready"])
@pytest.mark.usefixtures("own_signals")
def test_up_that_cannot_save_run_json_stops_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    agents: list[subprocess.Popen[bytes]] = []

    def start(_config: Path, held: Sequence[int], _parent: int | None) -> subprocess.Popen[bytes]:
        agents.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=held))
        return agents[0]

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "run.json"))

    monkeypatch.setattr(running, "start_agent", start)
    monkeypatch.setattr(running, step, full)
    requested = Requested(peers=1, brokers=0, zk_port=0, kafka_port=0, api_port=0)
    try:
        with pytest.raises(OSError, match=r"No space left on device.*run\.json"):
            running.up(requested, tmp_path, PlainProgress(), detach=True)
        assert agents[0].poll() is not None and not is_running(tmp_path)
    finally:
        for agent in agents:
            agent.kill()
            agent.communicate()
