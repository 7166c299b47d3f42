"""One host's part of the cluster: its processes, its faults, its journal, and the status of its nodes."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import structlog

from zabka.agent.protocol import API_NODE as API
from zabka.agent.protocol import (
    NEWER_STATE,
    FaultState,
    JournalAnswer,
    JournalRequest,
    NodeAction,
    NodeStatus,
    ProcessInfo,
    Snapshot,
)
from zabka.compose.control_link import ControlLink
from zabka.compose.journal_files import JournalTail
from zabka.compose.journal_growth import JournalGrowth
from zabka.compose.launch import argv_for
from zabka.compose.ports import control_socket
from zabka.compose.processes import SEEN, Child, ManagedProcess, NotNow
from zabka.compose.topology import (
    BrokerSpec,
    HostSpec,
    Topology,
    config_file,
    journal_directory,
    node_directory,
    write_node,
)
from zabka.ensemble.request_fault import HeldRequestFault, describe
from zabka.ensemble.runtime.fault_ledger import forget_counts
from zabka.ensemble.runtime.link_fault import ANY, AnyFault, HeldFault, kind_text
from zabka.ensemble.runtime.links import FaultTable
from zabka.ensemble.runtime.supervisor import kept_up
from zabka.journal.events import FaultInjected, FaultRemoved, NodeStarted, NodeStopped, ProcessChanged, TaskFailed
from zabka.journal.message_log import message_files
from zabka.journal.reader import node_files, read_file
from zabka.journal.writer import JournalWriter

OBSERVE_INTERVAL_S = 0.5
"""The interval between checks of the processes, and between status requests to each node."""
STALE_MS = 5_000
"""Age of a node's last response, in ms, above which the node counts as not responding."""
API_RESTART_S = 0.5
# The sum of these three times is less than the 20 s within which everything must have stopped.
BROKERS_STOP_S = 8.0
# Every broker that can hand over its leaderships has done so by now. The remaining brokers only wait for each other.
BROKERS_HURRY_S = 1.5
PEERS_STOP_S = 4.0
API_STOP_S = 3.0
FAULT_APPLY_S = 1.0
FAULT_LEDGER = "fault-uses"
"""Name of the directory that contains the counts of request faults."""
SHUTDOWN = "shutdown of the host agent"
"""Requester in journal events about processes that the host agent stops because it is shutting down itself."""

log = structlog.get_logger()


