"""Quorum links: connections between a leader and its learners, with batched packets and streamed snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Protocol, cast

from zabka.ensemble.auth.digest_md5 import SaslError
from zabka.ensemble.auth.quorum_sasl import LearnerSide, ServerSide
from zabka.ensemble.ids import LinkId, PeerId
from zabka.ensemble.jute import MalformedRecord
from zabka.ensemble.runtime.descriptors import may_stay
from zabka.ensemble.runtime.links import LinkFaults
from zabka.ensemble.runtime.supervisor import report_task_failure
from zabka.ensemble.server.config.reachability import CHECKED, Reachability
from zabka.ensemble.server.net.peer_addresses import first_to_answer, listen_each
from zabka.ensemble.server.net.peer_security import Listening, PeerSecurity, open_port, tls_problem
from zabka.ensemble.server.net.peer_tap import PeerTap
from zabka.ensemble.server.net.quorum_auth import QuorumAuth, SaslDoor
from zabka.ensemble.server.net.quorum_packets import encode_shared
from zabka.ensemble.server.net.quorum_wire import QuorumCodec
from zabka.ensemble.server.net.sockets import keep_alive, remote_name
from zabka.ensemble.zab.messages import Commit, Packet, Proposal, Snap
from zabka.ensemble.zab.server_line import Address, ServerLine
from zabka.journal.message_log import MessageLine

ACCEPTED_MAX = 1024
CHUNKS_A_TURN = 4
"""Number of snapshot chunks (64 KiB each) that are encoded before the event loop runs other work."""
CONNECT_TRIES = 5
CONNECT_RETRY_S = 0.1
_SHARED = (Proposal, Commit)


class QuorumListener(Protocol):
    """Receiver of a quorum port's events: new and lost links, and packets."""

    def on_link_up(self, link: LinkId, to: PeerId) -> None: ...
    def on_link_failed(self, to: PeerId) -> None: ...
    def on_link_accepted(self, link: LinkId) -> None: ...
    def on_link_down(self, link: LinkId) -> None: ...
    def on_packets(self, link: LinkId, packets: list[Packet]) -> None:
        """Handle packets received on a link; the list is empty if only a part of a large packet has arrived."""
        ...

    def on_peer_broken(self, remote: str, reason: str) -> None: ...
    def takes_observers(self) -> bool:
        """Return whether this peer accepts observers on its second port now; False for a leader, to reduce its load."""
        ...


class _Unwelcome(asyncio.Protocol):
    """Protocol for a rejected connection, which it closes at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close the connection."""
        cast(asyncio.Transport, transport).abort()


