"""Closes a connection after the client has received its last reply.

The reply to a four-letter word ends where the connection ends. A client can distinguish a truncated reply from a
complete one only if the connection is reset (RST) instead of closed (FIN). So a connection is closed when the client
has received the complete reply, and reset if the client stops reading.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from typing import Any

_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER value with a time of 0, with which closing the socket resets the connection."""
_INT = struct.Struct("i")
IDLE_S = 60.0
"""Time in seconds after which a connection is reset if the client has read nothing.

ZooKeeper has no limit, because a separate thread waits.
"""


class Lingering:
    """Closes a transport after its queued bytes are sent; resets it if the client has read nothing for `IDLE_S`.

    Bytes in the kernel's send buffer count as unread: the client's kernel acknowledges only as many bytes as it has
    space for.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        # Keep a reference to the socket for use after the transport has closed.
        self._socket = transport.get_extra_info("socket")
        transport.close()
        self._timer: asyncio.TimerHandle | None = None
        self._left = self._unsent()
        if self._left:
            self._timer = asyncio.get_running_loop().call_later(IDLE_S, self._check)

    def cancel(self) -> None:
        """Stop the timer, because the connection has ended."""
        if self._timer is not None:
            self._timer.cancel()

    def reset(self) -> None:
        """End the connection now: reset it if the client has not received the complete reply, otherwise close it."""
        self.cancel()
        if self._unsent() and self._socket is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    def _check(self) -> None:
        left = self._unsent()
        if left == self._left:
            self.reset()
            return
        self._left = left
        self._timer = asyncio.get_running_loop().call_later(IDLE_S, self._check)

    def _unsent(self) -> int:
        """Return the number of bytes of the reply that the client has not acknowledged."""
        return self._transport.get_write_buffer_size() + _in_kernel(self._socket)


def _in_kernel(sock: Any) -> int:
    """Return the number of bytes in a socket's send buffer (SIOCOUTQ); 0 if unknown."""
    if sock is None:
        return 0
    try:
        number: int = _INT.unpack(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(_INT.size)))[0]
    except (OSError, ValueError):
        return 0
    return number
