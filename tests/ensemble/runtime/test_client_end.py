"""Clients as one end of a link fault: their names, the connections that match, and why a fault is rejected."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from zabka.ensemble.runtime.client_end import ClientLine, client_end, session_name
from zabka.ensemble.runtime.link_fault import Impairment, LinkFault, client_impairments

SHOP = ClientLine("client", "shop-1", "10.0.0.7", 40_000)
SESSION = ClientLine("session", "0x1000abc", "::ffff:10.0.0.7", 40_001)
SLOW = Impairment(delay_ms=5)


@pytest.mark.parametrize(
    ("end", "matched"),
    [
        ("client:shop-*", [SHOP]),
        ("client:*", [SHOP]),
        ("client:other", []),
        ("session:0x1000*", [SESSION]),
        ("10.0.0.7", [SHOP, SESSION]),
        ("10.0.0.7:40001", [SESSION]),
        ("10.0.0.0/24", [SHOP, SESSION]),
        ("10.0.0.8", []),
        ("::1", []),
        ("[::1]:7", []),
    ],
)
def test_client_pattern_matches_its_connections(end: str, matched: list[ClientLine]) -> None:
    client = client_end(end)
    assert client is not None
    assert [line for line in (SHOP, SESSION) if client.is_of(line)] == matched


@pytest.mark.parametrize("end", ["broker-1", "peer-2", "*", "localhost", "localhost:9092", "10.0.0", "10.0.0.7:x"])
def test_node_names_are_not_client_patterns(end: str) -> None:
    assert client_end(end) is None


def test_session_id_zero_has_no_name() -> None:
    assert (session_name(0), session_name(-1), session_name(255)) == ("", "0xffffffffffffffff", "0xff")


@pytest.mark.parametrize(
    ("source", "target", "both_ways", "expected"),
    [
        ("client:shop-*", "broker-1", True, (SLOW, SLOW)),
        ("client:shop-*", "*", False, (SLOW, Impairment())),
        ("broker-1", "client:shop-*", False, (Impairment(), SLOW)),
        ("*", "10.0.0.7", False, (Impairment(), SLOW)),
        ("client:shop-*", "broker-2", True, (Impairment(), Impairment())),
        ("broker-1", "*", True, (Impairment(), Impairment())),
    ],
)
def test_client_fault_affects_only_the_requested_directions(
    source: str, target: str, both_ways: bool, expected: tuple[Impairment, Impairment]
) -> None:
    fault = LinkFault(source, target, "delay", 5, both_ways)
    assert client_impairments([fault], "broker-1", SHOP) == expected


def test_lowest_of_several_bandwidth_limits_applies() -> None:
    faults = [LinkFault("client:*", "*", "bandwidth", bytes_per_s=rate) for rate in (500, 200, 900)]
    limited = Impairment(bytes_per_s=200)
    assert client_impairments(faults, "broker-1", SHOP) == (limited, limited)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"from": "client:a", "to": "client:b"}, "two clients have no link"),
        ({"from": "client:", "to": "broker-1"}, "names no client"),
        ({"from": "client:a", "to": "peer-1"}, "ZooKeeper clients have no client id"),
        ({"from": "broker-1", "to": "session:0x1"}, "brokers have no ZooKeeper sessions"),
        ({"from": "10.0.0.1", "to": "*", "kind": "bandwidth"}, "needs bytes_per_s"),
        ({"from": "10.0.0.1", "to": "*", "bytes_per_s": 5}, "takes no bytes_per_s"),
    ],
)
def test_invalid_client_fault_is_rejected_with_the_reason(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=reason):
        msgspec.convert({"kind": "cut", **fields}, LinkFault)
