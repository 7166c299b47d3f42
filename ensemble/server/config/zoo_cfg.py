"""zoo.cfg: ZooKeeper's configuration file, its keys and its defaults (QuorumPeerConfig).

The file is a Java properties file. ZooKeeper's system properties are read from the same file, without the
`zookeeper.` prefix; keys with the prefix `zabka.` are extensions of this server. An unknown key gives a warning, a
bad value a ConfigError with a one-line message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from zabka.ensemble.auth.jaas import digest_login, digest_users
from zabka.ensemble.auth.policy import AuthPolicy
from zabka.ensemble.auth.quorum_sasl import QuorumSasl
from zabka.ensemble.close_names import did_you_mean
from zabka.ensemble.properties import BadProperties, decode_properties, read_properties, trimmed
from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.server.config.config_values import INT_MAX, LONG_MAX, LONG_MIN, Values
from zabka.ensemble.server.config.config_values import ConfigError as ConfigError
from zabka.ensemble.server.config.dynamic_config import (
    is_membership_key,
    peer_type_warnings,
    read_membership,
    read_next_membership,
)
from zabka.ensemble.server.config.jaas_file import KEY as JAAS_FILE
from zabka.ensemble.server.config.jaas_file import read_section
from zabka.ensemble.server.config.limits import Limits
from zabka.ensemble.server.config.operator_cfg import AdminSettings, MetricsSettings, read_admin, read_metrics
from zabka.ensemble.server.config.reachability import Reachability
from zabka.ensemble.server.config.security_cfg import (
    read_auth,
    read_client_tls,
    read_limits,
    read_quorum_tls,
    read_secure_address,
    text_without_secrets,
    without_secrets,
)
from zabka.ensemble.server.config.storage_settings import StorageSettings, read_storage_settings
from zabka.ensemble.server.config.tls import TlsSettings
from zabka.ensemble.tree.attachment import MAX_TIMEOUT_TICKS, MIN_TIMEOUT_TICKS
from zabka.ensemble.tree_rules import TreeRules
from zabka.ensemble.txnlog.files import read_bytes, read_text
from zabka.ensemble.zab.membership import PEER_ID_MAX, Membership
from zabka.ensemble.zab.server_line import ServerLine
from zabka.journal.message_log import CONTROL, LEVELS

TICK_TIME_MAX_MS = (2**31 - 1) // MAX_TIMEOUT_TICKS
"""Upper limit for tickTime, almost thirty hours.

The longest session timeout is twenty ticks, and must fit a Java int.
"""
ALWAYS_WHITELISTED = "srvr"
"""Four-letter word that is always enabled, because ZooKeeper's own scripts depend on it."""
_ID_MAX_EXTENDED = 254
T = TypeVar("T")
_SASL_ENABLED, _SASL_SERVER, _SASL_LEARNER = (
    f"quorum.auth.{name}" for name in ("enableSasl", "serverRequireSasl", "learnerRequireSasl")
)
_SASL_PRINCIPAL = "quorum.auth.kerberos.servicePrincipal"


class ZooConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A peer's configuration. `tick_time` is in milliseconds, `init_limit` and `sync_limit` in ticks.

    `client_port` is None if there is only a TLS port; 0 chooses a free port.
    """

    my_id: int
    data_dir: Path
    data_log_dir: Path
    client_port: int | None
    client_address: str
    membership: Membership | None
    next_membership: Membership | None
    reconfig_enabled: bool
    several_addresses: bool
    standalone_enabled: bool
    path: Path | None
    tick_time: int
    init_limit: int
    sync_limit: int
    min_session_timeout: int
    max_session_timeout: int
    secure_client_port: int | None
    secure_client_address: str
    client_tls: TlsSettings | None
    client_port_unification: bool
    quorum_tls: TlsSettings | None
    ssl_quorum: bool
    port_unification: bool
    quorum_sasl: QuorumSasl | None
    observer_master_port: int
    auth: AuthPolicy
    limits: Limits
    listen_on_all: bool
    reachability: Reachability
    oracle_path: Path | None
    storage: StorageSettings
    whitelist: tuple[str, ...]
    journal_dir: Path
    journal_full: bool
    messages: str
    read_only_mode: bool
    leader_serves: bool
    local_sessions: bool
    local_sessions_upgrading: bool
    tree: TreeRules
    control_socket: str | None
    admin: AdminSettings | None
    metrics: MetricsSettings | None
    values: dict[str, str]
    text: str
    """Content of zoo.cfg, without secrets."""
    warnings: tuple[str, ...]

    @property
    def servers(self) -> dict[int, ServerLine]:
        """The `server.N` lines, keyed by server id; empty for a standalone server."""
        return _lines(self.membership)

    @property
    def voters(self) -> tuple[int, ...]:
        """Ids of the servers that vote (participants)."""
        return (self.my_id,) if self.membership is None else self.membership.voters

    @property
    def observers(self) -> tuple[int, ...]:
        """Ids of the observers."""
        return () if self.membership is None else self.membership.observers

    @property
    def distributed(self) -> bool:
        """Whether the ensemble has other servers, or a reconfiguration can add some."""
        return len(self.servers) > 1 or (bool(self.servers) and not self.standalone_enabled)

    @property
    def node(self) -> str:
        """This node's name in journals and fault tables."""
        return f"peer-{self.my_id}"

    def ensemble_text(self) -> str:
        """The membership in ZooKeeper's format, as in /zookeeper/config and in election notifications."""
        return "version=0" if self.membership is None else self.membership.text


