"""Names of nodes and racks in the simulated network."""

from __future__ import annotations


def peer_name(peer_id: int) -> str:
    """Return the node name of the peer with that id."""
    return f"peer-{peer_id}"


def broker_name(broker_id: int) -> str:
    """Return the node name of the broker with that id."""
    return f"broker-{broker_id}"


def rack_name(broker_id: int, racks: int) -> str:
    """Return the rack name of a broker.  Brokers are assigned to the `racks` racks in turn."""
    return f"rack-{(broker_id - 1) % racks + 1}"
