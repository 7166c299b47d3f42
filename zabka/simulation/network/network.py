"""The simulated network: connections with TCP's promises, datagrams with none, and faults on each direction of a link.

A connection delivers in order or not at all.  While a direction of a link is cut, what is sent there waits, as in TCP's
buffers, and arrives after the cut heals; new connections hang until their time-out.  A dead process's connections close
for the other side one latency later (or once the cut heals).  A paused process's kernel still accepts and buffers; its
callbacks wait for the resume.  Every delay is drawn from the world's seed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from zabka.simulation.kernel.runtime import SimRuntime
from zabka.simulation.kernel.scheduler import Scheduler

LATENCY_US_MIN = 100
LATENCY_US_MAX = 1_500
LOOPBACK_US = 20
DIAL_TIMEOUT_US = 1_000_000
REDIAL_US = 250_000
_LATENCY_US_RANGE = LATENCY_US_MAX - LATENCY_US_MIN


class _Closed:
    """Travels behind the last item of a closed connection."""


CLOSED = _Closed()
"""What an end gets behind the last item, where the other end has closed."""


def _unheard(*_: object) -> None:
    """Drops what arrives: nobody listens at that end (yet, or any more)."""


class Link:
    """One direction between two hosts: its faults, and who waits for the end of a cut."""

    __slots__ = ("cuts", "delay_us", "is_loopback", "waiting")

    def __init__(self, source: str, target: str) -> None:
        self.is_loopback = source == target
        self.cuts = 0
        self.delay_us = 0
        self.waiting: dict[Endpoint, None] = {}

    def latency_us(self, random: Random) -> int:
        """Draw one message's time under way."""
        if self.is_loopback:
            return LOOPBACK_US + self.delay_us
        # What randrange does, in a fifth of its time.
        return LATENCY_US_MIN + int(random.random() * _LATENCY_US_RANGE) + self.delay_us


class Host:
    """A node's place in the network; `runtime` is the present process's, None while it is down."""

    __slots__ = ("endpoints", "listeners", "name", "runtime")

    def __init__(self, name: str) -> None:
        self.name = name
        self.runtime: SimRuntime | None = None
        self.listeners: dict[str, Callable[[Endpoint], None]] = {}
        self.endpoints: dict[Endpoint, None] = {}


class Endpoint:
    """One process's end of a connection."""

    __slots__ = (
        "_due_us", "_inbound", "_inbox", "_random", "_scheduler", "closed", "host", "on_close", "on_item", "peer",
        "runtime",
    )  # fmt: skip

    def __init__(self, network: Network, host: Host, runtime: SimRuntime, inbound: Link) -> None:
        self._scheduler = network.scheduler
        self._random = network.random
        self._inbound = inbound
        self.host = host
        self.runtime = runtime
        self.peer: Endpoint = self
        self.on_item: Callable[[Any], None] = _unheard
        self.on_close: Callable[[], None] = _unheard
        self.closed = False
        self._inbox: deque[tuple[int, Any]] = deque()
        self._due_us = 0

    def send(self, item: Any) -> None:
        """Send an item; it arrives in order, unless the connection ends first."""
        if not self.closed:
            self.peer.enqueue(item)

    def close(self) -> None:
        """Close; the other side hears of it behind what was sent.  `on_close` is not called here."""
        if not self.closed:
            self._end()
            self.peer.enqueue(CLOSED)

    def _end(self) -> None:
        self.closed = True
        self.host.endpoints.pop(self, None)
        self.on_item = self.on_close = _unheard

    def enqueue(self, item: Any) -> None:
        """Take an item under way to this end."""
        scheduler = self._scheduler
        due_us = scheduler.now_us + self._inbound.latency_us(self._random)
        if due_us > self._due_us:
            self._due_us = due_us
        else:
            due_us = self._due_us
        inbox = self._inbox
        inbox.append((due_us, item))
        if len(inbox) == 1:
            scheduler.post(due_us, self.pump)

    def pump(self) -> None:
        """Hand over what has arrived, unless the direction is cut."""
        inbound = self._inbound
        if inbound.cuts:
            inbound.waiting[self] = None
            return
        inbox = self._inbox
        runtime, now_us = self.runtime, self._scheduler.now_us
        while inbox and inbox[0][0] <= now_us:
            item = inbox.popleft()[1]
            if runtime.paused:
                runtime.run(partial(self._hand_over, item))
            elif not runtime.stopped:
                self._hand_over(item)
        if inbox:
            self._scheduler.post(inbox[0][0], self.pump)

    def _hand_over(self, item: Any) -> None:
        if self.closed:
            return
        if item is not CLOSED:
            self.on_item(item)
        else:
            on_close = self.on_close
            self._end()
            on_close()


End = tuple[Host, SimRuntime, Link]
"""Where one end of a connection is: the host, its process, and the direction that leads there."""


