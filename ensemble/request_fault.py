"""Request faults: rules that make a node fail, delay or change its handling of some client requests.

A rule has three parts. The *match* selects requests of a Kafka API or a ZooKeeper operation, optionally by client,
topic, group, path and so on. The *effect* says how the node treats them. The *times* say to which of the matching
requests the effect is applied, and when the rule ends. `POST /api/v1/faults` takes a `RequestFault`; the API makes it a
`HeldRequestFault` with an id, and the nodes that the rule names count how often they apply it
(`zabka.ensemble.request_fault_uses`).

    effect          applied?  response?                     connection
    error           no        with the error                stays open
    delay_before    yes, after `delay_ms`                   stays open
    delay_after     yes       after `delay_ms`              stays open
    drop_response   yes       no                            is closed, or stays open with `keep_open`
    drop_request    no        no                            stays open
    close           no        no                            is closed
    hang            no        no, nor any later request     stays open
    throttle        yes       with a throttle time          is muted for `throttle_ms`, as by a quota (KIP-219)
    corrupt         yes       the CRC of a batch is wrong   stays open
    truncate        yes       with half of the reply        is closed
    stale           yes       as when the rule was added    stays open

This module checks the rules that hold for every API. `zabka.ensemble.zookeeper_faults` and `zabka.kafka.request_faults`
check the rest, for example whether the operation can return the error, or whether the API has the field to match.
"""

from __future__ import annotations

import fnmatch
import re
from functools import lru_cache
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from zabka.ensemble.errors import ErrorCode

ANY = "*"
"""Pattern that matches every API, operation or node."""
DELAY_MS_MAX = 600_000
DURATION_MS_MAX = 86_400_000
TIMES_MAX = 1_000_000_000

Effect = Literal[
    "error", "delay_before", "delay_after", "drop_response", "drop_request", "close", "hang", "throttle", "corrupt",
    "truncate", "stale",
]  # fmt: skip

Pattern = Annotated[str, Meta(max_length=1024)]
_Count = Annotated[int, Meta(ge=0, le=TIMES_MAX)]
_Version = Annotated[int, Meta(ge=0, le=32767)]

_NODE = re.compile(r"(broker|peer)-[0-9]{1,10}")
_KAFKA_ONLY = (
    "client_id", "listener", "topic", "partition", "group", "transactional_id", "min_version", "max_version",
)  # fmt: skip
_NEEDS = {"error": "error", "delay_before": "delay_ms", "delay_after": "delay_ms", "throttle": "throttle_ms"}
"""Field that an effect requires, keyed by effect; other effects do not accept the field."""


class RequestFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Request fault: a rule for the requests of one API or operation.

    Strings are patterns in which `*` matches any characters; an unset field matches all requests. Without `client_id`,
    the rule does not apply to requests of brokers and of zabka itself. All nodes of a host count the affected requests
    together. An invalid rule raises msgspec.ValidationError when decoded, and ValueError when constructed in Python.
    """

    kind: Literal["request"]
    effect: Effect
    api: Annotated[Pattern, Meta(description="A Kafka API, such as Produce, or * for all")] = ""
    opcode: Annotated[Pattern, Meta(description="A ZooKeeper operation, such as create, or * for all")] = ""
    node: Annotated[Pattern, Meta(description="The node that applies it, such as broker-1, or * for all")] = ANY
    client_id: Annotated[Pattern, Meta(description="A pattern, such as shop-*")] = ""
    listener: Pattern = ""
    topic: Annotated[Pattern, Meta(description="A pattern; other topics of the request are served")] = ""
    partition: Annotated[int, Meta(ge=-1, le=(1 << 31) - 1, description="-1 for all")] = -1
    group: Annotated[Pattern, Meta(description="A pattern for group ids")] = ""
    transactional_id: Pattern = ""
    path: Annotated[Pattern, Meta(description="A pattern for znode paths")] = ""
    principal: Annotated[Pattern, Meta(description="User:alice for Kafka; sasl:alice or digest:bob for ZooKeeper")] = ""
    min_version: _Version = 0
    max_version: _Version = 32767
    error: Annotated[str, Meta(description="Kafka's or ZooKeeper's name of an error")] = ""
    delay_ms: Annotated[int, Meta(ge=0, le=DELAY_MS_MAX)] = 0
    throttle_ms: Annotated[int, Meta(ge=0, le=DELAY_MS_MAX)] = 0
    keep_open: Annotated[bool, Meta(description="With drop_response: do not close the connection")] = False
    times: Annotated[_Count, Meta(description="It ends after so many uses; 0 for no limit")] = 0
    nth: Annotated[_Count, Meta(description="Only the nth matching request")] = 0
    every: Annotated[_Count, Meta(description="Every nth matching request")] = 0
    probability: Annotated[float, Meta(ge=0, le=1, description="Each matching request with this probability")] = 1.0
    for_ms: Annotated[int, Meta(ge=0, le=DURATION_MS_MAX, description="It ends after so long; 0 for never")] = 0
    part_of: Annotated[Pattern, Meta(description="The ready set that it belongs to")] = ""

    def __post_init__(self) -> None:
        if bool(self.api) == bool(self.opcode):
            raise ValueError("a request fault needs either api, for brokers, or opcode, for peers")
        self._check_match()
        self._check_effect()
        self._check_times()

    @property
    def role(self) -> str:
        """The kind of node that can apply the rule: broker or peer."""
        return "broker" if self.api else "peer"

    @property
    def name(self) -> str:
        """Name of the Kafka API or ZooKeeper operation that the rule matches."""
        return self.api or self.opcode

    def is_for(self, node: str) -> bool:
        """Return whether the rule applies to the node with this name."""
        return self.node == node or (self.node == ANY and node.startswith(self.role))

    def _check_match(self) -> None:
        if self.node != ANY and (_NODE.fullmatch(self.node) is None or not self.node.startswith(self.role)):
            requests = "Kafka requests are served by brokers" if self.api else "ZooKeeper requests are served by peers"
            raise ValueError(f"node {self.node!r}: {requests}, such as {self.role}-1; use * for all")
        if self.api and self.path:
            raise ValueError("path selects ZooKeeper requests: use it with opcode, not with api")
        unused = [] if self.api else [name for name in _KAFKA_ONLY if getattr(self, name) != _DEFAULTS[name]]
        if unused:
            raise ValueError(f"{unused[0]} selects Kafka requests: ZooKeeper's have no such field")
        if self.partition >= 0 and not self.topic:
            raise ValueError("partition needs topic: partitions are numbered within a topic")
        if self.min_version > self.max_version:
            raise ValueError(f"min_version {self.min_version} is above max_version {self.max_version}")

    def _check_effect(self) -> None:
        needed = _NEEDS.get(self.effect)
        if needed is not None and not getattr(self, needed):
            example = "such as NOT_LEADER_OR_FOLLOWER" if needed == "error" else "above 0"
            raise ValueError(f"the effect {self.effect} needs {needed}, {example}")
        for name in dict.fromkeys(_NEEDS.values()):
            if name != needed and getattr(self, name):
                raise ValueError(f"the effect {self.effect} takes no {name}")
        if self.keep_open and self.effect != "drop_response":
            raise ValueError("keep_open is for drop_response only")

    def _check_times(self) -> None:
        selections = [name for name in ("nth", "every") if getattr(self, name)]
        selections += ["probability"] if self.probability < 1 else []
        if len(selections) > 1:
            raise ValueError(f"{' and '.join(selections)} exclude each other: each selects some of the requests")
        if self.nth and self.times:
            raise ValueError("nth selects one request, so it takes no times")
        if self.probability == 0:
            raise ValueError("a fault with probability 0 never happens")


_DEFAULTS = dict(zip(RequestFault.__struct_fields__[-len(RequestFault.__struct_defaults__) :],
                     RequestFault.__struct_defaults__, strict=True))  # fmt: skip


class HeldRequestFault(RequestFault, frozen=True, kw_only=True):
    """An active request fault, with the id by which it can be removed, and the client that added it."""

    id: str
    requester: str = ""


def matches_text(pattern: str, text: str | None) -> bool:
    """Return whether a string matches a pattern, in which `*` matches any characters; an empty pattern matches all."""
    return not pattern or (text is not None and _compiled(pattern).fullmatch(text) is not None)


@lru_cache(4_096)
def _compiled(pattern: str) -> re.Pattern[str]:
    # The regular expressions of `fnmatch` do not backtrack. Escape its wildcards other than `*`, so that they match
    # literally.
    return re.compile(fnmatch.translate(re.sub(r"[?\[]", r"[\g<0>]", pattern)))


def describe(rule: RequestFault) -> str:
    """Return a one-line description of a rule, such as `Produce topic=orders: error NOT_LEADER_OR_FOLLOWER, once`."""
    names = ("client_id", "listener", "topic", "partition", "group", "transactional_id", "path",
             "principal", "min_version", "max_version")  # fmt: skip
    matched = [f"{name}={getattr(rule, name)}" for name in names if getattr(rule, name) != _DEFAULTS[name]]
    where = [] if rule.node == ANY else [f"on {rule.node}"]
    argument = {"error": rule.error, "delay_ms": f"{rule.delay_ms} ms", "throttle_ms": f"{rule.throttle_ms} ms"}
    effect = [rule.effect, *([argument[_NEEDS[rule.effect]]] if rule.effect in _NEEDS else [])]
    effect += ["keep_open"] if rule.keep_open else []
    return f"{' '.join([rule.name, *matched, *where])}: {' '.join(effect)}, {_describe_times(rule)}"


def _describe_times(rule: RequestFault) -> str:
    parts = []
    if rule.nth:
        parts.append(f"the {rule.nth}th request")
    if rule.every:
        parts.append(f"every {rule.every}th request")
    if rule.probability < 1:
        parts.append(f"with probability {rule.probability:g}")
    if rule.times:
        parts.append("once" if rule.times == 1 else f"{rule.times} times")
    if rule.for_ms:
        parts.append(f"for {rule.for_ms} ms")
    return ", ".join(parts) or "until removed"


ZOOKEEPER_ERRORS = {code.name: code for code in ErrorCode if code is not ErrorCode.OK}
"""ZooKeeper's errors, keyed by name (KeeperException.Code, without the underscores of Java's aliases)."""
