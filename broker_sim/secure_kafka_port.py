"""A Kafka port whose connections begin with a TLS handshake.

A handshake has a time limit, and a listener and each address have a maximum number of handshakes in progress. A client
that exceeds max.connections.per.ip is rejected before its handshake; the other connection limits apply after it. A
failed handshake is a failed authentication.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.principal_mapping import PrincipalMapper
from zabka.broker_sim.configs.tls_keys import TlsKeys
from zabka.broker_sim.failed_authentications import TLS, FailedAuthentication, handshake_cause
from zabka.broker_sim.kafka_port import KafkaPort
from zabka.broker_sim.principals import ANONYMOUS, KafkaPrincipal, NoPrincipal
from zabka.broker_sim.quotas.connection_quotas import ConnectionQuotas
from zabka.ensemble.auth.names import subject_of
from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.server.config import config_values
from zabka.ensemble.server.config.tls import (
    ClientAuth,
    KeyNames,
    TlsSettings,
    TlsStore,
    certificate_of,
    unchosen_suites,
    unknown_suite,
)
from zabka.ensemble.server.config.tls_stores import Store
from zabka.ensemble.server.net.peer_security import tls_problem
from zabka.ensemble.server.net.sockets import PortError
from zabka.ensemble.server.net.tls_listener import TlsListener

HANDSHAKE_TIMEOUT_MS = 10_000
HANDSHAKES_MAX = 1_000
"""Maximum number of handshakes in progress on one listener."""
HANDSHAKES_PER_ADDRESS_MAX = 250
"""Maximum number of concurrent TLS handshakes per address.

The limit prevents one client from using all handshakes of a listener.
"""
_CLIENT_AUTH: dict[str, ClientAuth] = {"required": "need", "requested": "want", "none": "none"}


class SecureKafkaPort(KafkaPort):
    """Kafka port of a listener with the security protocol SSL or SASL_SSL.

    `mapper` maps the subject of a client certificate to a principal; with SASL, it is None. `unauthenticated` is called
    after a failed handshake. The arguments after it are those of `KafkaPort`.
    """

    def __init__(
        self,
        store: TlsStore,
        mapper: PrincipalMapper | None,
        unauthenticated: Callable[[FailedAuthentication], None],
        *arguments: Any,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._mapper = mapper
        self._unauthenticated = unauthenticated
        self.handshakes = TlsListener(
            store,
            _Doorkeeper(self, self._quotas),
            handshakes_max=HANDSHAKES_MAX,
            detects_plain=True,
            is_of_few=False,
            per_host_max=HANDSHAKES_PER_ADDRESS_MAX,
        )

    async def _open(self, host: str, port: int) -> int:
        try:
            await self.handshakes.listen(host, port, f"the listener {self.listener}")
        except PortError as failed:
            raise OSError(str(failed)) from None
        return self.handshakes.port

    def identify(self, transport: asyncio.BaseTransport) -> KafkaPrincipal:
        """Return the principal of a connection's certificate (DefaultKafkaPrincipalBuilder).

        A client without a certificate is ANONYMOUS. Raises NoPrincipal.
        """
        certificate = None if self._mapper is None else certificate_of(transport)
        if self._mapper is None or certificate is None:
            return ANONYMOUS
        try:
            subject = subject_of(certificate)
        except MalformedRecord as malformed:
            raise NoPrincipal(f"the subject of a client certificate cannot be read: {malformed}") from None
        return KafkaPrincipal("User", self._mapper.name_of(subject))

    def unidentified(self, remote: str, reason: str) -> None:
        """Report a client certificate without a principal."""
        self._unauthenticated(FailedAuthentication(self.listener, TLS, remote, "unmapped_certificate", reason))

    def handshake_failed(self, remote: str, reason: str) -> None:
        """Report a failed handshake, or a client that closed the connection before its end."""
        cause = handshake_cause(reason)
        if cause is None:
            self.broken(remote, f"TLS handshake failed on the listener {self.listener}: {reason}")
        else:
            self._unauthenticated(FailedAuthentication(self.listener, TLS, remote, cause, reason))

    async def close(self) -> None:
        """Stop listening, cancel the handshakes in progress, and close every connection."""
        self.handshakes.close()
        await super().close()


class _Doorkeeper:
    """Decides which connections may begin a handshake, and reports failed handshakes."""

    def __init__(self, port: SecureKafkaPort, quotas: ConnectionQuotas) -> None:
        self._port = port
        self._quotas = quotas

    def admit(self, host: str) -> bool:
        """Return whether another connection from this address is allowed."""
        return self._quotas.has_room_for(host)

    def leave(self, host: str) -> None:
        """Do nothing: a connection is counted only after its handshake."""

    def made(self, host: str) -> asyncio.Protocol:
        """Return a protocol for a connection that begins its handshake."""
        return self._port.connection()

    def made_plain(self, host: str) -> None:
        """Reject a connection without TLS."""

    def on_handshake_failed(self, remote: str, reason: str) -> None:
        """Report a failed handshake."""
        self._port.handshake_failed(remote, reason)

    def on_too_many_handshakes(self) -> None:
        """Report a connection that was closed because of too many handshakes in progress."""
        self._port.broken("several", f"too many TLS handshakes in progress on the listener {self._port.listener}")


def key_store(keys: TlsKeys) -> Store:
    """Return the store with a listener's private key and certificate."""
    own = keys.own
    return Store(Path(own.location), own.kind, own.password, own.content.encode())


