"""The admin server's commands, with ZooKeeper's names and fields (org.apache.zookeeper.server.admin.Commands)."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from zabka.ensemble.server.operator import server_facts
from zabka.ensemble.server.operator.exposition import monitor_rows
from zabka.ensemble.server.operator.http_port import HttpRequest
from zabka.ensemble.server.operator.metrics import Metrics
from zabka.ensemble.server.operator.on_demand_snapshots import OnDemandSnapshots, Refusal
from zabka.ensemble.server.operator.restores import Restores
from zabka.ensemble.server.operator.running_peer import RunningPeer
from zabka.ensemble.server.operator.words import NOT_SERVING, TraceMask
from zabka.ensemble.tree.connections import ConnectionInfo
from zabka.ensemble.zab.messages import PeerState
from zabka.ensemble.zab.server_line import ServerLine, bracketed

Fields = dict[str, Any]
SERVING_POLL_S = 0.1
OBSERVER_RESTORES_NOTHING = (
    "This server is an observer: it has no vote, and would take the leader's tree again. Restore at a voting server."
)
_ALIASES = {
    "conf": "configuration", "config": "configuration", "cons": "connections", "crst": "connection_stat_reset",
    "env": "environment", "envi": "environment", "gtmk": "get_trace_mask", "icfg": "initial_configuration",
    "isro": "is_read_only", "lead": "leader", "lsnp": "last_snapshot", "mntr": "monitor", "obsr": "observers",
    "orst": "observer_connection_stat_reset", "rest": "restore", "snap": "snapshot", "srst": "stat_reset",
    "srvr": "server_stats", "stat": "stats", "stmk": "set_trace_mask", "sysp": "system_properties",
    "wchc": "watches", "wchp": "watches_by_path", "wchs": "watch_summary",
}  # fmt: skip


class Answer(msgspec.Struct, frozen=True):
    """Response of an admin command: fields of a JSON object, or a file. `then` is called after it was sent."""

    body: Fields
    status: int = 200
    headers: Mapping[str, str] = {}
    file: Path | None = None
    then: Callable[[], None] | None = None


class AdminCommands:
    """Commands of one peer's admin server."""

    def __init__(
        self,
        running: RunningPeer,
        metrics: Metrics,
        trace_mask: TraceMask,
        *,
        snapshots: OnDemandSnapshots,
        restores: Restores,
        restart: Callable[[], None],
    ) -> None:
        """Create the commands; `restart` is called to restart the server from a restored snapshot."""
        self._config = running.config
        self._peer = running.peer
        self._service = running.service
        self._clients = running.clients
        self._metrics = metrics
        self._trace_mask = trace_mask
        self._snapshots = snapshots
        self._restores = restores
        self._restart = restart
        self._always: dict[str, Callable[[HttpRequest], Fields]] = {
            "environment": lambda _: dict(server_facts.environment()),
            "get_trace_mask": lambda _: {"tracemask": trace_mask.value},
            "set_trace_mask": self._set_trace_mask,
            "system_properties": lambda _: self._system_properties(),
            "zabstate": lambda _: self._zab_state(),
        }
        self._serving: dict[str, Callable[[], Fields]] = {
            "configuration": self._configuration,
            "connection_stat_reset": self._connection_stat_reset,
            "connections": self._connections,
            "dirs": self._dirs,
            "dump": self._dump,
            "hash": self._hash,
            "initial_configuration": lambda: {"initial_configuration": self._config.text},
            "is_read_only": lambda: {"read_only": self._peer.status().read_only},
            "last_snapshot": self._last_snapshot,
            "leader": self._leader,
            "monitor": lambda: dict(monitor_rows(self._metrics.read())),
            "observer_connection_stat_reset": dict,
            "observers": self._observers,
            "ruok": dict,
            "server_stats": self._server_stats,
            "stat_reset": self._stat_reset,
            "stats": self._stats,
            "voting_view": self._voting_view,
            "watch_summary": self._watch_summary,
            "watches": self._watches,
            "watches_by_path": self._watches_by_path,
        }
        self._guarded: dict[str, Callable[[HttpRequest], Awaitable[Answer]]] = {
            "restore": self._restore,
            "snapshot": self._snapshot,
        }

    @property
    def names(self) -> list[str]:
        """Return the primary name of each command."""
        return sorted((*self._always, *self._serving, *self._guarded))

    def count_plain(self) -> None:
        """Count a connection without TLS to a port that supports TLS."""
        self._metrics.on_demand.insecure_admin_count += 1

    async def run(self, name: str, request: HttpRequest) -> Answer:
        """Run a command, given its name or the corresponding four-letter word.

        As in ZooKeeper, read-only commands report some errors with status 200: an unknown command, a server without a
        quorum, a missing argument. All errors of `snapshot` and `restore` have a status of 400 or higher, because
        scripts depend on them.
        """
        name = _ALIASES.get(name, name)
        if name not in self._always and name not in self._serving and name not in self._guarded:
            return _failed(name, f"Unknown command: {name}")
        if request.method == "POST" and name != "restore":
            return _failed(name, f"{name} takes no POST: use GET", 405)
        if name in self._always:
            fields = self._always[name](request)
            return Answer({**fields, "command": name, "error": fields.get("error")})
        if name in self._guarded:
            # A restore on one server causes an election. Wait until the election is over, because the operator may
            # restore the next server immediately.
            patience_s = self._config.init_limit * self._config.tick_time / 1000 if name == "restore" else 0.0
            if not await self._serves_within(patience_s):
                return _failed(name, NOT_SERVING.strip(), 503)
            return await self._guarded[name](request)
        if not self._serves():
            return _failed(name, NOT_SERVING.strip())
        fields = self._serving[name]()
        return Answer({**fields, "command": name, "error": fields.get("error")})

    def _serves(self) -> bool:
        status = self._peer.status()
        return status.serving or status.read_only

    async def _serves_within(self, patience_s: float) -> bool:
        """Wait until this server accepts clients; return False if it does not within `patience_s`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience_s
        while not self._serves():
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(SERVING_POLL_S)
        return True

    # -- the server --------------------------------------------------------------------------------------------------

    def _configuration(self) -> Fields:
        facts = server_facts.configuration(self._config, self._peer, self._clients)
        names = {
            "clientPort": "client_port", "dataDir": "data_dir", "dataLogDir": "data_log_dir", "tickTime": "tick_time",
            "maxClientCnxns": "max_client_cnxns", "minSessionTimeout": "min_session_timeout",
            "maxSessionTimeout": "max_session_timeout", "serverId": "server_id",
            "clientPortListenBacklog": "client_port_listen_backlog",
        }  # fmt: skip
        return {ours: str(fact) if not isinstance(fact := facts[key], int) else fact for key, ours in names.items()}

    def _dirs(self) -> Fields:
        data, log = server_facts.directory_sizes(self._config)
        return {"datadir_size": data, "logdir_size": log}

    def _hash(self) -> Fields:
        return {
            "digests": [
                {"zxid": zxid, "digest": server_facts.signed(digest), "digest_version": 2}
                for zxid, digest in self._service.counters.digests
            ]
        }

    def _last_snapshot(self) -> Fields:
        zxid, written_s = self._snapshots.newest()
        return {"zxid": f"{zxid:x}" if zxid >= 0 else "-1", "timestamp": written_s}

    def _server_stats(self) -> Fields:
        stats, counts = self._service.views.statistics(), self._clients.admission.counts
        data, log = server_facts.directory_sizes(self._config)
        readings = self._metrics.read()
        return {
            "version": server_facts.version_text(),
            "read_only": self._peer.status().read_only,
            "server_stats": {
                "packets_sent": stats.packets_sent,
                "packets_received": stats.packets_received,
                "uptime": readings.gauges["uptime"],
                "data_dir_size": data,
                "log_dir_size": log,
                "server_state": readings.texts["server_state"],
                "outstanding_requests": stats.outstanding,
                "min_latency": stats.latency_min_ms,
                "avg_latency": round(stats.latency_avg_ms, 4),
                "max_latency": stats.latency_max_ms,
                "last_processed_zxid": stats.last_zxid,
                "num_alive_client_connections": readings.gauges["num_alive_connections"],
                "provider_null": False,
                "auth_failed_count": counts.auth_failed_count,
                "non_mtlsremote_conn_count": counts.non_mtls_remote_conn_count,
                "non_mtlslocal_conn_count": counts.non_mtls_local_conn_count,
            },
            "node_count": stats.znodes,
        }

    def _stats(self) -> Fields:
        brief = [self._connection(info) for info in self._service.views.connections()]
        return {**self._server_stats(), "connections": brief, "secure_connections": []}

    def _stat_reset(self) -> Fields:
        self._metrics.reset()
        return {}

    def _set_trace_mask(self, request: HttpRequest) -> Fields:
        try:
            self._trace_mask.value = int(request.query["traceMask"])
        except (KeyError, ValueError):
            return {"error": "setTraceMask requires long traceMask argument"}
        return {"tracemask": self._trace_mask.value}

    def _system_properties(self) -> Fields:
        """Return the keys of zoo.cfg, without secrets.

        ZooKeeper returns Java's system properties, which this server does not have.
        """
        own = {f"zookeeper.{key}": value for key, value in sorted(self._config.values.items())}
        return {"python.version": sys.version, "user.timezone": time.tzname[0], **own}

    # -- the ensemble --------------------------------------------------------------------------------------------------

    def _leader(self) -> Fields:
        status = self._peer.status()
        if not self._config.distributed:
            return {"error": "server is not initialized"}
        line = self._peer.membership.lines.get(status.leader_id)
        return {
            "is_leader": status.state is PeerState.LEADING,
            "leader_id": status.leader_id,
            "leader_ip": line.host if line is not None else "",
        }

    def _observers(self) -> Fields:
        learners = [learner for learner in self._peer.status().learners if learner.observer]
        lines = self._peer.membership.lines
        found = [
            {"sid": learner.peer_id, "remote_socket_address": _quorum_address(lines.get(learner.peer_id)),
             "last_zxid": f"0x{learner.acked_zxid:x}"}
            for learner in learners
        ]  # fmt: skip
        return {"synced_observers": sum(learner.synced for learner in learners), "observers": found}

    def _voting_view(self) -> Fields:
        membership = self._peer.membership
        return {"current_config": {str(voter): _view(membership.lines[voter]) for voter in membership.voters
                                   if voter in membership.lines}}  # fmt: skip

    def _zab_state(self) -> Fields:
        status = self._peer.status()
        if not self._serves():
            return {"voting": False, "zabstate": ""}
        mine = server_facts.own_line(self._config, self._peer)
        host, port = server_facts.client_address(self._config, self._clients)
        return {
            "myid": status.peer_id,
            "is_leader": status.state is PeerState.LEADING,
            "quorum_address": _addresses(mine, 0),
            "election_address": _addresses(mine, 1),
            "client_address": f"{bracketed(host)}:{port}",
            "voting": status.peer_id in self._peer.membership.voters,
            "last_zxid": f"0x{status.last_zxid:x}",
            "zab_epoch": status.last_zxid >> 32,
            "zab_counter": status.last_zxid & 0xFFFFFFFF,
            "zabstate": status.phase.value.lower(),
        }

    # -- connections, sessions, watches --------------------------------------------------------------------------------

    def _connection(self, info: ConnectionInfo) -> Fields:
        return {
            "remote_socket_address": self._clients.address(info.connection),
            "interest_ops": 1,
            "outstanding_requests": info.outstanding,
            "packets_received": info.received,
            "packets_sent": info.sent,
        }

    def _connections(self) -> Fields:
        rows = [
            {
                **self._connection(info),
                "session_id": info.session_id,
                "last_operation": server_facts.short_op(info.last_op),
                "established": server_facts.wall_ms(info.opened_mono_ms),
                "session_timeout": info.timeout_ms,
                "last_cxid": info.last_cxid,
                "last_zxid": info.last_zxid,
                "last_response_time": info.last_response_mono_ms,
                "last_latency": info.last_latency_ms,
                "min_latency": info.latency_min_ms,
                "avg_latency": int(info.latency_avg_ms),
                "max_latency": info.latency_max_ms,
            }
            for info in self._service.views.connections()
        ]
        return {"connections": rows, "secure_connections": []}

    def _connection_stat_reset(self) -> Fields:
        self._service.clients.reset_statistics()
        return {}

    def _dump(self) -> Fields:
        buckets = self._service.views.sessions_by_due_time() or []
        owners = [info for info in self._service.views.session_infos() if info.ephemerals]
        return {
            "expiry_time_to_session_ids": {str(server_facts.wall_ms(due_ms)): ids for due_ms, ids in buckets},
            "session_id_to_ephemeral_paths": {str(info.session_id): info.ephemerals for info in owners},
        }

    def _watch_summary(self) -> Fields:
        counts = self._service.views.watch_counts()
        return {
            "num_connections": counts.connections, "num_paths": counts.paths, "num_total_watches": counts.watches
        }  # fmt: skip

    def _watches(self) -> Fields:
        found = server_facts.paths_by_session(self._service)
        return {"session_id_to_watched_paths": {str(session_id): paths for session_id, paths in found.items()}}

    def _watches_by_path(self) -> Fields:
        return {"path_to_session_ids": server_facts.sessions_by_path(self._service)}

    # -- commands that require authentication --------------------------------------------------------------------------

    async def _snapshot(self, request: HttpRequest) -> Answer:
        if (refusal := self._snapshots.refusal(request)) is not None:
            return _failed("snapshot", refusal.reason, refusal.status)
        if not self._peer.status().serving:
            # Without a leader the tree contains all transactions in this server's log, including ones that may never
            # have been committed.
            return _failed("snapshot", "This server has no leader: not all that it holds need be committed", 503)
        taken = await self._snapshots.take_snapshot()
        headers = {"last_zxid": f"0x{taken.zxid:x}", "snapshot_size": str(taken.size_bytes)}
        if request.query.get("streaming", "true").lower() == "false":
            return Answer({"command": "snapshot", "error": None}, headers=headers)
        return Answer({}, headers=headers, file=self._snapshots.file_of(taken))

    async def _restore(self, request: HttpRequest) -> Answer:
        if (refusal := self._snapshots.unproved(request)) is not None:
            return _failed("restore", refusal.reason, refusal.status)
        if request.method != "POST":
            return _failed("restore", "restore takes a snapshot by POST", 405)
        if self._peer.status().state is PeerState.OBSERVING:
            return _failed("restore", OBSERVER_RESTORES_NOTHING, 409)
        received = await self._restores.receive(request.body)
        if isinstance(received, Refusal):
            return _failed("restore", received.reason, received.status)
        return Answer({"last_zxid": received, "command": "restore", "error": None}, then=self._restart)


def _failed(name: str, error: str, status: int = 200) -> Answer:
    return Answer({"command": name, "error": error}, status)


def _addresses(line: ServerLine | None, kind: int) -> Fields:
    addresses = [f"{bracketed(each[0])}:{each[1 + kind]}" for each in line.addresses] if line is not None else []
    return {"empty": not addresses, "all_addresses": addresses, "one": addresses[0] if addresses else ""}


def _quorum_address(line: ServerLine | None) -> str:
    return f"{bracketed(line.host)}:{line.quorum_port}" if line is not None else ""


def _view(line: ServerLine) -> Fields:
    client = "" if line.client_port is None else f"{bracketed(line.client_host or '0.0.0.0')}:{line.client_port}"
    return {
        "server_addresses": [f"{bracketed(host)}:{port}" for host, port, _ in line.addresses],
        "election_addresses": [f"{bracketed(host)}:{port}" for host, _, port in line.addresses],
        "client_address": client,
        "learner_type": "observer" if line.observer else "participant",
    }
