"""Chains of causes from an effect to its first cause: which entry each reference means, and how chains end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from zabka.journal import events as e
from zabka.journal.cause import (
    REQUESTS,
    START,
    Cause,
    absence_cause,
    election_cause,
    event_cause,
    expiry_cause,
    fault_cause,
    link_cause,
    looking_cause,
    owner_cause,
    proposal_cause,
    registration_cause,
    request_cause,
    silence_cause,
    timer_cause,
    topic_cause,
    transaction_cause,
)
from zabka.journal.causes import Causes, Chain, End
from zabka.journal.checkers.cause_chains import broken_chains
from zabka.journal.events import Entry, Event, TopicPartition

ORDERS = TopicPartition("orders", 0)
ROOT = Path(__file__).parents[2]


class History:
    """Journal entries in the order in which they were written."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, node: str, event: Event) -> Entry:
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


def test_controller_election_is_caused_by_a_session_expiry() -> None:
    history = History()
    history.add("peer-1", e.SessionExpired(0xA1, 6000, 6100, 2))
    history.add("peer-2", e.SessionClosed(0xA1, 0x100000007, ["/controller"], expiry_cause(0xA1)))
    history.add("peer-1", e.SessionClosed(0xA1, 0x100000007, ["/controller"], expiry_cause(0xA1)))
    won = history.add("broker-2", e.ControllerElected(2, 5, 4, 0x100000008, transaction_cause(0x100000007)))
    assert history.types(won) == ["controller_elected", "session_closed", "session_expired"]
    assert history.chain(won).steps[1].node == "peer-2", "the first peer that logged the transaction"
    assert history.chain(won)[1:] == (End.TIMER, "timer session-expiry")


def test_partition_election_is_caused_by_old_leaders_session_end() -> None:
    """The election of each partition leader is traced to the expired session of the former leader.

    Two sessions expire at the same time.
    """
    history = History()
    for broker, session in ((1, 0xA1), (2, 0xA2)):
        history.add(f"broker-{broker}", e.BrokerRegistered(broker, 0x10 + broker, session, START))
    for session, zxid in ((0xA1, 0x21), (0xA2, 0x22)):
        history.add("peer-1", e.SessionExpired(session, 6000))
        history.add("peer-1", e.SessionClosed(session, zxid, [], expiry_cause(session)))
    of_second = history.add("broker-3", elected(7, 2, registration_cause(2, 0x12)))
    of_first = history.add("broker-3", elected(8, 1, registration_cause(1, 0x11)))
    sessions = [
        [step.event.session_id for step in history.chain(entry).steps if isinstance(step.event, e.SessionClosed)]
        for entry in (of_first, of_second)
    ]
    assert sessions == [[0xA1], [0xA2]]


def test_deleted_registration_is_not_caused_by_a_later_expiry() -> None:
    history = History()
    history.add("broker-1", e.BrokerRegistered(1, 0x11, 0xA1, START))
    early = history.add("broker-3", elected(7, 1, registration_cause(1, 0x11)))
    history.add("peer-1", e.SessionExpired(0xA1, 6000))
    history.add("peer-1", e.SessionClosed(0xA1, 0x21, [], expiry_cause(0xA1)))
    assert history.types(early) == ["leader_elected"]
    assert history.chain(early).end is End.UNKNOWN


def test_broker_absence_is_caused_by_its_last_session_end() -> None:
    history = History()
    for session, czxid in ((0xA1, 0x11), (0xA2, 0x12)):
        history.add("broker-1", e.BrokerRegistered(1, czxid, session, START))
        history.add("peer-1", e.SessionExpired(session, 6000))
        history.add("peer-1", e.SessionClosed(session, czxid + 1, [], expiry_cause(session)))
    found = history.chain(history.add("broker-3", elected(7, 1, absence_cause(1))))
    assert [step.event.session_id for step in found.steps if isinstance(step.event, e.SessionClosed)] == [0xA2]


