"""Faults on the links of a live cluster."""

from __future__ import annotations

import msgspec

from zabka.ensemble.runtime.link_fault import LinkFault
from zabka.testing.live.http_api import HttpApi


class Fault:
    """A fault in effect."""

    def __init__(self, api: HttpApi, fault_id: str) -> None:
        self._api = api
        self.id = fault_id

    def heal(self) -> None:
        """End the fault."""
        self._api.request("DELETE", f"/api/v1/faults/{self.id}")


class Faults:
    """Link faults between running nodes."""

    def __init__(self, api: HttpApi) -> None:
        self._api = api

    def cut(self, source: object, target: object = "*", *, both_ways: bool = True) -> Fault:
        """Drop all traffic."""
        return self._add(LinkFault(str(source), str(target), "cut", both_ways=both_ways))

    def delay(self, source: object, target: object, delay_ms: int, *, both_ways: bool = True) -> Fault:
        """Delay all traffic."""
        return self._add(LinkFault(str(source), str(target), "delay", delay_ms, both_ways))

    def _add(self, fault: LinkFault) -> Fault:
        body = msgspec.to_builtins(fault)
        return Fault(self._api, str(self._api.post("/api/v1/faults", body)["id"]))

    def heal(self) -> None:
        """End all faults."""
        self._api.post("/api/v1/faults/reset")
