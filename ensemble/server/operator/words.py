"""The four-letter words (org.apache.zookeeper.server.command); their output has the same lines as ZooKeeper's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol

from zabka.ensemble.ids import ConnectionId
from zabka.ensemble.server.config.zoo_cfg import ZooConfig
from zabka.ensemble.server.net.client_listener import Newcomer
from zabka.ensemble.server.operator import server_facts
from zabka.ensemble.server.operator.exposition import monitor_rows
from zabka.ensemble.server.operator.metrics import Metrics
from zabka.ensemble.server.operator.server_facts import version_text
from zabka.ensemble.tree.connections import ConnectionInfo
from zabka.ensemble.tree.service import Service
from zabka.ensemble.zab.peer import Peer

NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"
_SESSION = (1 << 64) - 1


class OpenConnections(server_facts.Open, Protocol):
    """Interface of a server's client connections, for the four-letter words."""

    def address(self, connection_id: ConnectionId) -> str:
        """Return the address of the client on this connection, which has a session."""
        ...

    def newcomers(self) -> Sequence[Newcomer]:
        """Return the connections that have no session yet."""
        ...


class TraceMask:
    """Trace mask that `stmk` sets and `gtmk` returns (ZooTrace); it has no effect here."""

    def __init__(self) -> None:
        self.value = 0b1_0011_0010