# Keys without effect: the behaviour is built in, or the key tunes a part of ZooKeeper that does not exist here.
ACCEPTED = frozenset(
    {
        "clientPortListenBacklog", "connectToLearnerMasterLimit", "electionAlg", "cnxTimeout", "syncEnabled",
        "jvm.pause.info-threshold.ms", "jvm.pause.monitor", "jvm.pause.sleep.time.ms",
        "jvm.pause.warn-threshold.ms", "peerType", "quorum.cnxn.threads.size",
    }
)  # fmt: skip


def load(path: Path, files: Files = HOST) -> ZooConfig:
    """Read a zoo.cfg and the myid in its dataDir. Raises ConfigError."""
    try:
        text = decode_properties(read_bytes(path, files))
    except OSError as bad:
        raise ConfigError(f"{path} cannot be read: {bad.strerror or bad}") from None
    try:
        return parse(text, path, files)
    except ConfigError as bad:
        raise ConfigError(f"{bad} (in {path})") from None


def parse(text: str, path: Path | None = None, files: Files = HOST) -> ZooConfig:
    """Return the configuration in a zoo.cfg; read `myid` from its dataDir. Raises ConfigError."""
    raw = _raw(text)
    values = Values(raw)
    values.used |= {*ACCEPTED, *filter(is_membership_key, raw), "dynamicConfigFile"}
    data_dir = _data_dir(values)
    membership = read_membership(raw, files)
    servers = _lines(membership)
    several_addresses = values.flag("multiAddress.enabled", False)
    if not several_addresses and any(line.others for line in servers.values()):
        raise ConfigError("a server has several addresses, but multiAddress.enabled is not true")
    my_id = _my_id(data_dir, servers, files)
    mine = servers.get(my_id)
    secure_address, secure_port = read_secure_address(values)
    unifies = values.property_flag("client.portUnification", False)
    client_tls = read_client_tls(values, wanted=secure_port is not None or unifies)
    client_address, client_port = _client_address(values, mine, needed=secure_port is None)
    several = len(servers) > 1
    tick_time = values.number("tickTime", 3000, 1, TICK_TIME_MAX_MS)
    config = ZooConfig(
        my_id=my_id,
        data_dir=data_dir,
        data_log_dir=Path(values.text("dataLogDir", str(data_dir))),
        client_port=client_port,
        client_address=client_address,
        membership=membership,
        next_membership=_next_membership(path, raw, files),
        several_addresses=several_addresses,
        reconfig_enabled=values.flag("reconfigEnabled", False),
        standalone_enabled=values.flag("standaloneEnabled", True),
        path=path,
        tick_time=tick_time,
        init_limit=_limit(values, "initLimit", 10, several),
        sync_limit=_limit(values, "syncLimit", 5, several),
        min_session_timeout=_ticks_unless_set(values, "minSessionTimeout", MIN_TIMEOUT_TICKS, tick_time),
        max_session_timeout=_ticks_unless_set(values, "maxSessionTimeout", MAX_TIMEOUT_TICKS, tick_time),
        secure_client_port=secure_port,
        secure_client_address=secure_address,
        client_tls=client_tls,
        client_port_unification=unifies,
        quorum_tls=read_quorum_tls(values),
        ssl_quorum=values.flag("sslQuorum", False),
        port_unification=values.flag("portUnification", False),
        quorum_sasl=_quorum_sasl(values),
        observer_master_port=max(0, values.number("observerMasterPort", 0, maximum=65535)),
        auth=read_auth(raw, values, tls=client_tls is not None),
        limits=read_limits(values),
        reachability=_reachability(values),
        oracle_path=Path(oracle) if (oracle := values.text("oraclePath", "")) else None,
        listen_on_all=values.flag("quorumListenOnAllIPs", False),
        storage=read_storage_settings(values),
        whitelist=_whitelist(values),
        journal_dir=Path(values.text("zabka.journal.dir", str(data_dir / "journal"))),
        journal_full=values.get("zabka.journal.level", False, _journal_full, "normal or full"),
        messages=values.get("zabka.messages", CONTROL, _messages, "off, control or all"),
        read_only_mode=values.property_flag("readonlymode.enabled", False),
        leader_serves=not values.property_is("leaderServes", False, "no", "yes"),
        local_sessions=values.flag("localSessionsEnabled", False),
        local_sessions_upgrading=values.flag("localSessionsUpgradingEnabled", False),
        tree=_tree_rules(values, my_id),
        control_socket=values.text("zabka.control.socket", "") or None,
        admin=read_admin(values),
        metrics=read_metrics(values),
        values=without_secrets(raw),
        text=text_without_secrets(text),
        warnings=(),
    )
    _check_sessions(config)
    _check_without_effect(values, config)
    warnings = (
        *values.warnings,
        *(_unknown(key, values.used) for key in raw if key not in values.used),
        *peer_type_warnings(raw, membership, my_id),
    )
    return msgspec.structs.replace(config, warnings=warnings)


