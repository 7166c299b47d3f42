"""Three Java servers are replaced one by one with our servers, and later with Java servers again, while a client
writes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, NodeExistsError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from tests.interop.real_zookeeper import MixedEnsemble, needs_java

pytestmark = [needs_java, pytest.mark.long]
UNCERTAIN = (ConnectionLoss, ConnectionClosedError, KazooTimeoutError, SessionExpiredError)


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[MixedEnsemble]:
    mixed = MixedEnsemble(tmp_path, 3)
    try:
        yield mixed
    finally:
        mixed.close()


class WritingClient:
    """Client that creates numbered znodes one after the other.

    At the end, all acknowledged znodes must exist, in order.
    """

    def __init__(self, hosts: str) -> None:
        self.acknowledged: list[int] = []
        self.sessions: dict[int, None] = {}
        self._stopping = threading.Event()
        retry = KazooRetry(max_tries=-1, max_delay=0.5)
        self._client = KazooClient(hosts=hosts, timeout=10, connection_retry=retry)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._client.start(timeout=30)
        self._client.ensure_path("/written")
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            number += 1
            try:
                self._client.create(f"/written/{number:06d}", b"%d" % number)
            except NodeExistsError:
                # The first attempt succeeded, but its reply was lost. This is its retry.
                self.acknowledged.append(number)
            except UNCERTAIN:
                number -= 1
                time.sleep(0.05)
            else:
                self.acknowledged.append(number)
                self.sessions[self._client.client_id[0]] = None
                time.sleep(0.002)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        self._client.stop()
        self._client.close()

    def await_more(self, count: int) -> None:
        goal = len(self.acknowledged) + count
        deadline = time.monotonic() + 60
        while len(self.acknowledged) < goal:
            assert time.monotonic() < deadline, "writes are no longer acknowledged"
            time.sleep(0.05)


def test_migration_from_java_servers_and_back_loses_no_data(ensemble: MixedEnsemble) -> None:
    ensemble.start_java(1, 2, 3)
    ensemble.wait_for_quorum()
    writing = WritingClient(ensemble.hosts)
    writing.start()
    for start in (ensemble.start, ensemble.start_java):
        # Replace the leader last, because its replacement always causes an election.
        leader = ensemble.wait_for_quorum()
        for i in [*(i for i in (1, 2, 3) if i != leader), leader]:
            writing.await_more(100)
            ensemble.kill(i)
            writing.await_more(20)
            start(i)
            ensemble.wait_for_quorum()
    writing.await_more(100)
    writing.stop()
    assert len(writing.sessions) == 1, "the session was lost on the way"
    for i in (1, 2, 3):
        with ensemble.client(i) as client:
            client.sync("/written")
            there = {int(name) for name in client.get_children("/written")}
            assert not [n for n in writing.acknowledged if n not in there]
    assert writing.acknowledged == sorted(writing.acknowledged)


def test_java_and_zabka_servers_win_and_lose_mixed_elections(ensemble: MixedEnsemble) -> None:
    ensemble.start_java(1, 3)
    ensemble.start(2)
    writing = WritingClient(ensemble.hosts)
    ensemble.wait_for_quorum()
    writing.start()
    led: dict[int, None] = {}
    for _ in range(4):
        leader = ensemble.wait_for_quorum()
        led[leader] = None
        ensemble.kill(leader)
        writing.await_more(50)
        if leader == 2:
            ensemble.start(leader)
        else:
            ensemble.start_java(leader)
        ensemble.wait_for_quorum()
        writing.await_more(50)
    writing.stop()
    assert 2 in led and len(led) > 1, led
    for i in (1, 2, 3):
        with ensemble.client(i) as client:
            client.sync("/written")
            there = {int(name) for name in client.get_children("/written")}
            assert not [n for n in writing.acknowledged if n not in there]
