"""A small deterministic world for the ZAB core: virtual clock, disks, links, faults, and checks at every step."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import msgspec

from ensemble.errors import ErrorCode
from ensemble.ids import ConnectionId, Epoch, LinkId, PeerId, SessionId, Zxid, counter_of, epoch_of
from ensemble.jute import Reader
from ensemble.ports import Instant
from ensemble.records import ClientMessage, OpCode, ReconfigRequest, Reply, Request
from ensemble.tree.reconfig import new_membership
from ensemble.tree_snapshot import NodeImage, TreeSnapshot
from ensemble.txn import SetDataTxn, Txn
from ensemble.zab.application import EnsembleConfig, EnsembleView, Submit, SubmitSync
from ensemble.zab.effects import (
    Answer,
    Append,
    Barrier,
    CancelTimer,
    CloseConnection,
    CloseLink,
    Effect,
    Emit,
    Halt,
    OpenLink,
    ReadLog,
    Recovered,
    SaveAcceptedEpoch,
    SaveCurrentEpoch,
    SaveDoubt,
    SaveMembership,
    SaveNextMembership,
    SaveSnapshot,
    SendNotification,
    SendPackets,
    SetTimer,
    TruncateLog,
    UseMembership,
)
from ensemble.zab.membership import Membership
from ensemble.zab.messages import Ack, AckEpoch, ForwardedRequest, LeaderInfo, Packet, SyncRequest
from ensemble.zab.peer import Peer
from journal.events import Event, LeaderEstablished, ZxidCheckpoint
from simulation.network.wire import one_by_one

Entry = tuple[int, bytes]


class ListApplication:
    """A replicated list: every write appends (zxid, payload)."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.base = Zxid(0)
        self.serving = False
        self.leading: Epoch | None = None
        self.membership = ("", 0)
        self.refusals: list[ErrorCode] = []
        self.waiting: dict[tuple[int, int], tuple[ConnectionId, int]] = {}
        self.touched: list[tuple[SessionId, int]] = []
        self.touches: list[tuple[SessionId, int]] = []
        self.revalidations: list[tuple[SessionId, bool]] = []
        self.due: list[Effect] = []
        self.on_committed: Callable[[], None] = lambda: None

    @property
    def last_applied(self) -> Zxid:
        return Zxid(self.entries[-1][0]) if self.entries else self.base

    def snapshot(self) -> TreeSnapshot:
        nodes = [NodeImage(f"/{z:x}", data, (), z, z, 0, 0, 0, 0, 0, 0, z) for z, data in self.entries]
        return TreeSnapshot(self.last_applied, {}, nodes, len(nodes))

    def checkpoint(self) -> ZxidCheckpoint:
        return ZxidCheckpoint(self.last_applied, 0, len(self.entries), 0)

    def restore(self, snapshot: TreeSnapshot | None) -> None:
        self.entries = [(n.czxid, n.data or b"") for n in snapshot.nodes] if snapshot else []
        self.base = snapshot.zxid if snapshot else Zxid(0)

    def apply(self, now: Instant, txns: Sequence[Txn]) -> list[Effect]:
        return [effect for txn in txns for effect in self._apply(txn)]

    def _apply(self, txn: Txn) -> list[Effect]:
        assert txn.zxid > self.last_applied
        assert isinstance(txn.body, SetDataTxn)
        self.entries.append((txn.zxid, txn.body.data or b""))
        if not self.serving:
            return []
        self.on_committed()
        waiting = self.waiting.pop((txn.session_id, txn.cxid), None)
        if waiting is None:
            return []
        return [Answer(waiting[0], Reply(waiting[1], txn.zxid, 0))]

    def describe_membership(self, now: Instant, text: str, version: int) -> None:
        self.membership = (text, version)

    def start_leading(self, now: Instant, epoch: Epoch) -> None:
        self.leading = epoch

    def prepare(self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None) -> Txn:
        assert self.leading == epoch_of(zxid)
        body = SetDataTxn("/", request.body, 0)
        return Txn(request.session_id, request.cxid, zxid, now.wall_ms, OpCode.SET_DATA, body)

    def prepare_all(
        self, now: Instant, requests: Sequence[ForwardedRequest], zxid: Zxid, origin: LinkId | None
    ) -> list[Txn]:
        return [self.prepare(now, request, Zxid(zxid + i), origin) for i, request in enumerate(requests)]

    def prepare_reconfig(
        self, now: Instant, request: ForwardedRequest, zxid: Zxid, origin: LinkId | None, ensemble: EnsembleView
    ) -> Txn:
        """Anybody may ask for it."""
        wanted = ReconfigRequest.read_from(Reader(request.body))
        membership = new_membership(wanted, zxid, ensemble) if ensemble.enabled else ErrorCode.RECONFIG_DISABLED
        if isinstance(membership, ErrorCode):
            self.refusals.append(membership)
            return self.prepare(now, request, zxid, origin)
        body = SetDataTxn("/zookeeper/config", membership.text.encode(), -1)
        return Txn(request.session_id, request.cxid, zxid, now.wall_ms, OpCode.RECONFIG, body)

    def touch(self, now: Instant, session_id: SessionId, timeout_ms: int, by: PeerId) -> None:
        self.touches.append((session_id, timeout_ms))

    def revalidate(
        self, now: Instant, session_id: SessionId, timeout_ms: int, origin: LinkId | None, by: PeerId
    ) -> bool:
        return session_id > 0

    def expire_sessions(self, now: Instant) -> list[Effect]:
        due, self.due = self.due, []
        return due

    def start_serving(self, now: Instant, leading: bool) -> list[Effect]:
        assert not self.serving and leading == (self.leading is not None)
        self.serving = True
        self.on_committed()
        return []

    def stop_serving(self, now: Instant) -> list[Effect]:
        assert self.serving
        self.serving = False
        self.leading = None
        closed = dict.fromkeys(connection for connection, _ in self.waiting.values())
        self.waiting.clear()
        return [CloseConnection(connection) for connection in closed]

    def on_client_connected(self, now: Instant, connection: ConnectionId, identities=()) -> list[Effect]:
        return []

    def on_client(self, now: Instant, connection: ConnectionId, message: ClientMessage) -> list[Effect]:
        assert isinstance(message, Request)
        if not self.serving:
            return [CloseConnection(connection)]
        session = SessionId(connection)
        self.waiting[session, message.xid] = (connection, message.xid)
        if message.op == OpCode.SYNC:
            return [SubmitSync(SyncRequest(session, message.xid, "/"))]
        body = b"%d.%d" % (connection, message.xid)
        if isinstance(message.body, ReconfigRequest):
            body = message.body.encode()
        return [Submit(ForwardedRequest(session, message.xid, message.op, body))]

    def on_client_closed(self, now: Instant, connection: ConnectionId) -> list[Effect]:
        return []

    def drain_touched(self) -> list[tuple[SessionId, int]]:
        touched, self.touched = self.touched, []
        return touched

    def revalidated(self, now: Instant, session_id: SessionId, valid: bool) -> list[Effect]:
        self.revalidations.append((session_id, valid))
        return []

    def sync_done(self, now: Instant, request: SyncRequest) -> list[Effect]:
        waiting = self.waiting.pop((request.session_id, request.cxid))
        return [Answer(waiting[0], Reply(waiting[1], self.last_applied, 0))]


