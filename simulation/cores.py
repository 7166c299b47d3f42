"""The bare protocol, one step at a time: peers over lists, links and disks in which nothing happens by itself.

Whoever drives it chooses every delivery, every fsync, every crash; the pure cores are the real ones.  Scenarios that
need a crash between exactly these two steps, the exhaustive search and the state machine of the tests are made of it.
After every step all of ZAB's invariants have been checked; what did not hold is in `problems`.

A `Cores` can be forked: the twin shares what nobody touches.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import msgspec

from ensemble.effects import (
    Answer,
    Append,
    CancelTimer,
    CloseConnection,
    CloseLink,
    Effect,
    Emit,
    Halt,
    OpenLink,
    ReadLog,
    Recovered,
    SendNotification,
    SendPackets,
    SetTimer,
    TruncateLog,
    UseMembership,
)
from ensemble.effects import Barrier as DiskBarrier
from ensemble.ids import ConnectionId, LinkId, PeerId, Zxid
from ensemble.ports import Instant
from ensemble.records import OpCode, Reply, Request
from ensemble.txn import Txn
from ensemble.zab.application import EnsembleConfig
from ensemble.zab.core import Phase
from ensemble.zab.messages import Commit, Notification, Packet
from ensemble.zab.peer import Peer
from journal.events import Entry, Event, LearnerSynced, NodeStarted
from journal.invariants import AcknowledgedWritesSurvive, CommittedPrefixesAgree, OneLeaderPerEpoch, Watchdog
from journal.zab_invariants import zab_checkers
from simulation.cloning import clone, fingerprint
from simulation.core_disk import CoreDisk
from simulation.disk import DISK_EFFECTS
from simulation.list_application import ListApplication
from simulation.rules import broken_rule, is_prefix, without_quorum
from simulation.wire import one_by_one

SNAP_COUNT = 1_000
TICK_MS = 500


class Steady:
    """Draws the lowest number there is: nothing is left to chance here."""

    def randrange(self, start: int, stop: int, /) -> int:
        """The lowest."""
        return start

    def random(self) -> float:
        """The lowest."""
        return 0.0

    def getrandbits(self, k: int, /) -> int:
        """The lowest."""
        return 0


class CoreLink(msgspec.Struct, frozen=True):
    """One connection: who opened it, and what is under way to each end; None is the other side's close."""

    opener: int
    acceptor: int
    to_acceptor: tuple[Packet | None, ...] = ()
    to_opener: tuple[Packet | None, ...] = ()
    opener_open: bool = True
    acceptor_open: bool = True

    def under_way_to(self, peer: int) -> tuple[Packet | None, ...]:
        """What that end will get."""
        return self.to_opener if peer == self.opener else self.to_acceptor

    def is_open_at(self, peer: int) -> bool:
        """Has that end neither closed nor heard of the other's close?"""
        return self.opener_open if peer == self.opener else self.acceptor_open

    def other(self, peer: int) -> int:
        """Who is at the other end."""
        return self.acceptor if peer == self.opener else self.opener

    def with_queue(self, peer: int, queue: tuple[Packet | None, ...]) -> CoreLink:
        """The same with another queue towards that end."""
        field = "to_opener" if peer == self.opener else "to_acceptor"
        return msgspec.structs.replace(self, **{field: queue})

    def closed_at(self, peer: int) -> CoreLink:
        """The same, closed at that end: nothing reaches it any more."""
        if peer == self.opener:
            return msgspec.structs.replace(self, opener_open=False, to_opener=())
        return msgspec.structs.replace(self, acceptor_open=False, to_acceptor=())


class CoreNode:
    """One server: what its disk holds, what waits for it, and the process, if there is one."""

    __slots__ = ("application", "disk", "halted", "life", "peer", "queue", "seal", "timers")

    def __init__(self) -> None:
        self.disk = CoreDisk()
        self.queue: tuple[Effect, ...] = ()
        self.peer: Peer | None = None
        self.application: ListApplication | None = None
        self.timers: dict[str, int] = {}
        self.halted: str | None = None
        self.life = 0
        self.seal: bytes | None = None

    def twin(self) -> CoreNode:
        """A copy whose process runs on by itself."""
        other = copy(self)
        other.timers = dict(self.timers)
        other.seal = None
        if self.peer is not None:
            other.peer, other.application = clone((self.peer, self.application))
        return other

    def digest(self) -> bytes:
        """Equal for nodes that will behave the same."""
        if self.seal is None:
            self.seal = fingerprint((self.disk, self.queue, self.peer, list(self.timers), self.halted))
        return self.seal


