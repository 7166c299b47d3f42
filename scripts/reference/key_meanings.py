"""The effect of each key of zoo.cfg, in one sentence.

The tables of keys in the code hold types, limits and defaults; the sentences are here.  A key without a sentence stops
the generator, so that a new key is described when it is added.
"""

from __future__ import annotations

from zabka.broker_sim.configs.key_sentences import sentences

ZOOKEEPER = sentences("""
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
clientPort The port for clients; 0 picks a free one.
clientPortAddress The address of the port for clients.
commitLogCount How many committed transactions a leader keeps in memory for its learners; at least 500.
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
initLimit Ticks that a follower may take to connect to a leader, or wait for more of its synchronisation.
java.security.auth.login.config The JAAS file with the users of SASL DIGEST-MD5.
jute.maxbuffer The largest request and the largest znode, in bytes.
jute.maxbuffer.extrasize By how many bytes what is stored may exceed `jute.maxbuffer` before a warning at start; as many
  again unless set.
largeRequestMaxBytes How many bytes all large requests together may take.
largeRequestThreshold From how many bytes on a request counts as large; -1 for never.
leaderServes `no`: the leader closes the connections of clients, and only the other servers serve them.
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
nio.sessionlessCnxnTimeout How long a connection may take to ask for a session, in milliseconds.
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
secureClientPort The port for clients that speaks TLS only; 0 picks a free one.
secureClientPortAddress The address of that port.
sessionRequireClientSASLAuth The same as `enforce.auth.enabled` with the scheme `sasl`.
skipACL `yes` skips every check of permissions.
snapCount After how many transactions a snapshot is due, drawn from half to all; unset, not before the log is as large.
snapSizeLimitInKb After how many KiB of log a snapshot is due, about; 0 turns this off.
snapshot.compression.method How snapshots are compressed.
snapshot.trust.empty Starts on logs without any snapshot, if they begin with the first transaction.
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
zabka.commitLogCount The same as `commitLogCount`, but it can be less than 500; for tests.
zabka.control.socket Where the host agent asks for the peer's status and sets its link faults.
zabka.fsync.inlinethresholdus While the median sync takes less than this many microseconds, small groups are synced
  in the
  event loop; 0 leaves every sync to the storage thread.
zabka.journal.dir Where the journal is written.
zabka.journal.level `full` writes every commit and acknowledgement too.
zabka.messages Which messages are written beside the journal: those of control, all, or none (`off`).
zabka.snapshotSizeFactor The same as `snapshotSizeFactor`, but it can be above 1; for tests.
zabka.ssl.crl.location A PEM file with each authority's list of revoked certificates, for `ssl.crl`.
zabka.ssl.quorum.crl.location The same for `ssl.quorum.crl`.
zabka.ssl.quorum.trustExpired The same between servers.
zabka.ssl.trustExpired Trusts what is in the trust store, and what it signed, also when it has itself expired, as Java
  does.
znode.container.checkIntervalMs How often the leader looks for containers and times to live that have lapsed.
znode.container.maxNeverUsedIntervalMs After how long a container that never had a child goes; 0 for never.
znode.container.maxPerMinute How many such znodes are deleted a minute.
""")