class Disk:
    """A queue of operations, what they have written, and how much of the log is fsynced."""

    def __init__(self) -> None:
        self.accepted = Epoch(0)
        self.current = Epoch(0)
        self.log: list[Txn] = []
        self.synced = 0
        self.incomplete = self.in_doubt = False
        self.snapshots: list[TreeSnapshot] = []
        self.membership: Membership | None = None
        self.next_membership: Membership | None = None

    def execute(self, effect: Effect) -> None:
        if isinstance(effect, Append):
            self.log += effect.txns
        elif isinstance(effect, TruncateLog):
            self.log = [txn for txn in self.log if txn.zxid <= effect.zxid]
            self.snapshots = [s for s in self.snapshots if s.zxid <= effect.zxid]
            self.synced = len(self.log)
        elif isinstance(effect, SaveSnapshot):
            if effect.replaces_history:
                self.log, self.synced, self.snapshots, self.in_doubt = [], 0, [], False
            self.snapshots.append(effect.snapshot)
        elif isinstance(effect, SaveAcceptedEpoch):
            self.accepted = effect.epoch
        elif isinstance(effect, SaveCurrentEpoch):
            assert self.synced == len(self.log), "currentEpoch before the history it stands for is durable"
            self.current = effect.epoch
            self.incomplete = False
        elif isinstance(effect, SaveDoubt):
            self.in_doubt = True
        elif isinstance(effect, SaveMembership):
            self.membership, self.next_membership = effect.membership, None
        elif isinstance(effect, SaveNextMembership):
            self.next_membership = effect.membership
        elif isinstance(effect, Barrier):
            self.synced = len(self.log)

    def read_log(self, effect: ReadLog) -> list[Txn] | None:
        zxids = [txn.zxid for txn in self.log]
        if effect.after != effect.base and effect.after not in zxids:
            return None
        return [txn for txn in self.log if txn.zxid > effect.after][:5] or None

    def rot(self, random: Random) -> None:
        """Part of the log, fsynced or not, turns out to be unreadable when the peer starts again."""
        del self.log[random.randrange(0, len(self.log) + 1) :]
        self.synced = len(self.log)
        self.incomplete = True

    def lose_power(self, random: Random) -> None:
        kept = random.randrange(self.synced, len(self.log) + 1)
        del self.log[kept:]

    def last_durable(self) -> int:
        snapshot = max((s.zxid for s in self.snapshots), default=0)
        return max(snapshot, self.log[self.synced - 1].zxid if self.synced else 0)

    def recovered(self) -> Recovered:
        snapshot = max(self.snapshots, key=lambda s: s.zxid, default=None)
        base = snapshot.zxid if snapshot else 0
        txns = [t for t in self.log if t.zxid > base]
        return Recovered(self.accepted, self.current, snapshot, txns, not self.incomplete, self.in_doubt)


