"""A ZooKeeper client's connections in the simulated world."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zabka.ensemble.client.client import Client
from zabka.ensemble.client.service import Receiver, WatchEvent
from zabka.ensemble.records import (
    NOTIFICATION_XID,
    ClientMessage,
    EventType,
    Reply,
    WatcherEvent,
)
from zabka.simulation.kernel.runtime import SimRuntime
from zabka.simulation.network.addresses import WORD_SERVICE
from zabka.simulation.network.network import Endpoint, Host, Network

WORD_TIMEOUT_MS = 1_000
SESSION_TIMEOUT_MS = 6_000


class SimConnector:
    """`zabka.ensemble.client.service.Connector` over the simulated network, for one host."""

    def __init__(self, network: Network, host: Host) -> None:
        self._network = network
        self._host = host

    def connect(self, host: str, receiver: Receiver) -> SimConnection:
        """Begin to connect to "name:service"."""
        return SimConnection(self._network, self._host, host, receiver)


class SimConnection:
    """One connection, possibly still being made (`zabka.ensemble.client.service.Connection`)."""

    def __init__(self, network: Network, host: Host, address: str, receiver: Receiver) -> None:
        self._receiver = receiver
        self._endpoint: Endpoint | None = None
        self._waiting: list[ClientMessage] = []
        self._closed = False
        network.dial(host, address, self._up, self._failed)

    def _up(self, endpoint: Endpoint) -> None:
        if self._closed:
            endpoint.close()
            return
        self._endpoint = endpoint
        endpoint.on_item = self._item
        endpoint.on_close = lambda: self._failed("closed by the server")
        for message in self._waiting:
            endpoint.send(message)
        self._waiting.clear()
        self._receiver.on_connected()

    def _failed(self, reason: str) -> None:
        if not self._closed:
            self._closed = True
            self._receiver.on_disconnected(reason)

    def _item(self, message: Any) -> None:
        if self._closed:
            return
        if isinstance(message, Reply) and message.xid == NOTIFICATION_XID:
            event = message.body
            assert isinstance(event, WatcherEvent)
            self._receiver.on_watch(WatchEvent(EventType(event.type), event.path), message.zxid)
        else:
            self._receiver.on_message(message)

    def send(self, message: ClientMessage) -> None:
        """Queue a frame."""
        if self._closed:
            return
        if self._endpoint is None:
            self._waiting.append(message)
        else:
            self._endpoint.send(message)

    def close(self) -> None:
        """Disconnect."""
        self._closed = True
        if self._endpoint is not None:
            self._endpoint.close()


def client_on(network: Network, runtime: SimRuntime, hosts: str, machine: str) -> Client:
    """A client of the ensemble on a machine of its own, which has its name."""
    host = network.boot(machine, runtime)
    return Client(hosts, SimConnector(network, host), runtime, session_timeout_ms=SESSION_TIMEOUT_MS, name=machine)


class SimWords:
    """`zabka.ensemble.client.service.WordAsker` over the simulated network, for one host."""

    def __init__(self, network: Network, host: Host, runtime: SimRuntime) -> None:
        self._network = network
        self._host = host
        self._runtime = runtime

    def ask_word(self, host: str, word: str, heard: Callable[[str], None]) -> None:
        """Ask the server at "name:service"; silence for WORD_TIMEOUT_MS is no answer."""
        question = _Question(word, heard)
        self._runtime.call_later(WORD_TIMEOUT_MS, lambda: question.answered(""))
        name = host.rpartition(":")[0]
        self._network.dial(self._host, f"{name}:{WORD_SERVICE}", question.up, lambda reason: question.answered(""))


class _Question:
    """One word, on a connection of its own; only the first answer counts."""

    def __init__(self, word: str, heard: Callable[[str], None]) -> None:
        self._word = word
        self._heard: Callable[[str], None] | None = heard

    def up(self, endpoint: Endpoint) -> None:
        """The connection stands."""
        if self._heard is None:
            endpoint.close()
            return
        endpoint.on_item = self.answered
        endpoint.on_close = lambda: self.answered("")
        endpoint.send(self._word)

    def answered(self, answer: str) -> None:
        """The server said so, or nothing more will come."""
        heard, self._heard = self._heard, None
        if heard is not None:
            heard(answer)
