"""Events about failed authentications: what they contain, and their limits."""

from __future__ import annotations

from random import Random

import pytest

from tests.virtual_time.runtime import SimRuntime
from zabka.broker_sim.event_limit import EVENTS_PER_SECOND_MAX, REPEATED_AFTER_MS
from zabka.broker_sim.failed_authentications import (
    FailedAuthentication,
    FailedAuthentications,
    handshake_cause,
)
from zabka.journal.events import AuthenticationFailed
from zabka.simulation.engine.scheduler import Scheduler


class Noted:
    """Failures of clients, and the events about them."""

    def __init__(self) -> None:
        self.events: list[AuthenticationFailed] = []
        self._scheduler = Scheduler()
        self._failures = FailedAuthentications(SimRuntime(self._scheduler, Random(1)), self._emit, 1)

    def _emit(self, event: object) -> str:
        assert isinstance(event, AuthenticationFailed)
        self.events.append(event)
        return ""

    def fail(self, remote: str = "10.0.0.7:4711") -> None:
        reason = "a wrong password of the user s3cret"
        self._failures.note(FailedAuthentication("CLIENTS", "SCRAM-SHA-512", remote, "wrong_credentials", reason))

    def wait(self, duration_ms: int) -> None:
        self._scheduler.run_until(self._scheduler.now_us + duration_ms * 1_000)


def test_event_has_the_address_and_no_text_of_the_client() -> None:
    noted = Noted()
    noted.fail()
    noted.fail("::ffff:10.0.0.8:1")
    noted.fail("fe80::1:9")
    assert [event.host for event in noted.events] == ["10.0.0.7", "10.0.0.8", "fe80::1"]
    assert noted.events[0] == AuthenticationFailed(1, "CLIENTS", "SCRAM-SHA-512", "10.0.0.7", "wrong_credentials")


def test_equal_failures_are_counted_until_the_next_event() -> None:
    noted = Noted()
    for port in range(5):
        noted.fail(f"10.0.0.7:{port}")
    noted.wait(REPEATED_AFTER_MS)
    noted.fail()
    assert [event.suppressed for event in noted.events] == [0, 4]


def test_failures_of_many_addresses_are_limited_per_second() -> None:
    noted = Noted()
    for number in range(1_000):
        noted.fail(f"10.0.{number // 250}.{number % 250}:1")
    assert len(noted.events) == EVENTS_PER_SECOND_MAX
    noted.wait(1_000)
    noted.fail("10.1.1.1:1")
    assert noted.events[-1].suppressed == 1_000 - EVENTS_PER_SECOND_MAX


@pytest.mark.parametrize("reason", ["ConnectionResetError", "closed before the TLS handshake"])
def test_closed_connection_is_no_failed_authentication(reason: str) -> None:
    assert handshake_cause(reason) is None
