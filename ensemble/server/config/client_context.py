"""The TLS context of a client of servers that present certificates: brokers' and peers' clients.

Sources: org.apache.zookeeper.common.ClientX509Util, org.apache.kafka.common.security.ssl.DefaultSslEngineFactory.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from zabka.ensemble.server.config.tls import TLS13_SUITES, VERSIONS, offered_versions, openssl_name
from zabka.ensemble.server.config.tls_stores import BadStore, Store, load_key, load_trust


def client_context(
    trusted: Store | None,
    own: Store | None = None,
    *,
    checks_names: bool = True,
    versions: Sequence[str] = tuple(VERSIONS),
    ciphers: Sequence[str] = (),
) -> ssl.SSLContext:
    """Return a context that verifies servers' certificates against a trust store, or else the system's authorities.

    `own` contains the client's key and certificate. With `checks_names`, the name or address of a server must be in its
    certificate. Versions and cipher suites have Java's names. Raises BadStore if a store, a version or a suite cannot
    be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = checks_names
    context.verify_mode = ssl.CERT_REQUIRED
    # As in Java, every certificate in the trust store is trusted, even if it is not a root certificate.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    unknown = [name for name in versions if name not in VERSIONS]
    if unknown:
        raise BadStore(f"the protocol {unknown[0]} is not supported: choose {' or '.join(VERSIONS)}")
    offered = [VERSIONS[name] for name in offered_versions(versions, ciphers)]
    if not offered:
        raise BadStore(f"no cipher suite is for {', '.join(versions)}")
    context.minimum_version, context.maximum_version = min(offered), max(offered)
    if older := [openssl_name(name) for name in ciphers if name not in TLS13_SUITES]:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError:
            raise BadStore(f"no cipher suite of {', '.join(ciphers)} is known here") from None
    if trusted is None:
        context.load_default_certs()
    else:
        load_trust(context, trusted)
    if own is not None:
        load_key(context, own)
    return context
