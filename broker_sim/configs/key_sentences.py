"""One sentence about the effect of each topic and broker key on zabka's brokers, for DescribeConfigs.

The tables of keys contain types, limits and defaults. Keys without effect are in
`zabka.broker_sim.configs.keys_without_effect`, rejected values in `zabka.broker_sim.configs.unsupported_values`.
"""

from __future__ import annotations


def sentences(text: str) -> dict[str, str]:
    """Parse lines that contain a key, a blank and its sentence.

    A line that begins with blanks continues the previous line.
    """
    found: dict[str, str] = {}
    key = ""
    for line in text.strip("\n").splitlines():
        if line.startswith(" "):
            found[key] += " " + line.strip()
        else:
            key, _, sentence = line.partition(" ")
            found[key] = sentence
    return found


TOPIC = sentences("""
cleanup.policy `delete` drops old segments, `compact` keeps the last record of each key, or both.
compression.gzip.level How hard gzip tries, where the leader compresses.
compression.lz4.level How hard LZ4 tries, where the leader compresses.
compression.type How the log is compressed: by one codec, not at all, or (`producer`) as the records arrive.
compression.zstd.level How hard Zstandard tries, where the leader compresses.
delete.retention.ms How long the last record of a deleted key can still be read, in a compacted log.
follower.replication.throttled.replicas Which replicas are throttled as followers: `partition:broker,…`, or `*`.
leader.replication.throttled.replicas Which replicas are throttled as leaders: `partition:broker,…`, or `*`.
max.compaction.lag.ms Older records are compacted whatever the ratio is.
max.message.bytes The largest batch that a leader takes.
message.downconversion.enable Whether consumers from before 0.11 get records in the format that they know.
message.timestamp.after.max.ms By how much a record's time may lie ahead of the leader's clock.
message.timestamp.before.max.ms By how much a record's time may lie behind the leader's clock.
message.timestamp.difference.max.ms The older key for both; it holds where neither of the newer ones is set.
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

BROKER = sentences("""
advertised.listeners What clients and other brokers are told to connect to.
alter.log.dirs.replication.quota.window.num Samples that the throttle between log directories is averaged over.
alter.log.dirs.replication.quota.window.size.seconds How long such a sample is.
allow.everyone.if.no.acl.found Allows an operation on a resource without ACLs to every client.
authorizer.class.name `kafka.security.authorizer.AclAuthorizer` checks each request against the ACLs in ZooKeeper.
auto.create.topics.enable Makes a topic that a client asks for by name.
auto.leader.rebalance.enable The controller gives leadership back to preferred replicas from time to time.
broker.id The broker's id; -1 has one generated.
broker.id.generation.enable Allows generated ids, above `reserved.broker.max.id`.
broker.rack The broker's rack: for the spread of replicas, and for reading from the nearest one.
compression.gzip.level Default of a topic's `compression.gzip.level`.
compression.lz4.level Default of a topic's `compression.lz4.level`.
compression.type Default of a topic's `compression.type`.
compression.zstd.level Default of a topic's `compression.zstd.level`.
connection.failed.authentication.delay.ms How long a broker waits with its response to a failed authentication.
connections.max.idle.ms After how long a silent connection is closed.
connections.max.reauth.ms After how long a SASL client must authenticate again; 0 is never.
control.plane.listener.name The listener for connections from and to the controller, instead of the inter-broker
  listener.
controlled.shutdown.enable A broker that stops hands its leaderships over first.
controlled.shutdown.max.retries How often it tries.
controlled.shutdown.retry.backoff.ms How long it waits between two tries.
controller.quota.window.num Samples of the quota on topic changes.
controller.quota.window.size.seconds How long such a sample is.
controller.socket.timeout.ms How long a controller waits for a broker's answer, and a broker for the controller's.
default.replication.factor Replicas of a topic that does not say how many.
delete.topic.enable Allows topics to be deleted.
fetch.max.bytes The most that one fetch is answered with.
follower.replication.throttled.rate Bytes a second that throttled replicas fetch. It stands in ZooKeeper alone.
group.initial.rebalance.delay.ms How long an empty group waits for more members before its first rebalance.
group.max.session.timeout.ms The longest session timeout a member may ask for.
group.max.size How many members a group may have.
group.min.session.timeout.ms The shortest session timeout a member may ask for.
inter.broker.listener.name The listener for connections between brokers, instead of the one that is named like
  `security.inter.broker.protocol`.
leader.imbalance.check.interval.seconds How often the controller looks for partitions off their preferred leader.
leader.imbalance.per.broker.percentage From which share of a broker's partitions on it acts.
leader.replication.throttled.rate Bytes a second that leaders send to throttled replicas. It stands in ZooKeeper alone.
listener.security.protocol.map The protocol of each listener: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
listeners Where the broker listens.
log.cleaner.backoff.ms How often compaction looks for work.
log.cleaner.dedupe.buffer.size How much memory compaction may use for the keys it has seen: 24 bytes for each.
log.cleaner.delete.retention.ms Default of a topic's `delete.retention.ms`.
log.cleaner.enable Whether anything is compacted.
log.cleaner.io.buffer.load.factor How full that memory may become before compaction stops, to go on the next time.
log.cleaner.max.compaction.lag.ms Default of a topic's `max.compaction.lag.ms`.
log.cleaner.min.cleanable.ratio Default of a topic's `min.cleanable.dirty.ratio`.
log.cleaner.min.compaction.lag.ms Default of a topic's `min.compaction.lag.ms`.
log.cleaner.threads By how many that memory is divided; one thread compacts, with its share.
log.cleanup.policy Default of a topic's `cleanup.policy`.
log.dir The log directory, where `log.dirs` names none.
log.dirs The log directories.
log.flush.start.offset.checkpoint.interval.ms How often log start offsets are written down.
log.index.interval.bytes Bytes of log between two entries of a segment's index, which is kept in memory.
log.message.downconversion.enable Default of a topic's `message.downconversion.enable`.
log.message.timestamp.after.max.ms Default of a topic's `message.timestamp.after.max.ms`.
log.message.timestamp.before.max.ms Default of a topic's `message.timestamp.before.max.ms`.
log.message.timestamp.difference.max.ms Default of a topic's `message.timestamp.difference.max.ms`.
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
node.id The other name of `broker.id`; the two must not differ.
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
password.encoder.cipher.algorithm How passwords in ZooKeeper are encrypted: `AES/CBC/PKCS5Padding` or
  `AES/GCM/NoPadding`.
password.encoder.iterations How many rounds the key of that encryption is derived with.
password.encoder.key.length How many bits that key has: 128, 192 or 256.
password.encoder.keyfactory.algorithm How that key is derived: `PBKDF2WithHmacSHA512` and the like.
password.encoder.secret The secret that passwords in ZooKeeper are encrypted with. Without it they cannot be set there.
producer.id.expiration.check.interval.ms How often producers are looked at that have gone.
producer.id.expiration.ms After how long an idempotent producer is forgotten.
quota.window.num Samples that clients' quotas are averaged over.
quota.window.size.seconds How long such a sample is.
replica.alter.log.dirs.io.max.bytes.per.second How fast replicas move between log directories. It stands in ZooKeeper
  alone.
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
sasl.enabled.mechanisms The SASL mechanisms of clients: `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER`.
sasl.jaas.config The users of PLAIN, the options of OAUTHBEARER, and the broker's own user for connections to other
  brokers, as `listener.name.LISTENER.MECHANISM.sasl.jaas.config`.
sasl.login.callback.handler.class As `listener.name.LISTENER.oauthbearer.KEY`: brokers connect with an issuer's
  tokens, or (the default, for tests only) unsigned ones.
sasl.login.connect.timeout.ms How long a broker waits for a connection to the issuer of its token; 0 for ever.
sasl.login.read.timeout.ms How long a broker waits for data from the issuer of its token; 0 for ever.
sasl.login.refresh.buffer.seconds How long before its expiry a broker's token is replaced at the latest.
sasl.login.refresh.min.period.seconds How long a broker's token is kept at least.
sasl.login.refresh.window.factor The share of its lifetime after which a broker's token is replaced.
sasl.login.refresh.window.jitter The maximum that is added to that share at random.
sasl.login.retry.backoff.max.ms The time in which a failed request for a broker's token is tried again.
sasl.login.retry.backoff.ms The first pause before such a request is tried again; it then doubles.
sasl.mechanism.inter.broker.protocol The SASL mechanism of connections between brokers.
sasl.oauthbearer.clock.skew.seconds By how much the clocks of the issuer of tokens and of the broker can differ.
sasl.oauthbearer.expected.audience The audiences of which a signed token must have one. Unset: tokens have none.
sasl.oauthbearer.expected.issuer The issuer that a signed token must have. Unset: any issuer whose key is known.
sasl.oauthbearer.jwks.endpoint.refresh.ms The interval at which the issuer's public keys are fetched again.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms The time in which a failed fetch is tried again.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms The first pause before a failed fetch is tried again; it then doubles.
sasl.oauthbearer.jwks.endpoint.url The URL of the issuer's public keys, a JSON Web Key Set: http, https or file.
sasl.oauthbearer.scope.claim.name The claim with the scope of a signed token.
sasl.oauthbearer.sub.claim.name The claim with the name of a signed token's principal.
sasl.oauthbearer.token.endpoint.url The URL of the issuer of a broker's own token (http, https), or a file with it.
sasl.server.callback.handler.class As `listener.name.LISTENER.oauthbearer.KEY`: signed tokens, or (the default, for
  tests only) unsigned ones.
sasl.server.max.receive.size The largest request or token before a SASL client is authenticated.
security.inter.broker.protocol The security protocol of connections between brokers, and the name of their listener.
socket.request.max.bytes The largest request that is read.
ssl.allow.dn.changes Whether a certificate that is loaded while the broker runs can have another subject.
ssl.allow.san.changes Whether a certificate that is loaded while the broker runs can lack an alternative name.
ssl.cipher.suites The cipher suites of listeners with TLS, under Java's names; empty for OpenSSL's default.
ssl.client.auth Whether clients of listeners with TLS must present a certificate: `required`, `requested`, `none`.
ssl.enabled.protocols The versions of TLS that clients can use: `TLSv1.2`, `TLSv1.3`.
ssl.endpoint.identification.algorithm `https` compares the host in another broker's address with its certificate;
  an empty value disables the check.
ssl.key.password The password of the private key in a PEM store.
ssl.keystore.certificate.chain The broker's certificate chain in PEM, with `ssl.keystore.key`, instead of a file.
ssl.keystore.key The broker's private key in PEM, instead of a file.
ssl.keystore.location The file with the broker's private key and certificate chain.
ssl.keystore.password The password of a PKCS12 key store.
ssl.keystore.type `PEM` or `PKCS12`, if the file's name does not show it. JKS is refused.
ssl.principal.mapping.rules Rules that map the subject of a client certificate to a user: `DEFAULT`, `RULE:…/…/`.
ssl.truststore.certificates The certificates of trusted authorities in PEM, instead of a file.
ssl.truststore.location The file with the certificates of the authorities whose client certificates are trusted.
ssl.truststore.password The password of a PKCS12 trust store.
ssl.truststore.type `PEM` or `PKCS12`, if the file's name does not show it. JKS is refused.
super.users Principals that are allowed everything, separated by semicolons: `User:admin;User:CN=broker,O=x`.
transaction.abort.timed.out.transaction.cleanup.interval.ms How often transactions that took too long are aborted.
transaction.max.timeout.ms The longest timeout that a producer may request for its transactions.
transaction.partition.verification.enable Whether a leader verifies a transaction before it appends its first record.
transaction.remove.expired.transaction.cleanup.interval.ms How often unused transactional ids are removed.
transaction.state.log.load.buffer.size Bytes that are read at a time while transactional ids load.
transaction.state.log.min.isr The `min.insync.replicas` of a new `__transaction_state`.
transaction.state.log.num.partitions Partitions of `__transaction_state`.
transaction.state.log.replication.factor Replicas of `__transaction_state`.
transaction.state.log.segment.bytes Segment size of `__transaction_state`.
transactional.id.expiration.ms After how long without use a transactional id is forgotten.
unclean.leader.election.enable Default of a topic's `unclean.leader.election.enable`.
zabka.control.socket Where the host agent asks for the broker's status and sets its link faults.
zabka.historical Kafka's old bugs to bring back, by name: see below.
zabka.journal.dir Where the journal is written.
zabka.journal.level `full` writes every append and acknowledgement too.
zabka.messages Which messages are written beside the journal: those of control, all, or none (`off`).
zabka.node.name What the journal calls this broker; `broker-N` where it is not set.
zookeeper.connect The peers, `host:port,…`, with an optional chroot, which the broker makes where it is missing.
zookeeper.connection.timeout.ms How long a broker waits for its first connection at start; unset, the session timeout.
zookeeper.max.in.flight.requests How many requests to the ensemble may be under way.
zookeeper.session.timeout.ms The timeout of the broker's session, within the ensemble's limits.
zookeeper.ssl.cipher.suites The cipher suites towards the ensemble; empty for OpenSSL's default.
zookeeper.ssl.client.enable Whether the session with the ensemble uses TLS.
zookeeper.ssl.enabled.protocols The versions of TLS towards the ensemble; empty for `zookeeper.ssl.protocol`.
zookeeper.ssl.endpoint.identification.algorithm `HTTPS` checks the peer's name in its certificate; empty does not.
zookeeper.ssl.keystore.location The file with the key and certificate for the ensemble: PEM or PKCS12.
zookeeper.ssl.keystore.password The password of that file.
zookeeper.ssl.keystore.type `PEM` or `PKCS12`, if the file's name does not show it.
zookeeper.ssl.protocol The version of TLS towards the ensemble, unless `zookeeper.ssl.enabled.protocols` is set.
zookeeper.ssl.truststore.location The file with the authorities that are trusted; unset, the system's.
zookeeper.ssl.truststore.password The password of that file.
zookeeper.ssl.truststore.type `PEM` or `PKCS12`, if the file's name does not show it.
""")
