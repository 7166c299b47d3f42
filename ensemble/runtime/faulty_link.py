"""TCP connection with faults: each direction can be stalled, delayed or limited in bandwidth.

`FaultyLink` is an asyncio protocol between the transport and the real protocol.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, cast

from zabka.ensemble.runtime.link_fault import Impairment

PIECES_PER_S = 20
"""If the bandwidth is limited, bytes are passed on in at most this many pieces per second."""
HELD_BYTES_MAX = 8 * 1024 * 1024
"""Maximum number of bytes held back in a direction. Above it, the sender is paused."""
LINGER_S = 600.0
"""Time for which a connection really stays open after its owner closed it while the link was cut.

The other side therefore does not notice the close.
"""


class State(Protocol):
    """Faults in each direction of a link (`zabka.ensemble.runtime.links.LinkState`)."""

    @property
    def outward(self) -> Impairment: ...
    @property
    def inward(self) -> Impairment: ...


class _End(NamedTuple):
    """Marker in a queue of bytes: the connection was closed or half-closed after these bytes."""

    failure: Exception | None
    abrupt: bool = False
    half: bool = False


_Item = bytes | memoryview | _End


class _Direction:
    """Queue of bytes in one direction of a link.

    While `cut`, all items are held back; otherwise each is delayed by `delay_s`, and the bandwidth is `bytes_per_s`.
    Items keep their order.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.cut = False
        self.delay_s = 0.0
        self.bytes_per_s = 0
        self.clear = True
        """Whether an item can pass without being queued."""
        self.held_bytes = 0
        self._loop = loop
        self._items: deque[tuple[float, _Item]] = deque()
        """Queued items, each with the earliest time at which it may pass."""
        self._busy_until = 0.0
        """Time at which the link, with its limited bandwidth, has transmitted the last item."""
        self._timer: asyncio.TimerHandle | None = None

    def set(self, wrong: Impairment) -> None:
        """Apply this impairment to all later items. A new bandwidth also applies to the items that are held back."""
        self.cut, self.delay_s, self.bytes_per_s = wrong.cut, wrong.delay_ms / 1000, wrong.bytes_per_s
        self._see_if_clear()

    def _see_if_clear(self) -> None:
        self.clear = not (self._items or self.cut or self.delay_s or self.bytes_per_s)

    def put(self, item: _Item) -> None:
        """Queue an item that cannot pass immediately."""
        self.clear = False
        self.held_bytes += 0 if isinstance(item, _End) else len(item)
        self._items.append((self._loop.time() + self.delay_s, item))

    def _first(self) -> tuple[float, _Item, _Item | None]:
        """Return (time, item, None) for the first queued item: `time` is when it may pass.

        With a limited bandwidth, return (time, first piece of the item, rest of the item).
        """
        at, item = self._items[0]
        if not self.bytes_per_s:
            return at, item, None
        at = max(at, self._busy_until)
        if isinstance(item, _End):
            return at, item, None
        size = max(1, self.bytes_per_s // PIECES_PER_S)
        piece, rest = memoryview(item)[:size], memoryview(item)[size:]
        return at + len(piece) / self.bytes_per_s, piece, rest or None

    def due(self) -> list[bytes | _End]:
        """Remove and return the items that may pass now."""
        out: list[bytes | _End] = []
        now = self._loop.time()
        while self._items and not self.cut:
            at, item, rest = self._first()
            if at > now:
                break
            self._busy_until = at
            if rest is None:
                self._items.popleft()
            else:
                self._items[0] = (self._items[0][0], rest)
            self.held_bytes -= 0 if isinstance(item, _End) else len(item)
            out.append(item if isinstance(item, _End) else bytes(item))
        self._see_if_clear()
        return out

    def drop(self) -> None:
        """Drop all queued items."""
        self._items.clear()
        self.held_bytes = 0
        self._see_if_clear()

    def wake_at_next(self, callback: Any) -> None:
        """Set a timer that calls `callback` when the next item may pass; cancel the previous timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._items and not self.cut:
            self._timer = self._loop.call_at(self._first()[0], callback)


class FaultyLink(asyncio.Protocol):
    """asyncio protocol that applies faults: it is between the real transport and the wrapped protocol.

    The wrapped protocol gets `facade` as its transport. `state` returns the current faults; it is called when the
    connection is established, because the faults may have changed after this object was created. Later changes are
    passed to `update`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: str,
        protocol: asyncio.BaseProtocol,
        registry: dict[int, FaultyLink],
        state: Callable[[], State],
    ) -> None:
        self.address = address
        self.facade = FacadeTransport(self)
        self.protocol = cast(asyncio.Protocol, protocol)
        self.transport: asyncio.Transport | None = None
        self.closing = False
        self._loop = loop
        self._registry = registry
        self._out = _Direction(loop)
        self._in = _Direction(loop)
        self._lost_notified = False
        self._real_lost = False
        self._holding = False
        self._reading_requested = True
        self._state = state
        self._giving_up: asyncio.TimerHandle | None = None

    # -- called by the real transport -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Apply the current faults to the established connection, and pass it to the wrapped protocol.

        The wrapped protocol gets the facade as its transport.
        """
        self.transport = cast(asyncio.Transport, transport)
        self._registry[id(self)] = self
        self._set(self._state())
        self.protocol.connection_made(self.facade)

    def take_over(self, transport: asyncio.Transport, *, is_reading: bool) -> None:
        """Become the protocol of a connection that is already in use.

        `is_reading` is True if the connection's owner reads from it.
        """
        self.transport = transport
        self._registry[id(self)] = self
        self._reading_requested = is_reading
        transport.set_protocol(self)

    @property
    def is_clear(self) -> bool:
        """Whether the connection is open, no data is queued, and no fault would hold back later data."""
        is_open = self.transport is not None and not self.closing and not self._real_lost
        return is_open and self._in.clear and self._out.clear

    def give_back(self) -> None:
        """Make the wrapped protocol the transport's protocol again, and stop applying faults."""
        assert self.transport is not None
        del self._registry[id(self)]
        self.transport.set_protocol(self.protocol)

    def data_received(self, data: bytes) -> None:
        """Pass received bytes to the wrapped protocol, or queue them if the faults hold them back."""
        if self._lost_notified:
            return
        if self._in.clear:
            self.protocol.data_received(data)
        else:
            self._in.put(bytes(data))
            self._deliver()

    def eof_received(self) -> bool:
        """Handle the other side's half-close, which is held back like data."""
        self._in.put(_End(None, half=True))
        self._deliver()
        # Keep the transport open after a half-close, except with TLS, which has no half-closed connections.
        return self.transport is None or self.transport.get_extra_info("ssl_object") is None

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the lost connection.

        The wrapped protocol is notified when the faults allow it.
        """
        self._real_lost = True
        if self._giving_up is not None:
            self._giving_up.cancel()
        self._in.put(_End(exc))
        self._deliver()
        if self._lost_notified:
            self._registry.pop(id(self), None)

    def pause_writing(self) -> None:
        """Pause the wrapped protocol, because the socket's send buffer is full."""
        self.protocol.pause_writing()

    def resume_writing(self) -> None:
        """Resume the wrapped protocol, because the socket's send buffer has room again."""
        if not self._holding:
            self.protocol.resume_writing()

    # -- called by the wrapped protocol, through the facade --------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, now or when the fault allows it."""
        assert self.transport is not None
        if self.closing or self._real_lost:
            return
        if self._out.clear:
            self.transport.write(data)
            return
        self._out.put(bytes(data))
        self._send()

    def close_through_faults(self, *, abrupt: bool) -> None:
        """Close the connection. While the link is cut, the close is hidden from the other side."""
        if self.closing:
            return
        self.closing = True
        self._loop.call_soon(self._notify_lost, None)
        if abrupt:
            self._out.drop()
        self._out.put(_End(None, abrupt=abrupt))
        self._send()
        self._giving_up = self._loop.call_later(LINGER_S, self._give_up)

    def end_half(self) -> None:
        """Close the sending half of the connection."""
        self._out.put(_End(None, half=True))
        self._send()

    def want_reading(self, wanted: bool) -> None:
        """Pause or resume reading, on behalf of the wrapped protocol."""
        self._reading_requested = wanted
        self._adjust_reading()

    # -- called when the faults change -----------------------------------------------------------------------------

    def update(self, state: State) -> None:
        """Replace the faults of both directions."""
        self._set(state)
        self._send()
        self._deliver()

    def _set(self, state: State) -> None:
        self._out.set(state.outward)
        self._in.set(state.inward)

    # -- internal methods ------------------------------------------------------------------------------------------

    def _send(self) -> None:
        assert self.transport is not None
        for item in self._out.due():
            if isinstance(item, bytes):
                self.transport.write(item)
            elif item.half:
                self.transport.write_eof()
            elif item.abrupt:
                self.transport.abort()
            else:
                self.transport.close()
        self._out.wake_at_next(self._send)
        self._notify_pressure(self._out.held_bytes > HELD_BYTES_MAX)

    def _notify_pressure(self, holding: bool) -> None:
        if holding != self._holding:
            self._holding = holding
            if holding:
                self.protocol.pause_writing()
            else:
                self.protocol.resume_writing()

    def _deliver(self) -> None:
        for item in self._in.due():
            if self._lost_notified:
                continue
            if isinstance(item, bytes):
                self.protocol.data_received(item)
            elif not item.half:
                self._notify_lost(item.failure)
            elif not self.protocol.eof_received():
                self.close_through_faults(abrupt=False)
        self._in.wake_at_next(self._deliver)
        self._adjust_reading()

    def _adjust_reading(self) -> None:
        if self.transport is None or self._real_lost or self.transport.is_closing():
            return
        # Do not read from the socket while the direction is cut: the kernel's buffers fill, and the other side stalls
        # as with a real cut.
        if self._reading_requested and not self._in.cut and self._in.held_bytes <= HELD_BYTES_MAX:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def _notify_lost(self, failure: Exception | None) -> None:
        if self._lost_notified:
            return
        self._lost_notified = True
        self.closing = True
        if self._real_lost:
            self._registry.pop(id(self), None)
        self.protocol.connection_lost(failure)

    def _give_up(self) -> None:
        if self.transport is not None and not self._real_lost:
            self.transport.abort()


