"""Interfaces for sending requests to brokers: addresses, messages, and the channel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, NewType, Protocol

from zabka.journal.cause import Cause
from zabka.journal.events import Event

BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
"""Epoch of a broker's registration: the czxid of /brokers/ids/N."""
ControllerEpoch = NewType("ControllerEpoch", int)
LeaderEpoch = NewType("LeaderEpoch", int)
PartitionEpoch = NewType("PartitionEpoch", int)
"""Version of a partition's state: the zkVersion of its state znode."""

NO_LEADER = BrokerId(-1)
UNKNOWN_BROKER_EPOCH = BrokerEpoch(-1)
"""Broker epoch -1: in a request it matches every registration of the broker.

A registered broker has this epoch only with Historical.NO_BROKER_EPOCH.
"""

Emit = Callable[[Event], Cause]
"""Function that writes an event to this node's journal and returns a reference to it, for use as a cause."""

KafkaMessage = Any
"""A request or response payload: an instance of a `kio.schema` class, which contains its API key and version."""


class Endpoint(NamedTuple):
    """The address of a broker.

    `listener` names the listener at that address if it is the control plane listener, and is empty otherwise.
    """

    broker_id: int
    host: str
    port: int
    listener: str = ""


class ChannelBroken(Exception):
    """The request got no response: the connection was refused or lost, or the request timed out.

    The request may have been executed.
    """


class NeverSent(ChannelBroken):
    """No connection could be opened for the request, so it was not sent and not executed."""


class BrokerChannel(Protocol):
    """Sends Kafka requests from this broker to another broker (or to itself)."""

    def call(self, to: Endpoint, request: KafkaMessage, timeout_ms: int) -> Awaitable[KafkaMessage]:
        """Send a request immediately. The awaitable returns the response payload. Raises ChannelBroken.

        Requests to one endpoint are sent in order. The kio class of the response has the same version as the request.
        """
        ...

    def forget(self, broker_id: int) -> None:
        """Close all connections to that broker. Calls that wait for its response raise ChannelBroken."""
        ...
