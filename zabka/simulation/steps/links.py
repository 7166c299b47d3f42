"""Connections of a `BareEnsemble` as immutable values: a queue in each direction, and flags for open ends."""

from __future__ import annotations

from collections.abc import Sequence

from zabka.ensemble.ids import LinkId
from zabka.ensemble.zab.messages import Packet, Proposal

LINKS_A_PAIR_MAX = 100
UnderWay = tuple[Packet | None, ...]
"""Packets in flight to one end of a connection, oldest first. None stands for a close by the other end."""


class CoreLink:
    """One immutable connection: its opener, the packets in flight to each end, and which ends are open."""

    __slots__ = ("_key", "acceptor", "acceptor_open", "link_id", "opener", "opener_open", "to_acceptor", "to_opener")

    def __init__(
        self,
        link_id: LinkId,
        opener: int,
        acceptor: int,
        to_acceptor: UnderWay = (),
        to_opener: UnderWay = (),
        opener_open: bool = True,
        acceptor_open: bool = True,
    ) -> None:
        self.link_id, self.opener, self.acceptor = link_id, opener, acceptor
        self.to_acceptor, self.to_opener = to_acceptor, to_opener
        self.opener_open, self.acceptor_open = opener_open, acceptor_open
        self._key: tuple[object, ...] | None = None

    def under_way_to(self, peer: int) -> UnderWay:
        """Return the packets and connection closes that are in flight to `peer`."""
        return self.to_opener if peer == self.opener else self.to_acceptor

    def is_open_at(self, peer: int) -> bool:
        """Return whether the end of `peer` has neither closed nor received the close of the other end."""
        return self.opener_open if peer == self.opener else self.acceptor_open

    def other(self, peer: int) -> int:
        """Return the server at the other end."""
        return self.acceptor if peer == self.opener else self.opener

    def joins(self, one: int, other: int) -> bool:
        """Return whether the link connects these two servers."""
        return (self.opener, self.acceptor) in ((one, other), (other, one))

    def with_queue(self, peer: int, queue: UnderWay) -> CoreLink:
        """Return a copy of this link in which `queue` contains the packets in flight to `peer`."""
        to_acceptor, to_opener = (self.to_acceptor, queue) if peer == self.opener else (queue, self.to_opener)
        return self._but(to_acceptor=to_acceptor, to_opener=to_opener)

    def _but(
        self,
        to_acceptor: UnderWay | None = None,
        to_opener: UnderWay | None = None,
        opener_open: bool = True,
        acceptor_open: bool = True,
    ) -> CoreLink:
        """Return a copy of this link with other queues, or with an end closed."""
        return CoreLink(
            self.link_id,
            self.opener,
            self.acceptor,
            to_acceptor=self.to_acceptor if to_acceptor is None else to_acceptor,
            to_opener=self.to_opener if to_opener is None else to_opener,
            opener_open=self.opener_open and opener_open,
            acceptor_open=self.acceptor_open and acceptor_open,
        )

    def with_sent(self, sender: int, packet: Packet | None) -> CoreLink:
        """Return this link with one more packet (None: close) from `sender`.

        Nothing is added if the sender has closed its end, or if the other end is closed.
        """
        to = self.other(sender)
        queue = self.under_way_to(to)
        if not self.is_open_at(to) or (queue and queue[-1] is None):
            return self
        return self.with_queue(to, (*queue, packet))

    def closed_at(self, peer: int) -> CoreLink:
        """Return this link after `peer` has closed its end: `peer` receives nothing more on it."""
        if peer == self.opener:
            return self._but(to_opener=(), opener_open=False)
        return self._but(to_acceptor=(), acceptor_open=False)

    @property
    def is_over(self) -> bool:
        """Whether both ends of the link are closed."""
        return not self.opener_open and not self.acceptor_open

    def key(self) -> tuple[object, ...]:
        """Return a key that is equal for equal links.

        This requires that equal packets are the same object (`zabka.simulation.steps.transitions`).
        """
        if self._key is None:
            queues = tuple(map(id, self.to_acceptor)), tuple(map(id, self.to_opener))
            self._key = (self.link_id, self.opener, self.opener_open, self.acceptor_open, *queues)
        return self._key


CoreLinks = tuple[CoreLink, ...]
"""All connections, sorted by pair of servers and then by age."""


def opened(links: CoreLinks, opener: int, acceptor: int) -> tuple[CoreLinks, LinkId]:
    """Add a connection, with the lowest number that is free for this pair of servers.

    So states that differ only in the number of earlier connections are equal.
    """
    pair = [link.link_id for link in links if link.joins(opener, acceptor)]
    low, high = sorted((opener, acceptor))
    first = (low * 100 + high) * LINKS_A_PAIR_MAX
    link_id = next(LinkId(first + n) for n in range(LINKS_A_PAIR_MAX) if first + n not in pair)
    link = CoreLink(link_id, opener, acceptor)
    before = sum(each.link_id < first + LINKS_A_PAIR_MAX for each in links)
    return (*links[:before], link, *links[before:]), link_id


def replaced(links: CoreLinks, old: CoreLink, new: CoreLink) -> CoreLinks:
    """Replace `old` by `new`. A link that is closed at both ends is removed."""
    at = links.index(old)
    return links[:at] + (() if new.is_over else (new,)) + links[at + 1 :]


def found(links: CoreLinks, link_id: LinkId) -> CoreLink | None:
    """Return the connection with that id, or None."""
    for link in links:
        if link.link_id == link_id:
            return link
    return None


def one_by_one(packets: Sequence[Packet]) -> list[Packet]:
    """Return the packets as they are sent on a link: each proposed transaction in a packet of its own."""
    out: list[Packet] = []
    for packet in packets:
        if isinstance(packet, Proposal):
            out += [packet] if len(packet.txns) == 1 else [Proposal((txn,)) for txn in packet.txns]
        else:
            out.append(packet)
    return out
