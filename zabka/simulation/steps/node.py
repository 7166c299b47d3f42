"""One server of the protocol without a network: its disk, the operations waiting for the disk, and its running process.

A node's state changes only by its inputs (`CoreNode.apply_input`), and a node affects others only by the results of its
inputs (`Outcome`). So the same input to the same node always has the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import msgspec

from zabka.ensemble.ids import ConnectionId, LinkId, PeerId, Zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import OpCode, Reply, Request
from zabka.ensemble.txn import Txn
from zabka.ensemble.zab import effects
from zabka.ensemble.zab.application import EnsembleConfig
from zabka.ensemble.zab.messages import Commit, Notification, Packet
from zabka.ensemble.zab.peer import Peer, PeerStatus
from zabka.ensemble.zab.role import Phase
from zabka.journal.events import Event, NodeStarted
from zabka.simulation.steps.cloning import clone
from zabka.simulation.steps.disk import DISK_EFFECTS, CoreDisk, NodeDisk
from zabka.simulation.steps.links import one_by_one
from zabka.simulation.steps.list_application import ListApplication
from zabka.simulation.steps.rules import broken_rule

DIALS_FOR_MS = 2_000
WALL_MS = 1_000_000


class Steady:
    """A replacement for `Random` that always returns the lowest possible number, so that nothing is random."""

    def randrange(self, start: int, stop: int, /) -> int:
        """Return the lowest possible number, `start`."""
        return start

    def random(self) -> float:
        """Return the lowest possible number, 0.0."""
        return 0.0

    def getrandbits(self, k: int, /) -> int:
        """Return the lowest possible number, 0."""
        return 0


class Outcome(msgspec.Struct, frozen=True, eq=False):
    """The results of one input to a node.

    - `traffic`: the packets sent on links, in order; None means that a link was closed
    - `dials`: the servers to connect to
    - `notes`: the election messages
    - `events`: the journal events
    - `answers`: the replies, as request numbers and zxids
    - `commits`: the commits sent to learners
    - `problems`: the protocol rules that were broken
    - `waited_ms`: the time that passed
    """

    traffic: tuple[tuple[LinkId, Packet | None], ...] = ()
    dials: tuple[int, ...] = ()
    notes: tuple[tuple[int, Notification], ...] = ()
    events: tuple[Event, ...] = ()
    answers: tuple[tuple[int, int], ...] = ()
    commits: tuple[Zxid, ...] = ()
    problems: tuple[str, ...] = ()
    waited_ms: int = 0


class _Collected:
    """Collects the results of one input while the node handles it."""

    __slots__ = ("answers", "commits", "dials", "events", "notes", "problems", "reads", "traffic")

    def __init__(self) -> None:
        self.traffic: list[tuple[LinkId, Packet | None]] = []
        self.dials: list[int] = []
        self.notes: list[tuple[int, Notification]] = []
        self.events: list[Event] = []
        self.answers: list[tuple[int, int]] = []
        self.commits: list[Zxid] = []
        self.problems: list[str] = []
        self.reads: list[effects.ReadLog] = []

    def outcome(self, waited_ms: int) -> Outcome:
        return Outcome(
            traffic=tuple(self.traffic),
            dials=tuple(self.dials),
            notes=tuple(self.notes),
            events=tuple(self.events),
            answers=tuple(self.answers),
            commits=tuple(self.commits),
            problems=tuple(self.problems),
            waited_ms=waited_ms,
        )


class CoreNode:
    """One server. `number` identifies its state in a search; 0 means that the search has not numbered the state yet."""

    __slots__ = (
        "_collected", "_status", "application", "config", "cumulative", "disk", "halted", "now_ms", "number", "peer",
        "queue", "timers",
    )  # fmt: skip

    def __init__(self, config: EnsembleConfig, cumulative: bool) -> None:
        self.config = config
        self.cumulative = cumulative
        self.disk: NodeDisk = CoreDisk()
        self.queue: tuple[effects.Effect, ...] = ()
        self.peer: Peer | None = None
        self.application: ListApplication | None = None
        self.timers: dict[str, int] = {}
        self.halted: str | None = None
        self.now_ms = 0
        self.number = 0
        self._collected = _Collected()
        self._status: PeerStatus | None = None

    @property
    def id(self) -> int:
        """Return the server's id."""
        return self.config.my_id

    @property
    def is_up(self) -> bool:
        """Whether the server's process is running."""
        return self.peer is not None and self.halted is None

    @property
    def status(self) -> PeerStatus | None:
        """Return the status of the process, or None if it is not running."""
        if self._status is None and self.peer is not None:
            self._status = self.peer.status()
        return self._status

    def twin(self) -> CoreNode:
        """Return a copy of the node. Its process is independent of the original's process."""
        other = copy(self)
        other.timers = dict(self.timers)
        other.number = 0
        other._status = None
        if self.peer is not None:
            other.peer, other.application = clone((self.peer, self.application))
        return other

    # -- inputs ------------------------------------------------------------------------------------------------------

    def apply_input(self, call: Callable[..., None], *args: object) -> Outcome:
        """Call one of the input methods below, and return its results."""
        self._collected = collected = _Collected()
        self._status = None
        before_ms = self.now_ms
        call(self, *args)
        while collected.reads and self.is_up:
            self._read_log(collected.reads.pop(0))
        return collected.outcome(self.now_ms - before_ms)

    def make_application(self) -> ListApplication:
        """Create the replicated application for a new process."""
        return ListApplication()

    def start(self) -> None:
        """Start the process with the data on the disk."""
        assert self.peer is None, f"{self.id} runs already"
        self.halted = None
        self.application = self.make_application()
        self.peer = Peer(self.config, self.application, self.disk.recovered(), Steady(), cumulative=self.cumulative)
        self._collected.events.append(NodeStarted("peer", self.id, {}))
        self._turn(self.peer.on_start)

    def crash(self, written: int) -> None:
        """Kill the process. The disk first performs the first `written` waiting operations; the others are lost."""
        for effect in self.queue[:written]:
            self.disk = self.disk.after(effect)
        self.queue = ()
        self.peer = self.application = None
        self.timers = {}

    def hear(self, link: LinkId, packet: Packet) -> None:
        """Handle a packet that arrives."""
        self._turn(lambda now: self._running.on_packets(now, link, [packet]))

    def lose_link(self, link: LinkId) -> None:
        """Handle the end of a link: the other server closed it or died."""
        self._turn(lambda now: self._running.on_link_down(now, link))

    def accept_link(self, link: LinkId) -> None:
        """Handle a link that a learner has opened to this server."""
        self._turn(lambda now: self._running.on_link_accepted(now, link))

    def gain_link(self, link: LinkId, to: int) -> None:
        """Handle the establishment of a link that this server has opened."""
        self._turn(lambda now: self._running.on_link_up(now, link, PeerId(to)))

    def dial_in_vain(self, to: int) -> None:
        """Handle the failure of this server's attempts to connect to another server.

        The server retries until its timeout. All attempts together are one step, because they do not affect other
        servers.
        """
        self.now_ms += DIALS_FOR_MS
        self._turn(lambda now: self._running.on_link_failed(now, PeerId(to)))

    def sync_disk(self) -> None:
        """Perform the waiting disk operations up to the next barrier or truncation, and notify the process."""
        while self.queue:
            effect, self.queue = self.queue[0], self.queue[1:]
            self.disk = self.disk.after(effect)
            if isinstance(effect, effects.Barrier):
                self._report_durable(effect.token)
                return
            if isinstance(effect, effects.TruncateLog):
                self._report_recovered(self.disk.recovered())
                return

    def _report_durable(self, token: int) -> None:
        self._turn(lambda now: self._running.on_durable(now, token))

    def _report_recovered(self, recovered: effects.Recovered) -> None:
        self._turn(lambda now: self._running.on_recovered(now, recovered))

    def fire(self, timer: str, silence_ms: int = 0) -> None:
        """Advance the clock until the timer is due, and by at least `silence_ms`."""
        self.now_ms = max(self.now_ms + silence_ms, self.timers.pop(timer))
        self._turn(lambda now: self._running.on_timer(now, timer))

    def wait(self, waited_ms: int) -> None:
        """Advance the clock by `waited_ms`, without any other input."""
        self.now_ms += waited_ms

    def ask(self, number: int, op: OpCode) -> None:
        """Handle a client's request.  The reply will have the same `number`."""
        request = Request(number, op, None)
        self._turn(lambda now: self._running.on_clients(now, [(ConnectionId(number), request)]))

    def receive_failure(self, source: int, notification: Notification) -> None:
        """Handle an election message from the server `source`."""
        self._turn(lambda now: self._running.on_notification(now, PeerId(source), notification))

    def lower_round(self, by: int) -> None:
        """Lower the election round by `by`, which must be the same for all servers."""
        if self.peer is not None:
            lower_rounds(self.peer, by)

    def _read_log(self, wanted: effects.ReadLog) -> None:
        txns = self.disk.read_log(wanted)
        self._turn(lambda now: self._running.on_log_read(now, wanted.link, wanted.after, txns))

    # -- effects of the process --------------------------------------------------------------------------------------

    @property
    def _running(self) -> Peer:
        assert self.peer is not None, f"{self.id} is down"
        return self.peer

    def _turn(self, handler: Callable[[Instant], list[effects.Effect]]) -> None:
        try:
            for effect in handler(Instant(self.now_ms, WALL_MS + self.now_ms)):
                _PERFORMED_BY[type(effect)](self, effect)
        except AssertionError as broken:
            self._collected.problems.append(f"assertion at peer-{self.id}: {broken}")
            self.halted = str(broken)

    def _append(self, effect: effects.Append) -> None:
        # Queue each transaction separately: a crash can leave any number of the first transactions on disk.
        self.queue = (*self.queue, *(effects.Append([txn]) for txn in effect.txns))

    def _to_disk(self, effect: effects.Effect) -> None:
        self.queue = (*self.queue, effect)

    def _send_packets(self, effect: effects.SendPackets) -> None:
        for packet in one_by_one(effect.packets):
            self._check(packet)
            self._collected.traffic.append((effect.link, packet))

    def _send_notification(self, effect: effects.SendNotification) -> None:
        self._collected.notes.append((effect.to, effect.notification))

    def _open_link(self, effect: effects.OpenLink) -> None:
        self._collected.dials.append(effect.to)

    def _close_link(self, effect: effects.CloseLink) -> None:
        self._collected.traffic.append((effect.link, None))

    def _ask_for_log(self, effect: effects.ReadLog) -> None:
        self._collected.reads.append(effect)

    def _set_timer(self, effect: effects.SetTimer) -> None:
        self.timers[effect.name] = self.now_ms + effect.delay_ms

    def _cancel_timer(self, effect: effects.CancelTimer) -> None:
        self.timers.pop(effect.name, None)

    def _emit(self, effect: effects.Emit) -> None:
        self._collected.events.append(effect.event)

    def _answer(self, effect: effects.Answer) -> None:
        if isinstance(effect.message, Reply):
            self._collected.answers.append((effect.message.xid, effect.message.zxid))

    def _halt(self, effect: effects.Halt) -> None:
        self.halted = effect.reason
        self._collected.problems.append(f"peer-{self.id} halted: {effect.reason}")

    def _ignore(self, effect: effects.Effect) -> None:
        """Ignore an effect about addresses or client connections, which do not exist here."""

    def _check(self, packet: Packet) -> None:
        broken = self.rule_broken_by(packet)
        if broken is not None:
            self._collected.problems.append(f"peer-{self.id} broke {broken}")
        elif isinstance(packet, Commit) and self._running.phase is Phase.BROADCAST:
            self._collected.commits.append(Zxid(packet.zxid))

    def rule_broken_by(self, packet: Packet) -> str | None:
        """Return the rule that the packet breaks, given the content of this server's disk, or None."""
        return broken_rule(packet, self.disk, self._running.accepted_epoch)

    def logged(self) -> list[int]:
        """Return all zxids on the disk and in the append operations that wait for it."""
        return self.disk.history() + [txn.zxid for txn in appended(self.queue)]


