"""Election connections: one per pair of peers. A newer notification replaces an older one that was not sent yet.

Source: org.apache.zookeeper.server.quorum.QuorumCnxManager. Either side may open the connection, but only a connection
opened by the server with the larger id stays open. If the server with the smaller id connects, this is a request for a
connection in the other direction. The last notification is sent again on a new connection, because it may have been
lost with the old one.

Any server may connect, even if it is missing from this server's list of members or has another address there: during a
rolling restart with a changed list, some servers still run with the old one. This server connects back to the address
that the other server announces. A server that is not in the list has no vote here: `zabka.ensemble.zab.election` counts
only voters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import NamedTuple

from zabka.ensemble.ids import PeerId
from zabka.ensemble.runtime.links import LinkFaults
from zabka.ensemble.runtime.supervisor import report_task_failure
from zabka.ensemble.server.config.reachability import CHECKED, Reachability
from zabka.ensemble.server.net.election_connection import UNIDENTIFIED_MAX, ElectionConnection, ElectionListener
from zabka.ensemble.server.net.election_wire import Opening, encode_notification, encode_opening
from zabka.ensemble.server.net.peer_addresses import first_to_answer, listen_each
from zabka.ensemble.server.net.peer_security import Listening, PeerSecurity, open_port, tls_problem
from zabka.ensemble.server.net.peer_tap import PeerTap
from zabka.ensemble.server.net.quorum_auth import QuorumAuth
from zabka.ensemble.zab.membership import PEER_ID_MAX
from zabka.ensemble.zab.messages import Notification
from zabka.ensemble.zab.server_line import Address, ServerLine, bracketed

CONNECT_TIMEOUT_S = 5.0
RETRY_MIN_S = 0.05
RETRY_MAX_S = 1.0
CALL_BACK_S = 1.0
"""Time that the peer with the smaller id waits for the other peer to connect, before it requests this again."""
ADDRESSES_MAX = 8
"""Maximum number of addresses in one initial message that are tried; further ones are ignored."""
UNLISTED_MAX = 64
"""Maximum number of servers missing from this server's list that can be connected at the same time.

