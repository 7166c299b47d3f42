"""Data for both the four-letter words and the admin server: version, mode, configuration, environment, watchers."""

from __future__ import annotations

import getpass
import os
import platform
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol

from zabka.ensemble.ids import PeerId, SessionId
from zabka.ensemble.server.config.zoo_cfg import ZooConfig
from zabka.ensemble.tree.service import Service
from zabka.ensemble.txnlog.directory import VERSION_DIRECTORY
from zabka.ensemble.zab.messages import PeerState
from zabka.ensemble.zab.peer import Peer
from zabka.ensemble.zab.server_line import ServerLine

COMPATIBLE_WITH = "3.9.5"
_NOT_AVAILABLE = "<NA>"
"""Text that Java's Environment prints for a property that is not set."""
_MODES = {
    PeerState.LEADING: "leader",
    PeerState.FOLLOWING: "follower",
    PeerState.OBSERVING: "observer",
    PeerState.LOOKING: "looking",
}
# Names that FinalRequestProcessor uses for the last operation of a connection.
_SHORT_OPS = {
    **dict.fromkeys(("create", "create2", "createTtl", "createContainer"), "CREA"),
    **dict.fromkeys(("delete", "deleteContainer"), "DELE"),
    **dict.fromkeys(("getChildren", "getChildren2"), "GETC"),
    "addWatch": "ADDW",
    "check": "CHEC",
    "checkWatches": "CHKW",
    "closeSession": "CLOS",
    "createSession": "SESS",
    "exists": "EXIS",
    "getAcl": "GETA",
    "getAllChildrenNumber": "GETACN",
    "getData": "GETD",
    "getEphemerals": "GETE",
    "multi": "MULT",
    "multiRead": "MLTR",
    "ping": "PING",
    "reconfig": "RECO",
    "removeWatches": "REMW",
    "setAcl": "SETA",
    "setData": "SETD",
    "setWatches": "SETW",
    "setWatches2": "STW2",
    "sync": "SYNC",
    "whoAmI": "HOMI",
}


def version_text() -> str:
    """Return the version line: the compatible ZooKeeper release and this project's version."""
    try:
        ours = version("zabka")
    except PackageNotFoundError:
        ours = "dev"
    return f"{COMPATIBLE_WITH}-zabka-{ours}, built on 2026-11-01 00:00 UTC"


def mode_of(config: ZooConfig, peer: Peer) -> str:
    """Return leader, follower, observer or read-only, or standalone for a server with only one voter."""
    if peer.status().read_only:
        return "read-only"
    return _MODES[peer.state] if config.distributed else "standalone"


def short_op(name: str) -> str:
    """Return an op's short name, as in the output of `cons`."""
    return _SHORT_OPS.get(name, "NA")


class Open(Protocol):
    """Interface of a client port whose address can be queried."""

    @property
    def open_at(self) -> tuple[str, int] | None:
        """Return the address at which the port was last opened, or should have been; None before that."""
        ...


def own_line(config: ZooConfig, peer: Peer) -> ServerLine | None:
    """Return this server's `server.N` line, or None for a standalone server.

    It is from the active membership or, if that does not contain this server, from zoo.cfg.
    """
    return peer.membership.lines.get(PeerId(config.my_id)) or config.servers.get(config.my_id)


def client_address(config: ZooConfig, clients: Open) -> tuple[str, int]:
    """Return the address for clients without TLS; port 0 if there is none.

    If the membership has no client port for this server, the port that was opened before stays open, and its address is
    returned.
    """
    return clients.open_at or (config.client_address, config.client_port or 0)


