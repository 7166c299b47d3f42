"""Log lines about connections that this server drops or rejects, and about servers that it accepts without a vote.

Each line gives the reason and what to do. A repeated reason is logged at growing intervals, with a count.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from zabka.ensemble.ids import PeerId
from zabka.ensemble.runtime.dropped_connections import DroppedConnections
from zabka.ensemble.zab.messages import Notification, PeerState
from zabka.ensemble.zab.peer import Peer
from zabka.journal.events import Event, PeerProtocolBroken

CallLater = Callable[[int, Callable[[], None]], object]


class Refusals:
    """Logs rejected and dropped connections; those between servers are also written to the journal."""

    def __init__(self, log: structlog.BoundLogger, emit: Callable[[Event], None], call_later: CallLater) -> None:
        self._log = log
        self._emit = emit
        self._broken = DroppedConnections(self._log_broken, call_later)
        self._clients = DroppedConnections(self._log_client, call_later)
        self._links = DroppedConnections(self._log_link, call_later)
        self._votes = DroppedConnections(self._log_vote, call_later)

    def break_off(self, remote: str, reason: str) -> None:
        """Report a dropped connection on the quorum or election port."""
        self._broken.drop(remote, reason)

    def refuse_client(self, remote: str, reason: str) -> None:
        """Report a rejected client."""
        self._clients.drop(remote, reason)

    def close_link(self, reason: str) -> None:
        """Report a closed link to a leader or a learner."""
        self._links.drop("", reason)

    def admit_unlisted(self, peer_id: PeerId, address: str, *, reconfig_enabled: bool) -> None:
        """Report a server that is missing from the list of members and was accepted without a vote."""
        remedy = (
            f"add server {peer_id} with reconfig, or stop it"
            if reconfig_enabled
            else f"add server.{peer_id} to the zoo.cfg of every server and restart them one by one, or stop it"
        )
        self._log.warning(
            "a server that is not in this server's list has connected; it has no vote here",
            server=peer_id, address=address, remedy=remedy,
        )  # fmt: skip

    def check_vote(self, voter: PeerId, notification: Notification, peer: Peer) -> None:
        """Report a vote that the election ignores.

        It is ignored because the leader in the vote is not a voter in this server's member list.
        """
        leader, follows = notification.vote.leader, notification.state in (PeerState.FOLLOWING, PeerState.LEADING)
        if follows and peer.state is PeerState.LOOKING and leader not in peer.quorum.voters:
            remedy = "restart the other servers with this server's list, or give this server theirs"
            self._votes.drop(
                f"server {voter}", f"server {leader} leads, and is not a voter in this server's list: {remedy}"
            )

    def _log_broken(self, remote: str, reason: str, count: int) -> None:
        self._emit(PeerProtocolBroken(remote, reason, count))
        self._log.warning("dropped a connection", remote=remote, reason=reason, count=count)

    def _log_client(self, remote: str, reason: str, count: int) -> None:
        self._log.warning("refused a client", remote=remote, reason=reason, count=count)

    def _log_link(self, _: str, reason: str, count: int) -> None:
        self._log.info("closed a link", reason=reason, count=count)

    def _log_vote(self, voter: str, reason: str, count: int) -> None:
        self._log.warning("ignored a vote", voter=voter, reason=reason, count=count)