class Network:
    """All hosts, all links and their faults."""

    def __init__(self, scheduler: Scheduler, random: Random) -> None:
        self.scheduler = scheduler
        self.random = random
        self._hosts: dict[str, Host] = {}
        self._links: dict[tuple[str, str], Link] = {}

    def host(self, name: str) -> Host:
        """The host of that name, made when first asked for."""
        return self._hosts.setdefault(name, Host(name))

    def _link(self, source: str, target: str) -> Link:
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link(source, target)
        return link

    # -- faults ----------------------------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        """Let nothing pass in that direction; cuts nest."""
        self._link(source, target).cuts += 1

    def heal(self, source: str, target: str) -> None:
        """Undo one cut; what waited arrives now."""
        link = self._link(source, target)
        link.cuts = max(0, link.cuts - 1)
        if not link.cuts:
            waiting, link.waiting = link.waiting, {}
            for endpoint in waiting:
                self.scheduler.soon(endpoint.pump)

    def delay(self, source: str, target: str, delay_us: int) -> None:
        """Add that much to every message in that direction from now on; 0 ends it."""
        self._link(source, target).delay_us = delay_us

    # -- processes -------------------------------------------------------------------------------------------------

    def boot(self, name: str, runtime: SimRuntime) -> Host:
        """A process starts on that host."""
        host = self.host(name)
        host.runtime = runtime
        host.listeners = {}
        host.endpoints = {}
        return host

    def kill(self, name: str) -> None:
        """The host's process is gone; its kernel closes the connections."""
        host = self.host(name)
        host.runtime = None
        host.listeners = {}
        for endpoint in list(host.endpoints):
            endpoint.close()

    # -- traffic ---------------------------------------------------------------------------------------------------

    def datagram(self, source: str, target: str, item: Any, deliver: Callable[[Any], object]) -> None:
        """Call `deliver` with the item as the target's process, one latency later, unless cut or down by then."""

        link = self._link(source, target)

        def arrive() -> None:
            runtime = self.host(target).runtime
            if runtime is not None and not link.cuts:
                runtime.run(partial(deliver, item))

        if not link.cuts:
            self.scheduler.post(self.scheduler.now_us + link.latency_us(self.random), arrive)

    def ends(self, dialler: End, listener: End, service: str) -> tuple[Endpoint, Endpoint]:
        """The two ends of a new connection to that service."""
        return Endpoint(self, *dialler), Endpoint(self, *listener)

    def listen(self, host: Host, service: str, accept: Callable[[Endpoint], None]) -> None:
        """Accept connections to `host.name:service` until the process ends."""
        host.listeners[service] = accept

    def dial(
        self,
        host: Host,
        address: str,
        on_up: Callable[[Endpoint], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """Connect from a host's present process to "name:service"; exactly one of the callbacks follows."""
        target, _, service = address.rpartition(":")
        runtime = host.runtime
        assert runtime is not None
        out, back = self._link(host.name, target), self._link(target, host.name)
        end_us = self.scheduler.now_us + DIAL_TIMEOUT_US
        dialled = _Dial(
            network=self,
            host=host,
            runtime=runtime,
            at=(self.host(target), service),
            links=(out, back),
            end_us=end_us,
            on_up=on_up,
            on_failed=on_failed,
        )
        self.scheduler.post(self.scheduler.now_us + out.latency_us(self.random), dialled.reach)


class _Dial:
    """A connection that is being made."""

    __slots__ = ("_at", "_end_us", "_host", "_links", "_network", "_on_failed", "_on_up", "_runtime")

    def __init__(
        self,
        network: Network,
        host: Host,
        runtime: SimRuntime,
        at: tuple[Host, str],
        links: tuple[Link, Link],
        end_us: int,
        on_up: Callable[[Endpoint], None],
        on_failed: Callable[[str], None],
    ) -> None:
        self._network = network
        self._host = host
        self._runtime = runtime
        self._at = at
        self._links = links
        self._end_us = end_us
        self._on_up = on_up
        self._on_failed = on_failed

    def reach(self) -> None:
        """The first packet arrives, unless a direction is cut."""
        network, runtime = self._network, self._runtime
        scheduler, (out, back), (there, service) = network.scheduler, self._links, self._at
        if out.cuts or back.cuts:
            if scheduler.now_us >= self._end_us:
                runtime.run(partial(self._on_failed, "timed out"))
            else:
                # SYN is sent again, with a growing pause in real kernels; a part of the time-out is close enough.
                scheduler.post(scheduler.now_us + REDIAL_US, self.reach)
            return
        accept = there.listeners.get(service)
        answer_us = scheduler.now_us + back.latency_us(network.random)
        if there.runtime is None or accept is None:
            scheduler.post(answer_us, partial(runtime.run, partial(self._on_failed, "refused")))
            return
        ours, theirs = network.ends((self._host, runtime, back), (there, there.runtime, out), service)
        ours.peer, theirs.peer = theirs, ours
        there.endpoints[theirs] = None
        if runtime.stopped:
            theirs.enqueue(CLOSED)
            return
        self._host.endpoints[ours] = None
        there.runtime.run(partial(accept, theirs))
        scheduler.post(answer_us, partial(runtime.run, partial(self._on_up, ours)))
