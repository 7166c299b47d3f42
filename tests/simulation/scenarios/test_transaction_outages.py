"""The chains of causes in runs of transaction scripts: why read_committed consumers wait, and why they continue."""

from __future__ import annotations

from functools import cache

from zabka.journal import events as e
from zabka.journal.causes import Causes, Chain, End
from zabka.journal.events import Entry, Event, type_name
from zabka.simulation.scenarios.library import LIBRARY, play
from zabka.simulation.scenarios.scenario import Verdict, WorldScenario
from zabka.simulation.scenarios.transaction_steps import EndTransaction


@cache
def played(name: str) -> Verdict:
    verdict = play(LIBRARY[name])
    assert verdict.problems == []
    return verdict


def chain_of(entries: list[Entry], kind: type[Event]) -> Chain:
    """Return the chain of causes of the last event of that type."""
    causes = Causes()
    for entry in entries:
        causes.see(entry)
    return causes.chain([entry for entry in entries if isinstance(entry.event, kind)][-1])


def told(chain: Chain) -> list[str]:
    """Return the event types in a chain of causes, with the cause of each change of a transactional id."""
    return [
        f"{step.event.state}, {step.event.after}"
        if isinstance(step.event, e.TransactionChanged)
        else type_name(step.event)
        for step in chain.steps
    ]


def test_blocked_consumer_is_caused_by_the_killed_producer() -> None:
    chain = chain_of(played("producer-killed").journal, e.LastStableOffsetHeld)
    assert told(chain) == ["last_stable_offset_held", "Ongoing, partitions added", "fault_injected"]
    fault = chain.steps[-1].event
    assert isinstance(fault, e.FaultInjected) and (fault.kind, fault.target) == ("crash", "client-shop")


def test_abort_at_the_timeout_is_caused_by_a_killed_producer() -> None:
    chain = chain_of(played("producer-killed").journal, e.MarkerWritten)
    assert told(chain) == ["marker_written", "PrepareAbort, timed out", "fault_injected"]


def test_blocked_consumer_is_traced_to_the_late_record() -> None:
    shown = played("late-produce").shown
    assert shown is not None
    chain = chain_of(shown.journal, e.LastStableOffsetHeld)
    assert told(chain) == [
        "last_stable_offset_held", "transaction_begun", "CompleteAbort, markers written",
        "PrepareAbort, ended by its producer",
    ]  # fmt: skip
    assert (chain.end, chain.says) == (End.REQUEST, "request EndTxn")
    begun = chain.steps[1].event
    assert isinstance(begun, e.TransactionBegun) and not begun.is_verified


def test_transaction_verification_rejects_a_late_produce() -> None:
    begun = [entry.event for entry in played("late-produce").journal if isinstance(entry.event, e.TransactionBegun)]
    assert [event.is_verified for event in begun] == [True]
    assert not any(isinstance(entry.event, e.LastStableOffsetHeld) for entry in played("late-produce").journal)


def test_marker_of_the_next_coordinator_is_caused_by_the_crash() -> None:
    chain = chain_of(played("coordinator-fails-over").journal, e.MarkerWritten)
    found = told(chain)
    assert found[:3] == ["marker_written", "PrepareCommit, loaded", "leader_elected"]
    assert found[-1] == "fault_injected" and chain.end is End.FAULT


def test_lso_advance_is_traced_to_the_transaction_marker() -> None:
    leader = [
        entry
        for entry in played("producer-killed").journal
        if isinstance(entry.event, e.LastStableOffsetMoved) and entry.event.is_leader
    ]
    causes = Causes()
    for entry in played("producer-killed").journal:
        causes.see(entry)
    assert told(causes.chain(leader[-1]))[:3] == [
        "last_stable_offset_moved", "marker_written", "PrepareAbort, timed out",
    ]  # fmt: skip


def test_transaction_step_without_its_producer_fails() -> None:
    script = WorldScenario("wrong", "", "A producer has started.", steps=(EndTransaction("shop", commit=True),))
    assert play(script).problems == ["step 1 (EndTransaction): there is no producer 'shop'"]
