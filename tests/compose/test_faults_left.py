"""An agent finds in its journal the link faults that were active when its previous process ended."""

from __future__ import annotations

import asyncio
from pathlib import Path

from zabka.compose.host import Host, faults_left
from zabka.compose.plan import Requested, plan
from zabka.ensemble.runtime.link_fault import HeldFault
from zabka.journal.events import Event, FaultInjected, FaultRemoved, ProcessChanged
from zabka.journal.writer import encode_line


def cut(fault_id: str) -> FaultInjected:
    return FaultInjected(fault_id, "cut", "peer-1", "peer-2", True)


def write_journal(directory: Path, file: int, *events: Event) -> None:
    lines = [encode_line("host-1", file * 10 + n, n, n, event) for n, event in enumerate(events)]
    (directory / f"host-1.{file:012}.jsonl").write_bytes(b"".join(lines) + b'{"torn')


def test_leftover_faults_are_those_injected_but_not_removed(tmp_path: Path) -> None:
    write_journal(tmp_path, 1, cut("f1"), cut("f2"), cut("f3"), ProcessChanged("peer-1", "paused", 7, "pause"))
    write_journal(tmp_path, 2, FaultRemoved("f2"), cut("f4"), FaultRemoved("f1"), cut("f1"))
    assert faults_left(tmp_path, "host-1") == ["f3", "f4", "f1"]


def test_host_that_never_ran_has_no_leftover_faults(tmp_path: Path) -> None:
    assert faults_left(tmp_path / "none", "host-1") == []


def test_faults_are_unknown_until_the_full_fault_list_is_set(tmp_path: Path) -> None:
    topology = plan(Requested(peers=1, brokers=0, zk_port=0, kafka_port=0, api_port=0), None)
    host = Host(topology, topology.hosts[0], tmp_path)
    fault = HeldFault(id="f1", source="peer-1", target="*", kind="cut")

    async def set_faults(whole: bool) -> tuple[bool, list[HeldFault]]:
        await host.set_faults([fault], whole=whole)
        return host.snapshot().faults_known, host.faults

    try:
        assert not host.snapshot().faults_known
        assert asyncio.run(set_faults(whole=False)) == (False, [fault])
        assert asyncio.run(set_faults(whole=True)) == (True, [fault])
    finally:
        host._journal.close()
    assert faults_left(tmp_path / "host-1" / "journal", "host-1") == ["f1"]
