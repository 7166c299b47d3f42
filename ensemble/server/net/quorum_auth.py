"""SASL on connections between servers: `zabka.ensemble.auth.quorum_sasl` with time limits and log lines.

A connection on the quorum port begins with the protocol `SaslDoor`, which the link's own protocol replaces after
authentication. A connection on the election port negotiates after its initial message, in `election_port`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from zabka.ensemble.auth.digest_md5 import SaslError
from zabka.ensemble.auth.quorum_sasl import LearnerSide, QuorumSasl, Refused, ServerSide, Step
from zabka.ensemble.runtime.descriptors import may_stay
from zabka.ensemble.server.net.sockets import remote_name

NEGOTIATING_MAX = 256
"""Maximum number of negotiations in progress on the quorum port; further connections are rejected."""
REPORTED_MAX = 256
Report = Callable[[str, str], None]
"""Callback (remote, reason) for a rejected connection."""
Side = LearnerSide | ServerSide


class QuorumAuth:
    """SASL authentication between this server and others. `new_nonce` must return unpredictable strings."""

    def __init__(self, settings: QuorumSasl, new_nonce: Callable[[], str]) -> None:
        self._settings = settings
        self._new_nonce = new_nonce
        self._reported: set[tuple[str, str]] = set()
        self.negotiating = 0

    def learner_side(self) -> LearnerSide | None:
        """Return the SASL state for a connection that this server opens, or None if it does not authenticate itself."""
        return LearnerSide(self._settings, self._new_nonce()) if self._settings.learner_required else None

    def server_side(self) -> ServerSide:
        """Return the SASL state for a connection that this server accepts."""
        return ServerSide(self._settings, self._new_nonce())

    def report_refusal(self, report: Report, remote: str, purpose: str, refused: SaslError) -> None:
        """Report a failed authentication, once per remote server and reason, because a misconfigured server retries."""
        found = (remote.rpartition(":")[0], f"{purpose}: SASL: {refused}")
        if found not in self._reported and len(self._reported) < REPORTED_MAX:
            self._reported.add(found)
            report(remote, found[1])


def step_of(side: Side, data: bytes | None) -> tuple[Step, SaslError | None]:
    """Process received bytes; return the resulting step and, if authentication failed, the error.

    `data` is None if the other side has closed its half of the connection.
    """
    try:
        return (side.feed(data) if data is not None else side.connection_ended()), None
    except SaslError as bad:
        return Step(bad.send if isinstance(bad, Refused) else b""), bad


class SaslDoor(asyncio.Protocol):
    """Authenticates both sides of a connection, then hands the connection to the link's own protocol.

    `checked` checks the other side's certificate first, and returns False to close the connection. The result of the
    future `passed` is whether the protocol was started.
    """

    def __init__(
        self,
        auth: QuorumAuth,
        side: Side,
        inside: asyncio.Protocol,
        checked: Callable[[asyncio.BaseTransport], bool],
        report: Callable[[str, SaslError], None],
        timeout_s: float,
    ) -> None:
        self._auth = auth
        self._side = side
        self._inside = inside
        self._checked = checked
        self._report = report
        self._timeout_s = timeout_s
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.passed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Check the certificate; send the first message if this side is the learner."""
        # uvloop's transports do not inherit from asyncio.Transport, but have the same methods.
        self._transport = transport = cast(asyncio.Transport, transport)
        self._auth.negotiating += 1
        accepted = isinstance(self._side, ServerSide)
        room = self._auth.negotiating <= NEGOTIATING_MAX and may_stay(transport, is_of_few=True)
        if (accepted and not room) or not self._checked(transport):
            transport.abort()
            return
        self._deadline = asyncio.get_running_loop().call_later(self._timeout_s, transport.abort)
        if isinstance(self._side, LearnerSide):
            transport.write(self._side.first_message())

    def data_received(self, data: bytes) -> None:
        """Process the other side's next packet, or a part of it."""
        if not self.passed.done():
            self._go_on(data)

    def eof_received(self) -> bool:
        """Handle the other side's half-close, which ends the negotiation."""
        if not self.passed.done():
            self._go_on(None)
        return False

    def _go_on(self, data: bytes | None) -> None:
        transport = self._transport
        assert transport is not None
        step, refused = step_of(self._side, data)
        if step.send:
            transport.write(step.send)
        if refused is not None:
            self._settle(False)
            self._report(remote_name(transport), refused)
            transport.close()
        elif step.done:
            self._settle(True)
            transport.set_protocol(self._inside)
            self._inside.connection_made(transport)
            if step.rest:
                self._inside.data_received(step.rest)

    def _settle(self, passed: bool) -> None:
        self._auth.negotiating -= 1
        if self._deadline is not None:
            self._deadline.cancel()
        self.passed.set_result(passed)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection before authentication was complete."""
        if not self.passed.done():
            self._settle(False)
