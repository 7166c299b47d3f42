"""Transactional clients in the simulated world: what they do without faults, and faults that hit their transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from tests.simulation.injected_table import OF_TRANSACTIONS, SHOWN_BY, search
from tests.simulation.injected_transactions import INJECTED
from zabka.journal.events import Entry, FaultInjected, TransactionChanged
from zabka.simulation.checkers import transaction_history, transaction_logs
from zabka.simulation.checkers.transaction_anomalies import Kind, analyse
from zabka.simulation.checkers.transaction_history import ANOMALIES, Outcome
from zabka.simulation.cluster.node_names import broker_name
from zabka.simulation.faults.transaction_faults import PREPARED
from zabka.simulation.run import SCENARIOS
from zabka.simulation.seeds.chaos import CALM, CHAOS
from zabka.simulation.seeds.seed_run import SeedRun, has_transactions
from zabka.simulation.seeds.swarm import SWARM
from zabka.simulation.settings import WorldSettings, world_settings

WITHOUT_METADATA = 197
INJECTED_AT = 4
"""Seed with faults directly after a coordinator's decisions: kills, pauses and partitioned links."""
WITH_FAULTS = 12
"""Seed of scenario `chaos` that has transactional clients."""
RULES = {
    *(transaction_history.READ, transaction_history.WHOLE, transaction_history.KEPT, transaction_history.ONCE),
    *(transaction_history.TOGETHER, transaction_history.FENCED, transaction_history.ANOMALIES),
    *(transaction_logs.STABLE, transaction_logs.EPOCHS, transaction_logs.AGREE, transaction_logs.ON_DISKS),
}


def taken_over(entries: Iterable[Entry]) -> int:
    """Return how many transactions were decided by one coordinator and completed by another one."""
    decided: dict[tuple[str, int, int], str] = {}
    count = 0
    for entry in entries:
        event = entry.event
        if isinstance(event, TransactionChanged):
            key = event.transactional_id, event.producer_id, event.producer_epoch
            if event.state in PREPARED:
                decided.setdefault(key, entry.node)
            elif event.after == "markers written":
                count += decided.pop(key, entry.node) != entry.node
    return count


def injected_after_a_decision(entries: Iterable[Entry], within_us: int = 50_000) -> Counter[str]:
    """Return how many faults of each type hit a coordinator shortly after it had decided."""
    decided: dict[str, int] = {}
    found: Counter[str] = Counter()
    for entry in entries:
        event = entry.event
        if isinstance(event, TransactionChanged) and event.state in PREPARED:
            decided[broker_name(event.broker_id)] = entry.mono_us
        elif isinstance(event, FaultInjected) and entry.mono_us - decided.get(event.source, -within_us) < within_us:
            found[event.kind] += 1
    return found


def test_copy_loop_without_faults_copies_each_record_once() -> None:
    run = SeedRun(1, CALM._replace(transactions_chance=1.0, draws_topics=True), world_settings(["faults.ms=20000"]))
    outcome = run.execute()
    assert outcome.problems == []
    transacting = run.transacting
    assert transacting is not None
    outcomes = Counter(attempt.outcome for attempt in transacting.history.attempts)
    assert outcomes[Outcome.COMMITTED] > 20 and outcomes[Outcome.ABORTED] > 2
    moved = {value for attempt in transacting.history.attempts for value in attempt.inputs}
    assert transacting.moved >= len(moved) > 20
    assert {name for name in RULES if outcome.checked.get(name)} == RULES


def test_chaos_seed_with_transactions_checks_every_rule() -> None:
    run = SeedRun(WITH_FAULTS, CHAOS)
    outcome = run.execute()
    assert outcome.problems == []
    assert {name for name in RULES if outcome.checked.get(name)} == RULES


def test_faults_are_injected_between_a_decision_and_its_markers() -> None:
    run = SeedRun(INJECTED_AT, CHAOS, world_settings(OF_TRANSACTIONS))
    outcome = run.execute()
    assert outcome.problems == []
    injected = injected_after_a_decision(run.world.record.entries).keys()
    assert injected >= {"pause", "cut"} and injected & {"crash", "power_loss"}
    assert taken_over(run.world.record.entries) > 0
    assert run.transacting is not None
    permitted = analyse(run.transacting.history.as_appends(run.transacting.is_excused)).permitted
    assert permitted[Kind.WRITE_CYCLE] > 0
    assert permitted[Kind.READ_SKEW] > 0


@pytest.mark.parametrize(
    ("bug", "kind"),
    [
        ("aborted index is lost on restart", Kind.ABORTED_READ),
        ("started producer keeps the open transaction", Kind.UNFINISHED_READ),
    ],
)
def test_injected_bug_causes_a_transaction_anomaly(bug: str, kind: Kind) -> None:
    """The dependencies between the transactions reveal the injected bug, without any other rule."""
    injected_bug = INJECTED[bug]._replace(shows=(f"{ANOMALIES}: {kind}: ",))
    assert search("chaos", injected_bug, 10, world_settings(OF_TRANSACTIONS), SHOWN_BY[bug]).seeds is not None


def test_share_of_seeds_with_transactions_matches_the_scenario() -> None:
    for scenario in (CHAOS, SWARM):
        count = sum(has_transactions(seed, scenario, WorldSettings()) for seed in range(1_000))
        assert abs(count / 1_000 - scenario.transactions_chance) < 0.03
    without = (world_settings(["drawn.topics=false"]), world_settings(["brokers=0"]))
    assert not any(has_transactions(seed, CHAOS, settings) for seed in range(100) for settings in without)
    others = [each for each in SCENARIOS.values() if not each.transactions_chance]
    assert not any(has_transactions(seed, each, WorldSettings()) for seed in range(100) for each in others)


def test_coordinator_without_metadata_still_writes_every_marker() -> None:
    """A coordinator that has no metadata yet writes all markers later.

    All brokers restart between a decision and its markers. The new coordinator loads its log before it receives any
    metadata.
    """
    run = SeedRun(WITHOUT_METADATA, CHAOS)
    assert run.execute().problems == []