class QuorumPort:
    """This peer's quorum port, with the links that it opened and accepted."""

    def __init__(
        self,
        my_id: PeerId,
        servers: Mapping[PeerId, ServerLine],
        faults: LinkFaults,
        listener: QuorumListener,
        init_limit_s: float,
        *,
        security: PeerSecurity | None = None,
        auth: QuorumAuth | None = None,
        reachability: Reachability = CHECKED,
        tap: PeerTap | None = None,
    ) -> None:
        self.listener = listener
        self.tap = tap
        self._reachability = reachability
        self.init_limit_s = init_limit_s
        self.observer_master_port = 0
        """Port number on which followers accept observers, and to which an observer connects; 0 if there is none."""
        self.accepted = 0
        self._my_id = my_id
        self._servers = servers
        self._mine = servers[my_id]
        self._faults = faults
        self._security = security
        self._auth = auth
        self._server: Listening | None = None
        self._master_server: Listening | None = None
        self._links: dict[LinkId, QuorumLink] = {}
        self._unflushed: dict[LinkId, QuorumLink] = {}
        self._last_active = LinkId(0)
        self._next_link = 0
        self._shared: Packet | None = None
        self._shared_bytes = b""
        self._opening: dict[PeerId, asyncio.Task[None]] = {}

    async def listen(self, addresses: Sequence[Address], warn: Callable[[str], None]) -> None:
        """Open this peer's quorum port at these addresses; close the previous port.

        `warn` is called for each address that cannot be opened, if others can. Raises PortError.
        """
        if self._server is not None:
            self._server.close()
        report = self.listener.on_peer_broken

        def open_one(host: str, port: int) -> Awaitable[Listening]:
            return open_port(self._security, self._accepted, host, port, "the quorum port", report)

        self._server = await listen_each([(each.host, each.quorum_port) for each in addresses], open_one, warn)
        if self._master_server is not None:
            self._master_server.close()
        if self.observer_master_port and not self._mine.observer:
            self._master_server = await self._listen_for_observers(addresses, warn)

    async def _listen_for_observers(self, addresses: Sequence[Address], warn: Callable[[str], None]) -> Listening:
        report = self.listener.on_peer_broken

        def open_one(host: str, port: int) -> Awaitable[Listening]:
            return open_port(self._security, self._observer_accepted, host, port, "the observer master port", report)

        hosts = dict.fromkeys(each.host for each in addresses)
        return await listen_each([(host, self.observer_master_port) for host in hosts], open_one, warn)

    def _accepted(self) -> asyncio.Protocol:
        link = QuorumLink(self, None)
        return link if self._auth is None else self._door(self._auth, link, self._auth.server_side())

    def _observer_accepted(self) -> asyncio.Protocol:
        return self._accepted() if self.listener.takes_observers() else _Unwelcome()

    def _door(self, auth: QuorumAuth, link: QuorumLink, side: ServerSide | LearnerSide) -> SaslDoor:
        def refused(remote: str, reason: SaslError) -> None:
            auth.report_refusal(self.listener.on_peer_broken, remote, "quorum port", reason)

        return SaslDoor(auth, side, link, link.is_welcome, refused, self.init_limit_s)

    def use(self, servers: Mapping[PeerId, ServerLine]) -> None:
        """Set the ensemble's members. Open links stay open: the peer closes those that it no longer needs."""
        self._servers = servers
        self._mine = servers.get(self._my_id, self._mine)

    async def close(self) -> None:
        """Stop listening and close every link."""
        for server in (self._server, self._master_server):
            if server is not None:
                server.close()
        for task in self._opening.values():
            task.cancel()
        for link in list(self._links.values()):
            link.close()

    def open(self, to: PeerId) -> None:
        """Start connecting to a leader; cancel an earlier attempt that is still in progress."""
        old = self._opening.pop(to, None)
        if old is not None:
            old.cancel()
        self._opening[to] = task = asyncio.get_running_loop().create_task(self._open(to), name=f"connect to peer {to}")
        report_task_failure(task)

    async def _open(self, to: PeerId) -> None:
        line = self._servers.get(to)
        if line is None:
            self._opening.pop(to, None)
            self.listener.on_link_failed(to)
            return
        deadline = asyncio.get_running_loop().time() + self.init_limit_s
        for attempt in range(CONNECT_TRIES):
            addresses = self._addresses(line, attempt)
            if attempt:
                # As in Learner.connectToLeader, retry after a pause: a newly elected leader may not listen yet.
                await asyncio.sleep(CONNECT_RETRY_S)
            link = QuorumLink(self, to)
            try:
                async with asyncio.timeout_at(deadline):
                    if not await self._reach(link, addresses):
                        break
            except (
                OSError,
                TimeoutError,
                UnicodeError,
                OverflowError,
            ) as failed:  # (unknown host, or invalid port)
                if (problem := tls_problem(failed)) is not None:
                    self.listener.on_peer_broken("{}:{}".format(*addresses[0]), f"quorum port: {problem}")
                continue
            if link.refused:
                continue
            self._opening.pop(to, None)
            return
        self._opening.pop(to, None)
        self.listener.on_link_failed(to)

    def _addresses(self, line: ServerLine, attempt: int) -> list[tuple[str, int]]:
        """Return the addresses of a leader to try: all at once, or a different one in each attempt.

        If reachability checks are disabled, only one address is tried in each attempt.
        """
        own = self.observer_master_port if self._mine.observer else 0
        found = [(each.host, own or each.quorum_port) for each in line.addresses]
        return found if self._reachability.checks else [found[attempt % len(found)]]

    async def _reach(self, link: QuorumLink, addresses: Sequence[tuple[str, int]]) -> bool:
        """Connect the link to a leader.

        Return True, or False if authentication failed and another attempt would be useless. Raises OSError.
        """
        side = self._auth.learner_side() if self._auth is not None else None
        door = self._door(self._auth, link, side) if self._auth is not None and side is not None else None
        context = self._security.context if self._security is not None else None
        (host, port), sock = addresses[0], None
        if len(addresses) > 1:
            sock, host, port = await first_to_answer(self._faults, addresses)
        await self._faults.open_connection(lambda: door or link, host, port, ssl=context, sock=sock)
        return door is None or await door.passed or link.refused

    def refusal(self, transport: asyncio.BaseTransport, leader: PeerId | None) -> str | None:
        """Return why the other side's certificate is rejected, or None if it is accepted."""
        if self._security is None:
            return None
        line = self._servers.get(leader) if leader is not None else None
        if line is not None:
            return self._security.refusal_of_called(transport, line.hosts)
        members = (host for member in self._servers.values() for host in member.hosts)
        return self._security.refusal_of_caller(transport, members)

    def register(self, link: QuorumLink) -> LinkId:
        """Assign an id to a link; return the id."""
        self._next_link += 1
        self._links[LinkId(self._next_link)] = link
        return LinkId(self._next_link)

    def send(self, link_id: LinkId, packets: Sequence[Packet]) -> None:
        """Queue packets for a link; all packets of an event loop turn are sent in one write.

        Does nothing if the link is closed.
        """
        link = self._links.get(link_id)
        if link is not None:
            if link.line is not None and self.tap is not None:
                self.tap.packets_sent(link.line, packets)
            link.send(packets)
            self._unflushed[link_id] = link

    def encode_shared(self, packet: Proposal | Commit) -> bytes:
        """Return the packet's bytes, encoded once for all learners that receive the same packet."""
        if packet is not self._shared:
            self._shared, self._shared_bytes = packet, encode_shared(packet)
        return self._shared_bytes

    def close_link(self, link_id: LinkId) -> None:
        """Close a link after its queued packets are sent."""
        link = self._links.pop(link_id, None)
        if link is not None:
            link.close()

    def flush(self) -> None:
        """Write the queued packets of all links.

        The link that received packets last comes first, because its peer is waiting for the replies.
        """
        if self._unflushed:
            self.flush_last_active()
            links, self._unflushed = self._unflushed, {}
            for link in links.values():
                link.flush()

    def flush_last_active(self) -> None:
        """Write the queued packets of the link that received packets last; `flush` writes those of the other links."""
        waiting = self._unflushed.pop(self._last_active, None)
        if waiting is not None:
            waiting.flush()

    def receive(self, link_id: LinkId, packets: list[Packet]) -> None:
        """Pass packets that were received on a link to the listener."""
        self._last_active = link_id
        self.listener.on_packets(link_id, packets)

    def progress(self, link_id: LinkId) -> None:
        """Notify the listener of activity on a link: part of a packet was received, or part of a snapshot was sent.

        With these notifications, a slow but active link does not time out, however long a packet or snapshot takes. (In
        ZooKeeper each read has a time limit, and a write has none.)
        """
        self.listener.on_packets(link_id, [])

    def lost(self, link_id: LinkId) -> None:
        """Handle a broken link."""
        if self._links.pop(link_id, None) is not None:
            self.listener.on_link_down(link_id)

    def is_open(self, link_id: LinkId) -> bool:
        """Return whether the link is open and was not closed by this side."""
        return link_id in self._links


