"""The end of a connection whose last reply is still on its way.

A reply to a four-letter word ends where the connection does. A client cannot distinguish a truncated reply from a
complete one, unless the connection is reset (RST) instead of closed (FIN). So a connection is closed once the client
has the complete reply, and reset if the client stops reading it.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from typing import Any

_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with a time of 0: closing the socket resets the connection."""
_INT = struct.Struct("i")
IDLE_S = 60.0
"""How long the client may read nothing. ZooKeeper has no limit: a separate thread waits."""


class Lingering:
    """Closes a transport after what is queued on it, and resets it once the client has read nothing for `IDLE_S`.

    Bytes in the kernel's send buffer count as unread: the client acknowledges only as much as it has room for.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        # Kept for use after the transport has closed.
        self._socket = transport.get_extra_info("socket")
        transport.close()
        self._timer: asyncio.TimerHandle | None = None
        self._left = self._unsent()
        if self._left:
            self._timer = asyncio.get_running_loop().call_later(IDLE_S, self._check)

    def cancel(self) -> None:
        """Stop: the connection has ended."""
        if self._timer is not None:
            self._timer.cancel()

    def reset(self) -> None:
        """End the connection now, with a reset if the client does not have the complete reply."""
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
        """Number of bytes of the reply that the client has not acknowledged."""
        return self._transport.get_write_buffer_size() + _in_kernel(self._socket)


def _in_kernel(sock: Any) -> int:
    """Number of bytes in a socket's send buffer (SIOCOUTQ); 0 if unknown."""
    if sock is None:
        return 0
    try:
        number: int = _INT.unpack(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(_INT.size)))[0]
    except (OSError, ValueError):
        return 0
    return number
