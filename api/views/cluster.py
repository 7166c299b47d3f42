"""Builds the responses of the routes from process tables, node statuses, the ensemble and the journal.

Each field has one source: `registered` comes from the ensemble, `believes` from the broker, `process` from the host
agent. If the sources disagree, this module shows all of them and does not decide which one is right.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

import msgspec

from zabka.api.collector.agents import Agents, LastStatus
from zabka.api.collector.collector import Collector
from zabka.api.collector.silent_hosts import NO_BELIEF, silent_broker, silent_peer, since_text
from zabka.api.http.problems import Problem
from zabka.api.settings import Settings
from zabka.api.views.ensemble_view import EnsembleView, Fresh, PartitionZnodes, TopicZnodes
from zabka.api.views.models import (
    Believes,
    Broker,
    Cluster,
    Controller,
    FaultView,
    NodeProcess,
    Partition,
    Peer,
    ProcessState,
    Topic,
    Transactions,
    Unknown,
    Workload,
)
from zabka.api.views.transactions import open_transactions
from zabka.api.views.writable import obstacle, problems
from zabka.ensemble.ids import zxid_text
from zabka.ensemble.runtime.link_fault import LinkFault
from zabka.journal.cluster_state import BrokerView, ControllerTermView, PeerView
from zabka.journal.controller_gaps import gap_before, gap_milliseconds
from zabka.journal.losses import LostRecords, lost_by_partition

TERMS_MAX = 100
"""Maximum number of controller terms in a response about the cluster. The newest are included."""
ReplicaRows = dict[tuple[str, int], dict[int, dict[str, Any]]]
"""The replica statuses that running brokers reported, keyed by partition and then by broker."""


class _Reports(NamedTuple):
    """Partition data from sources other than the partitions' znodes."""

    rows: ReplicaRows
    faults: Sequence[LinkFault]
    lost: Mapping[str, LostRecords]


_PROCESS_STATES: tuple[ProcessState, ...] = get_args(ProcessState)


