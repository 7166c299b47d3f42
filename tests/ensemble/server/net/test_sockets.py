"""Socket options: when the kernel gives up a connection whose other end is gone."""

from __future__ import annotations

import asyncio
import resource
import socket
import subprocess
import sys
from typing import Any
from unittest import mock

import pytest

from ensemble.runtime.descriptors import leaves_room
from ensemble.server.net.election_connection import UNACKNOWLEDGED_MS, ElectionConnection
from ensemble.server.net.sockets import keep_alive

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this kernel has no TCP_USER_TIMEOUT")


class Transport(asyncio.Transport):
    """A connection of the kernel's."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection = connection

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._connection if name == "socket" else default

    def abort(self) -> None:
        """It is closed by whoever made it."""


class Numbered:
    """A socket with that descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor


@pytest.mark.parametrize(
    ("limit", "last"),
    [(1024, 767), (100_000, 98_899), (resource.RLIM_INFINITY, 2**31 - 1)],
)
def test_the_last_descriptors_are_for_what_a_server_cannot_do_without(limit: int, last: int) -> None:
    with mock.patch("resource.getrlimit", return_value=(limit, limit)):
        assert leaves_room(Numbered(last))
        assert limit == resource.RLIM_INFINITY or not leaves_room(Numbered(last + 1))


def test_a_node_may_open_as_many_files_as_the_system_allows_it() -> None:
    asks = "import resource; from ensemble.runtime.descriptors import may_open_all_files; "
    asks += "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 200)); may_open_all_files(); "
    asks += "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    told = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout == "(200, 200)\n"


class Hub:
    """An election port that refuses everybody."""

    tap = None
    listener: Any

    def __init__(self) -> None:
        self.listener = self
        self.told = ""

    def refusal(self, transport: object, dialled: object) -> str:
        return "no"

    def on_peer_broken(self, remote: str, reason: str) -> None:
        self.told = reason


def option(connection: socket.socket, name: str) -> int:
    return connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))


def test_a_server_that_vanished_is_asked_for_after_ten_seconds() -> None:
    with socket.socket() as connection:
        keep_alive(Transport(connection))
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert (option(connection, "TCP_KEEPIDLE"), option(connection, "TCP_USER_TIMEOUT")) == (10, 0)


def test_an_election_connection_ends_when_its_votes_are_not_acknowledged() -> None:
    hub: Any = Hub()
    with socket.socket() as connection:
        ElectionConnection(hub, None).connection_made(Transport(connection))
        assert option(connection, "TCP_USER_TIMEOUT") == UNACKNOWLEDGED_MS
        # One probe that is lost does not end it: the kernel counts no probes where there is a user timeout.
        idle_s, every_s = option(connection, "TCP_KEEPIDLE"), option(connection, "TCP_KEEPINTVL")
        assert idle_s + 2 * every_s < UNACKNOWLEDGED_MS / 1000
    assert "no" in hub.told
