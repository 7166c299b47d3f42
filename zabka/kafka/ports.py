"""The interfaces for sending requests to brokers: addresses, messages, and the channel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, NewType, Protocol

from zabka.journal.cause import Cause
from zabka.journal.events import Event

BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
"""The czxid of /brokers/ids/N."""
ControllerEpoch = NewType("ControllerEpoch", int)
LeaderEpoch = NewType("LeaderEpoch", int)
PartitionEpoch = NewType("PartitionEpoch", int)
"""The zkVersion of a partition's state znode."""

NO_LEADER = BrokerId(-1)
UNKNOWN_BROKER_EPOCH = BrokerEpoch(-1)
"""Broker epoch -1: in a request it means any incarnation of the broker.

A registered broker has it only with Historical.NO_BROKER_EPOCH.
"""

Emit = Callable[[Event], Cause]
"""Writes an event to this node's journal; returns a reference for other events that it causes."""

KafkaMessage = Any
"""A request or response payload: an instance of a `kio.schema` class, which contains its API key and version."""


class Endpoint(NamedTuple):
    """The address of a broker."""

    broker_id: int
    host: str
    port: int


class ChannelBroken(Exception):
    """The request got no response, because the connection was refused or lost, or timed out.

    It may have been carried out.
    """


class NeverSent(ChannelBroken):
    """There was no connection for the request, so it was never sent and not carried out."""


class BrokerChannel(Protocol):
    """Sends Kafka requests from this broker to another broker (or to itself)."""

    def call(self, to: Endpoint, request: KafkaMessage, timeout_ms: int) -> Awaitable[KafkaMessage]:
        """Send a request immediately. The awaitable returns the response payload. Raises ChannelBroken.

        Requests to one endpoint stay in order. The response has the kio class that matches the request's version.
        """
        ...

    def forget(self, broker_id: int) -> None:
        """Close any connection to that broker; calls in flight raise ChannelBroken."""
        ...
