"""Calls that wait for a server while the client is stopped, with kazoo's client and with ours."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import kazoo.client
import pytest
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss

from zabka.ensemble.client.kazoo import KazooClient

WAIT_S = 15.0


@pytest.fixture(params=["kazoo", "shim"])
def client(request: pytest.FixtureRequest) -> Any:
    """Yield a client that tries to connect to a port on which no server listens."""
    kind = kazoo.client.KazooClient if request.param == "kazoo" else KazooClient
    with socket.socket() as taken:
        # Bind the port without listening: connections fail, and no other process can use the port.
        taken.bind(("127.0.0.1", 0))
        made = kind(f"127.0.0.1:{taken.getsockname()[1]}")
        made.start_async()
        yield made
        made.stop()
        made.close()


CALLS: dict[str, Callable[[Any], Any]] = {
    "get": lambda client: client.get_async("/a"),
    "create with its parents": lambda client: client.create_async("/a/b", makepath=True),
    "ensure_path": lambda client: client.ensure_path_async("/a/b"),
    "add_auth": lambda client: client.add_auth_async("digest", "user:password"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_waiting_call_fails_when_its_client_stops(client: Any, call: Callable[[Any], Any]) -> None:
    result = call(client)
    client.stop()
    result.wait(WAIT_S)
    assert result.ready(), "the waiting call was not completed"
    assert isinstance(result.exception, ConnectionLoss | ConnectionClosedError)
