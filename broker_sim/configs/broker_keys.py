"""Every key of Kafka 3.9's broker configuration: type, default, limits, and whether it is dynamic.

Sources: kafka.server.KafkaConfig and kafka.server.DynamicBrokerConfig. `zabka.broker_sim.configs.broker_config` lists
the keys that have an effect on this broker; all keys are described and checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zabka.broker_sim.configs.config_def import ConfigKey, ConfigType, Value, at_least, between, list_of, one_of

_TABLE = """
advertised.listeners STRING null - broker
alter.config.policy.class.name CLASS null - -
alter.log.dirs.replication.quota.window.num INT 11 1.. -
alter.log.dirs.replication.quota.window.size.seconds INT 1 1.. -
authorizer.class.name STRING '' - -
auto.create.topics.enable BOOLEAN true - -
auto.include.jmx.reporter BOOLEAN true - -
auto.leader.rebalance.enable BOOLEAN true - -
background.threads INT 10 1.. cluster
broker.heartbeat.interval.ms INT 2000 - -
broker.id INT -1 - -
broker.id.generation.enable BOOLEAN true - -
broker.rack STRING null - -
broker.session.timeout.ms INT 9000 - -
client.quota.callback.class CLASS null - -
compression.gzip.level INT -1 -1..9 cluster
compression.lz4.level INT 9 1..17 cluster
compression.type STRING producer uncompressed|zstd|lz4|snappy|gzip|producer cluster
compression.zstd.level INT 3 -131072..22 cluster
connection.failed.authentication.delay.ms INT 100 0.. -
connections.max.idle.ms LONG 600000 - -
connections.max.reauth.ms LONG 0 - -
control.plane.listener.name STRING null - -
controlled.shutdown.enable BOOLEAN true - -
controlled.shutdown.max.retries INT 3 - -
controlled.shutdown.retry.backoff.ms LONG 5000 - -
controller.listener.names STRING null - -
controller.quorum.append.linger.ms INT 25 - -
controller.quorum.bootstrap.servers LIST '' - -
controller.quorum.election.backoff.max.ms INT 1000 - -
controller.quorum.election.timeout.ms INT 1000 - -
controller.quorum.fetch.timeout.ms INT 2000 - -
controller.quorum.request.timeout.ms INT 2000 - -
controller.quorum.retry.backoff.ms INT 20 - -
controller.quorum.voters LIST '' - -
controller.quota.window.num INT 11 1.. -
controller.quota.window.size.seconds INT 1 1.. -
controller.socket.timeout.ms INT 30000 - -
create.topic.policy.class.name CLASS null - -
default.replication.factor INT 1 - -
delegation.token.expiry.check.interval.ms LONG 3600000 1.. -
delegation.token.expiry.time.ms LONG 86400000 1.. -
delegation.token.master.key PASSWORD null - -
delegation.token.max.lifetime.ms LONG 604800000 1.. -
delegation.token.secret.key PASSWORD null - -
delete.records.purgatory.purge.interval.requests INT 1 - -
delete.topic.enable BOOLEAN true - -
early.start.listeners STRING null - -
eligible.leader.replicas.enable BOOLEAN false - -
fetch.max.bytes INT 57671680 1024.. -
fetch.purgatory.purge.interval.requests INT 1000 - -
group.consumer.assignors LIST org.apache.kafka.coordinator.group.assignor.UniformAssignor,\
org.apache.kafka.coordinator.group.assignor.RangeAssignor - -
group.consumer.heartbeat.interval.ms INT 5000 1.. -
group.consumer.max.heartbeat.interval.ms INT 15000 1.. -
group.consumer.max.session.timeout.ms INT 60000 1.. -
group.consumer.max.size INT 2147483647 1.. -
group.consumer.migration.policy STRING disabled - internal
group.consumer.min.heartbeat.interval.ms INT 5000 1.. -
group.consumer.min.session.timeout.ms INT 45000 1.. -
group.consumer.session.timeout.ms INT 45000 1.. -
group.coordinator.append.linger.ms INT 10 0.. -
group.coordinator.new.enable BOOLEAN false - internal
group.coordinator.rebalance.protocols LIST classic consumer|classic|share|unknown -
group.coordinator.threads INT 1 1.. -
group.initial.rebalance.delay.ms INT 3000 - -
group.max.session.timeout.ms INT 1800000 - -
group.max.size INT 2147483647 1.. -
group.min.session.timeout.ms INT 6000 - -
group.share.delivery.count.limit INT 5 2..10 -
group.share.enable BOOLEAN false - internal
group.share.heartbeat.interval.ms INT 5000 1.. -
group.share.max.groups SHORT 10 1..100 -
group.share.max.heartbeat.interval.ms INT 15000 1.. -
group.share.max.record.lock.duration.ms INT 60000 30000..3600000 -
group.share.max.session.timeout.ms INT 60000 1.. -
group.share.max.size SHORT 200 10..1000 -
group.share.min.heartbeat.interval.ms INT 5000 1.. -
group.share.min.record.lock.duration.ms INT 15000 1000..30000 -
group.share.min.session.timeout.ms INT 45000 1.. -
group.share.partition.max.record.locks INT 200 100..10000 -
group.share.record.lock.duration.ms INT 30000 1000..60000 -
group.share.session.timeout.ms INT 45000 1.. -
initial.broker.registration.timeout.ms INT 60000 - -
inter.broker.listener.name STRING null - -
inter.broker.protocol.version STRING 3.9-IV0 - -
kafka.metrics.polling.interval.secs INT 10 1.. -
kafka.metrics.reporters LIST '' - -
leader.imbalance.check.interval.seconds LONG 300 1.. -
leader.imbalance.per.broker.percentage INT 10 - -
listener.security.protocol.map STRING SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,\
SASL_PLAINTEXT:SASL_PLAINTEXT - broker
listeners STRING PLAINTEXT://:9092 - broker
log.cleaner.backoff.ms LONG 15000 0.. cluster
log.cleaner.dedupe.buffer.size LONG 134217728 - cluster
log.cleaner.delete.retention.ms LONG 86400000 0.. cluster
log.cleaner.enable BOOLEAN true - -
log.cleaner.io.buffer.load.factor DOUBLE 0.9 - cluster
log.cleaner.io.buffer.size INT 524288 0.. cluster
log.cleaner.io.max.bytes.per.second DOUBLE 1.7976931348623157E308 - cluster
log.cleaner.max.compaction.lag.ms LONG 9223372036854775807 1.. cluster
log.cleaner.min.cleanable.ratio DOUBLE 0.5 0..1 cluster
log.cleaner.min.compaction.lag.ms LONG 0 0.. cluster
log.cleaner.threads INT 1 0.. cluster
log.cleanup.policy LIST delete compact|delete cluster
log.dir STRING /tmp/kafka-logs - -
log.dir.failure.timeout.ms LONG 30000 1.. -
log.dirs STRING null - -
log.flush.interval.messages LONG 9223372036854775807 1.. cluster
log.flush.interval.ms LONG null - cluster
log.flush.offset.checkpoint.interval.ms INT 60000 0.. -
log.flush.scheduler.interval.ms LONG 9223372036854775807 - -
log.flush.start.offset.checkpoint.interval.ms INT 60000 0.. -
log.index.interval.bytes INT 4096 0.. cluster
log.index.size.max.bytes INT 10485760 4.. cluster
log.initial.task.delay.ms LONG 30000 0.. internal
log.local.retention.bytes LONG -2 -2.. cluster
log.local.retention.ms LONG -2 -2.. cluster
log.message.downconversion.enable BOOLEAN true - cluster
log.message.format.version STRING 3.0-IV1 - -
log.message.timestamp.after.max.ms LONG 9223372036854775807 0.. cluster
log.message.timestamp.before.max.ms LONG 9223372036854775807 0.. cluster
log.message.timestamp.difference.max.ms LONG 9223372036854775807 0.. cluster
log.message.timestamp.type STRING CreateTime CreateTime|LogAppendTime cluster
log.preallocate BOOLEAN false - cluster
log.retention.bytes LONG -1 - cluster
log.retention.check.interval.ms LONG 300000 1.. -
log.retention.hours INT 168 - -
log.retention.minutes INT null - -
log.retention.ms LONG null - cluster
log.roll.hours INT 168 1.. -
log.roll.jitter.hours INT 0 0.. -
log.roll.jitter.ms LONG null - cluster
log.roll.ms LONG null - cluster
log.segment.bytes INT 1073741824 14.. cluster
log.segment.delete.delay.ms LONG 60000 0.. cluster
max.connection.creation.rate INT 2147483647 0.. cluster
max.connections INT 2147483647 0.. cluster
max.connections.per.ip INT 2147483647 0.. cluster
max.connections.per.ip.overrides STRING '' - cluster
max.incremental.fetch.session.cache.slots INT 1000 0.. -
max.request.partition.size.limit INT 2000 1.. -
message.max.bytes INT 1048588 0.. cluster
metadata.log.dir STRING null - -
metadata.log.max.record.bytes.between.snapshots LONG 20971520 1.. -
metadata.log.max.snapshot.interval.ms LONG 3600000 0.. -
metadata.log.segment.bytes INT 1073741824 12.. -
metadata.log.segment.min.bytes INT 8388608 12.. internal
metadata.log.segment.ms LONG 604800000 - -
metadata.max.idle.interval.ms INT 500 0.. -
metadata.max.retention.bytes LONG 104857600 - -
metadata.max.retention.ms LONG 604800000 - -
metric.reporters LIST '' - cluster
metrics.num.samples INT 2 1.. -
metrics.recording.level STRING INFO - -
metrics.sample.window.ms LONG 30000 1.. -
min.insync.replicas INT 1 1.. cluster
node.id INT -1 - -
num.io.threads INT 8 1.. cluster
num.network.threads INT 3 1.. cluster
num.partitions INT 1 1.. -
num.recovery.threads.per.data.dir INT 1 1.. cluster
num.replica.alter.log.dirs.threads INT null - -
num.replica.fetchers INT 1 - cluster
offset.metadata.max.bytes INT 4096 - -
offsets.commit.required.acks SHORT -1 - -
offsets.commit.timeout.ms INT 5000 1.. -
offsets.load.buffer.size INT 5242880 1.. -
offsets.retention.check.interval.ms LONG 600000 1.. -
offsets.retention.minutes INT 10080 1.. -
offsets.topic.compression.codec INT 0 - -
offsets.topic.num.partitions INT 50 1.. -
offsets.topic.replication.factor SHORT 3 1.. -
offsets.topic.segment.bytes INT 104857600 1.. -
password.encoder.cipher.algorithm STRING AES/CBC/PKCS5Padding - -
password.encoder.iterations INT 4096 1024.. -
password.encoder.key.length INT 128 8.. -
password.encoder.keyfactory.algorithm STRING null - -
password.encoder.old.secret PASSWORD null - -
password.encoder.secret PASSWORD null - -
principal.builder.class CLASS org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder - broker
process.roles LIST '' broker|controller -
producer.id.expiration.check.interval.ms INT 600000 1.. internal
producer.id.expiration.ms INT 86400000 1.. cluster
producer.purgatory.purge.interval.requests INT 1000 - -
queued.max.request.bytes LONG -1 - -
queued.max.requests INT 500 1.. -
quota.window.num INT 11 1.. -
quota.window.size.seconds INT 1 1.. -
remote.fetch.max.wait.ms INT 500 1.. cluster
remote.log.index.file.cache.total.size.bytes LONG 1073741824 1.. cluster
remote.log.manager.copier.thread.pool.size INT -1 - -
remote.log.manager.copy.max.bytes.per.second LONG 9223372036854775807 1.. cluster
remote.log.manager.copy.quota.window.num INT 11 1.. -
remote.log.manager.copy.quota.window.size.seconds INT 1 1.. -
remote.log.manager.expiration.thread.pool.size INT -1 - -
remote.log.manager.fetch.max.bytes.per.second LONG 9223372036854775807 1.. cluster
remote.log.manager.fetch.quota.window.num INT 11 1.. -
remote.log.manager.fetch.quota.window.size.seconds INT 1 1.. -
remote.log.manager.task.interval.ms LONG 30000 1.. -
remote.log.manager.task.retry.backoff.max.ms LONG 30000 1.. internal
remote.log.manager.task.retry.backoff.ms LONG 500 1.. internal
remote.log.manager.task.retry.jitter DOUBLE 0.2 0..0.5 internal
remote.log.manager.thread.pool.size INT 10 1.. -
remote.log.metadata.custom.metadata.max.bytes INT 128 0.. -
remote.log.metadata.manager.class.name STRING org.apache.kafka.server.log.remote.metadata.storage.\
TopicBasedRemoteLogMetadataManager - -
remote.log.metadata.manager.class.path STRING null - -
remote.log.metadata.manager.impl.prefix STRING rlmm.config. - -
remote.log.metadata.manager.listener.name STRING null - -
remote.log.reader.max.pending.tasks INT 100 1.. -
remote.log.reader.threads INT 10 1.. -
remote.log.storage.manager.class.name STRING null - -
remote.log.storage.manager.class.path STRING null - -
remote.log.storage.manager.impl.prefix STRING rsm.config. - -
remote.log.storage.system.enable BOOLEAN false - -
replica.fetch.backoff.ms INT 1000 0.. -
replica.fetch.max.bytes INT 1048576 0.. -
replica.fetch.min.bytes INT 1 - -
replica.fetch.response.max.bytes INT 10485760 0.. -
replica.fetch.wait.max.ms INT 500 - -
replica.high.watermark.checkpoint.interval.ms LONG 5000 - -
replica.lag.time.max.ms LONG 30000 - -
replica.selector.class STRING null - -
replica.socket.receive.buffer.bytes INT 65536 - -
replica.socket.timeout.ms INT 30000 - -
replication.quota.window.num INT 11 1.. -
replication.quota.window.size.seconds INT 1 1.. -
request.timeout.ms INT 30000 - -
reserved.broker.max.id INT 1000 0.. -
sasl.client.callback.handler.class CLASS null - -
sasl.enabled.mechanisms LIST GSSAPI - broker
sasl.jaas.config PASSWORD null - broker
sasl.kerberos.kinit.cmd STRING /usr/bin/kinit - broker
sasl.kerberos.min.time.before.relogin LONG 60000 - broker
sasl.kerberos.principal.to.local.rules LIST DEFAULT - broker
sasl.kerberos.service.name STRING null - broker
sasl.kerberos.ticket.renew.jitter DOUBLE 0.05 - broker
sasl.kerberos.ticket.renew.window.factor DOUBLE 0.8 - broker
sasl.login.callback.handler.class CLASS null - -
sasl.login.class CLASS null - -
sasl.login.connect.timeout.ms INT null - -
sasl.login.read.timeout.ms INT null - -
sasl.login.refresh.buffer.seconds SHORT 300 - broker
sasl.login.refresh.min.period.seconds SHORT 60 - broker
sasl.login.refresh.window.factor DOUBLE 0.8 - broker
sasl.login.refresh.window.jitter DOUBLE 0.05 - broker
sasl.login.retry.backoff.max.ms LONG 10000 - -
sasl.login.retry.backoff.ms LONG 100 - -
sasl.mechanism.controller.protocol STRING GSSAPI - -
sasl.mechanism.inter.broker.protocol STRING GSSAPI - broker
sasl.oauthbearer.clock.skew.seconds INT 30 - -
sasl.oauthbearer.expected.audience LIST null - -
sasl.oauthbearer.expected.issuer STRING null - -
sasl.oauthbearer.jwks.endpoint.refresh.ms LONG 3600000 - -
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG 10000 - -
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG 100 - -
sasl.oauthbearer.jwks.endpoint.url STRING null - -
sasl.oauthbearer.scope.claim.name STRING scope - -
sasl.oauthbearer.sub.claim.name STRING sub - -
sasl.oauthbearer.token.endpoint.url STRING null - -
sasl.server.callback.handler.class CLASS null - -
sasl.server.max.receive.size INT 524288 - -
security.inter.broker.protocol STRING PLAINTEXT PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL -
security.providers STRING null - -
server.max.startup.time.ms LONG 9223372036854775807 0.. internal
socket.connection.setup.timeout.max.ms LONG 30000 - -
socket.connection.setup.timeout.ms LONG 10000 - -
socket.listen.backlog.size INT 50 1.. -
socket.receive.buffer.bytes INT 102400 - -
socket.request.max.bytes INT 104857600 1.. -
socket.send.buffer.bytes INT 102400 - -
ssl.allow.dn.changes BOOLEAN false - -
ssl.allow.san.changes BOOLEAN false - -
ssl.cipher.suites LIST '' - broker
ssl.client.auth STRING none - broker
ssl.enabled.protocols LIST TLSv1.2,TLSv1.3 - broker
ssl.endpoint.identification.algorithm STRING https - broker
ssl.engine.factory.class CLASS null - broker
ssl.key.password PASSWORD null - broker
ssl.keymanager.algorithm STRING SunX509 - broker
ssl.keystore.certificate.chain PASSWORD null - broker
ssl.keystore.key PASSWORD null - broker
ssl.keystore.location STRING null - broker
ssl.keystore.password PASSWORD null - broker
ssl.keystore.type STRING JKS - broker
ssl.principal.mapping.rules STRING DEFAULT - -
ssl.protocol STRING TLSv1.3 - broker
ssl.provider STRING null - broker
ssl.secure.random.implementation STRING null - broker
ssl.trustmanager.algorithm STRING PKIX - broker
ssl.truststore.certificates PASSWORD null - broker
ssl.truststore.location STRING null - broker
ssl.truststore.password PASSWORD null - broker
ssl.truststore.type STRING JKS - broker
telemetry.max.bytes INT 1048576 1.. -
transaction.abort.timed.out.transaction.cleanup.interval.ms INT 10000 1.. -
transaction.max.timeout.ms INT 900000 1.. -
transaction.partition.verification.enable BOOLEAN true - cluster
transaction.remove.expired.transaction.cleanup.interval.ms INT 3600000 1.. -
transaction.state.log.load.buffer.size INT 5242880 1.. -
transaction.state.log.min.isr INT 2 1.. -
transaction.state.log.num.partitions INT 50 1.. -
transaction.state.log.replication.factor SHORT 3 1.. -
transaction.state.log.segment.bytes INT 104857600 1.. -
transactional.id.expiration.ms INT 604800000 1.. -
unclean.leader.election.enable BOOLEAN false - cluster
unclean.leader.election.interval.ms LONG 300000 1.. internal
unstable.api.versions.enable BOOLEAN false - internal
unstable.feature.versions.enable BOOLEAN false - internal
zookeeper.clientCnxnSocket STRING null - -
zookeeper.connect STRING null - -
zookeeper.connection.timeout.ms INT null - -
zookeeper.max.in.flight.requests INT 10 1.. -
zookeeper.metadata.migration.enable BOOLEAN false - -
zookeeper.metadata.migration.min.batch.size INT 200 1.. internal
zookeeper.session.timeout.ms INT 18000 - -
zookeeper.set.acl BOOLEAN false - -
zookeeper.ssl.cipher.suites LIST null - -
zookeeper.ssl.client.enable BOOLEAN false - -
zookeeper.ssl.crl.enable BOOLEAN false - -
zookeeper.ssl.enabled.protocols LIST null - -
zookeeper.ssl.endpoint.identification.algorithm STRING HTTPS - -
zookeeper.ssl.keystore.location STRING null - -
zookeeper.ssl.keystore.password PASSWORD null - -
zookeeper.ssl.keystore.type STRING null - -
zookeeper.ssl.ocsp.enable BOOLEAN false - -
zookeeper.ssl.protocol STRING TLSv1.2 - -
zookeeper.ssl.truststore.location STRING null - -
zookeeper.ssl.truststore.password PASSWORD null - -
zookeeper.ssl.truststore.type STRING null - -
"""
# The columns of the table: name, type, default, limits (a..b, or the allowed values), and where the key can be changed
# dynamically: cluster, broker, "-" for nowhere, or "internal" for a key that DescribeConfigs omits.


class BrokerKey(NamedTuple):
    """One key of Kafka's broker configuration."""

    definition: ConfigKey
    default: str | None
    """The default value as a string, or None if the key has no default."""
    is_dynamic: bool
    """Whether the key can change while the broker runs."""
    is_per_broker: bool
    """Whether the key can change only for one broker, not for all of them at once."""
    is_internal: bool
    """Whether DescribeConfigs omits the key unless it is set."""


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def _check(limits: str, kind: ConfigType) -> Callable[[Value], str | None] | None:
    if limits == "-":
        return None
    low, range_sign, high = limits.partition("..")
    if range_sign:
        return between(_number(low), _number(high)) if high else at_least(_number(low))
    words = limits.split("|")
    return list_of(*words) if kind is ConfigType.LIST else one_of(*words)


