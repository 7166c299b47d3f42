"""Resets the live cluster, for example between two demonstrations: one reset at a time, in a background task.

A reset performs these steps in order, and stops at the first step that fails:

    scripts     stop scenarios that run on this cluster
    workloads   stop all producers and consumers of the API
    faults      remove all faults
    nodes       resume paused nodes, and start nodes that are down
    cluster     wait until the ensemble has a leader, a broker is controller, and all brokers are registered
    topics      delete all topics except internal topics and those to keep
    groups      delete all consumer groups without members except those to keep
    leaders     elect the preferred leader of each remaining partition

A reset keeps the settings of the cluster and of its brokers, users, quotas, other znodes, the journal, and stored runs.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

import structlog

from zabka.agent.protocol import NodeAction, ProcessInfo
from zabka.api.collector.agents import Agents
from zabka.api.collector.silent_hosts import out_of_reach
from zabka.api.http.problems import Problem
from zabka.api.scenarios.models import ScenarioRun
from zabka.api.scenarios.reset_models import NewReset, Reset, ResetStep, StepName
from zabka.api.views.ensemble_view import Reading
from zabka.api.views.models import ElectionResult, Workload
from zabka.journal.events import TopicPartition
from zabka.kafka.client.group_reading import GroupReading

REQUESTER = "reset"
WAIT_S = 90.0
"""Maximum time of each step that waits: a broker with large logs takes long to start."""
POLL_S = 0.2
REMEMBERED_MAX = 10
SHOWN_MAX = 10
"""Maximum number of groups or partitions that the reason of a failed step lists."""
_INTERNAL = "__"
_NOT_NEEDED = "ELECTION_NOT_NEEDED"
_TEXTS: dict[StepName, str] = {
    "scripts": "stop scripts on this cluster",
    "workloads": "stop producers and consumers",
    "faults": "remove all faults",
    "nodes": "start all nodes",
    "cluster": "wait for the controller and all brokers",
    "topics": "delete topics",
    "groups": "delete consumer groups",
    "leaders": "elect preferred leaders",
}

log = structlog.get_logger()


class StepFailed(Exception):
    """A step of a reset failed. The message is the reason."""


class ResetAdmin(Protocol):
    """The admin requests that a reset sends. They raise Problem."""

    async def delete_topic(self, name: str) -> None: ...
    async def delete_group(self, name: str) -> None: ...
    async def elect(self, kind: str, partitions: None) -> list[ElectionResult]: ...
    async def groups(self, known: Collection[str]) -> GroupReading: ...


class ResetWorkloads(Protocol):
    """The workloads that a reset stops."""

    def all(self) -> list[Workload]: ...
    async def delete(self, workload_id: str) -> Workload: ...


class ResetScripts(Protocol):
    """The scripts that a reset stops."""

    def live_runs(self) -> list[ScenarioRun]: ...
    async def stop(self, run_id: str) -> ScenarioRun: ...


class Resets:
    """Starts resets, and remembers the last ones."""

    def __init__(
        self,
        agents: Agents,
        admin: ResetAdmin,
        workloads: ResetWorkloads,
        scripts: ResetScripts,
        read: Callable[[], Awaitable[Reading | None]],
        nodes: Collection[str],
        *,
        wait_s: float = WAIT_S,
    ) -> None:
        """`read` returns the state in ZooKeeper, or None if it is not current; `nodes` are all nodes of the cluster."""
        self._agents = agents
        self._admin = admin
        self._workloads = workloads
        self._scripts = scripts
        self._read = read
        self._nodes = nodes
        self._wait_s = wait_s
        self._resets: dict[str, Reset] = {}
        self._task: asyncio.Task[None] | None = None

    def request(self, requested: NewReset) -> Reset:
        """Start a reset. Raises Problem: 409 if one is running, 503 if a host agent does not respond."""
        if self.is_running:
            raise Problem(409, "a reset is running already; wait until it has ended")
        silent = next((each.silence for each in self._agents.all if each.silence is not None), None)
        if silent is not None:
            raise out_of_reach("any node", silent)
        steps = [ResetStep(name=name, text=text) for name, text in _TEXTS.items()]
        reset = Reset(
            id=f"z{secrets.token_hex(4)}", state="running", requested_ms=time.time_ns() // 1_000_000, steps=steps
        )
        self._resets[reset.id] = reset
        for old in list(self._resets)[:-REMEMBERED_MAX]:
            del self._resets[old]
        self._task = asyncio.create_task(self._perform(reset, requested))
        return reset

    @property
    def is_running(self) -> bool:
        """Whether a reset is running."""
        return self._task is not None and not self._task.done()

    def get(self, reset_id: str) -> Reset:
        """Return the state of a reset. Raises Problem 404."""
        found = self._resets.get(reset_id)
        if found is None:
            raise Problem(404, f"there is no reset {reset_id}; the last {REMEMBERED_MAX} are available")
        return found

    async def close(self) -> None:
        """Cancel a reset that is running."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _perform(self, reset: Reset, requested: NewReset) -> None:
        began_s = time.monotonic()
        actions: dict[StepName, Callable[[], Awaitable[str]]] = {
            "scripts": self._stop_scripts,
            "workloads": self._stop_workloads,
            "faults": self._remove_faults,
            "nodes": self._start_nodes,
            "cluster": self._wait_for_cluster,
            "topics": lambda: self._delete_topics(requested.keep_topics),
            "groups": lambda: self._delete_groups(requested.keep_groups),
            "leaders": self._elect_leaders,
        }
        for step in reset.steps:
            step.state = "running"
            try:
                step.detail = await actions[step.name]()
            except (StepFailed, Problem) as reason:
                step.detail = str(reason)
                step.state = reset.state = "failed"
                break
            except Exception as mistake:
                log.exception("a reset ended by a mistake", step=step.name)
                step.detail = f"internal error: {mistake!r}; see the API's log"
                step.state = reset.state = "failed"
                break
            step.state = "done"
        else:
            reset.state = "done"
        reset.took_ms = int((time.monotonic() - began_s) * 1000)

    async def _until(self, holds: Callable[[], Awaitable[str]]) -> None:
        """Wait until `holds` returns an empty string. Raises StepFailed with its last result."""
        deadline_s = time.monotonic() + self._wait_s
        while missing := await holds():
            if time.monotonic() >= deadline_s:
                raise StepFailed(f"{missing}, after {self._wait_s:.0f} s")
            await asyncio.sleep(POLL_S)

    async def _stop_scripts(self) -> str:
        stopped = [run.scenario for run in self._scripts.live_runs()]
        for run in self._scripts.live_runs():
            await self._scripts.stop(run.id)

        async def still_running() -> str:
            return ", ".join(f"{run.scenario} has not ended" for run in self._scripts.live_runs())

        await self._until(still_running)
        return ", ".join(stopped)

    async def _stop_workloads(self) -> str:
        running = [each.id for each in self._workloads.all() if each.state == "running"]
        await asyncio.gather(*(self._workloads.delete(each) for each in running))
        return ", ".join(running)

    async def _remove_faults(self) -> str:
        async def unknown() -> str:
            return "no host agent responds" if await self._agents.known_faults() is None else ""

        await self._until(unknown)
        async with self._agents.changing_faults() as before:
            await self._agents.set_faults([])
        return f"{len(before)} removed" if before else ""

    async def _start_nodes(self) -> str:
        processes = {node: self._process(node) for node in self._nodes}
        wanted = {"paused": NodeAction.RESUME, "down": NodeAction.START}
        due = {node: wanted[info.process] for node, info in processes.items() if info.process in wanted}
        # Peers first: brokers need the ensemble to start.
        for node in sorted(due, key=lambda node: not node.startswith("peer-")):
            await self._agents.request_action(node, due[node], REQUESTER)

        async def stopped() -> str:
            down = [node for node in self._nodes if self._process(node).process != "running"]
            return ", ".join(f"{node} is not running" for node in down)

        await self._until(stopped)
        return ", ".join(due)

    def _process(self, node: str) -> ProcessInfo:
        found = self._agents.process(node)
        if found is None:
            raise StepFailed(f"the state of {node} is unknown")
        return found

    async def _wait_for_cluster(self) -> str:
        brokers = self._brokers()

        async def missing() -> str:
            reading = await self._read()
            if reading is None:
                return "the ensemble does not serve"
            absent = [each for each in brokers if not self._is_registered(each, reading)]
            if absent:
                return f"broker {', '.join(map(str, absent))} is not registered"
            return "" if reading.controller.broker_id >= 0 or not brokers else "no broker is controller"

        await self._until(missing)
        return ""

    def _brokers(self) -> list[int]:
        return sorted(int(node.removeprefix("broker-")) for node in self._nodes if node.startswith("broker-"))

    def _is_registered(self, broker_id: int, reading: Reading) -> bool:
        """Return whether the broker's process has the broker epoch of its registration.

        The registration of a killed process remains until its session expires. The agent discards a node's status when
        it starts the node.
        """
        found, last = reading.brokers.get(broker_id), self._agents.last_status(f"broker-{broker_id}")
        return found is not None and last is not None and last.status.get("broker_epoch") == found.broker_epoch

    async def _delete_topics(self, kept: Collection[str]) -> str:
        reading = await self._read()
        if reading is None:
            raise StepFailed("the ensemble does not serve")
        names = sorted(name for name in reading.topics if not name.startswith(_INTERNAL) and name not in kept)
        for name in names:
            try:
                await self._admin.delete_topic(name)
            except Problem as reason:
                if reason.status != 404:
                    raise

        async def there() -> str:
            found = await self._read()
            left = names if found is None else [name for name in names if name in found.topics]
            return ", ".join(f"topic {name} is still being deleted" for name in left)

        await self._until(there)
        return ", ".join(names)

    async def _delete_groups(self, kept: Collection[str]) -> str:
        """Delete the groups of all coordinators. A broker that has just started answers only after it has loaded its
        groups.
        """
        done: dict[str, str] = {}

        async def left() -> str:
            reading = await self._admin.groups(())
            if reading.problem:
                return reading.problem
            for name in sorted(reading.groups.keys() - set(kept)):
                done[name] = await self._delete_group(name)
            unknown = [f"{name}: {found.reason}" for name, found in reading.unknown.items() if name not in kept]
            omitted = [f"{reading.omitted} groups are not read"] if reading.omitted else []
            return ", ".join([*reading.silent.values(), *unknown[:SHOWN_MAX], *omitted])

        if self._brokers():
            await self._until(left)
        return ", ".join(done.values())

    async def _delete_group(self, name: str) -> str:
        """Delete a group, and return its name, or the reason why it remains if it has members. Raises Problem."""
        try:
            await self._admin.delete_group(name)
        except Problem as reason:
            if reason.extra.get("kafka_error") != "NON_EMPTY_GROUP":
                raise
            return f"{name} has members and is not deleted"
        return name

    async def _elect_leaders(self) -> str:
        """Elect preferred leaders. Partitions that have theirs already, and a cluster without topics, are no errors.

        A preferred leader that has just started is elected once it is in the ISR.
        """
        reading = await self._read()
        if reading is None:
            raise StepFailed("the ensemble does not serve")
        if not reading.topics:
            return ""
        elected: list[str] = []

        async def left() -> str:
            results = await self._admin.elect("PREFERRED", None)
            named = [(str(TopicPartition(each.topic, each.partition)), each) for each in results]
            elected.extend(name for name, each in named if each.elected)
            failed = [f"{name}: {each.error}" for name, each in named if each.error not in (None, _NOT_NEEDED)]
            more = [f"and {len(failed) - SHOWN_MAX} more"] if len(failed) > SHOWN_MAX else []
            return ", ".join([*failed[:SHOWN_MAX], *more])

        await self._until(left)
        return ", ".join(elected)
