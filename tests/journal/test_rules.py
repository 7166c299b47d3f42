"""Every decision in a journal has a rule that explains it, and the source that each rule names exists."""

from __future__ import annotations

import re

import msgspec
import pytest

from zabka.journal import events as e
from zabka.journal.event import Event
from zabka.journal.events import EVENT_TYPES
from zabka.journal.rules import RULES, Rule, rule_of
from zabka.journal.rules.rule import (
    KAFKA_CLIENT_SOURCE,
    KAFKA_SOURCE,
    SHORT_PAPER,
    ZAB_PAPER,
    ZOOKEEPER_SOURCE,
    Link,
    reference,
)
from zabka.journal.rules.source_lines import definitions, file_of, line_of, place_of
from zabka.journal.sentences import holds
from zabka.simulation.scenarios.library import LIBRARY
from zabka.simulation.scenarios.scenario import WorldScenario
from zabka.simulation.scenarios.world_player import play

ROOTS = {e.AdminRequested, e.NodeStarted, e.NodeStopped, e.TaskFailed, e.FaultInjected, e.FaultRemoved}
"""Types of events that have no cause in the journal.

Each is an external action on a node, or the start, failure or exit of a node. No rule of Kafka leads to such an event.
"""
STRANGERS = {e.PeerProtocolBroken, e.LinkFaultApplied, e.RequestFaultApplied, e.ProgramNoted}
"""Events caused by the other end of a connection, by a fault that a user injected, or by a user's own program."""
DECIDING = {"caused_by", "cause", "reason", "mode"}
"""Names of the fields in which events state their cause."""
DECISIONS = [kind for kind in EVENT_TYPES if DECIDING & set(kind.__struct_fields__) and kind not in ROOTS | STRANGERS]
EVERY_RULE = [rule for pairs in RULES.values() for _, rule in pairs]
BY_NAME = {rule.name: rule for rule in EVERY_RULE}
EVERY_LINK = {link for rule in EVERY_RULE for link in (rule.theirs, *rule.references)}
JAVA = re.compile(r"(server|client)/[\w/]+\.java")
CLIENT = re.compile(r"common/(network|security/authenticator)/\w+\.java")
SCALA = re.compile(r"(cluster|controller|coordinator/(transaction|group)|log|server|zk|zookeeper)/\w+\.scala")


PLAYED = (
    "kafka-4447", "kafka-6880", "kafka-6082", "kafka-6361", "kafka-2729", "kafka-4443", "kafka-14845", "kafka-1211",
    "kip-966", "acks-1-planned-move",
)  # fmt: skip
"""Outage scripts whose runs, with and without their bugs, contain most kinds of decisions."""
RARE = (
    e.ControllerResigned(1, 3, "shutdown"),
    e.ControllerResigned(1, 3, "illegal_state"),
    e.ControllerEventFailed(1, 3, "TopicChange", "a znode without JSON"),
    e.WriteFenced(1, 3, "setData", "/brokers/topics/orders/partitions/0/state", "session_expired"),
    e.TopicDeleted("orders"),
    e.RequestFenced(1, "AlterPartition", 2, "INELIGIBLE_REPLICA", 3, 3, "orders", 0),
    e.RequestFenced(1, "LeaderAndIsr", 2, "FENCED_LEADER_EPOCH", 3, 4, "orders", 0),
    e.AuthenticationFailed(1, "CLIENTS", "TLS", "10.0.0.7", "untrusted_certificate"),
    e.AuthenticationFailed(1, "CLIENTS", "PLAIN", "10.0.0.7", "wrong_credentials"),
    e.LogTruncated(1, "orders", 0, 9, 7, 2, cause="offset_out_of_range"),
    e.LogTruncated(1, "orders", 0, 9, 0, 2, cause="leader_start"),
    e.RecordsLost(1, "orders", 0, 5, 6, 2, 2, "missing_at_start", "start"),
    e.LearnerSynced(1, 2, 3, "TRUNC", 9, 8),
    e.LearnerSynced(1, 2, 3, "SNAP", 0, 9),
    e.MembershipActivated(9, [1, 2, 3], []),
    e.QuotaExceeded("/a", 5, 4, 0, -1),
    e.LogDamageFound("log.100000001", 16, "a bad checksum", "cut off"),
    e.SnapshotTaken(9, 1000, 3),
    e.TransactionBegun(1, "orders", 0, 2, 4, 7, 0, True, "producer 7"),
    e.TransactionBegun(1, "orders", 0, 2, 4, 7, 0, False, "producer 7"),
    e.MarkerWritten(1, "orders", 0, 2, 9, 7, 0, True, 0, 4, "decision 7@0"),
    e.LastStableOffsetMoved(1, "orders", 0, 2, 10, 10, -1, True, "broker-1#9"),
    e.LastStableOffsetReleased(1, "orders", 0, 2, 10, 10, 61_000, "broker-1#9"),
    e.LastStableOffsetHeld(1, "orders", 0, 2, 4, 10, 7, 0, 12_000, "open 7 orders-0@4"),
    *(
        e.GroupChanged(1, "readers", "PreparingRebalance", 2, "", [], after)
        for after in (
            "member joined",
            "leader joined again",
            "static member joined again",
            "member left",
            "session timed out",
            "members did not fetch their assignment",
            "all members joined",
            "assignment stored",
            "loaded",
            "group deleted",
        )
    ),
    *(
        e.TransactionChanged(1, "payments", "", 7, 0, [], after)
        for after in (
            "producer started",
            "partitions added",
            "ended by its producer",
            "fenced",
            "timed out",
            "loaded",
            "markers written",
            "expired",
        )
    ),
)
"""Decisions that these runs do not contain.

They need groups, transactions, a failing disk, a membership change, or hours of run time.
"""


