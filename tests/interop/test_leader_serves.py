"""leaderServes=no: the leader accepts no client connections, in Apache ZooKeeper 3.9.5 and in our servers."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ensemble.server.peer_processes import wait_until
from tests.interop.real_zookeeper import MixedEnsemble, needs_java

NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"
CONNECT_REQUEST = struct.pack(">iqiqi16sb", 0, 0, 30_000, 0, 16, bytes(16), 0)


@pytest.fixture(params=["ours", pytest.param("java", marks=needs_java)])
def trio(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Trio]:
    trio = Trio(tmp_path, request.param)
    try:
        yield trio
    finally:
        trio.close()


class Trio(MixedEnsemble):
    """Three servers of one implementation, with leaderServes=no."""

    def __init__(self, directory: Path, kind: str) -> None:
        super().__init__(directory, 3)
        for i in self.client_ports:
            with self.config(i).open("a") as config:
                config.write("leaderServes=no\n")
        self.begin = self.start_java if kind == "java" else self.start
        self.begin(*self.client_ports)

    def wait_for_leader(self) -> int:
        """Wait until one server accepts no clients and all others follow it. Return its id."""

        leaders: list[int] = []

        def led() -> bool:
            modes = self.modes()
            leaders[:] = (i for i, mode in modes.items() if mode == "none")
            return len(leaders) == 1 and all(mode == "follower" for i, mode in modes.items() if i not in leaders)

        # The mode "none" alone does not show which server is the leader: a server in an election has it too, and a
        # follower detects a dead leader late. But if a session can be opened, the leader and the quorum are ready.
        with self.client():
            wait_until(led)
        return leaders[0]


def test_leader_with_leader_serves_no_rejects_all_clients(trio: Trio) -> None:
    leader = trio.wait_for_leader()
    assert [trio.word(leader, word) for word in ("srvr", "isro", "ruok")] == [NOT_SERVING, "null", "imok"]
    with socket.create_connection(("127.0.0.1", trio.client_ports[leader]), 10) as connection:
        connection.settimeout(10)
        connection.sendall(struct.pack(">i", len(CONNECT_REQUEST)) + CONNECT_REQUEST)
        assert connection.recv(1) == b"", "the connection is closed without a reply"
    with trio.client() as client:
        client.create("/mine", b"1", ephemeral=True)
        assert client.get("/mine")[0] == b"1"
        trio.kill(leader)
        new_leader = trio.wait_for_leader()
        wait_until(lambda: client.connected)
        assert client.get("/mine")[1].ephemeralOwner == client.client_id[0], "the session has moved"
        trio.begin(leader)
        wait_until(lambda: trio.modes()[leader] == "follower")
        assert trio.word(new_leader, "srvr") == NOT_SERVING
        with trio.client(leader) as other:
            assert other.get("/mine")[0] == b"1"
