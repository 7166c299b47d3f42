"""The records of a message at its sender and its receiver are matched to one message.

Even with wrong clocks, no message is shown as received before it was sent.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest

from zabka.journal import sightings
from zabka.journal.sightings import (
    CLAMPED,
    OUT_OF_SIGHT,
    UNSEEN,
    UNSENT,
    Matcher,
    Sighting,
    read_sighting,
    sighting_line,
)

LINE = "10.0.0.1:2888|10.0.0.2:40000"
MS = 1_000


def sighting(node: str, way: Literal["sent", "received"], us: int, key: str = "PROPOSAL@1", **others: Any) -> Sighting:
    return Sighting(
        n=1, node=node, us=us, way=way, line=LINE, key=key, group="broadcast", kind="PROPOSAL", subject={}, **others
    )


def matched(*sightings: Sighting, hosts: dict[str, str] | None = None) -> Matcher:
    matcher = Matcher(hosts or {})
    matcher.add(sightings)
    return matcher


def test_log_lines_of_sender_and_receiver_become_one_message() -> None:
    (message,) = matched(sighting("peer-2", "received", 1_300), sighting("peer-1", "sent", 1_000)).messages()
    assert (message.source, message.target, message.sent_us, message.arrived_us) == ("peer-1", "peer-2", 1_000, 1_300)
    assert message.lost is None


def test_messages_with_the_same_key_are_matched_in_order() -> None:
    found = matched(
        sighting("peer-1", "sent", 10, "COMMIT@7"),
        sighting("peer-1", "sent", 20, "COMMIT@7"),
        sighting("peer-2", "received", 15, "COMMIT@7"),
        sighting("peer-2", "received", 25, "COMMIT@7"),
    ).messages()
    assert [(message.sent_us, message.arrived_us) for message in found] == [(10, 15), (20, 25)]


def test_unmatched_messages_with_the_same_key_are_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many unmatched messages with the same key do not slow down the matching.

    A client that is not a node can give all its requests the same number.
    """
    monkeypatch.setattr(sightings, "_belong_together", lambda *_: pytest.fail("compared"))
    found = matched(*(sighting("broker-1", "received", us, "request@0") for us in range(300))).messages()
    assert [message.lost for message in found] == [OUT_OF_SIGHT] * 300


def test_newest_unmatched_messages_of_a_key_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sightings, "OPEN_MAX", 10)
    found = matched(*(sighting("broker-1", "received", us, "request@0") for us in range(25))).messages()
    assert [message.arrived_us for message in found] == list(range(15, 25))


def test_each_direction_of_a_connection_is_matched_separately() -> None:
    found = matched(
        sighting("peer-1", "sent", 10, "PING#1"),
        sighting("peer-2", "sent", 11, "PING#1"),
        sighting("peer-1", "received", 15, "PING#1"),
        sighting("peer-2", "received", 16, "PING#1"),
    ).messages()
    assert [(each.source, each.target, each.sent_us, each.arrived_us) for each in found] == [
        ("peer-1", "peer-2", 10, 16),
        ("peer-2", "peer-1", 11, 15),
    ]


def test_message_from_a_node_to_itself_is_matched() -> None:
    sent = sighting("broker-1", "sent", 10, other="broker-1")
    received = sighting("broker-1", "received", 12, other="broker-1")
    (message,) = matched(sent, received).messages()
    assert (message.source, message.target, message.arrived_us) == ("broker-1", "broker-1", 12)


def test_unmatched_message_is_marked() -> None:
    lost, unsent = (
        matched(sighting("peer-1", "sent", 10, other="peer-2")),
        matched(sighting("peer-2", "received", 20)),
    )
    (message,) = lost.messages()
    assert (message.source, message.target, message.arrived_us, message.lost) == ("peer-1", "peer-2", None, UNSEEN)
    (message,) = unsent.messages()
    assert (message.source, message.arrived_us, message.lost) == ("client", 20, OUT_OF_SIGHT)
    unmatched = matched(sighting("peer-2", "sent", 20))
    (message,) = unmatched.messages()
    assert (message.target, message.arrived_us, message.lost) == ("client", None, OUT_OF_SIGHT)


def test_receiver_of_an_unmatched_message_is_inferred() -> None:
    found = matched(sighting("peer-1", "sent", 10), sighting("peer-2", "sent", 20, "ACK@1")).messages()
    assert [(message.source, message.target) for message in found] == [("peer-1", "peer-2"), ("peer-2", "peer-1")]


def test_response_refers_to_its_request() -> None:
    found = matched(
        sighting("broker-1", "sent", 10, "request@5"),
        sighting("broker-2", "received", 20, "request@5"),
        sighting("broker-2", "sent", 30, "answer@5"),
        sighting("broker-1", "received", 40, "answer@5"),
    ).messages()
    assert [(message.id, message.answers) for message in found] == [(1, None), (2, 1)]