class QuorumLink(asyncio.Protocol):
    """A connection between a leader and a learner.

    `leader` is the leader to which this learner connected, or None on the leader's side.
    """

    def __init__(self, port: QuorumPort, leader: PeerId | None) -> None:
        self._port = port
        self._leader = leader
        self.refused = False
        self.line: MessageLine | None = None
        self._codec = QuorumCodec(learner=leader is not None)
        self._link_id: LinkId | None = None
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._stream: Iterator[bytes] | None = None
        self._paused = False
        self._closing = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle the established connection.

        On the leader's side the link is registered only after the learner's first packet, because any client can
        connect.
        """
        # uvloop's transports do not inherit from asyncio.Transport, but have the same methods.
        self._transport = transport = cast(asyncio.Transport, transport)
        keep_alive(transport)
        if self._port.tap is not None:
            self.line = self._port.tap.line(transport, self._leader)
        if transport.get_extra_info("ssl_object") is None:
            # Send written data at once, not in the next turn of the loop: resume_writing is then not needed, and
            # uvloop's TLS would not call it.
            transport.set_write_buffer_limits(high=0)
        if self._leader is None:
            self._port.accepted += 1
        if not self.is_welcome(transport):
            self._break()
            return
        if self._leader is not None:
            self._link_id = self._port.register(self)
            self._port.listener.on_link_up(self._link_id, self._leader)
            return
        if self._port.accepted > ACCEPTED_MAX or not may_stay(transport, is_of_few=True):
            self.close()
        else:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(self._port.init_limit_s, self.close)

    def is_welcome(self, transport: asyncio.BaseTransport) -> bool:
        """Return whether the other side's certificate is acceptable, or no certificate is required."""
        reason = self._port.refusal(transport, self._leader)
        if reason is None:
            return True
        self.refused = True
        self._port.listener.on_peer_broken(remote_name(transport), f"quorum port: {reason}")
        return False

    def data_received(self, data: bytes) -> None:
        """Decode the complete packets and pass them to the port."""
        if self._closing:
            return
        try:
            packets = self._codec.feed(data)
        except MalformedRecord as bad:
            remote = remote_name(self._transport) if self._transport is not None else "unknown"
            self._port.listener.on_peer_broken(remote, f"quorum port: {bad}")
            self._break()
            return
        if not packets:
            self._report_progress()
            return
        if self.line is not None and self._port.tap is not None:
            self._port.tap.packets_received(self.line, packets)
        if self._link_id is None:
            self._link_id = self._port.register(self)
            if self._deadline is not None:
                self._deadline.cancel()
            self._port.listener.on_link_accepted(self._link_id)
        self._port.receive(self._link_id, packets)

    def send(self, packets: Sequence[Packet]) -> None:
        """Queue packets; while a snapshot is being streamed, they wait for its end."""
        out, encode = self._out, self._codec.encode
        for packet in packets:
            if isinstance(packet, _SHARED):
                out.append(self._port.encode_shared(packet))
                continue
            out.append(encode(packet))
            if isinstance(packet, Snap):
                self.flush()
                out = self._out
                self._stream = self._codec.encode_stream(packet)

    def flush(self) -> None:
        """Write the queued packets; during a snapshot, continue streaming it."""
        if self._transport is None:
            return
        if self._stream is not None:
            self._pump()
        elif self._out:
            out, self._out = self._out, []
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def _pump(self) -> None:
        """Write a few chunks of the snapshot; write the next ones after other work has run."""
        if self._stream is None or self._paused or self._transport is None:
            return
        for _ in range(CHUNKS_A_TURN):
            chunk = next(self._stream, None)
            if chunk is None:
                self._stream = None
                self.flush()
                return
            self._transport.write(chunk)
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        """Notify the listener that a part of the snapshot was sent, and write the next part."""
        if self._stream is not None and not self._paused:
            self._report_progress()
        self._pump()

    def _report_progress(self) -> None:
        if self._link_id is not None:
            self._port.progress(self._link_id)

    def pause_writing(self) -> None:
        """Pause streaming, because the other side reads slowly."""
        self._paused = True

    def resume_writing(self) -> None:
        """Resume streaming, because the buffer has room again."""
        self._paused = False
        self._go_on()

    def close(self) -> None:
        """Close after the queued packets are sent.

        A snapshot is not sent to its end: an incomplete snapshot is useless, and if the other side stopped reading, the
        snapshot and the tree that it shares would stay in memory forever.
        """
        if self._closing:
            return
        if self._stream is not None:
            self._break()
            return
        self._closing = True
        if self._transport is not None:
            self.flush()
            self._transport.close()

    def _break(self) -> None:
        """Close at once, because the other side violated the protocol or the snapshot to send is incomplete."""
        self._closing = True
        self._stream = None
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        self._transport = None
        self._stream = None
        if self._deadline is not None:
            self._deadline.cancel()
        if self._leader is None:
            self._port.accepted -= 1
        if self._link_id is not None:
            self._port.lost(self._link_id)
