"""Gates on connections: frames are held, dropped, delayed and reordered by type. All other bytes pass immediately."""

from __future__ import annotations

import pytest

from zabka.simulation.engine.gates import Action, Frame, Gate, Gates, Rule
from zabka.simulation.engine.scheduler import Scheduler

HERE, THERE = "10.0.0.1", "10.0.0.2"


class TwoBytes:
    """Frame format for tests: two bytes per frame, of which the first is the type."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def partial(self) -> int:
        return len(self._rest)

    def written(self, data: bytes) -> list[Frame]:
        whole = (self._rest + data)[: (len(self._rest + data) // 2) * 2]
        self._rest = (self._rest + data)[len(whole) :]
        return [Frame(chr(whole[at]), whole[at : at + 2]) for at in range(0, len(whole), 2)]

    def received(self, data: bytes) -> None:
        return


class Connection:
    """One end of a connection whose data passes a gate."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.gates = Gates(self.scheduler)
        self.sent = b""
        self.gate = Gate(self.gates, (HERE, THERE), TwoBytes(), self._send)

    def _send(self, data: bytes) -> None:
        self.sent += data

    def rule(self, action: Action, count: int | None = None, delay_us: int = 0, source: str = HERE) -> Rule:
        rule = Rule(source, THERE, "x", action, count=count, delay_us=delay_us)
        self.gates.add(rule)
        return rule


def test_held_frame_also_holds_back_the_frames_after_it() -> None:
    connection = Connection()
    rule = connection.rule(Action.HOLD)
    connection.gate.write(b"a1x2b3x4")
    assert (connection.sent, rule.affected) == (b"a1", 2)
    rule.release()
    assert connection.sent == b"a1x2b3x4"
    connection.gate.write(b"x5")
    assert connection.sent == b"a1x2b3x4x5"


def test_dropped_frame_is_not_delivered_and_is_counted() -> None:
    connection = Connection()
    rule = connection.rule(Action.DROP, count=1)
    connection.gate.write(b"a1x2x3")
    assert (connection.sent, rule.affected) == (b"a1x3", 1)


def test_reordered_frame_is_delivered_after_the_next_frame() -> None:
    connection = Connection()
    connection.rule(Action.REORDER, count=1)
    connection.gate.write(b"x1")
    assert connection.sent == b""
    connection.gate.write(b"a2x3")
    assert connection.sent == b"a2x1x3"


def test_delayed_frame_is_delivered_after_its_delay() -> None:
    connection = Connection()
    connection.rule(Action.DELAY, delay_us=100)
    connection.gate.write(b"x1a2")
    connection.scheduler.run_until(99)
    assert connection.sent == b""
    connection.scheduler.run_until(100)
    assert connection.sent == b"x1a2"


def test_frame_begun_before_the_rule_was_set_is_sent_completely() -> None:
    connection = Connection()
    connection.gate.write(b"a1x")
    assert connection.sent == b"a1x"
    connection.rule(Action.DROP)
    connection.gate.write(b"2x")
    connection.gate.write(b"3a4")
    assert connection.sent == b"a1x2a4"


@pytest.mark.parametrize("piece", [b"x", b"a1x", b"x1"])
def test_rule_for_another_link_delays_no_bytes(piece: bytes) -> None:
    connection = Connection()
    connection.rule(Action.HOLD, source=THERE)
    connection.gate.write(piece)
    assert connection.sent == piece
