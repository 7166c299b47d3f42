"""Simulated TCP: the kernel of each machine, its sockets, and the network between machines.

The model includes the handshake and its retries, buffers of a limited size on both sides, and the receive window.
Segments are lost while a link is cut, and the sender retransmits them after a timeout that doubles each time.  A
receiver delays an acknowledgement up to 40 ms, to send it with data.  The model also includes FIN, RST, keepalive, and
machines without power, which send nothing.  A paused process's kernel keeps running: it accepts, acknowledges, and
fills its buffers.  There is neither congestion control nor reordering of segments.  Timeouts are the same as Linux's.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from random import Random

import msgspec

from zabka.simulation.engine.gates import Gate
from zabka.simulation.engine.observed import Observe, Observer
from zabka.simulation.engine.scheduler import Call, Scheduler

LATENCY_US_MIN = 50
LATENCY_BITS = 8
"""A segment's latency is up to 2^LATENCY_BITS µs longer than LATENCY_US_MIN."""
SLOW_BITS = 6
SLOW_US_BITS = 13
"""One segment in 2^SLOW_BITS takes up to 2^SLOW_US_BITS µs longer."""
ACK_DELAY_US = 40_000
"""How long a receiver delays an acknowledgement, to send it with data (Linux: TCP_DELACK_MIN)."""
SEND_BUFFER = 64 * 1024
RECEIVE_BUFFER = 64 * 1024
SEGMENT_MAX = 32 * 1024
RTO_MIN_US = 200_000
RTO_MAX_US = 120_000_000
RETRIES_MAX = 15
"""Maximum number of retransmissions of a segment (Linux: tcp_retries2)."""
SYN_RETRIES_MAX = 6
"""Maximum number of retransmissions of a SYN (Linux: tcp_syn_retries)."""
KEEPALIVE_IDLE_US = 10_000_000
KEEPALIVE_INTERVAL_US = 5_000_000
KEEPALIVE_PROBES = 3
FIRST_EPHEMERAL_PORT = 32_768


class Kind(Enum):
    """Kind of a TCP segment."""

    SYN = auto()
    SYN_ACK = auto()
    DATA = auto()
    ACK = auto()
    PROBE = auto()
    RST = auto()


class Segment(msgspec.Struct, gc=False):
    """One segment in flight.

    `window` is the receive window of the segment's sender: how many more bytes the sender can receive.
    """

    source: str
    source_port: int
    target_port: int
    kind: Kind
    seq: int = 0
    data: bytes = b""
    fin: bool = False
    ack: int = 0
    window: int = 0


def os_error(number: int) -> OSError:
    """Return the OSError for a system call that failed with that error number."""
    return OSError(number, os.strerror(number))


class Link:
    """One direction of the connection between two machines. A link loses and delays segments, and delivers them in
    order.
    """

    __slots__ = ("_last_by_connection_us", "_last_us", "cuts", "slow_us", "target")

    def __init__(self, target: str) -> None:
        self.target = target
        self.cuts = 0
        self.slow_us: int | None = None
        """Extra delay of all segments in µs, or None if the link has never been slowed down."""
        self._last_us = 0
        """Arrival time of the last segment; later segments must not overtake it."""
        self._last_by_connection_us: dict[tuple[int, int], int] = {}

    def arrival_us(self, segment: Segment, at_us: int) -> int:
        """Return the arrival time of a segment that would arrive at `at_us` if no earlier segment delayed it.

        A segment never arrives before the segments sent earlier. On a link that has been slowed down, this order
        applies only to segments of the same connection.
        """
        if self.slow_us is None:
            at_us = self._last_us = at_us if at_us > self._last_us else self._last_us
            return at_us
        connection = segment.source_port, segment.target_port
        at_us = max(at_us + self.slow_us, self._last_by_connection_us.get(connection, 0))
        self._last_by_connection_us[connection] = at_us
        return at_us


