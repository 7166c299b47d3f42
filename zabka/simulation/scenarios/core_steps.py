"""Steps of a script for the bare protocol (peers without processes), as data that can be saved to a file.

Peers are numbered from 1. Nothing happens between steps: each packet, fsync and timeout is one step. The step `Run`
performs all possible steps, except those that it holds back.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from zabka.ensemble.zab.leader import HALF_TICK_TIMER, INIT_TIMER
from zabka.ensemble.zab.learner import LIVENESS_TIMER
from zabka.ensemble.zab.messages import PeerState
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.steps.bare_ensemble import BareEnsemble

STEPS_MAX = 5_000
ROUNDS_MAX = 30
SILENCE_MS = 10_000
"""Time in ms that is longer than any timeout of a peer for messages from other peers."""
_DIGITS_MAX = 10
FINALIZE, RESEND = "election.finalize", "election.resend"


class CoreStep(msgspec.Struct, frozen=True, tag=True):
    """One step.  `play` performs it, and raises StepFailed if the step is not possible."""


class Start(CoreStep, frozen=True):
    """Start the processes of these peers, or of all peers that are down if the list is empty."""

    peers: tuple[int, ...] = ()

    def play(self, cores: BareEnsemble) -> None:
        """Start each of these peers that is down."""
        for peer in self.peers or cores.voters:
            if cores.nodes[peer].peer is None:
                cores.start(peer)


class Elect(CoreStep, frozen=True):
    """Let the LOOKING peers of this list elect a leader, or join the leader that the other peers of the list follow.

    Peers that are not in the list receive no election messages.
    """

    peers: tuple[int, ...]

    def play(self, cores: BareEnsemble) -> None:
        """Exchange election messages until all peers of this step have a leader."""
        if not elect(cores, self.peers):
            raise StepFailed(f"{self.peers} elected nobody")


class Run(CoreStep, frozen=True):
    """Perform all possible steps in turn, until only steps remain that `hold` holds back.

    `hold` contains `disk 2` (perform no operation on that disk), `3 > 1` (deliver no packet from 3 to 1), or `Commit 3
    > 1` (deliver packets from 3 to 1 only until the next packet is a COMMIT).
    """

    hold: tuple[str, ...] = ()

    def play(self, cores: BareEnsemble) -> None:
        """Perform one possible step after another until none remains."""
        for _ in range(STEPS_MAX):
            if not run_once(cores, self.hold):
                return
        raise StepFailed("it never comes to rest")


class Deliver(CoreStep, frozen=True):
    """Deliver the next `count` packets from source to target, or all packets up to the first packet of type `until`.

    The packets are taken from the oldest connection between the two peers that has packets in flight. If `link` is not
    0, they are taken from a later connection.
    """

    source: int
    target: int
    count: int = 1
    until: str = ""
    link: int = 0

    def play(self, cores: BareEnsemble) -> None:
        """Deliver the packets that the step names."""
        for _ in range(STEPS_MAX if self.until else self.count):
            if not 0 <= self.link < len(cores.carrying(self.source, self.target)):
                raise StepFailed(f"nothing is under way from {self.source} to {self.target}")
            packet = cores.deliver(self.source, self.target, self.link)
            if self.until and type(packet).__name__ == self.until:
                return


class Lose(CoreStep, frozen=True):
    """Lose all packets in flight on a connection that the source peer has closed, or that it left open when it died.

    The target peer receives only the close of the connection.
    """

    source: int
    target: int
    link: int = 0

    def play(self, cores: BareEnsemble) -> None:
        """Deliver the close of a connection, without the packets that were sent before it."""
        carrying = cores.carrying(self.source, self.target)
        if not 0 <= self.link < len(carrying) or carrying[self.link].under_way_to(self.target)[-1] is not None:
            raise StepFailed(f"no connection that {self.source} has closed carries anything to {self.target}")
        cores.lose(self.source, self.target, self.link)


class SyncDisk(CoreStep, frozen=True):
    """Perform the operations that wait for a peer's disk, up to the next fsync barrier or truncation, `count` times."""

    peer: int
    count: int = 1

    def play(self, cores: BareEnsemble) -> None:
        """Perform the waiting disk operations up to the next barrier, `count` times."""
        for _ in range(self.count):
            if not cores.nodes[self.peer].queue:
                raise StepFailed(f"nothing waits for the disk of {self.peer}")
            cores.sync_disk(self.peer)


