"""Ports reserved for servers that are started later. No other process can bind them before that."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from bench import free_ports as room
from bench.free_ports import free_ports

RANGE_OF_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_repeated_calls_return_different_ports() -> None:
    given = [port for _ in range(20) for port in free_ports(3)]
    assert len(set(given)) == 60


@pytest.mark.skipif(not RANGE_OF_CONNECTIONS.exists(), reason="only Linux says which ports its connections take")
def test_outgoing_connection_does_not_use_a_reserved_port() -> None:
    assert max(free_ports(10)) < int(RANGE_OF_CONNECTIONS.read_text().split()[0])


def test_port_in_use_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = free_ports(2)
    with socket.create_server(("127.0.0.1", first)):
        monkeypatch.setattr(room, "_next", iter([first, second]))
        assert free_ports(1) == [second]


def test_request_for_more_ports_than_exist_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_is_free", lambda port: False)
    with pytest.raises(OSError, match="no 2 of the ports"):
        free_ports(2)