def test_record_loss_is_caused_by_truncation_and_election() -> None:
    history = History()
    asked = history.add("broker-3", e.AdminRequested("ElectLeaders", ["orders-0"], "adminclient-1"))
    history.add("broker-3", elected(7, 1, named(asked)))
    followed = history.add("broker-1", e.FollowershipTaken(1, "orders", 0, 3, 7, 10, election_cause(ORDERS, 7)))
    cut = history.add("broker-1", e.LogTruncated(1, "orders", 0, 10, 6, 7, named(followed)))
    lost = history.add("broker-1", e.RecordsLost(1, "orders", 0, 6, 9, 4, 4, "diverging_epoch", named(cut)))
    assert history.types(lost) == [
        "records_lost", "log_truncated", "followership_taken", "leader_elected", "admin_requested",
    ]  # fmt: skip
    assert history.chain(lost).end is End.REQUEST


def test_isr_shrink_is_caused_by_the_leaders_isr_timer() -> None:
    history = History()
    standing = e.ReplicaStanding(2, 120, 180, 120, 3210, 3000)
    cause = timer_cause("isr-expiration")
    history.add("broker-1", e.IsrProposed(1, "orders", 0, [1, 3], 4, 7, "lag", [standing], cause))
    changed = e.IsrChanged(
        "orders", 0, [1, 3], 1, 4, 8, "lag", zxid=0x30, left=[2], caused_by=proposal_cause(ORDERS, 7)
    )
    left = history.add("broker-3", changed)
    assert history.types(left) == ["isr_changed", "isr_proposed"]
    assert history.chain(left)[1:] == (End.TIMER, "timer isr-expiration")


def test_cause_naming_a_recreated_topic_is_its_latest_election() -> None:
    history = History()
    history.add("broker-3", elected(0, -1, request_cause("of the first topic")))
    history.add("broker-3", elected(0, -1, request_cause("of the second topic")))
    taken = history.add("broker-1", e.FollowershipTaken(1, "orders", 0, 3, 0, 0, election_cause(ORDERS, 0)))
    history.add("broker-3", elected(0, -1, request_cause("of the third topic")))
    assert history.chain(taken).says == "request of the second topic"


def test_topic_creation_is_caused_by_its_request() -> None:
    history = History()
    history.add("broker-1", e.AdminRequested("CreateTopics", ["orders", "anId"], "adminclient-1"))
    made = history.add("broker-3", e.TopicCreated("orders", "anId", {0: [1]}, topic_cause("anId")))
    assert history.types(made) == ["topic_created", "admin_requested"]


@pytest.mark.parametrize(
    ("cause", "end"),
    [
        (transaction_cause(0x40), End.REQUEST),
        (topic_cause("madeByHand"), End.REQUEST),
        (owner_cause(0xAA), End.REQUEST),
        (expiry_cause(0xAA), End.UNKNOWN),
        (timer_cause("auto-leader-rebalance"), End.TIMER),
        (request_cause("Fetch"), End.REQUEST),
        (registration_cause(2, 0x12), End.UNKNOWN),
        (event_cause("broker-9", 4), End.UNKNOWN),
        (Cause(""), End.UNKNOWN),
    ],
)
def test_unknown_cause_ends_the_chain_according_to_its_type(cause: Cause, end: End) -> None:
    history = History()
    won = history.add("broker-2", e.ControllerElected(2, 5, 4, 0x50, cause))
    assert history.chain(won).end is end


def looking(peer: int, caused_by: Cause) -> e.PeerStateChanged:
    return e.PeerStateChanged("LOOKING", "ELECTION", -1, 2, 1, 1, 0x1_0000_0005, caused_by)


def following(leader: int) -> e.PeerStateChanged:
    return e.PeerStateChanged("FOLLOWING", "BROADCAST", leader, 1, 1, 1, 0x1_0000_0005)


def test_leader_change_is_caused_by_the_kill_of_the_old_leader() -> None:
    history = History()
    history.add("host-1", e.ProcessChanged("peer-3", "down", None, "kill"))
    history.add("peer-1", looking(1, link_cause(3)))
    established = history.add("peer-1", e.LeaderEstablished(1, 2, 0x1_0000_0005, [1, 2], looking_cause(1)))

    assert history.types(established) == ["leader_established", "peer_state_changed", "process_changed"]
    assert history.chain(established).end is End.FAULT
    assert broken_chains(history.entries) == []


