"""Socket options: the time after which the kernel closes a connection whose other end has disappeared."""

from __future__ import annotations

import asyncio
import resource
import socket
import subprocess
import sys
from typing import Any
from unittest import mock

import pytest

from zabka.ensemble.runtime import descriptors
from zabka.ensemble.runtime.descriptors import leaves_room
from zabka.ensemble.server.net.election_connection import UNACKNOWLEDGED_MS, ElectionConnection
from zabka.ensemble.server.net.sockets import keep_alive

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this kernel has no TCP_USER_TIMEOUT")


class Transport(asyncio.Transport):
    """Transport of a real socket."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection = connection

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._connection if name == "socket" else default

    def abort(self) -> None:
        """Do nothing, because the test that created the connection closes it."""


class Numbered:
    """Fake socket with this file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor


@pytest.mark.parametrize(
    ("limit", "last", "last_of_few"),
    [(1200, 899, 999), (100_000, 98_349, 98_899), (resource.RLIM_INFINITY, 2**31 - 1, 2**31 - 1)],
)
def test_clients_cannot_use_descriptors_kept_for_log_and_servers(limit: int, last: int, last_of_few: int) -> None:
    """Client connections cannot use the last file descriptors.

    The very last one is for the transaction log, and those before it are for connections of other servers.
    """
    with mock.patch("resource.getrlimit", return_value=(limit, limit)):
        assert leaves_room(Numbered(last))
        assert leaves_room(Numbered(last_of_few), is_of_few=True)
        if limit != resource.RLIM_INFINITY:
            assert not leaves_room(Numbered(last + 1))
            assert not leaves_room(Numbered(last_of_few + 1), is_of_few=True)


def test_connections_closed_for_lack_of_descriptors_are_logged() -> None:
    """A connection that is closed because no file descriptor is left is logged.

    Without the log line, an operator could not know why a server, or a broker with many segments, accepts no
    connection.
    """
    with (
        mock.patch("resource.getrlimit", return_value=(1200, 1200)),
        mock.patch.object(descriptors, "log") as log,
        mock.patch.object(descriptors._LastWarning, "at_s", 0.0),
        mock.patch("time.monotonic") as clock,
    ):
        for clock.return_value in (1000.0, 1001.0, 1061.0, 1062.0):
            assert not leaves_room(Numbered(1199))
    assert log.warning.call_count == 2


def test_open_max_is_used_if_the_limit_cannot_be_unlimited() -> None:
    """If the file descriptor limit cannot be set to infinity, OPEN_MAX is used.

    This is the case on macOS, whose manual recommends the lower of the limit and OPEN_MAX.
    """
    asked: list[int] = []

    def refuses_infinity(which: int, limits: tuple[int, int]) -> None:
        asked.append(limits[0])
        if limits[0] == resource.RLIM_INFINITY:
            raise ValueError("current limit exceeds maximum limit")

    with (
        mock.patch("resource.getrlimit", return_value=(256, resource.RLIM_INFINITY)),
        mock.patch("resource.setrlimit", refuses_infinity),
    ):
        descriptors.may_open_all_files()
    assert asked == [resource.RLIM_INFINITY, 10_240]


def test_node_raises_its_descriptor_limit_to_the_maximum() -> None:
    script = "import resource; from zabka.ensemble.runtime.descriptors import may_open_all_files; "
    script += "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 200)); may_open_all_files(); "
    script += "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout == "(200, 200)\n"


class Hub:
    """Election port that rejects every server."""

    tap = None
    listener: Any

    def __init__(self) -> None:
        self.listener = self
        self.reason = ""

    def refusal(self, transport: object, dialled: object) -> str:
        return "no"

    def on_peer_broken(self, remote: str, reason: str) -> None:
        self.reason = reason


def option(connection: socket.socket, name: str) -> int:
    return connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))


def test_unreachable_server_is_probed_after_ten_seconds() -> None:
    with socket.socket() as connection:
        keep_alive(Transport(connection))
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert (option(connection, "TCP_KEEPIDLE"), option(connection, "TCP_USER_TIMEOUT")) == (10, 0)


def test_election_connection_without_tcp_acks_is_closed() -> None:
    hub: Any = Hub()
    with socket.socket() as connection:
        ElectionConnection(hub, None).connection_made(Transport(connection))
        assert option(connection, "TCP_USER_TIMEOUT") == UNACKNOWLEDGED_MS
        # A single lost keepalive probe must not end the connection. With TCP_USER_TIMEOUT the kernel does not count
        # probes, so several probes must fit into that time.
        idle_s, every_s = option(connection, "TCP_KEEPIDLE"), option(connection, "TCP_KEEPINTVL")
        assert idle_s + 2 * every_s < UNACKNOWLEDGED_MS / 1000
    assert "no" in hub.reason
