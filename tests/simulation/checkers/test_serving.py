"""A server that replies to clients without an established leader is reported. A read-only server is not."""

from __future__ import annotations

import struct

from zabka.ensemble.records import ConnectResponse
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.events import BrokerRegistered, Entry, Event, LeaderEstablished, NodeStarted, PeerStateChanged
from zabka.simulation.checkers.serving import NAME, Serving

PEER, BROKER = "peer-1", "broker-1"
PONG = struct.pack(">iiqi", 16, -2, 1, 0)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


ATTACHED = framed(ConnectResponse(0, 4_000, 1, b"", False).encode())
READ_ONLY = framed(ConnectResponse(0, 4_000, 1, b"", True).encode())


class Court:
    """The checker of servers, and the violations that it reported."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.checked = CheckCounts()
        self.serving = Serving(self.checked, lambda event: self.said.append(event.detail))

    def happened(self, node: str, event: Event) -> None:
        self.serving.journalled(Entry(node, 1, 0, 0, event, 1))

    def role(self, state: str, phase: str, epoch: int = 1) -> None:
        self.happened(PEER, PeerStateChanged(state, phase, 2, 1, epoch, epoch, 0))


def test_peer_can_serve_from_broadcast_phase_to_next_election() -> None:
    court = Court()
    court.happened("peer-2", LeaderEstablished(2, 1, 0, [1, 2]))
    court.role("FOLLOWING", "BROADCAST")
    connection = court.serving.peer_connection(PEER)
    connection.sent(ATTACHED[:7])
    connection.sent(ATTACHED[7:])
    connection.sent(PONG)
    assert court.said == []
    court.role("LOOKING", "ELECTION")
    connection.sent(PONG)
    connection.sent(PONG)
    assert court.said == [f"{PEER} answers a client while it is LOOKING in ELECTION, epoch 1"]
    assert court.checked.counts == {NAME: 4}


def test_peer_that_serves_without_a_leader_is_detected() -> None:
    court = Court()
    court.role("FOLLOWING", "BROADCAST", epoch=2)
    court.serving.peer_connection(PEER).sent(ATTACHED)
    assert court.said == [f"{PEER} answers a client while it is FOLLOWING in BROADCAST, epoch 2"]


def test_read_only_server_can_serve_without_a_leader() -> None:
    court = Court()
    court.role("LOOKING", "ELECTION")
    connection = court.serving.peer_connection(PEER)
    connection.sent(READ_ONLY)
    connection.sent(PONG)
    assert court.said == []


def test_unregistered_broker_must_not_respond() -> None:
    court = Court()
    connection = court.serving.broker_connection(BROKER)
    court.happened(BROKER, NodeStarted("broker", 1, {}))
    connection.sent(PONG)
    assert court.said == [f"{BROKER} answers a client while it is starting"]
    court = Court()
    connection = court.serving.broker_connection(BROKER)
    court.happened(BROKER, NodeStarted("broker", 1, {}))
    court.happened(BROKER, BrokerRegistered(1, 1, 1))
    connection.sent(PONG)
    assert court.said == []
