"""Chains of causes of transactions: from a blocked consumer to the open transaction, and to the reason why it is
open.
"""

from __future__ import annotations

import pytest

from zabka.journal import events as e
from zabka.journal.cause import (
    decision_cause,
    election_cause,
    event_cause,
    open_transaction_cause,
    producer_cause,
    request_cause,
    timer_cause,
)
from zabka.journal.causes import Causes, Chain, End
from zabka.journal.checkers.cause_chains import broken_chains
from zabka.journal.events import Entry, Event, TopicPartition

ORDERS = TopicPartition("orders", 0)
TXN_3 = TopicPartition("__transaction_state", 3)
PRODUCER = 7
CLIENT = "client-shop"


class History:
    """Journal entries in the order in which they were written."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, node: str, event: Event) -> Entry:
        number = len(self.entries) + 1
        self.entries.append(Entry(node, number, 1000 * number, 1000 * number, event, number))
        return self.entries[-1]

    def changed(self, state: str, after: str, cause: str, *, broker: int = 1, epoch: int = 0) -> Entry:
        partitions = [] if state.startswith("Complete") else [str(ORDERS)]
        event = e.TransactionChanged(
            broker, "payments", state, PRODUCER, epoch, partitions, after, client_id=CLIENT, caused_by=cause
        )
        return self.add(f"broker-{broker}", event)

    def opened(self) -> Entry:
        return self.changed("Ongoing", "partitions added", request_cause("AddPartitionsToTxn"))

    def begun(self, *, is_verified: bool = True) -> Entry:
        event = e.TransactionBegun(2, "orders", 0, 4, 12, PRODUCER, 0, is_verified, producer_cause(PRODUCER))
        return self.add("broker-2", event)

    def aborted(self, after: str, cause: str) -> Entry:
        decided = self.changed("PrepareAbort", after, cause, epoch=1)
        self.marker(epoch=1)
        return self.changed("CompleteAbort", "markers written", event_cause(decided.node, decided.node_seq), epoch=1)

    def marker(self, *, epoch: int = 0) -> Entry:
        cause = decision_cause(PRODUCER, epoch)
        return self.add(
            "broker-2", e.MarkerWritten(2, "orders", 0, 4, 13, PRODUCER, epoch, False, 2, 12, caused_by=cause)
        )

    def held(self) -> Entry:
        cause = open_transaction_cause(PRODUCER, ORDERS, 12)
        return self.add("broker-2", e.LastStableOffsetHeld(2, "orders", 0, 4, 12, 20, PRODUCER, 0, 10_500, cause))

    def crash(self, node: str) -> Entry:
        return self.add("world", e.FaultInjected(f"crash {node}", "crash", node, node, False))

    def chain(self, entry: Entry) -> Chain:
        causes = Causes()
        for each in self.entries:
            causes.see(each)
        return causes.chain(entry)

    def nodes(self, entry: Entry) -> list[str]:
        return [e.type_name(step.event) for step in self.chain(entry).steps]


def test_blocked_lso_is_caused_by_the_open_transaction() -> None:
    history = History()
    history.opened()
    history.begun()
    held = history.held()
    assert history.nodes(held) == ["last_stable_offset_held", "transaction_changed"]
    assert history.chain(held)[1:] == (End.REQUEST, "request AddPartitionsToTxn")


def test_open_transaction_is_caused_by_the_crash_of_its_producer() -> None:
    history = History()
    opened = history.opened()
    crash = history.crash(CLIENT)
    chain = history.chain(history.held())
    assert chain.steps[1:] == (opened, crash)
    assert chain.end is End.FAULT


def test_past_crash_of_a_producer_does_not_cause_a_blocked_lso() -> None:
    history = History()
    history.opened()
    history.crash(CLIENT)
    history.add(CLIENT, e.NodeStarted("client", 0, {}))
    assert history.chain(history.held()).says == "request AddPartitionsToTxn"


def test_ended_pause_of_a_producer_does_not_cause_a_blocked_lso() -> None:
    history = History()
    history.opened()
    history.add("world", e.FaultInjected("f1", "pause", CLIENT, CLIENT, False))
    assert history.chain(history.held()).end is End.FAULT
    history.add("world", e.FaultRemoved("f1"))
    assert history.chain(history.held()).end is End.REQUEST


def test_open_lso_after_a_commit_decision_is_due_to_the_crash() -> None:
    history = History()
    decided = history.changed("PrepareCommit", "ended by its producer", request_cause("EndTxn"))
    history.crash(CLIENT)
    crash = history.crash("broker-1")
    assert history.chain(history.held()).steps[1:] == (decided, crash)


def test_transaction_is_loaded_because_of_a_coordinator_election() -> None:
    history = History()
    history.changed("PrepareCommit", "ended by its producer", request_cause("EndTxn"))
    elected = history.add("broker-3", e.LeaderElected(
        topic=TXN_3.topic, partition=3, leader=2, leader_epoch=5, isr=[2], replicas=[1, 2], partition_epoch=9,
        controller_epoch=1, unclean=False, cause="offline", previous=1, caused_by=request_cause("ControlledShutdown"),
    ))  # fmt: skip
    loaded = history.changed("PrepareCommit", "loaded", election_cause(TXN_3, 5), broker=2)
    marker = history.marker()
    assert history.chain(marker).steps == (marker, loaded, elected)


@pytest.mark.parametrize("is_verified", [True, False])
def test_hanging_transaction_is_caused_by_its_late_batch(is_verified: bool) -> None:
    """A hanging transaction is traced to the batch that arrived late.

    The batch arrived after the abort. The abort was caused by the timeout, and the timeout by the producer's crash.
    """
    history = History()
    history.opened()
    crash = history.crash(CLIENT)
    complete = history.aborted("timed out", timer_cause("transaction-abort"))
    late = history.begun(is_verified=is_verified)
    chain = history.chain(history.held())
    assert chain.steps[1:3] == (late, complete)
    assert [step.event.after for step in chain.steps[2:4] if isinstance(step.event, e.TransactionChanged)] == [
        "markers written", "timed out",
    ]  # fmt: skip
    assert chain.steps[-1] == crash


def test_hanging_transaction_with_unknown_batch_is_due_to_abort() -> None:
    """If the journal does not contain the late batch, the causes of a hanging transaction end at the abort.

    A journal at the normal level omits the first batch.
    """
    history = History()
    history.opened()
    complete = history.aborted("ended by its producer", request_cause("EndTxn"))
    chain = history.chain(history.held())
    assert chain.steps[1] == complete
    assert chain[1:] == (End.REQUEST, "request EndTxn")


def test_marker_is_caused_by_the_decision_of_its_epoch() -> None:
    history = History()
    history.opened()
    decided = history.changed("PrepareAbort", "fenced", request_cause("InitProducerId"), epoch=1)
    marker = history.marker(epoch=1)
    assert history.chain(marker).steps == (marker, decided)
    assert history.chain(history.marker(epoch=0)).steps[1:] == (), "an administrator's abort of the earlier epoch"


def test_marker_written_by_an_admin_is_caused_by_a_request() -> None:
    history = History()
    chain = history.chain(history.marker())
    assert (chain.end, chain.says) == (End.REQUEST, "decision 7@0")


def test_causes_of_a_txn_without_producer_crash_end_at_a_timer() -> None:
    history = History()
    history.opened()
    decided = history.changed("PrepareAbort", "timed out", timer_cause("transaction-abort"), epoch=1)
    assert history.chain(decided)[1:] == (End.TIMER, "timer transaction-abort")


@pytest.mark.parametrize("cause", ["producer x", "producer", "decision 7", "open 7 orders-0", "open x orders-0@1"])
def test_malformed_cause_reference_matches_no_event(cause: str) -> None:
    history = History()
    held = history.add("broker-2", e.LastStableOffsetHeld(2, "orders", 0, 4, 12, 20, PRODUCER, 0, 10_500, cause))
    assert history.chain(held).steps == (held,)


def test_transaction_change_with_an_unknown_cause_is_reported() -> None:
    history = History()
    history.opened()
    history.begun()
    history.aborted("timed out", timer_cause("transaction-abort"))
    history.changed("Ongoing", "partitions added", "request of nobody", epoch=1)
    assert [violation.detail for violation in broken_chains(history.entries)] == [
        "transaction_changed (broker-1#6) leads to transaction_changed (broker-1#6), which names 'request of nobody'"
    ]


def test_coordinator_event_can_refer_to_an_unjournaled_election() -> None:
    """A coordinator's event can refer to an election that is not in the journal.

    The controller died before it journaled that election.
    """
    history = History()
    history.changed("PrepareAbort", "loaded", election_cause(TXN_3, 5))
    assert broken_chains(history.entries) == []