class Cores:
    """All servers of one ensemble, their links, and what was said on the election ports."""

    def __init__(
        self, voters: int = 3, snap_count: int = SNAP_COUNT, cumulative: bool = True, *, keeps_journal: bool = False
    ) -> None:
        self.voters = tuple(range(1, voters + 1))
        self.nodes = {peer: CoreNode() for peer in self.voters}
        self.links: dict[LinkId, CoreLink] = {}
        self.notifications: tuple[tuple[int, int, Notification], ...] = ()
        self.answered: tuple[tuple[int, int], ...] = ()
        """Of every request that was answered, its number and the zxid in the answer."""
        self.synced: tuple[tuple[int, str], ...] = ()
        """Every synchronisation so far: whose, and its mode."""
        self.now_ms = 0
        self.steps = 0
        self.problems: list[str] = []
        self.journal: list[Entry] = []
        self._keeps_journal = keeps_journal
        self._snap_count = snap_count
        self._cumulative = cumulative
        self._watchdog = Watchdog(
            [OneLeaderPerEpoch(), CommittedPrefixesAgree(), AcknowledgedWritesSurvive(), *zab_checkers()]
        )
        self._own_watchdog = True
        self._owned = set(self.voters)
        self._sent = 0
        self._opened = 0
        self._dials: list[tuple[int, int, int]] = []
        self._reads: list[tuple[int, int, ReadLog]] = []

    def fork(self) -> Cores:
        """A twin that goes another way from here."""
        twin = copy(self)
        twin.nodes = dict(self.nodes)
        twin.links = dict(self.links)
        twin.problems = list(self.problems)
        twin._dials = list(self._dials)
        twin._reads = list(self._reads)
        # From now on neither owns anything: whoever changes a node takes a copy first.
        twin._owned = set()
        twin._own_watchdog = False
        self._owned = set()
        self._own_watchdog = False
        return twin

    def digest(self) -> bytes:
        """Equal for states from which the same can happen."""
        nodes = [self.nodes[peer].digest() for peer in self.voters]
        return fingerprint((nodes, list(self.links.values()), self.notifications))

    def _own(self, peer: int) -> CoreNode:
        if peer not in self._owned:
            self.nodes[peer] = self.nodes[peer].twin()
            self._owned.add(peer)
        node = self.nodes[peer]
        node.seal = None
        return node

    def name(self, peer: int) -> str:
        """Its node name in the journal."""
        return f"peer-{peer}"

    # -- processes ---------------------------------------------------------------------------------------------------

    def is_up(self, peer: int) -> bool:
        """Does its process run?"""
        node = self.nodes[peer]
        return node.peer is not None and node.halted is None

    def start(self, peer: int) -> None:
        """Start the process on what its disk holds."""
        node = self._own(peer)
        assert node.peer is None, f"{peer} runs already"
        config = EnsembleConfig(peer, self.voters, tick_time_ms=TICK_MS, snap_count=self._snap_count, full_journal=True)
        node.life += 1
        node.halted = None
        node.application = ListApplication()
        node.peer = Peer(config, node.application, node.disk.recovered(), Steady(), cumulative=self._cumulative)
        self._see(peer, NodeStarted("peer", peer, {}))
        self._turn(peer, node.peer.on_start)

    def crash(self, peer: int, written: int = 0) -> None:
        """Kill it.  Of what waits for the disk the first `written` operations are done; the rest never is."""
        node = self._own(peer)
        for effect in node.queue[:written]:
            node.disk = node.disk.after(effect)
        node.queue = ()
        node.peer = node.application = None
        node.timers = {}
        self.notifications = tuple(n for n in self.notifications if peer not in n[:2])
        for link_id, link in list(self.links.items()):
            if peer in (link.opener, link.acceptor):
                self._close(link_id, peer)

    def break_links(self, one: int, other: int) -> None:
        """Reset every connection between two servers: what is under way is lost, both ends learn of it."""
        for link_id, link in list(self.links.items()):
            if {link.opener, link.acceptor} == {one, other}:
                for end in (one, other):
                    if link.is_open_at(end):
                        link = link.with_queue(end, (None,))
                self.links[link_id] = link

    # -- steps -------------------------------------------------------------------------------------------------------

    def next_to(self, source: int, target: int) -> tuple[LinkId, Packet | None] | None:
        """The oldest thing under way from source to target, None where there is none."""
        for link_id, link in self.links.items():
            if {link.opener, link.acceptor} == {source, target}:
                queue = link.under_way_to(target)
                if queue:
                    return link_id, queue[0]
        return None

    def deliver(self, source: int, target: int) -> Packet | None:
        """Hand over the next packet (or the end of the connection: None) from source to target."""
        found = self.next_to(source, target)
        assert found is not None, f"nothing is under way from {source} to {target}"
        link_id, packet = found
        link = self.links[link_id]
        self.links[link_id] = link.with_queue(target, link.under_way_to(target)[1:])
        if packet is None:
            self._forget(link_id, target)
            self._turn(target, lambda now: self._peer(target).on_link_down(now, link_id))
        else:
            self._turn(target, lambda now: self._peer(target).on_packets(now, link_id, [packet]))
        return packet

    def sync_disk(self, peer: int) -> None:
        """Let its disk work up to the next barrier or truncation, and say so."""
        node = self._own(peer)
        while node.queue:
            effect, node.queue = node.queue[0], node.queue[1:]
            node.disk = node.disk.after(effect)
            if isinstance(effect, DiskBarrier):
                self._durable(peer, effect.token)
                return
            if isinstance(effect, TruncateLog):
                self._recovered(peer, node.disk.recovered())
                return

    def _durable(self, peer: int, token: int) -> None:
        self._turn(peer, lambda now: self._peer(peer).on_durable(now, token))

    def _recovered(self, peer: int, recovered: Recovered) -> None:
        self._turn(peer, lambda now: self._peer(peer).on_recovered(now, recovered))

    def fire(self, peer: int, timer: str) -> None:
        """Let time pass until that timer is due."""
        node = self._own(peer)
        self.now_ms = max(self.now_ms, node.timers.pop(timer))
        self._turn(peer, lambda now: self._peer(peer).on_timer(now, timer))

    def write(self, peer: int) -> int:
        """A client of that peer writes; the number under which `answered` will know it."""
        return self._request(peer, OpCode.SET_DATA)

    def sync(self, peer: int) -> int:
        """A client of that peer syncs."""
        return self._request(peer, OpCode.SYNC)

    def _request(self, peer: int, op: OpCode) -> int:
        self._sent += 1
        number = self._sent
        request = Request(number, op, None)
        self._turn(peer, lambda now: self._peer(peer).on_clients(now, [(ConnectionId(number), request)]))
        return number

    def notify(self, position: int = 0) -> None:
        """Deliver one of the election messages under way."""
        source, target, notification = self.notifications[position]
        self.notifications = self.notifications[:position] + self.notifications[position + 1 :]
        if self.is_up(target):
            self._turn(target, lambda now: self._peer(target).on_notification(now, PeerId(source), notification))

    # -- what the cores ask for --------------------------------------------------------------------------------------

    def _peer(self, peer: int) -> Peer:
        running = self.nodes[peer].peer
        assert running is not None, f"{peer} is down"
        return running

    def _turn(self, peer: int, handler: Callable[[Instant], list[Effect]]) -> None:
        self.steps += 1
        self._own(peer)
        try:
            for effect in handler(Instant(self.now_ms, 1_000_000 + self.now_ms)):
                self._perform(peer, effect)
        except AssertionError as broken:
            self.problems.append(f"assertion at {self.name(peer)}: {broken}")
            self.nodes[peer].halted = str(broken)
        while self._dials:
            source, life, to = self._dials.pop(0)
            self._dial(source, life, to)
        while self._reads:
            reader, life, wanted = self._reads.pop(0)
            self._read_log(reader, life, wanted)

    def _perform(self, peer: int, effect: Effect) -> None:
        node = self.nodes[peer]
        if isinstance(effect, Append):
            # A crash may leave any number of the first of them.
            node.queue = (*node.queue, *(Append([txn]) for txn in effect.txns))
        elif isinstance(effect, DISK_EFFECTS):
            node.queue = (*node.queue, effect)
        elif isinstance(effect, SendPackets):
            for packet in one_by_one(effect.packets):
                self._send(peer, effect.link, packet)
        elif isinstance(effect, SendNotification):
            self.notifications = (*self.notifications, (peer, effect.to, effect.notification))
        elif isinstance(effect, OpenLink):
            self._dials.append((peer, node.life, effect.to))
        elif isinstance(effect, ReadLog):
            self._reads.append((peer, node.life, effect))
        elif isinstance(effect, CloseLink):
            if effect.link in self.links:
                self._close(effect.link, peer)
        elif isinstance(effect, SetTimer):
            node.timers[effect.name] = self.now_ms + effect.delay_ms
        elif isinstance(effect, CancelTimer):
            node.timers.pop(effect.name, None)
        elif isinstance(effect, Emit):
            self._see(peer, effect.event)
        elif isinstance(effect, Answer):
            if isinstance(effect.message, Reply):
                self.answered = (*self.answered, (effect.message.xid, effect.message.zxid))
        elif isinstance(effect, Halt):
            node.halted = effect.reason
            self.problems.append(f"{self.name(peer)} halted: {effect.reason}")
        else:
            assert isinstance(effect, CloseConnection | UseMembership), f"unknown effect {effect}"

    def _read_log(self, reader: int, life: int, wanted: ReadLog) -> None:
        if self.is_up(reader) and self.nodes[reader].life == life:
            txns = self.nodes[reader].disk.read_log(wanted.after, wanted.base)
            self._turn(reader, lambda now: self._peer(reader).on_log_read(now, wanted.link, wanted.after, txns))

    def _dial(self, source: int, life: int, to: int) -> None:
        if not self.is_up(source) or self.nodes[source].life != life:
            return
        if not self.is_up(to):
            # It tries again until its patience ends; nobody else is concerned, so let that be now.
            self.now_ms += 2_000
            self._turn(source, lambda now: self._peer(source).on_link_failed(now, PeerId(to)))
            return
        self._opened += 1
        link_id = LinkId(self._opened)
        self.links[link_id] = CoreLink(source, to)
        self._turn(to, lambda now: self._peer(to).on_link_accepted(now, link_id))
        self._turn(source, lambda now: self._peer(source).on_link_up(now, link_id, PeerId(to)))

    def _send(self, peer: int, link_id: LinkId, packet: Packet) -> None:
        self._check_packet(peer, packet)
        link = self.links.get(link_id)
        if link is None or not link.is_open_at(peer):
            return
        to = link.other(peer)
        queue = link.under_way_to(to)
        if link.is_open_at(to) and (not queue or queue[-1] is not None):
            self.links[link_id] = link.with_queue(to, (*queue, packet))

    def _close(self, link_id: LinkId, peer: int) -> None:
        link = self.links[link_id].closed_at(peer)
        to = link.other(peer)
        queue = link.under_way_to(to)
        if link.is_open_at(to) and (not queue or queue[-1] is not None):
            link = link.with_queue(to, (*queue, None))
        self.links[link_id] = link
        self._forget(link_id, peer)

    def _forget(self, link_id: LinkId, peer: int) -> None:
        link = self.links[link_id].closed_at(peer)
        if link.opener_open or link.acceptor_open:
            self.links[link_id] = link
        else:
            del self.links[link_id]

    # -- the invariants ----------------------------------------------------------------------------------------------

    def _see(self, peer: int, event: Event) -> None:
        if not self._own_watchdog:
            self._watchdog = clone(self._watchdog)
            self._own_watchdog = True
        before = len(self._watchdog.violations)
        entry = Entry(self.name(peer), self.steps, self.now_ms * 1000, self.now_ms * 1000, event, len(self.journal) + 1)
        if self._keeps_journal:
            self.journal.append(entry)
        self._watchdog.see(entry)
        self.problems += [f"{v.invariant}: {v.detail}" for v in self._watchdog.violations[before:]]
        if isinstance(event, LearnerSynced):
            self.synced = (*self.synced, (peer, event.mode))
            self._check_process_consistency(peer, event.leader_id)

    def _check_packet(self, peer: int, packet: Packet) -> None:
        core = self._peer(peer)
        broken = broken_rule(packet, self.nodes[peer].disk, core.accepted_epoch)
        if broken is None and isinstance(packet, Commit) and core.phase is Phase.BROADCAST:
            disks: dict[int, Any] = {other: node.disk for other, node in self.nodes.items()}
            broken = without_quorum(Zxid(packet.zxid), core.quorum, disks)
        if broken is not None:
            self.problems.append(f"{self.name(peer)} broke {broken}")

    def _check_process_consistency(self, follower: int, leader: int) -> None:
        if not self.is_up(leader):
            return
        queued: list[int] = [txn.zxid for txn in appended(self.nodes[leader].queue)]
        if not is_prefix(self.nodes[follower].disk.history(), self.nodes[leader].disk.history() + queued):
            self.problems.append(
                f"processConsistency: {follower} acknowledged {leader}'s history with another of its own"
            )


def appended(queue: tuple[Effect, ...]) -> list[Txn]:
    """The transactions that wait for the disk."""
    return [txn for effect in queue if isinstance(effect, Append) for txn in effect.txns]
