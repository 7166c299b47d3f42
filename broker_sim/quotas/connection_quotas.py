"""Limits on a broker's connections, and on new ones per second (Kafka's SocketServer.ConnectionQuotas).

KIP-308: max.connections of the broker and of a listener. KIP-612: max.connection.creation.rate of both, which delays
new connections, and connection_creation_rate of an IP address, which delays and then closes them.
max.connections.per.ip closes surplus connections immediately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from zabka.broker_sim.quotas.client_meters import METERS_MAX
from zabka.broker_sim.quotas.sampled_rate import SampledAmount, rate, rate_window_ms
from zabka.ensemble.ports import Future, Runtime

UNLIMITED = 2**31 - 1


class ConnectionThrottled(Exception):
    """An IP address creates connections too fast. The connection is closed after `throttle_ms` without reading
    requests.
    """

    def __init__(self, throttle_ms: int) -> None:
        super().__init__(throttle_ms)
        self.throttle_ms = throttle_ms


class TooManyConnections(Exception):
    """An IP address already has its maximum number of connections. The new one is closed immediately."""


class ListenerLimits(NamedTuple):
    """Connection limits that apply to one listener only."""

    max_connections: int = UNLIMITED
    creations_per_second: int = UNLIMITED


class ConnectionLimits(NamedTuple):
    """A broker's connection limits.

    Overrides are keyed by IP address, limits of listeners are keyed by listener name.
    """

    max_connections: int = UNLIMITED
    creations_per_second: int = UNLIMITED
    per_address: int = UNLIMITED
    overrides: Mapping[str, int] = {}
    listeners: Mapping[str, ListenerLimits] = {}


class _Listener:
    __slots__ = ("connections", "created", "evict")

    def __init__(self, created: SampledAmount, evict: Callable[[], str | None]) -> None:
        self.created = created
        self.evict = evict
        self.connections = 0


class ConnectionQuotas:
    """Counts a broker's connections and enforces the limits.

    `protected` is the listener that other brokers use. If clients have another listener, connections of the protected
    listener do not count against the broker's max.connections. If the limit is reached, each new connection of the
    protected listener closes a client's connection instead.
    """

    def __init__(self, runtime: Runtime, windows: int, window_seconds: int, protected: str) -> None:
        self._runtime = runtime
        self._windows = windows
        self._window_ms = window_seconds * 1000
        self._protected = protected
        self._limits = ConnectionLimits()
        self._default_rate = UNLIMITED
        self._address_rates: dict[str, int] = {}
        self._created = self._amount()
        self._created_by: dict[str, SampledAmount] = {}
        self._listeners: dict[str, _Listener] = {}
        self._connections: dict[str, int] = {}
        self._total = 0
        self._accepted = 0
        self._waiting: list[Future[None]] = []

    def _amount(self) -> SampledAmount:
        return SampledAmount(self._windows, self._window_ms)

    # ---- limits -----------------------------------------------------------------------------------------------

    def add_listener(self, name: str, evict: Callable[[], str | None]) -> None:
        """Register a listener.

        `evict` closes the listener's connection that has been idle longest and returns its address, or None if there is
        no connection.
        """
        self._listeners[name] = _Listener(self._amount(), evict)

    def configure(self, limits: ConnectionLimits) -> None:
        """Set the limits. Close connections that exceed them."""
        self._limits = limits
        self._close_surplus()
        self._look_again()

    def limit_address(self, address: str | None, creations_per_second: int | None) -> None:
        """Set an IP address's connection rate, or the default rate if `address` is None.

        If `creations_per_second` is None, remove the rate.
        """
        if address is None:
            self._default_rate = UNLIMITED if creations_per_second is None else creations_per_second
        elif creations_per_second is None:
            self._address_rates.pop(address, None)
        else:
            self._address_rates[address] = creations_per_second

    # ---- connections ------------------------------------------------------------------------------------------

    def number(self) -> int:
        """Return the number of a connection that was just accepted. Connections are numbered across all listeners."""
        self._accepted += 1
        return self._accepted

    async def admit(self, listener: str, address: str) -> None:
        """Wait until the limits and rates allow a new connection, and count it.

        The caller admits the connections of a listener one after another. Raises ConnectionThrottled,
        TooManyConnections; such a connection is not counted.
        """
        throttle_ms = self._note_created(listener)
        if throttle_ms:
            await self._runtime.sleep(throttle_ms)
        while not self._has_room(listener):
            turn: Future[None] = self._runtime.future()
            self._waiting.append(turn)
            await turn
        self._hold_address_to_its_rate(listener, address)
        if not self.has_room_for(address):
            raise TooManyConnections(address)
        self._connections[address] = self._connections.get(address, 0) + 1
        self._listeners[listener].connections += 1
        self._total += 1
        self._close_surplus()

    def has_room_for(self, address: str) -> bool:
        """Return whether an IP address has fewer connections than its maximum."""
        limits = self._limits
        return self._connections.get(address, 0) < limits.overrides.get(address, limits.per_address)

    def release(self, listener: str, address: str) -> None:
        """Remove an admitted connection, which has ended, from the counts."""
        left = self._connections[address] - 1
        if left:
            self._connections[address] = left
        else:
            del self._connections[address]
        self._listeners[listener].connections -= 1
        self._total -= 1
        self._look_again()

    def _look_again(self) -> None:
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)

    def is_protected(self, listener: str) -> bool:
        """Return whether only other brokers use this listener, because clients have another one."""
        return listener == self._protected and len(self._listeners) > 1

    def _has_room(self, listener: str) -> bool:
        limits = self._limits
        own = limits.listeners.get(listener)
        if self._listeners[listener].connections >= (limits.max_connections if own is None else own.max_connections):
            return False
        return self.is_protected(listener) or self._total < limits.max_connections

    def _close_surplus(self) -> None:
        """Close clients' connections, longest idle first, until the total number is within the limit."""
        for name, listener in self._listeners.items():
            while self._total > self._limits.max_connections and not self.is_protected(name):
                address = listener.evict()
                if address is None:
                    break
                self.release(name, address)

    # ---- rates ------------------------------------------------------------------------------------------------

    def _note_created(self, listener: str) -> int:
        """Count a new connection in the rates. Return the time that the connection must wait, in milliseconds."""
        limits, own = self._limits, self._limits.listeners.get(listener)
        per_second = limits.creations_per_second
        throttle_ms = self._note(
            self._listeners[listener].created, per_second if own is None else own.creations_per_second
        )
        if self.is_protected(listener):
            return throttle_ms
        return max(throttle_ms, self._note(self._created, per_second))

    def _note(self, amount: SampledAmount, per_second: int) -> int:
        now_ms = self._runtime.now().mono_ms
        amount.add(1, now_ms)
        excess = rate(amount, now_ms) - per_second
        if excess <= 0:
            return 0
        if per_second <= 0:
            return self._window_ms
        return min(round(excess / per_second * rate_window_ms(amount, now_ms)), self._window_ms)

    def _hold_address_to_its_rate(self, listener: str, address: str) -> None:
        per_second = self._address_rates.get(address, self._default_rate)
        if per_second == UNLIMITED:
            return
        created = self._created_by.pop(address, None) or self._amount()
        while len(self._created_by) >= METERS_MAX:
            del self._created_by[next(iter(self._created_by))]
        self._created_by[address] = created
        throttle_ms = self._note(created, per_second)
        if throttle_ms:
            # The connection is rejected, so remove it from the counters.
            now_ms = self._runtime.now().mono_ms
            counted = [created, self._listeners[listener].created]
            for amount in counted if self.is_protected(listener) else [*counted, self._created]:
                amount.add(-1, now_ms)
            raise ConnectionThrottled(throttle_ms)