def tls_store(keys: TlsKeys, report: Callable[[str], object]) -> TlsStore:
    """Load the stores of one listener.

    `report` is called with problems that do not prevent a start, such as an expired authority. Raises ConfigError.
    """
    unknown = unknown_suite(keys.cipher_suites)
    if unknown is not None:
        raise ConfigError(
            f"listener {keys.listener}: ssl.cipher.suites={unknown} is no cipher suite that OpenSSL offers"
        )
    left_out = unchosen_suites(keys.cipher_suites)
    if left_out is not None:
        raise ConfigError(f"listener {keys.listener}: ssl.cipher.suites: {left_out}")
    own, trusted = keys.own, keys.trusted
    settings = TlsSettings(
        prefix="ssl.",
        key_store=Path(own.location),
        key_type=own.kind,
        key_password=own.password,
        key_pem=own.content.encode(),
        trust_store=None if trusted is None else Path(trusted.location),
        trust_type="PEM" if trusted is None else trusted.kind,
        trust_password="" if trusted is None else trusted.password,
        trust_pem=b"" if trusted is None else trusted.content.encode(),
        client_auth=_CLIENT_AUTH[keys.client_auth],
        versions=keys.protocols,
        ciphers=keys.cipher_suites,
        handshake_timeout_ms=HANDSHAKE_TIMEOUT_MS,
        names=KeyNames(
            "ssl.keystore.key" if own.content else "ssl.keystore.location",
            "ssl.truststore.certificates" if trusted is not None and trusted.content else "ssl.truststore.location",
            "ssl.cipher.suites",
            "",
        ),
    )
    try:
        return TlsStore(settings, lambda problem: report(f"listener {keys.listener}: {problem}"))
    except config_values.ConfigError as wrong:
        raise ConfigError(f"listener {keys.listener}: {wrong}") from None


def check_own_trust(listener: str, store: TlsStore) -> None:
    """Raise ConfigError if this broker would not trust its own certificate on a listener for brokers.

    Other brokers usually have the same trust store, so they would reject this broker (SslFactory's SslEngineValidator).
    Names in the certificate are not checked.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = store.client_context().wrap_bio(to_client, to_server)
    server = store.server_context().wrap_bio(to_server, to_client, server_side=True)
    # With TLS 1.3, the server verifies the client's certificate after the client's handshake is complete, so its
    # handshake is the last one to end.
    waiting = [client, server]
    try:
        while waiting:
            for end in tuple(waiting):
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
                    waiting.remove(end)
    except ssl.SSLError as failed:
        raise ConfigError(
            f"listener {listener}: A client SSLEngine created with the provided settings can't connect to a server "
            f"SSLEngine created with those settings: {tls_problem(failed)}"
        ) from None
