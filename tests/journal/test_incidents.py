"""Incidents: a first cause and its effects, as table rows and as sentences.

The expected values were computed by hand.
"""

from __future__ import annotations

from typing import Any

from zabka.journal import events as e
from zabka.journal.cause import (
    absence_cause,
    event_cause,
    expiry_cause,
    owner_cause,
    proposal_cause,
    registration_cause,
    request_cause,
    timer_cause,
)
from zabka.journal.events import Entry, Event, TopicPartition
from zabka.journal.incidents import Incident, Outage, Stall, headline, incidents, kind_of, summary, target_of
from zabka.journal.sentence_file import read_sentences

T0 = TopicPartition("t", 0)
KILLED = e.ProcessChanged("broker-1", "down", None, "kill")


class History:
    """Journal entries, each written at a given time in milliseconds."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, at_ms: int, node: str, event: Event) -> Entry:
        node_seq = sum(entry.node == node for entry in self.entries) + 1
        self.entries.append(Entry(node, node_seq, at_ms * 1000, at_ms * 1000, event))
        return self.entries[-1]

    def incidents(self) -> list[Incident]:
        return incidents(self.entries)


def text(incident: Incident) -> list[str]:
    """Return the printed lines of an incident."""
    sentences = read_sentences()
    return [headline(incident, sentences), *summary(incident, sentences)]


def elected(leader: int, leader_epoch: int, isr: list[int], caused_by: str, **fields: Any) -> e.LeaderElected:
    """Return the event that a broker becomes leader of t-0, with replicas 1 to 3.

    The partition epoch is equal to the leader epoch.
    """
    return e.LeaderElected(
        "t", 0, leader, leader_epoch, isr, [1, 2, 3], leader_epoch, 1, fields.pop("unclean", False), "offline",
        zxid=100 + leader_epoch, caused_by=caused_by, **fields,
    )  # fmt: skip


def cluster() -> History:
    """Return the history of a cluster of three brokers. Broker 1 is the controller and leads t-0."""
    history = History()
    for number in (1, 2, 3):
        started = history.add(number, f"broker-{number}", e.NodeStarted("broker", number, {}))
        history.add(10 + number, started.node, e.BrokerRegistered(number, number, 10 + number, "start"))
    history.add(20, "broker-1", e.ControllerElected(1, 1, 1, 90, absence_cause(1)))
    history.add(30, "broker-1", e.ControllerReady(1, 1, 5, 5))
    request = history.add(40, "broker-1", e.AdminRequested("CreateTopics", ["t", "id"], "client"))
    history.add(50, "broker-1", elected(1, 0, [1, 2, 3], event_cause("broker-1", request.node_seq)))
    return history


def killed_controller(history: History) -> None:
    """Add the kill of broker 1 at 10 s, and its effects.

    Its session expires at 16 s, a controller is elected at 16.5 s, and a leader at 17 s.
    """
    history.add(10_000, "host-1", KILLED)
    history.add(16_000, "peer-1", e.SessionExpired(11, 6_000, 6_000, 1))
    history.add(16_010, "peer-1", e.SessionClosed(11, 95, ["/brokers/ids/1", "/controller"], expiry_cause(11)))
    history.add(16_500, "broker-2", e.ControllerElected(2, 2, 2, 96, owner_cause(11)))
    gone = registration_cause(1, 1)
    history.add(16_600, "broker-2", elected(-1, 1, [1, 2, 3], gone))
    history.add(16_900, "broker-2", e.ControllerReady(2, 2, 300, 100))
    history.add(17_000, "broker-2", elected(2, 2, [2, 3], gone))


def test_controller_kill_and_all_its_effects_are_one_incident() -> None:
    history = cluster()
    killed_controller(history)
    (found,) = history.incidents()
    assert (found.number, kind_of(found), target_of(found), found.from_us) == (1, "kill", "broker-1", 10_000_000)
    assert [(each.node, each.at_us) for each in found.expiries] == [("broker-1", 16_000_000)]
    (failover,) = found.failovers
    # The former controller was killed at 10 s. The new controller made its first decision at 16.9 s.
    assert (failover.previous_broker_id, failover.broker_id, failover.gap_us) == (1, 2, 6_900_000)
    assert found.outages == [Outage("t-0", 10_000_000, 17_000_000)]
    assert found.to_us is None, "broker 1 has not returned to the ISR"
    assert text(found) == [
        "00:00:10.000Z broker-1 is down (kill) (host-1#1)",
        "detected after 6,000 ms by peer-1: session 0xb expired after 6000 ms, last contact 6000 ms before, "
        "with server 1 (peer-1#1)",
        "session of broker-1 expired after 6,000 ms",
        "no controller for 6,900 ms; broker 2 is controller after broker 1 (controller epoch 2)",
        "without a leader for 7,000 ms: t-0",
        "ISRs without broker 1 for a time that still lasts: t-0",
        "not recovered yet",
    ]


def test_return_of_the_killed_broker_ends_the_incident() -> None:
    """The incident of a killed broker ends when the broker has returned.

    Its new registration and its return to the ISR are part of the same incident.
    """
    history = cluster()
    killed_controller(history)
    history.add(20_000, "host-1", e.ProcessChanged("broker-1", "running", 7, "start"))
    history.add(20_100, "broker-1", e.NodeStarted("broker", 1, {}))
    history.add(20_200, "broker-1", e.BrokerRegistered(1, 120, 21, "start"))
    history.add(22_000, "broker-2", e.IsrProposed(2, "t", 0, [2, 3, 1], 2, 2, "caught_up", [], request_cause("Fetch")))
    changed = e.IsrChanged("t", 0, [2, 3, 1], 2, 2, 3, "caught_up", 2, 130, left=[], caused_by=proposal_cause(T0, 2))
    history.add(22_500, "broker-2", changed)
    (found,) = history.incidents()
    assert found.to_us == 22_500_000
    assert text(found)[-1] == "recovered after 12,500 ms"


def test_unclean_election_after_a_kill_is_part_of_its_incident() -> None:
    history = cluster()
    history.add(10_000, "host-1", KILLED)
    history.add(16_000, "peer-1", e.SessionExpired(11, 6_000, 6_000, 1))
    history.add(16_010, "peer-1", e.SessionClosed(11, 95, ["/brokers/ids/1"], expiry_cause(11)))
    history.add(17_000, "broker-2", elected(2, 1, [2], registration_cause(1, 1), unclean=True))
    started = history.add(20_000, "broker-1", e.NodeStarted("broker", 1, {}))
    lost = e.RecordsLost(1, "t", 0, 50, 69, 20, 12, "diverging_epoch", event_cause("broker-1", started.node_seq))
    history.add(21_000, "broker-1", lost)
    (found,) = history.incidents()
    assert found.unclean == ["t-0"]
    assert {name: lost.records for name, lost in found.lost.items()} == {"t-0": 20}
    assert "unclean elections: t-0" in text(found)
    assert "lost: 20 records of t-0, at least 12 of them committed" in text(found)
    assert found.acknowledged is None, "no workload wrote to the topic"


def test_each_lost_acknowledged_record_counts_in_one_incident() -> None:
    """Each lost acknowledged record counts in one incident only.

    The workload misses offsets 52 to 54, and seven records from 60 to 90. Six of the seven are in the first incident's
    loss.
    """
    history = cluster()
    lost = [(50, 65, "diverging_epoch"), (60, 99, "offset_out_of_range")]
    for second, (first, last, cause) in zip((10, 30), lost, strict=True):
        history.add(second * 1_000, "host-1", KILLED)
        history.add(second * 1_000 + 100, "host-1", e.ProcessChanged("broker-1", "running", 7, "start"))
        started = history.add(second * 1_000 + 200, "broker-1", e.NodeStarted("broker", 1, {}))
        caused_by = event_cause("broker-1", started.node_seq)
        count = last + 1 - first
        history.add(second * 1_000 + 300, "broker-1", e.RecordsLost(1, "t", 0, first, last, count, 0, cause, caused_by))
    missing = [e.LostSpan(0, 52, 54, 3), e.LostSpan(0, 60, 90, 7)]
    progressed = e.WorkloadProgressed("w", "t", 100, 100, 0, 10, acks="1", missing=missing)
    history.add(40_000, "api-1", progressed)
    first_one, second_one = history.incidents()
    assert (first_one.acknowledged, second_one.acknowledged) == (9, 1)
    assert "lost: 16 records of t-0, 9 acknowledged to workloads" in text(first_one)


def test_link_cut_between_replicas_is_an_incident_of_the_link() -> None:
    history = cluster()
    history.add(10_000, "host-1", e.FaultInjected("f1", "cut", "broker-1", "broker-3", True))
    standing = e.ReplicaStanding(3, 90, 120, 90, 10_000, 10_000)
    timer = timer_cause("isr-expiration")
    history.add(20_100, "broker-1", e.IsrProposed(1, "t", 0, [1, 2], 0, 0, "lag", [standing], timer))
    changed = e.IsrChanged("t", 0, [1, 2], 1, 0, 1, "lag", 1, 130, left=[1, 2, 3], caused_by=proposal_cause(T0, 0))
    history.add(20_200, "broker-1", changed)
    (found,) = history.incidents()
    assert (kind_of(found), target_of(found)) == ("cut", "broker-1 broker-3")
    assert [(each.partition, each.replica, each.from_us) for each in found.removals] == [("t-0", 3, 20_200_000)]
    assert text(found)[-2:] == ["ISRs without broker 3 for a time that still lasts: t-0", "not recovered yet"]


def test_session_expiry_without_known_cause_starts_an_incident() -> None:
    history = cluster()
    history.add(16_000, "peer-1", e.SessionExpired(12, 6_000, 6_000, 1))
    (found,) = history.incidents()
    assert (kind_of(found), target_of(found), found.detected) == ("session_expired", "peer-1", None)
    assert [each.node for each in found.expiries] == ["broker-2"]


def test_headline_of_an_incident_contains_its_time_in_utc() -> None:
    """The headline contains the time of day in UTC.

    The event's time, 1,700,000,028,575 ms after 1970, is 2023-11-14 22:13:48.575 UTC.
    """
    history = cluster()
    history.add(1_700_000_028_575, "peer-1", e.SessionExpired(12, 6_000, -1, 0))
    (found,) = history.incidents()
    assert text(found)[0] == "22:13:48.575Z session 0xc expired after 6000 ms (peer-1#1)"


def test_fault_without_effects_is_not_an_incident() -> None:
    history = cluster()
    history.add(10_000, "host-1", e.FaultInjected("f1", "delay", "broker-1", "broker-3", True, 5))
    history.add(12_000, "host-1", e.FaultInjected("f2", "cut", "broker-1", "peer-1", True))
    history.add(16_000, "peer-1", e.SessionExpired(99, 6_000, 6_000, 1))
    assert history.incidents() == []


def reported(history: History, at_s: int, waited_ms: int, *counts: int, topic: str = "t") -> None:
    """Add an event in which a workload reports that it waited `waited_ms`.

    `counts` are the sent, acknowledged and failed records.
    """
    sent, acknowledged, failed = counts
    event = e.WorkloadProgressed(
        f"w-{topic}", topic, sent, acknowledged, failed, 0, acks="all", running_ms=at_s * 1000, waited_ms=waited_ms
    )
    history.add(at_s * 1000, "api-1", event)
    history.entries.sort(key=lambda entry: entry.wall_us)


def test_workload_waiting_time_is_attributed_to_a_topics_outage() -> None:
    """The time that a workload had to wait is added to the incident in which its topic was unavailable.

    Writes to t wait from 10.5 s to 18 s. The wait of 0.2 s in second 5 was before the kill.
    """
    history = cluster()
    killed_controller(history)
    reported(history, 5, 200, 50, 50, 0)
    reported(history, 9, 200, 90, 90, 0)
    reported(history, 11, 700, 100, 90, 0)
    reported(history, 17, 6_700, 110, 90, 4)
    reported(history, 18, 7_700, 120, 100, 4)
    reported(history, 19, 7_700, 130, 125, 5)
    for at_s in (9, 18):
        reported(history, at_s, 500 * (at_s - 8), 10 * at_s, 10 * at_s, 0, topic="other")
    (found,) = history.incidents()
    assert found.stalls == [Stall("w-t", "t", "all", 10_500_000, 18_000_000, 5)]
    assert "clients: workload w-t (t, acks=all) waited 7,500 ms, 5 records failed" in text(found)


def test_workload_stall_without_a_later_reply_has_no_end() -> None:
    history = cluster()
    killed_controller(history)
    reported(history, 9, 0, 90, 90, 0)
    reported(history, 18, 8_000, 120, 90, 20)
    (found,) = history.incidents()
    assert found.stalls == [Stall("w-t", "t", "all", 10_000_000, None, 20)]
    assert "clients: workload w-t (t, acks=all) waited a time that still lasts, 20 records failed" in text(found)


def test_workload_report_of_an_older_version_counts_no_stall() -> None:
    history = cluster()
    killed_controller(history)
    reported(history, 9, -1, 90, 90, 0)
    reported(history, 18, -1, 120, 90, 20)
    (found,) = history.incidents()
    assert found.stalls == []


def test_planned_stop_is_an_incident_only_if_it_causes_an_outage() -> None:
    history = cluster()
    history.add(10_000, "broker-3", e.NodeStopped("shutdown"))
    history.add(10_100, "broker-1", e.IsrChanged("t", 0, [1, 2], 1, 0, 1, "controller", 1, 120, left=[1, 2, 3],
                                                 caused_by=request_cause("ControlledShutdown")))  # fmt: skip
    assert history.incidents() == []
    history.add(11_000, "broker-1", e.NodeStopped("shutdown"))
    (found,) = history.incidents()
    assert (kind_of(found), target_of(found)) == ("node_stopped", "broker-1")
    assert [outage.partition for outage in found.outages] == ["t-0"]


def test_isolation_from_all_nodes_causes_a_session_expiry() -> None:
    history = cluster()
    history.add(10_000, "host-1", e.FaultInjected("f1", "cut", "broker-1", "*", True, requester="page"))
    history.add(16_000, "peer-1", e.SessionExpired(11, 6_000, 6_000, 1))
    (found,) = history.incidents()
    assert (kind_of(found), target_of(found)) == ("cut", "broker-1 *")
    assert text(found)[1] == "requested by page"
    assert [each.node for each in found.expiries] == ["broker-1"]


def test_follower_lag_is_attributed_to_the_pause_of_its_leader() -> None:
    history = cluster()
    history.add(10_000, "host-1", e.ProcessChanged("broker-1", "paused", 7, "pause"))
    history.add(11_600, "host-1", e.ProcessChanged("broker-1", "running", 7, "resume"))
    standings = [e.ReplicaStanding(number, 90, 91, 90, 1_620, 1_500) for number in (2, 3)]
    timer = timer_cause("isr-expiration")
    history.add(11_610, "broker-1", e.IsrProposed(1, "t", 0, [1], 0, 0, "lag", standings, timer))
    changed = e.IsrChanged("t", 0, [1], 1, 0, 1, "lag", 1, 130, left=[1, 2, 3], caused_by=proposal_cause(T0, 0))
    history.add(11_700, "broker-1", changed)
    (found,) = history.incidents()
    assert (kind_of(found), target_of(found)) == ("pause", "broker-1")
    assert "ISRs without broker 2 for a time that still lasts: t-0" in text(found)


def test_stopping_the_cluster_or_deleting_a_topic_is_no_incident() -> None:
    history = cluster()
    request = history.add(9_000, "broker-1", e.AdminRequested("DeleteTopics", ["t"], "client"))
    history.add(9_100, "broker-1", elected(-1, 1, [1, 2, 3], event_cause("broker-1", request.node_seq)))
    history.add(9_200, "broker-1", e.TopicDeleted("t", request_cause("StopReplica")))
    request = history.add(9_300, "broker-1", e.AdminRequested("CreateTopics", ["t", "id2"], "client"))
    history.add(9_400, "broker-1", elected(1, 0, [1, 2, 3], event_cause("broker-1", request.node_seq)))
    history.add(10_000, "broker-1", e.NodeStopped("shutdown"))
    stopped = e.ProcessChanged("broker-1", "down", None, "stop", "shutdown of the host agent")
    history.add(10_100, "host-1", stopped)
    assert history.incidents() == []


def test_lag_of_a_returning_replica_is_attributed_to_its_kill() -> None:
    """A new lag of a replica that has just returned belongs to the incident of its kill.

    Broker 3 is killed and returns to the ISR of t-0. It leaves that ISR again for 0.1 s before it returns to the ISR of
    u-0.
    """
    history = cluster()
    request = history.add(60, "broker-1", e.AdminRequested("CreateTopics", ["u", "id"], "client"))
    created = e.LeaderElected("u", 0, 1, 0, [1, 3], [1, 3], 0, 1, False, "new_topic", zxid=101,
                              caused_by=event_cause("broker-1", request.node_seq))  # fmt: skip
    history.add(70, "broker-1", created)
    history.add(10_000, "host-1", e.ProcessChanged("broker-3", "down", None, "kill"))
    history.add(16_000, "peer-1", e.SessionExpired(13, 6_000, 6_000, 1))
    history.add(16_010, "peer-1", e.SessionClosed(13, 110, ["/brokers/ids/3"], expiry_cause(13)))

    def changed(at_ms: int, topic: str, isr: list[int], epoch: int, caused_by: str) -> None:
        event = e.IsrChanged(topic, 0, isr, 1, 0, epoch, "", 1, 110 + epoch, caused_by=caused_by)
        history.add(at_ms, "broker-1", event)

    changed(16_100, "t", [1, 2], 1, registration_cause(3, 3))
    changed(16_100, "u", [1], 1, registration_cause(3, 3))
    history.add(20_000, "broker-3", e.NodeStarted("broker", 3, {}))
    changed(21_000, "t", [1, 2, 3], 2, request_cause("Fetch"))
    standing = e.ReplicaStanding(3, 90, 120, 90, -1, 1_500)
    history.add(21_050, "broker-1", e.IsrProposed(1, "t", 0, [1, 2], 0, 2, "lag", [standing], timer_cause("isr")))
    changed(21_060, "t", [1, 2], 3, proposal_cause(T0, 2))
    changed(21_160, "t", [1, 2, 3], 4, request_cause("Fetch"))
    changed(21_200, "u", [1, 3], 2, request_cause("Fetch"))
    (found,) = history.incidents()
    assert (kind_of(found), target_of(found)) == ("kill", "broker-3")
    assert [(each.partition, each.from_us) for each in found.removals] == [
        ("t-0", 16_100_000), ("u-0", 16_100_000), ("t-0", 21_060_000),
    ]  # fmt: skip
