"""A small deterministic world for the ZAB core, with virtual clock, disks, links and faults.

The invariants are checked after every step.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random

import msgspec

from tests.ensemble.zab.list_application import Entry, ListApplication
from tests.ensemble.zab.peer_disk import Disk
from zabka.ensemble.ids import ConnectionId, LinkId, PeerId, counter_of, epoch_of
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import OpCode, ReconfigRequest, Reply, Request
from zabka.ensemble.zab.application import EnsembleConfig
from zabka.ensemble.zab.effects import (
    Answer,
    Barrier,
    CancelTimer,
    CloseConnection,
    CloseLink,
    Effect,
    Emit,
    Halt,
    OpenLink,
    ReadLog,
    SaveSnapshot,
    SendNotification,
    SendPackets,
    SetTimer,
    TruncateLog,
    UseMembership,
)
from zabka.ensemble.zab.membership import Membership
from zabka.ensemble.zab.messages import Ack, AckEpoch, LeaderInfo, Packet
from zabka.ensemble.zab.peer import Peer
from zabka.ensemble.zab.role import Phase
from zabka.journal.events import Event, LeaderEstablished
from zabka.simulation.steps.links import one_by_one


class Link:
    """Both ends of one connection. End 0 is the end that opened it."""

    def __init__(self, ids: tuple[LinkId, LinkId], nodes: tuple[Node, Node]) -> None:
        self.ids, self.nodes = ids, nodes
        self.lives = (nodes[0].life, nodes[1].life)
        self.arrival = [0, 0]
        self.open = [True, True]
        self.stalled: list[list[Callable[[], None]]] = [[], []]


class Node:
    """One server. Its disk remains when its process ends."""

    def __init__(self, world: World, id: int) -> None:
        self.world, self.id = world, PeerId(id)
        self.disk = Disk()
        self.life = 0
        self.alive = False
        self.paused = False
        self.backlog: list[Callable[[], None]] = []
        self.timers: dict[str, int] = {}
        self.queue: deque[Effect] = deque()
        self.disk_busy = False
        self.peer: Peer
        self.app: ListApplication
        self.halted: str | None = None
        self.reaches: tuple[Membership, Membership] | None = None
        self.clock_offset_ms = 0


class World:
    """Peers connected by simulated links. The invariants are checked after every turn of a peer."""

    def __init__(
        self, seed: int, voters: int = 3, observers: int = 0, spares: int = 0, loss: float = 0.02, **options: object
    ) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self.loss = loss
        self.delay_ms = (1, 5)
        self.disk_ms = (1, 8)
        self.cumulative: dict[int, bool] = {}
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._ids = 0
        ids = tuple(range(1, voters + 1))
        watchers = tuple(range(voters + 1, voters + observers + 1))
        self.options = {"tick_time_ms": 200, "init_limit": 10, "sync_limit": 5, "snap_count": 40, **options}
        self.voters, self.observers = ids, watchers
        extra = tuple(range(voters + observers + 1, voters + observers + spares + 1))
        self.nodes = {i: Node(self, i) for i in ids + watchers + extra}
        self.own_membership: dict[int, str] = {}
        self.links: dict[LinkId, tuple[Link, int]] = {}
        self.cut: set[tuple[int, int]] = set()
        self.events: list[tuple[int, int, Event]] = []
        self.sent: list[tuple[int, int, object]] = []
        self.record = False
        self.committed: list[Entry] = []
        self.acknowledged: dict[int, bytes] = {}
        self.leaders: dict[int, int] = {}
        self.syncs: dict[tuple[int, int], int] = {}
        self.answered_syncs = 0
        self.closed: list[ConnectionId] = []
        self.unreachable_hints = False

    # -- time

    def at(self, delay_ms: int, call: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self._order, call))

    def run(self, ms: int) -> None:
        end = self.now_ms + ms
        while self._heap and self._heap[0][0] <= end:
            self.now_ms, _, call = heapq.heappop(self._heap)
            call()
        self.now_ms = end

    def run_until(self, condition: Callable[[], bool], ms: int = 30_000) -> None:
        end = self.now_ms + ms
        while not condition():
            assert self._heap and self._heap[0][0] <= end, f"not reached within {ms} ms:\n{self.describe()}"
            self.now_ms, _, call = heapq.heappop(self._heap)
            call()

    def describe(self) -> str:
        return "\n".join(str(n.peer.status()) if n.alive else f"{i} down" for i, n in self.nodes.items())

    def draw(self, bounds: tuple[int, int]) -> int:
        return self.random.randrange(bounds[0], bounds[1] + 1)

    # -- nodes

    def start(self, *ids: int) -> None:
        for i in ids or self.voters + self.observers:
            node = self.nodes[i]
            if node.alive:
                continue
            config = EnsembleConfig(i, self.voters, self.observers, full_journal=True, **self.options)  # type: ignore[arg-type]
            if i in self.own_membership:
                config = msgspec.structs.replace(config, membership=self.own_membership[i])
            if node.disk.membership is not None:
                config = msgspec.structs.replace(config, membership=node.disk.membership.text)
            if node.disk.next_membership is not None:
                config = msgspec.structs.replace(config, next_membership=node.disk.next_membership.text)
            node.life += 1
            node.alive, node.paused, node.disk_busy = True, False, False
            node.timers, node.backlog, node.queue = {}, [], deque()
            node.app = ListApplication()
            node.app.on_committed = partial(self._check_committed, node)
            node.peer = Peer(
                config,
                node.app,
                node.disk.recovered(),
                Random(f"{i}.{node.life}"),
                cumulative=self.cumulative.get(i, True),
            )
            self.turn(node, partial(node.peer.on_start, self.instant()))

    def stop(self, i: int, power: bool = False) -> None:
        node = self.nodes[i]
        if not node.alive:
            return
        node.alive = False
        node.life += 1
        node.queue.clear()
        if power:
            node.disk.lose_power(self.random)
        for link, end in [(link, end) for link, end in self.links.values() if link.nodes[end] is node]:
            self._close(link, end, delay_ms=self.draw((20, 400)) if power else 0)

    def vanish(self, i: int) -> None:
        """Cut a server's power. Its peers are not notified, and messages held by a link fault are lost."""
        for link, end in [(link, end) for link, end in self.links.values() if link.nodes[end].id == i]:
            link.open[end] = False
            link.stalled = [[], []]
            del self.links[link.ids[end]]
        self.stop(i, power=True)

    def pause(self, i: int) -> None:
        self.nodes[i].paused = True

    def resume(self, i: int) -> None:
        node = self.nodes[i]
        node.paused = False
        backlog, node.backlog = node.backlog, []
        for call in backlog:
            call()

    def instant(self) -> Instant:
        return Instant(self.now_ms, 1_000_000 + self.now_ms)

    def deliver(self, node: Node, life: int, handler: Callable[[], list[Effect]]) -> None:
        if not node.alive or node.life != life:
            return
        if node.paused:
            node.backlog.append(lambda: self.deliver(node, life, handler))
            return
        self.turn(node, handler)

    def turn(self, node: Node, handler: Callable[[], list[Effect]]) -> None:
        for effect in handler():
            self._perform(node, effect)
        assert node.halted is None, node.halted

    # -- effects

    def _perform(self, node: Node, effect: Effect) -> None:
        life = node.life
        if self.record:
            self.sent.append((self.now_ms, node.id, effect))
        if isinstance(effect, SendPackets):
            self._send(node, effect)
        elif isinstance(effect, SendNotification):
            to = self.nodes[effect.to]
            if (node.id, to.id) not in self.cut and self.random.random() >= self.loss:
                self.at(
                    self.draw(self.delay_ms),
                    lambda: self.deliver(
                        to, to.life, lambda: to.peer.on_notification(self.instant(), node.id, effect.notification)
                    ),
                )
        elif isinstance(effect, OpenLink):
            self.at(self.draw(self.delay_ms), lambda: self._connect(node, life, effect.to))
        elif isinstance(effect, CloseLink):
            if effect.link in self.links:
                self._close(*self.links[effect.link])
        elif isinstance(effect, SetTimer):
            self._set_timer(node, effect)
        elif isinstance(effect, CancelTimer):
            node.timers.pop(effect.name, None)
        elif isinstance(effect, Emit):
            self.events.append((self.now_ms, node.id, effect.event))
            if isinstance(effect.event, LeaderEstablished):
                self._check_leader(node, effect.event)
        elif isinstance(effect, Answer):
            self._check_answer(node, effect)
        elif isinstance(effect, CloseConnection):
            self.closed.append(effect.connection)
        elif isinstance(effect, Halt):
            node.halted = effect.reason
        elif isinstance(effect, ReadLog):
            self._read_log(node, effect)
        elif isinstance(effect, UseMembership):
            node.reaches = (effect.current, effect.last_seen)
        else:
            if isinstance(effect, SaveSnapshot) and not effect.replaces_history:
                entries = [(n.czxid, n.data) for n in effect.snapshot.nodes]
                assert entries == self.committed[: len(entries)], "a snapshot holds an uncommitted transaction"
            node.queue.append(effect)
            self._pump(node)

    def _set_timer(self, node: Node, effect: SetTimer) -> None:
        self._order += 1
        mark, life = self._order, node.life
        node.timers[effect.name] = mark

        def fire() -> list[Effect]:
            if node.timers.get(effect.name) != mark:
                return []
            del node.timers[effect.name]
            return node.peer.on_timer(self.instant(), effect.name)

        self.at(effect.delay_ms, lambda: self.deliver(node, life, fire))

    def _read_log(self, node: Node, effect: ReadLog) -> None:
        life = node.life

        def read() -> list[Effect]:
            txns = node.disk.read_log(effect)
            return node.peer.on_log_read(self.instant(), effect.link, effect.after, txns)

        self.at(self.draw(self.disk_ms), lambda: self.deliver(node, life, read))

    def _pump(self, node: Node) -> None:
        if node.disk_busy or not node.queue:
            return
        node.disk_busy = True
        life = node.life

        def work() -> None:
            if node.life != life:
                return
            node.disk_busy = False
            effect = node.queue.popleft()
            node.disk.execute(effect)
            if isinstance(effect, Barrier):
                self.deliver(node, life, lambda: node.peer.on_durable(self.instant(), effect.token))
            elif isinstance(effect, TruncateLog):
                # Read the disk now, before later operations in the queue change it.
                recovered = node.disk.recovered()
                self.deliver(node, life, lambda: node.peer.on_recovered(self.instant(), recovered))
            self._pump(node)

        self.at(self.draw(self.disk_ms) if isinstance(node.queue[0], Barrier | TruncateLog) else 0, work)

    # -- links

    def _connect(self, node: Node, life: int, to: PeerId) -> None:
        other = self.nodes[to]
        if not node.alive or node.life != life:
            return
        if not other.alive or (node.id, to) in self.cut or (to, node.id) in self.cut:
            delay_ms = 300 if other.alive else 1
            self.at(
                delay_ms,
                lambda: self.deliver(node, life, lambda: node.peer.on_link_failed(self.instant(), to)),
            )
            return
        self._ids += 2
        link = Link((LinkId(self._ids), LinkId(self._ids + 1)), (node, other))
        self.links[link.ids[0]] = (link, 0)
        self.links[link.ids[1]] = (link, 1)
        self._deliver_on(link, 1, lambda: other.peer.on_link_accepted(self.instant(), link.ids[1]))
        self._deliver_on(link, 0, lambda: node.peer.on_link_up(self.instant(), link.ids[0], to))

    def _deliver_on(self, link: Link, end: int, handler: Callable[[], list[Effect]], delay_ms: int = 0) -> None:
        """Deliver data in order to one end of the link. While this direction is partitioned, hold the data."""

        def arrive() -> None:
            if link.open[end]:
                self.deliver(link.nodes[end], link.lives[end], handler)

        if link.stalled[end] or (link.nodes[1 - end].id, link.nodes[end].id) in self.cut:
            link.stalled[end].append(arrive)
            return
        due = max(link.arrival[end], self.now_ms + delay_ms + self.draw(self.delay_ms))
        link.arrival[end] = due
        self.at(due - self.now_ms, arrive)

    def _send(self, node: Node, effect: SendPackets) -> None:
        for packet in effect.packets:
            self._check_packet(node, packet)
        found = self.links.get(effect.link)
        if found is None:
            return
        link, end = found
        if not link.open[end]:
            return
        other = link.nodes[1 - end]
        there = link.ids[1 - end]
        # The sender writes these packets at once, but the receiver can read them in any number of chunks.
        pieces: list[list[Packet]] = []
        for packet in one_by_one(effect.packets):
            if pieces and self.random.random() < 0.3:
                pieces[-1].append(packet)
            else:
                pieces.append([packet])
        for piece in pieces:
            self._deliver_on(link, 1 - end, lambda p=piece: other.peer.on_packets(self.instant(), there, p))

    def _close(self, link: Link, end: int, delay_ms: int = 0) -> None:
        link.open[end] = False
        self.links.pop(link.ids[end], None)
        there = 1 - end
        if not link.open[there]:
            return

        def down() -> list[Effect]:
            link.open[there] = False
            self.links.pop(link.ids[there], None)
            return link.nodes[there].peer.on_link_down(self.instant(), link.ids[there])

        self._deliver_on(link, there, down, delay_ms)

    def break_link(self, a: int, b: int) -> None:
        """Reset the connection between two servers.

        Data in flight can be lost, and both servers are notified.
        """
        for link, end in list(self.links.values()):
            if end == 0 and {link.nodes[0].id, link.nodes[1].id} == {a, b}:
                self._break(link)

    def _break(self, link: Link) -> None:
        for end in (0, 1):
            if not link.open[end]:
                continue
            link.open[end] = False
            self.links.pop(link.ids[end], None)
            node, life, there = link.nodes[end], link.lives[end], link.ids[end]
            self.at(
                self.draw(self.delay_ms),
                partial(self._report_down, node, life, there),
            )

    def _report_down(self, node: Node, life: int, link: LinkId) -> None:
        self.deliver(node, life, lambda: node.peer.on_link_down(self.instant(), link))

    def cut_off(self, a: int, b: int, both: bool = True) -> None:
        self.cut.add((a, b))
        if both:
            self.cut.add((b, a))

    def isolate(self, i: int) -> None:
        for other in self.nodes:
            if other != i:
                self.cut_off(i, other)

    def heal(self) -> None:
        self.cut.clear()
        for link in list(dict.fromkeys(link for link, _ in self.links.values())):
            for end in (0, 1):
                held, link.stalled[end] = link.stalled[end], []
                for arrive in held:
                    due = max(link.arrival[end], self.now_ms + self.draw(self.delay_ms))
                    link.arrival[end] = due
                    self.at(due - self.now_ms, arrive)

    # -- clients

    def write(self, i: int) -> tuple[int, int] | None:
        return self._request(i, OpCode.SET_DATA)

    def sync(self, i: int) -> tuple[int, int] | None:
        return self._request(i, OpCode.SYNC)

    def reconfigure(self, i: int, joining: str = "", leaving: str = "", members: str = "") -> tuple[int, int] | None:
        whole = members.encode() if members else None
        return self._request(i, OpCode.RECONFIG, ReconfigRequest(joining.encode(), leaving.encode(), whole, -1))

    def _request(self, i: int, op: OpCode, body: ReconfigRequest | None = None) -> tuple[int, int] | None:
        node = self.nodes[i]
        if not node.alive:
            return None
        self._ids += 1
        connection, xid = ConnectionId(self._ids), self._ids
        if op is OpCode.SYNC:
            self.syncs[connection, xid] = len(self.acknowledged)
        self.deliver(
            node, node.life, lambda: node.peer.on_clients(self.instant(), [(connection, Request(xid, op, body))])
        )
        return connection, xid

    # -- checks

    def _check_committed(self, node: Node) -> None:
        entries = node.app.entries
        known = min(len(entries), len(self.committed))
        if known < len(entries):
            self.committed.extend(entries[known:])
        start = max(0, known - 60)
        assert entries[start:known] == self.committed[start:known], f"histories part at node {node.id}"

    def _check_leader(self, node: Node, event: LeaderEstablished) -> None:
        assert self.leaders.setdefault(event.epoch, node.id) == node.id, f"two leaders in epoch {event.epoch}"
        # A leader may become established when a higher epoch exists already. It then cannot commit anything, so compare
        # its history only with transactions of older epochs.
        before = [entry for entry in self.committed if epoch_of(entry[0]) < event.epoch]
        assert node.app.entries[: len(before)] == before, f"leader of epoch {event.epoch} lacks committed history"

    def _check_answer(self, node: Node, answer: Answer) -> None:
        assert isinstance(answer.message, Reply)
        began = self.syncs.pop((answer.connection, answer.message.xid), None)
        if began is not None:
            self.answered_syncs += 1
            seen = sum(z <= answer.message.zxid for z in self.acknowledged)
            assert seen >= began, "a sync does not see what was acknowledged before it"
            return
        zxid = answer.message.zxid
        self.acknowledged[zxid] = dict(self.committed)[zxid]
        # Count a disk that was damaged after the acknowledgement as well, because the transaction may have been on it.
        durable = {n.id: None for n in self.nodes.values() if n.disk.incomplete or self._has_durably(n, zxid)}
        quorum = node.peer.membership.quorum
        assert quorum.contains(durable), f"{zxid:#x} was acknowledged, but is not durable on a quorum"

    def _has_durably(self, node: Node, zxid: int) -> bool:
        disk = node.disk
        if any(t.zxid == zxid for t in disk.log[max(0, disk.synced - 50) : disk.synced]):
            return True
        return any(t.zxid == zxid for t in disk.log[: disk.synced]) or any(
            image.czxid == zxid for s in disk.snapshots for image in s.nodes
        )

    def _check_packet(self, node: Node, packet: Packet) -> None:
        disk = node.disk
        if isinstance(packet, AckEpoch):
            assert disk.accepted == node.peer.accepted_epoch, "ACKEPOCH before acceptedEpoch is durable"
            if packet.current_epoch >= 0:
                assert disk.last_durable() == packet.last_zxid, "ACKEPOCH names what is not durable"
        elif isinstance(packet, LeaderInfo):
            assert disk.accepted == packet.epoch, "LEADERINFO before acceptedEpoch is durable"
        elif isinstance(packet, Ack):
            if counter_of(packet.zxid) == 0:
                assert disk.current == epoch_of(packet.zxid), "NEWLEADER ack before currentEpoch is durable"
                # (The learner sends a second ACK for UPTODATE; in the same turn, it also logs and applies
                # transactions.)
                durable = node.peer.phase is Phase.BROADCAST or disk.last_durable() >= node.app.last_applied
                assert durable, "NEWLEADER ack before the history is durable"
            else:
                assert self._has_durably(node, packet.zxid), "a proposal's ack before it is durable"

    # -- states

    def leader(self) -> Node | None:
        """Established leader with the highest epoch, or None."""
        leading = [n for n in self.nodes.values() if n.alive and n.app.serving and n.app.leading is not None]
        return max(leading, key=lambda n: n.peer.current_epoch, default=None)

    def settled(self) -> bool:
        """Return whether all live servers accept requests and have the same leader."""
        alive = [n for n in self.nodes.values() if n.alive]
        leader = self.leader()
        return leader is not None and all(n.app.serving and n.peer.leader_id == leader.id for n in alive)

    def converged(self) -> bool:
        alive = [n for n in self.nodes.values() if n.alive]
        return self.settled() and all(n.app.entries == alive[0].app.entries for n in alive)

    def emitted(self, kind: type[Event], i: int | None = None) -> list[Event]:
        return [e for _, node, e in self.events if type(e) is kind and (i is None or node == i)]