def played() -> list[Event]:
    """Return the events of the runs of `PLAYED`, with journals at the full level."""
    events: list[Event] = []
    for name in PLAYED:
        scenario = LIBRARY[name]
        assert isinstance(scenario, WorldScenario)
        verdict = play(scenario)
        events += [entry.event for entry in (*verdict.journal, *(verdict.shown.journal if verdict.shown else ()))]
    return events


@pytest.mark.parametrize("kind", DECISIONS, ids=lambda kind: kind.__name__)
def test_every_decision_type_has_rules(kind: type[Event]) -> None:
    assert RULES.get(kind)


def test_every_decision_event_has_a_rule_and_every_rule_is_used() -> None:
    events = [*played(), *RARE]
    assert [event for event in events if isinstance(event, tuple(DECISIONS)) and rule_of(event) is None] == []
    met = {rule.name for event in events if (rule := rule_of(event))}
    assert sorted(BY_NAME.keys() - met) == []


def test_condition_of_a_rule_uses_only_fields_of_its_event() -> None:
    for kind, pairs in RULES.items():
        fields = dict.fromkeys(kind.__struct_fields__, 0)
        for condition, _ in pairs:
            holds(condition, fields)


def test_only_the_last_rule_of_an_event_type_is_unconditional() -> None:
    for kind, pairs in RULES.items():
        assert all(condition for condition, _ in pairs[:-1]), kind


def test_rule_is_selected_by_the_event_fields() -> None:
    cut = e.LogTruncated(4, "orders", 0, 6, 5, 2, cause="high_watermark")
    elected = e.LeaderElected("orders", 0, 2, 3, [2], [1, 2], 4, 1, unclean=True, cause="unclean")
    names = [rule.name for event in (cut, elected) if (rule := rule_of(event))]
    assert names == ["a follower truncates to its high watermark", "an unclean election takes any live replica"]
    assert rule_of(e.ReplicaProgressed(1, [])) is None
    assert rule_of(e.RecordsAcknowledged(1, "orders", 0, 1, 0, 0, acks=0, checksum=0)) is None


@pytest.mark.parametrize("rule", BY_NAME.values(), ids=lambda rule: rule.name)
def test_source_of_a_rule_exists(rule: Rule) -> None:
    line = line_of(rule.source)
    assert line is not None, f"there is no {rule.source.symbol} in {rule.source.path}"
    name = rule.source.symbol.rpartition(".")[2]
    assert re.search(rf"\b(def|class) {name}\b", file_of(rule.source.path).read_text().splitlines()[line - 1])
    assert place_of(rule.source) == f"{rule.source.path}:{line} ({rule.source.symbol})"


def test_rule_names_are_unique() -> None:
    assert all(BY_NAME[rule.name] == rule for rule in EVERY_RULE)


@pytest.mark.parametrize("link", sorted(EVERY_LINK, key=lambda link: link.name), ids=lambda link: link.name)
def test_rule_link_url_matches_the_kind_of_its_source(link: Link) -> None:
    kind, _, number = link.name.partition("-")
    match kind:
        case "KIP":
            assert re.fullmatch(
                rf"https://cwiki\.apache\.org/confluence/display/KAFKA/KIP-{number}(%3A|\+-)(\+[\w-]+)+", link.url
            )
        case "KAFKA" | "ZOOKEEPER":
            assert number.isdecimal() and link.url == f"https://issues.apache.org/jira/browse/{link.name}"
        case _ if link.name.startswith("Zab 2008"):
            assert link.url == SHORT_PAPER and re.fullmatch(r"Zab 2008, \d\.\d", link.name)
        case _ if link.name.startswith("Zab"):
            assert link.url == ZAB_PAPER and re.fullmatch(r"Zab (V|IV, phase [123])", link.name)
        case _ if link.url.startswith(KAFKA_CLIENT_SOURCE):
            assert CLIENT.fullmatch(link.url.removeprefix(KAFKA_CLIENT_SOURCE))
        case _ if link.url.startswith(KAFKA_SOURCE):
            assert SCALA.fullmatch(link.url.removeprefix(KAFKA_SOURCE))
        case _:
            assert JAVA.fullmatch(link.url.removeprefix(ZOOKEEPER_SOURCE)), link.url


def test_rule_cannot_refer_to_an_unlisted_kip() -> None:
    with pytest.raises(KeyError):
        reference("KIP-999999")


def test_rule_text_has_at_most_three_short_sentences() -> None:
    for rule in BY_NAME.values():
        sentences = rule.sentence.split(". ")
        assert rule.sentence.endswith(".") and "  " not in rule.sentence and len(sentences) <= 3, rule.sentence
        assert all(len(each.split()) <= 30 for each in sentences), rule.sentence
        assert rule.name[0].islower() and not rule.name.endswith(".")


def test_source_of_a_method_is_found_in_its_class() -> None:
    text = "class A:\n    def f(self): ...\n\nasync def g(): ...\n"
    assert definitions(text) == {"A": 1, "A.f": 2, "g": 4}


def test_rule_is_serialised_as_plain_data() -> None:
    rule = rule_of(e.SessionExpired(1, 6000))
    assert rule is not None
    found = msgspec.to_builtins(rule)
    assert found["source"] == {"path": "ensemble/tree/sessions.py", "symbol": "SessionTracker.expire"}
    assert found["theirs"]["name"] == "SessionTrackerImpl.run"
