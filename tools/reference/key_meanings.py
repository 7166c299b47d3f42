"""What each configuration key does here, in one sentence.

The tables of keys in the code hold types, limits and defaults; the sentences stand here.  A key without a sentence
stops the generator, so that a new key is described where it is added.
"""

from __future__ import annotations


def _table(text: str) -> dict[str, str]:
    """Lines of a key, a blank and its sentence; a line that begins with blanks continues the one before."""
    found: dict[str, str] = {}
    key = ""
    for line in text.strip("\n").splitlines():
        if line.startswith(" "):
            found[key] += " " + line.strip()
        else:
            key, _, said = line.partition(" ")
            found[key] = said
    return found


ZOOKEEPER = _table("""
4lw.commands.whitelist Four-letter words that are answered besides `srvr`, separated by commas; `*` for all.
DigestAuthenticationProvider.digestAlg The hash of the `digest` scheme.
DigestAuthenticationProvider.enabled Whether clients may authenticate by `digest`.
DigestAuthenticationProvider.superDigest The super user's `super:` digest; nobody is super by digest without it.
SASLAuthenticationProvider.superPassword The password of the SASL user `super`, over the one in the JAAS file.
X509AuthenticationProvider.superUser The certificate subject that is super.
admin.commandURL The path below which the admin commands stand.
admin.enableServer Starts the HTTP admin server. ZooKeeper starts it by default; here it has to be asked for.
admin.forceHttps The admin server's port speaks TLS only.
admin.needClientAuth The admin server wants a certificate of its clients.
admin.portUnification The admin server's port speaks TLS and plain HTTP.
admin.rateLimiterIntervalInMS The least time between two snapshots, or two restores, that are asked for over HTTP.
admin.restore.enabled Allows a restore from a snapshot that is sent over HTTP.
admin.serverAddress Where the admin server listens.
admin.serverPort The admin server's port; 0 picks a free one.
admin.snapshot.enabled Allows snapshots to be taken over HTTP, by who has every permission on `/`.
allowSaslFailedClients Keeps the connection of a client whose SASL authentication failed.
autopurge.purgeInterval Above 0, old snapshots and logs are removed after each new snapshot.
autopurge.snapRetainCount How many snapshots purging keeps.
client.certReload Reads the client port's certificates again when their files change.
client.portUnification The plain client port also speaks TLS.
clientPort The port for clients.
clientPortAddress The address of the port for clients.
commitLogCount How many committed transactions a leader keeps in memory, to bring learners up to date with.
connectionDecreaseRatio Share of tokens that must be free before the chance of dropping new connections shrinks.
connectionDropDecrease By how much that chance shrinks.
connectionDropIncrease By how much that chance grows while tokens are short.
connectionFreezeTime Milliseconds between two changes of that chance; -1 turns dropping off.
connectionMaxTokens How many new connections are let in per filling; 0 turns the throttle off.
connectionTokenFillCount How many tokens a filling adds.
connectionTokenFillTime Milliseconds between two fillings.
connection_throttle_decrease_ratio The system property's name of `connectionDecreaseRatio`; it wins over the other.
connection_throttle_drop_decrease The system property's name of `connectionDropDecrease`; it wins over the other.
connection_throttle_drop_increase The system property's name of `connectionDropIncrease`; it wins over the other.
connection_throttle_fill_count The system property's name of `connectionTokenFillCount`; it wins over the other.
connection_throttle_fill_time The system property's name of `connectionTokenFillTime`; it wins over the other.
connection_throttle_freeze_time The system property's name of `connectionFreezeTime`; it wins over the other.
connection_throttle_global_session_weight Tokens that a new global session takes, where sessions have weights.
connection_throttle_local_session_weight Tokens that a new local session takes, where sessions have weights.
connection_throttle_renew_session_weight Tokens that a renewed session takes, where sessions have weights.
connection_throttle_tokens The system property's name of `connectionMaxTokens`; it wins over the other.
connection_throttle_weight_enabled Lets kinds of sessions take different numbers of tokens.
dataDir Where snapshots, `myid` and, unless `dataLogDir` says otherwise, the log are kept.
dataLogDir Where the transaction log is kept.
enforce.auth.enabled Clients must authenticate by one of `enforce.auth.schemes` before they may do anything.
enforce.auth.schemes The schemes of `enforce.auth.enabled`.
enforceQuota Refuses a write that would exceed a hard quota.
ensembleAuthName Names of this ensemble; a client that names another one by the `ensemble` scheme is refused.
extendedTypesEnabled Allows znodes with a time to live; server ids then end at 254.
fsync.warningthresholdms From how many milliseconds on a slow sync of the log is reported.
globalOutstandingLimit How many requests may be under way before clients are read no further.
initLimit Ticks that a follower may take to connect to a leader and to be synchronised.
java.security.auth.login.config The JAAS file with the users of SASL DIGEST-MD5.
jute.maxbuffer The largest request and the largest znode, in bytes.
largeRequestMaxBytes How many bytes all large requests together may take.
largeRequestThreshold From how many bytes on a request counts as large; -1 for never.
letAnySaslUserDoX A node's ACL `sasl:` entries with this name hold for every SASL user.
localSessionsEnabled New sessions stay with the server that they came to, unknown to the others.
localSessionsUpgradingEnabled A local session becomes global when it makes an ephemeral.
maxClientCnxns How many connections one address may have; 0 for any number.
maxCnxns How many connections there may be; 0 for any number.
maxSessionTimeout The longest session timeout that is granted, in milliseconds; -1 for 20 ticks.
metricsProvider.className `org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider` opens a port for
  Prometheus.
metricsProvider.exportJvmInfo Adds the process's own metrics.
metricsProvider.httpHost Where Prometheus's port listens.
metricsProvider.httpPort Prometheus's port; 0 picks a free one.
minSessionTimeout The shortest session timeout that is granted, in milliseconds; -1 for 2 ticks.
multiAddress.enabled A server's line may name several addresses.
multiAddress.reachabilityCheckEnabled Looks which of them answers before it connects.
multiAddress.reachabilityCheckTimeoutMs How long that look may take.
netty.server.outstandingHandshake.limit How many TLS handshakes may be under way.
observerMasterPort Followers listen there for observers that learn from them.
oraclePath A file that lets one of two servers go on without the other while its first character is 1.
portUnification The servers' ports speak TLS and plain text, for a rolling change to TLS.
preAllocSize How much of the log file is written ahead with zeros at a time, in KiB.
quorum.auth.enableSasl Servers prove themselves to each other by SASL.
quorum.auth.kerberos.servicePrincipal Refused: GSSAPI is not supported.
quorum.auth.learner.saslLoginContext The JAAS section with what this server proves itself by.
quorum.auth.learnerRequireSasl This server does not talk to one that cannot prove itself.
quorum.auth.server.saslLoginContext The JAAS section with the users that this server takes.
quorum.auth.serverRequireSasl A server that does not prove itself is refused.
quorumListenOnAllIPs Quorum and election ports listen on every address instead of the server line's.
readonlymode.enabled Without a quorum a peer serves reads to clients that ask for it.
reconfigEnabled The membership may be changed while the ensemble runs.
requestThrottleLimit How many requests may be in work before others wait; 0 for any number.
request_throttle_max_requests The system property's name of `requestThrottleLimit`; it wins over the other.
sasl.serverconfig The JAAS section with the clients' users.
secureClientPort The port for clients that speaks TLS only.
secureClientPortAddress The address of that port.
sessionRequireClientSASLAuth The same as `enforce.auth.enabled` with the scheme `sasl`.
skipACL `yes` skips every check of permissions.
snapCount How many transactions there are between two snapshots, about; the number is drawn between half and all of it.
snapSizeLimitInKb After how many KiB of log a snapshot is due, about; 0 turns this off.
snapshot.compression.method How snapshots are compressed.
snapshot.trust.empty Starts on a log without any snapshot.
snapshotSizeFactor A learner gets a DIFF from the log on disk while that is smaller than this share of a snapshot.
ssl.authProvider Which provider reads client certificates; only `x509` is known.
ssl.ciphersuites The cipher suites, OpenSSL's default where empty.
ssl.clientAuth Whether clients have to show a certificate.
ssl.clientHostnameVerification Checks a client's certificate against its address.
ssl.crl Looks into lists of revoked certificates.
ssl.enabledProtocols The versions of TLS.
ssl.handshakeDetectionTimeoutMillis How long a client may take to begin and end its handshake.
ssl.hostnameVerification Checks names in certificates at all.
ssl.keyStore.location The key and certificate: PEM or PKCS12.
ssl.keyStore.password The password of that file.
ssl.keyStore.passwordPath A file that holds the password.
ssl.keyStore.type `PEM` or `PKCS12`, if the file's name does not say it.
ssl.ocsp Refused: no responder is asked here.
ssl.quorum.ciphersuites Between servers: the cipher suites.
ssl.quorum.clientAuth Between servers: whether the one that connects has to show a certificate.
ssl.quorum.clientHostnameVerification Between servers: checks the connecting server's name.
ssl.quorum.crl Between servers: looks into lists of revoked certificates.
ssl.quorum.enabledProtocols Between servers: the versions of TLS.
ssl.quorum.handshakeDetectionTimeoutMillis Between servers: how long a handshake may take.
ssl.quorum.hostnameVerification Between servers: checks names in certificates at all.
ssl.quorum.keyStore.location Between servers: the key and certificate.
ssl.quorum.keyStore.password Between servers: the password of that file.
ssl.quorum.keyStore.passwordPath Between servers: a file that holds the password.
ssl.quorum.keyStore.type Between servers: `PEM` or `PKCS12`.
ssl.quorum.ocsp Refused: no responder is asked here.
ssl.quorum.trustStore.location Between servers: the authorities that are trusted.
ssl.quorum.trustStore.password Between servers: the password of that file.
ssl.quorum.trustStore.passwordPath Between servers: a file that holds the password.
ssl.quorum.trustStore.type Between servers: `PEM` or `PKCS12`.
ssl.trustStore.location The authorities whose client certificates are trusted.
ssl.trustStore.password The password of that file.
ssl.trustStore.passwordPath A file that holds the password.
ssl.trustStore.type `PEM` or `PKCS12`.
sslQuorum Servers talk TLS with each other, both sides with certificates.
sslQuorumReloadCertFiles Reads the servers' certificates again when their files change.
standaloneEnabled Whether one server of an ensemble of one runs without the quorum's machinery.
syncLimit Ticks without a word after which leader and follower give each other up.
throttledOpWaitTime After how many milliseconds in the queue a request is answered with `ThrottledOp`; 0 for never.
throttled_op_wait_time The system property's name of `throttledOpWaitTime`; it wins over the other.
tickTime The unit of the other limits, in milliseconds, and the pace of heartbeats.
zabka.control.socket Where the host agent asks for the peer's status and sets its link faults.
zabka.fsync.inlinethresholdus While the median sync takes less than this many microseconds, small groups are synced
  in the
  event loop; 0 leaves every sync to the storage thread.
zabka.journal.dir Where the journal is written.
zabka.journal.level `full` writes every commit and acknowledgement too.
zabka.ssl.crl.location A PEM file with each authority's list of revoked certificates, for `ssl.crl`.
zabka.ssl.quorum.crl.location The same for `ssl.quorum.crl`.
znode.container.checkIntervalMs How often the leader looks for containers and times to live that have lapsed.
znode.container.maxNeverUsedIntervalMs After how long a container that never had a child goes; 0 for never.
znode.container.maxPerMinute How many such znodes are deleted a minute.
""")

