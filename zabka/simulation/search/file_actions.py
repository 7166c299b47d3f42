"""Actions for random runs on real files. An action ends when nothing is pending, except on held links and disks.

Logs on disk diverge only after several actions in a row (some writes, a restart, a purge, a replacement), each of many
steps. A run of single random steps rarely leads there, but a run of thirty actions does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from random import Random

from zabka.ensemble.ids import make_zxid
from zabka.ensemble.txnlog.log import list_logs
from zabka.ensemble.zab.messages import PeerState
from zabka.simulation.scenarios.core_steps import (
    Break,
    Crash,
    Deliver,
    Elect,
    GiveUp,
    Isolate,
    Run,
    Start,
    Write,
    looking,
    zxid_list,
)
from zabka.simulation.scenarios.file_steps import (
    Confer,
    FileSteps,
    LoseNewestLog,
    Purge,
    Replace,
    Rot,
    SpoilSnapshot,
    Vanish,
)
from zabka.simulation.search.explore_steps import leading, serving
from zabka.simulation.search.stretches import Possible, Stretch, way
from zabka.simulation.steps.bare_ensemble import BareEnsemble
from zabka.simulation.steps.bare_file_ensemble import BareFileEnsemble

RETAINED = 3
"""Number of newest snapshots that autopurge keeps. It is the lowest number that autopurge accepts."""
LOADS = (1, 2, 3, 5, 9)
"""Possible numbers of successive writes.  The largest number fills one or two log files."""
ABSENCES = ((1, 2, 4), (1, 3))
"""Numbers of writes that an absent peer misses: in the leader term that ends during the absence, and in the next
term.
"""
MISSED = 3
ROT_REACH = 12
PARTS_OF_A_RETURN = ("LeaderInfo", "Diff", "Trunc", "Snap", "NewLeader", "UpToDate")
"""Types of packets that a leader sends to a server that returns."""
EARLIER_WRITES_MAX = 5
"""Maximum number of writes before the restart.

If this is below snapCount, the restarted servers have no snapshot and read only the log.
"""
LATEST = 2
"""Number of latest transactions in which a power loss can flip a bit."""


def loads(cores: BareEnsemble) -> Iterator[Stretch]:
    """Yield series of writes through one peer.  Each write is sent after the previous write is on all peers."""
    for peer in serving(cores):
        for count in LOADS:
            yield (Write(peer), Run()) * count


def loads_and_purges(cores: BareEnsemble) -> Iterator[Stretch]:
    """Yield series of writes, each followed by autopurge on all peers."""
    purge = next(purges(cores))
    for load in loads(cores):
        yield (*load, *purge)


def earlier_life(peers: int, shape: Random) -> Stretch:
    """Return steps in which an ensemble accepts a few writes and is restarted."""
    everybody = tuple(range(1, peers + 1))
    load = (Write(peers), Run()) * shape.randrange(1, EARLIER_WRITES_MAX + 1)
    return (Run(), *load, *_restart(everybody))


def restarts_of_all(cores: BareEnsemble) -> Iterator[Stretch]:
    """Yield sequences that stop and restart the whole ensemble. The restart includes or omits peers that were already
    down.
    """
    up = _up(cores)
    if up:
        yield _restart(up)
    if up != cores.voters:
        yield (*((Crash(up),) if up else ()), Start(), Confer(cores.voters), Run())


def returns(cores: BareEnsemble) -> Iterator[Stretch]:
    """Yield steps in which a peer that is down returns, possibly with a slow disk, and finds a leader."""
    for peer, up in _comebacks(cores):
        back = (Start((peer,)), Confer(up))
        yield from ((*back, Run()), (*back, Run((f"disk {peer}",))))


def interrupted_returns(cores: BareEnsemble) -> Iterator[Stretch]:
    """Yield returns of a peer, with a fault just after it has received one of the leader's packets."""
    for leader, (peer, up), part in product(leading(cores), _comebacks(cores), PARTS_OF_A_RETURN):
        performed = (Run((f"{part} {way(leader, peer)}",)), Deliver(leader, peer, until=part))
        for mishap in (SpoilSnapshot(peer), Vanish(peer), Crash((leader,)), Isolate(leader)):
            yield (Start((peer,)), Confer(up), *performed, mishap, Run(), Confer(up), Run())


