"""The possible next steps of the bare protocol (peers without processes)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations

from zabka.ensemble.zab.messages import PeerState
from zabka.simulation.scenarios.core_steps import (
    Break,
    CoreSteps,
    Crash,
    Deliver,
    Elect,
    GiveUp,
    Lose,
    Start,
    SyncDisk,
    looking,
)
from zabka.simulation.steps.bare_ensemble import BareEnsemble


@lru_cache
def _deliver(source: int, target: int, link: int) -> Deliver:
    return Deliver(source, target, link=link)


def ordinary_steps(cores: BareEnsemble) -> Iterator[CoreSteps]:
    """Yield every possible delivery of a packet and every possible fsync."""
    for target in cores.voters:
        node = cores.nodes[target]
        if node.is_up:
            before: dict[int, int] = {}
            for link in cores.links:
                if target in (link.opener, link.acceptor) and link.under_way_to(target):
                    source = link.other(target)
                    number = before.get(source, 0)
                    before[source] = number + 1
                    yield _deliver(source, target, number)
            if node.queue:
                yield SyncDisk(target)


def losses(cores: BareEnsemble) -> Iterator[CoreSteps]:
    """Yield the steps that lose packets: one for each connection that one side closed with packets in flight.

    Only packets of the side that closed the connection are lost.
    """
    for source in cores.voters:
        for target in cores.voters:
            if source != target and cores.is_up(target):
                for number, link in enumerate(cores.carrying(source, target)):
                    queue = link.under_way_to(target)
                    if queue[-1] is None and len(queue) > 1:
                        yield Lose(source, target, number)


def elections(cores: BareEnsemble) -> Iterator[CoreSteps]:
    """Yield an election for every quorum that contains a LOOKING peer."""
    up = tuple(peer for peer in cores.voters if cores.is_up(peer))
    for size in range(len(cores.voters) // 2 + 1, len(up) + 1):
        for members in combinations(up, size):
            if looking(cores, members):
                yield Elect(members)


def crashes(cores: BareEnsemble) -> Iterator[CoreSteps]:
    """Yield, for every running process, the crashes that leave different data on its disk.

    The crashes differ in the number of pending operations that the disk still performs.
    """
    for peer in cores.voters:
        if cores.is_up(peer):
            node = cores.nodes[peer]
            disk, seen = node.disk, [node.disk]
            yield Crash((peer,), 0)
            for written, effect in enumerate(node.queue, 1):
                disk = disk.after(effect)
                if disk is not seen[-1]:
                    seen.append(disk)
                    yield Crash((peer,), written)


def restarts(cores: BareEnsemble) -> Iterator[CoreSteps]:
    """Yield a start of every process that is down."""
    for peer in cores.voters:
        if cores.nodes[peer].peer is None:
            yield Start((peer,))


def breaks(cores: BareEnsemble) -> Iterator[CoreSteps]:
    """Yield a connection break for every pair of connected servers."""
    for one, other in combinations(cores.voters, 2):
        if any(link.joins(one, other) for link in cores.links):
            yield Break(one, other)


def serving(cores: BareEnsemble) -> Iterator[int]:
    """Yield every peer that accepts writes from clients."""
    for peer in cores.voters:
        status = cores.nodes[peer].status
        if cores.is_up(peer) and status is not None and status.serving:
            yield peer


def leading(cores: BareEnsemble) -> Iterator[int]:
    """Yield every established leader."""
    for peer in serving(cores):
        status = cores.nodes[peer].status
        if status is not None and status.state is PeerState.LEADING:
            yield peer


def patient(cores: BareEnsemble) -> Iterator[int]:
    """Yield every running peer that has become follower or leader, but does not serve clients yet."""
    for peer in cores.voters:
        status = cores.nodes[peer].status
        if cores.is_up(peer) and status is not None and not status.serving and not looking(cores, (peer,)):
            yield peer


def timeouts(cores: BareEnsemble) -> Iterator[CoreSteps]:
    """Yield a timeout of every peer that follows or leads, as if other peers had been silent for too long."""
    for peer in cores.voters:
        if cores.is_up(peer) and not looking(cores, (peer,)):
            yield GiveUp(peer)
