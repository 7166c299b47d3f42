"""Limits per client, on a virtual clock: connections, new sessions, requests in flight, and large requests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from zabka.ensemble.errors import ErrorCode
from zabka.ensemble.ids import ConnectionId
from zabka.ensemble.records import ConnectRequest, Frames, OpCode, PathWatchRequest, Request
from zabka.ensemble.server.config.limits import ConnectionThrottle, Limits, ThrottleSettings
from zabka.ensemble.server.net.admission import Admission, RequestGate

ONE, TWO = ConnectionId(1), ConnectionId(2)
GET = Request(1, OpCode.GET_DATA, PathWatchRequest("/", False)).encode()
PING = Request(-2, OpCode.PING, None).encode()


def admission(*, draw: Callable[[], float] = lambda: 0.5, **limits: object) -> Admission:
    return Admission(Limits(**limits), draw, 0)  # type: ignore[arg-type]


def test_default_limit_is_sixty_connections_per_client_host() -> None:
    limited = admission()
    assert [limited.admit("10.0.0.1") for _ in range(61)] == [True] * 60 + [False]
    assert limited.admit("10.0.0.2")
    limited.leave("10.0.0.1")
    assert limited.admit("10.0.0.1")
    assert (limited.connections, limited.counts.connection_rejected) == (61, 1)


def test_zero_disables_a_limit_and_total_limit_is_optional() -> None:
    assert all(admission(per_host=0).admit("a") for _ in range(100))
    limited = admission(connections=2)
    assert [limited.admit(host) for host in "abc"] == [True, True, False]


def test_client_reads_pause_while_too_much_data_is_in_flight() -> None:
    limited = admission(outstanding=1000)
    limited.outstanding = 1000
    assert not limited.overloaded(1)
    limited.outstanding = 1001
    assert limited.overloaded(1)
    assert not limited.overloaded(0), "a connection with no request in flight can always send one"


def test_large_requests_share_one_byte_limit() -> None:
    assert not admission().is_large(10**9), "off by default"
    limited = admission(large_request_threshold=100, large_request_bytes=1000)
    assert limited.is_large(101)
    assert not limited.is_large(100)
    limited.large_bytes = 500
    assert limited.fits(500)
    assert not limited.fits(501)
    assert limited.counts.large_requests_rejected == 1


# -- new sessions ----------------------------------------------------------------------------------------------------


def admitted(throttle: ConnectionThrottle, now_ms: int, count: int, *, renews: bool = False) -> int:
    return sum(throttle.admits(now_ms, renews=renews) for _ in range(count))


def test_throttle_without_a_token_limit_accepts_every_connection() -> None:
    assert admitted(ConnectionThrottle(ThrottleSettings(), lambda: 0.0, 0), 0, 1000) == 1000


def test_connection_tokens_run_out_and_refill_over_time() -> None:
    throttle = ConnectionThrottle(ThrottleSettings(tokens=10, fill_time_ms=100, fill_count=2), lambda: 0.5, 0)
    assert admitted(throttle, 0, 20) == 10
    assert throttle.deficit == 10
    assert admitted(throttle, 100, 20) == 0
    assert admitted(throttle, 250, 20) == 5
    assert admitted(throttle, 100_000, 20) == 10


def test_renewed_session_can_be_configured_to_cost_fewer_tokens() -> None:
    settings = ThrottleSettings(tokens=6, new_session_weight=3, renewed_session_weight=2)
    assert admitted(ConnectionThrottle(settings, lambda: 0.5, 0), 0, 9) == 2
    assert admitted(ConnectionThrottle(settings, lambda: 0.5, 0), 0, 9, renews=True) == 3


def test_continuous_connection_pressure_raises_drop_probability() -> None:
    settings = ThrottleSettings(tokens=1, fill_time_ms=1000, freeze_time_ms=10, drop_increase=0.25, drop_decrease=0.5)
    throttle = ConnectionThrottle(settings, lambda: 0.4, 0)
    throttle.admits(0, renews=False)
    for now_ms in range(11, 100, 11):
        throttle.admits(now_ms, renews=False)
    assert throttle.drop_chance == 1.0
    assert not throttle.admits(5000, renews=False), "dropped, though there is a token"
    throttle.admits(5011, renews=False)
    assert throttle.drop_chance == 0.0


def test_new_and_resumed_sessions_are_counted_separately() -> None:
    limited = admission(throttle=ThrottleSettings(tokens=2, fill_time_ms=10**6))
    sessions = [limited.may_begin(ConnectRequest(0, 0, 1000, session, None), 0) for session in (0, 7, 0)]
    counts = limited.counts
    assert sessions == [True, True, False]
    assert (counts.connection_request_count, counts.connection_revalidate_count) == (2, 1)
    assert counts.connection_rejected == 1


# -- requests in flight ----------------------------------------------------------------------------------------------


def test_requests_above_the_limit_wait_in_fifo_order() -> None:
    limited = admission(in_process=2)
    gate = RequestGate(limited)
    assert not gate.holds(ONE, [Frames([GET])], 0)
    limited.outstanding = 2
    assert gate.holds(ONE, [Frames([GET])], 0)
    assert gate.holds(TWO, [Frames([GET])], 1)
    assert gate.release(5) is None
    limited.outstanding = 1
    assert gate.holds(ONE, [Frames([PING])], 2), "requests after a waiting one wait too"
    assert gate.release(5) == (ONE, [Frames([GET]), Frames([PING])])
    assert gate.is_holding(TWO)
    assert not gate.is_holding(ONE)
    assert gate.release(5) == (TWO, [Frames([GET])])
    assert limited.counts.request_throttle_wait_count == 2


def test_requests_that_wait_too_long_except_pings_are_rejected() -> None:
    limited = admission(in_process=1, throttled_op_wait_ms=100)
    limited.outstanding = 1
    gate = RequestGate(limited)
    gate.holds(ONE, [Frames([GET, PING])], 0)
    gate.holds(ONE, [Frames([GET])], 50)
    limited.outstanding = 0
    assert gate.release(101) == (
        ONE,
        [Request(1, OpCode.GET_DATA, None, ErrorCode.THROTTLED), Frames([PING]), Frames([GET])],
    )
    assert limited.counts.throttled_ops == 1


def test_waiting_requests_of_a_closed_connection_are_dropped() -> None:
    limited = admission(in_process=1)
    limited.outstanding = 1
    gate = RequestGate(limited)
    gate.holds(ONE, [Frames([GET])], 0)
    gate.forget(ONE)
    limited.outstanding = 0
    assert gate.release(1) is None
    assert limited.counts.stale_requests_dropped == 1


@pytest.mark.parametrize(("host", "counted"), [("127.0.0.1", (1, 0)), ("::1", (1, 0)), ("10.0.0.1", (0, 1))])
def test_local_and_remote_connections_without_tls_are_counted(host: str, counted: tuple[int, int]) -> None:
    limited = admission()
    limited.count_plain(host)
    assert (limited.counts.non_mtls_local_conn_count, limited.counts.non_mtls_remote_conn_count) == counted