_PERFORMED_BY: dict[type[effects.Effect], Callable[[CoreNode, Any], None]] = {
    **dict.fromkeys(DISK_EFFECTS, CoreNode._to_disk),
    effects.Append: CoreNode._append,
    effects.SendPackets: CoreNode._send_packets,
    effects.SendNotification: CoreNode._send_notification,
    effects.OpenLink: CoreNode._open_link,
    effects.CloseLink: CoreNode._close_link,
    effects.ReadLog: CoreNode._ask_for_log,
    effects.SetTimer: CoreNode._set_timer,
    effects.CancelTimer: CoreNode._cancel_timer,
    effects.Emit: CoreNode._emit,
    effects.Answer: CoreNode._answer,
    effects.Halt: CoreNode._halt,
    effects.CloseConnection: CoreNode._ignore,
    effects.UseMembership: CoreNode._ignore,
}


def lower_rounds(peer: Any, by: int) -> None:
    """Subtract `by` from a peer's election round.

    Raises AssertionError if the peer is LOOKING and has received votes in its round.
    """
    core, election = peer._core, peer._election
    assert not election.looking or not (election._received or election._settled), "an election is under way"
    core.round -= by
    election.round -= by


def appended(queue: tuple[effects.Effect, ...]) -> list[Txn]:
    """Return the transactions in the operations that wait for the disk."""
    return [txn for effect in queue if isinstance(effect, effects.Append) for txn in effect.txns]