def _broker_key(line: str) -> BrokerKey:
    name, type_name, default, limits, scope = line.split()
    kind = ConfigType[type_name]
    text = None if default == "null" else "" if default == "''" else default
    definition = ConfigKey(name, kind, text or "", _check(limits, kind))
    if text:
        definition = definition._replace(default=definition.parse(text))
    return BrokerKey(definition, text, scope in ("cluster", "broker"), scope == "broker", scope == "internal")


KAFKA_KEYS: dict[str, BrokerKey] = {
    key.definition.name: key for key in (_broker_key(line) for line in _TABLE.split("\n") if line)
}
"""Kafka's broker keys, keyed by name, in alphabetical order."""

REPLICATION_QUOTAS: dict[str, ConfigKey] = {
    name: ConfigKey(name, ConfigType.LONG, 2**63 - 1, at_least(0))
    for name in (
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
}
"""Quotas, in bytes per second, that can only be set in /config/brokers, not in a file (kafka.server.DynamicConfig)."""

SYNONYMS: dict[str, tuple[str, ...]] = {
    "log.roll.ms": ("log.roll.ms", "log.roll.hours"),
    "log.roll.hours": ("log.roll.ms", "log.roll.hours"),
    "log.roll.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "log.roll.jitter.hours": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "log.retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "log.retention.minutes": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "log.retention.hours": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
}
"""Keys with the same meaning in other units, ordered by precedence."""