The number includes connection attempts.
"""


class _Origin(NamedTuple):
    """Location of a server with a given id: the host that it connects from, and the address that it announces."""

    host: str
    address: str


class ElectionPort:
    """This peer's election port and its connections."""

    def __init__(
        self,
        my_id: PeerId,
        servers: Mapping[PeerId, ServerLine],
        faults: LinkFaults,
        listener: ElectionListener,
        *,
        security: PeerSecurity | None = None,
        auth: QuorumAuth | None = None,
        reachability: Reachability = CHECKED,
        tap: PeerTap | None = None,
    ) -> None:
        self.my_id = my_id
        self.tap = tap
        self._reachability = reachability
        self.listener = listener
        self.auth = auth
        self.unidentified = 0
        self._servers = servers
        self._mine = servers[my_id]
        self._announced: dict[PeerId, list[tuple[str, int]]] = {}
        """Election addresses that servers announced, if they differ from the list of members."""
        self._unlisted: dict[tuple[PeerId, str], None] = {}
        """Servers missing from the list of members, with the addresses that they announced, that were already
        reported.
        """
        self._faults = faults
        self._security = security
        self._server: Listening | None = None
        self._connections: dict[PeerId, ElectionConnection] = {}
        self._waiting: dict[PeerId, bytes] = {}
        self._last: dict[PeerId, bytes] = {}
        self._dialling: dict[PeerId, asyncio.Task[None]] = {}
        self._pauses: dict[PeerId, asyncio.Event] = {}
        self._closed = False
        self._origins: dict[PeerId, _Origin] = {}
        self._doubles: set[tuple[_Origin, _Origin]] = set()

    async def listen(self, addresses: Sequence[Address], warn: Callable[[str], None]) -> None:
        """Open this peer's election port at these addresses; close the previous port.

        `warn` is called for each address that cannot be opened, if others can. Raises PortError.
        """
        if self._server is not None:
            self._server.close()
        report = self.listener.on_peer_broken

        def open_one(host: str, port: int) -> Awaitable[Listening]:
            accepted = partial(ElectionConnection, self, None)
            return open_port(self._security, accepted, host, port, "the election port", report)

        self._server = await listen_each([(each.host, each.election_port) for each in addresses], open_one, warn)

    def use(self, servers: Mapping[PeerId, ServerLine]) -> None:
        """Set the ensemble's members; drop the connections to servers that were removed or have another address now."""
        before, self._servers = self._servers, servers
        self._mine = servers.get(self.my_id, self._mine)
        for peer_id in [*self._connections, *self._dialling]:
            if _election_addresses(servers, peer_id) != _election_addresses(before, peer_id):
                self._origins.pop(peer_id, None)
                self._announced.pop(peer_id, None)
                self._forget(peer_id)
                self._stop_dialling(peer_id)
                if peer_id in self._waiting:
                    self._dial(peer_id)

    async def close(self) -> None:
        """Stop listening and connecting, and close all connections."""
        self._closed = True
        if self._server is not None:
            self._server.close()
        for task in self._dialling.values():
            task.cancel()
        for connection in list(self._connections.values()):
            connection.drop()

    def send(self, to: PeerId, notification: Notification) -> None:
        """Send a notification to a peer; connect first if needed.

        A notification that still waits for the connection is replaced.
        """
        if to == self.my_id:
            asyncio.get_running_loop().call_soon(self.listener.on_notification, to, notification)
            return
        frame = encode_notification(notification)
        connection = self._connections.get(to)
        if connection is not None and self._may_be_cut_off(connection, to):
            self._forget(to)
            connection = None
        if connection is not None and connection.ready:
            self._last[to] = frame
            connection.write(frame)
        else:
            self._waiting[to] = frame
            if connection is None:
                self._dial(to)

    def _may_be_cut_off(self, connection: ElectionConnection, to: PeerId) -> bool:
        """Return whether to try another address of a server, because the current one may have become unreachable.

        True if the server has several addresses and has not replied to notifications for the configured time. Source:
        SendWorker.asyncValidateIfSocketIsStillReachable.
        """
        listed = _election_addresses(self._servers, to) or self._announced.get(to, [])
        if not self._reachability.checks or len(listed) < 2:
            return False
        return connection.silent_s() > self._reachability.timeout_s

    # -- connecting ------------------------------------------------------------------------------------------------

    def _dial(self, to: PeerId) -> None:
        if to not in self._dialling and self._addresses_of(to) and not self._closed:
            self._dialling[to] = task = asyncio.get_running_loop().create_task(
                self._keep_dialling(to), name=f"dial peer {to}"
            )
            report_task_failure(task)

    async def _keep_dialling(self, to: PeerId) -> None:
        """Try to connect to a peer until there is a connection, or until no notification waits to be sent to it."""
        delay_s, attempt = RETRY_MIN_S, 0
        try:
            while to not in self._connections and to in self._waiting:
                reached = await self._dial_once(to, attempt)
                attempt += 1
                if to in self._connections:
                    break
                if not reached and self._announced.pop(to, None) is not None and to not in self._servers:
                    self._waiting.pop(to, None)
                    self._origins.pop(to, None)
                    break
                if not reached and (self._reachability.checks or attempt >= len(self._addresses_of(to))):
                    self.listener.on_voter_unreachable(to)
                await self._pause(to, CALL_BACK_S if reached else delay_s)
                delay_s = min(2 * delay_s, RETRY_MAX_S)
        finally:
            if self._dialling.get(to) is asyncio.current_task():
                del self._dialling[to]

    async def _pause(self, to: PeerId, delay_s: float) -> None:
        pause = self._pauses[to] = asyncio.Event()
        with suppress(TimeoutError):
            await asyncio.wait_for(pause.wait(), delay_s)

    def _stop_dialling(self, peer_id: PeerId) -> None:
        dialler = self._dialling.pop(peer_id, None)
        if dialler is not None:
            dialler.cancel()

    def _addresses_of(self, peer_id: PeerId) -> list[tuple[str, int]]:
        """Return a server's addresses: first those that it announced, then those in the list of members."""
        announced, listed = self._announced.get(peer_id, []), _election_addresses(self._servers, peer_id)
        return [*announced, *(address for address in listed if address not in announced)]

    async def _dial_once(self, to: PeerId, attempt: int) -> bool:
        addresses = self._addresses_of(to)
        if not addresses:
            return False
        host, port = addresses[attempt % len(addresses)]
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                sock = None
                if len(addresses) > 1 and (self._reachability.checks or to in self._announced):
                    sock, host, port = await first_to_answer(self._faults, addresses)
                context = self._security.context if self._security is not None else None
                calling = partial(ElectionConnection, self, to)
                _, connection = await self._faults.open_connection(calling, host, port, ssl=context, sock=sock)
                assert isinstance(connection, ElectionConnection)
                if connection.proved is not None:
                    await connection.proved
        except (OSError, TimeoutError, UnicodeError, OverflowError) as failed:  # (unknown host, or invalid port)
            if (problem := tls_problem(failed)) is not None:
                self.listener.on_peer_broken(f"{host}:{port}", f"election port: {problem}")
            return False
        return not connection.refused

    def refusal(self, transport: asyncio.BaseTransport, dialled: PeerId | None) -> str | None:
        """Return why the other side's certificate is rejected, or None if it is accepted."""
        if self._security is None:
            return None
        called = [host for host, _ in self._addresses_of(dialled)] if dialled is not None else []
        if called:
            return self._security.refusal_of_called(transport, called)
        members = (host for line in self._servers.values() for host in line.hosts)
        return self._security.refusal_of_caller(transport, members)

    def opening(self) -> bytes:
        """Return the initial message of a connection that this peer opened."""
        mine = (f"{bracketed(each.host)}:{each.election_port}" for each in self._mine.addresses)
        return encode_opening(self.my_id, list(mine))

    # -- called by connections -------------------------------------------------------------------------------------

    def identified(self, connection: ElectionConnection, opening: Opening) -> bool:
        """Handle the initial message of the other side; return whether the connection stays open."""
        peer_id = opening.peer_id
        if peer_id == self.my_id:
            self.listener.on_peer_broken(connection.remote, f"another server has this server's id {peer_id}")
            return False
        if (reason := self._refusal_of_unlisted(opening)) is not None:
            self.listener.on_peer_broken(connection.remote, reason)
            return False
        if self._is_double(connection, opening):
            return False
        self._note_announced(connection, opening)
        if peer_id < self.my_id:
            # The peer has lost its connection to this server, or never had one. Drop the old connection and connect to
            # the peer, because only a connection opened by the server with the larger id stays open.
            self._forget(peer_id)
            if peer_id in self._last:
                self._waiting.setdefault(peer_id, self._last[peer_id])
            self._waiting.setdefault(peer_id, b"")
            # Connect at once: a task may be pausing before its next attempt, but the peer is reachable now.
            pause = self._pauses.get(peer_id)
            if pause is not None:
                pause.set()
            self._dial(peer_id)
            return False
        # Stop connecting to this peer: it has the larger id, and has connected.
        self._stop_dialling(peer_id)
        self.established(connection, peer_id)
        return True

    def _is_double(self, connection: ElectionConnection, opening: Opening) -> bool:
        """Return whether this connection must be rejected because another server already uses the same id.

        That is the case if another server with the id is connected. A server that announces the same port but connects
        from another machine is logged and accepted: it may have moved.
        """
        peer_id, line = opening.peer_id, self._servers.get(opening.peer_id)
        origin = _Origin(connection.remote.rpartition(":")[0], opening.address)
        before = self._origins.get(peer_id)
        if before is None and line is not None and not origin.address.endswith(f":{line.election_port}"):
            before = _Origin(origin.host, f"{bracketed(line.host)}:{line.election_port}")
        if peer_id not in self._connections or before in (None, origin) or (line is not None and line.others):
            self._origins[peer_id] = origin
            return False
        assert before is not None
        if (before, origin) not in self._doubles and len(self._doubles) < UNIDENTIFIED_MAX:
            self._doubles.add((before, origin))
            self.listener.on_peer_broken(
                connection.remote,
                f"two servers have the id {peer_id}: {before.address} (from {before.host}) and {origin.address} (from "
                f"{origin.host}); give each its own myid",
            )
        # A server that announces the configured port, or the same port as before, is the same server on another
        # machine: use its new connection.
        ports = [before.address.rpartition(":")[2], str(line.election_port) if line is not None else ""]
        if origin.address.rpartition(":")[2] not in ports:
            return True
        self._origins[peer_id] = origin
        return False

    def _refusal_of_unlisted(self, opening: Opening) -> str | None:
        """Return why a server missing from the list of members is rejected, or None if it is accepted or listed."""
        peer_id = opening.peer_id
        if peer_id in self._servers:
            return None
        if peer_id < 0:
            return f"a server connects with the id {peer_id}: put a number from 0 to {PEER_ID_MAX} into its myid"
        unlisted = {other for other in (*self._connections, *self._announced) if other not in self._servers}
        if peer_id not in unlisted and len(unlisted) >= UNLISTED_MAX:
            return f"more than {UNLISTED_MAX} servers are not in this server's list; add server.{peer_id} to it"
        if peer_id < self.my_id and not opening.address:
            return f"server {peer_id} is not in this server's list and announces no address; add server.{peer_id} to it"
        return None

    def _note_announced(self, connection: ElectionConnection, opening: Opening) -> None:
        """Store the address that a server announced, if the list of members has another address or none."""
        peer_id, known = opening.peer_id, _election_addresses(self._servers, opening.peer_id)
        found = [_read_address(text) for text in opening.address.split("|", ADDRESSES_MAX)[:ADDRESSES_MAX]]
        caller = connection.remote.rpartition(":")[0]
        announced = [address for address in found if address is not None and _can_be_called(address[0], caller)]
        if announced and set(announced) != set(known):
            self._announced[peer_id] = announced
        else:
            self._announced.pop(peer_id, None)
        reported = (peer_id, opening.address)
        if peer_id not in self._servers and reported not in self._unlisted and len(self._unlisted) < UNLISTED_MAX:
            self._unlisted[reported] = None
            self.listener.on_unlisted_server(peer_id, opening.address)

    def established(self, connection: ElectionConnection, peer_id: PeerId) -> None:
        """Use this connection for all notifications to that peer from now on."""
        self._forget(peer_id)
        self._connections[peer_id] = connection
        frame = self._waiting.pop(peer_id, b"") or self._last.get(peer_id, b"")
        if frame:
            self._last[peer_id] = frame
            connection.write(frame)

    def _forget(self, peer_id: PeerId) -> None:
        old = self._connections.pop(peer_id, None)
        if old is not None:
            old.drop()

    def lost(self, connection: ElectionConnection, peer_id: PeerId) -> None:
        """Handle a lost connection; reconnect if a notification for that peer is waiting.

        The address that a server announced is forgotten if the server is not in the list; it announces the address
        again.
        """
        if self._connections.get(peer_id) is connection:
            del self._connections[peer_id]
        if peer_id in self._connections:
            return
        if peer_id in self._waiting:
            self._dial(peer_id)
        elif peer_id not in self._servers:
            for known in (self._announced, self._origins, self._last):
                known.pop(peer_id, None)

    def writable(self, connection: ElectionConnection, peer_id: PeerId) -> None:
        """Send the waiting notification, because the connection can send again."""
        if self._connections.get(peer_id) is connection and (frame := self._waiting.pop(peer_id, b"")):
            self._last[peer_id] = frame
            connection.write(frame)


def _read_address(text: str) -> tuple[str, int] | None:
    """Parse an announced address, "host:port"; return None if it is invalid."""
    host, _, port = text.rpartition(":")
    if host and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65536:
        return host.strip("[]"), int(port)
    return None


def _can_be_called(host: str, caller: str) -> bool:
    """Return whether this server can connect to the announced host.

    The server can never connect to 0.0.0.0. It can connect to a loopback address only if the caller runs on this
    machine.
    """
    if host == "localhost":
        return _is_loopback(caller)
    try:
        address = ip_address(host)
    except ValueError:
        return True
    return not address.is_unspecified and (not address.is_loopback or _is_loopback(caller))


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _election_addresses(servers: Mapping[PeerId, ServerLine], peer_id: PeerId) -> list[tuple[str, int]]:
    """Return a server's election addresses in the list of members; empty if the server is not in the list."""
    line = servers.get(peer_id)
    return [(each.host, each.election_port) for each in line.addresses] if line is not None else []
