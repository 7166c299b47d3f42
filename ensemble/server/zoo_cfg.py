"""zoo.cfg: ZooKeeper's configuration file, its keys and its defaults (QuorumPeerConfig).

A Java properties file.  What ZooKeeper takes as a system property is read from the same file, without the `zookeeper.`
prefix; `zabka.` keys are ours.  An unknown key is a warning, a bad value a ConfigError with one clear line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from ensemble.server.server_line import ServerLine, parse_server_line

T = TypeVar("T")

DEFAULT_WHITELIST = ("srvr",)
JUTE_MAXBUFFER = 0xFFFFF
PEER_ID_MAX = 255


class ConfigError(Exception):
    """The configuration cannot be used; one clear line for the operator."""


class ZooConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A peer's configuration.  `tick_time` is in milliseconds, `init_limit` and `sync_limit` in ticks, as there."""

    my_id: int
    data_dir: Path
    data_log_dir: Path
    client_port: int
    client_address: str
    servers: dict[int, ServerLine]
    tick_time: int
    init_limit: int
    sync_limit: int
    min_session_timeout: int
    max_session_timeout: int
    max_client_cnxns: int
    listen_on_all: bool
    snap_count: int
    preallocate_bytes: int
    retain_snapshots: int
    jute_maxbuffer: int
    whitelist: tuple[str, ...]
    journal_dir: Path
    journal_full: bool
    control_socket: str | None
    values: dict[str, str]
    warnings: tuple[str, ...]

    @property
    def voters(self) -> tuple[int, ...]:
        """Ids of the participants."""
        return tuple(i for i, line in self.servers.items() if not line.observer) or (self.my_id,)

    @property
    def observers(self) -> tuple[int, ...]:
        """Ids of the observers."""
        return tuple(i for i, line in self.servers.items() if line.observer)

    @property
    def node(self) -> str:
        """This node's name in journals and fault tables."""
        return f"peer-{self.my_id}"

    def ensemble_text(self) -> str:
        """The ensemble as ZooKeeper writes it into /zookeeper/config and election notifications."""
        lines = [f"server.{i}={line.canonical()}" for i, line in sorted(self.servers.items())]
        return "\n".join([*lines, "version=0"])


# Keys that need no action: their meaning is built in here, or they tune what has no counterpart.
ACCEPTED = frozenset(
    {
        "standaloneEnabled", "reconfigEnabled", "admin.enableServer", "admin.serverPort", "admin.serverAddress",
        "electionAlg", "cnxTimeout", "extendedTypesEnabled", "metricsProvider.className", "syncEnabled", "peerType",
        "leaderServes",
    }
)  # fmt: skip


def read_properties(text: str) -> dict[str, str]:
    """Key and value of each line; `#` and `!` begin a comment, a trailing backslash continues a line."""
    out: dict[str, str] = {}
    pending = ""
    for line in text.splitlines():
        line = pending + (line.lstrip() if pending else line.strip())
        pending = ""
        if not line or line[0] in "#!":
            continue
        if line.endswith("\\"):
            pending = line[:-1]
            continue
        ends = [i for i in (line.find("="), line.find(":")) if i >= 0]
        cut = min(ends) if ends else len(line)
        out[line[:cut].strip()] = line[cut + 1 :].strip()
    return out


class _Values:
    """Takes values out of a properties map, checking each."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self.used: set[str] = set(ACCEPTED)

    def get(self, key: str, default: T, convert: Callable[[str], T], expected: str) -> T:
        """The value of `key`, converted; `default` where it is absent."""
        self.used.add(key)
        text = self._values.get(key)
        if text is None:
            return default
        try:
            return convert(text)
        except ValueError:
            raise ConfigError(f"{key}={text} is not {expected}") from None

    def number(self, key: str, default: int, minimum: int, maximum: int = 2**31 - 1) -> int:
        """An integer within bounds."""
        return self.get(key, default, _bounded(minimum, maximum), f"a number from {minimum} to {maximum}")

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        return self.get(key, default, _boolean, "true or false")

    def text(self, key: str, default: str) -> str:
        """Any text."""
        return self.get(key, default, str, "text")


def _bounded(minimum: int, maximum: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        value = int(text)
        if not minimum <= value <= maximum:
            raise ValueError(text)
        return value

    return convert


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def load(path: Path) -> ZooConfig:
    """Read a zoo.cfg and the myid beside its data.  Raises ConfigError."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as bad:
        raise ConfigError(f"{path} cannot be read: {getattr(bad, 'strerror', None) or bad}") from None
    return parse(text)


