"""Malformed client requests must not reach a leader of the other implementation: such a create stops a ZooKeeper
ensemble.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import pytest

from tests.interop.real_zookeeper import MixedEnsemble, needs_java
from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.records import OPEN_ACL, ConnectRequest, CreateRequest, OpCode, Request

pytestmark = [needs_java, pytest.mark.long]


def _exchange(connection: socket.socket, frame: bytes) -> bytes:
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    head = connection.recv(4, socket.MSG_WAITALL)
    return connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)


def test_our_follower_sends_no_malformed_write_to_a_java_leader(tmp_path: Path) -> None:
    ensemble = MixedEnsemble(tmp_path, 3)
    try:
        ensemble.start_java(2, 3)
        ensemble.start(1)
        assert ensemble.wait_for_quorum() in (2, 3)
        whole = Request(1, OpCode.CREATE, CreateRequest("/a", b"x", OPEN_ACL, 0)).encode()
        with socket.create_connection(("127.0.0.1", ensemble.client_ports[1]), 10) as connection:
            connection.settimeout(10)
            _exchange(connection, ConnectRequest(0, 0, 10_000, 0, bytes(16), False).encode())
            for spoiled in (whole[:-1], whole[:-30], whole[:9], whole[:8] + struct.pack(">i", 0x7FFFFFFF) + whole[12:]):
                reply = _exchange(connection, spoiled)
                assert struct.unpack_from(">iqi", reply)[2] == ErrorCode.MARSHALLING_ERROR
        with ensemble.client(2) as client:
            assert client.create("/b", b"still here") == "/b"
    finally:
        ensemble.close()