class Views:
    """Builds the responses of the routes."""

    def __init__(self, settings: Settings, agents: Agents, ensemble: EnsembleView, collector: Collector) -> None:
        self._settings = settings
        self._agents = agents
        self._ensemble = ensemble
        self._collector = collector
        self._addresses = _addresses(settings.bootstrap, settings.brokers)
        self._external = dict(zip(settings.brokers, settings.external, strict=False))

    # ---- nodes ------------------------------------------------------------------------------------------------------

    def peers(self) -> list[Peer]:
        """Return every peer, including observers."""
        return [self.peer(i) for i in (*self._settings.peers, *self._settings.observers)]

    def peer(self, peer_id: int) -> Peer:
        """Return a peer. Raises Problem 404."""
        observer = peer_id in self._settings.observers
        if not observer and peer_id not in self._settings.peers:
            raise self.unknown("peer", peer_id)
        node = f"peer-{peer_id}"
        last = self._agents.last_status(node)
        if (silence := self._agents.silence(node)) is not None:
            age_ms = last.age_ms if last else None
            return silent_peer(peer_id, observer, silence, self._agents.taken_us(node), age_ms)
        process, pid = self._process(node)
        status: dict[str, Any] = dict(last.status) if last else {}
        journalled = self._journalled_peer(peer_id, pid)
        if journalled is not None:
            newer = self._journal_is_newer(node, last)
            for field in ("state", "phase", "leader_id", "accepted_epoch", "current_epoch", "last_zxid"):
                if field not in status or (newer and field != "last_zxid"):
                    status[field] = getattr(journalled, field)
        state = str(status.get("state", "LOOKING"))
        if process == "down":
            state = "DOWN"
        elif state not in ("LEADING", "FOLLOWING", "OBSERVING"):
            state = "LOOKING"
        return Peer(
            id=peer_id,
            state=state,  # type: ignore[arg-type]
            phase="ELECTION" if process == "down" else str(status.get("phase", "ELECTION")),
            accepted_epoch=int(status.get("accepted_epoch", 0)),
            current_epoch=int(status.get("current_epoch", 0)),
            last_zxid=_last_zxid(process, last, status),
            leader_id=-1 if process == "down" else int(status.get("leader_id", -1)),
            observer=observer,
            process=process,
            pid=pid,
            unknown=None,
            as_of_us=self._agents.taken_us(node),
            age_ms=last.age_ms if last else None,
        )

    def _journalled_peer(self, peer_id: int, pid: int | None) -> PeerView | None:
        """Return a peer's data from the journal, if its current process has written them.

        Otherwise return only the epochs, which are stored on disk and survive a restart of the process.
        """
        journalled = self._collector.state.peers.get(peer_id)
        if journalled is None or pid is None or journalled.pid in (None, pid):
            return journalled
        return PeerView(
            peer_id, state="LOOKING", accepted_epoch=journalled.accepted_epoch, current_epoch=journalled.current_epoch
        )  # fmt: skip

    def brokers(self, fresh: Fresh) -> list[Broker]:
        """Return every broker: first those of this cluster, then brokers started elsewhere that joined the ensemble."""
        return [self.broker(i, fresh) for i in (*self._settings.brokers, *self._joined(fresh))]

    def _joined(self, fresh: Fresh) -> list[int]:
        """Return the brokers that are registered or have replicas assigned, but are not run by this cluster's
        agents.
        """
        rows = [p for topic in fresh.reading.topics.values() for p in topic.partitions.values()]
        named = set(fresh.reading.brokers).union(*(row.replicas for row in rows))
        return sorted(named.difference(self._settings.brokers))

    def _of_elsewhere(self, broker_id: int, fresh: Fresh) -> Broker:
        """Return a broker that this cluster's agents do not run. Its data come only from the ensemble."""
        registration = fresh.reading.brokers.get(broker_id)
        journalled = self._collector.state.brokers.get(broker_id) or BrokerView(broker_id)
        return Broker(
            id=broker_id,
            process="unknown",
            pid=None,
            unknown=Unknown(reason="not_started_here", host=None, since_us=None),
            host=registration.host if registration else "",
            port=registration.port if registration else 0,
            registered=registration is not None,
            broker_epoch=registration.broker_epoch if registration else None,
            is_controller=fresh.reading.controller.broker_id == broker_id,
            believes=NO_BELIEF,
            session_state="unknown",
            fenced_writes=journalled.fenced_writes,
            fenced_requests=journalled.fenced_requests,
            as_of_us=0,
            stale=fresh.stale,
            age_ms=fresh.age_ms,
            status={},
        )

    def broker(self, broker_id: int, fresh: Fresh) -> Broker:
        """Return a broker. Raises Problem 404."""
        if broker_id not in self._settings.brokers:
            if broker_id not in self._joined(fresh):
                raise self.unknown("broker", broker_id)
            return self._of_elsewhere(broker_id, fresh)
        node = f"broker-{broker_id}"
        process, pid = self._process(node)
        journalled = self._journalled_broker(broker_id, pid)
        host, port = self._addresses.get(broker_id, ("", 0))
        if (silence := self._agents.silence(node)) is not None:
            silent = silent_broker(journalled, (host, port), silence, self._agents.taken_us(node), fresh)
            return silent.model_copy(update={"external": self._external.get(broker_id, "")})
        last = self._agents.last_status(node)
        status = last.status if last else {}
        registration = fresh.reading.brokers.get(broker_id)
        acting = journalled.is_controller
        if last is not None and not self._journal_is_newer(node, last):
            acting = bool(status.get("is_controller", acting))
        session = status.get("session", {}).get("state", journalled.session_state)
        return Broker(
            id=broker_id,
            process=process,
            pid=pid,
            unknown=None,
            host=host,
            port=port,
            external=self._external.get(broker_id, ""),
            registered=registration is not None,
            broker_epoch=registration.broker_epoch if registration else None,
            is_controller=process != "down" and acting,
            believes=self._believes(journalled),
            session_state="closed" if process == "down" else str(session),
            fenced_writes=journalled.fenced_writes,
            fenced_requests=journalled.fenced_requests,
            as_of_us=self._agents.taken_us(node),
            stale=fresh.stale,
            age_ms=fresh.age_ms,
            # Omit the status of a dead process, and the super users, which only GET /acls returns.
            status={} if process == "down" else {key: status[key] for key in status if key != "authorizer"},
        )

    def broker_statuses(self) -> dict[int, dict[str, Any]]:
        """Return the last status of each broker that runs and whose host agent responds, keyed by broker id."""
        found = {}
        for broker_id in self._settings.brokers:
            node = f"broker-{broker_id}"
            last = self._agents.last_status(node)
            if last is not None and self._agents.silence(node) is None and self._process(node)[0] != "down":
                found[broker_id] = dict(last.status)
        return found

    def _journalled_broker(self, broker_id: int, pid: int | None) -> BrokerView:
        """Return a broker's data from the journal.

        If these data are not from the broker's current process, return only the counts.
        """
        journalled = self._collector.state.brokers.get(broker_id) or BrokerView(broker_id)
        ended = journalled.process == "down" and journalled.process_since_us > 0
        if pid is None or (journalled.pid in (None, pid) and not ended):
            return journalled
        return BrokerView(broker_id, fenced_writes=journalled.fenced_writes, fenced_requests=journalled.fenced_requests)

    def _believes(self, journalled: BrokerView) -> Believes:
        node = f"broker-{journalled.id}"
        last = self._agents.last_status(node)
        believes = last.status.get("believes") if last is not None else None
        if last is not None and isinstance(believes, dict) and not self._journal_is_newer(node, last):
            return Believes(
                controller_id=int(believes.get("controller_id", -1)),
                controller_epoch=int(believes.get("controller_epoch", 0)),
                age_ms=last.age_ms,
            )
        if not journalled.believed_since_us:
            return NO_BELIEF
        age_ms = max(0, time.time_ns() // 1_000_000 - journalled.believed_since_us // 1000)
        return Believes(
            controller_id=journalled.believed_controller_id,
            controller_epoch=journalled.believed_controller_epoch,
            age_ms=age_ms,
        )

    def _journal_is_newer(self, node: str, last: LastStatus | None) -> bool:
        """Return whether a node's last journal entry about its own state is newer than its last status."""
        if last is None:
            return True
        return self._collector.reported_us.get(node, 0) > time.time_ns() // 1000 - last.age_ms * 1000

    def _process(self, node: str) -> tuple[ProcessState, int | None]:
        info = self._agents.process(node)
        for state in _PROCESS_STATES:
            if info is not None and info.process == state:
                return state, info.pid
        return "down", None

    def not_ours(self, broker_id: int, fresh: Fresh) -> Problem:
        """Return the error for an action on a broker that this cluster's agents do not run."""
        if broker_id not in self._joined(fresh):
            return self.unknown("broker", broker_id)
        return Problem(409, f"broker {broker_id} was not started by this cluster, so its process is unknown")

    def unknown(self, kind: str, number: int) -> Problem:
        """Return the 404 error for a node that does not exist."""
        known = self._settings.brokers if kind == "broker" else [*self._settings.peers, *self._settings.observers]
        names = ", ".join(map(str, known)) or "none"
        return Problem(404, f"there is no {kind} {number}; there are {names}")

    # ---- from the ensemble -------------------------------------------------------------------------------------------

    def controller(self, fresh: Fresh) -> Controller:
        """Return the controller and the controller epoch, as the znodes contain them."""
        found = fresh.reading.controller
        return Controller(
            broker_id=found.broker_id,
            controller_epoch=found.controller_epoch,
            zk_version=found.zk_version,
            timestamp_ms=found.timestamp_ms,
            stale=fresh.stale,
            age_ms=fresh.age_ms,
        )

    def topics(self, fresh: Fresh, faults: Sequence[LinkFault] | None = None) -> list[Topic]:
        """Return every topic, ordered by name.

        `faults` are the active link faults; by default, the faults according to the journal are used.
        """
        reports = self._reports(self._journalled_faults() if faults is None else faults)
        return [self._topic(topic, fresh, reports) for _, topic in sorted(fresh.reading.topics.items())]

    def topic(self, name: str, fresh: Fresh) -> Topic:
        """Return a topic. Raises Problem: 404, or 503 while the ensemble has not been read."""
        found = fresh.reading.topics.get(name)
        if found is None:
            if fresh.stale:
                raise Problem(503, f"no quorum, and topic {name} was not known before")
            raise Problem(404, f"there is no topic {name}")
        return self._topic(found, fresh, self._reports(self._journalled_faults()))

    def _journalled_faults(self) -> list[LinkFault]:
        held = self._collector.state.faults.values()
        links = [fault for fault in held if fault.kind == "cut" and fault.source != fault.target]
        return [LinkFault(fault.source, fault.target, "cut", both_ways=fault.both_ways) for fault in links]

    def _reports(self, faults: Sequence[LinkFault]) -> _Reports:
        state = self._collector.state
        return _Reports(self._replica_rows(), faults, lost_by_partition(state.losses, state.topics))

    def _topic(self, topic: TopicZnodes, fresh: Fresh, reports: _Reports) -> Topic:
        return Topic(
            name=topic.name,
            topic_id=topic.topic_id,
            config=topic.config,
            partitions=[self._partition(topic.name, n, p, reports) for n, p in topic.partitions.items()],
            deleting=topic.deleting,
            stale=fresh.stale,
            age_ms=fresh.age_ms,
        )

    def _silent(self, broker_id: int) -> bool:
        return self._agents.silence(f"broker-{broker_id}") is not None

    def _replica_rows(self) -> ReplicaRows:
        rows: ReplicaRows = {}
        for broker_id in self._settings.brokers:
            if self._silent(broker_id):
                continue
            last = self._agents.last_status(f"broker-{broker_id}")
            for row in last.status.get("partitions", ()) if last is not None else ():
                rows.setdefault((row["topic"], row["partition"]), {})[broker_id] = row
        return rows

    def _partition(self, topic: str, number: int, found: PartitionZnodes, reports: _Reports) -> Partition:
        journalled = self._collector.state.partitions.get(f"{topic}-{number}")
        marks = {b: at for b, at in journalled.high_watermarks.items() if not self._silent(b)} if journalled else {}
        ends = {b: at for b, at in journalled.log_end_offsets.items() if not self._silent(b)} if journalled else {}
        reported = reports.rows.get((topic, number), {})
        for broker_id, row in reported.items():
            marks[broker_id], ends[broker_id] = int(row["hw"]), int(row["leo"])
        leads = reported.get(found.leader, {})
        if leads.get("leader") != found.leader or leads.get("leader_epoch") != found.leader_epoch:
            leads = {}
        min_isr, lagging = leads.get("min_isr"), [b for b in leads.get("lagging", ()) if b in found.isr]
        gone = reports.lost.get(f"{topic}-{number}", LostRecords())
        return Partition(
            partition=number,
            leader=found.leader,
            leader_epoch=found.leader_epoch,
            isr=list(found.isr),
            eligible=list(found.eligible),
            replicas=list(found.replicas),
            partition_epoch=found.partition_epoch,
            high_watermark=marks.get(found.leader, max(marks.values(), default=None)),
            log_end_offsets={str(b): ends[b] for b in sorted(ends) if b in found.replicas},
            offline=found.leader == -1,
            min_isr=min_isr,
            lagging=lagging,
            unwritable=obstacle(
                leader=found.leader,
                isr=found.isr,
                min_isr=min_isr,
                lagging=lagging,
                process_of=self._process_of,
                faults=reports.faults,
            ),
            records_lost=gone.records,
            committed_at_least=gone.committed_at_least,
        )

    def transactions(self) -> Transactions:
        """Return the open transactions, and the partitions whose readers wait for them."""
        return open_transactions(self._collector.state, self._process_of)

    def _process_of(self, broker_id: int) -> NodeProcess:
        known = broker_id in self._settings.brokers and not self._silent(broker_id)
        return self._process(f"broker-{broker_id}")[0] if known else "unknown"

    # ---- the whole cluster ------------------------------------------------------------------------------------------

    def cluster(self, fresh: Fresh, workloads: list[Workload], faults: list[FaultView] | None) -> Cluster:
        """Return the whole cluster as one object."""
        state = self._collector.state
        held = self._journalled_faults() if faults is None else _links_of(faults)
        topics = self.topics(fresh, held)
        leads = -1 if self._agents.silence(f"peer-{state.zab_leader_id}") else state.zab_leader_id
        return Cluster(
            seq=self._collector.last_seq,
            at_us=state.at_us,
            stale=fresh.stale,
            age_ms=fresh.age_ms,
            read_at_us=time.time_ns() // 1000 - fresh.age_ms * 1000,
            quorum=not fresh.stale,
            zab={"epoch": state.zab_epoch, "leader_id": leads},
            peers=self.peers(),
            controller=self.controller(fresh),
            controller_terms=_controller_terms(state.controller_terms),
            brokers=self.brokers(fresh),
            topics=topics,
            workloads=workloads,
            faults=faults,
            losses=[
                {**msgspec.to_builtins(loss), "acknowledged": loss.seq <= state.losses_acknowledged_seq}
                for loss in state.losses[-100:]
            ],
            settings={
                "zookeeper_connect": self._settings.zookeeper_connect,
                "bootstrap": self._settings.bootstrap,
                "external": ",".join(self._settings.external),
                "data": str(self._settings.cluster_data),
                "session_timeout_ms": self._settings.session_timeout_ms,
                "security": "" if self._settings.security is None else str(self._settings.security.directory),
            },
            history_trouble=self._collector.trouble or self._collector.restarted_journals,
            unreadable=list(fresh.reading.unreadable),
            problems=problems(held, _unwritable(topics)),
        )

    def missing(self, fresh: Fresh) -> list[str]:
        """Return the reasons why the cluster is not ready; empty if it is ready."""
        missing = [
            f"{since_text(agent.silence)}: {', '.join(agent.nodes)} unknown"
            for agent in self._agents.all
            if agent.nodes and agent.silence is not None
        ]
        if fresh.stale:
            return ["no quorum", *missing]
        # An ensemble without brokers needs no controller to be ready.
        if fresh.reading.controller.broker_id == -1 and (self._settings.brokers or fresh.reading.brokers):
            missing.append("there is no controller")
        for broker_id in self._settings.brokers:
            process, _ = self._process(f"broker-{broker_id}")
            if process == "running" and not self._silent(broker_id) and broker_id not in fresh.reading.brokers:
                missing.append(f"broker {broker_id} is not registered")
        acting = fresh.reading.controller.broker_id
        if acting in self._settings.brokers and not self._silent(acting):
            controller = self.broker(acting, fresh)
            if not controller.is_controller:
                return [*missing, f"broker {acting} has not taken over as controller yet"]
            # A broker that the controller does not know yet is not ready, because the controller assigns no replica to
            # it.
            known = controller.status.get("live_brokers", self._settings.brokers)
            missing += [
                f"the controller does not know broker {broker_id} yet"
                for broker_id in self._settings.brokers
                if broker_id in fresh.reading.brokers and broker_id not in known
            ]
        return missing


def _last_zxid(process: ProcessState, last: LastStatus | None, status: dict[str, Any]) -> str | None:
    """Return a peer's last zxid, or None if its current process has not reported a zxid yet."""
    if process != "down" and (last is None or "last_zxid" not in last.status):
        return None
    zxid = status.get("last_zxid", 0)
    return zxid if isinstance(zxid, str) else zxid_text(int(zxid))


def _unwritable(topics: Iterable[Topic]) -> Iterator[tuple[str, str]]:
    """Yield each unwritable partition's name and the reason. Topics that are being deleted are omitted."""
    for topic in topics:
        for row in topic.partitions if not topic.deleting else ():
            if row.unwritable is not None:
                yield f"{topic.name}-{row.partition}", row.unwritable


def _addresses(bootstrap: str, brokers: list[int]) -> dict[int, tuple[str, int]]:
    found = {}
    for broker_id, address in zip(brokers, filter(None, bootstrap.split(",")), strict=True):
        host, _, port = address.rpartition(":")
        found[broker_id] = (host.strip("[]"), int(port))
    return found


def _links_of(faults: Sequence[FaultView]) -> list[LinkFault]:
    """Return only the link faults."""
    return [fault.root for fault in faults if isinstance(fault.root, LinkFault)]


def _controller_terms(terms: list[ControllerTermView]) -> list[dict[str, Any]]:
    """Return the newest controller terms, each with the preceding time without a controller, if known."""
    views: list[dict[str, Any]] = []
    for place in range(max(0, len(terms) - TERMS_MAX), len(terms)):
        gap = gap_before(terms, place)
        views.append({**msgspec.to_builtins(terms[place]), **({} if gap is None else gap_milliseconds(gap))})
    return views
