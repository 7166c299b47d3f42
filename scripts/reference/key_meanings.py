"""The effect of each key of zoo.cfg, in one sentence.

The code's tables of keys contain types, limits and defaults; this module contains the descriptions.  The generator
fails for a key without a description, so that new keys are described when they are added.
"""

from __future__ import annotations

from zabka.broker_sim.configs.key_sentences import sentences

ZOOKEEPER = sentences("""
4lw.commands.whitelist Four-letter words that are answered besides `srvr`, separated by commas; `*` for all.
DigestAuthenticationProvider.digestAlg The hash of the `digest` scheme.
DigestAuthenticationProvider.enabled Whether clients may authenticate by `digest`.
DigestAuthenticationProvider.superDigest The super user's `super:` digest; without it there is no super user by digest.
SASLAuthenticationProvider.superPassword The password of the SASL user `super`, over the one in the JAAS file.
X509AuthenticationProvider.superUser The certificate subject of the super user.
admin.commandURL The path of the admin commands.
admin.enableServer Starts the HTTP admin server. ZooKeeper starts it by default; zabka only if it is requested.
admin.forceHttps The admin server's port speaks TLS only.
admin.needClientAuth The admin server requires a certificate from its clients.
admin.portUnification The admin server's port speaks TLS and plain HTTP.
admin.rateLimiterIntervalInMS The least time between two snapshots, or two restores, requested over HTTP.
admin.restore.enabled Allows a restore from a snapshot sent over HTTP.
admin.serverAddress The address on which the admin server listens.
admin.serverPort The admin server's port; 0 picks a free one.
admin.snapshot.enabled Allows clients with every permission on `/` to take snapshots over HTTP.
allowSaslFailedClients Keeps the connection of a client whose SASL authentication failed.
autopurge.purgeInterval Above 0, old snapshots and logs are removed after each new snapshot.
autopurge.snapRetainCount The number of snapshots that purging keeps.
client.certReload Reads the client port's certificates again when their files change.
client.portUnification The plain client port also speaks TLS.
clientPort The port for clients; 0 picks a free one.
clientPortAddress The address of the port for clients.
commitLogCount How many committed transactions a leader keeps in memory for its learners; at least 500.
connectionDecreaseRatio Share of tokens that must be free before the chance of dropping new connections shrinks.
connectionDropDecrease The step by which that chance shrinks.
connectionDropIncrease The step by which that chance grows while tokens are short.
connectionFreezeTime Milliseconds between two changes of that chance; -1 turns off dropping.
connectionMaxTokens How many new connections are accepted per refill; 0 turns off the throttle.
connectionTokenFillCount How many tokens a refill adds.
connectionTokenFillTime Milliseconds between two refills.
connection_throttle_decrease_ratio The system property's name of `connectionDecreaseRatio`; it has precedence.
connection_throttle_drop_decrease The system property's name of `connectionDropDecrease`; it has precedence.
connection_throttle_drop_increase The system property's name of `connectionDropIncrease`; it has precedence.
connection_throttle_fill_count The system property's name of `connectionTokenFillCount`; it has precedence.
connection_throttle_fill_time The system property's name of `connectionTokenFillTime`; it has precedence.
connection_throttle_freeze_time The system property's name of `connectionFreezeTime`; it has precedence.
connection_throttle_global_session_weight Tokens that a new global session takes, if sessions have weights.
connection_throttle_local_session_weight Tokens that a new local session takes, if sessions have weights.
connection_throttle_renew_session_weight Tokens that a renewed session takes, if sessions have weights.
connection_throttle_tokens The system property's name of `connectionMaxTokens`; it has precedence.
connection_throttle_weight_enabled Lets kinds of sessions take different numbers of tokens.
dataDir The directory of snapshots, `myid` and, without `dataLogDir`, the log.
dataLogDir The directory of the transaction log.
enforce.auth.enabled Clients must authenticate by one of `enforce.auth.schemes` before any other request.
enforce.auth.schemes The schemes of `enforce.auth.enabled`.
enforceQuota Refuses a write that would exceed a hard quota.
ensembleAuthName Names of this ensemble; a client that gives another one by the `ensemble` scheme is refused.
extendedTypesEnabled Allows znodes with a time to live; server ids then end at 254.
fsync.warningthresholdms A sync of the log that takes more milliseconds is reported as slow.
globalOutstandingLimit How many requests can be in progress before the server stops reading from clients.
initLimit Ticks that a follower may take to connect to a leader, or to receive more of its synchronisation.
java.security.auth.login.config The JAAS file with the users of SASL DIGEST-MD5.
jute.maxbuffer The largest request and the largest znode, in bytes.
jute.maxbuffer.extrasize How many bytes a stored znode may exceed `jute.maxbuffer` without a warning at start; by
  default as many again.
largeRequestMaxBytes How many bytes all large requests together may take.
largeRequestThreshold The number of bytes from which a request counts as large; -1 for never.
leaderServes `no`: the leader closes the connections of clients, and only the other servers serve them.
letAnySaslUserDoX ACL entries `sasl:` with this name apply to every SASL user.
localSessionsEnabled New sessions stay local to their server, unknown to the others.
localSessionsUpgradingEnabled A local session becomes global when it creates an ephemeral znode.
maxClientCnxns How many connections one address can have; 0 for any number.
maxCnxns How many connections the server can have; 0 for any number.
maxSessionTimeout The longest session timeout that is granted, in milliseconds; -1 for 20 ticks.
metricsProvider.className `org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider` opens a port for
  Prometheus.
metricsProvider.exportJvmInfo Adds the process's own metrics.
metricsProvider.httpHost The address of Prometheus's port.
metricsProvider.httpPort Prometheus's port; 0 picks a free one.
minSessionTimeout The shortest session timeout that is granted, in milliseconds; -1 for 2 ticks.
multiAddress.enabled A server's line can name several addresses.
multiAddress.reachabilityCheckEnabled Checks which of these addresses answers before connecting.
multiAddress.reachabilityCheckTimeoutMs How long that check may take.
netty.server.outstandingHandshake.limit How many TLS handshakes can be in progress.
nio.sessionlessCnxnTimeout How long a connection may take to request a session, in milliseconds.
observerMasterPort The port on which followers accept observers that learn from them.
oraclePath A file that lets one of two servers go on without the other while its first character is 1.
portUnification The servers' ports speak TLS and plain text, for a rolling change to TLS.
preAllocSize How much of the log file is written ahead with zeros at a time, in KiB.
quorum.auth.enableSasl Servers authenticate to each other by SASL.
quorum.auth.kerberos.servicePrincipal Refused: GSSAPI is not supported.
quorum.auth.learner.saslLoginContext The JAAS section with this server's own credentials.
quorum.auth.learnerRequireSasl This server does not connect to a server without SASL authentication.
quorum.auth.server.saslLoginContext The JAAS section with the users that this server accepts.
quorum.auth.serverRequireSasl A server that does not authenticate is refused.
quorumListenOnAllIPs Quorum and election ports listen on every address instead of the server line's.
readonlymode.enabled Without a quorum a peer serves reads to clients that request it.
reconfigEnabled Allows changes of the membership while the ensemble runs.
requestThrottleLimit How many requests can be in progress before others wait; 0 for any number.
request_throttle_max_requests The system property's name of `requestThrottleLimit`; it has precedence.
sasl.serverconfig The JAAS section with the clients' users.
secureClientPort The port for clients that speaks TLS only; 0 picks a free one.
secureClientPortAddress The address of that port.
sessionRequireClientSASLAuth The same as `enforce.auth.enabled` with the scheme `sasl`.
skipACL `yes` skips every check of permissions.
snapCount The number of transactions after which a snapshot is due, drawn from half to all; unset, the log's size
  decides.
snapSizeLimitInKb The approximate size of the log in KiB after which a snapshot is due; 0 turns this off.
snapshot.compression.method How snapshots are compressed.
snapshot.trust.empty Starts on logs without any snapshot, if they begin with the first transaction.
snapshotSizeFactor A learner gets a DIFF from the log on disk while that is smaller than this share of a snapshot.
ssl.authProvider The provider that reads client certificates; only `x509` is known.
ssl.ciphersuites The cipher suites; empty for OpenSSL's default.
ssl.clientAuth Whether clients must present a certificate.
ssl.clientHostnameVerification Checks a client's certificate against its address.
ssl.crl Checks lists of revoked certificates.
ssl.enabledProtocols The versions of TLS.
ssl.handshakeDetectionTimeoutMillis How long a client may take for its handshake.
ssl.hostnameVerification Checks the names in certificates at all.
ssl.keyStore.location The key and certificate: PEM or PKCS12.
ssl.keyStore.password The password of that file.
ssl.keyStore.passwordPath A file that holds the password.
ssl.keyStore.type `PEM` or `PKCS12`, if the file's name does not show it.
ssl.ocsp Refused: no responder is asked here.
ssl.quorum.ciphersuites Between servers: the cipher suites.
ssl.quorum.clientAuth Between servers: whether the connecting server must present a certificate.
ssl.quorum.clientHostnameVerification Between servers: checks the connecting server's name.
ssl.quorum.crl Between servers: checks lists of revoked certificates.
ssl.quorum.enabledProtocols Between servers: the versions of TLS.
ssl.quorum.handshakeDetectionTimeoutMillis Between servers: how long a handshake may take.
ssl.quorum.hostnameVerification Between servers: checks the names in certificates at all.
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
sslQuorum Servers use TLS with each other, both sides with certificates.
sslQuorumReloadCertFiles Reads the servers' certificates again when their files change.
standaloneEnabled Whether the only server of an ensemble of one runs without the quorum protocol.
syncLimit Ticks without a message after which leader and follower drop their connection.
throttledOpWaitTime Milliseconds in the queue after which a request is answered with `ThrottledOp`; 0 for never.
throttled_op_wait_time The system property's name of `throttledOpWaitTime`; it has precedence.
tickTime The unit of the other limits, in milliseconds, and the pace of heartbeats.
zabka.commitLogCount The same as `commitLogCount`, but it can be less than 500; for tests.
zabka.control.socket The socket by which the host agent asks for the peer's status and sets its link faults.
zabka.fsync.inlinethresholdus While the median sync takes less than this many microseconds, small groups are synced
  in the event loop; 0 leaves every sync to the storage thread.
zabka.journal.dir The directory of the journal.
zabka.journal.level `full` writes every commit and acknowledgement too.
zabka.messages Which messages are logged next to the journal: those of control, all, or none (`off`).
zabka.snapshotSizeFactor The same as `snapshotSizeFactor`, but it can be above 1; for tests.
zabka.ssl.crl.location A PEM file with each authority's list of revoked certificates, for `ssl.crl`.
zabka.ssl.quorum.crl.location The same for `ssl.quorum.crl`.
zabka.ssl.quorum.trustExpired The same between servers.
zabka.ssl.trustExpired Trusts an expired certificate in the trust store, and the certificates that it signed, as Java
  does.
znode.container.checkIntervalMs How often the leader looks for empty containers and znodes with an expired time to live.
znode.container.maxNeverUsedIntervalMs The time after which a container that never had a child is deleted; 0 for never.
znode.container.maxPerMinute How many such znodes are deleted a minute.
""")