class FacadeTransport(asyncio.Transport):
    """Transport that the wrapped protocol uses."""

    def __init__(self, link: FaultyLink) -> None:
        super().__init__()
        self._link = link

    def _real(self) -> asyncio.Transport:
        assert self._link.transport is not None
        return self._link.transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the real transport's value for this name."""
        return self._real().get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send the data, now or when the fault allows it."""
        self._link.write(data)

    def write_eof(self) -> None:
        """Close the sending half after the queued bytes are sent."""
        self._link.end_half()

    def can_write_eof(self) -> bool:
        """Return whether `write_eof` is possible."""
        return self._real().can_write_eof()

    def close(self) -> None:
        """Close after the queued bytes are sent."""
        self._link.close_through_faults(abrupt=False)

    def abort(self) -> None:
        """Close at once, without waiting for queued bytes."""
        self._link.close_through_faults(abrupt=True)

    def is_closing(self) -> bool:
        """Return whether the transport is closed or closing."""
        return self._link.closing

    def pause_reading(self) -> None:
        """Stop delivering received data."""
        self._link.want_reading(False)

    def resume_reading(self) -> None:
        """Resume delivering received data."""
        self._link.want_reading(True)

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that are not yet passed to the kernel."""
        return self._real().get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the buffer sizes at which the protocol is paused and resumed."""
        self._real().set_write_buffer_limits(high, low)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Use another protocol for the connection."""
        self._link.protocol = cast(asyncio.Protocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the wrapped protocol."""
        return self._link.protocol