def returns_to_damage(cores: BareEnsemble, fragile: int) -> Iterator[Stretch]:
    """Yield a bit flip on the disk of the server `fragile`, followed by the return of a peer that is down."""
    assert isinstance(cores, BareFileEnsemble)
    for rot, back in product(_flips(cores, fragile, ROT_REACH), returns(cores)):
        yield (rot, *back)


def absences(cores: BareEnsemble, fragile: int) -> Iterator[Stretch]:
    """Yield absences of a peer, during which the others accept writes, restart, and accept more writes.

    The peer returns or stays down. In some cases a bit of the missed writes is flipped on the disk of the server
    `fragile`.
    """
    assert isinstance(cores, BareFileEnsemble)
    for (leader, away, others, gone), many, few in product(_absentees(cores), *ABSENCES):
        load, more = (Write(leader), Run()) * many, (Write(leader), Run()) * few
        absence = (*gone, *load, *_restart(others), *more)
        yield from (absence, (*absence, Start((away,)), Confer((*others, away)), Run()))
        if fragile in others:
            missed = range(_next_zxid(cores, leader), _next_zxid(cores, leader) + many)
            yield from ((*absence, Rot(fragile, zxid_list([zxid]))) for zxid in missed)


def second_terms(cores: BareEnsemble) -> Iterator[Stretch]:
    """Yield second terms of a leader: it is partitioned, a new leader is elected and dies, the first leads again."""
    for leader in leading(cores):
        others = tuple(other for other in _up(cores) if other != leader)
        if len(others) > len(cores.voters) // 2:
            yield (Isolate(leader), Confer(others), Run(), *_second_term(cores, leader, others))


def _second_term(cores: BareEnsemble, leader: int, others: Sequence[int]) -> Stretch:
    """Return steps in which the old leader follows the new one, and leads again after the new one dies.

    Both leaders accept writes.
    """
    assert isinstance(cores, BareFileEnsemble)
    chosen = max(others, key=lambda other: (cores.files(other).last_durable(), other))
    left = tuple(sorted({leader, *others} - {chosen}))
    found = (Confer((leader, *others)), Run(), *(Write(chosen), Run()) * 2)
    return (*found, Crash((chosen,)), Run(), Confer(left), Run(), *(Write(leader), Run()) * 2)


def returns_in_vain(cores: BareEnsemble) -> Iterator[Stretch]:
    """Yield steps in which a returned peer alone receives the leader's last write, and then dies.

    Before its return, the peer has missed some writes. After its death, the leader is partitioned and in some cases
    dies as well, and the others elect another leader. In some cases the old leader then leads again.
    """
    for leader, peer, up, gone in _absentees(cores):
        others = tuple(other for other in up if other != leader)
        if len(others) <= len(cores.voters) // 2:
            continue
        missed = (Write(leader), Run()) * MISSED if gone else ()
        held = Run(tuple(way(leader, other) for other in others))
        performed = (*gone, *missed, Write(leader), held, Start((peer,)), Confer((*up, peer)), held, Crash((peer,)))
        chosen = (Run(), Confer(others), Run())
        yield (*performed, Isolate(leader), *chosen)
        yield (*performed, Isolate(leader), Crash((leader,)), *chosen)
        yield (*performed, Isolate(leader), *chosen, *_second_term(cores, leader, others))


def _absentees(cores: BareEnsemble) -> Iterator[tuple[int, int, tuple[int, ...], Stretch]]:
    """Yield a leader, an absent peer, the other running peers, and the steps that make the peer absent.

    The absent peer is already down, or can stop without causing an election.
    """
    for leader, away in product(leading(cores), cores.voters):
        others = tuple(other for other in _up(cores) if other != away)
        if away != leader and len(others) > len(cores.voters) // 2:
            yield leader, away, others, (Crash((away,)), Run()) if cores.is_up(away) else ()


def replacements(cores: BareEnsemble, fragile: int) -> Iterator[Stretch]:
    """Yield replacements of the server `fragile` by an empty server, if all other servers run with equal histories."""
    assert isinstance(cores, BareFileEnsemble)
    others = tuple(peer for peer in cores.voters if peer != fragile)
    if cores.is_up(fragile) and hold_the_same(cores, others):
        yield (Crash((fragile,)), Run(), Replace(fragile), Start((fragile,)), Elect(cores.voters), Run())


