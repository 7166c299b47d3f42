"""Request faults over HTTP and from the command line: creation, hit counts, rejection with a reason, and removal."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import msgspec
import pytest

from tests.api.api_server import Server
from zabka.cli.fault import main
from zabka.ensemble.request_fault import HeldRequestFault
from zabka.ensemble.runtime.link_fault import HeldFault

FAULTS = "/api/v1/faults"
TEXT = "Produce topic=orders: drop_response, once"
LOST = {"kind": "request", "api": "Produce", "topic": "orders", "effect": "drop_response", "times": 1}


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url) as client:
        yield client


def run(server: Server, *arguments: str) -> int:
    return main([*arguments, "--on", server.url])


def test_request_fault_is_created_counted_and_removed(server: Server, http: httpx.Client) -> None:
    made = http.post(FAULTS, json=LOST)
    assert made.status_code == 201
    fault_id = made.json()["id"]
    by = {"id": fault_id, "requester": made.json()["requester"]}
    assert made.json() == {**LOST, **by, "text": TEXT, "matched": 0, "used": 0, "used_by": {}}
    assert server.agent.held == [HeldRequestFault(**LOST, **by)]  # type: ignore[arg-type]

    server.agent.fresh_statuses["broker-1"] = {"request_faults": {fault_id: [3, 1]}}
    server.agent.fresh_statuses["broker-2"] = {"request_faults": {fault_id: [2, 0]}}
    (listed,) = http.get(FAULTS).json()
    assert (listed["matched"], listed["used"], listed["used_by"]) == (5, 1, {"broker-1": 1})

    assert http.delete(f"{FAULTS}/{fault_id}").status_code == 204
    assert server.agent.held == []


def test_request_faults_and_link_faults_are_reset_together(server: Server, http: httpx.Client) -> None:
    http.post(FAULTS, json={"from": "broker-1", "to": "*", "kind": "cut"})
    http.post(FAULTS, json=LOST)
    assert {fault["kind"] for fault in http.get("/api/v1/cluster").json()["faults"]} == {"cut", "request"}
    assert len(http.post(f"{FAULTS}/reset").json()) == 2
    assert server.agent.held == []


def test_client_link_faults_are_created_and_reset(server: Server, http: httpx.Client) -> None:
    made = http.post(FAULTS, json={"from": "client:shop-*", "to": "*", "kind": "bandwidth", "bytes_per_s": 9000})
    assert made.status_code == 201
    assert http.post(FAULTS, json={"from": "*", "to": "10.0.0.7", "kind": "cut", "both_ways": False}).status_code == 201
    held = [HeldFault(**{**msgspec.structs.asdict(fault), "id": "", "requester": ""}) for fault in server.agent.held]
    assert held == [
        HeldFault("client:shop-*", "*", "bandwidth", bytes_per_s=9000, id=""),
        HeldFault("*", "10.0.0.7", "cut", both_ways=False, id=""),
    ]
    assert len(http.post(f"{FAULTS}/reset").json()) == 2


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        (("client:shop", "peer-1"), "ZooKeeper clients have no client id"),
        (("session:0x1", "broker-1"), "brokers have no ZooKeeper sessions"),
        (("client:shop", "broker-9"), "there is no node 'broker-9'"),
        (("localhost", "broker-1"), "clients are client:ID (Kafka), session:0xID (ZooKeeper) or an IP address"),
        (("*", "broker-1"), "there is no node '*'"),
    ],
)
def test_invalid_link_fault_is_rejected(server: Server, http: httpx.Client, ends: tuple[str, str], reason: str) -> None:
    answer = http.post(FAULTS, json={"from": ends[0], "to": ends[1], "kind": "cut"})
    assert answer.status_code == 422
    assert reason in answer.json()["detail"]
    assert server.agent.held == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({**LOST, "effect": "error", "error": "NOT_COORDINATOR"}, "Produce cannot return NOT_COORDINATOR"),
        ({**LOST, "effect": "error"}, "needs error"),
        ({**LOST, "node": "broker-9"}, "there is no node 'broker-9'"),
        ({**LOST, "node": "peer-1"}, "served by brokers"),
        ({**LOST, "topics": "orders"}, "unknown field"),
        ({"kind": "request", "effect": "close", "opcode": "creat"}, "no operation 'creat'"),
    ],
)
def test_invalid_request_fault_is_rejected(
    server: Server, http: httpx.Client, body: dict[str, str], reason: str
) -> None:
    answer = http.post(FAULTS, json=body)
    assert answer.status_code == 422
    assert reason in answer.json()["detail"]
    assert server.agent.held == []


def test_ready_made_fault_set_creates_its_rules(server: Server, http: httpx.Client) -> None:
    made = http.post(f"{FAULTS}/sets/not-leader", json={"topic": "orders", "times": 2})
    assert made.status_code == 201
    assert [(each["api"], each["topic"], each["times"], each["part_of"]) for each in made.json()] == [
        ("Produce", "orders", 2, "not-leader"),
        ("Fetch", "orders", 2, "not-leader"),
    ]
    assert len(server.agent.held) == 2


@pytest.mark.parametrize(
    ("name", "body", "status", "reason"),
    [("lost-ack", {}, 404, "sets are ack-lost"), ("ack-lost", {"group": "g"}, 422, "no request of the set")],
)
def test_invalid_request_for_a_predefined_fault_set_is_rejected(
    http: httpx.Client, name: str, body: dict[str, str], status: int, reason: str
) -> None:
    answer = http.post(f"{FAULTS}/sets/{name}", json=body)
    assert (answer.status_code, reason in answer.json()["detail"]) == (status, True)


def test_ready_made_fault_sets_are_listed_with_their_outages(http: httpx.Client) -> None:
    sets = {each["name"]: each for each in http.get(f"{FAULTS}/sets").json()}
    assert "leader stores the records" in sets["ack-lost"]["imitates"]
    assert sets["ack-lost"]["rules"] == [{"kind": "request", "effect": "drop_response", "api": "Produce", "times": 1}]
    assert "topic" in sets["ack-lost"]["takes"] and "path" in sets["connection-loss-on-create"]["takes"]


# ---- zabka fault ------------------------------------------------------------------------------------------------


def test_command_adds_lists_and_removes_request_faults(
    server: Server, http: httpx.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(server, "add", "--api", "Produce", "--effect", "drop_response", "--topic", "orders", "--times", "1") == 0
    fault_id, text = capsys.readouterr().out.strip().split("  ")
    assert text == TEXT
    server.agent.fresh_statuses["broker-1"] = {"request_faults": {fault_id: [3, 1]}}
    assert run(server, "list") == 0
    assert capsys.readouterr().out == f"{fault_id}  {text}; used 1 of 3 (broker-1 1)\n"
    assert run(server, "remove", fault_id) == 0
    assert run(server, "list") == 0
    assert capsys.readouterr().out == f"removed {fault_id}\nno fault is active\n"


def test_add_command_accepts_fault_set_names_and_link_faults(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(server, "add", "connection-loss-on-create", "--path", "/app/*") == 0
    assert run(server, "add", "--from", "broker-1", "--to", "*", "--kind", "delay", "--delay-ms", "30") == 0
    client = ("--from", "client:shop", "--to", "broker-1", "--one-way")
    assert run(server, "add", *client, "--kind", "bandwidth", "--bytes-per-s", "9000") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[1] for line in lines] == [
        "create path=/app/*: drop_response, once (connection-loss-on-create)",
        "delay 30 ms broker-1 <-> *",
        "bandwidth 9000 bytes/s client:shop -> broker-1",
    ]
    assert run(server, "remove", "--all") == 0
    assert capsys.readouterr().out == "removed 3 faults\n"


def test_command_help_lists_the_ready_made_fault_sets(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["add", "--help"])
    text = "".join(capsys.readouterr().out.split())
    assert "ack-lost,not-leader,coordinator-loading" in text


def test_command_prints_the_ready_made_fault_sets(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(server, "sets") == 0
    assert "ack-lost: The leader stores the records" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("add",), "give the name of a ready set, --api, --opcode or --from"),
        (("add", "--api", "Produce"), "--effect is missing"),
        (("add", "--api", "Prodcue", "--effect", "close"), "brokers serve no 'Prodcue'"),
        (("add", "--api", "Produce", "--effect", "error"), "the effect error needs error"),
        (("add", "--from", "broker-1", "--to", "*"), "needs --from, --to and --kind"),
        (("add", "--from", "broker-1", "--to", "*", "--kind", "cut", "--topic", "t"), "--topic selects requests"),
        (("add", "lost-ack"), "there is no ready set lost-ack"),
        (("remove",), "give the ids of the faults, or --all"),
        (("remove", "f9"), "there is no fault f9"),
    ],
)
def test_request_fault_command_prints_the_reason_of_its_failure(
    server: Server, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], reason: str
) -> None:
    assert run(server, *arguments) == 1
    assert reason in capsys.readouterr().err


def test_fault_command_reports_an_unresponsive_api(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--on", "http://127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.startswith("zabka fault: GET /api/v1/faults: ")
