"""POST /faults/split accepts disjoint sets of known nodes only, and its limit is the number of links."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.api.api_server import Server

NODES = "peer-1, peer-2, peer-3, broker-1, broker-2, broker-3"


def split(server: Server, *sides: list[str]) -> httpx.Response:
    return httpx.post(f"{server.url}/api/v1/faults/split", json={"sides": sides}, trust_env=False)


@pytest.mark.parametrize(
    ("sides", "unknown"),
    [
        ([["client:a"], ["client:b"]], "client:a"),
        ([["session:0x1"], ["broker-1"]], "session:0x1"),
        ([["client:"], ["peer-1"]], "client:"),
        ([["broker-1"], ["*"]], "*"),
        ([["broker-1"], ["broker-4"]], "broker-4"),
    ],
)
def test_split_with_an_unknown_node_is_rejected(server: Server, sides: list[list[str]], unknown: str) -> None:
    answer = split(server, *sides)
    assert answer.status_code == 422
    assert answer.json()["detail"] == f"sides: there is no node {unknown!r}; nodes are {NODES}"
    assert server.agent.held == []


def test_split_with_too_many_links_is_rejected_with_its_links(tmp_path: Path) -> None:
    brokers = [f"broker-{i}" for i in range(1, 65)]
    addresses = ",".join(f"127.0.0.1:{port}" for port in range(9001, 9065))
    with Server(tmp_path, brokers=list(range(1, 65)), bootstrap=addresses) as server:
        answer = split(server, brokers[:32], brokers[32:])
        assert answer.status_code == 422
        assert answer.json()["detail"] == "sides: the split cuts 1024 links; at most 1000 faults can be active"
        assert server.agent.held == []
        assert split(server, brokers[:31], brokers[31:62]).status_code == 201
        assert len(server.agent.held) == 31 * 31
