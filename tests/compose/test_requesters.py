"""A host's journal records the requester of each fault that the host applied."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from zabka.agent.protocol import NodeAction, requester_named
from zabka.compose.host import SHUTDOWN, Host
from zabka.compose.plan import Requested, plan
from zabka.compose.processes import ManagedProcess
from zabka.ensemble.runtime.link_fault import HeldFault
from zabka.journal.events import FaultInjected, ProcessChanged
from zabka.journal.reader import node_files, read_file

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_process_change_events_contain_their_requesters(tmp_path: Path) -> None:
    """Each process change in the journal has its requester, unless no client requested the change.

    Changes without a request are the first start by the host, and the exit of a process by itself or when its host
    ends.
    """
    topology = plan(Requested(peers=1, brokers=0, zk_port=0, kafka_port=0, api_port=0), None)
    host = Host(topology, topology.hosts[0], tmp_path)
    process = ManagedProcess("peer-1", SLEEP, tmp_path / "log", host._changed)
    host.processes = {"peer-1": process}

    async def script() -> None:
        await process.start()
        await host.apply_action("peer-1", NodeAction.PAUSE, "page")
        await host.apply_action("peer-1", NodeAction.KILL, "scenario x")
        await process.start()
        await host.set_faults([HeldFault(id="f1", source="peer-1", target="*", kind="cut", requester="fixture")])
        assert process._process is not None
        process._process.send_signal(9)
        assert await process.ended_within(10)
        await process.start()
        await host.stop()

    asyncio.run(script())
    (file,) = node_files(tmp_path / "host-1" / "journal", "host-1")
    events = [entry.event for entry in read_file(file)]
    assert [(event.action, event.requester) for event in events if isinstance(event, ProcessChanged)] == [
        ("start", ""), ("pause", "page"), ("kill", "scenario x"), ("start", ""), ("exited", ""), ("start", ""),
        ("stop", SHUTDOWN),
    ]  # fmt: skip
    assert [event.requester for event in events if isinstance(event, FaultInjected)] == ["fixture"]


def test_requester_name_is_printable_and_short() -> None:
    assert requester_named("a\nb\x00" + "c" * 200) == "ab" + "c" * 98