def hold_the_same(cores: BareFileEnsemble, peers: Sequence[int]) -> bool:
    """Return whether all these peers run with a leader among them, and have equal histories and epochs.

    If any other peer has accepted a higher epoch, return False.
    """
    states = [status.state for peer in peers if (status := cores.nodes[peer].status) is not None]
    disks = [cores.files(peer) for peer in peers]
    same = len({(tuple(disk.history()), disk.accepted, disk.current) for disk in disks}) == 1
    promised = max(node.disk.accepted for node in cores.nodes.values()) == disks[0].accepted
    return PeerState.LEADING in states and set(peers) <= set(serving(cores)) and same and promised


def or_else(wanted: Possible, otherwise: Possible, cores: BareEnsemble) -> Iterator[FileSteps | Stretch]:
    """Yield the steps of `wanted`, or those of `otherwise` if `wanted` has none."""
    found = list(wanted(cores))
    yield from found or otherwise(cores)


def stops(cores: BareEnsemble) -> Iterator[Stretch]:
    """Yield series of steps in which one process crashes.

    All other peers are notified, and elect a leader if they have none.
    """
    up = _up(cores)
    for peer in up:
        yield (Crash((peer,)), Run(), Confer(tuple(other for other in up if other != peer)), Run())


def bounces(cores: BareEnsemble) -> Iterator[Stretch]:
    """Yield restarts of one process that are complete before any peer is notified.

    Peers that lose their leader become LOOKING.
    """
    up = _up(cores)
    for peer in up:
        yield (Crash((peer,)), Start((peer,)), Confer(up), Run(), Confer(up), Run())


def blinks(cores: BareEnsemble, fragile: int) -> Iterator[Stretch]:
    """Yield power losses of a machine that are so short that no peer notices them.

    On the server `fragile`, a bit is flipped as well.
    """
    assert isinstance(cores, BareFileEnsemble)
    for peer in _up(cores):
        back = (Start((peer,)), Confer(_up(cores)), Run())
        yield (Vanish(peer), *back)
        if peer == fragile:
            yield from ((Vanish(peer), rot, *back) for rot in _flips(cores, fragile, LATEST))


def blackouts(cores: BareEnsemble, fragile: int) -> Iterator[Stretch]:
    """Yield power losses of two machines that are so short that no peer notices them.

    On the server `fragile`, a bit is flipped as well.
    """
    assert isinstance(cores, BareFileEnsemble)
    for dark in combinations(_up(cores), 2):
        lights: Stretch = tuple(map(Vanish, dark))
        back = (Start(dark), Confer(_up(cores)), Run())
        yield (*lights, *back)
        if fragile in dark:
            yield from ((*lights, rot, *back) for rot in _flips(cores, fragile, LATEST))


def blinks_in_a_row(cores: BareEnsemble, fragile: int) -> Iterator[Stretch]:
    """Yield power losses of a leader's machine and then of another one, each so short that no peer notices it.

    If the leader is the server `fragile`, a bit on its disk is flipped. In some cases the leader's last write is still
    in flight to the other machine.
    """
    assert isinstance(cores, BareFileEnsemble)
    up = _up(cores)
    for leader, other in product(leading(cores), up):
        if leader == other:
            continue
        late = (Write(leader), Run((way(leader, other),)))
        back = (Start((leader,)), Confer(up), Vanish(other), Start((other,)), Confer(up), Run())
        flips = list(_flips(cores, leader, LATEST))
        for before, rots in (((), flips), (late, [Rot(leader, zxid_list([_next_zxid(cores, leader)]))])):
            yield (*before, Vanish(leader), *back)
            if leader == fragile:
                yield from ((*before, Vanish(leader), rot, *back) for rot in rots)


def depositions(cores: BareEnsemble) -> Iterator[Stretch]:
    """Yield depositions of a leader: it is cut off from all other peers, which elect another leader."""
    for peer in leading(cores):
        yield (Isolate(peer), Confer(tuple(other for other in _up(cores) if other != peer)), Run())