class TcpNetwork:
    """Carries segments between the kernels of machines.  Each direction between two machines can be cut or slow."""

    def __init__(self, scheduler: Scheduler, random: Random) -> None:
        self.scheduler = scheduler
        self.make_gate: Callable[[Socket, Callable[[bytes], None]], Gate | None] = _no_gate
        """Creates a connection end's gate (None for no gate), given its socket and the function that sends bytes."""
        self.addresses: dict[str, str] = {}
        """Machine addresses, keyed by machine name."""
        self._observers: dict[tuple[str, int], list[Observe]] = {}
        """Functions that create observers for the connections that a server accepts, keyed by its address and port."""
        self._random = random
        self._kernels: dict[str, Kernel] = {}
        self._links: dict[tuple[str, str], Link] = {}

    def attach(self, address: str) -> Kernel:
        """Create the kernel of a new machine, which has this IP address and is switched on."""
        kernel = self._kernels[address] = Kernel(self, address)
        return kernel

    def observe(self, address: str, port: int, observe: Observe) -> None:
        """From now on, observe the connections that a server accepts.  `observe` creates an observer for each."""
        self._observers.setdefault((address, port), []).append(observe)

    def observers(self, address: str, port: int) -> list[Observer]:
        """Create the observers for a new connection to that server."""
        return [observe() for observe in self._observers.get((address, port), ())]

    def link(self, source: str, target: str) -> Link:
        """Return the link from `source` to `target`.  The machines at these addresses need not exist yet."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link(target)
        return link

    def cut(self, source: str, target: str) -> None:
        """Lose all segments from `source` to `target` until `heal` has been called as often as `cut`."""
        self.link(source, target).cuts += 1

    def heal(self, source: str, target: str) -> None:
        """Undo one call of `cut`."""
        self.link(source, target).cuts -= 1

    def slow(self, source: str, target: str, by_us: int) -> None:
        """Delay all segments from `source` to `target` by `by_us`; 0 ends the delay.

        From then on, the link preserves the order only among segments of one connection, so that new connections do not
        wait for older segments of other connections.
        """
        self.link(source, target).slow_us = by_us

    def is_cut(self, source: str, target: str) -> bool:
        """Return whether segments in that direction are lost."""
        return self.link(source, target).cuts > 0

    def carry(self, link: Link, segment: Segment, leaves_in_us: int = 0) -> None:
        """Deliver the segment after the link's latency.

        If the link is cut now or at the arrival, the segment is lost.
        """
        if link.cuts:
            return
        random, scheduler = self._random, self.scheduler
        drawn = random.getrandbits(SLOW_BITS + LATENCY_BITS)
        at_us = scheduler.now_us + leaves_in_us + LATENCY_US_MIN + (drawn >> SLOW_BITS)
        if not drawn & ((1 << SLOW_BITS) - 1):
            at_us += random.getrandbits(SLOW_US_BITS)
        scheduler.post(link.arrival_us(segment, at_us), partial(self._arrive, link, segment))

    def _arrive(self, link: Link, segment: Segment) -> None:
        kernel = self._kernels.get(link.target)
        if kernel is not None and kernel.has_power and not link.cuts:
            kernel.receive(segment)


class Listener:
    """A listening socket, with the established connections that the process has not accepted yet."""

    def __init__(self, kernel: Kernel, port: int, on_waiting: Callable[[], None]) -> None:
        self.kernel = kernel
        self.port = port
        self.waiting: deque[Socket] = deque()
        self.on_waiting = on_waiting

    def close(self) -> None:
        """Stop listening, and reset the connections that were not accepted."""
        if self.kernel.listeners.get(self.port) is self:
            del self.kernel.listeners[self.port]
        while self.waiting:
            self.waiting.popleft().reset()


class Kernel:
    """The TCP part of one machine's kernel."""

    def __init__(self, network: TcpNetwork, address: str) -> None:
        self.network = network
        self.address = address
        self.has_power = True
        self.busy_us: Callable[[], int] = _not_at_all
        """Returns the time in µs that the machine's process has spent in its current turn."""
        self.listeners: dict[int, Listener] = {}
        self._sockets: dict[tuple[int, str, int], Socket] = {}
        self._given_ports: set[tuple[int, str, int]] = set()
        self._next_port = FIRST_EPHEMERAL_PORT

    def listen(self, port: int, on_waiting: Callable[[], None]) -> Listener:
        """Listen on a port, or on any free port if it is 0.  Raises OSError."""
        port = port or self.free_port()
        if port in self.listeners:
            raise os_error(errno.EADDRINUSE)
        listener = self.listeners[port] = Listener(self, port, on_waiting)
        return listener

    def connect(
        self, address: str, port: int, on_done: Callable[[OSError | None], None], *, from_port: int = 0
    ) -> Socket:
        """Start to connect, from any free port if `from_port` is 0.

        `on_done` is called with None when the connection is established, or with the error.  Raises OSError if an
        earlier connection was between the same two ports, because its segments could arrive at the new connection.
        """
        if from_port:
            if (from_port, address, port) in self._given_ports:
                raise os_error(errno.EADDRNOTAVAIL)
            self._given_ports.add((from_port, address, port))
        socket = Socket(self, from_port or self.free_port(), address, port)
        self._sockets[socket.key] = socket
        socket.open(on_done)
        return socket

    def free_port(self) -> int:
        """Return a port that no connection of this kernel has used."""
        # Never reuse a port, so that segments of an old connection cannot arrive at a new connection.
        self._next_port += 1
        return self._next_port

    def receive(self, segment: Segment) -> None:
        """Pass a segment to its socket or listener, or reject it with RST."""
        socket = self._sockets.get((segment.target_port, segment.source, segment.source_port))
        if socket is not None:
            socket.receive(segment)
        elif segment.kind is Kind.SYN:
            self._take_call(segment)
        elif segment.kind is not Kind.RST:
            self.refuse(segment)

    def refuse(self, segment: Segment) -> None:
        """Reply with RST, because no socket exists for the segment."""
        reset = Segment(self.address, segment.target_port, segment.source_port, Kind.RST)
        self.network.carry(self.network.link(self.address, segment.source), reset)

    def _take_call(self, segment: Segment) -> None:
        listener = self.listeners.get(segment.target_port)
        if listener is None:
            self.refuse(segment)
            return
        socket = Socket(self, segment.target_port, segment.source, segment.source_port)
        socket.is_open = True
        self._sockets[socket.key] = socket
        socket.say(Kind.SYN_ACK)
        listener.waiting.append(socket)
        listener.on_waiting()

    def forget(self, socket: Socket) -> None:
        """Remove a socket from this kernel."""
        self._sockets.pop(socket.key, None)

    def lose_power(self) -> None:
        """Drop all sockets without notifying other machines."""
        self.has_power = False
        for socket in self._sockets.values():
            socket.vanish()
        self._sockets.clear()
        self.listeners.clear()


