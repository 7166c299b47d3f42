"""The value that ZooKeeper 3.9.5 uses for each string of each zoo.cfg key, and where our value differs on purpose.

`java_outcomes.json` has one key per line. It maps each string to the value that ZooKeeper uses, or to null if ZooKeeper
refuses to start or exits immediately. `tests/interop/test_zoo_cfg_values.py` compares that file with ZooKeeper's jars.
"""

from __future__ import annotations

import json
from pathlib import Path

JAVA: dict[str, dict[str, str | None]] = json.loads(Path(__file__).with_name("java_outcomes.json").read_text())
_NO_FOLLOWER = "Java starts, and no server can follow another one: a socket takes no timeout below 0"
_NO_CLIENT = "Java starts and serves no client"
_TOO_LONG = "a larger record of the log could not be sent to other servers, which read 64 MiB"
DIFFERENT: dict[tuple[str, str], tuple[str | None, str]] = {
    ("tickTime", "-2147483648"): (None, "twice the tick is 0 in an int of Java's, so that Java takes it"),
    **{(key, text): (None, _NO_FOLLOWER) for key in ("initLimit", "syncLimit") for text in ("-1", "-2147483648")},
    ("observerMasterPort", "65536"): (None, "Java starts, and fails whenever it follows a leader: that is no port"),
    ("snapSizeLimitInKb", "0"): ("0", "Java's guide says that 0 turns it off; its servers divide by it and end"),
    ("nio.sessionlessCnxnTimeout", "-1"): (None, _NO_CLIENT),
    **{("jute.maxbuffer", text): (None, _NO_CLIENT) for text in ("-1", "0")},
    **{("jute.maxbuffer", text): (None, _TOO_LONG) for text in ("2147483647", "50331649")},
    **{(key, "-1"): (None, _NO_CLIENT)
       for key in ("connection_throttle_tokens", "connectionMaxTokens", "connection_throttle_fill_time",
                   "connectionTokenFillTime", "connection_throttle_fill_count", "connectionTokenFillCount")},
    **{(key, "0"): (None, _NO_CLIENT) for key in ("connection_throttle_fill_time", "connectionTokenFillTime")},
}  # fmt: skip
"""Values for which our server and ZooKeeper differ, keyed by (key, string in zoo.cfg).

Each entry has our value (None if our server rejects the string) and the reason for the difference.
"""
WITHOUT_LIMITS = frozenset(
    {
        # ZooKeeper accepts any value of these keys.
        "4lw.commands.whitelist", "DigestAuthenticationProvider.superDigest",
        "SASLAuthenticationProvider.superPassword", "X509AuthenticationProvider.superUser", "clientPortAddress",
        "dataDir", "dataLogDir", "enforce.auth.schemes", "ensembleAuthName", "java.security.auth.login.config",
        "letAnySaslUserDoX", "oraclePath", "quorum.auth.kerberos.servicePrincipal",
        "quorum.auth.learner.saslLoginContext", "quorum.auth.server.saslLoginContext", "sasl.serverconfig",
        "secureClientPortAddress",
        # The admin server and QuorumCnxManager read these keys, not the configuration classes: see test_zoo_cfg.
        "admin.commandURL", "admin.enableServer", "admin.forceHttps", "admin.needClientAuth", "admin.portUnification",
        "admin.rateLimiterIntervalInMS", "admin.restore.enabled", "admin.serverAddress", "admin.serverPort",
        "admin.snapshot.enabled", "cnxTimeout", "metricsProvider.httpHost",
        # ZooKeeper reads these keys only if TLS is enabled. tests/interop/test_tls_stores.py tests some of them with
        # stores.
        "ssl.authProvider", "ssl.ciphersuites", "ssl.enabledProtocols",
        *(f"ssl.{store}.{key}" for store in ("keyStore", "trustStore", "quorum.keyStore", "quorum.trustStore")
          for key in ("location", "password", "passwordPath", "type")),
        *(f"ssl.quorum.{key}" for key in ("ciphersuites", "clientAuth", "clientHostnameVerification", "crl",
                                          "enabledProtocols", "handshakeDetectionTimeoutMillis",
                                          "hostnameVerification", "ocsp")),
    }
)  # fmt: skip
"""Keys whose values are not compared with ZooKeeper's."""
