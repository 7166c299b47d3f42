"""GET /groups: the groups that the brokers describe, and groups whose coordinator does not answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.api_server import Server
from zabka.agent.protocol import JournalChunk, Position
from zabka.api.views import groups as view
from zabka.journal import events as e
from zabka.journal.events import TopicPartition
from zabka.journal.writer import encode_line
from zabka.kafka.client.group_admin import GroupInfo, MemberInfo
from zabka.kafka.client.group_reading import GroupReading, GroupStatus, UnknownGroup
from zabka.kafka.ports import Endpoint

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
NO_ANSWER = "broker 2: no answer in time"


def readers(state: str = "Stable", ends: dict[TopicPartition, int | str] | None = None) -> GroupStatus:
    member = MemberInfo("reader-1-7f3a", None, "reader-1", "/127.0.0.1", (FIRST, SECOND))
    info = GroupInfo("readers", Endpoint(2, "127.0.0.1", 9093), state, "consumer", "range", (member,))
    return GroupStatus(info, {FIRST: 106}, ends or {FIRST: 120, SECOND: 7})


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    # Every request reads the groups.
    monkeypatch.setattr(view, "CACHE_S", 0.0)
    with Server(tmp_path) as running:
        yield running


def ask(server: Server, path: str = "") -> httpx.Response:
    return httpx.get(f"{server.url}/api/v1/groups{path}", trust_env=False)


def the_group(server: Server) -> Any:
    (found,) = ask(server).json()["groups"]
    return found


def journal_group(server: Server, broker: int, state: str, generation: int) -> None:
    event = e.GroupChanged(broker, "readers", state, generation, "", [])
    line = encode_line(f"broker-{broker}", 1, time.time_ns() // 1000, 0, event)
    server.collect(JournalChunk(f"broker-{broker}", line, Position("told", 1, 1)))


def test_cluster_without_groups_returns_an_empty_list(server: Server) -> None:
    assert ask(server).json() == {"groups": [], "silent_brokers": [], "omitted": 0, "problem": None}


def test_group_has_its_coordinator_members_and_total_lag(server: Server) -> None:
    server.admin.reading = GroupReading({"readers": readers()})
    found = the_group(server)
    assert 0 <= found.pop("age_ms") < 30_000
    assert found == {
        "id": "readers", "state": "Stable", "unknown": None, "last_state": None, "coordinator": 2,
        "protocol_type": "consumer", "protocol": "range", "generation": None, "member_count": 1,
        "partition_count": 2, "lag": 14,
    }  # fmt: skip


def test_generation_comes_from_the_coordinators_journal(server: Server) -> None:
    server.admin.reading = GroupReading({"readers": readers()})
    journal_group(server, 2, "Stable", 5)
    assert the_group(server)["generation"] == 5


def test_generation_in_a_former_coordinators_journal_is_unused(server: Server) -> None:
    server.admin.reading = GroupReading({"readers": readers()})
    journal_group(server, 3, "Stable", 5)
    assert the_group(server)["generation"] is None


def test_group_details_contain_members_and_lag_per_partition(server: Server) -> None:
    server.admin.reading = GroupReading({"readers": readers()})
    found = ask(server, "/readers").json()
    assert found["members"] == [
        {
            "member_id": "reader-1-7f3a", "group_instance_id": None, "client_id": "reader-1",
            "client_host": "/127.0.0.1", "partitions": ["orders-0", "orders-1"],
        }
    ]  # fmt: skip
    columns = ("partition", "committed", "end", "lag", "member_id")
    assert [tuple(row[name] for name in columns) for row in found["offsets"]] == [
        (0, 106, 120, 14, "reader-1-7f3a"),
        (1, None, 7, None, "reader-1-7f3a"),
    ]


def test_details_of_a_huge_group_are_limited(server: Server) -> None:
    partitions: dict[TopicPartition, int | str] = {TopicPartition("orders", n): 7 for n in range(10_001)}
    server.admin.reading = GroupReading({"readers": readers(ends=partitions)})
    found = ask(server, "/readers").json()
    assert (found["partition_count"], len(found["offsets"])) == (10_001, 10_000)


def test_lag_is_unknown_if_a_leader_does_not_answer(server: Server) -> None:
    server.admin.reading = GroupReading({"readers": readers(ends={FIRST: NO_ANSWER, SECOND: 7})})
    assert the_group(server)["lag"] is None
    first = ask(server, "/readers").json()["offsets"][0]
    assert (first["committed"], first["end"], first["lag"], first["unknown"]) == (106, None, None, NO_ANSWER)


def test_group_of_a_silent_coordinator_is_shown_as_unknown(server: Server) -> None:
    server.admin.reading = GroupReading({"readers": readers()})
    the_group(server)
    server.admin.reading = GroupReading(unknown={"readers": UnknownGroup(2, NO_ANSWER)}, silent={2: NO_ANSWER})
    time.sleep(0.02)
    found = the_group(server)
    assert (found["state"], found["unknown"], found["last_state"]) == ("Unknown", NO_ANSWER, "Stable")
    assert (found["coordinator"], found["member_count"], found["lag"]) == (2, None, None)
    assert 20 <= found["age_ms"] < 30_000
    details = ask(server, "/readers").json()
    assert (details["state"], details["members"], details["offsets"]) == ("Unknown", None, None)
    assert ask(server).json()["silent_brokers"] == [{"broker_id": 2, "reason": NO_ANSWER}]
    # The view asks for this group although no broker lists it.
    assert server.admin.asked[-1] == {"readers"}


def test_journaled_group_is_unknown_before_a_broker_answers(server: Server) -> None:
    journal_group(server, 3, "Stable", 5)
    server.admin.reading = GroupReading(unknown={"readers": UnknownGroup(None, "no broker answers")}, problem="down")
    found = the_group(server)
    assert (found["state"], found["last_state"], found["coordinator"]) == ("Unknown", "Stable", 3)
    assert found["age_ms"] is None
    assert server.admin.asked == [{"readers"}]
    assert ask(server).json()["problem"] == "down"


def test_deleted_group_is_forgotten(server: Server) -> None:
    server.admin.reading = GroupReading({"readers": readers()})
    the_group(server)
    server.admin.reading = GroupReading()
    assert ask(server).json()["groups"] == []
    ask(server)
    assert server.admin.asked[-1] == set()


def test_missing_group_returns_404_as_a_problem_document(server: Server) -> None:
    answer = ask(server, "/payments%2Feu")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json()["detail"] == "there is no group payments/eu"


def test_missing_group_returns_503_if_a_broker_is_silent(server: Server) -> None:
    server.admin.reading = GroupReading(silent={2: NO_ANSWER})
    answer = ask(server, "/payments")
    assert (answer.status_code, NO_ANSWER in answer.json()["detail"]) == (503, True)


def test_group_requests_within_a_second_share_one_cluster_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "CACHE_S", 60.0)
    server.admin.reading = GroupReading({"readers": readers()})
    for _ in range(3):
        assert the_group(server)["lag"] == 14
        assert ask(server, "/readers").status_code == 200
    assert len(server.admin.asked) == 1
