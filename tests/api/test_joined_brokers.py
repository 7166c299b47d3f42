"""Brokers that joined the ensemble from outside this cluster. The API shows only what their znodes contain."""

from __future__ import annotations

import httpx

from tests.api.api_server import Server
from zabka.api.collector.joined_brokers import JoinedBrokers
from zabka.api.views.ensemble_view import ControllerZnodes, PartitionZnodes, Reading, Registration, TopicZnodes
from zabka.journal.cluster_state import ClusterState
from zabka.journal.events import BrokerRegistered, ControllerElected, Entry, Event, NodeStarted, SessionClosed
from zabka.journal.fold import apply

V1 = "/api/v1"
JOINED = Registration(41, 0x400, "10.0.0.4", 9092)


def test_joined_broker_is_listed_with_details_from_zookeeper(server: Server, http: httpx.Client) -> None:
    server.ensemble.reading.brokers[4] = JOINED
    server.ensemble.reading = server.ensemble.reading._replace(controller=ControllerZnodes(4, 5, 5, None, 99))
    assert [b["id"] for b in http.get(f"{V1}/brokers").json()] == [1, 2, 3, 4]
    found = http.get(f"{V1}/brokers/4").json()
    assert (found["process"], found["pid"], found["session_state"]) == ("unknown", None, "unknown")
    assert (found["registered"], found["broker_epoch"], found["is_controller"]) == (True, 41, True)
    assert (found["host"], found["port"]) == ("10.0.0.4", 9092)
    assert found["believes"] == {"controller_id": -1, "controller_epoch": 0, "age_ms": None}
    assert http.get(f"{V1}/cluster").json()["brokers"][3] == http.get(f"{V1}/brokers/4").json()
    assert http.get("/readyz").json()["brokers"] == [1, 2, 3, 4]
    assert 'activecontrollercount{broker="4"} 1.0' in http.get("/metrics").text


def test_joined_broker_that_left_is_shown_while_it_has_replicas(server: Server, http: httpx.Client) -> None:
    rows = {0: PartitionZnodes((5, 1), 1, 1, (1,), 1, 1)}
    server.ensemble.reading.topics["moved"] = TopicZnodes("moved", "id", {}, rows)
    found = http.get(f"{V1}/brokers/5").json()
    assert (found["process"], found["registered"], found["broker_epoch"]) == ("unknown", False, None)
    assert http.get(f"{V1}/brokers/6").status_code == 404


def test_process_action_on_a_joined_broker_returns_conflict(server: Server, http: httpx.Client) -> None:
    server.ensemble.reading.brokers[4] = JOINED
    answer = http.post(f"{V1}/brokers/4/kill")
    assert (answer.status_code, answer.json()["title"]) == (409, "Conflict")
    assert "was not started by this cluster" in answer.json()["detail"]
    assert http.post(f"{V1}/brokers/9/kill").status_code == 404


# ---- events that the API writes for joined brokers ----------------------------------------------------------------


def a_reading(controller: ControllerZnodes) -> Reading:
    return Reading(controller, {1: Registration(25), 4: JOINED}, {})


def looking(state: ClusterState) -> tuple[JoinedBrokers, list[Event]]:
    reported: list[Event] = []
    return JoinedBrokers([1, 2, 3], reported.append, state), reported


def test_joined_broker_is_reported_once_per_registration() -> None:
    """The API reports a joined broker once per registration, and its election as controller also only once."""
    joined, reported = looking(ClusterState())
    reading = a_reading(ControllerZnodes(4, 7, 7, None, 60))
    joined.report_changes(reading)
    joined.report_changes(reading)
    assert reported == [BrokerRegistered(4, 41, 0x400), ControllerElected(4, 7, 7, 60)]
    reading.brokers[4] = JOINED._replace(broker_epoch=50)
    joined.report_changes(reading)
    assert reported[2:] == [BrokerRegistered(4, 50, 0x400)]


def test_configured_brokers_are_not_reported_as_joined() -> None:
    joined, reported = looking(ClusterState())
    joined.report_changes(Reading(ControllerZnodes(1, 7, 7, None, 60), {1: Registration(25)}, {}))
    assert reported == []


def test_inconsistent_controller_znodes_report_no_election() -> None:
    """The API reports no election if /controller and /controller_epoch were not written in the same transaction."""
    joined, reported = looking(ClusterState())
    joined.report_changes(a_reading(ControllerZnodes(4, 8, 8, None, 0)))
    assert reported == [BrokerRegistered(4, 41, 0x400)]


def test_cluster_events_known_from_the_journal_are_not_repeated() -> None:
    state = ClusterState()
    apply(state, Entry("api", 1, 1, 1, BrokerRegistered(4, 41, 0x400), seq=1))
    apply(state, Entry("api", 2, 2, 2, ControllerElected(4, 7, 7, 60), seq=2))
    joined, reported = looking(state)
    joined.report_changes(a_reading(ControllerZnodes(4, 7, 7, None, 60)))
    assert reported == []


def test_term_of_a_joined_controller_ends_with_its_session() -> None:
    """The API ends the controller's term when its session ends. The state of its process remains unknown."""
    state = ClusterState()
    for seq, (node, event) in enumerate(
        [
            ("broker-1", NodeStarted("broker", 1, {})),
            ("broker-1", BrokerRegistered(1, 25, 0x100)),
            ("api", BrokerRegistered(4, 41, 0x400)),
            ("api", ControllerElected(4, 7, 7, 60)),
            ("peer-1", SessionClosed(0x400, 70, ["/brokers/ids/4", "/controller"])),
        ],
        1,
    ):
        apply(state, Entry(node, seq, seq, seq, event, seq=seq))
    assert (state.controller_id, state.controller_terms[-1].ended_by) == (-1, "session_closed")
    assert (state.brokers[4].process, state.brokers[4].registered) == ("unknown", False)
    assert state.brokers[1].process == "running"
