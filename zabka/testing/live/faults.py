"""Faults of the links and of the requests of a live cluster."""

from __future__ import annotations

from typing import Unpack

import msgspec

from zabka.ensemble.request_fault import RequestFault
from zabka.ensemble.runtime.client_end import session_name
from zabka.ensemble.runtime.link_fault import LinkFault
from zabka.testing.live.http_api import HttpApi
from zabka.testing.request_faults import RequestMatch, RequestSelection

FAULTS = "/api/v1/faults"


def end_of(end: object) -> str:
    """Return an end of a link in the format of the API: a node, a client, or the session of kazoo's `client_id`."""
    if isinstance(end, tuple):
        end = end[0]
    return f"session:{session_name(end)}" if isinstance(end, int) else str(end)


class Fault:
    """An active fault."""

    def __init__(self, api: HttpApi, fault_id: str) -> None:
        self._api = api
        self.id = fault_id

    def heal(self) -> None:
        """End the fault."""
        self._api.request("DELETE", f"{FAULTS}/{self.id}")


class RequestFaults:
    """The active request faults of one rule, or of a ready-made set of rules."""

    def __init__(self, api: HttpApi, ids: list[str]) -> None:
        self._api = api
        self.ids = ids

    @property
    def used(self) -> int:
        """Number of requests that the faults have been applied to, on all nodes."""
        return sum(int(fault["used"]) for fault in self._api.get(FAULTS) if fault["id"] in self.ids)

    def heal(self) -> None:
        """Remove the request faults that this object represents."""
        for fault_id in self.ids:
            self._api.request("DELETE", f"{FAULTS}/{fault_id}")


class Faults:
    """Methods to inject faults of links and of requests.

    An end of a link is a node or a client. A client is `client:ID` with a pattern for Kafka client ids, `session:0x…`,
    kazoo's `client_id`, or an IP address, optionally with a port or a network prefix length.
    """

    def __init__(self, api: HttpApi) -> None:
        self._api = api

    def cut(self, source: object, target: object = "*", *, both_ways: bool = True) -> Fault:
        """Drop all traffic between source and target, or only from source to target if not `both_ways`."""
        return self._add(LinkFault(end_of(source), end_of(target), "cut", both_ways=both_ways))

    def delay(self, source: object, target: object, delay_ms: int, *, both_ways: bool = True) -> Fault:
        """Delay all traffic between source and target, or only from source to target if not `both_ways`."""
        return self._add(LinkFault(end_of(source), end_of(target), "delay", delay_ms, both_ways))

    def limit(self, source: object, target: object, bytes_per_s: int, *, both_ways: bool = True) -> Fault:
        """Limit the bandwidth of each connection between source and target, in one or both directions."""
        ends = end_of(source), end_of(target)
        return self._add(LinkFault(*ends, "bandwidth", both_ways=both_ways, bytes_per_s=bytes_per_s))

    def _add(self, fault: LinkFault) -> Fault:
        body = msgspec.to_builtins(fault)
        return Fault(self._api, str(self._api.post(FAULTS, body)["id"]))

    def on_request(self, name: str, **match: Unpack[RequestMatch]) -> RequestSelection[RequestFaults]:
        """Select requests of a Kafka API or a ZooKeeper operation.  Methods of the returned object define the fault."""
        return RequestSelection(self.add_rule, name, match)

    def add_rule(self, rule: RequestFault) -> RequestFaults:
        """Add a rule that injects faults into requests."""
        return RequestFaults(self._api, [str(self._api.post(FAULTS, msgspec.to_builtins(rule))["id"])])

    def add_set(self, name: str, **narrowing: str | float) -> RequestFaults:
        """Add a ready-made set of request faults, restricted by `narrowing`, for example to a topic.

        Raises ClusterFailed if the API rejects the set or a restriction.
        """
        made = self._api.post(f"{FAULTS}/sets/{name}", narrowing)
        return RequestFaults(self._api, [str(fault["id"]) for fault in made])

    def heal(self) -> None:
        """End all active faults."""
        self._api.post(f"{FAULTS}/reset")
