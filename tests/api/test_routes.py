"""The HTTP routes: response shapes, the source of each field, and a problem document for every error."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.api_server import Server
from zabka.agent.protocol import JournalChunk, Position
from zabka.api.http.problems import ERRORS_MAX
from zabka.api.routes.topics import SETTLE_S
from zabka.api.views.ensemble_view import eligible_by
from zabka.api.views.models import KEYS_MAX
from zabka.journal.events import (
    BrokerSessionChanged,
    ControllerBelieved,
    ControllerElected,
    EpochAccepted,
    Event,
    IsrChanged,
    PeerStateChanged,
    ProcessChanged,
    TransactionChanged,
    ZxidCheckpoint,
)
from zabka.journal.writer import encode_line
from zabka.kafka.zk.znodes import LeaderAndIsr, encode_partition_state

V1 = "/api/v1"


def test_broker_with_a_stale_belief_is_shown_with_its_belief(server: Server, http: httpx.Client) -> None:
    server.agent.set_status(
        "broker-2", 4_000, is_controller=True, believes={"controller_id": 2, "controller_epoch": 2, "age_ms": 5},
        session={"id": 1, "state": "suspended"},
    )  # fmt: skip
    found = http.get(f"{V1}/brokers/2").json()

    assert found["is_controller"] is True
    assert (found["believes"]["controller_id"], found["believes"]["controller_epoch"]) == (2, 2)
    assert found["believes"]["age_ms"] >= 4_000
    assert found["registered"] is True
    assert found["broker_epoch"] == 26
    assert found["session_state"] == "suspended"
    assert http.get(f"{V1}/controller").json()["broker_id"] == 1


def test_newer_journal_event_overrides_an_older_node_status(server: Server, http: httpx.Client) -> None:
    server.agent.set_status(
        "broker-1", 60_000, is_controller=False, believes={"controller_id": 3, "controller_epoch": 2}
    )
    line = encode_line("broker-1", 1, time.time_ns() // 1000, 0, ControllerBelieved(1, 1, 3, True))
    server.collect(JournalChunk("broker-1", line, Position("f", 1)))
    found = http.get(f"{V1}/brokers/1").json()

    assert found["is_controller"] is True
    assert found["believes"]["controller_epoch"] == 3


def test_stopped_process_is_neither_controller_nor_leader(server: Server, http: httpx.Client) -> None:
    server.agent.set_status("broker-1", 10, is_controller=True, believes={"controller_id": 1, "controller_epoch": 3})
    server.agent.set_status("peer-1", 10, state="LEADING", phase="BROADCAST", last_zxid=0x100000002, leader_id=1)
    assert http.get(f"{V1}/peers").json()[0]["state"] == "LEADING"
    for path in ("brokers/1", "peers/1"):
        assert http.post(f"{V1}/{path}/kill").json()["process"] == "down"

    assert http.get(f"{V1}/brokers/1").json()["is_controller"] is False
    peer = http.get(f"{V1}/peers/1").json()
    assert (peer["state"], peer["leader_id"], peer["last_zxid"]) == ("DOWN", -1, "0x100000002")


def _journal(server: Server, node: str, *events: Event) -> None:
    """Journal these events on a node, and let the server collect them."""
    begin = server.collector.position(node).after + 1
    now_us = time.time_ns() // 1000
    lines = b"".join(encode_line(node, number, now_us, 0, event) for number, event in enumerate(events, begin))
    server.collect(JournalChunk(node, lines, Position("f", begin)))


def _lived(server: Server) -> None:
    """Journal that peer 1 (process 100) was the leader and broker 1 (process 103) was the controller."""
    _journal(server, "host-1", ProcessChanged("peer-1", "running", 100, "start"))
    _journal(server, "host-1", ProcessChanged("broker-1", "running", 103, "start"))
    _journal(server, "peer-1", PeerStateChanged("LEADING", "BROADCAST", 1, 1, 2, 2, 0x200000001))
    _journal(server, "broker-1", BrokerSessionChanged(1, "connected", 7), ControllerBelieved(1, 1, 3, True))


def _assert_no_status(http: httpx.Client) -> None:
    peer, broker = http.get(f"{V1}/peers/1").json(), http.get(f"{V1}/brokers/1").json()
    assert (peer["process"], peer["state"], peer["phase"], peer["leader_id"]) == ("running", "LOOKING", "ELECTION", -1)
    assert (peer["accepted_epoch"], peer["current_epoch"], peer["last_zxid"]) == (2, 2, None)
    assert (broker["process"], broker["is_controller"], broker["session_state"]) == ("running", False, "closed")
    assert (broker["believes"]["controller_id"], broker["believes"]["age_ms"]) == (-1, None)


def test_restarted_process_does_not_show_its_predecessors_state(server: Server, http: httpx.Client) -> None:
    _lived(server)
    for path, target in (("brokers/1", "broker-1"), ("peers/1", "peer-1")):
        assert http.post(f"{V1}/{path}/kill").json()["process"] == "down"
        _journal(server, "host-1", ProcessChanged(target, "down", None, "kill"))
    peer, broker = http.get(f"{V1}/peers/1").json(), http.get(f"{V1}/brokers/1").json()
    assert (peer["state"], peer["phase"], peer["leader_id"], peer["current_epoch"]) == ("DOWN", "ELECTION", -1, 2)
    assert (broker["is_controller"], broker["session_state"]) == (False, "closed")
    for path in ("brokers/1", "peers/1"):
        assert http.post(f"{V1}/{path}/start").json()["process"] == "running"
    _assert_no_status(http)
    for target in ("broker-1", "peer-1"):
        _journal(server, "host-1", ProcessChanged(target, "running", 7, "start"))
    _assert_no_status(http)


def test_events_of_the_previous_process_do_not_affect_a_new_one(server: Server, http: httpx.Client) -> None:
    """A restarted process does not get the status of its predecessor from the journal.

    The API receives the agent's response before the new journal entries.
    """
    _lived(server)
    for path in ("brokers/1", "peers/1"):
        assert http.post(f"{V1}/{path}/restart").json()["process"] == "running"
    _assert_no_status(http)


def test_last_known_state_is_marked_stale_without_a_quorum(server: Server, http: httpx.Client) -> None:
    server.ensemble.stale = True

    assert http.get(f"{V1}/controller").json()["stale"] is True
    assert http.get(f"{V1}/topics").json()[0]["stale"] is True
    assert http.get(f"{V1}/cluster").json()["quorum"] is False
    ready = http.get("/readyz")
    assert (ready.status_code, ready.json()["missing"]) == (503, ["no quorum"])
    assert http.get("/healthz").status_code == 200
    assert http.post(f"{V1}/topics", json={"name": "t"}).status_code == 503


def test_high_watermarks_and_log_ends_are_read_from_brokers(server: Server, http: httpx.Client) -> None:
    rows = [{"topic": "orders", "partition": 0, "hw": 12, "leo": 14}]
    server.agent.set_status("broker-1", 10, partitions=rows)
    server.agent.set_status("broker-2", 10, partitions=[{**rows[0], "hw": 11, "leo": 12}])
    partition = http.get(f"{V1}/topics/orders").json()["partitions"][0]

    assert partition["high_watermark"] == 12
    assert partition["log_end_offsets"] == {"1": 14, "2": 12}
    assert (partition["leader"], partition["leader_epoch"], partition["partition_epoch"]) == (1, 4, 6)


def test_eligible_leader_replicas_are_listed(server: Server, http: httpx.Client) -> None:
    assert http.get(f"{V1}/topics/orders").json()["partitions"][0]["eligible"] == []
    orders = server.ensemble.reading.topics["orders"]
    server.ensemble.reading.topics["orders"] = orders._replace(
        partitions={0: orders.partitions[0]._replace(eligible=(3,))}
    )
    assert http.get(f"{V1}/topics/orders").json()["partitions"][0]["eligible"] == [3]
    assert http.get(f"{V1}/cluster").json()["topics"][0]["partitions"][0]["eligible"] == [3]


def test_eligible_replicas_expire_when_the_topic_config_changes() -> None:
    state = LeaderAndIsr(1, 4, (1,), 3, eligible=(2,), eligible_by_zxid=77, broker_epoch_seen=5)
    content = encode_partition_state(state)

    assert (eligible_by(content, 77), eligible_by(content, 78), eligible_by(b"{", 77)) == ((2,), (), ())


def test_cluster_with_all_brokers_and_a_controller_is_ready(server: Server, http: httpx.Client) -> None:
    assert http.get("/readyz").json()["missing"] == ["broker 1 has not taken over as controller yet"]
    server.agent.set_status("broker-1", 10, is_controller=True, believes={"controller_id": 1, "controller_epoch": 3})
    assert http.get("/readyz").json() == {"status": "ready", "quorum": True, "controller": 1, "brokers": [1, 2, 3]}
    del server.ensemble.reading.brokers[3]
    assert http.get("/readyz").json()["missing"] == ["broker 3 is not registered"]


def test_readiness_check_polls_again_before_reporting_unready(server: Server, http: httpx.Client) -> None:
    server.agent.set_status("broker-1", 400, is_controller=True, live_brokers=[])
    assert http.get("/readyz").status_code == 503
    server.agent.fresh_statuses["broker-1"] = {"is_controller": True, "live_brokers": [1, 2, 3]}
    assert http.get("/readyz").status_code == 200


def test_faults_are_created_listed_and_reset(server: Server, http: httpx.Client) -> None:
    made = http.post(f"{V1}/faults", json={"from": "broker-1", "to": "*", "kind": "cut"})

    assert made.status_code == 201
    assert made.json() == {"id": made.json()["id"], "from": "broker-1", "to": "*", "kind": "cut", "delay_ms": 0,
                           "bytes_per_s": 0, "both_ways": True, "requester": "HTTP client 127.0.0.1"}  # fmt: skip
    assert http.get(f"{V1}/faults").json() == [made.json()]
    assert http.delete(f"{V1}/faults/{made.json()['id']}").status_code == 204
    assert http.delete(f"{V1}/faults/{made.json()['id']}").status_code == 404
    http.post(f"{V1}/faults", json={"from": "peer-1", "to": "peer-2", "kind": "delay", "delay_ms": 50})
    assert len(http.post(f"{V1}/faults/reset").json()) == 1
    assert server.agent.held == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/nope", None, 404),
        ("PUT", "/api/v1/peers", None, 405),
        ("GET", "/api/v1/brokers/9", None, 404),
        ("GET", "/api/v1/brokers/one", None, 422),
        ("POST", "/api/v1/brokers/9/kill", None, 404),
        ("POST", "/api/v1/peers/1/explode", None, 422),
        ("GET", "/api/v1/topics/nope", None, 404),
        ("POST", "/api/v1/topics", {"name": "a b", "partitions": 1}, 422),
        ("POST", "/api/v1/topics", {"name": "a", "partitions": 0}, 422),
        ("POST", "/api/v1/topics", {"name": "a", "partitions": 1, "assignment": {"0": [1]}}, 422),
        ("POST", "/api/v1/topics", {"name": "orders", "partitions": 1}, 409),
        ("POST", "/api/v1/topics", {"name": "a", "assignment": {"0": [1 << 31]}}, 422),
        ("POST", "/api/v1/topics", {"name": "a", "assignment": {"0": [1], "00": [2]}}, 422),
        ("POST", "/api/v1/topics", {"name": "a", "partitions": 1, "config": {"k": "\ud800"}}, 422),
        ("PATCH", "/api/v1/topics/orders/config", {"\ud800": "1"}, 422),
        ("POST", "/api/v1/elections", {"type": "UNCLEAN", "partitions": [{"topic": "t", "partition": 1 << 31}]}, 422),
        ("POST", "/api/v1/elections", {"type": "UNCLEAN", "partitions": [{"topic": "\ud800", "partition": 1}]}, 422),
        ("DELETE", "/api/v1/topics/nope", None, 404),
        ("PATCH", "/api/v1/topics/nope/config", {"a": "b"}, 404),
        ("POST", "/api/v1/elections", {"type": "RIGGED"}, 422),
        ("POST", "/api/v1/workloads", {"topic": "nope", "records_per_s": 10}, 404),
        ("POST", "/api/v1/workloads", {"topic": "t", "acks": "2"}, 422),
        ("POST", "/api/v1/workloads", {"topic": "t", "kind": "consumer"}, 422),
        ("POST", "/api/v1/workloads", {"topic": "t", "group": "g"}, 422),
        ("POST", "/api/v1/workloads", {"topic": "t", "kind": "consumer", "group": "a/b"}, 422),
        ("GET", "/api/v1/workloads/w9", None, 404),
        ("POST", "/api/v1/faults", {"from": "broker-1", "to": "broker-1", "kind": "cut"}, 422),
        ("POST", "/api/v1/faults", {"from": "broker-1", "to": "peer-1", "kind": "delay"}, 422),
        ("GET", "/api/v1/znodes/no/such", None, 404),
        ("GET", "/api/v1/znodes/a%00b", None, 400),
        ("GET", "/api/v1/journal?limit=100001", None, 422),
        ("GET", "/api/v1/journal?after=-1", None, 422),
        ("GET", "/api/v1/analytics/availability", None, 404),
        ("GET", "/api/v1/analytics/..%2f..%2fetc", None, 404),
        ("GET", "/api/v1/analytics/DROP", None, 422),
    ],
)
def test_every_error_response_is_a_problem_document(
    http: httpx.Client, method: str, path: str, body: Any, status: int
) -> None:
    content = None if body is None else json.dumps(body)  # JSON in ASCII can contain half a surrogate pair.
    answer = http.request(method, path, content=content, headers={"content-type": "application/json"})

    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["detail"]
    assert problem["title"]
    assert problem["instance"] == httpx.URL(path).path


def test_action_invalid_in_the_current_state_returns_409(http: httpx.Client) -> None:
    assert http.post(f"{V1}/brokers/1/kill").status_code == 202
    again = http.post(f"{V1}/brokers/1/kill")

    assert (again.status_code, again.json()["detail"]) == (409, "cannot kill broker-1: it is down")


def test_fault_records_the_requester_from_the_request_header(server: Server, http: httpx.Client) -> None:
    named = {"zabka-requester": "drill 7"}
    assert http.post(f"{V1}/brokers/1/pause", headers=named).status_code == 202
    assert http.post(f"{V1}/peers/1/kill").status_code == 202
    assert server.agent.requesters == ["drill 7", "HTTP client 127.0.0.1"]
    cut = {"from": "broker-1", "to": "peer-1", "kind": "cut"}
    assert http.post(f"{V1}/faults", json=cut, headers=named).json()["requester"] == "drill 7"
    assert http.post(f"{V1}/faults", json=cut, headers={"zabka-requester": "x" * 101}).status_code == 422
    assert http.post(f"{V1}/faults", json={**cut, "requester": "x"}).status_code == 422


def test_config_values_accept_json_numbers_and_booleans(server: Server, http: httpx.Client) -> None:
    patched = http.patch(f"{V1}/topics/orders/config", json={"unclean.leader.election.enable": True, "x": 2})
    assert patched.json()["config"] == {"unclean.leader.election.enable": "true", "x": "2"}
    assert http.patch(f"{V1}/topics/orders/config", json={"x": None}).json()["config"] == {
        "unclean.leader.election.enable": "true"
    }


def test_binary_znode_is_returned_in_base64(http: httpx.Client) -> None:
    found = http.get(f"{V1}/znodes/controller").json()

    assert (found["encoding"], found["data"]) == ("base64", "/wA=")
    assert found["stat"]["ephemeral_owner"] == "0xffffffffffffffff"


def test_error_for_a_missing_pipeline_table_contains_the_command(http: httpx.Client) -> None:
    assert "zabka pipeline tables --data" in http.get(f"{V1}/analytics/availability").json()["command"]


def test_pipeline_table_is_read_from_parquet(server: Server, http: httpx.Client, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory = tmp_path / "analytics" / "controller_reigns"
    directory.mkdir(parents=True)
    pq.write_table(pa.table({"broker_id": [1, 2], "epoch": [1, 2]}), directory / "part-0.parquet")
    found = http.get(f"{V1}/analytics/controller_reigns?limit=1").json()

    assert (found["columns"], found["total"]) == (["broker_id", "epoch"], 2)
    assert found["rows"] == [{"broker_id": 2, "epoch": 2}]
    assert found["lag_ms"] is None
    status = tmp_path / "analytics" / "_status.json"
    status.write_text('{"batch":1,"latest_us":4000000000000000,"written_us":4000000001400000}')
    found = http.get(f"{V1}/analytics/controller_reigns?limit=1").json()
    assert (found["lag_ms"], found["written_ms"]) == (1_400, 4_000_000_001_400)
    status.write_text("{")
    assert http.get(f"{V1}/analytics/controller_reigns").json()["lag_ms"] is None


# ---- the journal ------------------------------------------------------------------------------------------------


def fill(server: Server, count: int) -> None:
    lines = b"".join(encode_line("peer-1", i, i, 0, EpochAccepted(i)) for i in range(1, count + 1))
    server.collect(JournalChunk("peer-1", lines, Position("f", 1)))


def test_journal_events_after_a_seq_are_returned_as_an_array(server: Server, http: httpx.Client) -> None:
    fill(server, 20)

    assert [e["seq"] for e in http.get(f"{V1}/journal").json()] == list(range(1, 21))
    page = http.get(f"{V1}/journal?after=5&limit=2").json()
    assert [(e["seq"], e["node_seq"], e["type"], e["schema"]) for e in page] == [
        (6, 6, "epoch_accepted", 1),
        (7, 7, "epoch_accepted", 1),
    ]


def test_history_search_returns_the_newest_matches(server: Server, http: httpx.Client) -> None:
    events: list[Event] = [
        EpochAccepted(1),
        EpochAccepted(2),
        *[ZxidCheckpoint(n, 0, 0, 0) for n in range(40)],
        EpochAccepted(3),
    ]
    lines = b"".join(encode_line("peer-1", i, i, 0, event) for i, event in enumerate(events, 1))
    server.collect(JournalChunk("peer-1", lines, Position("f", 1)))

    def seqs(query: str) -> list[int]:
        return [e["seq"] for e in http.get(f"{V1}/journal?{query}").json()]

    assert seqs("until=42&limit=2&not_types=zxid_checkpoint,txn_logged") == [1, 2]
    assert seqs("until=42&limit=3") == [40, 41, 42]
    assert seqs("until=1000&limit=2&not_types=zxid_checkpoint") == [2, 43]
    assert seqs("until=0") == []


def test_json_is_compressed_on_request_but_streams_are_not(server: Server, http: httpx.Client) -> None:
    fill(server, 50)
    assert http.get(f"{V1}/journal").headers["content-encoding"] == "gzip"
    assert "content-encoding" not in http.get(f"{V1}/journal", headers={"accept-encoding": "identity"}).headers
    with http.stream("GET", f"{V1}/events?after=1") as answer:
        assert "content-encoding" not in answer.headers


def test_request_for_deleted_events_returns_410_and_oldest_seq(server: Server, http: httpx.Client) -> None:
    fill(server, 150)

    for path in ("journal", "events"):
        answer = http.get(f"{V1}/{path}?after=3")
        assert (answer.status_code, answer.json()["oldest"]) == (410, 51)
    assert http.get(f"{V1}/events", headers={"Last-Event-ID": "3"}).status_code == 410
    assert http.get(f"{V1}/events", headers={"Last-Event-ID": "x"}).status_code == 422
    assert http.get(f"{V1}/journal?limit=1").json()[0]["seq"] == 51


def test_stream_sends_past_events_and_then_new_ones(server: Server, http: httpx.Client) -> None:
    fill(server, 3)
    ids: list[str] = []
    with http.stream("GET", f"{V1}/events?after=1") as answer:
        for line in answer.iter_lines():
            if line.startswith("id: "):
                ids.append(line)
                if line == "id: 3":
                    fill(server, 4)
            if len(ids) == 3:
                break
    assert ids == ["id: 2", "id: 3", "id: 4"]


def test_metrics_have_the_names_of_the_jmx_exporter(server: Server, http: httpx.Client) -> None:
    server.agent.set_status("broker-1", 10, is_controller=True, believes={"controller_id": 1, "controller_epoch": 3})
    events = [ControllerElected(1, 3, 3), IsrChanged("orders", 0, [1, 2, 3], 1, 4, 5, "caught_up"),
              IsrChanged("orders", 0, [1, 2], 1, 4, 6, "lag"),
              TransactionChanged(1, "id", "Ongoing", 7, 0, ["orders-0"], "partitions added", started_ms=100),
              TransactionChanged(1, "id", "PrepareAbort", 7, 0, ["orders-0"], "timed out")]  # fmt: skip
    lines = b"".join(encode_line("broker-1", i, i, 0, event) for i, event in enumerate(events, 1))
    server.collect(JournalChunk("broker-1", lines, Position("f", 1)))
    text = http.get("/metrics").text

    assert 'kafka_controller_kafkacontroller_activecontrollercount{broker="1"} 1.0' in text
    assert "kafka_controller_kafkacontroller_offlinepartitionscount 0.0" in text
    assert 'kafka_server_replicamanager_underreplicatedpartitions{broker="1"} 1.0' in text
    assert 'kafka_server_replicamanager_isrshrinks_total{broker="1"} 1.0' in text
    assert "zabka_transactions_begun_total 1.0" in text
    assert 'zabka_transactions_ended_total{outcome="timed_out"} 1.0' in text
    assert 'zabka_transactions_ended_total{outcome="committed"} 0.0' in text
    assert "zk_quorum_size 3.0" in text


@pytest.mark.parametrize(("value", "least"), [("two", 1), ("", 1), ("9" * 5_000, 1), ("-3", 1), (" 3 ", 3)])
def test_metrics_parse_min_insync_replicas_as_brokers_do(
    server: Server, http: httpx.Client, value: str, least: int
) -> None:
    topic = server.ensemble.reading.topics["orders"]
    server.ensemble.reading.topics["orders"] = topic._replace(config={"min.insync.replicas": value})

    line = f'kafka_server_replicamanager_underminisrpartitioncount{{broker="1"}} {1.0 if least > 2 else 0.0}'
    assert line in http.get("/metrics").text.splitlines()


def test_status_of_a_dead_process_is_not_reported(server: Server, http: httpx.Client) -> None:
    server.agent.set_status(
        "broker-2", 10, state="running", controller_metrics={"KafkaController": {"ControllerState": 1}}
    )
    gauge = 'kafka_controller_kafkacontroller_controllerstate{broker="2"} 1.0'
    assert http.get(f"{V1}/brokers/2").json()["status"]["state"] == "running"
    assert gauge in http.get("/metrics").text

    assert http.post(f"{V1}/brokers/2/kill").status_code == 202
    found = http.get(f"{V1}/brokers/2").json()
    assert (found["process"], found["status"]) == ("down", {})
    assert gauge not in http.get("/metrics").text


def test_metrics_report_that_the_ensemble_data_is_stale(server: Server, http: httpx.Client) -> None:
    assert "zabka_ensemble_reading_stale 0.0" in http.get("/metrics").text.splitlines()
    server.ensemble.stale = True
    lines = http.get("/metrics").text.splitlines()
    assert "zabka_ensemble_reading_stale 1.0" in lines
    assert any(line.startswith("zabka_ensemble_reading_age_seconds ") for line in lines)


# ---- documents for API clients ----------------------------------------------------------------------------------


def test_openapi_document_describes_every_route(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    schemas = document["components"]["schemas"]

    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            where = f"{method} {path}"
            assert operation["summary"], where
            assert operation["tags"], where
            assert operation["description"], where
            errors = {s for s in operation["responses"] if s.startswith(("4", "5"))}
            assert "400" in errors, where
            for status in errors:
                assert list(operation["responses"][status]["content"]) == ["application/problem+json"], where
            if method != "get":
                assert {"401", "403"} <= errors, where
            # Every number is a valid seed, and the kinds of jobs are an enumeration (422), so these have no 404.
            if "{" in path and not any(part in path for part in ("topics", "{seed}", "{kind}")):
                assert "404" in errors, where
    for name in ("Peer", "Broker", "Controller", "Topic", "Workload", "FaultView", "Znode", "ProblemDocument",
                 "NewTopic", "NewElection", "NewWorkload", "NewFault", "ElectionResult", "ProcessResult", "Scenario",
                 "NewScenarioRun", "ScenarioRun"):  # fmt: skip
        assert schemas[name]["example"], name


def test_docs_page_lists_every_route_and_loads_no_external_files(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    answer = http.get("/docs")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in answer.text
    for name in document["components"]["schemas"]:
        assert f'<h3 id="{name}">' in answer.text
    assert re.search(r"<(script|img|iframe|style)|src=|style=", answer.text) is None
    assert re.findall("<link[^>]*>", answer.text) == ['<link rel="icon" type="image/svg+xml" href="/web/icon.svg">']
    assert http.get("/web/icon.svg").headers["content-type"].startswith("image/svg+xml")
    targets = set(re.findall(r'href="([^"]*)"', answer.text))
    assert {target for target in targets if not target.startswith("#")} == {"/", "/openapi.json", "/web/icon.svg"}
    assert {target[1:] for target in targets if target.startswith("#")} <= document["components"]["schemas"].keys()


def test_page_is_served_with_a_strict_content_security_policy(http: httpx.Client) -> None:
    answer = http.get("/")

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert "unsafe-inline" not in answer.headers["content-security-policy"]
    library = http.get("/lib/lit-html/lit-html.js")
    assert library.headers["content-type"].startswith("text/javascript")


def test_change_requests_need_the_configured_token(tmp_path: Path) -> None:
    with Server(tmp_path, token="secret") as running, httpx.Client(base_url=running.url, trust_env=False) as client:
        assert client.get(f"{V1}/peers").status_code == 200
        assert client.post(f"{V1}/peers/1/kill").status_code == 401
        allowed = client.post(f"{V1}/peers/1/kill", headers={"Authorization": "Bearer secret"})
        assert allowed.status_code == 202


def test_generated_requests_get_the_documented_responses(server: Server, tmp_path: Path) -> None:
    server.agent.set_status("broker-1", 10, is_controller=True, believes={"controller_id": 1, "controller_epoch": 3})
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    command = [
        *(str(Path(sys.executable).with_name("schemathesis")), "run", f"{server.url}/openapi.json"),
        *("--checks", checks, "--max-examples", "5", "--phases", "examples,coverage,fuzzing", "--seed", "1"),
        # Skip the event stream, which never ends, and accept 503, the correct response to a change without a quorum.
        *("--exclude-path", "/api/v1/events", "--exclude-path", "/readyz", "--request-timeout", "5"),
        # Schemathesis cannot generate JSON Lines; test_uploads sends malformed bodies.
        *("--exclude-operation-id", "post_run_api_v1_runs_post"),
    ]
    # Schemathesis writes a cache to the working directory.
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_topic_being_deleted_is_neither_offline_nor_imbalanced(server: Server, http: httpx.Client) -> None:
    topics = server.ensemble.reading.topics
    offline = topics["orders"].partitions[0]._replace(leader=-1)
    topics["orders"] = topics["orders"]._replace(partitions={0: offline})
    prefix = "kafka_controller_kafkacontroller_"
    counted = {f"{prefix}offlinepartitionscount 1.0", f"{prefix}preferredreplicaimbalancecount 1.0"}
    assert counted <= set(http.get("/metrics").text.splitlines())
    topics["orders"] = topics["orders"]._replace(deleting=True)
    left = {line.replace("1.0", "0.0") for line in counted}
    assert {*left, f"{prefix}topicstodeletecount 1.0"} <= set(http.get("/metrics").text.splitlines())


# ---- errors in large bodies -------------------------------------------------------------------------------------

MANY = 60_000


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/elections", {"type": "PREFERRED", "partitions": [1] * MANY}),
        ("/topics", {"name": "t", **dict.fromkeys(map(str, range(MANY)))}),
        ("/topics", {"name": "t", "assignment": {str(n): 1 for n in range(MANY)}}),
        ("/topics", {"name": "t", "config": {str(n): [] for n in range(MANY)}}),
        ("/seeds/1/runs", {"settings": {str(n): [] for n in range(MANY)}}),
    ],
)
def test_error_list_for_a_large_invalid_body_is_limited(http: httpx.Client, path: str, body: dict[str, Any]) -> None:
    answer = http.post(f"{V1}{path}", content=json.dumps(body, separators=(",", ":")))

    assert answer.status_code == 422
    assert len(answer.content) < 10_000
    assert 1 <= len(answer.json()["errors"]) <= ERRORS_MAX


def test_validation_errors_over_the_limit_are_counted(http: httpx.Client) -> None:
    wrong = http.post(f"{V1}/topics", json={"name": "t", **dict.fromkeys(map(str, range(ERRORS_MAX + 5)))}).json()

    assert len(wrong["errors"]) == ERRORS_MAX
    assert wrong["detail"].endswith("; and 5 more")


def test_config_with_too_many_keys_is_rejected_immediately(http: httpx.Client) -> None:
    changes = dict.fromkeys(map(str, range(KEYS_MAX + 1)), "1")
    answer = http.patch(f"{V1}/topics/orders/config", json=changes)

    assert answer.status_code == 422
    assert answer.json()["detail"] == f"body: Value error, there are {KEYS_MAX + 1} keys; at most {KEYS_MAX} are taken"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/topics/orders/config", lambda text: {"k": text}),
        ("PATCH", "/topics/orders/config", lambda text: {text: "v"}),
        ("POST", "/topics", lambda text: {"name": "t", "config": {"k": text}}),
        ("POST", "/elections", lambda text: {"type": "PREFERRED", "partitions": [{"topic": text, "partition": 0}]}),
    ],
)
def test_string_too_long_for_kafkas_protocol_is_rejected(
    http: httpx.Client, method: str, path: str, body: Callable[[str], Any]
) -> None:
    """Strings longer than 32,767 characters are rejected, because Kafka's strings have a signed 16-bit length."""
    assert http.request(method, V1 + path, json=body("x" * 32_767)).status_code < 300
    for text, size in (("x" * 32_768, 32_768), ("ä" * 16_384, 32_768)):
        refused = http.request(method, V1 + path, json=body(text))
        assert refused.status_code == 422
        assert f"Kafka's protocol has no text of {size} bytes" in refused.json()["detail"]