def configuration(config: ZooConfig, peer: Peer, clients: Open) -> dict[str, object]:
    """Return the configuration with the names in the output of `conf` (ZooKeeperServerConf).

    The fields about the ensemble are omitted for a standalone server.
    """
    data, log = config.data_dir / VERSION_DIRECTORY, config.data_log_dir / VERSION_DIRECTORY
    data_size, log_size = directory_sizes(config)
    facts: dict[str, object] = {
        "clientPort": client_address(config, clients)[1] or -1,
        "secureClientPort": config.secure_client_port or -1,
        "dataDir": data,
        "dataDirSize": data_size,
        "dataLogDir": log,
        "dataLogSize": log_size,
        "tickTime": config.tick_time,
        "maxClientCnxns": config.limits.per_host,
        "minSessionTimeout": config.min_session_timeout,
        "maxSessionTimeout": config.max_session_timeout,
        "clientPortListenBacklog": -1,
        "serverId": config.my_id if config.servers else 0,
    }
    mine = own_line(config, peer)
    if mine is not None:
        facts |= {
            "initLimit": config.init_limit,
            "syncLimit": config.sync_limit,
            "electionAlg": 3,
            "electionPort": mine.election_port,
            "quorumPort": mine.quorum_port,
            "peerType": int(mine.observer),
        }
    return facts


def directory_sizes(config: ZooConfig) -> tuple[int, int]:
    """Return the total size of the files in dataDir and in dataLogDir, in bytes."""
    return _size(config.data_dir / VERSION_DIRECTORY), _size(config.data_log_dir / VERSION_DIRECTORY)


def _size(directory: Path) -> int:
    try:
        return sum(path.stat().st_size for path in directory.iterdir() if path.is_file())
    except OSError:
        return 0


def environment() -> dict[str, str]:
    """Return properties of the process: Java's keys in Java's order (Environment), then Python's own keys.

    There is no JVM: `java.version` and `java.vendor` name the interpreter, `java.home` is its installation directory,
    and `java.class.path` is the module search path. `os.memory.…` is the JVM's heap in ZooKeeper. Here it is the
    machine's available (`free`) and total (`max`) memory, and the memory of this process (`total`).
    """
    python, implementation = platform.python_version(), platform.python_implementation()
    return {
        "zookeeper.version": version_text(),
        "host.name": socket.gethostname(),
        "java.version": f"none: Python {python}",
        "java.vendor": f"none: {implementation}",
        "java.home": sys.prefix,
        "java.class.path": os.pathsep.join(sys.path),
        "java.library.path": os.environ.get("LD_LIBRARY_PATH") or _NOT_AVAILABLE,
        "java.io.tmpdir": _unless_unknown(tempfile.gettempdir),
        "java.compiler": _NOT_AVAILABLE,
        "os.name": platform.system(),
        "os.arch": platform.machine(),
        "os.version": platform.release(),
        "user.name": _unless_unknown(getpass.getuser),
        "user.home": _unless_unknown(Path.home),
        "user.dir": _unless_unknown(Path.cwd),
        "os.memory.free": _megabytes("SC_AVPHYS_PAGES"),
        "os.memory.max": _megabytes("SC_PHYS_PAGES"),
        "os.memory.total": f"{(resident_bytes() or 0) >> 20}MB",
        "python.version": python,
        "python.implementation": implementation,
        "python.home": sys.prefix,
    }


def _unless_unknown(found: Callable[[], object]) -> str:
    """Return the result of `found` as a string, or "unknown" if it raises an error.

    For example, in a container the user may have no name or home directory.
    """
    try:
        return str(found())
    except (KeyError, OSError, RuntimeError):
        return _NOT_AVAILABLE


def _megabytes(pages: str) -> str:
    return f"{os.sysconf(pages) * os.sysconf('SC_PAGE_SIZE') >> 20}MB"


def resident_bytes() -> int | None:
    """Return the memory of this process, or None if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def wall_ms(mono_ms: int) -> int:
    """Convert a monotonic time to the corresponding time of the wall clock."""
    return mono_ms + time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000


def signed(number: int) -> int:
    """Convert an unsigned 64-bit number to a signed one, as Java prints it."""
    return number - (1 << 64) if number >> 63 else number


def sessions_by_path(service: Service) -> dict[str, list[SessionId]]:
    """Return the sessions that watch each path, keyed by path."""
    sessions = {info.connection: info.session_id for info in service.views.connections()}
    return {
        path: [sessions[connection] for connection in connections if connection in sessions]
        for path, connections in service.watches.by_path().items()
    }


def paths_by_session(service: Service) -> dict[SessionId, list[str]]:
    """Return the paths that each session watches, keyed by session."""
    found: dict[SessionId, list[str]] = {}
    for path, ids in sessions_by_path(service).items():
        for session_id in ids:
            found.setdefault(session_id, []).append(path)
    return found
