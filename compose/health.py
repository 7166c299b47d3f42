"""The cluster's health for `zabka status`: controller, quorum and partitions, as reported by the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from zabka.agent.http_call import NoAnswer, call

ANSWER_S = 4.0
LISTED_MAX = 5
"""Maximum number of partitions to list in one line of output."""
_STYLES = {"ok": "32", "warn": "33", "bad": "31;1"}
"""Terminal colours (ECMA-48 codes): green, yellow, bold red."""


class _Peer(msgspec.Struct):
    id: int
    state: str


class _Broker(msgspec.Struct):
    id: int


class _Controller(msgspec.Struct):
    broker_id: int
    controller_epoch: int


class _Partition(msgspec.Struct):
    partition: int
    isr: list[int]
    replicas: list[int]
    offline: bool


class _Topic(msgspec.Struct):
    name: str
    partitions: list[_Partition]


class _Cluster(msgspec.Struct):
    quorum: bool
    peers: list[_Peer]
    brokers: list[_Broker]
    controller: _Controller
    topics: list[_Topic]


def read_health(url: str, authority: Path | None = None) -> dict[str, Any] | None:
    """Return the health of the cluster at this URL, or None if its API does not respond.

    `authority` is the certificate that verifies the server of an HTTPS URL.
    """
    try:
        answer = call("GET", f"{url}/api/v1/cluster", timeout_s=ANSWER_S, authority=authority)
        if not answer.is_success:
            return None
        cluster = msgspec.json.decode(answer.body, type=_Cluster)
    except (NoAnswer, msgspec.MsgspecError):
        return None
    return health_of(cluster)


def health_of(cluster: _Cluster) -> dict[str, Any]:
    """Return the health of a cluster as JSON data."""
    partitions = [(f"{topic.name}-{each.partition}", each) for topic in cluster.topics for each in topic.partitions]
    leaders = [peer.id for peer in cluster.peers if peer.state == "LEADING"]
    return {
        "controller": None if cluster.controller.broker_id < 0 else cluster.controller.broker_id,
        "controller_epoch": cluster.controller.controller_epoch,
        "quorum": cluster.quorum,
        "zab_leader": leaders[0] if leaders else None,
        "peers_serving": sum(peer.state in ("LEADING", "FOLLOWING", "OBSERVING") for peer in cluster.peers),
        "peers": len(cluster.peers),
        "brokers": len(cluster.brokers),
        "partitions": len(partitions),
        "offline": [name for name, each in partitions if each.offline],
        "under_replicated": [
            name for name, each in partitions if not each.offline and len(each.isr) < len(each.replicas)
        ],
    }


def show_health(health: dict[str, Any] | None, *, colours: bool) -> list[str]:
    """Format the health as lines, with colours if the terminal has them.

    An ensemble without brokers has no lines about the controller and the partitions.
    """

    def painted(style: str, text: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if colours else text

    if health is None:
        return [f"  {'health':<12} " + painted("warn", "unknown: the API does not respond")]
    controller = (
        painted("bad", "none") if health["controller"] is None
        else painted("ok", f"broker {health['controller']}, controller epoch {health['controller_epoch']}")
    )  # fmt: skip
    serving = f"{health['peers_serving']} of {health['peers']} peers serve"
    leader = "" if health["zab_leader"] is None else f", peer {health['zab_leader']} leads"
    whole = health["quorum"] and health["peers_serving"] == health["peers"]
    quorum = painted("ok" if whole else "warn" if health["quorum"] else "bad", serving + leader)
    lines = [f"  {'controller':<12} {controller}", f"  {'quorum':<12} {quorum}"]
    if not health["brokers"]:
        return lines[1:]
    troubles = [
        painted(style, f"{len(health[name])} {name.replace('_', '-')} ({_named(health[name])})")
        for name, style in (("offline", "bad"), ("under_replicated", "warn"))
        if health[name]
    ]
    state = ", ".join(troubles) or painted("ok", "all in sync")
    return [*lines, f"  {'partitions':<12} {health['partitions']}: {state}"]


def _named(names: list[str]) -> str:
    more = f" and {len(names) - LISTED_MAX} more" if len(names) > LISTED_MAX else ""
    return ", ".join(names[:LISTED_MAX]) + more
