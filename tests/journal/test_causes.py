"""From an effect back to its beginning: what each reference leads to, and where chains end."""

from __future__ import annotations

import pytest

from journal import events as e
from journal.cause import (
    START,
    Cause,
    election_cause,
    event_cause,
    expiry_cause,
    proposal_cause,
    registration_cause,
    request_cause,
    session_cause,
    timer_cause,
    topic_cause,
    transaction_cause,
)
from journal.causes import Causes, Chain, End
from journal.events import Entry, Event, TopicPartition
from journal.judges.cause_chains import broken_chains

ORDERS = TopicPartition("orders", 0)


class History:
    """Entries in the order in which they are told."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def tell(self, node: str, event: Event) -> Entry:
        node_seq = sum(entry.node == node for entry in self.entries) + 1
        at_us = 1000 * (len(self.entries) + 1)
        self.entries.append(Entry(node, node_seq, at_us, at_us, event, len(self.entries) + 1))
        return self.entries[-1]

    def chain(self, entry: Entry) -> Chain:
        causes = Causes()
        for each in self.entries:
            causes.see(each)
        return causes.chain(entry)

    def types(self, entry: Entry) -> list[str]:
        return [e.type_name(step.event) for step in self.chain(entry).steps]


def elected(leader_epoch: int, previous: int, caused_by: Cause) -> e.LeaderElected:
    return e.LeaderElected(
        topic="orders", partition=0, leader=3, leader_epoch=leader_epoch, isr=[3], replicas=[1, 2, 3],
        partition_epoch=leader_epoch, controller_epoch=1, unclean=False, cause="offline", previous=previous,
        caused_by=caused_by,
    )  # fmt: skip


def named(entry: Entry) -> Cause:
    return event_cause(entry.node, entry.node_seq)


def test_a_controller_is_elected_since_a_session_expired() -> None:
    history = History()
    history.tell("peer-1", e.SessionExpired(0xA1, 6000, 6100, 2))
    history.tell("peer-2", e.SessionClosed(0xA1, 0x100000007, ["/controller"], expiry_cause(0xA1)))
    history.tell("peer-1", e.SessionClosed(0xA1, 0x100000007, ["/controller"], expiry_cause(0xA1)))
    won = history.tell("broker-2", e.ControllerElected(2, 5, 4, 0x100000008, transaction_cause(0x100000007)))
    assert history.types(won) == ["controller_elected", "session_closed", "session_expired"]
    assert history.chain(won).steps[1].node == "peer-2", "the first peer that told of the transaction"
    assert history.chain(won)[1:] == (End.TIMER, "timer session-expiry")


def test_of_two_brokers_that_went_together_each_partition_names_the_one_that_led_it() -> None:
    history = History()
    for broker, session in ((1, 0xA1), (2, 0xA2)):
        history.tell(f"broker-{broker}", e.BrokerRegistered(broker, 0x10 + broker, session, START))
    for session, zxid in ((0xA1, 0x21), (0xA2, 0x22)):
        history.tell("peer-1", e.SessionExpired(session, 6000))
        history.tell("peer-1", e.SessionClosed(session, zxid, [], expiry_cause(session)))
    ended = [(1, registration_cause(1, 0x11)), (2, registration_cause(2, 0x12))]
    gone = e.BrokerLivenessChanged(1, [3], [], [], [1, 2], list(ended), transaction_cause(0x21))
    liveness = history.tell("broker-3", gone)
    of_second = history.tell("broker-3", elected(7, 2, named(liveness)))
    of_first = history.tell("broker-3", elected(8, 1, named(liveness)))
    sessions = [
        [step.event.session_id for step in history.chain(entry).steps if isinstance(step.event, e.SessionClosed)]
        for entry in (of_first, of_second)
    ]
    assert sessions == [[0xA1], [0xA2]]


def test_records_are_lost_since_a_log_was_cut_since_a_leader_was_elected() -> None:
    history = History()
    asked = history.tell("broker-3", e.AdminRequested("ElectLeaders", ["orders-0"], "adminclient-1"))
    history.tell("broker-3", elected(7, 1, named(asked)))
    followed = history.tell("broker-1", e.FollowershipTaken(1, "orders", 0, 3, 7, 10, election_cause(ORDERS, 7)))
    cut = history.tell("broker-1", e.LogTruncated(1, "orders", 0, 10, 6, 7, named(followed)))
    lost = history.tell("broker-1", e.RecordsLost(1, "orders", 0, 6, 9, 4, 4, "diverging_epoch", named(cut)))
    assert history.types(lost) == [
        "records_lost", "log_truncated", "followership_taken", "leader_elected", "admin_requested",
    ]  # fmt: skip
    assert history.chain(lost).end is End.REQUEST


def test_a_replica_left_the_isr_since_its_leader_proposed_it_when_a_timer_ran_out() -> None:
    history = History()
    standing = e.ReplicaStanding(2, 120, 180, 120, 3210, 3000)
    cause = timer_cause("isr-expiration")
    history.tell("broker-1", e.IsrProposed(1, "orders", 0, [1, 3], 4, 7, "lag", [standing], cause))
    changed = e.IsrChanged(
        "orders", 0, [1, 3], 1, 4, 8, "lag", zxid=0x30, left=[2], caused_by=proposal_cause(ORDERS, 7)
    )
    left = history.tell("broker-3", changed)
    assert history.types(left) == ["isr_changed", "isr_proposed"]
    assert history.chain(left)[1:] == (End.TIMER, "timer isr-expiration")


def test_a_leader_epoch_that_comes_again_with_a_new_topic_of_that_name_means_the_last_one_before() -> None:
    history = History()
    history.tell("broker-3", elected(0, -1, request_cause("of the first topic")))
    history.tell("broker-3", elected(0, -1, request_cause("of the second topic")))
    taken = history.tell("broker-1", e.FollowershipTaken(1, "orders", 0, 3, 0, 0, election_cause(ORDERS, 0)))
    history.tell("broker-3", elected(0, -1, request_cause("of the third topic")))
    assert history.chain(taken).says == "request of the second topic"


def test_a_topic_is_created_since_somebody_asked_for_it() -> None:
    history = History()
    history.tell("broker-1", e.AdminRequested("CreateTopics", ["orders", "anId"], "adminclient-1"))
    made = history.tell("broker-3", e.TopicCreated("orders", "anId", {0: [1]}, topic_cause("anId")))
    assert history.types(made) == ["topic_created", "admin_requested"]


@pytest.mark.parametrize(
    ("cause", "end"),
    [
        (transaction_cause(0x40), End.REQUEST),
        (topic_cause("madeByHand"), End.REQUEST),
        (session_cause(0xAA), End.REQUEST),
        (expiry_cause(0xAA), End.TIMER),
        (timer_cause("auto-leader-rebalance"), End.TIMER),
        (request_cause("Fetch"), End.REQUEST),
        (registration_cause(2, 0x12), End.UNKNOWN),
        (event_cause("broker-9", 4), End.UNKNOWN),
        (Cause(""), End.UNKNOWN),
    ],
)
def test_a_reference_that_no_journal_tells_of_ends_a_chain_as_what_it_says(cause: Cause, end: End) -> None:
    history = History()
    won = history.tell("broker-2", e.ControllerElected(2, 5, 4, 0x50, cause))
    assert history.chain(won).end is end


def test_a_start_is_the_nodes_own_last_one() -> None:
    history = History()
    history.tell("broker-2", e.NodeStarted("broker", 2, {}))
    history.tell("broker-3", e.NodeStarted("broker", 3, {}))
    won = history.tell("broker-2", e.ControllerElected(2, 1, 1, 0x50, START))
    assert [step.node for step in history.chain(won).steps] == ["broker-2", "broker-2"]
    assert history.chain(won).end is End.START


def test_servers_that_tell_no_transaction_leave_it_unknown() -> None:
    assert transaction_cause(0) == transaction_cause(-1) == ""


def test_the_judge_finds_a_decision_without_a_beginning_and_one_that_names_what_came_later() -> None:
    history = History()
    history.tell("broker-2", e.ControllerElected(2, 1, 1, 0x50))
    history.tell("broker-2", elected(7, 1, event_cause("broker-2", 3)))
    history.tell("broker-2", e.AdminRequested("ElectLeaders", [], ""))
    history.tell("broker-2", elected(8, 1, event_cause("broker-2", 3)))
    found = broken_chains(history.entries)
    assert [violation.node_seq for violation in found] == [1, 2]