class FourLetterCommands:
    """Returns the output of four-letter words for one peer."""

    def __init__(
        self,
        config: ZooConfig,
        peer: Peer,
        service: Service,
        connections: OpenConnections,
        metrics: Metrics,
        trace_mask: TraceMask,
    ) -> None:
        self._config = config
        self._peer = peer
        self._service = service
        self._connections = connections
        self._metrics = metrics
        self._trace_mask = trace_mask
        self._always: dict[str, Callable[[], str]] = {
            "ruok": lambda: "imok",
            "envi": self._envi,
            "isro": self._isro,
            "gtmk": lambda: str(trace_mask.value),
        }
        self._serving: dict[str, Callable[[], str]] = {
            "srvr": self._srvr,
            "stat": self._stat,
            "mntr": self._mntr,
            "conf": self._conf,
            "cons": self._cons,
            "crst": self._crst,
            "dirs": self._dirs,
            "dump": self._dump,
            "hash": self._hash,
            "srst": self._srst,
            "wchc": self._wchc,
            "wchp": self._wchp,
            "wchs": self._wchs,
        }

    def answer(self, word: str, argument: bytes = b"") -> str | None:
        """Return the output of `word`, or None if the word is unknown; `argument` contains the bytes after the word."""
        command = self._always.get(word) or self._serving.get(word)
        if command is None and word != "stmk":
            return None
        if word not in self._config.whitelist and "*" not in self._config.whitelist:
            return f"{word} is not executed because it is not in the whitelist.\n"
        if command is None:
            return self._stmk(argument)
        if word in self._serving and not self._peer.status().serves_clients:
            return NOT_SERVING
        return command()

    # -- the server --------------------------------------------------------------------------------------------------

    def _numbers(self) -> str:
        stats = self._service.views.statistics()
        lines = [
            f"Latency min/avg/max: {stats.latency_min_ms}/{round(stats.latency_avg_ms, 4)}/{stats.latency_max_ms}",
            f"Received: {stats.packets_received}",
            f"Sent: {stats.packets_sent}",
            f"Connections: {stats.connections + len(self._connections.newcomers())}",
            f"Outstanding: {stats.outstanding}",
            f"Zxid: 0x{stats.last_zxid:x}",
            f"Mode: {server_facts.mode_of(self._config, self._peer)}",
            f"Node count: {stats.znodes}",
        ]
        return "\n".join(lines) + "\n"

    def _srvr(self) -> str:
        return f"Zookeeper version: {version_text()}\n{self._numbers()}"

    def _stat(self) -> str:
        clients = "".join(
            f" /{self._connections.address(info.connection)}[1]"
            f"(queued={info.outstanding},recved={info.received},sent={info.sent})\n"
            for info in self._service.views.connections()
        )
        return f"Zookeeper version: {version_text()}\nClients:\n{clients}{self._newcomers()}\n{self._numbers()}"

    def _mntr(self) -> str:
        return "".join(f"zk_{name}\t{value}\n" for name, value in monitor_rows(self._metrics.read()))

    def _conf(self) -> str:
        config = self._config
        facts = server_facts.configuration(config, self._peer, self._connections)
        lines = [f"{key}={value}" for key, value in facts.items()]
        if config.my_id in config.servers:
            lines += ["membership: ", self._peer.membership.text]
        return "\n".join(lines) + "\n"

    def _envi(self) -> str:
        rows = (f"{key}={value}" for key, value in server_facts.environment().items())
        return "\n".join(("Environment:", *rows)) + "\n"

    def _isro(self) -> str:
        return self._peer.status().isro

    def _dirs(self) -> str:
        data, log = server_facts.directory_sizes(self._config)
        return f"datadir_size: {data}\nlogdir_size: {log}\n"

    def _hash(self) -> str:
        return "".join(f"{zxid:x}: {server_facts.signed(digest)}\n" for zxid, digest in self._service.counters.digests)

    def _srst(self) -> str:
        self._metrics.reset()
        return "Server stats reset.\n"

    def _stmk(self, argument: bytes) -> str:
        """Set the trace mask to the eight bytes after the word. If they are missing, the output is empty, as in
        ZooKeeper.
        """
        if len(argument) < 8:
            return ""
        self._trace_mask.value = int.from_bytes(argument, "big", signed=True)
        return str(self._trace_mask.value)

    # -- connections and sessions --------------------------------------------------------------------------------------

    def _cons(self) -> str:
        lines = "".join(self._cons_line(info) for info in self._service.views.connections())
        return f"{lines}{self._newcomers()}\n"

    def _newcomers(self) -> str:
        """Return lines about the connections that have no session.

        The connection of this request is included: its four-letter word counts as a packet, and its interest ops are 0,
        because nothing more is read from it.
        """
        return "".join(
            f" /{newcomer.remote}[{int(not newcomer.asks)}](queued=0,recved={int(newcomer.asks)},sent=0)\n"
            for newcomer in self._connections.newcomers()
        )

    def _cons_line(self, info: ConnectionInfo) -> str:
        return (
            f" /{self._connections.address(info.connection)}[1]"
            f"(queued={info.outstanding},recved={info.received},sent={info.sent},"
            f"sid={_hex(info.session_id)},lop={server_facts.short_op(info.last_op)},"
            f"est={server_facts.wall_ms(info.opened_mono_ms)},to={info.timeout_ms},"
            f"lcxid=0x{info.last_cxid & 0xFFFFFFFF:x},lzxid={_hex(info.last_zxid)},"
            f"lresp={info.last_response_mono_ms},llat={info.last_latency_ms},minlat={info.latency_min_ms},"
            f"avglat={int(info.latency_avg_ms)},maxlat={info.latency_max_ms})\n"
        )

    def _crst(self) -> str:
        self._service.clients.reset_statistics()
        return "Connection stats reset.\n"

    def _dump(self) -> str:
        owners = [info for info in self._service.views.session_infos() if info.ephemerals]
        lines = ["SessionTracker dump:"]
        if self._config.local_sessions:
            local = self._service.local_sessions()
            lines.append(f"Local Sessions({len(local)}):")
            lines += [f"{_hex(session_id)}\t{timeout_ms}ms" for session_id, timeout_ms in local]
        lines += self._session_lines()
        lines += ["ephemeral nodes dump:", f"Sessions with Ephemerals ({len(owners)}):"]
        for info in owners:
            lines.append(f"{_hex(info.session_id)}:")
            lines += [f"\t{path}" for path in info.ephemerals]
        lines.append("Connections dump:")
        lines += [
            f"\tip: /{self._connections.address(info.connection)} sessionId: {_hex(info.session_id)}"
            for info in self._service.views.connections()
        ]
        lines += [f"\tip: /{newcomer.remote} sessionId: 0x0" for newcomer in self._connections.newcomers()]
        return "\n".join(lines) + "\n"

    def _session_lines(self) -> list[str]:
        """Return lines about the sessions.

        If this server tracks sessions (SessionTrackerImpl), they are grouped by expiry time; otherwise each line shows
        a session and its timeout.
        """
        buckets = self._service.views.sessions_by_due_time()
        if buckets is None:
            sessions = self._service.views.session_infos()
            rows = (f"{_hex(info.session_id)}\t{info.timeout_ms}ms" for info in sessions)
            return [f"Global Sessions({len(sessions)}):", *rows]
        lines = [f"Session Sets ({len(buckets)})/({sum(len(ids) for _, ids in buckets)}):"]
        for due_ms, ids in buckets:
            due = datetime.fromtimestamp(server_facts.wall_ms(due_ms) / 1000, UTC)
            lines.append(f"{len(ids)} expire at {due:%a %b %d %H:%M:%S UTC %Y}:")
            lines += [f"\t{_hex(session_id)}" for session_id in ids]
        return lines

    # -- watches -------------------------------------------------------------------------------------------------------
    # These counts include every watch, including child watches, unlike ZooKeeper's.

    def _wchs(self) -> str:
        counts = self._service.views.watch_counts()
        return f"{counts.connections} connections watching {counts.paths} paths\nTotal watches:{counts.watches}\n"

    def _wchp(self) -> str:
        return _groups({path: map(_hex, ids) for path, ids in server_facts.sessions_by_path(self._service).items()})

    def _wchc(self) -> str:
        return _groups({_hex(id): paths for id, paths in server_facts.paths_by_session(self._service).items()})


def _groups(groups: Mapping[str, Iterable[str]]) -> str:
    return "".join(f"{head}\n" + "".join(f"\t{row}\n" for row in rows) for head, rows in groups.items()) + "\n"


def _hex(session_id: int) -> str:
    return f"0x{session_id & _SESSION:x}"
