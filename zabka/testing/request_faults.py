"""Request faults as tests write them: `cluster.faults.on_request("Produce", topic="orders").drop_response().once()`.

The request is described first, then the effect, then how often. Nothing is active before the last part; leaving it out
is a mistake that Python reports as a RuntimeWarning, as it does for a coroutine that was never awaited.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Generic, TypedDict, TypeVar

from zabka.ensemble.request_fault import ANY, RequestFault
from zabka.ensemble.zookeeper_faults import OPERATIONS
from zabka.kafka.request_faults.ready_sets import why_impossible
from zabka.kafka.request_faults.subjects import APIS

Added = TypeVar("Added")
"""The active fault, as the cluster returns it."""


class RequestMatch(TypedDict, total=False):
    """The requests that a fault selects; texts are patterns, in which `*` stands for any characters."""

    node: str
    client_id: str
    listener: str
    topic: str
    partition: int
    group: str
    transactional_id: str
    path: str
    principal: str
    min_version: int
    max_version: int


class RequestSelection(Generic[Added]):
    """Some requests: choose an effect."""

    def __init__(self, add: Callable[[RequestFault], Added], name: str, match: RequestMatch) -> None:
        """`name` is a Kafka API or a ZooKeeper operation; `*` is every API, or with a peer or a path, operation."""
        is_operation = name in OPERATIONS and name not in APIS
        if name == ANY:
            is_operation = "path" in match or str(match.get("node", "")).startswith("peer")
        self._add = add
        self._fields: dict[str, Any] = {"opcode" if is_operation else "api": name, **match}
        self._fields["node"] = str(match.get("node", ANY))

    def _with(self, effect: str, **fields: Any) -> HowOften[Added]:
        return HowOften(self._add, {**self._fields, "effect": effect, **fields})

    def error(self, name: str) -> HowOften[Added]:
        """Do not apply the request; return the error with Kafka's or ZooKeeper's name."""
        return self._with("error", error=name)

    def delay_before(self, delay_ms: int) -> HowOften[Added]:
        """Apply the request late."""
        return self._with("delay_before", delay_ms=delay_ms)

    def delay_after(self, delay_ms: int) -> HowOften[Added]:
        """Apply the request, and answer late."""
        return self._with("delay_after", delay_ms=delay_ms)

    def drop_response(self, *, keep_open: bool = False) -> HowOften[Added]:
        """Apply the request, and close the connection instead of answering; with `keep_open`, only do not answer."""
        return self._with("drop_response", keep_open=keep_open)

    def drop_request(self) -> HowOften[Added]:
        """Neither apply nor answer the request; serve later ones of its connection."""
        return self._with("drop_request")

    def close(self) -> HowOften[Added]:
        """Close the connection without applying the request."""
        return self._with("close")

    def hang(self) -> HowOften[Added]:
        """Never answer the request, nor any later one of its connection."""
        return self._with("hang")

    def throttle(self, throttle_ms: int) -> HowOften[Added]:
        """Apply the request, and answer as to a client over its quota."""
        return self._with("throttle", throttle_ms=throttle_ms)

    def corrupt(self) -> HowOften[Added]:
        """Damage the CRC of a batch: on its way to the broker (Produce), or in the answer (Fetch)."""
        return self._with("corrupt")

    def truncate(self) -> HowOften[Added]:
        """Apply the request, send half of the answer, and close the connection."""
        return self._with("truncate")

    def stale(self) -> HowOften[Added]:
        """Answer Metadata with the leaders and topics at the time when the fault was added."""
        return self._with("stale")


class HowOften(Generic[Added]):
    """A fault without its times: choose how often it applies, which adds it.

    Counts are those of one node. Each method raises ValueError with the reason if the fault makes no sense.
    """

    def __init__(self, add: Callable[[RequestFault], Added], fields: dict[str, Any]) -> None:
        self._add = add
        self._fields = fields
        self._is_added = False

    def __del__(self) -> None:
        if not self._is_added:
            name = self._fields.get("api") or self._fields["opcode"]
            warnings.warn(
                f"the fault {self._fields['effect']} on {name} was never added: end it with once() or until_removed()",
                RuntimeWarning,
                stacklevel=2,
            )

    def _for(self, **times: Any) -> Added:
        self._is_added = True
        rule = RequestFault(**{"kind": "request", **self._fields, **times})
        if (reason := why_impossible(rule)) is not None:
            raise ValueError(reason)
        return self._add(rule)

    def once(self) -> Added:
        """Apply to the next matching request only."""
        return self._for(times=1)

    def times(self, count: int) -> Added:
        """Apply to the next `count` matching requests."""
        return self._for(times=count)

    def nth(self, number: int) -> Added:
        """Apply to the matching request with that number only, from 1."""
        return self._for(nth=number)

    def every(self, number: int, *, times: int = 0) -> Added:
        """Apply to every matching request with a multiple of that number, at most `times` times (0: no limit)."""
        return self._for(every=number, times=times)

    def with_probability(self, probability: float, *, times: int = 0) -> Added:
        """Apply to each matching request with that probability, at most `times` times (0: no limit)."""
        return self._for(probability=probability, times=times)

    def for_ms(self, duration_ms: int) -> Added:
        """Apply to all matching requests for so long."""
        return self._for(for_ms=duration_ms)

    def until_removed(self) -> Added:
        """Apply to all matching requests until the fault is healed, or the test ends."""
        return self._for()