def test_follower_election_is_caused_by_its_leaders_election() -> None:
    history = History()
    history.add("peer-3", looking(3, silence_cause(1)))
    state_change = history.add("peer-2", looking(2, looking_cause(3)))

    chain = history.chain(state_change)
    assert [step.node for step in chain.steps] == ["peer-2", "peer-3"]
    assert (chain.end, chain.says) == (End.TIMER, "silence peer-1")


def test_lost_link_to_a_restarted_peer_is_not_due_to_its_crash() -> None:
    history = History()
    history.add("world", e.FaultInjected("f1", "crash", "peer-3", "peer-3", False))
    history.add("peer-3", e.NodeStarted("peer", 3, {}))
    history.add("peer-3", following(1))
    lost = history.add("peer-1", looking(1, link_cause(3)))

    assert history.types(lost) == ["peer_state_changed"]
    assert (history.chain(lost).end, history.chain(lost).says) == (End.FAULT, "link peer-3")


def test_lost_link_is_caused_by_a_kill_that_is_journaled_later() -> None:
    """A lost connection is traced to the kill of a peer, even if the kill is journaled later.

    The host journals the kill after another peer has noticed it. The killed peer was LOOKING for some time after its
    start.
    """
    history = History()
    history.add("peer-3", looking(3, "start"))
    history.add("peer-3", following(3))
    lost = history.add("peer-1", looking(1, link_cause(3)))
    history.add("host-1", e.ProcessChanged("peer-3", "down", None, "kill"))

    assert history.types(lost) == ["peer_state_changed", "process_changed"]
    assert history.chain(lost).end is End.FAULT


def test_applied_request_fault_is_caused_by_its_injection() -> None:
    history = History()
    history.add("host-1", e.FaultInjected("f1", "request", "Produce: close, once", "broker-1", False))
    use = history.add("broker-1", e.RequestFaultApplied("f1", "Produce", "shop", "", "close", 1, fault_cause("f1")))

    assert history.types(use) == ["request_fault_applied", "fault_injected"]
    assert history.chain(use).end is End.FAULT


def test_cause_chain_of_an_unjournaled_fault_ends_at_the_fault() -> None:
    history = History()
    use = history.add("broker-1", e.RequestFaultApplied("f1", "Produce", "shop", "", "close", 1, fault_cause("f1")))

    assert (history.chain(use).end, history.chain(use).says) == (End.FAULT, "fault f1")


def test_zombie_resignation_is_caused_by_its_session_end() -> None:
    history = History()
    history.add("peer-1", e.SessionExpired(9, 6_000))
    history.add("peer-1", e.SessionClosed(9, 0x1_0000_0007, ["/controller"], expiry_cause(9)))
    resigned = history.add("broker-1", e.ControllerResigned(1, 3, "controller_moved", owner_cause(9)))

    assert history.types(resigned) == ["controller_resigned", "session_closed", "session_expired"]
    assert history.chain(resigned).end is End.TIMER


PAUSED = e.FaultInjected("f1", "pause", "broker-1", "broker-1", False)
CUT = e.FaultInjected("f2", "cut", "broker-1", "peer-3", False)
KILLED = e.ProcessChanged("broker-1", "down", None, "kill")
STARTED = e.NodeStarted("broker", 1, {})


def expired_after(*events: tuple[int, str, Event], heard_ms_ago: int = 6_300, heard_by: int = 3) -> Chain:
    """Return the chain of causes of the expiry of broker-1's session at 20 s.

    `events` are the earlier events, as (time in ms, node, event).
    """
    causes = Causes()
    expired = e.SessionExpired(9, 6_000, heard_ms_ago, heard_by)
    each = [(0, "broker-1", e.BrokerRegistered(1, 24, 9)), *events, (20_000, "peer-1", expired)]
    entries = [Entry(node, seq, ms * 1000, ms * 1000, event, seq) for seq, (ms, node, event) in enumerate(each, 1)]
    for entry in entries:
        causes.see(entry)
    return causes.chain(entries[-1])