class Socket:
    """One end of a connection.

    It calls `on_readable` and `on_writable`, and sets `failure` if the connection fails.
    """

    def __init__(self, kernel: Kernel, port: int, remote: str, remote_port: int) -> None:
        self.kernel = kernel
        self.port = port
        self.remote = remote
        self.remote_port = remote_port
        self.key = port, remote, remote_port
        self.is_open = False
        self.is_gone = False
        self.failure: OSError | None = None
        self.inbox = bytearray()
        self.at_end = False
        """Whether the FIN of the other side has arrived."""
        self.keeps_alive = False
        self.on_readable: Callable[[], None] = _nobody
        self.on_writable: Callable[[], None] = _nobody
        self._on_opened: Callable[[OSError | None], None] | None = None
        self._scheduler = kernel.network.scheduler
        self._link = kernel.network.link(kernel.address, remote)
        self._out = bytearray()
        """Bytes that the other side has not acknowledged yet, including bytes that are not sent yet."""
        self._acked = self._next = self._taken = 0
        self._room = RECEIVE_BUFFER
        """Receive window of the other side, in bytes."""
        self._ends = False
        self._fin_at: int | None = None
        self._is_closed = False
        """Whether the process has closed the socket."""
        self._was_full = False
        self._rto_us = RTO_MIN_US
        self._retries = 0
        self._call_timer: Call | None = None
        """Timer that retries the SYN of the handshake."""
        self._late_us: int | None = None
        """Time in µs at which the retransmission timer expires, or None if no segment is in flight."""
        self._late_call_us: int | None = None
        """Time in µs of the scheduled check of `_late_us`, or None.

        Rescheduling it at each change of `_late_us` would be slow.
        """
        self._ack_is_due = False
        """Whether received data has not been acknowledged yet."""
        self._ack_call_is_due = False
        self._heard_us = self._scheduler.now_us
        self._probes = 0

    # -- calls by the process that owns the socket -------------------------------------------------------------------

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Queue as many bytes as fit into the send buffer, and return their number.

        Raises OSError if the connection has failed.
        """
        if self.is_gone or self._is_closed or self.failure is not None:
            raise self.failure or os_error(errno.EPIPE)
        taken = min(len(data), SEND_BUFFER - len(self._out))
        self._was_full = taken < len(data)
        self._out += data[:taken]
        self._pump()
        return taken

    def receive_bytes(self, size: int) -> bytes:
        """Remove up to `size` bytes from the receive buffer and return them."""
        was_full = len(self.inbox) > RECEIVE_BUFFER // 2
        if size >= len(self.inbox):
            data = bytes(self.inbox)
            self.inbox.clear()
        else:
            data = bytes(self.inbox[:size])
            del self.inbox[:size]
        if was_full and len(self.inbox) <= RECEIVE_BUFFER // 2:
            self.say(Kind.ACK)
        return data

    def shutdown_write(self) -> None:
        """Send FIN after the queued bytes, like shutdown(2) with SHUT_WR."""
        if not self._ends and not self.is_gone:
            self._ends = True
            self._pump()

    def close(self) -> None:
        """Close the socket like close(2).

        Queued bytes are still sent, but if there are unread received bytes, the connection is reset.
        """
        self.on_readable = self.on_writable = _nobody
        if self.is_gone:
            return
        self._is_closed = True
        if not self.is_open or self.inbox:
            self.reset()
        else:
            self.shutdown_write()
            self._leave_if_done()

    def reset(self) -> None:
        """Send RST to the other side, and drop the connection."""
        if not self.is_gone:
            if self.is_open:
                self.say(Kind.RST)
            self.vanish()
            self.kernel.forget(self)

    def keep_alive(self) -> None:
        """Enable keepalive with the same times as `zabka.ensemble.server.net.sockets`."""
        if not self.keeps_alive:
            self.keeps_alive = True
            self._scheduler.after(KEEPALIVE_IDLE_US, self._look_alive)

    # -- internals ---------------------------------------------------------------------------------------------------

    def open(self, on_done: Callable[[OSError | None], None]) -> None:
        """Start the handshake."""
        self._on_opened = on_done
        self._call()

    def _call(self) -> None:
        self.say(Kind.SYN)
        self._call_timer = self._scheduler.after(1_000_000 << self._retries, self._call_again)

    def _call_again(self) -> None:
        self._retries += 1
        if self._retries > SYN_RETRIES_MAX:
            self._fail(errno.ETIMEDOUT)
        else:
            self._call()

    def say(self, kind: Kind, seq: int = 0, data: bytes = b"", fin: bool = False) -> None:
        """Send a segment of that kind to the other side."""
        kernel = self.kernel
        window = RECEIVE_BUFFER - len(self.inbox)
        self._ack_is_due = False
        kernel.network.carry(
            self._link,
            Segment(
                kernel.address,
                self.port,
                self.remote_port,
                kind,
                seq,
                data=data,
                fin=fin,
                ack=self._taken,
                window=window if window > 0 else 0,
            ),
            kernel.busy_us(),
        )

    def _acknowledge_soon(self) -> None:
        """Acknowledge received data with the next data sent, or after ACK_DELAY_US in a segment of its own."""
        if self._ack_is_due:
            # An ACK is already due, so this is the second segment: acknowledge at once (RFC 1122, 4.2.3.2).
            self.say(Kind.ACK)
            return
        self._ack_is_due = True
        if not self._ack_call_is_due:
            self._ack_call_is_due = True
            self._scheduler.post(self._scheduler.now_us + ACK_DELAY_US, self._acknowledge_alone)

    def _acknowledge_alone(self) -> None:
        self._ack_call_is_due = False
        if self._ack_is_due and not self.is_gone:
            self.say(Kind.ACK)

    def _pump(self) -> None:
        """Send as many queued bytes as the other side's receive window allows."""
        if not self.is_open or self.is_gone:
            return
        end = self._acked + len(self._out)
        while self._next < end and self._next - self._acked < self._room:
            offset = self._next - self._acked
            data = bytes(self._out[offset : offset + min(SEGMENT_MAX, self._room - offset)])
            self.say(Kind.DATA, self._next, data)
            self._next += len(data)
        if self._ends and self._next == end and not self._all_is_acknowledged():
            self._fin_at = end
            self.say(Kind.DATA, self._next, fin=True)
            self._next += 1
        if self._late_us is None and (self._next > self._acked or self._out):
            self._start_timer()

    def _start_timer(self) -> None:
        self._late_us = late_us = self._scheduler.now_us + self._rto_us
        if self._late_call_us is None or late_us < self._late_call_us:
            self._late_call_us = late_us
            self._scheduler.post(late_us, self._look_at_timer)

    def _look_at_timer(self) -> None:
        """Retransmit if the retransmission timer has expired; otherwise schedule the next check for its expiry."""
        now_us = self._scheduler.now_us
        if now_us != self._late_call_us:
            return
        self._late_call_us = None
        late_us = self._late_us
        if late_us is None or self.is_gone:
            return
        if now_us < late_us:
            self._late_call_us = late_us
            self._scheduler.post(late_us, self._look_at_timer)
            return
        self._late_us = None
        self._late()

    def _late(self) -> None:
        """Retransmit after the timer has expired; fail the connection after RETRIES_MAX retransmissions."""
        if self._next == self._acked and not self._out:
            return
        self._retries += 1
        if self._retries > RETRIES_MAX:
            self._fail(errno.ETIMEDOUT)
            return
        self._rto_us = min(2 * self._rto_us, RTO_MAX_US)
        if self._room == 0:
            self.say(Kind.PROBE)
            self._start_timer()
            return
        self._next = self._acked
        self._pump()

    def receive(self, segment: Segment) -> None:
        """Handle a segment for this socket."""
        kind = segment.kind
        self._heard_us = self._scheduler.now_us
        self._probes = 0
        if kind is Kind.RST:
            self._fail(errno.ECONNRESET if self.is_open else errno.ECONNREFUSED)
        elif kind is Kind.SYN:
            self.say(Kind.SYN_ACK)
        elif kind is Kind.SYN_ACK:
            self._opened()
        elif self.is_open:
            if kind is Kind.DATA:
                self._take(segment)
            elif kind is Kind.PROBE:
                self.say(Kind.ACK)
            if not self.is_gone:
                self._acknowledged(segment.ack, segment.window)

    def _opened(self) -> None:
        if self._on_opened is None:
            return
        self.is_open = True
        self._stop_timer()
        self._retries = 0
        on_opened, self._on_opened = self._on_opened, None
        on_opened(None)

    def _take(self, segment: Segment) -> None:
        """Handle a segment that contains data or FIN."""
        known = self._taken - segment.seq
        if known < 0 or self.at_end:
            self.say(Kind.ACK)
            return
        fresh = segment.data[known:]
        if fresh and self._is_closed:
            # The socket is closed, so the process will never read the data.
            self.reset()
            return
        fresh = fresh[: RECEIVE_BUFFER - len(self.inbox)]
        self.inbox += fresh
        self._taken += len(fresh)
        if segment.fin and known == 0:
            self._taken += 1
            self.at_end = True
            self.say(Kind.ACK)
        else:
            self._acknowledge_soon()
        self._leave_if_done()
        if fresh or self.at_end:
            self.on_readable()

    def _acknowledged(self, ack: int, window: int) -> None:
        self._room = window
        if ack > self._acked:
            gone = min(ack - self._acked, len(self._out))
            del self._out[:gone]
            self._acked = ack
            self._next = max(self._next, ack)
            self._retries, self._rto_us = 0, RTO_MIN_US
            self._stop_timer()
            self._leave_if_done()
        if self._out or self._ends:
            self._pump()
        if self._was_full and len(self._out) <= SEND_BUFFER // 2:
            self._was_full = False
            self.on_writable()

    def _all_is_acknowledged(self) -> bool:
        return self._fin_at is not None and self._acked > self._fin_at

    def _leave_if_done(self) -> None:
        if self._is_closed and self._all_is_acknowledged() and not self.is_gone:
            # The process has closed the socket, so remove the connection. Later segments for it are rejected with RST.
            self.vanish()
            self.kernel.forget(self)

    def _look_alive(self) -> None:
        """Send a keepalive probe if the other side has sent nothing for a while."""
        if self.is_gone:
            return
        quiet_us = self._scheduler.now_us - self._heard_us
        if quiet_us < KEEPALIVE_IDLE_US or self._next > self._acked:
            self._scheduler.after(max(KEEPALIVE_IDLE_US - quiet_us, KEEPALIVE_INTERVAL_US), self._look_alive)
        elif self._probes >= KEEPALIVE_PROBES:
            self._fail(errno.ETIMEDOUT)
        else:
            self._probes += 1
            self.say(Kind.PROBE)
            self._scheduler.after(KEEPALIVE_INTERVAL_US, self._look_alive)

    def _fail(self, number: int) -> None:
        if self.is_gone:
            return
        self.failure = os_error(number)
        on_opened, self._on_opened = self._on_opened, None
        on_readable = self.on_readable
        self.inbox.clear()
        self.vanish()
        self.kernel.forget(self)
        if on_opened is not None:
            on_opened(self.failure)
        else:
            on_readable()

    def vanish(self) -> None:
        """Drop the connection without sending a segment."""
        self.is_gone = True
        self._stop_timer()
        self._on_opened = None

    def _stop_timer(self) -> None:
        self._late_us = None
        if self._call_timer is not None:
            self._call_timer.cancel()
            self._call_timer = None


def _nobody() -> None:
    return


def _no_gate(_: Socket, __: Callable[[bytes], None]) -> Gate | None:
    return None


def _not_at_all() -> int:
    return 0