Fork = Callable[[Sequence[str], Path], Child]
"""Starts a node from the arguments of `zabka.compose.node` and the path of the node's log."""


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Host:
    """Runs the processes of one host of a topology.

    If `fork` is given, it is used for the first start of each process.
    """

    def __init__(self, topology: Topology, spec: HostSpec, data: Path, fork: Fork | None = None) -> None:
        self.spec = spec
        self._topology = topology
        self._data = data
        self._fork = fork
        self._journal = JournalWriter(journal_directory(data, spec.name), spec.name)
        self._faults: list[AnyFault] = []
        self._requesters: dict[str, str] = {}
        """The requester of the current action on each process."""
        self._faults_complete = False
        self._names = self._name_addresses()
        self._ledger = str(node_directory(data, spec.name) / FAULT_LEDGER)
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self._stopped = False
        self._api_down = asyncio.Event()
        self.processes: dict[str, ManagedProcess] = {}
        self.links: dict[str, ControlLink] = {}
        for node in spec.nodes:
            kind = node.partition("-")[0]
            self._add(node, kind, config_file(data, node))
            self.links[node] = ControlLink(
                control_socket(node_directory(data, node)), _monotonic_ms, partial(self._faults_line, node)
            )
        if spec.runs_api:
            self._add(API, API, data / API / "api.json")
        journals = [*spec.nodes, spec.name, *([API] if spec.runs_api else [])]
        self._tails = [JournalTail(journal_directory(data, node), node) for node in journals]
        self._growth = JournalGrowth({node: journal_directory(data, node) for node in journals})
        self._messages = [JournalTail(journal_directory(data, node), node, message_files) for node in spec.nodes]

    def _add(self, name: str, kind: str, config: Path) -> None:
        log = node_directory(self._data, name) / f"{name}.log"
        arguments = (kind, "--config", str(config))
        first = None if self._fork is None else partial(self._fork, arguments, log)
        self.processes[name] = ManagedProcess(name, argv_for(*arguments), log, self._changed, first)

    # ---- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start all processes at the same time, and begin to check their state."""
        config = {"nodes": ",".join(self.spec.nodes)}
        for fault_id in faults_left(journal_directory(self._data, self.spec.name), self.spec.name):
            self._journal.write(FaultRemoved(fault_id))
        self._journal.write(NodeStarted("host", int(self.spec.name.rpartition("-")[2]), config))
        self._journal.flush()
        if API in self.processes:
            # Start the API first, because it takes the longest.
            await self.processes[API].start()
        for spec in self._topology.nodes():
            if spec.name in self.links:
                write_node(self._topology, spec, self._data)
                await self.processes[spec.name].start()
        for node, link in self.links.items():
            self._keep_up(f"talking to {node}", link.run)
        self._keep_up("observing processes", self._observe)
        if API in self.processes:
            self._keep_up("keeping the API running", self._keep_api)

    def _keep_up(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks.append(asyncio.create_task(kept_up(name, work, self._task_failed)))

    def _task_failed(self, task: str, reason: str, trace: str) -> None:
        log.error("a task ended and is begun again", task=task, reason=reason, traceback=trace)
        self._journal.write(TaskFailed(task, reason))
        self._journal.flush()

    async def stop(self) -> None:
        """Stop all processes: first the brokers, then the peers, then the API. Further calls do nothing.

        Brokers are stopped first, because their controlled shutdown needs the peers.
        """
        if self._stopping:
            return
        self._stopping = True
        brokers = [n for n in self.links if n.startswith("broker-")]
        peers = [n for n in self.links if n.startswith("peer-")]
        await self._stop_all(brokers, BROKERS_STOP_S, (signal.SIGUSR1, BROKERS_HURRY_S))
        await self._stop_all(peers, PEERS_STOP_S)
        # Before stopping the API, give it time to collect the last events.
        await asyncio.sleep(0.15 if API in self.processes else 0)
        await self._stop_all([API] if API in self.processes else [], API_STOP_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._stopped = True
        self._growth.close()
        for fault in filter(self._owns, self._faults):
            self._journal.write(FaultRemoved(fault.id))
        self._journal.write(NodeStopped("shutdown"))
        self._journal.close()

    async def _stop_all(
        self, names: list[str], timeout_s: float, hurry: tuple[signal.Signals, float] | None = None
    ) -> None:
        async def stop(process: ManagedProcess) -> None:
            try:
                await process.stop(timeout_s, hurry)
            except NotNow:
                # Another caller is already stopping the process.
                await process.ended_within(timeout_s)
            if process.state != "down":
                await process.kill()

        await asyncio.gather(*(stop(self.processes[n]) for n in names if self.processes[n].state != "down"))

    async def apply_action(self, name: str, action: NodeAction, requester: str) -> ProcessInfo:
        """Apply the action to a process.

        Raises KeyError if no process has this name, and NotNow if the action is not possible in the current state.
        """
        process = self.processes[name]
        if self._stopping:
            raise NotNow(f"{self.spec.name} is stopping all its processes")
        self._requesters[name] = requester
        try:
            await self._apply(process, action)
        finally:
            self._requesters.pop(name, None)
        return self._info(process)

    async def _apply(self, process: ManagedProcess, action: NodeAction) -> None:
        if action in (NodeAction.START, NodeAction.RESTART):
            self._write_config(process.name)
        match action:
            case NodeAction.KILL:
                await process.kill()
            case NodeAction.STOP:
                await process.stop()
            case NodeAction.PAUSE:
                await process.pause()
            case NodeAction.RESUME:
                await process.resume()
            case NodeAction.START:
                await process.start()
            case NodeAction.RESTART:
                await process.restart()

    def _write_config(self, name: str) -> None:
        for spec in self._topology.nodes():
            if spec.name == name:
                write_node(self._topology, spec, self._data)

    def _changed(self, process: ManagedProcess, action: str) -> None:
        requester = "" if action in SEEN else self._requesters.get(process.name, SHUTDOWN if self._stopping else "")
        self._journal.write(ProcessChanged(process.name, process.state, process.pid, action, requester))
        self._journal.flush()
        if action == "start" and process.name in self.links:
            self.links[process.name].forget()
        if process.name == API and process.state == "down" and not self._stopping and action != "stop":
            self._api_down.set()

    async def _keep_api(self) -> None:
        """Restart the API process whenever it ends by itself, unless it cannot read its own state."""
        api = self.processes[API]
        while True:
            await self._api_down.wait()
            await asyncio.sleep(API_RESTART_S)
            if not self._stopping and api.state == "down" and api.exit_code != NEWER_STATE:
                await api.start()
            self._api_down.clear()

    async def _observe(self) -> None:
        while True:
            await asyncio.sleep(OBSERVE_INTERVAL_S)
            for link in self.links.values():
                link.ask()
            for process in self.processes.values():
                process.observe()

    # ---- state -------------------------------------------------------------------------------------------------------

    async def refresh(self, timeout_s: float) -> None:
        """Request the status of every running node now."""
        running = [link for n, link in self.links.items() if self.processes[n].state == "running"]
        await asyncio.gather(*(link.refresh(timeout_s) for link in running))

    def snapshot(self) -> Snapshot:
        """Return the process table and every node's last status."""
        statuses = [NodeStatus(n, link.age_ms(), link.status) for n, link in self.links.items() if link.status]
        processes = [self._info(p) for p in self.processes.values()]
        return Snapshot(self.spec.name, processes, statuses, time.time_ns() // 1000, self._faults_complete)

    def trouble(self) -> str | None:
        """Return why this host is not healthy, or None.

        Possible reasons: a process is down, a node does not respond, a peer accepts no requests.
        """
        for name, process in self.processes.items():
            if process.state != "running":
                return f"{name} is {process.state}"
            link = self.links.get(name)
            if link is not None and (not link.status or link.age_ms() > STALE_MS):
                return f"{name} does not answer"
            if link is not None and name.startswith("peer-") and not link.status.get("serving"):
                return f"{name} does not serve"
        return None

    def _info(self, process: ManagedProcess) -> ProcessInfo:
        return ProcessInfo(process.name, process.state, process.pid, process.exit_code, process.starts)

    async def read_journals(self, request: JournalRequest) -> JournalAnswer:
        """Return the journal lines after these positions.

        Wait until there are new lines, but at most for the request's `wait_ms`.
        """
        deadline = time.monotonic() + min(request.wait_ms, 5_000) / 1000
        requested = [(tail, p) for tail in self._tails if (p := request.positions.get(tail.node)) is not None]
        while True:
            notice = self._growth.next_growth()
            chunks = [chunk for tail, position in requested if (chunk := tail.read_on(position)) is not None]
            if chunks:
                self._growth.wrote()
            left_s = deadline - time.monotonic()
            if chunks or left_s <= 0 or self._stopped:
                return JournalAnswer(chunks)
            await self._growth.grown(notice, left_s)

    def read_messages(self, request: JournalRequest) -> JournalAnswer:
        """Return the messages that the nodes have logged after these positions, one chunk per node."""
        requested = [(tail, p) for tail in self._messages if (p := request.positions.get(tail.node)) is not None]
        return JournalAnswer([chunk for tail, position in requested if (chunk := tail.read_on(position)) is not None])

    # ---- faults -----------------------------------------------------------------------------------------------------

    @property
    def faults(self) -> list[AnyFault]:
        """The active link faults and request faults."""
        return self._faults

    async def set_faults(self, faults: list[AnyFault], *, whole: bool = True) -> None:
        """Replace the active faults by these: send them to every node on this host, then journal them.

        After a node's restart, the faults are sent to it again. If `whole` is False, the list may be incomplete, and
        the API must send the complete list later.
        """
        self._faults_complete = whole
        before = {f.id: f for f in self._faults}
        self._faults = faults
        added = [fault for fault in faults if fault.id not in before and self._owns(fault)]
        # Journal these faults before sending them: nodes may apply them at once, and a cause must precede its effect in
        # the journal.
        for fault in added:
            if is_reported(fault):
                self._journal.write(injected(fault))
        self._journal.flush()
        for link in self.links.values():
            link.push_faults()
        await asyncio.gather(
            *(link.applied(FAULT_APPLY_S) for n, link in self.links.items() if self.processes[n].state == "running")
        )
        now = {f.id: f for f in faults}
        for fault in added:
            if not is_reported(fault):
                self._journal.write(injected(fault))
        for fault in before.values():
            if fault.id not in now and self._owns(fault):
                self._journal.write(FaultRemoved(fault.id))
        forget_counts(Path(self._ledger), [fault_id for fault_id in before if fault_id not in now])
        self._journal.flush()

    def _owns(self, fault: AnyFault) -> bool:
        """Return whether this host writes the fault to its journal.

        For a link fault, this is the host of the link's source. For a request fault, it is the host of the first node
        that applies the fault.
        """
        if isinstance(fault, HeldFault) and fault.client is None:
            return fault.source in self.links
        names = [spec.name for spec in self._topology.nodes()]
        if isinstance(fault, HeldFault):
            return (names[0] if fault.node == ANY else fault.node) in self.links
        return next((name for name in names if fault.is_for(name)), None) in self.links

    def _faults_line(self, node: str) -> bytes:
        state = FaultState.of(self._faults)
        requests = [fault for fault in state.requests if fault.is_for(node)]
        return msgspec.json.encode(FaultTable(state.faults, node, self._names, requests, self._ledger))

    def _name_addresses(self) -> dict[str, str]:
        names: dict[str, str] = {}
        for spec in self._topology.nodes():
            if isinstance(spec, BrokerSpec):
                names[f"{spec.advertised}:{spec.port}"] = spec.name
            else:
                for port in (spec.client_port, spec.quorum_port, spec.election_port):
                    names[f"{spec.address}:{port}"] = spec.name
        return names


def is_reported(fault: AnyFault) -> bool:
    """Return whether nodes journal every application of the fault: to a request, or to a client's link."""
    return isinstance(fault, HeldRequestFault) or fault.client is not None


def injected(fault: AnyFault) -> FaultInjected:
    """Return the journal event that records a new fault."""
    if isinstance(fault, HeldFault):
        return FaultInjected(
            fault.id,
            kind_text(fault),
            fault.source,
            fault.target,
            fault.both_ways,
            fault.delay_ms,
            requester=fault.requester,
        )
    return FaultInjected(fault.id, fault.kind, describe(fault), fault.node, both_ways=False, requester=fault.requester)


def faults_left(directory: Path, host: str) -> list[str]:
    """Return the ids of faults that were still active at the end of the host's journal, oldest first."""
    left: dict[str, None] = {}
    for path in node_files(directory, host):
        for entry in read_file(path):
            if isinstance(entry.event, FaultInjected):
                left[entry.event.fault_id] = None
            elif isinstance(entry.event, FaultRemoved):
                left.pop(entry.event.fault_id, None)
    return list(left)
