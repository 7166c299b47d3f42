"""Failed authentications of clients, by SASL or by their TLS handshakes: what failed, and events at a limited rate.

An event has only names from short lists and the client's address. The log has the whole reason, which can contain a
name that the client chose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from zabka.broker_sim.event_limit import EventLimit
from zabka.ensemble.ports import Runtime
from zabka.journal.events import AuthenticationFailed
from zabka.kafka.ports import Emit

TLS = "TLS"
"""The mechanism of a failed TLS handshake."""

Cause = Literal[
    "wrong_credentials",
    "invalid_message",
    "unexpected_request",
    "unsupported_mechanism",
    "other_identity",
    "no_tls",
    "handshake_timeout",
    "handshake_failed",
    "no_common_parameters",
    "no_certificate",
    "expired_certificate",
    "early_certificate",
    "untrusted_certificate",
    "unmapped_certificate",
    "rejected_by_client",
]
"""What failed. The first five are failures of SASL, the others of a TLS handshake."""

_IPV4_IN_IPV6 = "::ffff:"
_TLS_CAUSES: Mapping[str, Cause] = {
    "no TLS handshake within": "handshake_timeout",
    "SSL handshake is taking longer": "handshake_timeout",
    "no TLS handshake": "no_tls",
    "HTTP_REQUEST": "no_tls",
    "certificate has expired": "expired_certificate",
    "certificate is not yet valid": "early_certificate",
    "CERTIFICATE_VERIFY_FAILED": "untrusted_certificate",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no_certificate",
    "NO_SHARED_CIPHER": "no_common_parameters",
    "UNSUPPORTED_PROTOCOL": "no_common_parameters",
    "NO_SUITABLE": "no_common_parameters",
    "_ALERT_": "rejected_by_client",
    "[SSL": "handshake_failed",
}
"""Parts of a failed handshake's reason, and the cause that each shows. The first that occurs decides."""


class FailedAuthentication(NamedTuple):
    """A client's failed authentication. `mechanism` is empty if the client has not chosen one."""

    listener: str
    mechanism: str
    remote: str
    cause: Cause
    reason: str

    @property
    def host(self) -> str:
        """The client's address without its port, in the form in which it is compared with limits per address."""
        return self.remote.rpartition(":")[0].removeprefix(_IPV4_IN_IPV6)

    def __str__(self) -> str:
        what = "TLS handshake" if self.mechanism == TLS else "SASL authentication"
        return f"{what} failed on the listener {self.listener}: {self.reason}"


def handshake_cause(reason: str) -> Cause | None:
    """Return what failed in a TLS handshake. None if the client only closed the connection, which is no failure."""
    return next((cause for part, cause in _TLS_CAUSES.items() if part in reason), None)


class FailedAuthentications:
    """Emits an event for a failed authentication, unless an equal one was emitted lately or there are too many events.

    The next event contains the number of failures without an event.
    """

    def __init__(self, runtime: Runtime, emit: Emit, broker_id: int) -> None:
        self._emit = emit
        self._broker_id = broker_id
        self._limit = EventLimit(runtime)

    def note(self, failed: FailedAuthentication) -> None:
        """Record a failed authentication."""
        occurrence = failed.listener, failed.mechanism, failed.host, failed.cause
        suppressed = self._limit.admit(occurrence)
        if suppressed is not None:
            self._emit(AuthenticationFailed(self._broker_id, *occurrence, suppressed=suppressed))
