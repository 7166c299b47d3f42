"""The cluster's health in the output of `zabka status`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.api_server import Server
from zabka.compose.health import read_health, show_health

WELL: dict[str, Any] = {
    "controller": 1, "controller_epoch": 3, "quorum": True, "zab_leader": 2, "peers_serving": 3, "peers": 3,
    "brokers": 3, "partitions": 30, "offline": [], "under_replicated": [],
}  # fmt: skip


def test_status_command_reads_health_from_the_api_of_the_cluster(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        found = read_health(server.url)
    assert found is not None
    assert found.keys() == WELL.keys()


def test_health_is_unknown_if_the_api_does_not_respond() -> None:
    assert read_health("http://127.0.0.1:9") is None
    assert show_health(None, colours=False) == ["  health       unknown: the API does not respond"]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "  controller   broker 1, controller epoch 3"),
        ({}, "  quorum       3 of 3 peers serve, peer 2 leads"),
        ({}, "  partitions   30: all in sync"),
        ({"controller": None}, "  controller   none"),
        ({"quorum": False, "zab_leader": None, "peers_serving": 1}, "  quorum       1 of 3 peers serve"),
        (
            {"offline": ["orders-0"], "under_replicated": [f"orders-{n}" for n in range(1, 8)]},
            "  partitions   30: 1 offline (orders-0), 7 under-replicated (orders-1, orders-2, orders-3, orders-4, "
            "orders-5 and 2 more)",
        ),
    ],
)
def test_health_is_printed_as_one_line_per_subject(changes: dict[str, Any], line: str) -> None:
    assert line in show_health({**WELL, **changes}, colours=False)


def test_ensemble_without_brokers_shows_only_its_quorum() -> None:
    alone = {**WELL, "controller": None, "brokers": 0, "partitions": 0}
    assert show_health(alone, colours=False) == ["  quorum       3 of 3 peers serve, peer 2 leads"]


def test_colours_are_used_only_on_request() -> None:
    assert show_health({**WELL, "controller": None}, colours=True)[0] == "  controller   \x1b[31;1mnone\x1b[0m"
    assert not any("\x1b" in line for line in show_health(WELL, colours=False))
