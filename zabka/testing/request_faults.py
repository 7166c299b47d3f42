"""Request faults in tests: `cluster.faults.on_request("Produce", topic="orders").drop_response().once()`.

The calls select the requests, then the effect on them, then how often it is applied. The last call adds the fault to
the cluster. A test that omits the last call has a mistake, which Python reports as a RuntimeWarning, as for a coroutine
that was never awaited.
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
"""Type of the active fault that the cluster returns."""


class RequestMatch(TypedDict, total=False):
    """Conditions that a request must match; strings are patterns, in which `*` matches any characters."""

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
    """Selected requests.  A method chooses the effect on them."""

    def __init__(self, add: Callable[[RequestFault], Added], name: str, match: RequestMatch) -> None:
        """Select requests; `name` is the name of a Kafka API or a ZooKeeper operation.

        The name `*` means every API or, if `match` has a peer or a path, every operation.
        """
        is_operation = name in OPERATIONS and name not in APIS
        if name == ANY:
            is_operation = "path" in match or str(match.get("node", "")).startswith("peer")
        self._add = add
        self._fields: dict[str, Any] = {"opcode" if is_operation else "api": name, **match}
        self._fields["node"] = str(match.get("node", ANY))

    def _with(self, effect: str, **fields: Any) -> HowOften[Added]:
        return HowOften(self._add, {**self._fields, "effect": effect, **fields})

    def error(self, name: str) -> HowOften[Added]:
        """Do not process the request; return the error with this Kafka or ZooKeeper name."""
        return self._with("error", error=name)

    def delay_before(self, delay_ms: int) -> HowOften[Added]:
        """Delay the request, and then process it."""
        return self._with("delay_before", delay_ms=delay_ms)

    def delay_after(self, delay_ms: int) -> HowOften[Added]:
        """Process the request, and delay the response."""
        return self._with("delay_after", delay_ms=delay_ms)

    def drop_response(self, *, keep_open: bool = False) -> HowOften[Added]:
        """Process the request, and close the connection instead of responding.

        With `keep_open`, the connection stays open.
        """
        return self._with("drop_response", keep_open=keep_open)

    def drop_request(self) -> HowOften[Added]:
        """Neither process the request nor respond to it; later requests on the same connection are processed."""
        return self._with("drop_request")

    def close(self) -> HowOften[Added]:
        """Close the connection without processing the request."""
        return self._with("close")

    def hang(self) -> HowOften[Added]:
        """Respond neither to the request nor to any later request on the same connection."""
        return self._with("hang")

    def throttle(self, throttle_ms: int) -> HowOften[Added]:
        """Process the request, and respond with a throttle time, as to a client that exceeds its quota."""
        return self._with("throttle", throttle_ms=throttle_ms)

    def corrupt(self) -> HowOften[Added]:
        """Damage the CRC of a record batch: in the request to the broker (Produce), or in the response (Fetch)."""
        return self._with("corrupt")

    def truncate(self) -> HowOften[Added]:
        """Process the request, send half of the response, and close the connection."""
        return self._with("truncate")

    def stale(self) -> HowOften[Added]:
        """Respond to Metadata requests with the topics and leaders that the broker knew when the fault was added."""
        return self._with("stale")


class HowOften(Generic[Added]):
    """A fault that is not active yet.  A method chooses how often it is applied, and adds it to the cluster.

    Each node counts requests separately. A method raises ValueError with the reason if the fault is not possible.
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
        """Apply the fault only to the next matching request."""
        return self._for(times=1)

    def times(self, count: int) -> Added:
        """Apply the fault to the next `count` matching requests."""
        return self._for(times=count)

    def nth(self, number: int) -> Added:
        """Apply the fault only to the `number`-th matching request, counted from 1."""
        return self._for(nth=number)

    def every(self, number: int, *, times: int = 0) -> Added:
        """Apply the fault to every `number`-th matching request, at most `times` times (0: no limit)."""
        return self._for(every=number, times=times)

    def with_probability(self, probability: float, *, times: int = 0) -> Added:
        """Apply the fault to each matching request with that probability, at most `times` times (0: no limit)."""
        return self._for(probability=probability, times=times)

    def for_ms(self, duration_ms: int) -> Added:
        """Apply the fault to all matching requests for that duration."""
        return self._for(for_ms=duration_ms)

    def until_removed(self) -> Added:
        """Apply the fault to all matching requests until it is healed or the test ends."""
        return self._for()