class Write(CoreStep, frozen=True):
    """Let a client of one peer send `count` writes."""

    peer: int
    count: int = 1

    def play(self, cores: BareEnsemble) -> None:
        """Send the writes one after another."""
        for _ in range(self.count):
            cores.write(self.peer)


class Sync(CoreStep, frozen=True):
    """Let a client of that peer send a sync request."""

    peer: int

    def play(self, cores: BareEnsemble) -> None:
        """Send the sync request to the peer of this step."""
        cores.sync(self.peer)


class Crash(CoreStep, frozen=True):
    """Crash these peers. Before the crash, perform the first `written` operations that wait for each disk (-1: all)."""

    peers: tuple[int, ...]
    written: int = 0

    def play(self, cores: BareEnsemble) -> None:
        """Kill the processes of this step's peers."""
        for peer in self.peers:
            if cores.nodes[peer].peer is not None:
                waiting = len(cores.nodes[peer].queue)
                cores.crash(peer, waiting if self.written < 0 else min(self.written, waiting))


class Isolate(CoreStep, frozen=True):
    """Reset every connection of a peer, and notify both ends of each connection."""

    peer: int

    def play(self, cores: BareEnsemble) -> None:
        """Reset every connection of that peer."""
        for other in cores.voters:
            if other != self.peer:
                Break(self.peer, other).play(cores)


class Break(CoreStep, frozen=True):
    """Reset the connections between two peers, and notify both."""

    one: int
    other: int

    def play(self, cores: BareEnsemble) -> None:
        """Drop the packets in flight, then notify both ends."""
        cores.break_links(self.one, self.other)
        for source, target in ((self.one, self.other), (self.other, self.one)):
            while (found := cores.next_to(source, target)) is not None and found[1] is None:
                cores.deliver(source, target)


class GiveUp(CoreStep, frozen=True):
    """Let a peer's timeout for messages from its leader, or from a quorum of followers, expire."""

    peer: int

    def play(self, cores: BareEnsemble) -> None:
        """Advance time until the peer's timeout has expired."""
        give_up(cores, self.peer)


class Expect(CoreStep, frozen=True):
    """Check that the part of a peer's state that `what` names equals `value`.

    `what` is `log` (the zxids in the log on disk, such as `1.1 1.2`), `tree` (the zxids applied in memory), `up`,
    `leads`, `serves` (accepts client requests), `looks` (is LOOKING), `phase` (of its role), `epochs` (accepted and
    current epoch on disk), `synced` (its synchronisations so far, such as `DIFF SNAP`) or `answered` (the number of
    replies to all clients).
    """

    what: str
    peer: int = 0
    value: str = "True"

    def play(self, cores: BareEnsemble) -> None:
        """Compare the peer's state with the expected value."""
        seen = observed(cores, self.what, self.peer)
        if seen != self.value:
            raise StepFailed(f"{self.what} of {self.peer} is {seen!r}, the script expects {self.value!r}")


CoreSteps = Start | Elect | Run | Deliver | Lose | SyncDisk | Write | Sync | Crash | Isolate | Break | GiveUp | Expect

ALL = (1, 2, 3)


def started(peers: tuple[int, ...] = ALL) -> tuple[CoreSteps, ...]:
    """Return steps in which these peers start, elect a leader and follow it."""
    return (Start(peers), Elect(peers), Run())


def joined(peer: int) -> tuple[CoreSteps, ...]:
    """Return steps in which another peer starts and follows the existing leader."""
    return (Start((peer,)), Elect(ALL), Run())


def rejoined(peer: int) -> tuple[CoreSteps, ...]:
    """Return steps in which a peer crashes, restarts from its disk and follows the leader."""
    return (Crash((peer,)), Run(), *joined(peer))


LED_BY_3: tuple[CoreSteps, ...] = (Start(), Elect(ALL), Run(), Expect("leads", 3))
ONE_WRITE: tuple[CoreSteps, ...] = (Write(3), Run(), Expect("log", 1, "1.1"))
X_ON_3_ALONE: tuple[CoreSteps, ...] = (Write(3), SyncDisk(3))
"""Steps after which the leader, peer 3, has logged a transaction that no other peer has received."""


def zxid_list(zxids: list[int]) -> str:
    """Format zxids as `1.1 1.2 2.1`: epoch and counter of each."""
    return " ".join(f"{zxid >> 32}.{zxid & 0xFFFFFFFF}" for zxid in zxids)