def test_empty_config_change_of_a_missing_topic_returns_404(http: httpx.Client) -> None:
    began = time.monotonic()
    answer = http.patch(f"{V1}/topics/nothing/config", json={})

    assert answer.status_code == 404
    assert time.monotonic() - began < SETTLE_S


@pytest.mark.parametrize("group", [".", ".."])
def test_zookeeper_group_with_an_invalid_znode_name_is_rejected(http: httpx.Client, group: str) -> None:
    body = {"topic": "orders", "kind": "consumer", "group": group}
    refused = http.post(f"{V1}/workloads", json={**body, "offsets": "zookeeper"})

    assert refused.status_code == 422
    assert f"this is not a valid znode name: {group}" in refused.json()["detail"]
    # The group name is valid in Kafka. The response is 404 only because the topic does not exist.
    assert http.post(f"{V1}/workloads", json=body).status_code == 404


@pytest.mark.parametrize("path", ["/web/main.js", "/web/sentences.json"])
@pytest.mark.parametrize("byte_range", ["bytes=0-0", "bytes=5-1", "bytes=x", "bytes=99999999-", "lines=1-2", "bytes="])
def test_range_header_is_ignored_for_page_files(http: httpx.Client, path: str, byte_range: str) -> None:
    answer = http.get(path, headers={"range": byte_range})

    assert (answer.status_code, answer.content) == (200, http.get(path).content)
