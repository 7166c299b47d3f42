"""The bare ZAB protocol, one step at a time: peers on simulated links and disks, whose steps the caller starts.

The caller chooses every delivery, every fsync and every crash. The protocol code itself is the production code. This
module is used by scenarios that need a crash between two particular steps, by the exhaustive search, and by the state
machine of the tests. All invariants of ZAB are checked after every step; `problems` lists the violations.

A `BareEnsemble` can be forked. With `CachedTransitions` a fork costs almost nothing, and no input is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

from zabka.ensemble.ids import LinkId, Zxid
from zabka.ensemble.records import OpCode
from zabka.ensemble.zab.application import EnsembleConfig
from zabka.ensemble.zab.messages import Notification, Packet
from zabka.journal.events import Entry, LearnerSynced, TxnLogTruncated
from zabka.simulation.steps.canonical import node_digest
from zabka.simulation.steps.cloning import fingerprint
from zabka.simulation.steps.links import CoreLink, CoreLinks, found, opened, replaced
from zabka.simulation.steps.node import CoreNode, Outcome
from zabka.simulation.steps.rules import DurableState, is_prefix, without_quorum
from zabka.simulation.steps.transitions import DirectTransitions, Monitor, Transitions

SNAP_COUNT = 1_000
TICK_MS = 500


class BareEnsemble:
    """All servers of one ensemble, their links, and the election messages in flight."""

    def __init__(
        self,
        voters: int = 3,
        snap_count: int = SNAP_COUNT,
        cumulative: bool = True,
        *,
        keeps_journal: bool = False,
        turns: Transitions | None = None,
    ) -> None:
        self.voters = tuple(range(1, voters + 1))
        self.nodes = {peer: self._make_node(peer, snap_count, cumulative) for peer in self.voters}
        self.links: CoreLinks = ()
        self.notifications: tuple[tuple[int, int, Notification], ...] = ()
        self.answered: tuple[tuple[int, int], ...] = ()
        """Every request that has received a reply: its number, and the zxid in the reply."""
        self.synced: tuple[tuple[int, str], ...] = ()
        """Every synchronisation so far: the learner and the mode (such as DIFF)."""
        self.asked = 0
        self.steps = 0
        self.problems: list[str] = []
        self.journal: list[Entry] = []
        self.turns: Transitions = turns or DirectTransitions()
        self.monitor = Monitor()
        self._keeps_journal = keeps_journal

    def _make_node(self, peer: int, snap_count: int, cumulative: bool) -> CoreNode:
        config = EnsembleConfig(peer, self.voters, tick_time_ms=TICK_MS, snap_count=snap_count, full_journal=True)
        return CoreNode(config, cumulative)

    def fork(self) -> BareEnsemble:
        """Return an independent copy, on which other steps can be performed."""
        twin = copy(self)
        twin.nodes, twin.monitor = self.turns.fork(self.nodes, self.monitor)
        twin.problems = list(self.problems)
        twin.journal = list(self.journal)
        return twin

    def digest(self) -> bytes:
        """Return a digest that is equal for states with the same possible behaviour."""
        nodes = [node_digest(self.nodes[peer]) for peer in self.voters]
        links = [
            (link.link_id, link.opener_open, link.acceptor_open, link.to_acceptor, link.to_opener)
            for link in self.links
        ]
        return fingerprint((nodes, links, self.notifications, self.monitor.digest()))

    @property
    def now_ms(self) -> int:
        """Return the time on the peers' clocks."""
        return self.nodes[1].now_ms

    def reset_rounds(self) -> None:
        """Lower all election rounds so that the lowest round of a running process is 1, as after its start."""
        rounds = [node.status.round for node in self.nodes.values() if node.status is not None]
        lowest = min(rounds, default=1)
        if lowest > 1:
            for peer in self.voters:
                self.nodes[peer], _ = self.turns.apply_input(self.nodes[peer], CoreNode.lower_round, lowest - 1)

    # -- processes ---------------------------------------------------------------------------------------------------

    def is_up(self, peer: int) -> bool:
        """Return whether the peer's process is running."""
        return self.nodes[peer].is_up

    def start(self, peer: int) -> None:
        """Start the peer's process with the data on its disk."""
        self._turn(peer, CoreNode.start)

    def crash(self, peer: int, written: int = 0) -> None:
        """Kill the peer. Its disk still performs the first `written` of the waiting operations; the others are lost."""
        self._turn(peer, CoreNode.crash, written)
        self.notifications = tuple(n for n in self.notifications if peer not in n[:2])
        for link in self.links:
            if peer in (link.opener, link.acceptor):
                self._close(link, peer)

    def break_links(self, one: int, other: int) -> None:
        """Reset every connection between two servers: packets in flight are lost, and both ends are notified."""
        for link in self.links:
            if link.joins(one, other):
                broken = link
                for end in (one, other):
                    if link.is_open_at(end):
                        broken = broken.with_queue(end, (None,))
                self.links = replaced(self.links, link, broken)

    # -- steps -------------------------------------------------------------------------------------------------------

    def carrying(self, source: int, target: int) -> list[CoreLink]:
        """Return the connections that have packets in flight from source to target, oldest first."""
        return [link for link in self.links if link.joins(source, target) and link.under_way_to(target)]

    def next_to(self, source: int, target: int) -> tuple[LinkId, Packet | None] | None:
        """Return the oldest packet in flight from source to target, with its connection; None if there is none.

        If the other end has closed the connection, the packet is None and stands for the close.
        """
        for link in self.links:
            if link.joins(source, target) and (queue := link.under_way_to(target)):
                return link.link_id, queue[0]
        return None

    def deliver(self, source: int, target: int, link_number: int = 0) -> Packet | None:
        """Deliver the next packet from source to target, or the close of the connection, and return the packet or None.

        `link_number` is the index of the connection among those that have packets in flight, oldest first.
        """
        carrying = self.carrying(source, target)
        assert link_number < len(carrying), f"nothing is under way from {source} to {target}"
        link = carrying[link_number]
        queue = link.under_way_to(target)
        packet = queue[0]
        taken = link.with_queue(target, queue[1:])
        if packet is None:
            self.links = replaced(self.links, link, taken.closed_at(target))
            self._turn(target, CoreNode.lose_link, link.link_id)
        else:
            self.links = replaced(self.links, link, taken)
            self._turn(target, CoreNode.hear, link.link_id, packet)
        return packet

    def lose(self, source: int, target: int, link_number: int = 0) -> None:
        """Lose everything that source sent on a connection before it closed the connection; only the close arrives."""
        link = self.carrying(source, target)[link_number]
        assert link.under_way_to(target)[-1] is None, "the connection is open"
        self.links = replaced(self.links, link, link.with_queue(target, (None,)))
        self.deliver(source, target, link_number)

    def sync_disk(self, peer: int) -> None:
        """Perform the waiting disk operations up to the next barrier or truncation, and notify the process."""
        self._turn(peer, CoreNode.sync_disk)

    def fire(self, peer: int, timer: str, silence_ms: int = 0) -> None:
        """Advance the peer's clock until the timer is due, and by at least `silence_ms`."""
        self._turn(peer, CoreNode.fire, timer, silence_ms)

    def write(self, peer: int) -> int:
        """Send a write from a client of that peer. Return the number under which its reply will be in `answered`."""
        return self._request(peer, OpCode.SET_DATA)

    def sync(self, peer: int) -> int:
        """Send a sync request from a client of `peer`.

        Return the number of the request; `answered` will contain the reply under this number.
        """
        return self._request(peer, OpCode.SYNC)

    def _request(self, peer: int, op: OpCode) -> int:
        self.asked += 1
        self._turn(peer, CoreNode.ask, self.asked, op)
        return self.asked

    def notify(self, position: int = 0) -> None:
        """Deliver the election message in flight with the index `position`."""
        source, target, notification = self.notifications[position]
        self.notifications = self.notifications[:position] + self.notifications[position + 1 :]
        if self.is_up(target):
            self._turn(target, CoreNode.receive_failure, source, notification)

    # -- results of a step -------------------------------------------------------------------------------------------

    def _turn(self, peer: int, call: Callable[..., None], *args: object) -> None:
        self.steps += 1
        node, outcome = self.turns.apply_input(self.nodes[peer], call, *args)
        self.nodes[peer] = node
        if outcome.waited_ms:
            self._let_others_wait(peer, outcome.waited_ms)
        self.problems += outcome.problems
        for zxid in outcome.commits:
            self._check_commit(peer, node, zxid)
        for link_id, packet in outcome.traffic:
            link = found(self.links, link_id)
            if link is not None and packet is None:
                self._close(link, peer)
            elif link is not None and link.is_open_at(peer):
                self.links = replaced(self.links, link, link.with_sent(peer, packet))
        if outcome.notes:
            self.notifications += tuple((peer, to, notification) for to, notification in outcome.notes)
        self.answered += outcome.answers
        if outcome.events:
            self._see(peer, outcome)
        for to in outcome.dials:
            self._dial(peer, to)

    def _let_others_wait(self, peer: int, waited_ms: int) -> None:
        for other in self.voters:
            if other != peer:
                self.nodes[other], _ = self.turns.apply_input(self.nodes[other], CoreNode.wait, waited_ms)

    def _dial(self, source: int, to: int) -> None:
        if not self.is_up(source):
            return
        if not self.is_up(to):
            self._turn(source, CoreNode.dial_in_vain, to)
            return
        self.links, link_id = opened(self.links, source, to)
        self._turn(to, CoreNode.accept_link, link_id)
        self._turn(source, CoreNode.gain_link, link_id, to)

    def _close(self, link: CoreLink, peer: int) -> None:
        if link.is_open_at(peer):
            self.links = replaced(self.links, link, link.closed_at(peer).with_sent(peer, None))

    # -- the invariants ----------------------------------------------------------------------------------------------

    def _see(self, peer: int, outcome: Outcome) -> None:
        def entries() -> list[Entry]:
            name, now_us, seq = f"peer-{peer}", self.now_ms * 1000, len(self.journal)
            return [
                Entry(name, self.steps, now_us, now_us, event, seq + number)
                for number, event in enumerate(outcome.events, 1)
            ]

        committed = self.monitor.last_committed
        self.monitor, problems = self.turns.watch(self.monitor, peer, outcome, entries)
        self.problems += problems
        if self.monitor.last_committed > committed:
            self._check_commit(peer, self.nodes[peer], self.monitor.last_committed)
        if self._keeps_journal:
            self.journal += entries()
        for event in outcome.events:
            if isinstance(event, LearnerSynced):
                self.synced = (*self.synced, (peer, event.mode))
                self._check_process_consistency(peer, event.leader_id)
            if isinstance(event, TxnLogTruncated | LearnerSynced) and self.monitor.last_committed:
                self._check_commit(peer, self.nodes[peer], self.monitor.last_committed)

    def _check_commit(self, peer: int, node: CoreNode, zxid: Zxid) -> None:
        disks: dict[int, DurableState] = {other: each.disk for other, each in self.nodes.items()}
        assert node.peer is not None
        broken = without_quorum(zxid, node.peer.quorum, disks)
        if broken is not None:
            self.problems.append(f"peer-{peer} broke {broken}")

    def _check_process_consistency(self, follower: int, leader: int) -> None:
        if self.is_up(leader) and not is_prefix(self.nodes[follower].disk.history(), self.nodes[leader].logged()):
            self.problems.append(
                f"processConsistency: {follower} acknowledged {leader}'s history with another of its own"
            )
