"""The keys that ZooKeeper 3.9.5 reads from zoo.cfg, and how to get each value from its servers and from ours.

`java_outcomes` has ZooKeeper's value for each string. `tests/interop/test_zoo_cfg_values.py` checks these values with
ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from zabka.ensemble.server.config.zoo_cfg import ZooConfig

NUMBERS = ("-2147483649", "-2147483648", "-1", "0", "1", "2", "2147483647", "2147483648", "+5", "0x10", "010", "2_500")
NUMBERS += ("x", "", "5.0")
DECODED = ("-1", "0", "1", "2147483647", "2147483648", "0x10", "010", "x", "")
PORTS = ("-1", "0", "1", "65535", "65536", "x", "")
DOUBLES = ("-1", "0", "0.5", "1", "1.5", ".5f", "1e-3d", "NaN", "x", "", "0_1")
FLAGS = ("true", "TRUE", "false", "False", "yes", "no", "1", "maybe", "")
SOME_FLAGS = ("true", "yes", "")
MEMBERS = ("server.1=127.0.0.1:2888:3888", "server.2=127.0.0.1:2889:3889")
LIMITS = ("initLimit=10", "syncLimit=5")


class Key(NamedTuple):
    """A key of zoo.cfg, and where to find its value.

    `java` is an expression for ConfigOutcomes, evaluated after a start if `starts` is set, or else after the
    configuration was parsed. `ours` returns our value from a ZooConfig. `means` converts Java's value to ours. `lines`
    are the other lines of zoo.cfg. `system` is the system property, if it is not `zookeeper.` plus the key.
    """

    name: str
    java: str
    ours: Callable[[ZooConfig], object]
    texts: tuple[str, ...]
    means: Callable[[str], object] = str
    lines: tuple[str, ...] = ()
    java_lines: tuple[str, ...] = ()
    starts: bool = True
    system: str = ""


def _parsed(name: str, member: str, ours: Callable[[ZooConfig], object], texts: tuple[str, ...], **more: Any) -> Key:
    return Key(name, f"config.{member}", ours, texts, starts=more.pop("starts", False), **more)


def _flag(text: str) -> str:
    return text.lower()


def _positive(text: str) -> int:
    return max(0, int(text))


def _double(text: str) -> float:
    return 0.0 if text == "NaN" else float(text)


def _of_storage(field: str) -> Callable[[ZooConfig], object]:
    return lambda config: getattr(config.storage, field)


def _of_limits(field: str) -> Callable[[ZooConfig], object]:
    return lambda config: getattr(config.limits, field)


def _of_throttle(field: str) -> Callable[[ZooConfig], object]:
    return lambda config: getattr(config.limits.throttle, field)


def _of(field: str) -> Callable[[ZooConfig], object]:
    return lambda config: getattr(config, field)


_QUORUM = "server/quorum/QuorumPeerConfig"
_NETTY = ("serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",)
_FLAG_FIELDS = {
    "localSessionsEnabled": ("areLocalSessionsEnabled", "local_sessions"),
    "localSessionsUpgradingEnabled": ("isLocalSessionsUpgradingEnabled", "local_sessions_upgrading"),
    "quorumListenOnAllIPs": ("getQuorumListenOnAllIPs", "listen_on_all"),
    "reconfigEnabled": ("isReconfigEnabled", "reconfig_enabled"),
    "multiAddress.enabled": ("isMultiAddressEnabled", "several_addresses"),
}

PARSED = (
    _parsed("tickTime", "getTickTime", _of("tick_time"), (*NUMBERS, "107374182", "107374183")),
    _parsed("initLimit", "getInitLimit", _of("init_limit"), NUMBERS, lines=(*MEMBERS, "syncLimit=5")),
    _parsed("syncLimit", "getSyncLimit", _of("sync_limit"), NUMBERS, lines=(*MEMBERS, "initLimit=10")),
    _parsed("minSessionTimeout", "getMinSessionTimeout", _of("min_session_timeout"), (*NUMBERS, "60000", "60001")),
    _parsed("maxSessionTimeout", "getMaxSessionTimeout", _of("max_session_timeout"), (*NUMBERS, "6000", "5999")),
    _parsed("clientPort", "getClientPortAddress.getPort", _of("client_port"), PORTS, starts=False),
    _parsed("secureClientPort", "getSecureClientPortAddress.getPort", _of("secure_client_port"), PORTS,
            lines=("ssl.keyStore.location=/k.pem", "ssl.clientAuth=none")),
    _parsed("maxClientCnxns", "getMaxClientCnxns", _of_limits("per_host"), NUMBERS, means=_positive, starts=True),
    _parsed("observerMasterPort", "getObserverMasterPort", _of("observer_master_port"), PORTS),
    _parsed("autopurge.snapRetainCount", "getSnapRetainCount", _of_storage("retain_snapshots"),
            (*NUMBERS, "3", "4"), lines=("autopurge.purgeInterval=1",)),
    _parsed("autopurge.purgeInterval", "getPurgeInterval", lambda config: config.storage.retain_snapshots > 0,
            NUMBERS, means=lambda text: int(text) > 0),
    _parsed("electionAlg", "getElectionAlg", lambda config: 3, ("-1", "0", "1", "2", "3", "4", "x", "")),
    _parsed("peerType", "getPeerType", lambda config: "PARTICIPANT",
            ("participant", "OBSERVER", "obs", "", "leader")),
    _parsed("syncEnabled", "getSyncEnabled", lambda config: config.values["syncEnabled"].lower(), FLAGS, means=_flag),
    _parsed("multiAddress.reachabilityCheckTimeoutMs", "getMultiAddressReachabilityCheckTimeoutMs",
            lambda config: int(config.reachability.timeout_s * 1000), NUMBERS, means=_positive),
    _parsed("multiAddress.reachabilityCheckEnabled", "isMultiAddressReachabilityCheckEnabled",
            lambda config: config.reachability.checks, FLAGS),
    _parsed("clientPortListenBacklog", "getTickTime", _of("tick_time"), NUMBERS),
    _parsed("connectToLearnerMasterLimit", "getTickTime", _of("tick_time"), NUMBERS),
    _parsed("quorum.cnxn.threads.size", "getTickTime", _of("tick_time"), NUMBERS),
    _parsed("jvm.pause.info-threshold.ms", "getTickTime", _of("tick_time"), ("-1", "9223372036854775807", "x")),
    _parsed("jvm.pause.warn-threshold.ms", "getTickTime", _of("tick_time"), ("-1", "9223372036854775808", "x")),
    _parsed("jvm.pause.sleep.time.ms", "getTickTime", _of("tick_time"), ("-1", "0", "x")),
    _parsed("jvm.pause.monitor", "getTickTime", _of("tick_time"), FLAGS),
    *(_parsed(name, member, _of(field), FLAGS) for name, (member, field) in _FLAG_FIELDS.items()),
    Key("standaloneEnabled", f"{_QUORUM}.standaloneEnabled", _of("standalone_enabled"), FLAGS,
        lines=(*MEMBERS, *LIMITS), starts=False),
    *(_parsed(f"quorum.auth.{name}", "getTickTime", _of("tick_time"), ("false", "FALSE", "yes", ""))
      for name in ("enableSasl", "serverRequireSasl", "learnerRequireSasl")),
    *(_parsed(name, "getTickTime", _of("tick_time"), ("false", "FALSE", "yes", ""))
      for name in ("sslQuorum", "portUnification", "sslQuorumReloadCertFiles")),
)  # fmt: skip

PROPERTIES = (
    Key("snapCount", "server/ZooKeeperServer.getSnapCount", _of_storage("snap_count"), (*NUMBERS, "3")),
    Key("snapSizeLimitInKb", "server/ZooKeeperServer.getSnapSizeInBytes", _of_storage("snap_size_limit_bytes"),
        DECODED, _positive),
    Key("preAllocSize", "server/persistence/FilePadding.preAllocSize", _of_storage("preallocate_bytes"),
        DECODED, lambda text: min(_positive(text), 2**31)),
    Key("fsync.warningthresholdms", "server/persistence/FileTxnLog.fsyncWarningThresholdMS",
        _of_storage("fsync_warning_ms"), DECODED),
    Key("commitLogCount", "zk.getZKDatabase.commitLogCount", _of_storage("committed_log_length"),
        (*DECODED, "499", "500", "501")),
    Key("snapshotSizeFactor", "zk.getZKDatabase.snapshotSizeFactor", _of_storage("snapshot_size_factor"), DOUBLES,
        lambda text: float(text) if float(text) >= 0 else -1.0),
    Key("snapshot.compression.method", "server/persistence/SnapStream.streamMode.getName",
        lambda config: config.storage.snapshot_suffix.removeprefix("."), ("", "gz", "GZ", "snappy", "checked", "lz4")),
    Key("snapshot.trust.empty", "zk.getZKDatabase.snapLog.trustEmptySnapshot", _of_storage("trusts_empty"), FLAGS),
    Key("globalOutstandingLimit", "zk.getGlobalOutstandingLimit", _of_limits("outstanding"), DECODED),
    Key("maxCnxns", "factory.getMaxCnxns", _of_limits("connections"), DECODED),
    Key("nio.sessionlessCnxnTimeout", "factory.sessionlessCnxnTimeout", _of_limits("sessionless_timeout_ms"), DECODED),
    Key("jute.maxbuffer", "/jute/BinaryInputArchive.maxBuffer", _of_limits("frame_bytes"),
        (*DECODED, "50331648", "50331649", "0x300000"), system="jute.maxbuffer"),
    Key("jute.maxbuffer.extrasize", "/jute/BinaryInputArchive.extraMaxBuffer",
        lambda config: 1048575 if config.limits.extra_bytes is None else config.limits.extra_bytes,
        (*DECODED, "1023", "1024"), lambda text: text),
    Key("largeRequestMaxBytes", "zk.getLargeRequestMaxBytes", _of_limits("large_request_bytes"), DECODED),
    Key("largeRequestThreshold", "zk.getLargeRequestThreshold", _of_limits("large_request_threshold"),
        (*DECODED, "-2")),
    *(Key(name, "server/RequestThrottler.getMaxRequests", _of_limits("in_process"), DECODED, _positive,
          system="zookeeper.request_throttle_max_requests")
      for name in ("request_throttle_max_requests", "requestThrottleLimit")),
    *(Key(name, "server/ZooKeeperServer.getThrottledOpWaitTime", _of_limits("throttled_op_wait_ms"), DECODED,
          _positive, system="zookeeper.throttled_op_wait_time")
      for name in ("throttled_op_wait_time", "throttledOpWaitTime")),
    Key("netty.server.outstandingHandshake.limit", "factory.outstandingHandshakeLimit", _of_limits("handshakes"),
        DECODED, lambda text: int(text) if int(text) > 0 else 1000, java_lines=_NETTY),
    Key("znode.container.checkIntervalMs", "containers.checkIntervalMs",
        lambda config: config.tree.container_check_interval_ms, DECODED, system="znode.container.checkIntervalMs"),
    Key("znode.container.maxPerMinute", "containers.maxPerMinute",
        lambda config: config.tree.container_deletes_per_minute, DECODED,
        lambda text: int(text) if int(text) >= 0 else 2**31 - 1, system="znode.container.maxPerMinute"),
    Key("znode.container.maxNeverUsedIntervalMs", "containers.maxNeverUsedIntervalMs",
        lambda config: config.tree.container_never_used_max_ms, DECODED,
        system="znode.container.maxNeverUsedIntervalMs"),
    Key("extendedTypesEnabled", "server/EphemeralType.extendedEphemeralTypesEnabled",
        lambda config: config.tree.extended_types, FLAGS),
    Key("enforceQuota", "server/ZooKeeperServer.enforceQuota", lambda config: config.tree.enforce_quota, FLAGS),
    Key("skipACL", "server/ZooKeeperServer.skipACL", lambda config: config.auth.skip_acl, (*FLAGS, "YES")),
    Key("allowSaslFailedClients", "flag.zookeeper.allowSaslFailedClients",
        lambda config: config.auth.sasl_failure_tolerated, FLAGS),
    Key("DigestAuthenticationProvider.enabled", "server/auth/ProviderRegistry.listProviders",
        lambda config: "digest" in config.auth.schemes, FLAGS, lambda text: "digest" in text.split()),
    Key("readonlymode.enabled", "flag.readonlymode.enabled", _of("read_only_mode"), FLAGS,
        system="readonlymode.enabled"),
    Key("leaderServes", "property.zookeeper.leaderServes", _of("leader_serves"), (*FLAGS, "NO"),
        lambda text: text != "no"),
    Key("client.portUnification", "flag.zookeeper.client.portUnification", _of("client_port_unification"),
        ("false", "FALSE", "yes", "1", "")),
    Key("ssl.handshakeDetectionTimeoutMillis", "config.getTickTime", _of("tick_time"), ("-1", "0", "x", "")),
    *(Key(name, "config.getTickTime", _of("tick_time"), texts)
      for name, texts in (
          ("ssl.clientAuth", ("need", "maybe", "")),
          ("client.certReload", SOME_FLAGS),
          ("ssl.hostnameVerification", SOME_FLAGS),
          ("ssl.clientHostnameVerification", SOME_FLAGS),
          ("ssl.crl", SOME_FLAGS),
          ("ssl.ocsp", SOME_FLAGS),
          ("metricsProvider.httpPort", ("-1", "70000", "x", "")),
          ("metricsProvider.exportJvmInfo", SOME_FLAGS),
          ("metricsProvider.className", ("org.apache.zookeeper.metrics.impl.NullMetricsProvider", "org.example.Mine")),
          ("DigestAuthenticationProvider.digestAlg", ("sha1", "SHA-256", "SHA3-256", "MD5", "SHA-9", "")),
      )),
    Key("enforce.auth.enabled", "zk.authHelper.enforceAuthEnabled", lambda config: bool(config.auth.required_schemes),
        FLAGS),
    Key("sessionRequireClientSASLAuth", "zk.authHelper.enforceAuthEnabled",
        lambda config: bool(config.auth.required_schemes), FLAGS),
    *(Key(name, f"zk.connThrottle.{member}", _of_throttle(field), texts, means,
          system=f"zookeeper.connection_throttle_{system}")
      for system, guide, member, field, texts, means in (
          ("tokens", "connectionMaxTokens", "maxTokens", "tokens", DECODED, str),
          ("fill_time", "connectionTokenFillTime", "fillTime", "fill_time_ms", DECODED, str),
          ("fill_count", "connectionTokenFillCount", "fillCount", "fill_count", DECODED, str),
          ("freeze_time", "connectionFreezeTime", "freezeTime", "freeze_time_ms", (*DECODED, "-2"), str),
          ("drop_increase", "connectionDropIncrease", "dropIncrease", "drop_increase", DOUBLES, _double),
          ("drop_decrease", "connectionDropDecrease", "dropDecrease", "drop_decrease", DOUBLES, _double),
          ("decrease_ratio", "connectionDecreaseRatio", "decreasePoint", "decrease_ratio", DOUBLES, _double),
      )
      for name in (f"connection_throttle_{system}", guide)),
    *(Key(f"connection_throttle_{name}_session_weight", f"server/BlueThrottle.DEFAULT_{name.upper()}_SESSION_WEIGHT",
          _of_throttle(field), ("-1", "0", "1", "2", "4", "x", ""), lines=("connection_throttle_weight_enabled=true",))
      for name, field in (("global", "new_session_weight"), ("renew", "renewed_session_weight"))),
    Key("connection_throttle_local_session_weight", "server/BlueThrottle.DEFAULT_GLOBAL_SESSION_WEIGHT",
        _of_throttle("new_session_weight"), ("-1", "0", "1", "4", "x", ""),
        lines=("connection_throttle_weight_enabled=true",)),
    Key("connection_throttle_weight_enabled", "server/BlueThrottle.connectionWeightEnabled",
        lambda config: config.limits.throttle.new_session_weight == 3, FLAGS),
)  # fmt: skip
KEYS = (*PARSED, *PROPERTIES)


def zoo_cfg(key: Key, text: str, directory: str, *, for_java: bool) -> str:
    """Return the text of a zoo.cfg with this value. For Java, which listens on the ports, the ports must be free."""
    lines = [f"dataDir={directory}", *key.lines, f"{key.name}={text}"]
    if key.name != "clientPort":
        lines.append("clientPort=0")
    return "\n".join([*lines, *(("admin.enableServer=false", *key.java_lines) if for_java else ())]) + "\n"
