"""Kafka keys that zabka's brokers accept, check and describe, but that have no effect, with the reason for each."""

from __future__ import annotations

from collections.abc import Mapping

from zabka.broker_sim.configs.key_sentences import sentences

_OF_BROKERS: Mapping[str, str] = {
    "clients authenticate with PLAIN, SCRAM or OAUTHBEARER: there is no Kerberos here": """
sasl.kerberos.kinit.cmd The path of Kerberos's `kinit`.
sasl.kerberos.min.time.before.relogin The least time between two logins to Kerberos.
sasl.kerberos.principal.to.local.rules Rules that turn Kerberos's principals into short names.
sasl.kerberos.service.name The Kerberos name that brokers run under.
sasl.kerberos.ticket.renew.jitter By what share the time of a ticket's renewal varies.
sasl.kerberos.ticket.renew.window.factor At which share of its life a ticket is renewed.
""",
    "there are no delegation tokens": """
delegation.token.expiry.check.interval.ms How often lapsed delegation tokens are looked for.
delegation.token.expiry.time.ms After how long a delegation token lapses unless it is renewed.
delegation.token.master.key The older name of `delegation.token.secret.key`.
delegation.token.max.lifetime.ms How long a delegation token can be renewed at most.
delegation.token.secret.key What delegation tokens are signed with.
""",
    "no classes are loaded: `sasl.login.callback.handler.class` selects how OAUTHBEARER logs in": """
sasl.client.callback.handler.class The class that answers what a SASL client is asked.
sasl.login.class The class that logs in.
""",
    "`ssl.enabled.protocols` selects the versions of TLS": """
ssl.protocol The version of TLS with which connections are opened.
""",
    "zookeeper.ssl.client.enable alone selects TLS": """
zookeeper.clientCnxnSocket The class of the ZooKeeper client's sockets.
""",
    "it belongs to brokers without ZooKeeper": """
broker.heartbeat.interval.ms How often a broker reports to the controllers of a quorum.
broker.session.timeout.ms After how long without a report they take it for dead.
controller.listener.names The listeners of controllers.
controller.quorum.append.linger.ms How long a leader of the quorum collects writes.
controller.quorum.bootstrap.servers Where the quorum's controllers are found first.
controller.quorum.election.backoff.max.ms The longest wait before another election of the quorum.
controller.quorum.election.timeout.ms How long an election of the quorum may take.
controller.quorum.fetch.timeout.ms After how long without a fetch a member of the quorum looks for a leader.
controller.quorum.request.timeout.ms How long a request of the quorum may take.
controller.quorum.retry.backoff.ms How long such a request waits before it is sent again.
controller.quorum.voters The members of the quorum.
early.start.listeners The listeners that open before the broker knows who may do what.
eligible.leader.replicas.enable Whether controllers keep replicas that may lead though they left the ISR.
initial.broker.registration.timeout.ms How long a broker tries to register with the quorum.
log.dir.failure.timeout.ms How long a broker with a failed log directory waits until it has told the controllers.
max.request.partition.size.limit How many partitions one DescribeTopicPartitions may ask for.
metadata.log.dir Where the quorum's log is kept.
metadata.log.max.record.bytes.between.snapshots After how many bytes of the quorum's log a snapshot is due.
metadata.log.max.snapshot.interval.ms After how long a snapshot is due.
metadata.log.segment.bytes The size of a segment of the quorum's log.
metadata.log.segment.min.bytes The least size that such a segment may be given.
metadata.log.segment.ms The age at which such a segment is closed.
metadata.max.idle.interval.ms How often an idle quorum writes a record that says nothing.
metadata.max.retention.bytes How large the quorum's log may become.
metadata.max.retention.ms How long its segments are kept.
sasl.mechanism.controller.protocol The SASL mechanism towards controllers of a quorum.
server.max.startup.time.ms How long a broker may take to start.
unclean.leader.election.interval.ms How often a quorum's controllers look for partitions to elect for.
unstable.api.versions.enable Whether versions of requests are served that are still being worked on.
unstable.feature.versions.enable Whether features are offered that are still being worked on.
zookeeper.metadata.migration.min.batch.size How many records of a migration go together at least.
""",
    "groups use the classic protocol alone": """
group.consumer.assignors The assignors that brokers have for consumer groups.
group.consumer.heartbeat.interval.ms How often members of a consumer group report.
group.consumer.max.heartbeat.interval.ms The longest such interval that a group may be given.
group.consumer.max.session.timeout.ms The longest session timeout that a consumer group may be given.
group.consumer.max.size How many members a consumer group may have.
group.consumer.migration.policy Whether groups may change from one protocol to the other.
group.consumer.min.heartbeat.interval.ms The shortest such interval.
group.consumer.min.session.timeout.ms The shortest session timeout of a consumer group.
group.consumer.session.timeout.ms The session timeout of consumer groups.
group.coordinator.append.linger.ms How long the newer coordinator collects writes.
group.coordinator.new.enable Whether the newer coordinator serves the groups.
group.coordinator.threads How many threads the newer coordinator has.
group.share.delivery.count.limit How often a record is delivered to a share group at most.
group.share.enable Whether there are share groups.
group.share.heartbeat.interval.ms How often members of a share group report.
group.share.max.groups How many share groups there may be.
group.share.max.heartbeat.interval.ms The longest such interval.
group.share.max.record.lock.duration.ms The longest time that a share group may be given to work on a record.
group.share.max.session.timeout.ms The longest session timeout of a share group.
group.share.max.size How many members a share group may have.
group.share.min.heartbeat.interval.ms The shortest such interval.
group.share.min.record.lock.duration.ms The shortest time that a share group may be given to work on a record.
group.share.min.session.timeout.ms The shortest session timeout of a share group.
group.share.partition.max.record.locks How many records of a partition a share group may work on at a time.
group.share.record.lock.duration.ms How long a member of a share group may work on a record.
group.share.session.timeout.ms The session timeout of share groups.
""",
    "logs are not tiered": """
log.local.retention.bytes Default of a topic's `local.retention.bytes`.
log.local.retention.ms Default of a topic's `local.retention.ms`.
remote.fetch.max.wait.ms How long a fetch waits for remote records.
remote.log.index.file.cache.total.size.bytes How much of the disk indexes of remote segments may take.
remote.log.manager.copier.thread.pool.size How many threads copy segments away.
remote.log.manager.copy.max.bytes.per.second How fast segments are copied away.
remote.log.manager.copy.quota.window.num Samples that this speed is averaged over.
remote.log.manager.copy.quota.window.size.seconds How long such a sample is.
remote.log.manager.expiration.thread.pool.size How many threads remove remote segments.
remote.log.manager.fetch.max.bytes.per.second How fast remote segments are read.
remote.log.manager.fetch.quota.window.num Samples that this speed is averaged over.
remote.log.manager.fetch.quota.window.size.seconds How long such a sample is.
remote.log.manager.task.interval.ms How often segments to copy are looked for.
remote.log.manager.task.retry.backoff.max.ms The longest wait before a copy is tried again.
remote.log.manager.task.retry.backoff.ms The first wait before a copy is tried again.
remote.log.manager.task.retry.jitter By what share that wait varies.
remote.log.manager.thread.pool.size How many threads work on remote segments.
remote.log.metadata.custom.metadata.max.bytes How much a store may note beside a remote segment.
remote.log.metadata.manager.class.name The class that keeps what is known of remote segments.
remote.log.metadata.manager.class.path Where that class is found.
remote.log.metadata.manager.impl.prefix How that class's own keys begin.
remote.log.metadata.manager.listener.name The listener that it uses.
remote.log.reader.max.pending.tasks How many reads of remote segments may wait.
remote.log.reader.threads How many threads read remote segments.
remote.log.storage.manager.class.name The class that stores remote segments.
remote.log.storage.manager.class.path Where that class is found.
remote.log.storage.manager.impl.prefix How that class's own keys begin.
""",
    "a broker here is one process with one thread for requests": """
background.threads How many threads do what is not urgent.
num.io.threads How many threads carry requests out.
num.network.threads How many threads read and write connections.
num.recovery.threads.per.data.dir How many threads read a log directory at start.
num.replica.alter.log.dirs.threads How many threads move replicas between log directories.
num.replica.fetchers How many connections a follower has to one leader.
queued.max.request.bytes How many bytes of requests may wait.
queued.max.requests How many requests may wait.
""",
    "the operating system's setting is used": """
replica.socket.receive.buffer.bytes The buffer of a follower's connections.
socket.connection.setup.timeout.max.ms The longest time that the making of a connection may take.
socket.connection.setup.timeout.ms The time that the making of a connection may take at first.
socket.listen.backlog.size How many connections may wait to be let in.
socket.receive.buffer.bytes The buffer for what arrives on a connection.
socket.send.buffer.bytes The buffer for what leaves on a connection.
""",
    "metrics go to files and to HTTP, and no classes are loaded": """
auto.include.jmx.reporter Whether metrics are always shown by JMX.
kafka.metrics.polling.interval.secs How often reporters read metrics.
kafka.metrics.reporters Classes that report metrics in Kafka's older way.
metric.reporters Classes that report metrics.
metrics.num.samples Samples that metrics are averaged over.
metrics.recording.level How much is measured.
metrics.sample.window.ms How long such a sample is.
telemetry.max.bytes How much a client may push of its own metrics at a time.
""",
    "logs and their indexes are kept in another way": """
delete.records.purgatory.purge.interval.requests How often DeleteRecords that are over are swept out of memory.
fetch.purgatory.purge.interval.requests How often fetches that are over are swept out of memory.
log.cleaner.io.buffer.size How much memory compaction reads and writes with.
log.cleaner.io.max.bytes.per.second How fast compaction may read and write.
log.flush.interval.messages Default of a topic's `flush.messages`.
log.flush.interval.ms Default of a topic's `flush.ms`.
log.flush.offset.checkpoint.interval.ms How often the point up to which logs need no recovery is written down.
log.flush.scheduler.interval.ms How often logs are looked at that are due to be synced.
log.index.size.max.bytes Default of a topic's `segment.index.bytes`.
log.initial.task.delay.ms How long after its start a broker begins to look after its logs.
log.preallocate Default of a topic's `preallocate`.
log.roll.jitter.hours Stands in for `log.roll.jitter.ms`.
log.roll.jitter.ms Default of a topic's `segment.jitter.ms`.
log.segment.delete.delay.ms Default of a topic's `file.delete.delay.ms`.
offsets.topic.compression.codec How batches in `__consumer_offsets` are compressed.
producer.purgatory.purge.interval.requests How often writes that are over are swept out of memory.
""",
    "Kafka 3.9 itself reads and writes the newest format whatever it says": """
inter.broker.protocol.version The version in which brokers talk among themselves.
log.message.format.version Default of a topic's `message.format.version`.
""",
    "passwords in ZooKeeper are not encrypted again with a new secret: set them again": """
password.encoder.old.secret The secret before a change of `password.encoder.secret`.
""",
}
_OF_TOPICS: Mapping[str, str] = {
    "logs and their indexes are kept in another way": """
file.delete.delay.ms How long a file stays on the disk after its segment was dropped.
flush.messages After how many records a log is synced to the disk.
flush.ms After how long a log is synced to the disk.
index.interval.bytes Bytes of log between two entries of a segment's index; the broker's key holds for every topic.
preallocate Whether a new segment takes its whole room on the disk at once.
segment.index.bytes How large a segment's index may become.
segment.jitter.ms By how much the age varies at which a segment is closed.
""",
    "logs are not tiered": """
local.retention.bytes How much of a tiered partition stays on the broker.
local.retention.ms How long a tiered partition's segments stay on the broker.
""",
    "Kafka 3.9 itself reads and writes the newest format whatever it says": """
message.format.version The format that records are written in.
""",
}


def _by_key(groups: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    return {key: (sentence, why) for why, text in groups.items() for key, sentence in sentences(text).items()}


BROKER_WITHOUT_EFFECT: Mapping[str, tuple[str, str]] = _by_key(_OF_BROKERS)
"""Broker keys without effect, each with its purpose in Kafka and the reason, in one sentence each."""
TOPIC_WITHOUT_EFFECT: Mapping[str, tuple[str, str]] = _by_key(_OF_TOPICS)
"""Topic keys without effect, each with its purpose in Kafka and the reason, in one sentence each."""