def parse(text: str) -> ZooConfig:
    """A configuration from a zoo.cfg's text; `myid` is read from its dataDir.  Raises ConfigError."""
    raw = read_properties(text)
    values = _Values(raw)
    data_dir = _data_dir(values)
    servers = _servers(raw, values)
    my_id = _my_id(data_dir, servers)
    mine = servers.get(my_id)
    client_address, client_port = _client_address(values, mine)
    several = len(servers) > 1
    tick_time = values.number("tickTime", 3000, 1)
    whitelist = values.text("4lw.commands.whitelist", ",".join(DEFAULT_WHITELIST))
    interval = values.number("autopurge.purgeInterval", 0, 0)
    retain = values.number("autopurge.snapRetainCount", 3, 3)
    config = ZooConfig(
        my_id=my_id,
        data_dir=data_dir,
        data_log_dir=Path(values.text("dataLogDir", str(data_dir))),
        client_port=client_port,
        client_address=client_address,
        servers=servers,
        tick_time=tick_time,
        init_limit=_limit(values, "initLimit", 10, several),
        sync_limit=_limit(values, "syncLimit", 5, several),
        min_session_timeout=values.number("minSessionTimeout", 2 * tick_time, -1),
        max_session_timeout=values.number("maxSessionTimeout", 20 * tick_time, -1),
        max_client_cnxns=values.number("maxClientCnxns", 60, 0),
        listen_on_all=values.flag("quorumListenOnAllIPs", False),
        snap_count=values.number("snapCount", 100_000, 2),
        preallocate_bytes=values.number("preAllocSize", 65536, 1, 2**21) * 1024,
        retain_snapshots=retain if interval else 0,
        jute_maxbuffer=values.get("jute.maxbuffer", JUTE_MAXBUFFER, _juteb, "a number of bytes"),
        whitelist=tuple(word.strip() for word in whitelist.split(",") if word.strip()),
        journal_dir=Path(values.text("zabka.journal.dir", str(data_dir / "journal"))),
        journal_full=values.get("zabka.journal.level", False, _journal_full, "normal or full"),
        control_socket=values.text("zabka.control.socket", "") or None,
        values=raw,
        warnings=(),
    )
    _check_sessions(config)
    unknown = [key for key in raw if key not in values.used]
    return msgspec.structs.replace(config, warnings=tuple(f"unknown key {key} is ignored" for key in unknown))


def _juteb(text: str) -> int:
    value = int(text, 0)
    if not 1024 <= value < 2**31:
        raise ValueError(text)
    return value


def _journal_full(text: str) -> bool:
    if text.lower() not in ("normal", "full"):
        raise ValueError(text)
    return text.lower() == "full"


def _limit(values: _Values, key: str, default: int, needed: bool) -> int:
    found = values.number(key, 0, 1)
    if not found and needed:
        raise ConfigError(f"{key} is not set")
    return found or default


def _check_sessions(config: ZooConfig) -> None:
    if config.min_session_timeout > config.max_session_timeout >= 0:
        raise ConfigError(
            f"minSessionTimeout={config.min_session_timeout} is above maxSessionTimeout={config.max_session_timeout}"
        )


def _data_dir(values: _Values) -> Path:
    data_dir = values.text("dataDir", "")
    if not data_dir:
        raise ConfigError("dataDir is not set")
    return Path(data_dir)


def _servers(raw: Mapping[str, str], values: _Values) -> dict[int, ServerLine]:
    servers: dict[int, ServerLine] = {}
    for key, text in raw.items():
        prefix, _, number = key.partition(".")
        if prefix != "server":
            continue
        values.used.add(key)
        if not number.isdigit() or not 1 <= int(number) <= PEER_ID_MAX:
            raise ConfigError(f"{key}: a server's id is a number from 1 to {PEER_ID_MAX}")
        if int(number) in servers:
            raise ConfigError(f"{key}: two servers have the id {int(number)}")
        try:
            servers[int(number)] = parse_server_line(text)
        except ValueError as bad:
            raise ConfigError(f"{key}={text}: {bad}") from None
    _check_addresses(servers)
    if servers and all(line.observer for line in servers.values()):
        raise ConfigError("every server is an observer: at least one participant is needed")
    return dict(sorted(servers.items()))


def _check_addresses(servers: dict[int, ServerLine]) -> None:
    seen: dict[tuple[str, int], int] = {}
    for number, line in servers.items():
        for port in (line.quorum_port, line.election_port):
            other = seen.setdefault((line.host, port), number)
            if other != number or line.quorum_port == line.election_port:
                raise ConfigError(f"server.{number} uses {line.host}:{port} twice, or shares it with server.{other}")


def _my_id(data_dir: Path, servers: dict[int, ServerLine]) -> int:
    path = data_dir / "myid"
    try:
        text = path.read_text().strip()
    except FileNotFoundError:
        if not servers:
            return 1
        raise ConfigError(f"{path} is missing; it must hold this server's id") from None
    except (OSError, UnicodeDecodeError) as bad:
        raise ConfigError(f"{path} cannot be read: {bad}") from None
    if not text.isdigit() or not 1 <= int(text) <= PEER_ID_MAX:
        raise ConfigError(f"{path} holds {text[:40]!r} instead of a number from 1 to {PEER_ID_MAX}")
    if servers and int(text) not in servers:
        raise ConfigError(f"{path} says {int(text)}, but there is no server.{int(text)}")
    return int(text)


def _client_address(values: _Values, mine: ServerLine | None) -> tuple[str, int]:
    address = values.text("clientPortAddress", "")
    port = values.number("clientPort", 0, 0, 65535)
    given = "clientPort" in values.used and port
    if mine is not None and mine.client_port is not None:
        if given and port != mine.client_port:
            raise ConfigError(f"clientPort={port} differs from the {mine.client_port} in this server's own line")
        return mine.client_host or address, mine.client_port
    if not given:
        raise ConfigError("clientPort is not set")
    return address, port