def test_clock_offset_is_computed_from_the_fastest_messages() -> None:
    # Host b's clock is 50 ms ahead and each message takes 1 ms. By the clocks, a message to b takes 51 ms, and one from
    # b takes -49 ms.
    hosts = {"peer-1": "a", "peer-2": "b"}
    found = matched(
        sighting("peer-1", "sent", 100 * MS, "PROPOSAL@1"),
        sighting("peer-2", "received", 151 * MS, "PROPOSAL@1"),
        sighting("peer-2", "sent", 152 * MS, "ACK@1"),
        sighting("peer-1", "received", 103 * MS, "ACK@1"),
        hosts=hosts,
    ).messages()
    took = {message.source: (message.arrived_us or 0) - message.sent_us for message in found}
    assert took == {"peer-1": MS, "peer-2": MS}
    assert all(message.lost is None for message in found)


def test_arrival_before_the_send_time_is_clamped_to_that_time() -> None:
    # The offset between two clocks cannot be computed from messages in one direction only.
    hosts = {"peer-1": "a", "peer-2": "b"}
    (message,) = matched(
        sighting("peer-1", "sent", 100 * MS), sighting("peer-2", "received", 60 * MS), hosts=hosts
    ).messages()
    assert (message.arrived_us, message.lost) == (message.sent_us, CLAMPED)


def test_messages_with_one_key_an_hour_apart_are_not_matched() -> None:
    found = matched(sighting("peer-1", "sent", 0), sighting("peer-2", "received", 3_600 * 1_000 * MS)).messages()
    assert [message.lost for message in found] == [UNSEEN, UNSENT]
    assert [(message.source, message.target) for message in found] == [("peer-1", "peer-2")] * 2


def test_corrected_clock_does_not_shift_later_messages() -> None:
    # Host b's clock is 50 ms ahead, and is then corrected to host a's time. Each message takes 1 ms.
    hosts, later = {"peer-1": "a", "peer-2": "b"}, 10 * 60 * 1_000 * MS
    found = matched(
        *(sighting("peer-1", "sent", 100 * MS, "PROPOSAL@1"), sighting("peer-2", "received", 151 * MS, "PROPOSAL@1")),
        *(sighting("peer-2", "sent", 152 * MS, "ACK@1"), sighting("peer-1", "received", 103 * MS, "ACK@1")),
        *(sighting("peer-1", "sent", later, "PROPOSAL@2"), sighting("peer-2", "received", later + MS, "PROPOSAL@2")),
        *(sighting("peer-2", "sent", later + MS, "ACK@2"), sighting("peer-1", "received", later + 2 * MS, "ACK@2")),
        hosts=hosts,
    ).messages()
    assert [(each.arrived_us or 0) - each.sent_us for each in found] == [MS] * 4
    assert all(each.lost is None for each in found)


def test_number_of_clock_measurements_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sightings, "SKEW_WINDOWS_MAX", 3)
    skews = sightings.Skews({"peer-1": "a", "peer-2": "b"})
    for minute in range(10):
        at_us = minute * sightings.SKEW_WINDOW_US
        skews.see(sighting("peer-1", "sent", at_us), sighting("peer-2", "received", at_us + MS))
        skews.see(sighting("peer-2", "sent", at_us), sighting("peer-1", "received", at_us + 3 * MS))
    assert skews.ahead_us("peer-1", "peer-2", 9 * sightings.SKEW_WINDOW_US) == -MS
    assert skews.ahead_us("peer-1", "peer-2", 0) == 0
    assert {len(windows) for windows in skews._quickest.values()} == {3}


def test_connection_with_reused_addresses_is_a_new_connection() -> None:
    # The second message has the same key as the first, which was lost. It is sent five minutes later, on a new
    # connection.
    second = 5 * 60 * 1_000 * MS
    found = matched(
        sighting("peer-1", "sent", 1_000, "request@1", opened=900),
        sighting("peer-1", "sent", second, "request@1", opened=second - MS),
        sighting("peer-2", "received", second + 300, "request@1", opened=second - MS),
    ).messages()
    assert [(each.sent_us, each.arrived_us, each.lost) for each in found] == [
        (1_000, None, UNSEEN), (second, second + 300, None),
    ]  # fmt: skip


def test_message_log_line_reads_back_as_written() -> None:
    whole = sighting("peer-1", "sent", 5, bytes=70, other="peer-2", missed=3, opened=4)
    assert read_sighting(sighting_line(whole)) == whole


def test_messages_of_long_closed_connections_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sightings, "LINES_MAX", 10)
    matcher = Matcher({})
    lasting = sighting("peer-1", "sent", 1, "PING#1", other="peer-2")
    for number in range(100):
        passing = sighting("peer-1", "received", number, "getData#1", other="client-1")
        matcher.add([lasting, msgspec.structs.replace(passing, line=f"line {number}")])
    assert {message.target for message in matcher.messages() if message.kind == "PROPOSAL"} >= {"peer-2"}
    assert len(matcher._ends) == len(matcher._others) == 10