def last_writes(cores: BareEnsemble) -> Iterator[Stretch]:
    """Yield steps in which a leader's last writes reach only its own disk, or its own and one other disk.

    The leader is partitioned and in some cases dies, and the others elect another leader.
    """
    for peer in leading(cores):
        others = [other for other in _up(cores) if other != peer]
        for reached in (None, *others):
            held = tuple(way(peer, other) for other in others if other != reached)
            for ends in ((Isolate(peer),), (Isolate(peer), Crash((peer,)))):
                yield (Write(peer), Run(held), *ends, Run(), Confer(tuple(others)), Run())


def talks(cores: BareEnsemble) -> Iterator[Stretch]:
    """If a peer has no leader, yield exchanges of election messages among all running peers, or all but one.

    In some cases one peer has a slow disk.
    """
    up = _up(cores)
    seeking = looking(cores, up)
    if not seeking:
        return
    yield (Confer(up), Run())
    yield from ((Confer(up), Run((f"disk {peer}",))) for peer in seeking)
    yield from ((Confer(tuple(other for other in up if other != peer)), Run()) for peer in up)


def settling(cores: BareEnsemble) -> Iterator[Stretch]:
    """Yield steps that reset half-open connections, and then let peers without a leader find one."""
    up = _up(cores)
    ends = tuple(half_open(cores))
    if ends or looking(cores, up):
        yield (*ends, Run(), Confer(up), Run(), Confer(up), Run())


def half_open(cores: BareEnsemble) -> Iterator[Break]:
    """Yield a connection break for every connection that only one side has closed."""
    for link in cores.links:
        if not (link.opener_open and link.acceptor_open):
            yield Break(link.opener, link.acceptor)


def impatience(cores: BareEnsemble) -> Iterator[Stretch]:
    """Yield, for each running peer, the steps in which it times out and leaves its role.

    The peer becomes LOOKING. Peers that lose their leader because of this become LOOKING too.
    """
    up = _up(cores)
    for peer in up:
        yield (GiveUp(peer), Confer(up), Run(), Confer(up), Run())


def vanishing(cores: BareEnsemble) -> Iterator[FileSteps]:
    """Yield power losses of one machine. No other peer is notified of the loss."""
    yield from map(Vanish, _up(cores))


def purges(cores: BareEnsemble) -> Iterator[Stretch]:
    """Yield the steps that run autopurge on all running peers."""
    yield tuple(Purge(peer, RETAINED) for peer in _up(cores))


def spoilt(cores: BareEnsemble) -> Iterator[FileSteps]:
    """Yield steps in which a peer's storage finds its newest snapshot damaged."""
    yield from map(SpoilSnapshot, _up(cores))


def damages(cores: BareEnsemble, fragile: int) -> Iterator[FileSteps]:
    """Yield disk faults of the server `fragile`, including its replacement by an empty server.

    The replacement requires that the server is down and that all others run with equal histories, because the empty
    server does not have the transactions that the old server had acknowledged.
    """
    assert isinstance(cores, BareFileEnsemble)
    yield from _flips(cores, fragile, ROT_REACH)
    if cores.nodes[fragile].peer is not None:
        return
    if list_logs(cores.files(fragile).directories.log):
        yield LoseNewestLog(fragile)
    if hold_the_same(cores, [peer for peer in cores.voters if peer != fragile]):
        yield Replace(fragile)


def _flips(cores: BareFileEnsemble, fragile: int, reach: int) -> Iterator[Rot]:
    for zxid in cores.files(fragile).history()[-reach:]:
        yield Rot(fragile, zxid_list([zxid]))


def _next_zxid(cores: BareFileEnsemble, leader: int) -> int:
    disk = cores.files(leader)
    return max(disk.last_durable(), make_zxid(disk.current, 0)) + 1


def _restart(peers: tuple[int, ...]) -> Stretch:
    return (Crash(peers), Start(peers), Confer(peers), Run())


def _comebacks(cores: BareEnsemble) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield each peer that is down, together with the peers that will run after its return."""
    for peer in cores.voters:
        if cores.nodes[peer].peer is None:
            yield peer, tuple(other for other in cores.voters if other == peer or cores.is_up(other))


def _up(cores: BareEnsemble) -> tuple[int, ...]:
    return tuple(peer for peer in cores.voters if cores.is_up(peer))
