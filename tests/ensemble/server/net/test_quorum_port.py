"""A leader's links to its learners: the order of packets in a turn, and pings during a large snapshot."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from zabka.ensemble.ids import LinkId, PeerId, SessionId, Zxid
from zabka.ensemble.records import OPEN_ACL, OpCode
from zabka.ensemble.runtime.links import LinkFaults
from zabka.ensemble.server.net.quorum_port import CHUNKS_A_TURN, QuorumLink, QuorumPort
from zabka.ensemble.server.net.quorum_wire import QuorumCodec
from zabka.ensemble.tree_snapshot import NodeImage, TreeSnapshot
from zabka.ensemble.txn import SetDataTxn, Txn
from zabka.ensemble.zab.messages import ForwardedRequest, Packet, Proposal, Snap
from zabka.ensemble.zab.server_line import parse_server_line

LEADER = PeerId(1)
REQUEST = ForwardedRequest(SessionId(9), 1, OpCode.SET_DATA, b"")
PROPOSAL = Proposal([Txn(SessionId(9), 1, Zxid(1), 0, OpCode.SET_DATA, SetDataTxn("/a", b"", 1))])


class FakeTransport:
    """Transport that records the links on which data was written."""

    def __init__(self, name: str, written: list[str]) -> None:
        self.name = name
        self.written = written
        self.aborted = False

    def get_extra_info(self, name: str) -> None:
        return None

    def set_write_buffer_limits(self, high: int) -> None:
        return

    def write(self, data: bytes) -> None:
        self.written.append(self.name)

    def abort(self) -> None:
        self.aborted = True


class Listener:
    """Peer that proposes every request to all followers."""

    def __init__(self) -> None:
        self.links: list[LinkId] = []
        self.port: QuorumPort | None = None

    def on_link_accepted(self, link: LinkId) -> None:
        self.links.append(link)

    def on_packets(self, link: LinkId, packets: list[Packet]) -> None:
        assert packets == [REQUEST] and self.port is not None
        for each in self.links:
            self.port.send(each, [PROPOSAL])


def test_proposal_is_sent_first_to_the_requesting_follower() -> None:
    async def run() -> list[str]:
        listener, written = Listener(), list[str]()
        servers = {LEADER: parse_server_line("127.0.0.1:1:2")}
        port = listener.port = QuorumPort(LEADER, servers, LinkFaults(), cast(Any, listener), 10.0)
        links = {name: QuorumLink(port, None) for name in ("first", "second", "third")}
        for name, link in links.items():
            link.connection_made(cast(Any, FakeTransport(name, written)))
        request = QuorumCodec(learner=True).encode(REQUEST)
        for link in links.values():
            link.data_received(request)
        port.flush()
        written.clear()
        links["second"].data_received(request)
        port.flush_last_active()
        assert written == ["second"]
        port.flush()
        return written

    assert asyncio.run(run()) == ["second", "first", "third"]


def large_snapshot() -> Snap:
    paths = ["", *(f"/{i}" for i in range(3 * CHUNKS_A_TURN))]
    images = [NodeImage(path, bytes(1 << 16), OPEN_ACL, 0, 0, 0, 0, 0, 0, 0, 0, 0) for path in paths]
    return Snap(Zxid(1), TreeSnapshot(Zxid(1), {}, images, 0))


class ReceivedPackets:
    """Record of received packets: for each chunk, the link and the number of packets."""

    def __init__(self) -> None:
        self.links: list[LinkId] = []
        self.packets: list[tuple[LinkId, int]] = []

    def on_link_accepted(self, link: LinkId) -> None:
        self.links.append(link)

    def on_link_up(self, link: LinkId, to: PeerId) -> None:
        self.links.append(link)

    def on_packets(self, link: LinkId, packets: list[Packet]) -> None:
        self.packets.append((link, len(packets)))


def test_both_ends_stay_connected_during_a_slow_snapshot() -> None:
    async def run() -> None:
        received, written = ReceivedPackets(), list[bytes]()
        servers = {LEADER: parse_server_line("127.0.0.1:1:2")}
        port = QuorumPort(LEADER, servers, LinkFaults(), cast(Any, received), 10.0)
        leaders, learners = QuorumLink(port, None), QuorumLink(port, LEADER)
        transport = FakeTransport("", [])
        transport.write = written.append  # type: ignore[method-assign, assignment]
        leaders.connection_made(cast(Any, transport))
        learners.connection_made(cast(Any, FakeTransport("learner", [])))
        leaders.data_received(QuorumCodec(learner=True).encode(REQUEST))
        learner, leader = received.links
        received.packets.clear()
        port.send(leader, [large_snapshot()])
        port.flush()
        assert not received.packets, "no callback during a turn"
        leaders.pause_writing()
        await asyncio.sleep(0)
        assert not received.packets, "the other side does not read"
        leaders.resume_writing()
        assert received.packets == [(leader, 0)]
        for _ in range(3 * CHUNKS_A_TURN):
            await asyncio.sleep(0)
        assert len(received.packets) > 1 and set(received.packets) == {(leader, 0)}
        received.packets.clear()
        for piece in written:
            learners.data_received(piece)
        assert received.packets == [(learner, 0)] * (len(received.packets) - 1) + [(learner, 1)]

    asyncio.run(run())


def test_link_closed_during_a_snapshot_ends_immediately() -> None:
    async def run() -> None:
        received, transport = ReceivedPackets(), FakeTransport("", [])
        servers = {LEADER: parse_server_line("127.0.0.1:1:2")}
        port = QuorumPort(LEADER, servers, LinkFaults(), cast(Any, received), 10.0)
        link = QuorumLink(port, None)
        link.connection_made(cast(Any, transport))
        link.data_received(QuorumCodec(learner=True).encode(REQUEST))
        port.send(received.links[0], [large_snapshot()])
        port.flush()
        link.pause_writing()
        port.close_link(received.links[0])
        assert transport.aborted

    asyncio.run(run())
