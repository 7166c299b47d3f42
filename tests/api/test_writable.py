"""Reasons why a partition is not writable: the rules as pure functions, and how GET /cluster shows an isolated
leader.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.api.api_server import Server
from zabka.api.views.ensemble_view import PartitionZnodes
from zabka.api.views.writable import obstacle, problems
from zabka.ensemble.runtime.link_fault import HeldFault, LinkFault

GOLDEN = Path(__file__).parents[1] / "golden" / "writable.json"
CASES: list[dict[str, Any]] = json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_golden_case_returns_the_reason_why_a_write_fails(case: dict[str, Any]) -> None:
    faults = [msgspec.convert(fault, LinkFault) for fault in case["faults"]]
    found = obstacle(
        leader=case["leader"], isr=case["isr"], min_isr=case["min_isr"], lagging=case["lagging"],
        process_of=lambda broker: case["processes"].get(str(broker), "running"), faults=faults,
    )  # fmt: skip
    assert found == case["obstacle"]


def test_problem_list_contains_cut_links_and_up_to_3_partitions() -> None:
    faults = [LinkFault("broker-5", "*", "cut"), LinkFault("broker-1", "broker-2", "delay", delay_ms=5)]
    found = problems(faults, [(f"orders-{number}", "it has no leader") for number in range(5)])
    assert found == [
        "the link broker-5 ↔ all nodes is cut",
        "orders-0, orders-1, orders-2 and 2 more cannot be written with acks=all: it has no leader",
    ]


@pytest.fixture
def server(tmp_path: Path) -> Any:
    with Server(tmp_path) as running:
        yield running


def cluster_of(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{server.url}/api/v1/cluster", trust_env=False).json()
    return found


def test_cluster_reports_the_link_that_isolates_a_leader(server: Server) -> None:
    assert cluster_of(server)["problems"] == []
    server.agent.held = [HeldFault("broker-1", "broker-2", "cut", id="f1")]
    found = cluster_of(server)
    reason = "its leader, broker 1, is cut off from broker 2 in its ISR"
    assert found["topics"][0]["partitions"][0]["unwritable"] == reason
    assert found["problems"] == [
        "the link broker-1 ↔ broker-2 is cut", f"orders-0 cannot be written with acks=all: {reason}"
    ]  # fmt: skip


def test_cluster_reports_lagging_followers(server: Server) -> None:
    row = {"topic": "orders", "partition": 0, "leader": 1, "leader_epoch": 4, "isr": [1, 2], "hw": 120, "leo": 121}
    server.agent.set_status("broker-1", 0, partitions=[{**row, "min_isr": 2, "lagging": [2]}])
    partition = cluster_of(server)["topics"][0]["partitions"][0]
    assert (partition["min_isr"], partition["lagging"]) == (2, [2])
    assert partition["unwritable"] == (
        "its leader, broker 1, has waited for broker 2 in its ISR longer than replica.lag.time.max.ms"
    )


def test_partition_report_of_an_older_leader_epoch_is_ignored(server: Server) -> None:
    row = {"topic": "orders", "partition": 0, "leader": 1, "leader_epoch": 3, "isr": [1, 2], "hw": 120, "leo": 121}
    server.agent.set_status("broker-1", 0, partitions=[{**row, "min_isr": 2, "lagging": [2]}])
    partition = cluster_of(server)["topics"][0]["partitions"][0]
    assert (partition["min_isr"], partition["lagging"], partition["unwritable"]) == (None, [], None)


def test_isr_below_min_insync_replicas_is_unwritable(server: Server) -> None:
    reading = server.ensemble.reading
    reading.topics["orders"] = reading.topics["orders"]._replace(
        partitions={0: PartitionZnodes((1, 2, 3), 1, 4, (1,), 3, 6)}
    )
    row = {"topic": "orders", "partition": 0, "leader": 1, "leader_epoch": 4, "isr": [1], "hw": 120, "leo": 120}
    server.agent.set_status("broker-1", 0, partitions=[{**row, "min_isr": 2}])
    partition = cluster_of(server)["topics"][0]["partitions"][0]
    assert partition["unwritable"] == "its ISR has 1 of the 2 members that min.insync.replicas requires"
