"""Predefined sets of request faults: the outages that clients experience most often, each with a name.

A set consists of a few rules. A user of the set can restrict the rules to a topic, group, path, client or node, and
change how often they apply. A rule accepts only the fields that its requests have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from zabka.ensemble.request_fault import ANY, RequestFault
from zabka.ensemble.zookeeper_faults import why_impossible as why_impossible_for_peers
from zabka.kafka.request_faults.rules import why_impossible as why_impossible_for_brokers
from zabka.kafka.request_faults.subjects import APIS, MATCHES

_TIMES = ("times", "nth", "every", "probability", "for_ms")
NARROWING = (
    "node", "client_id", "listener", "topic", "partition", "group", "transactional_id", "path", "principal",
    *_TIMES, "delay_ms", "throttle_ms",
)  # fmt: skip
"""Fields with which a user can restrict the request faults of a ready-made set."""


class ReadySet(NamedTuple):
    """A set of rules, the outage that the set imitates, and what clients should do during this outage."""

    imitates: str
    expected: str
    rules: tuple[RequestFault, ...]


def _rule(name: str, effect: Any, **fields: Any) -> RequestFault:
    target = {"api": name} if name in APIS or name == ANY else {"opcode": name}
    return RequestFault(**{"kind": "request", "effect": effect, **target, **fields})


def _errors(error: str, *apis: str, **fields: Any) -> tuple[RequestFault, ...]:
    return tuple(_rule(api, "error", error=error, **fields) for api in apis)


READY_SETS: dict[str, ReadySet] = {
    "ack-lost": ReadySet(
        "The leader stores the records, and the connection breaks before the acknowledgement.",
        "The producer sends the records again; without idempotence they are stored twice.",
        (_rule("Produce", "drop_response", times=1),),
    ),
    "not-leader": ReadySet(
        "The leader has moved, and clients still use the old leader.",
        "Clients refresh their metadata and repeat the request.",
        _errors("NOT_LEADER_OR_FOLLOWER", "Produce", "Fetch", times=3),
    ),
    "coordinator-loading": ReadySet(
        "A group's new coordinator still loads its partition of __consumer_offsets.",
        "Clients wait and repeat the request at the same broker.",
        _errors("COORDINATOR_LOAD_IN_PROGRESS", "JoinGroup", "OffsetFetch", "OffsetCommit", for_ms=3_000),
    ),
    "coordinator-moves": ReadySet(
        "The coordinator of a group has moved to another broker.",
        "Clients look for the coordinator, and repeat the request there.",
        _errors("NOT_COORDINATOR", "JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch", times=1),
    ),
    "rebalance-storm": ReadySet(
        "Members join and leave a group all the time.",
        "Members stop their work, join again, and lose or repeat at most uncommitted records.",
        _errors("REBALANCE_IN_PROGRESS", "Heartbeat", every=2, for_ms=30_000),
    ),
    "slow-broker": ReadySet(
        "A broker is overloaded or its disk is slow: every answer comes late, none is lost.",
        "Clients wait, without repeating requests in parallel or taking the broker for dead.",
        (_rule(ANY, "delay_before", delay_ms=500),),
    ),
    "stale-metadata": ReadySet(
        "A broker does not receive the controller's updates, and returns outdated leaders and topics.",
        "Clients that reach a broker that does not lead ask again, perhaps another broker.",
        (_rule("Metadata", "stale", for_ms=30_000),),
    ),
    "throttled": ReadySet(
        "Clients exceed their quotas.",
        "Clients wait for the throttle time before the next request, and lose no record.",
        tuple(_rule(api, "throttle", throttle_ms=1_000, for_ms=30_000) for api in ("Produce", "Fetch")),
    ),
    "session-moved": ReadySet(
        "A ZooKeeper client's request reaches a server that its session has left: that server closes the connection "
        "without applying the request (ZOOKEEPER-710).",
        "The client connects again, with the same session and ephemeral nodes, and repeats the request.",
        (RequestFault(kind="request", opcode=ANY, effect="close", times=1),),
    ),
    "connection-loss-on-create": ReadySet(
        "A ZooKeeper client creates a znode, and the connection breaks before the answer.",
        "The client checks whether the znode exists before it creates it again, above all if it is sequential.",
        (_rule("create", "drop_response", times=1),),
    ),
}


def takes(name: str) -> list[str]:
    """Return the names of the fields with which the rules of a set can be restricted. Raises KeyError for an unknown
    set.
    """
    return [field for field in NARROWING if any(_takes(rule, field) for rule in READY_SETS[name].rules)]


def narrowed(name: str, narrowing: Mapping[str, Any]) -> list[RequestFault]:
    """Return the rules of a set, restricted by the fields in `narrowing`.

    Raises ValueError with the reason if there is no such set or field, or if no rule of the set accepts a field.
    """
    if name not in READY_SETS:
        raise ValueError(f"there is no ready set {name!r}; sets are {', '.join(READY_SETS)}")
    unknown = [field for field in narrowing if field not in NARROWING]
    if unknown:
        raise ValueError(f"{unknown[0]}: a ready set takes {', '.join(NARROWING)}")
    rules = READY_SETS[name].rules
    unused = [field for field in narrowing if not any(_takes(rule, field) for rule in rules)]
    if unused:
        raise ValueError(f"{unused[0]}: no request of the set {name} has it")
    return [_narrow(rule, name, narrowing) for rule in rules]


def _narrow(rule: RequestFault, name: str, narrowing: Mapping[str, Any]) -> RequestFault:
    fields = {**msgspec.to_builtins(rule), "part_of": name}
    if any(field in narrowing for field in _TIMES):
        fields = {field: value for field, value in fields.items() if field not in _TIMES}
    fields.update({field: value for field, value in narrowing.items() if _takes(rule, field)})
    try:
        made = msgspec.convert(fields, RequestFault)
    except msgspec.ValidationError as bad:
        raise ValueError(str(bad)) from None
    reason = why_impossible(made)
    if reason is not None:
        raise ValueError(reason)
    return made


def _takes(rule: RequestFault, field: str) -> bool:
    if field in ("delay_ms", "throttle_ms"):
        return bool(getattr(rule, field))
    if field == "path":
        return bool(rule.opcode)
    if field == "principal":
        return True
    if field in MATCHES:
        return rule.api != ANY and bool(rule.api) and APIS[rule.api] in MATCHES[field]
    return bool(rule.api) or field not in ("client_id", "listener")


def why_impossible(rule: RequestFault) -> str | None:
    """Return why a rule can never apply to a request to brokers or peers, or None if it can."""
    return why_impossible_for_brokers(rule) if rule.api else why_impossible_for_peers(rule)
