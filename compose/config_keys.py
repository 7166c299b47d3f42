"""Table of the configuration keys of ZooKeeper and of Kafka, for `--set`.

`up` accepts any key of either system by its own name. For each key, the table contains the system and the type of the
value. The node that reads a value interprets it. Sources: ZooKeeper's administrator's guide (3.9) and Kafka's broker
configuration reference (3.9, ZooKeeper mode).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from zabka.controller.historical import HISTORICAL_KEY, Historical
from zabka.ensemble.close_names import did_you_mean


def _keys(text: str) -> list[str]:
    return text.split()


_ZOOKEEPER_INT = _keys("""
tickTime initLimit syncLimit maxClientCnxns minSessionTimeout maxSessionTimeout globalOutstandingLimit
snapCount snapSizeLimitInKb commitLogCount preAllocSize maxCnxns electionPortBindRetry observerMasterPort
autopurge.snapRetainCount autopurge.purgeInterval clientPortListenBacklog connectToLearnerMasterLimit
secureClientPort admin.serverPort jute.maxbuffer jute.maxbuffer.extrasize fsync.warningthresholdms flushDelay
maxWriteQueuePollTime maxBatchSize
zabka.fsync.inlinethresholdus zabka.commitLogCount
requestThrottleLimit requestThrottleStallTime cnxTimeout leader.maxConcurrentSnapSyncs leader.maxConcurrentDiffSyncs
leader.maxConcurrentSnapshots leader.maxConcurrentDiffs
maxTimeToWaitForEpoch znode.container.checkIntervalMs
znode.container.maxPerMinute znode.container.maxNeverUsedIntervalMs netty.server.outstandingHandshake.limit
throttledOpWaitTime admin.idleTimeout admin.rateLimiterIntervalInMS multiAddress.reachabilityCheckTimeoutMs
nio.sessionlessCnxnTimeout nio.numSelectorThreads nio.numWorkerThreads commitProcessor.numWorkerThreads
observer.reconnectDelayMs
observer.election.DelayMs quorum.cnxn.threads.size maxResponseCacheSize maxGetChildrenResponseCacheSize
connectionMaxTokens connectionTokenFillTime connectionTokenFillCount request_throttler.shutdownTimeout
connectionFreezeTime connection_throttle_tokens connection_throttle_fill_time connection_throttle_fill_count
connection_throttle_freeze_time connection_throttle_global_session_weight connection_throttle_local_session_weight
connection_throttle_renew_session_weight largeRequestMaxBytes largeRequestThreshold request_throttle_max_requests
throttled_op_wait_time
""")
_ZOOKEEPER_BOOL = _keys("""
forceSync learner.asyncSending
learner.closeSocketAsync leaderServes skipACL standaloneEnabled reconfigEnabled syncEnabled localSessionsEnabled
localSessionsUpgradingEnabled readonlymode.enabled admin.enableServer admin.snapshot.enabled extendedTypesEnabled
emulate353TTLNodes
digest.enabled enforceQuota multiAddress.enabled quorumListenOnAllIPs sslQuorum sslQuorumReloadCertFiles
portUnification tcpKeepAlive snapshot.trust.empty snapshot.compression.enabled fastleader.dontCare
enableEagerACLCheck allowSaslFailedClients sessionRequireClientSASLAuth enforce.auth.enabled ssl.hostnameVerification
ssl.quorum.hostnameVerification ssl.clientHostnameVerification ssl.quorum.clientHostnameVerification client.certReload
DigestAuthenticationProvider.enabled connection_throttle_weight_enabled ssl.crl
ssl.ocsp zabka.ssl.trustExpired zabka.ssl.quorum.trustExpired serializeLastProcessedZxid.enabled
advancedFlowControlEnabled quorum.auth.enableSasl quorum.auth.learnerRequireSasl quorum.auth.serverRequireSasl
""")
_ZOOKEEPER_TEXT = _keys("""
dataLogDir electionAlg peerType clientPortAddress secureClientPortAddress 4lw.commands.whitelist serverCnxnFactory
zabka.snapshotSizeFactor
metricsProvider.className metricsProvider.httpHost metricsProvider.httpPort metricsProvider.exportJvmInfo
admin.serverAddress admin.commandURL DigestAuthenticationProvider.superDigest DigestAuthenticationProvider.digestAlg
X509AuthenticationProvider.superUser superUser SASLAuthenticationProvider.superPassword sasl.serverconfig
connectionDropIncrease connectionDropDecrease connectionDecreaseRatio ssl.authProvider
java.security.auth.login.config enforce.auth.schemes
initialConfig dynamicConfigFile cluster.id
ssl.keyStore.location ssl.keyStore.password ssl.keyStore.passwordPath ssl.keyStore.type ssl.trustStore.location
ssl.trustStore.password ssl.trustStore.passwordPath ssl.trustStore.type ssl.protocol ssl.enabledProtocols
ssl.ciphersuites ssl.clientAuth ssl.handshakeDetectionTimeoutMillis client.portUnification
ssl.quorum.keyStore.location ssl.quorum.keyStore.password ssl.quorum.keyStore.passwordPath ssl.quorum.keyStore.type
ssl.quorum.trustStore.location ssl.quorum.trustStore.password ssl.quorum.trustStore.passwordPath
ssl.quorum.trustStore.type ssl.quorum.protocol ssl.quorum.enabledProtocols ssl.quorum.ciphersuites
ssl.quorum.clientAuth ssl.quorum.handshakeDetectionTimeoutMillis
quorum.auth.kerberos.servicePrincipal quorum.auth.learner.saslLoginContext quorum.auth.server.saslLoginContext
""")

_KAFKA_INT = _keys("""
default.replication.factor min.insync.replicas num.partitions num.io.threads
num.network.threads num.replica.fetchers num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads
background.threads queued.max.requests queued.max.request.bytes message.max.bytes socket.receive.buffer.bytes
socket.send.buffer.bytes socket.request.max.bytes socket.listen.backlog.size max.connections max.connections.per.ip
max.connection.creation.rate connections.max.idle.ms connection.failed.authentication.delay.ms request.timeout.ms
leader.imbalance.check.interval.seconds leader.imbalance.per.broker.percentage
log.retention.ms log.retention.minutes log.retention.hours log.retention.bytes log.retention.check.interval.ms
log.segment.bytes log.roll.ms log.roll.hours log.roll.jitter.ms log.roll.jitter.hours log.index.size.max.bytes
log.index.interval.bytes log.flush.interval.messages log.flush.interval.ms log.flush.scheduler.interval.ms
log.flush.offset.checkpoint.interval.ms log.flush.start.offset.checkpoint.interval.ms log.segment.delete.delay.ms
log.message.timestamp.difference.max.ms log.message.timestamp.before.max.ms log.message.timestamp.after.max.ms
log.cleaner.threads log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.size
log.cleaner.delete.retention.ms log.cleaner.min.compaction.lag.ms log.cleaner.max.compaction.lag.ms
log.dir.failure.timeout.ms
replica.lag.time.max.ms replica.fetch.min.bytes replica.fetch.max.bytes replica.fetch.wait.max.ms
replica.fetch.backoff.ms replica.fetch.response.max.bytes replica.socket.timeout.ms
replica.socket.receive.buffer.bytes replica.high.watermark.checkpoint.interval.ms
fetch.purgatory.purge.interval.requests producer.purgatory.purge.interval.requests
delete.records.purgatory.purge.interval.requests fetch.max.bytes max.incremental.fetch.session.cache.slots
max.request.partition.size.limit
controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms controller.socket.timeout.ms
controller.quota.window.num controller.quota.window.size.seconds
zookeeper.session.timeout.ms zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests
reserved.broker.max.id quota.window.num quota.window.size.seconds replication.quota.window.num
replication.quota.window.size.seconds alter.log.dirs.replication.quota.window.num
alter.log.dirs.replication.quota.window.size.seconds
group.min.session.timeout.ms group.max.session.timeout.ms group.initial.rebalance.delay.ms group.max.size
offset.metadata.max.bytes offsets.load.buffer.size offsets.topic.replication.factor offsets.topic.num.partitions
offsets.topic.segment.bytes offsets.topic.compression.codec offsets.retention.minutes
offsets.retention.check.interval.ms offsets.commit.timeout.ms offsets.commit.required.acks
transactional.id.expiration.ms transaction.max.timeout.ms transaction.state.log.min.isr
transaction.state.log.load.buffer.size transaction.state.log.replication.factor
transaction.state.log.num.partitions transaction.state.log.segment.bytes
transaction.abort.timed.out.transaction.cleanup.interval.ms
transaction.remove.expired.transaction.cleanup.interval.ms producer.id.expiration.ms
producer.id.expiration.check.interval.ms metrics.num.samples metrics.sample.window.ms
delegation.token.max.lifetime.ms delegation.token.expiry.time.ms delegation.token.expiry.check.interval.ms
password.encoder.iterations password.encoder.key.length
""")
_KAFKA_BOOL = _keys("""
unclean.leader.election.enable auto.create.topics.enable auto.leader.rebalance.enable delete.topic.enable
controlled.shutdown.enable log.cleaner.enable log.preallocate log.message.downconversion.enable
broker.id.generation.enable zookeeper.set.acl zookeeper.ssl.client.enable zookeeper.ssl.crl.enable
zookeeper.ssl.ocsp.enable transaction.partition.verification.enable auto.include.jmx.reporter
zookeeper.metadata.migration.enable allow.everyone.if.no.acl.found
""")
_KAFKA_TEXT = _keys("""
broker.rack compression.type compression.gzip.level compression.lz4.level compression.zstd.level log.cleanup.policy
log.message.timestamp.type log.message.format.version log.cleaner.io.buffer.load.factor
log.cleaner.io.max.bytes.per.second log.cleaner.min.cleanable.ratio inter.broker.protocol.version
inter.broker.listener.name control.plane.listener.name listener.security.protocol.map
security.inter.broker.protocol max.connections.per.ip.overrides metric.reporters metrics.recording.level
replica.selector.class authorizer.class.name super.users alter.config.policy.class.name
create.topic.policy.class.name client.quota.callback.class kafka.metrics.reporters
kafka.metrics.polling.interval.secs principal.builder.class sasl.enabled.mechanisms
sasl.mechanism.inter.broker.protocol sasl.jaas.config sasl.login.class sasl.server.callback.handler.class
ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.keystore.key ssl.keystore.certificate.chain
ssl.key.password ssl.truststore.location ssl.truststore.password ssl.truststore.type ssl.truststore.certificates
ssl.client.auth ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm
ssl.principal.mapping.rules ssl.provider ssl.secure.random.implementation
zookeeper.clientCnxnSocket zookeeper.ssl.keystore.location zookeeper.ssl.keystore.password
zookeeper.ssl.keystore.type zookeeper.ssl.truststore.location zookeeper.ssl.truststore.password
zookeeper.ssl.truststore.type zookeeper.ssl.protocol zookeeper.ssl.enabled.protocols zookeeper.ssl.cipher.suites
zookeeper.ssl.endpoint.identification.algorithm password.encoder.secret password.encoder.old.secret
password.encoder.cipher.algorithm password.encoder.keyfactory.algorithm delegation.token.secret.key
delegation.token.master.key early.start.listeners
""")

_ZABKA_BOTH = {"zabka.journal.level": ("normal", "full"), "zabka.messages": ("off", "control", "all")}
_MANAGED = {
    *("dataDir", "clientPort", "myid", "broker.id", "listeners", "advertised.listeners", "log.dirs", "log.dir"),
    *("zookeeper.connect", "zabka.node.name", "zabka.journal.dir", "zabka.control.socket", "node.id", "process.roles"),
}
_SHAPES = {
    **dict.fromkeys((*_ZOOKEEPER_INT, *_KAFKA_INT), "int"),
    **dict.fromkeys((*_ZOOKEEPER_BOOL, *_KAFKA_BOOL), "bool"),
}
_ZOOKEEPER = frozenset((*_ZOOKEEPER_INT, *_ZOOKEEPER_BOOL, *_ZOOKEEPER_TEXT))
_KAFKA = frozenset((*_KAFKA_INT, *_KAFKA_BOOL, *_KAFKA_TEXT, HISTORICAL_KEY))
_SERVER_KEY = re.compile(r"^(server|group|weight)\.\d+$")
_AUTH_PROVIDER = re.compile(r"^authProvider\.\w+$")
_POSITIVE = {"tickTime", "initLimit", "syncLimit", "zookeeper.session.timeout.ms", "replica.lag.time.max.ms",
             "min.insync.replicas", "num.partitions"}  # fmt: skip


class BadSetting(ValueError):
    """A `--set` option has an unknown key, a key that `up` sets itself, or a value of the wrong type."""


class Overrides(NamedTuple):
    """The settings from `--set`, one mapping for ZooKeeper and one for Kafka."""

    zookeeper: dict[str, str]
    kafka: dict[str, str]


def split_settings(settings: list[str]) -> Overrides:
    """Split `KEY=VALUE` settings into ZooKeeper's and Kafka's. An empty value stays, because it removes an override.

    Raises BadSetting, with the reason, for the first invalid setting.
    """
    overrides = Overrides({}, {})
    for setting in settings:
        key, equals, value = setting.partition("=")
        key, value = key.strip(), value.strip()
        if not equals or not key:
            raise BadSetting(f"--set takes KEY=VALUE, not {setting!r}")
        for system in _owners(key):
            (overrides.zookeeper if system == "zookeeper" else overrides.kafka)[key] = value
        if value:
            _check_value(key, value)
    return overrides


def _owners(key: str) -> tuple[str, ...]:
    if key in _MANAGED or _SERVER_KEY.match(key):
        raise BadSetting(f"{key} is laid out by `zabka up` itself; see its options (--peers, --zk-port, --data, …)")
    if key in _ZABKA_BOTH:
        return ("zookeeper", "kafka")
    if key in _ZOOKEEPER or _AUTH_PROVIDER.match(key):
        return ("zookeeper",)
    if key in _KAFKA or key.startswith("listener.name."):
        return ("kafka",)
    hint = did_you_mean(key, (*_ZOOKEEPER, *_KAFKA, *_ZABKA_BOTH))
    raise BadSetting(f"{key} is neither a ZooKeeper nor a Kafka broker setting{hint}")


def _check_value(key: str, value: str) -> None:
    if "\n" in value or "\r" in value:
        raise BadSetting(f"{key}: a value is one line")
    allowed = _ZABKA_BOTH.get(key)
    if allowed and value not in allowed:
        raise BadSetting(f"{key} is one of {', '.join(allowed)}, not {value!r}")
    unknown = (
        [name for name in value.split(",") if name.strip() not in set(Historical)] if key == HISTORICAL_KEY else []
    )
    if unknown:
        raise BadSetting(f"{key} knows no {unknown[0]!r}; there are {', '.join(Historical)}")
    shape = _SHAPES.get(key)
    if shape == "bool" and value.lower() not in ("true", "false", "yes", "no"):
        raise BadSetting(f"{key} is true or false, not {value!r}")
    if shape == "int":
        if not re.fullmatch(r"-?\d{1,18}", value):
            raise BadSetting(f"{key} is a whole number, not {value!r}")
        if key in _POSITIVE and int(value) < 1:
            raise BadSetting(f"{key} must be at least 1, not {value}")