@pytest.mark.parametrize(
    "event",
    [
        PAUSED,
        CUT,
        e.FaultInjected("f1", "crash", "broker-1", "broker-1", False),
        e.ProcessChanged("broker-1", "paused", 17, "pause"),
        KILLED,
    ],
)
def test_session_expiry_is_caused_by_a_fault_after_the_last_ping(event: Event) -> None:
    chain = expired_after((14_000, "world", event))
    assert [step.event for step in chain.steps[1:]] == [event]
    assert chain.end is End.FAULT


def test_session_expiry_after_restarts_is_caused_by_first_kill() -> None:
    """The expiry of a session is caused by the first kill of its process, not by later ones.

    A new process opens a new session. The old session receives nothing after the first kill.
    """
    again = (16_000, "host-1", KILLED), (17_000, "broker-1", STARTED)
    chain = expired_after((14_000, "host-1", KILLED), (15_000, "broker-1", STARTED), *again)
    assert [(step.wall_us, step.event) for step in chain.steps[1:]] == [(14_000_000, KILLED)]
    assert chain.end is End.FAULT


def test_fault_just_before_an_expiry_is_not_its_cause() -> None:
    """A fault is the cause of an expiry only if it began at least a third of the session timeout before.

    The session timeout is 6,000 ms, so the fault must be at least 2,000 ms earlier.
    """
    assert expired_after((18_000, "world", PAUSED), heard_ms_ago=-1, heard_by=0).end is End.FAULT
    assert expired_after((18_001, "world", PAUSED), heard_ms_ago=-1, heard_by=0).end is End.TIMER


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([(18_000, "world", PAUSED)], id="it was silent long before"),
        pytest.param([(14_000, "world", PAUSED), (15_000, "world", e.FaultRemoved("f1"))], id="it went on"),
        pytest.param([(14_000, "world", CUT), (15_000, "world", e.FaultRemoved("f2"))], id="the link was repaired"),
        pytest.param(
            [(9_000, "host-1", KILLED), (10_000, "broker-1", STARTED)], id="it was started before the last ping",
        ),
        pytest.param([(14_000, "world", msgspec.structs.replace(PAUSED, target="broker-2"))], id="another stood still"),
        pytest.param([(14_000, "world", msgspec.structs.replace(CUT, target="peer-2"))], id="another link was cut"),
        pytest.param(
            [(14_000, "world", msgspec.structs.replace(CUT, source="peer-3", target="broker-1"))], id="its words came"
        ),
        pytest.param(
            [(9_000, "host-1", CUT), (10_000, "host-1", e.NodeStarted("host", 1, {}))], id="who held the cut is gone"
        ),
    ],
)  # fmt: skip
def test_cause_chain_of_an_unexplained_expiry_ends_at_its_timer(events: list[tuple[int, str, Event]]) -> None:
    chain = expired_after(*events)
    assert (len(chain.steps), chain.end, chain.says) == (1, End.TIMER, "timer session-expiry")


def test_expiry_is_caused_by_the_fault_nearest_to_the_last_ping() -> None:
    both_ways = msgspec.structs.replace(CUT, both_ways=True)
    chain = expired_after((1_000, "world", both_ways), (13_500, "world", PAUSED))
    assert [step.event for step in chain.steps[1:]] == [PAUSED]
    alone = expired_after((1_000, "world", both_ways))
    assert [step.event for step in alone.steps[1:]] == [both_ways]


CUT_FROM_LEADER = e.FaultInjected("f1", "cut", "broker-3", "broker-1", True)


def leaving(*replicas: int, events: Sequence[Event] = (CUT_FROM_LEADER,)) -> Chain:
    """Return the causes of broker 1's proposal to remove these followers from the ISR.

    `events` precede the proposal. By default, the link to broker 3 is partitioned.
    """
    history = History()
    for event in events:
        history.add("world", event)
    moved = [e.ReplicaStanding(replica, 90, 120, 90, 0, 10_000) for replica in replicas]
    isr = [each for each in (1, 2, 3) if each not in replicas]
    proposed = e.IsrProposed(1, "orders", 0, isr, 4, 6, "lag", moved, timer_cause("isr-expiration"))
    return history.chain(history.add("broker-1", proposed))