class Link:
    """Both ends of one connection; end 0 opened it."""

    def __init__(self, ids: tuple[LinkId, LinkId], nodes: tuple[Node, Node]) -> None:
        self.ids, self.nodes = ids, nodes
        self.lives = (nodes[0].life, nodes[1].life)
        self.arrival = [0, 0]
        self.open = [True, True]
        self.stalled: list[list[Callable[[], None]]] = [[], []]


class Node:
    """One server: its disk outlives its process."""

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
    """Runs peers against one another, and checks the invariants after every turn."""

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
        """Its machine loses its power, and nobody who is connected to it hears of that; what is held up is lost."""
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
                # What is on its way to the disk behind the truncation must not be in what is left.
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
        """In order, to that end; held while the direction is cut."""

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
        # One write, but it may be read in any number of pieces.
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
        """The connection between two servers is reset: what is under way may be lost, both ends learn of it."""
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
                partial(self._tell_down, node, life, there),
            )

    def _tell_down(self, node: Node, life: int, link: LinkId) -> None:
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
        # A leader may learn late that it is established, when a higher epoch is; it cannot commit anything any more.
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
        # A disk that has rotted since may have held it.
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
                # (The second such ack, to UPTODATE, comes in a turn that goes on to log and apply.)
                durable = node.app.serving or disk.last_durable() == node.app.last_applied
                assert durable, "NEWLEADER ack before the history is durable"
            else:
                assert self._has_durably(node, packet.zxid), "a proposal's ack before it is durable"

    # -- states

    def leader(self) -> Node | None:
        """The serving leader of the highest epoch."""
        leading = [n for n in self.nodes.values() if n.alive and n.app.serving and n.app.leading is not None]
        return max(leading, key=lambda n: n.peer.current_epoch, default=None)

    def settled(self) -> bool:
        """Everybody who lives serves under one leader."""
        alive = [n for n in self.nodes.values() if n.alive]
        leader = self.leader()
        return leader is not None and all(n.app.serving and n.peer.leader_id == leader.id for n in alive)

    def converged(self) -> bool:
        alive = [n for n in self.nodes.values() if n.alive]
        return self.settled() and all(n.app.entries == alive[0].app.entries for n in alive)

    def emitted(self, kind: type[Event], i: int | None = None) -> list[Event]:
        return [e for _, node, e in self.events if type(e) is kind and (i is None or node == i)]
