"""The connections of the bare protocol as values: queues in both directions, and who has closed its end."""

from __future__ import annotations

from zabka.ensemble.ids import LinkId
from zabka.ensemble.zab.messages import Packet

LINKS_A_PAIR_MAX = 100
UnderWay = tuple[Packet | None, ...]
"""What one end will get, oldest first; None is the other side's close."""


class CoreLink:
    """One connection: who opened it, what is under way to each end, and which ends are open.  Never changed."""

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
        """What that end will get."""
        return self.to_opener if peer == self.opener else self.to_acceptor

    def is_open_at(self, peer: int) -> bool:
        """Has that end neither closed nor heard of the other's close?"""
        return self.opener_open if peer == self.opener else self.acceptor_open

    def other(self, peer: int) -> int:
        """Who is at the other end."""
        return self.acceptor if peer == self.opener else self.opener

    def joins(self, one: int, other: int) -> bool:
        """Whether the link is between these two."""
        return (self.opener, self.acceptor) in ((one, other), (other, one))

    def with_queue(self, peer: int, queue: UnderWay) -> CoreLink:
        """This link with another queue towards that end."""
        to_acceptor, to_opener = (self.to_acceptor, queue) if peer == self.opener else (queue, self.to_opener)
        return self._but(to_acceptor=to_acceptor, to_opener=to_opener)

    def _but(
        self,
        to_acceptor: UnderWay | None = None,
        to_opener: UnderWay | None = None,
        opener_open: bool = True,
        acceptor_open: bool = True,
    ) -> CoreLink:
        """This link with other queues, or with an end closed."""
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
        """This link with one more packet from `sender` under way; nothing follows a close, or reaches a closed end."""
        to = self.other(sender)
        queue = self.under_way_to(to)
        if not self.is_open_at(to) or (queue and queue[-1] is None):
            return self
        return self.with_queue(to, (*queue, packet))

    def closed_at(self, peer: int) -> CoreLink:
        """This link, closed at that end: nothing reaches it any more."""
        if peer == self.opener:
            return self._but(to_opener=(), opener_open=False)
        return self._but(to_acceptor=(), acceptor_open=False)

    @property
    def is_over(self) -> bool:
        """Whether the link has ended on both sides."""
        return not self.opener_open and not self.acceptor_open

    def key(self) -> tuple[object, ...]:
        """Equal for links that are the same, where every packet is kept once (`zabka.simulation.cores.turns`)."""
        if self._key is None:
            queues = tuple(map(id, self.to_acceptor)), tuple(map(id, self.to_opener))
            self._key = (self.link_id, self.opener, self.opener_open, self.acceptor_open, *queues)
        return self._key


CoreLinks = tuple[CoreLink, ...]
"""Every connection there is: by pair, and of a pair by age."""


def opened(links: CoreLinks, opener: int, acceptor: int) -> tuple[CoreLinks, LinkId]:
    """One more connection, under the lowest number that no connection of the pair has: so states that differ only in
    how many connections there were before are one."""
    pair = [link.link_id for link in links if link.joins(opener, acceptor)]
    low, high = sorted((opener, acceptor))
    first = (low * 100 + high) * LINKS_A_PAIR_MAX
    link_id = next(LinkId(first + n) for n in range(LINKS_A_PAIR_MAX) if first + n not in pair)
    link = CoreLink(link_id, opener, acceptor)
    before = sum(each.link_id < first + LINKS_A_PAIR_MAX for each in links)
    return (*links[:before], link, *links[before:]), link_id


def replaced(links: CoreLinks, old: CoreLink, new: CoreLink) -> CoreLinks:
    """`new` in the place of `old`; one that is over is gone."""
    at = links.index(old)
    return links[:at] + (() if new.is_over else (new,)) + links[at + 1 :]


def found(links: CoreLinks, link_id: LinkId) -> CoreLink | None:
    """The connection of that number, if there is one."""
    for link in links:
        if link.link_id == link_id:
            return link
    return None
