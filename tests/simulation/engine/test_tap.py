"""A message tap records every message of a simulated world, and does not change the run."""

from __future__ import annotations

from collections import defaultdict
from hashlib import sha256

import pytest

from zabka.journal.events import (
    BrokerRegistered,
    ControllerElected,
    LearnerSynced,
    SessionExpired,
    TxnProposed,
)
from zabka.journal.messages import Message, message_line, read_message
from zabka.simulation.engine.tap import MessageTap
from zabka.simulation.run import run_with_journal
from zabka.simulation.scenarios.library import LIBRARY, play
from zabka.simulation.scenarios.scenario import Verdict

FAILOVER = "kafka-1211"
REGISTERING_US = 10_000
"""Maximum time in µs by which a broker learns of its own registration later than the controller does."""
WHOLE, IN_PIECES = pytest.param(1, marks=pytest.mark.long), 9
"""Two seeds. With the first, reads return all bytes received so far. With the second, they return only a part of
them.
"""


@pytest.fixture(scope="module")
def failover() -> tuple[Verdict, MessageTap, MessageTap]:
    tap, tap_of_bug = MessageTap(), MessageTap()
    return play(LIBRARY[FAILOVER], tap, tap_of_bug), tap, tap_of_bug


def of_kind(tap: MessageTap, *kinds: str) -> list[Message]:
    return [message for message in tap.messages if message.kind in kinds]


@pytest.mark.parametrize("seed", [WHOLE, IN_PIECES])
def test_recording_messages_does_not_change_the_history(seed: int) -> None:
    hashes = []
    for tap in (None, MessageTap()):
        _, lines = run_with_journal(seed, "ensemble", tap=tap)
        hashes.append(sha256(b"".join(lines)).hexdigest())
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("seed", [WHOLE, IN_PIECES])
def test_every_message_arrives_after_it_is_sent_or_is_lost(seed: int) -> None:
    tap = MessageTap()
    outcome, _ = run_with_journal(seed, "chaos", tap=tap)
    end_us = outcome.virtual_ms * 1000
    assert tap.messages
    for message in tap.messages:
        assert message.arrived_us is None or message.arrived_us >= message.sent_us
        under_way = message.sent_us > end_us - 2_000_000
        assert message.arrived_us is not None or message.lost or under_way or message.group == "ping"
    assert [message.id for message in tap.messages] == list(range(1, len(tap.messages) + 1))


def test_recorded_failover_messages_agree_with_the_journal(failover: tuple[Verdict, MessageTap, MessageTap]) -> None:
    verdict, tap, _ = failover
    events = [entry.event for entry in verdict.journal]
    followers = 2
    proposed = sum(isinstance(event, TxnProposed) for event in events)
    assert len(of_kind(tap, "PROPOSAL")) == proposed * followers
    synced = sum(isinstance(event, LearnerSynced) for event in events)
    for kind in ("FOLLOWERINFO", "LEADERINFO", "ACKEPOCH", "DIFF", "NEWLEADER", "UPTODATE"):
        assert len(of_kind(tap, kind)) == synced, kind
    elected = next(event for event in events if isinstance(event, ControllerElected))
    for message in of_kind(tap, "LeaderAndIsr", "UpdateMetadata"):
        assert message.source == f"broker-{elected.broker_id}"
        assert message.subject["controller_epoch"] == elected.controller_epoch


def test_every_controller_request_has_a_response(failover: tuple[Verdict, MessageTap, MessageTap]) -> None:
    """Every request of a controller has a response, with one exception.

    A broker that does not know yet that it is registered closes the connection instead of responding.
    """
    verdict, tap, _ = failover
    registered = {(entry.node, entry.mono_us) for entry in verdict.journal if isinstance(entry.event, BrokerRegistered)}
    answers = {message.answers: message for message in tap.messages if message.answers is not None}
    asked = of_kind(tap, "LeaderAndIsr", "UpdateMetadata", "AlterPartition")
    refused = [message for message in asked if message.id not in answers]
    assert len(refused) < len(asked) / 10
    for message in refused:
        arrived_us = message.arrived_us
        assert arrived_us is not None
        assert any(node == message.target and 0 < at_us - arrived_us < REGISTERING_US for node, at_us in registered)
    for message in asked:
        if message in refused:
            continue
        answer = answers[message.id]
        assert (answer.source, answer.target) == (message.target, message.source)
        assert answer.kind == f"{message.kind} answer"
        assert message.arrived_us is not None
        assert answer.sent_us >= message.arrived_us


def test_messages_are_equal_until_an_injected_bug_takes_effect(
    failover: tuple[Verdict, MessageTap, MessageTap],
) -> None:
    verdict, tap, tap_of_bug = failover
    assert verdict.shown is not None
    expired = next(entry for entry in verdict.journal if isinstance(entry.event, SessionExpired))
    before = [message for message in tap.messages if message.sent_us < expired.mono_us]
    assert before == tap_of_bug.messages[: len(before)]
    assert tap.messages != tap_of_bug.messages


def test_recorded_message_reads_back_from_its_line(failover: tuple[Verdict, MessageTap, MessageTap]) -> None:
    for message in failover[1].messages[:500]:
        assert read_message(message_line(message)) == message


def test_quorum_messages_arrive_in_the_order_sent(
    failover: tuple[Verdict, MessageTap, MessageTap],
) -> None:
    arrivals: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for message in failover[1].messages:
        if message.group in ("broadcast", "synchronisation", "discovery") and message.arrived_us is not None:
            arrivals[message.source, message.target, "quorum"].append(message.arrived_us)
    assert arrivals
    assert all(times == sorted(times) for times in arrivals.values())