def parsed_zxid(text: str) -> int:
    """Parse a zxid such as `2.1`. Raises StepFailed if it is invalid."""
    epoch, _, counter = text.partition(".")
    if not (epoch.isdecimal() and counter.isdecimal() and max(len(epoch), len(counter)) <= _DIGITS_MAX):
        raise StepFailed(f"{text!r} is no zxid, as 2.1 is")
    return int(epoch) << 32 | int(counter)


def observed(cores: BareEnsemble, what: str, peer: int) -> str:
    """Return the part of a peer's state that `what` names, as text (see `Expect`)."""
    if what == "answered":
        return str(len(cores.answered))
    if what == "synced":
        return " ".join(mode for who, mode in cores.synced if who == peer)
    node = cores.nodes[peer]
    if what == "log":
        return zxid_list(node.disk.history())
    if what == "tree":
        if node.application is None:
            raise StepFailed(f"{peer} is down and serves no tree")
        return zxid_list([zxid for zxid, _ in node.application.entries])
    if what == "epochs":
        return f"{node.disk.accepted} {node.disk.current}"
    status = node.status
    if what == "phase":
        return "" if status is None else status.phase.value
    facts = {
        "up": status is not None,
        "leads": status is not None and status.state is PeerState.LEADING and status.serving,
        "serves": status is not None and status.serving,
        "looks": status is not None and status.state is PeerState.LOOKING,
    }
    if what not in facts:
        raise StepFailed(f"nobody can expect {what!r}")
    return str(facts[what])


# -- helpers of the steps --------------------------------------------------------------------------------------------


def run_once(cores: BareEnsemble, hold: tuple[str, ...] = ()) -> bool:
    """Perform one step for every link direction and every disk that has pending work. Return False if there is none."""
    moved = False
    for source, target in _directions(cores):
        found = cores.next_to(source, target)
        if found is None or not cores.is_up(target):
            continue
        way = f"{source} > {target}"
        if way in hold or f"{type(found[1]).__name__} {way}" in hold:
            continue
        cores.deliver(source, target)
        moved = True
    for peer in cores.voters:
        if cores.is_up(peer) and cores.nodes[peer].queue and f"disk {peer}" not in hold:
            cores.sync_disk(peer)
            moved = True
    return moved


def _directions(cores: BareEnsemble) -> Iterator[tuple[int, int]]:
    for source in cores.voters:
        for target in cores.voters:
            if source != target:
                yield source, target


def looking(cores: BareEnsemble, peers: tuple[int, ...]) -> list[int]:
    """Return those of `peers` that are LOOKING."""
    states = [(peer, cores.nodes[peer].status) for peer in peers if cores.is_up(peer)]
    return [peer for peer, status in states if status is not None and status.state is PeerState.LOOKING]


def elect(cores: BareEnsemble, peers: tuple[int, ...]) -> bool:
    """Exchange election messages among these peers only, until none is LOOKING. Return whether that succeeded."""
    return not confer(cores, peers)


def confer(cores: BareEnsemble, peers: tuple[int, ...]) -> list[int]:
    """Exchange election messages among these peers only, for a limited number of rounds.

    Return the peers that are still LOOKING. If the peers still send messages after the last round, record a problem.
    """
    cores.notifications = ()
    said = 0
    for _ in range(ROUNDS_MAX):
        while cores.notifications:
            said += 1
            if said > STEPS_MAX:
                cores.problems.append("liveness: votes are exchanged without end")
                return looking(cores, peers)
            source, target, _ = cores.notifications[0]
            if source in peers and target in peers:
                cores.notify()
            else:
                cores.notifications = cores.notifications[1:]
        still = looking(cores, peers)
        if not still:
            return []
        timers = [(peer, name) for name in (FINALIZE, RESEND) for peer in still if name in cores.nodes[peer].timers]
        finalizing = [timer for timer in timers if timer[1] == FINALIZE]
        for peer, name in finalizing or timers:
            if name in cores.nodes[peer].timers and cores.is_up(peer):
                cores.fire(peer, name)
    return looking(cores, peers)


def give_up(cores: BareEnsemble, peer: int) -> None:
    """Advance time until the peer's timeout for messages from its leader, or from a quorum, has expired."""
    status = cores.nodes[peer].status
    if status is not None and status.serving and HALF_TICK_TIMER in cores.nodes[peer].timers:
        cores.fire(peer, HALF_TICK_TIMER, SILENCE_MS)
        return
    for name in (LIVENESS_TIMER, INIT_TIMER):
        if cores.is_up(peer) and name in cores.nodes[peer].timers:
            cores.fire(peer, name, SILENCE_MS)
