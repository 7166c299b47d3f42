"""When simulated TCP sends acknowledgements (RFC 1122).

They are sent with data of the receiver, at once for every second segment, or after 40 ms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulation.engine.small_world import HERE, THERE, Noted, SmallWorld, calling, serving
from zabka.simulation.engine.tcp import ACK_DELAY_US, RTO_MIN_US, Kind, Link, Segment


class Wire:
    """A simulated connection, and all its segments with the times at which they were sent."""

    def __init__(self) -> None:
        self.world = SmallWorld()
        self.caller, self.server = Noted(), Noted()
        self.sent: list[tuple[int, Segment]] = []
        self.world.machine(THERE, serving(self.server))
        self.world.run(0.1)
        self.world.machine(HERE, calling(self.caller))
        self.world.run(0.1)
        network: Any = self.world.ground.network
        carry, scheduler = network.carry, self.world.ground.scheduler

        def noting(link: Link, segment: Segment, leaves_in_us: int = 0) -> None:
            self.sent.append((scheduler.now_us, segment))
            carry(link, segment, leaves_in_us)

        network.carry = noting

    def write(self, noted: Noted, data: bytes) -> None:
        assert noted.transport is not None
        noted.transport.write(data)

    def kinds(self) -> list[tuple[str, str]]:
        return [(segment.source, segment.kind.name) for _, segment in self.sent]


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire()
    yield made
    made.world.end()


def test_data_without_a_reply_is_acknowledged_after_40_ms(wire: Wire) -> None:
    wire.write(wire.caller, b"one")
    wire.world.run(0.1)
    assert wire.kinds() == [(HERE, "DATA"), (THERE, "ACK")]
    (sent_us, data), (acked_us, ack) = wire.sent
    assert ACK_DELAY_US <= acked_us - sent_us < ACK_DELAY_US + 10_000
    assert ack.ack == data.seq + 3


def test_segment_with_a_reply_also_carries_the_acknowledgement(wire: Wire) -> None:
    wire.write(wire.caller, b"one")
    wire.world.run(0.02)
    wire.write(wire.server, b"reply")
    wire.world.run(0.02)
    assert wire.kinds() == [(HERE, "DATA"), (THERE, "DATA")]
    assert wire.sent[1][1].ack == wire.sent[0][1].seq + 3


def test_every_second_segment_is_acknowledged_immediately(wire: Wire) -> None:
    wire.write(wire.caller, b"one")
    wire.world.run(0.015)
    wire.write(wire.caller, b"two")
    wire.world.run(0.015)
    assert wire.kinds() == [(HERE, "DATA"), (HERE, "DATA"), (THERE, "ACK")]
    wire.world.run(1)
    assert wire.kinds()[3:] == [], "both segments are acknowledged"


def test_lost_segment_is_retransmitted_after_the_timeout(wire: Wire) -> None:
    wire.world.ground.network.cut(HERE, THERE)
    wire.write(wire.caller, b"one")
    wire.world.run((RTO_MIN_US - 1_000) / 1e6)
    assert wire.kinds() == [(HERE, "DATA")]
    wire.world.ground.network.heal(HERE, THERE)
    wire.world.run(0.1)
    assert wire.kinds() == [(HERE, "DATA"), (HERE, "DATA"), (THERE, "ACK")]
    assert wire.sent[1][0] - wire.sent[0][0] == RTO_MIN_US
    assert wire.server.received == b"one"


def test_timeout_starts_with_the_oldest_unacknowledged_segment(wire: Wire) -> None:
    """The retransmission timeout counts from the oldest unacknowledged segment.

    An acknowledgement stops the timer, and the next segment starts it again.
    """
    wire.write(wire.caller, b"one")
    wire.world.run(0.1)
    wire.world.ground.network.cut(HERE, THERE)
    wire.write(wire.caller, b"two")
    begin_us = wire.sent[-1][0]
    wire.world.run(0.25)
    resent = [us for us, segment in wire.sent if segment.kind is Kind.DATA and segment.data == b"two"]
    assert resent == [begin_us, begin_us + RTO_MIN_US]
