"""Decisions about operations. The expected values are Kafka's (see `decision_cases`)."""

from __future__ import annotations

import tracemalloc

import pytest

from tests.broker_sim.authorizer.decision_cases import CASES, Case
from zabka.broker_sim.authorizer.decisions import AclIndex, Requester
from zabka.broker_sim.principals import KafkaPrincipal
from zabka.kafka.acls import AclEntry, AclOperation, PatternType, Permission, ResourcePattern, ResourceType

ALICE = Requester(KafkaPrincipal("User", "alice"), "10.0.0.1")
READ = AclEntry("User:alice", "*", AclOperation.READ, Permission.ALLOW)
DENY = READ._replace(permission=Permission.DENY)


def topic(name: str, kind: PatternType = PatternType.LITERAL) -> ResourcePattern:
    return ResourcePattern(ResourceType.TOPIC, name, kind)


def reads(index: AclIndex, name: str) -> bool:
    return index.allows(ALICE, AclOperation.READ, ResourceType.TOPIC, name)


def test_decision_table_has_at_least_sixty_different_cases() -> None:
    assert len(set(CASES)) == len(CASES) >= 60


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.acls or 'none'} / {case.question}")
def test_decision_is_that_of_kafkas_authorizer(case: Case) -> None:
    assert case.answer() is case.allowed


def test_changed_entries_replace_earlier_decisions() -> None:
    index = AclIndex()
    assert not reads(index, "orders")
    index.assign(topic("orders"), [READ])
    assert reads(index, "orders")
    index.assign(topic("orders"), [READ, DENY])
    assert not reads(index, "orders")
    index.assign(topic("orders"), [])
    index.assign(topic("ord", PatternType.PREFIXED), [READ])
    assert reads(index, "orders")
    assert index.patterns() == [topic("ord", PatternType.PREFIXED)]
    index.assign(topic("ord", PatternType.PREFIXED), [])
    assert not reads(index, "orders")


def test_long_names_of_clients_are_not_remembered() -> None:
    index = AclIndex()
    index.assign(topic("o", PatternType.PREFIXED), [READ])
    tracemalloc.start()
    try:
        assert all(reads(index, f"o{number:030000}") for number in range(100))
        remembered_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert remembered_bytes < 300_000


def test_any_resource_follows_removed_entries() -> None:
    index = AclIndex()
    for _ in range(2):
        assert not index.allows_any(ALICE, AclOperation.READ, ResourceType.TOPIC)
        index.assign(topic("a"), [READ])
        index.assign(topic("b"), [READ])
        index.assign(topic("a"), [])
        assert index.allows_any(ALICE, AclOperation.READ, ResourceType.TOPIC)
        index.assign(topic("b"), [DENY])
        assert not index.allows_any(ALICE, AclOperation.READ, ResourceType.TOPIC)
        index.assign(topic("b"), [])


def test_decisions_with_many_prefixes_find_the_matching_ones() -> None:
    index = AclIndex()
    for number in range(500):
        index.assign(topic(f"team-{number}-", PatternType.PREFIXED), [READ])
    index.assign(topic("team-7-secret", PatternType.PREFIXED), [DENY])
    assert reads(index, "team-7-orders")
    assert not reads(index, "team-7-secrets")
    assert not reads(index, "team-500-orders")
