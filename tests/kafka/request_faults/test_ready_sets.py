"""Ready-made sets of request faults: all rules are valid, and a filter applies to the rules that have its field."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.house.packages import ROOT
from zabka.ensemble.request_fault import Effect
from zabka.kafka.request_faults.ready_sets import READY_SETS, narrowed, why_impossible

NAMES = (
    "ack-lost", "not-leader", "coordinator-loading", "coordinator-moves", "rebalance-storm", "slow-broker",
    "stale-metadata", "throttled", "session-moved", "connection-loss-on-create",
)  # fmt: skip


def test_documented_ready_made_fault_sets_exist() -> None:
    assert tuple(READY_SETS) == NAMES


def test_each_ready_made_fault_set_is_documented_with_its_outage() -> None:
    page = (ROOT / "docs/how-to/inject-request-faults.md").read_text()
    assert [
        name for name, ready in READY_SETS.items() if f"| `{name}` | {ready.imitates} | {ready.expected} |" not in page
    ] == []


def test_page_offers_every_ready_made_fault_set_and_fault_effect() -> None:
    page = (ROOT / "api/web/views/request_faults.js").read_text()
    assert [name for name in (*READY_SETS, *get_args(Effect)) if f'"{name}"' not in page] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_of_a_ready_made_fault_set_is_valid(name: str) -> None:
    assert [why_impossible(rule) for rule in READY_SETS[name].rules] == [None] * len(READY_SETS[name].rules)
    assert {rule.part_of for rule in narrowed(name, {})} == {name}


def test_fault_set_restricted_to_a_topic_still_applies_once() -> None:
    (rule,) = narrowed("ack-lost", {"topic": "orders", "node": "broker-1"})
    assert (rule.topic, rule.node, rule.times, rule.effect) == ("orders", "broker-1", 1, "drop_response")


def test_times_option_replaces_the_times_field_of_a_fault_set() -> None:
    (rule,) = narrowed("rebalance-storm", {"group": "g", "times": 4})
    assert (rule.group, rule.times, rule.every, rule.for_ms) == ("g", 4, 0, 0)


def test_slow_broker_fault_set_accepts_another_delay() -> None:
    (rule,) = narrowed("slow-broker", {"delay_ms": 50, "node": "broker-2"})
    assert (rule.delay_ms, rule.node) == (50, "broker-2")


@pytest.mark.parametrize(
    ("name", "narrowing", "reason"),
    [
        ("ack-lots", {}, "no ready set 'ack-lots'"),
        ("ack-lost", {"effect": "close"}, "effect: a ready set takes"),
        ("ack-lost", {"group": "g"}, "group: no request of the set ack-lost has it"),
        ("connection-loss-on-create", {"client_id": "c"}, "client_id: no request"),
        ("ack-lost", {"node": "peer-1"}, "served by brokers"),
        ("ack-lost", {"times": -1}, "times"),
    ],
)
def test_invalid_limit_of_a_ready_made_fault_set_is_rejected(
    name: str, narrowing: dict[str, object], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        narrowed(name, narrowing)