TOPIC = _table("""
cleanup.policy `delete` drops old segments, `compact` keeps the last record of each key, or both.
delete.retention.ms How long the last record of a deleted key can still be read, in a compacted log.
follower.replication.throttled.replicas Which replicas are throttled as followers: `partition:broker,…`, or `*`.
leader.replication.throttled.replicas Which replicas are throttled as leaders: `partition:broker,…`, or `*`.
max.compaction.lag.ms Older records are compacted whatever the ratio is.
max.message.bytes The largest batch that a leader takes.
message.timestamp.type Whose clock a record bears: its producer's, or its leader's.
min.cleanable.dirty.ratio What share of a log has to be uncompacted before it is compacted.
min.compaction.lag.ms Younger records are left as they are.
min.insync.replicas With fewer replicas in sync, writes with `acks=all` are refused and the high watermark stands still.
retention.bytes How large a partition may become before old segments go; -1 for any size.
retention.ms How old a segment may become before it goes; -1 for any age.
segment.bytes At which size a segment is closed and another one begun.
segment.ms At which age a segment is closed.
unclean.leader.election.enable Whether a replica outside the ISR may lead when nobody else can: records may then be
  lost.
""")

BROKER = _table("""
advertised.listeners What clients and other brokers are told to connect to.
alter.log.dirs.replication.quota.window.num Samples that the throttle between log directories is averaged over.
alter.log.dirs.replication.quota.window.size.seconds How long such a sample is.
auto.create.topics.enable Makes a topic that a client asks for by name.
auto.leader.rebalance.enable The controller gives leadership back to preferred replicas from time to time.
broker.id The broker's id; -1 has one generated.
broker.id.generation.enable Allows generated ids, above `reserved.broker.max.id`.
broker.rack The broker's rack: for the spread of replicas, and for reading from the nearest one.
connections.max.idle.ms After how long a silent connection is closed.
controlled.shutdown.enable A broker that stops hands its leaderships over first.
controlled.shutdown.max.retries How often it tries.
controlled.shutdown.retry.backoff.ms How long it waits between two tries.
controller.quota.window.num Samples of the quota on topic changes.
controller.quota.window.size.seconds How long such a sample is.
controller.socket.timeout.ms How long a controller waits for a broker's answer, and a broker for the controller's.
default.replication.factor Replicas of a topic that does not say how many.
delete.topic.enable Allows topics to be deleted.
fetch.max.bytes The most that one fetch is answered with.
group.initial.rebalance.delay.ms How long an empty group waits for more members before its first rebalance.
group.max.session.timeout.ms The longest session timeout a member may ask for.
group.max.size How many members a group may have.
group.min.session.timeout.ms The shortest session timeout a member may ask for.
inter.broker.listener.name Which listener brokers use among themselves.
leader.imbalance.check.interval.seconds How often the controller looks for partitions off their preferred leader.
leader.imbalance.per.broker.percentage From which share of a broker's partitions on it acts.
listener.security.protocol.map The protocol of each listener; PLAINTEXT is the one there is.
listeners Where the broker listens.
log.cleaner.backoff.ms How often compaction looks for work.
log.cleaner.delete.retention.ms Default of a topic's `delete.retention.ms`.
log.cleaner.enable Whether anything is compacted.
log.cleaner.max.compaction.lag.ms Default of a topic's `max.compaction.lag.ms`.
log.cleaner.min.cleanable.ratio Default of a topic's `min.cleanable.dirty.ratio`.
log.cleaner.min.compaction.lag.ms Default of a topic's `min.compaction.lag.ms`.
log.cleanup.policy Default of a topic's `cleanup.policy`.
log.dir The log directory, where `log.dirs` names none.
log.dirs The log directories.
log.flush.start.offset.checkpoint.interval.ms How often log start offsets are written down.
log.index.interval.bytes Bytes of log between two entries of a segment's index, which is kept in memory.
log.message.timestamp.type Default of a topic's `message.timestamp.type`.
log.retention.bytes Default of a topic's `retention.bytes`.
log.retention.check.interval.ms How often retention looks for segments to drop.
log.retention.hours Stands in for `log.retention.ms`.
log.retention.minutes Stands in for `log.retention.ms`, before the hours.
log.retention.ms Default of a topic's `retention.ms`.
log.roll.hours Stands in for `log.roll.ms`.
log.roll.ms Default of a topic's `segment.ms`.
log.segment.bytes Default of a topic's `segment.bytes`.
max.connection.creation.rate How many connections a second are let in, in all or on one listener.
max.connections How many connections there may be, in all or on one listener; others wait.
max.connections.per.ip How many connections one address may have.
max.connections.per.ip.overrides Other numbers for some addresses: `host:number,…`.
max.incremental.fetch.session.cache.slots How many fetch sessions are remembered.
message.max.bytes Default of a topic's `max.message.bytes`.
min.insync.replicas Default of a topic's `min.insync.replicas`.
num.partitions Partitions of a topic that does not say how many.
offset.metadata.max.bytes How long the text beside a committed offset may be.
offsets.commit.required.acks Which `acks` a commit of offsets waits for.
offsets.commit.timeout.ms How long it waits for them.
offsets.load.buffer.size Bytes that are read at a time while a group's offsets load.
offsets.retention.check.interval.ms How often offsets are looked at that have lapsed.
offsets.retention.minutes After how long an empty group's offsets lapse.
offsets.topic.num.partitions Partitions of `__consumer_offsets`.
offsets.topic.replication.factor Replicas of `__consumer_offsets`.
offsets.topic.segment.bytes Segment size of `__consumer_offsets`.
producer.id.expiration.check.interval.ms How often producers are looked at that have gone.
producer.id.expiration.ms After how long an idempotent producer is forgotten.
quota.window.num Samples that clients' quotas are averaged over.
quota.window.size.seconds How long such a sample is.
replica.fetch.backoff.ms How long a follower waits after an error.
replica.fetch.max.bytes The most that a follower takes of one partition at a time.
replica.fetch.min.bytes For how many bytes a leader lets a follower wait.
replica.fetch.response.max.bytes The most that a follower takes at a time.
replica.fetch.wait.max.ms How long a leader lets a follower wait for new records.
replica.high.watermark.checkpoint.interval.ms How often high watermarks are written down.
replica.lag.time.max.ms For how long a follower may not have caught up before it leaves the ISR.
replica.selector.class `org.apache.kafka.common.replica.RackAwareReplicaSelector` sends readers to the nearest replica.
replica.socket.timeout.ms How long a follower waits for its leader's answer.
replication.quota.window.num Samples that replication throttles are averaged over.
replication.quota.window.size.seconds How long such a sample is.
request.timeout.ms How long a broker waits for another one's answer, other than a leader's or controller's.
reserved.broker.max.id Generated ids begin above it.
socket.request.max.bytes The largest request that is read.
unclean.leader.election.enable Default of a topic's `unclean.leader.election.enable`.
zabka.control.socket Where the host agent asks for the broker's status and sets its link faults.
zabka.historical Kafka's old bugs to bring back, by name: see below.
zabka.journal.dir Where the journal is written.
zabka.journal.level `full` writes every append and acknowledgement too.
zabka.node.name What the journal calls this broker; `broker-N` where it is not set.
zookeeper.connect The peers, `host:port,…`, with an optional chroot, which the broker makes where it is missing.
zookeeper.connection.timeout.ms How long a broker waits for its first connection at start; unset, the session timeout.
zookeeper.max.in.flight.requests How many requests to the ensemble may be under way.
zookeeper.session.timeout.ms The timeout of the broker's session, within the ensemble's limits.
""")

HELD_ONLY = (
    "compression.gzip.level", "compression.lz4.level", "compression.type", "compression.zstd.level",
    "file.delete.delay.ms", "flush.messages", "flush.ms", "index.interval.bytes", "inter.broker.protocol.version",
    "local.retention.bytes", "local.retention.ms", "log.flush.interval.messages", "log.flush.interval.ms",
    "log.index.size.max.bytes", "log.local.retention.bytes", "log.local.retention.ms",
    "log.message.downconversion.enable", "log.message.format.version", "log.message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms", "log.message.timestamp.difference.max.ms", "log.preallocate",
    "log.roll.jitter.hours", "log.roll.jitter.ms", "log.segment.delete.delay.ms", "message.downconversion.enable",
    "message.format.version", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms",
    "message.timestamp.difference.max.ms", "num.replica.fetchers", "preallocate", "remote.log.copy.disable",
    "remote.log.delete.on.disable", "remote.storage.enable", "segment.index.bytes", "segment.jitter.ms",
)  # fmt: skip
"""Keys of topics, and of brokers, that are parsed and described, and that nothing here reads."""
