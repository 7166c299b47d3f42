"""The four-letter words (org.apache.zookeeper.server.command): ZooKeeper's answers, line by line."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ensemble.ids import ConnectionId
from ensemble.server.zoo_cfg import ZooConfig
from ensemble.tree.connections import ConnectionInfo
from ensemble.tree.service import Service
from ensemble.zab.messages import PeerState
from ensemble.zab.peer import Peer

COMPATIBLE_WITH = "3.9.5"
NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"
_MODES = {
    PeerState.LEADING: "leader",
    PeerState.FOLLOWING: "follower",
    PeerState.OBSERVING: "observer",
    PeerState.LOOKING: "looking",
}


def version_text() -> str:
    """The version line: the ZooKeeper release this speaks like, and our own."""
    try:
        ours = version("zabka")
    except PackageNotFoundError:
        ours = "dev"
    return f"{COMPATIBLE_WITH}-zabka-{ours}, built on 2026-11-01 00:00 UTC"


class Words:
    """Answers for one peer."""

    def __init__(self, config: ZooConfig, peer: Peer, service: Service, address: Callable[[ConnectionId], str]) -> None:
        self._config = config
        self._peer = peer
        self._service = service
        self._address = address
        self._began = time.monotonic()
        self._always: dict[str, Callable[[], str]] = {"ruok": lambda: "imok", "envi": self._envi, "isro": self._isro}
        self._serving: dict[str, Callable[[], str]] = {
            "srvr": self._srvr,
            "stat": self._stat,
            "mntr": self._mntr,
            "conf": self._conf,
            "cons": self._cons,
            "dump": self._dump,
            "wchs": self._wchs,
            "wchp": self._wchp,
            "dirs": self._dirs,
            "srst": self._srst,
        }

    def answer(self, word: str) -> str | None:
        """The answer to `word`; None where there is no such word."""
        command = self._always.get(word) or self._serving.get(word)
        if command is None:
            return None
        if word not in self._config.whitelist and "*" not in self._config.whitelist:
            return f"{word} is not executed because it is not in the whitelist.\n"
        if word in self._serving and not self._peer.status().serving:
            return NOT_SERVING
        return command()

    @property
    def mode(self) -> str:
        """leader, follower, observer, or standalone where there is but one voter."""
        if len(self._config.voters) == 1 and not self._config.observers:
            return "standalone"
        return _MODES[self._peer.state]

    def _numbers(self) -> str:
        stats = self._service.statistics()
        lines = [
            f"Latency min/avg/max: {stats.latency_min_ms}/{stats.latency_avg_ms:.4g}/{stats.latency_max_ms}",
            f"Received: {stats.packets_received}",
            f"Sent: {stats.packets_sent}",
            f"Connections: {stats.connections}",
            f"Outstanding: {stats.outstanding}",
            f"Zxid: 0x{stats.last_zxid:x}",
            f"Mode: {self.mode}",
            f"Node count: {stats.znodes}",
        ]
        return "\n".join(lines) + "\n"

    def _srvr(self) -> str:
        return f"Zookeeper version: {version_text()}\n{self._numbers()}"

    def _stat(self) -> str:
        clients = "".join(
            f" /{self._address(info.connection)}[1]"
            f"(queued={info.outstanding},recved={info.received},sent={info.sent})\n"
            for info in self._service.connections()
        )
        return f"Zookeeper version: {version_text()}\nClients:\n{clients}\n{self._numbers()}"

    def _cons(self) -> str:
        return "".join(self._cons_line(info) for info in self._service.connections()) + "\n"

    def _cons_line(self, info: ConnectionInfo) -> str:
        skew_ms = int(time.time() * 1000) - time.monotonic_ns() // 1_000_000
        return (
            f" /{self._address(info.connection)}[1](queued={info.outstanding},recved={info.received},sent={info.sent},"
            f"sid=0x{info.session_id & (1 << 64) - 1:x},lop={info.last_op},est={info.opened_mono_ms + skew_ms},"
            f"to={info.timeout_ms},lcxid=0x{info.last_cxid & 0xFFFFFFFF:x},lzxid=0x{info.last_zxid & (1 << 64) - 1:x},"
            f"lresp={info.last_response_mono_ms},llat={info.last_latency_ms},minlat={info.latency_min_ms},"
            f"avglat={info.latency_avg_ms:.4g},maxlat={info.latency_max_ms})\n"
        )

    def _mntr(self) -> str:
        stats, status = self._service.statistics(), self._peer.status()
        rows: list[tuple[str, object]] = [
            ("version", version_text()),
            ("server_state", self.mode),
            ("peer_state", f"{status.state.name.lower()} - {status.phase.value.lower()}"),
            ("avg_latency", f"{stats.latency_avg_ms:.4g}"),
            ("max_latency", stats.latency_max_ms),
            ("min_latency", stats.latency_min_ms),
            ("packets_received", stats.packets_received),
            ("packets_sent", stats.packets_sent),
            ("num_alive_connections", stats.connections),
            ("outstanding_requests", stats.outstanding),
            ("znode_count", stats.znodes),
            ("watch_count", stats.watches),
            ("ephemerals_count", stats.ephemerals),
            ("approximate_data_size", stats.approximate_data_size_bytes),
            ("global_sessions", stats.sessions),
            ("digest_mismatches_count", stats.digest_mismatches),
            ("quorum_size", len(self._config.voters)),
            ("uptime", int((time.monotonic() - self._began) * 1000)),
            ("current_epoch", status.current_epoch),
            ("accepted_epoch", status.accepted_epoch),
            ("last_zxid", f"0x{status.last_zxid:x}"),
        ]
        if status.state is PeerState.LEADING:
            followers = [learner for learner in status.learners if not learner.observer]
            rows += [
                ("learners", len(status.learners)),
                ("synced_followers", sum(learner.synced for learner in followers)),
                ("synced_observers", sum(learner.synced for learner in status.learners if learner.observer)),
                ("pending_syncs", status.pending_syncs),
                ("outstanding_proposals", status.outstanding),
            ]
        if (descriptors := _open_descriptors()) is not None:
            rows.append(("open_file_descriptor_count", descriptors))
        return "".join(f"zk_{name}\t{value}\n" for name, value in rows)

    def _conf(self) -> str:
        config = self._config
        lines = [
            f"clientPort={config.client_port}",
            f"dataDir={config.data_dir / 'version-2'}",
            f"dataDirSize={_size(config.data_dir / 'version-2')}",
            f"dataLogDir={config.data_log_dir / 'version-2'}",
            f"dataLogSize={_size(config.data_log_dir / 'version-2')}",
            f"tickTime={config.tick_time}",
            f"maxClientCnxns={config.max_client_cnxns}",
            f"minSessionTimeout={config.min_session_timeout}",
            f"maxSessionTimeout={config.max_session_timeout}",
            f"serverId={config.my_id if config.servers else 0}",
        ]
        mine = config.servers.get(config.my_id)
        if mine is not None:
            lines += [
                f"initLimit={config.init_limit}",
                f"syncLimit={config.sync_limit}",
                "electionAlg=3",
                f"electionPort={mine.election_port}",
                f"quorumPort={mine.quorum_port}",
                f"peerType={int(mine.observer)}",
                "membership: ",
                config.ensemble_text(),
            ]
        return "\n".join(lines) + "\n"

    def _envi(self) -> str:
        lines = [
            "Environment:",
            f"zookeeper.version={version_text()}",
            f"host.name={socket.gethostname()}",
            f"python.version={platform.python_version()}",
            f"python.home={sys.prefix}",
            f"os.name={platform.system()}",
            f"os.arch={platform.machine()}",
            f"os.version={platform.release()}",
            f"user.dir={Path.cwd()}",
        ]
        return "\n".join(lines) + "\n"

    def _isro(self) -> str:
        return "rw" if self._peer.status().serving else "null"

    def _dump(self) -> str:
        sessions = self._service.session_infos()
        owners = [info for info in sessions if info.ephemerals]
        lines = ["SessionTracker dump:", f"Global Sessions({len(sessions)}):"]
        lines += [f"0x{info.session_id & (1 << 64) - 1:x}\t{info.timeout_ms}ms" for info in sessions]
        lines += ["ephemeral nodes dump:", f"Sessions with Ephemerals ({len(owners)}):"]
        for info in owners:
            lines.append(f"0x{info.session_id & (1 << 64) - 1:x}:")
            lines += [f"\t{path}" for path in info.ephemerals]
        lines.append("Connections dump:")
        lines += [f"\t/{self._address(info.connection)}" for info in self._service.connections()]
        return "\n".join(lines) + "\n"

    def _wchs(self) -> str:
        counts = self._service.watch_counts()
        return f"{counts.connections} connections watching {counts.paths} paths\nTotal watches:{counts.watches}\n"

    def _wchp(self) -> str:
        """Sessions by watched path; unlike ZooKeeper's, with those that watch children."""
        sessions = {info.connection: info.session_id for info in self._service.connections()}
        lines = []
        for path, connections in self._service.watches.by_path().items():
            lines.append(path)
            lines += [f"\t0x{sessions[c] & (1 << 64) - 1:x}" for c in connections if c in sessions]
        return "\n".join(lines) + "\n"

    def _dirs(self) -> str:
        data, log = self._config.data_dir / "version-2", self._config.data_log_dir / "version-2"
        return f"datadir_size: {_size(data)}\nlogdir_size: {_size(log)}\n"

    def _srst(self) -> str:
        self._service.reset_statistics()
        return "Server stats reset.\n"


def _size(directory: Path) -> int:
    try:
        return sum(path.stat().st_size for path in directory.iterdir() if path.is_file())
    except OSError:
        return 0


def _open_descriptors() -> int | None:
    try:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (entries only)
    except OSError:
        return None