def test_isr_shrink_is_caused_by_a_cut_link_to_the_leader() -> None:
    assert [step.node for step in leaving(3).steps] == ["broker-1", "world"]
    assert leaving(3).end is End.FAULT


def test_follower_that_receives_no_responses_counts_as_silent() -> None:
    one_way = e.FaultInjected("f1", "cut", "broker-1", "broker-3", False)
    assert leaving(3, events=[one_way]).end is End.FAULT


FETCH_FAULT = e.FaultInjected("f9", "request", "Fetch client_id=broker-3: drop_request", "broker-1", False)
FETCH_LOST = e.RequestFaultApplied("f9", "Fetch", "broker-3", "orders-0", "drop_request", 1, fault_cause("f9"))


def shrink_under_a_request_fault(*later: Event, client: str = "broker-3") -> Chain:
    """Return the causes of broker 1's proposal to remove broker 3 from the ISR.

    Before the proposal, a request fault is injected into fetches of `client`. The events in `later` follow the fault.
    """
    history = History()
    history.add("host-1", FETCH_FAULT)
    history.add("broker-1", msgspec.structs.replace(FETCH_LOST, client=client))
    for event in later:
        history.add("host-1", event)
    moved = [e.ReplicaStanding(3, 90, 120, 90, 0, 10_000)]
    proposed = e.IsrProposed(1, "orders", 0, [1, 2], 4, 6, "lag", moved, timer_cause("isr-expiration"))
    return history.chain(history.add("broker-1", proposed))


def test_isr_shrink_is_caused_by_a_request_fault() -> None:
    chain = shrink_under_a_request_fault()
    assert [type(step.event) for step in chain.steps] == [e.IsrProposed, e.RequestFaultApplied, e.FaultInjected]
    assert chain.end is End.FAULT


def test_session_expiry_is_caused_by_the_cut_link_of_its_client() -> None:
    history = History()
    history.add("host-1", e.FaultInjected("f9", "cut", "session:0xab", "*", True))
    history.add("peer-1", e.LinkFaultApplied("f9", "cut", "0xab", "10.0.0.7:40000", fault_cause("f9")))
    expired = e.SessionExpired(0xAB, 6000, 4, 1)
    assert history.types(history.add("peer-3", expired)) == ["session_expired", "link_fault_applied", "fault_injected"]


def test_removed_request_fault_does_not_cause_an_isr_shrink() -> None:
    assert shrink_under_a_request_fault(e.FaultRemoved("f9")).end is End.TIMER
    assert shrink_under_a_request_fault(client="broker-2").end is End.TIMER


def test_isr_shrink_of_two_followers_needs_a_fault_for_each() -> None:
    assert (leaving(2, 3).end, leaving(2, 3).says) == (End.TIMER, "timer isr-expiration")


def test_isr_shrink_by_unrelated_faults_is_caused_by_the_timer() -> None:
    stopped = e.FaultInjected("f2", "pause", "broker-2", "broker-2", False)
    assert leaving(2, 3, events=[CUT_FROM_LEADER, stopped]).end is End.TIMER
    assert leaving(2, events=[CUT_FROM_LEADER, stopped]).end is End.FAULT


@pytest.mark.parametrize(
    "event", [e.LeaderEstablished(1, 2, 5, [1, 2]), e.ControllerResigned(1, 3, "controller_moved")]
)
def test_election_or_resignation_without_cause_is_reported(event: Event) -> None:
    history = History()
    history.add("peer-1", event)
    assert len(broken_chains(history.entries)) == 1


def test_start_event_refers_to_the_last_start_of_the_same_node() -> None:
    history = History()
    history.add("broker-2", e.NodeStarted("broker", 2, {}))
    history.add("broker-3", e.NodeStarted("broker", 3, {}))
    won = history.add("broker-2", e.ControllerElected(2, 1, 1, 0x50, START))
    assert [step.node for step in history.chain(won).steps] == ["broker-2", "broker-2"]
    assert history.chain(won).end is End.START


