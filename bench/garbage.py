"""Garbage for every port of a running cluster: what strangers, scanners and broken clients send, and how they leave.

Nothing here knows how a server decodes: the streams are bytes that begin like ZooKeeper's, Kafka's or HTTP's own, and
then part from them.  `tests/fuzz/` has the subtler kind, made from valid messages.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress

HELD_OPEN_MAX = 30
PAUSE_S = 0.1
_WORDS = (b"srvr", b"mntr", b"stat", b"zzzz", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00")
_LENGTHS = (0x7FFFFFFF, 0x0FFFFFFF, 0x000FFFFE, 1, 0, -1, -(1 << 31))


def _zookeeper_connect(draw: random.Random) -> bytes:
    body = struct.pack(">iqiqi", 0, draw.getrandbits(62), 10_000, draw.getrandbits(62), 16) + draw.randbytes(16)
    return struct.pack(">i", len(body)) + body + draw.randbytes(40)


def _kafka_request(draw: random.Random) -> bytes:
    api_key, version = draw.choice((0, 1, 3, 4, 6, 18, 19, 56, 999)), draw.choice((0, 3, 9, 12, 77, -1))
    body = struct.pack(">hhih", api_key, version, draw.getrandbits(31), 4) + b"soak" + draw.randbytes(60)
    return struct.pack(">i", len(body)) + body


def _http_request(draw: random.Random) -> bytes:
    path = draw.choice(("/api/v1/cluster", "/api/v1/journal?after=x", "/../../etc/passwd", "/api/v1/brokers/1/kill"))
    head = f"{draw.choice(('GET', 'POST', 'PUT', 'BREW'))} {path} HTTP/1.1\r\nHost: elsewhere.example\r\n"
    return head.encode() + draw.choice((b"\r\n", b"Content-Length: 99999999999\r\n\r\n{", b"X: " + b"y" * 70_000))


def _length_and_bytes(draw: random.Random) -> bytes:
    return struct.pack(">i", draw.choice(_LENGTHS)) + draw.randbytes(draw.choice((0, 10, 3000)))


_STREAMS = (
    _zookeeper_connect,
    _kafka_request,
    _http_request,
    _length_and_bytes,
    lambda draw: draw.choice(_WORDS),
    lambda draw: draw.randbytes(draw.choice((1, 4, 64, 20_000))),
    lambda draw: b"",
)


class Garbage:
    """A thread that connects to one port after the other until it is stopped.  Use with `with`."""

    def __init__(self, addresses: Sequence[tuple[str, int]], seed: int) -> None:
        self.connections = 0
        self._addresses = list(addresses)
        self._draw = random.Random(f"{seed}/garbage")
        self._held: list[socket.socket] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="garbage")

    def __enter__(self) -> Garbage:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        for connection in self._held:
            connection.close()

    def _run(self) -> None:
        while not self._stopping.wait(PAUSE_S):
            # A port of a dead or frozen node refuses or never answers, which is no matter.
            with suppress(OSError):
                self._connect()

    def _connect(self) -> None:
        draw = self._draw
        connection = socket.create_connection(draw.choice(self._addresses), 0.5)
        self.connections += 1
        with suppress(OSError):
            connection.settimeout(0.2)
            connection.sendall(draw.choice(_STREAMS)(draw))
            if draw.random() < 0.3:
                connection.recv(4096)
        if draw.random() < 0.3:
            self._held.append(connection)
            if len(self._held) <= HELD_OPEN_MAX:
                return
            connection = self._held.pop(draw.randrange(len(self._held)))
        if draw.random() < 0.3:
            # Closing with a linger time of nothing sends RST.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
