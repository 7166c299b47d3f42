"""The simulated network: connections with TCP's promises, datagrams with none, and faults on each direction of a link.

A connection delivers in order or not at all.  While a direction of a link is cut, what is sent there waits, as in TCP's
buffers, and arrives after the cut heals; new connections hang until their time-out.  A dead process's connections close
for the other side one latency later (or once the cut heals).  A paused process's kernel still accepts and buffers; its
callbacks wait for the resume.  Every delay is drawn from the world's seed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from simulation.kernel import Scheduler, SimRuntime

LATENCY_US_MIN = 100
LATENCY_US_MAX = 1_500
_LATENCY_US_RANGE = LATENCY_US_MAX - LATENCY_US_MIN


class _Closed:
    """Travels behind the last item of a closed connection."""


_CLOSED = _Closed()


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

    __slots__ = ("_due_us", "_inbox", "_network", "closed", "host", "on_close", "on_item", "peer", "runtime")

    def __init__(self, network: Network, host: Host, runtime: SimRuntime) -> None:
        self._network = network
        self.host = host
        self.runtime = runtime
        self.peer: Endpoint = self
        self.on_item: Callable[[Any], None] = lambda item: None
        self.on_close: Callable[[], None] = lambda: None
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
            self.closed = True
            self.host.endpoints.pop(self, None)
            self.peer.enqueue(_CLOSED)

    def enqueue(self, item: Any) -> None:
        """Take an item under way to this end."""
        network = self._network
        due = network.scheduler.now_us + network.latency_us(self.peer.host.name, self.host.name)
        self._due_us = max(self._due_us, due)
        self._inbox.append((self._due_us, item))
        if len(self._inbox) == 1:
            network.scheduler.at(self._due_us, self.pump)

    def pump(self) -> None:
        """Hand over what has arrived, unless the direction is cut."""
        network = self._network
        if network.is_cut(self.peer.host.name, self.host.name):
            network.wait_for_heal(self)
            return
        inbox = self._inbox
        runtime, now_us = self.runtime, network.scheduler.now_us
        while inbox and inbox[0][0] <= now_us:
            item = inbox.popleft()[1]
            if runtime.paused:
                runtime.run(lambda item=item: self._hand_over(item))  # type: ignore[misc]
            elif not runtime.stopped:
                self._hand_over(item)
        if inbox:
            network.scheduler.at(inbox[0][0], self.pump)

    def _hand_over(self, item: Any) -> None:
        if self.closed:
            return
        if item is _CLOSED:
            self.closed = True
            self.host.endpoints.pop(self, None)
            self.on_close()
        else:
            self.on_item(item)


class Network:
    """All hosts, all links and their faults."""

    def __init__(self, scheduler: Scheduler, random: Random) -> None:
        self.scheduler = scheduler
        self._random = random
        self._hosts: dict[str, Host] = {}
        self._cuts: dict[tuple[str, str], int] = {}
        self._delays_us: dict[tuple[str, str], int] = {}
        self._waiting: dict[Endpoint, None] = {}

    def host(self, name: str) -> Host:
        """The host of that name, made when first asked for."""
        return self._hosts.setdefault(name, Host(name))

    def latency_us(self, source: str, target: str) -> int:
        """Draw one message's time under way."""
        # What randrange does, in a fifth of its time.
        delay = LATENCY_US_MIN + int(self._random.random() * _LATENCY_US_RANGE) if source != target else 20
        return delay + self._delays_us.get((source, target), 0) if self._delays_us else delay

    # -- faults ----------------------------------------------------------------------------------------------------

    def is_cut(self, source: str, target: str) -> bool:
        """Does nothing pass from source to target?"""
        return bool(self._cuts) and (source, target) in self._cuts

    def cut(self, source: str, target: str) -> None:
        """Let nothing pass in that direction; cuts nest."""
        self._cuts[source, target] = self._cuts.get((source, target), 0) + 1

    def heal(self, source: str, target: str) -> None:
        """Undo one cut; what waited arrives now."""
        left = self._cuts.get((source, target), 0) - 1
        if left > 0:
            self._cuts[source, target] = left
            return
        self._cuts.pop((source, target), None)
        for endpoint in [e for e in self._waiting if (e.peer.host.name, e.host.name) == (source, target)]:
            del self._waiting[endpoint]
            self.scheduler.after(0, endpoint.pump)

    def delay(self, source: str, target: str, delay_us: int) -> None:
        """Add that much to every message in that direction from now on; 0 ends it."""
        if delay_us:
            self._delays_us[source, target] = delay_us
        else:
            self._delays_us.pop((source, target), None)

    def wait_for_heal(self, endpoint: Endpoint) -> None:
        """Pump that endpoint again once its direction is whole."""
        self._waiting[endpoint] = None

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

    def datagram(self, source: str, target: str, deliver: Callable[[], object]) -> None:
        """Call `deliver` as the target's process, one latency later, unless cut or down by then."""

        def arrive() -> None:
            runtime = self.host(target).runtime
            if runtime is not None and not self.is_cut(source, target):
                runtime.run(deliver)

        if not self.is_cut(source, target):
            self.scheduler.after(self.latency_us(source, target), arrive)

    def listen(self, host: Host, service: str, accept: Callable[[Endpoint], None]) -> None:
        """Accept connections to `host.name:service` until the process ends."""
        host.listeners[service] = accept

    def dial(
        self,
        host: Host,
        address: str,
        on_up: Callable[[Endpoint], None],
        on_failed: Callable[[str], None],
        timeout_us: int = 1_000_000,
    ) -> None:
        """Connect from a host's present process to "name:service"; exactly one of the callbacks follows."""
        target, _, service = address.rpartition(":")
        runtime = host.runtime
        assert runtime is not None
        there = self.host(target)
        end_us = self.scheduler.now_us + timeout_us

        def reach() -> None:
            if self.is_cut(host.name, target) or self.is_cut(target, host.name):
                if self.scheduler.now_us >= end_us:
                    runtime.run(lambda: on_failed("timed out"))
                else:
                    # SYN is sent again, with a growing pause in real kernels; half a time-out is close enough.
                    self.scheduler.after(timeout_us // 4, reach)
                return
            accept = there.listeners.get(service)
            answer = self.latency_us(target, host.name)
            if there.runtime is None or accept is None:
                self.scheduler.after(answer, lambda: runtime.run(lambda: on_failed("refused")))
                return
            ours, theirs = Endpoint(self, host, runtime), Endpoint(self, there, there.runtime)
            ours.peer, theirs.peer = theirs, ours
            there.endpoints[theirs] = None
            if runtime.stopped:
                theirs.enqueue(_CLOSED)
                return
            host.endpoints[ours] = None
            there.runtime.run(lambda: accept(theirs))
            self.scheduler.after(answer, lambda: runtime.run(lambda: on_up(ours)))

        self.scheduler.after(self.latency_us(host.name, target), reach)