def _raw(text: str) -> dict[str, str]:
    try:
        return trimmed(read_properties(text))
    except BadProperties as bad:
        raise ConfigError(f"it is not a Java properties file: {bad}") from None


def _unknown(key: str, known: Iterable[str]) -> str:
    return f"unknown key {key} is ignored{did_you_mean(key, known)}"


def _whitelist(values: Values) -> tuple[str, ...]:
    """Return the enabled four-letter words: those configured, and those that tools and read-only clients require.

    Source: FourLetterCommands.
    """
    listed = [word.strip() for word in values.text("4lw.commands.whitelist", "").split(",")]
    reads_only = values.property_flag("readonlymode.enabled", False)
    needed = [ALWAYS_WHITELISTED, "isro"] if reads_only else [ALWAYS_WHITELISTED]
    return tuple(dict.fromkeys(word for word in (*listed, *needed) if word))


def _reachability(values: Values) -> Reachability:
    timeout_ms = values.number("multiAddress.reachabilityCheckTimeoutMs", 1000)
    return Reachability(values.flag("multiAddress.reachabilityCheckEnabled", True), max(0, timeout_ms) / 1000)


def _journal_full(text: str) -> bool:
    if text.lower() not in ("normal", "full"):
        raise ValueError(text)
    return text.lower() == "full"


def _messages(text: str) -> str:
    if text.lower() not in LEVELS:
        raise ValueError(text)
    return text.lower()


def _limit(values: Values, key: str, default: int, needed: bool) -> int:
    found = values.number(key, 0)
    if needed and found < 1:
        raise ConfigError(f"{key} is not set" if found == 0 else f"{key}={found} is not a number of ticks from 1")
    return found if found > 0 else default


def _ticks_unless_set(values: Values, key: str, ticks: int, tick_time: int) -> int:
    """Return a limit for session timeouts in milliseconds: the key's value, or `ticks` ticks if it is unset (-1)."""
    default = ticks * tick_time
    found = values.number(key, default)
    return default if found == -1 else found


def _check_sessions(config: ZooConfig) -> None:
    if config.min_session_timeout > config.max_session_timeout:
        raise ConfigError(
            f"minSessionTimeout={config.min_session_timeout} is above maxSessionTimeout={config.max_session_timeout}"
        )


def _check_without_effect(values: Values, config: ZooConfig) -> None:
    """Reject the values that QuorumPeerConfig rejects, even of keys that have no effect in this server."""
    if values.number("electionAlg", 3) != 3:
        raise ConfigError(f"electionAlg={values.given('electionAlg')} is not 3, the only election algorithm")
    values.flag("syncEnabled", True)
    values.flag("jvm.pause.monitor", False)
    values.get("peerType", "participant", _peer_type, "participant or observer")
    for key in ("clientPortListenBacklog", "connectToLearnerMasterLimit", "quorum.cnxn.threads.size"):
        values.number(key, 0)
    for key in ("info-threshold.ms", "warn-threshold.ms", "sleep.time.ms"):
        values.number(f"jvm.pause.{key}", 0, LONG_MIN, LONG_MAX)
    if config.distributed:
        values.number("cnxTimeout", 5000)


def _peer_type(text: str) -> str:
    if text.lower() not in ("participant", "observer"):
        raise ValueError(text)
    return text


def _data_dir(values: Values) -> Path:
    data_dir = values.text("dataDir", "")
    if not data_dir:
        raise ConfigError("dataDir is not set")
    return Path(data_dir)


def _lines(membership: Membership | None) -> dict[int, ServerLine]:
    return {} if membership is None else {int(peer): line for peer, line in membership.lines.items()}


