"""pytest plugin that runs kazoo's tests of its client and recipes with our KazooClient.

These tests use some private attributes of kazoo's client. Where possible, this plugin adds such attributes to our
client. Tests that use kazoo's connection are skipped, each with a reason.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import kazoo.client
import kazoo.testing.harness as harness
import pytest
from kazoo.protocol.connection import _CONNECTION_DROP, _SESSION_EXPIRED

from zabka.ensemble.client.kazoo import KazooClient

_SOCKET = "reaches into kazoo's connection thread: its socket, its wake-up pipe or its read loop"
_HANDLER = "our client runs on threads: gevent's and eventlet's handlers are refused"
CANNOT = {
    "test_client.py::TestAuthentication::test_add_auth_on_reconnect": _SOCKET,
    "test_client.py::TestConnection::test_closed": _SOCKET,
    "test_connection.py::TestConnectionHandler::test_bad_deserialization": _SOCKET,
    "test_connection.py::TestConnectionHandler::test_connection_deserialize_fail": _SOCKET,
    "test_connection.py::TestConnectionHandler::test_connection_read_timeout": _SOCKET,
    "test_connection.py::TestConnectionHandler::test_connection_sock": _SOCKET,
    "test_connection.py::TestConnectionHandler::test_connection_write_timeout": _SOCKET,
    "test_connection.py::TestConnectionHandler::test_dirty_sock": _SOCKET,
    "test_connection.py::TestUnorderedXids::": _SOCKET,
    "test_gevent_handler.py::TestBasicGeventClient::": _HANDLER,
    "test_gevent_handler.py::TestGeventClient::": _HANDLER,
    "test_eventlet_handler.py::TestEventletClient::": _HANDLER,
    "test_eventlet_handler.py::TestEventletSemaphore::": _HANDLER,
    "test_eventlet_handler.py::TestEventletLock::": _HANDLER,
}
"""Why our client cannot run some of kazoo's tests.

Each key is the end of a test id, or the start of the name of a test class.
"""


class ShimUnderTest(KazooClient):
    """Our client, with the three private attributes of kazoo's client that its tests and harness use."""

    def _call(self, request: object, async_object: object) -> None:
        """Execute a private request of kazoo's client: drop the connection, or expire the session."""
        breaks = {_CONNECTION_DROP: "drop_connection", _SESSION_EXPIRED: "expire"}
        self._submit(lambda session: getattr(session, breaks[request])())

    @property
    def _queue(self) -> deque[Any]:
        """Return the requests that wait for a connection."""
        engine = self._engine
        if engine is None or engine._session is None:
            return deque()
        return deque([*engine._work, *engine._session._queued])

    @property
    def _session_passwd(self) -> bytes:
        """Password of the session. A test sets it to an invalid one."""
        return self._known_password

    @_session_passwd.setter
    def _session_passwd(self, password: bytes) -> None:
        self._known_password = password
        engine = getattr(self, "_engine", None)
        if engine is not None and threading.current_thread() is not engine._thread:
            self._submit(lambda session: setattr(session, "password", password))


kazoo.client.KazooClient = ShimUnderTest
harness.KazooClient = ShimUnderTest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        name = "::".join((item.path.name, *item.nodeid.split("::")[1:]))
        for prefix, reason in CANNOT.items():
            if name == prefix or (prefix.endswith("::") and name.startswith(prefix)):
                item.add_marker(pytest.mark.skip(reason=reason))
        # Tests that run with every handler of kazoo run only with the one that our client supports.
        adaptive = getattr(item.getparent(pytest.Module).obj, "KazooAdaptiveHandlerTestCase", None)
        if adaptive is not None:
            adaptive.HANDLERS = (("kazoo.handlers.threading", "SequentialThreadingHandler"),)