def test_unparsable_ephemeral_in_brokers_ids_is_no_registration() -> None:
    """An ephemeral in /brokers/ids whose name is not a broker id does not count as a registration.

    Its name is a number with 5,000 digits, which Python does not parse.
    """
    effect = Entry("peer-1", 2, 2, 2, e.EpochAccepted(1))
    causes = Causes()
    causes.see(Entry("peer-1", 1, 1, 1, e.EphemeralCreated("/brokers/ids/" + "9" * 5_000, 7, 9)))
    causes.see(effect)
    assert causes.chain(effect).end is End.UNKNOWN


def test_transaction_without_a_zxid_has_no_cause() -> None:
    assert transaction_cause(0) == transaction_cause(-1) == ""


def test_decision_with_a_missing_or_later_cause_is_reported() -> None:
    history = History()
    history.add("broker-2", e.ControllerElected(2, 1, 1, 0x50))
    history.add("broker-2", elected(7, 1, event_cause("broker-2", 3)))
    history.add("broker-2", e.AdminRequested("ElectLeaders", [], ""))
    history.add("broker-2", elected(8, 1, event_cause("broker-2", 3)))
    found = broken_chains(history.entries)
    assert [violation.node_seq for violation in found] == [1, 2]


def followed(leader_epoch: int, topic: str = "orders") -> e.FollowershipTaken:
    return e.FollowershipTaken(1, topic, 0, 3, leader_epoch, 10, election_cause(ORDERS, leader_epoch))


@pytest.mark.parametrize(
    ("effect", "names"),
    [
        (e.SessionExpired(0xA1, 6000), e.SessionClosed(0xB2, 0x9, [], expiry_cause(0xA1))),
        (followed(7, "payments"), e.LogTruncated(1, "orders", 0, 9, 6, 7, event_cause("broker-1", 1))),
        (followed(6), e.LogTruncated(1, "orders", 0, 9, 6, 7, event_cause("broker-1", 1))),
        (
            e.IsrProposed(1, "orders", 0, [1, 3], 4, 7, "lag", [], timer_cause("isr-expiration")),
            e.IsrChanged("orders", 0, [1, 2], 1, 4, 8, "lag", left=[3], caused_by=proposal_cause(ORDERS, 7)),
        ),
        (e.AdminRequested("ElectLeaders", [], ""), elected(7, 1, request_cause("Nonsense"))),
        (e.AdminRequested("ElectLeaders", [], ""), e.ControllerElected(1, 1, 1, 0x50, transaction_cause(0x50))),
        (followed(7), e.RecordsLost(1, "orders", 0, 6, 8, 3, 3, "diverging_epoch", START)),
    ],
)
def test_cause_that_does_not_match_its_effect_is_reported(effect: Event, names: Event) -> None:
    history = History()
    history.add("broker-1", effect)
    history.add("broker-1", names)
    assert len(broken_chains(history.entries)) == 1


def test_election_event_with_wrong_candidates_is_reported() -> None:
    history = History()
    good = elected(7, 1, timer_cause("auto-leader-rebalance"))
    for rows in ([(1, "not_alive"), (3, "elected")], [(1, "elected"), (2, "available"), (3, "available")]):
        history.add("broker-3", msgspec.structs.replace(good, candidates=rows))
    history.add("broker-3", msgspec.structs.replace(good, candidates=[(1, "x"), (2, "x"), (3, "elected")]))
    assert [violation.node_seq for violation in broken_chains(history.entries)] == [1, 2]


def test_checker_knows_every_request_that_can_be_a_cause() -> None:
    given = set()
    for package in ("controller", "broker_sim", "ensemble"):
        for path in (ROOT / package).rglob("*.py"):
            given |= set(re.findall(r'(?:request_cause|signals\.request)\(\s*"([^"]+)"', path.read_text()))

    assert len(given) > 10
    assert given - REQUESTS == set()
