"""In which order a turn's packets leave on the links of a leader."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from ensemble.ids import LinkId, PeerId, SessionId, Zxid
from ensemble.records import OpCode
from ensemble.runtime.links import LinkFaults
from ensemble.server.net.quorum_port import QuorumLink, QuorumPort
from ensemble.server.net.quorum_wire import QuorumCodec
from ensemble.txn import SetDataTxn, Txn
from ensemble.zab.messages import ForwardedRequest, Packet, Proposal
from ensemble.zab.server_line import parse_server_line

LEADER = PeerId(1)
REQUEST = ForwardedRequest(SessionId(9), 1, OpCode.SET_DATA, b"")
PROPOSAL = Proposal([Txn(SessionId(9), 1, Zxid(1), 0, OpCode.SET_DATA, SetDataTxn("/a", b"", 1))])


class FakeTransport:
    """Notes on which link something was written."""

    def __init__(self, name: str, written: list[str]) -> None:
        self.name = name
        self.written = written

    def get_extra_info(self, name: str) -> None:
        return None

    def set_write_buffer_limits(self, high: int) -> None:
        return

    def write(self, data: bytes) -> None:
        self.written.append(self.name)


class Listener:
    """Proposes to everybody what it is asked for."""

    def __init__(self) -> None:
        self.links: list[LinkId] = []
        self.port: QuorumPort | None = None

    def on_link_accepted(self, link: LinkId) -> None:
        self.links.append(link)

    def on_packets(self, link: LinkId, packets: list[Packet]) -> None:
        assert packets == [REQUEST] and self.port is not None
        for each in self.links:
            self.port.send(each, [PROPOSAL])


def test_a_proposal_leaves_first_to_the_follower_that_asked_for_it() -> None:
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
        port.flush_heard()
        assert written == ["second"]
        port.flush()
        return written

    assert asyncio.run(run()) == ["second", "first", "third"]