def _next_membership(path: Path | None, raw: Mapping[str, str], files: Files) -> Membership | None:
    return read_next_membership(path, files) if path is not None and "dynamicConfigFile" in raw else None


def _my_id(data_dir: Path, servers: dict[int, ServerLine], files: Files) -> int:
    path = data_dir / "myid"
    try:
        text = read_text(path, files).strip()
    except FileNotFoundError:
        if not servers:
            return 1
        raise ConfigError(f"{path} is missing; it must hold this server's id") from None
    except (OSError, ValueError) as bad:
        raise ConfigError(f"{path} cannot be read: {bad}") from None
    if not text.isdecimal() or len(text) > 9 or int(text) > PEER_ID_MAX:
        raise ConfigError(f"{path} holds {text[:40]!r} instead of a number from 0 to {PEER_ID_MAX}")
    if servers and int(text) not in servers:
        raise ConfigError(f"{path} says {int(text)}, but there is no server.{int(text)}")
    return int(text)


def _client_address(values: Values, mine: ServerLine | None, *, needed: bool) -> tuple[str, int | None]:
    address = values.text("clientPortAddress", "")
    port = values.number("clientPort", 0, 0, 65535)
    given = values.given("clientPort") is not None
    if mine is not None and mine.client_port is not None:
        if given and port != mine.client_port:
            raise ConfigError(f"clientPort={port} differs from the {mine.client_port} in this server's own line")
        return mine.client_host or address, mine.client_port
    if not given and needed:
        raise ConfigError("clientPort is not set")
    if address and not given:
        raise ConfigError("clientPortAddress is set but clientPort is not")
    return address, port if given else None


def _tree_rules(values: Values, my_id: int) -> TreeRules:
    """Return the settings that affect the tree.

    Raises ConfigError, also if `extendedTypesEnabled` is set and this server's id is so high that its session ids would
    look like times to live (EphemeralType.validateServerId).
    """
    rules = TreeRules(
        extended_types=values.property_flag("extendedTypesEnabled", False),
        # The period must be at least 1 ms, as java.util.Timer requires.
        container_check_interval_ms=values.usable_number("znode.container.checkIntervalMs", 60_000, 1),
        container_deletes_per_minute=_deletes_per_minute(values, "znode.container.maxPerMinute"),
        container_never_used_max_ms=values.property_number(
            "znode.container.maxNeverUsedIntervalMs", 0, LONG_MIN, LONG_MAX
        ),
        enforce_quota=values.property_flag("enforceQuota", False),
    )
    if rules.extended_types and my_id > _ID_MAX_EXTENDED:
        raise ConfigError(f"extendedTypesEnabled=true needs a server id of at most {_ID_MAX_EXTENDED}, not {my_id}")
    return rules


def _deletes_per_minute(values: Values, key: str) -> int:
    """Return the maximum number of containers that are deleted per minute.

    ZooKeeper divides a minute by this number: with 0 it deletes nothing, with a negative number it does not wait.
    """
    found = values.property_number(key, 10_000)
    if found == 0:
        values.warn(f"{key}=0: no container and no znode with a time to live is deleted")
    return found if found >= 0 else INT_MAX


def _quorum_sasl(values: Values) -> QuorumSasl | None:
    """Return the SASL settings for connections between servers, or None if these need no authentication.

    Raises ConfigError.
    """
    enabled, server, learner = (values.flag(key, False) for key in (_SASL_ENABLED, _SASL_SERVER, _SASL_LEARNER))
    server_section = values.text("quorum.auth.server.saslLoginContext", "QuorumServer")
    learner_section = values.text("quorum.auth.learner.saslLoginContext", "QuorumLearner")
    if values.text(_SASL_PRINCIPAL, ""):
        raise ConfigError(f"{_SASL_PRINCIPAL}: GSSAPI is not supported, DIGEST-MD5 is")
    for key, wanted in ((_SASL_SERVER, server), (_SASL_LEARNER, learner)):
        if wanted and not enabled:
            raise ConfigError(f"{key}=true needs {_SASL_ENABLED}=true")
    if server and not learner:
        raise ConfigError(f"{_SASL_SERVER}=true needs {_SASL_LEARNER}=true")
    if not enabled:
        return None
    users = _section(values, server_section, digest_users)
    user, password = _section(values, learner_section, digest_login)
    return QuorumSasl(users=users, user=user, password=password, learner_required=learner, server_required=server)


def _section(values: Values, name: str, parse: Callable[[str, str], T | None]) -> T:
    found = read_section(values, name, parse)
    if found is None:
        raise ConfigError(f"{_SASL_ENABLED}=true needs a section {name} in the file that {JAAS_FILE} names")
    return found
