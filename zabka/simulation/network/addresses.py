"""Addresses in the simulated network: a node's name, and behind a colon the service that it listens for."""

from __future__ import annotations

from collections.abc import Iterable

CLIENT_SERVICE = "2181"
QUORUM_SERVICE = "2888"
KAFKA_SERVICE = "9092"
WORD_SERVICE = "words"
"""Four-letter words come to the client port in real life; here they have a service of their own."""


def peer_name(peer_id: int) -> str:
    """The node name of a peer."""
    return f"peer-{peer_id}"


def broker_name(broker_id: int) -> str:
    """The node name of a broker."""
    return f"broker-{broker_id}"


def rack_name(broker_id: int, racks: int) -> str:
    """The rack of a broker, where they stand in so many racks in turn."""
    return f"rack-{(broker_id - 1) % racks + 1}"


def client_addresses(peers: Iterable[int]) -> str:
    """The client addresses of these peers, as zookeeper.connect has them."""
    return ",".join(f"{peer_name(peer)}:{CLIENT_SERVICE}" for peer in peers)
