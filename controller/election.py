"""Whom to make leader: the selections, as pure functions (kafka.controller.Election, and one of our own).

Each takes a partition's state and its assignment, and answers the state to be written (leader epoch + 1), or None
where nobody can lead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum

from controller.znodes import LeaderAndIsr


class ElectionStrategy(Enum):
    """Why, and so how, a leader is chosen."""

    OFFLINE = "offline"
    """The leader is gone; unclean only where the topic's or the broker's configuration says so."""
    OFFLINE_UNCLEAN = "offline_unclean"
    """The same, unclean because an administrator asked for it."""
    PREFERRED = "preferred"
    REASSIGNMENT = "reassignment"
    """The leader is not among the replicas that stay, or is dead."""
    CONTROLLED_SHUTDOWN = "controlled_shutdown"


def _lead(state: LeaderAndIsr, leader: int, isr: Sequence[int], *, recovering: bool | None = None) -> LeaderAndIsr:
    return state._replace(
        leader=leader,
        leader_epoch=state.leader_epoch + 1,
        isr=tuple(isr),
        recovering=state.recovering if recovering is None else recovering,
    )


def leader_for_offline(
    state: LeaderAndIsr, assignment: Sequence[int], live: Collection[int], *, unclean: bool
) -> LeaderAndIsr | None:
    """The first live replica in the ISR; with `unclean`, failing that, the first live one at all.

    A clean election keeps the live part of the ISR.  An unclean one leaves an ISR of the leader alone, marked as
    recovering (KIP-704).
    """
    for broker_id in assignment:
        if broker_id in live and broker_id in state.isr:
            return _lead(state, broker_id, [b for b in state.isr if b in live])
    if unclean:
        for broker_id in assignment:
            if broker_id in live:
                return _lead(state, broker_id, [broker_id], recovering=True)
    return None


def leader_for_reassignment(state: LeaderAndIsr, target: Sequence[int], live: Collection[int]) -> LeaderAndIsr | None:
    """The first target replica that is live and in the ISR, which stays as it is."""
    for broker_id in target:
        if broker_id in live and broker_id in state.isr:
            return _lead(state, broker_id, state.isr)
    return None


def leader_for_preferred(state: LeaderAndIsr, assignment: Sequence[int], live: Collection[int]) -> LeaderAndIsr | None:
    """The head of the assignment, if it is live and in the ISR, which stays as it is."""
    if assignment and assignment[0] in live and assignment[0] in state.isr:
        return _lead(state, assignment[0], state.isr)
    return None


def leader_for_controlled_shutdown(
    state: LeaderAndIsr,
    assignment: Sequence[int],
    live_or_shutting_down: Collection[int],
    shutting_down: Collection[int],
) -> LeaderAndIsr | None:
    """The first replica that is online, in the ISR and not shutting down; the ISR loses those that are."""
    for broker_id in assignment:
        if broker_id in live_or_shutting_down and broker_id in state.isr and broker_id not in shutting_down:
            return _lead(state, broker_id, [b for b in state.isr if b not in shutting_down])
    return None


def leader_after_bounce(
    state: LeaderAndIsr, assignment: Sequence[int], live: Collection[int], bounced: Collection[int]
) -> LeaderAndIsr:
    """The state once live members of the ISR turn out to be other processes than those that the state speaks of.

    The ISR keeps the live members that did not bounce, and only where there is none the bounced ones, so it is never
    empty: they may be all there is, after a restart of the whole cluster say.  The leader stays if it is among those
    kept (a bounced leader has the longest log to begin with); else it is the first of them in the assignment.
    """
    steady = [b for b in state.isr if b in live and b not in bounced]
    kept = steady or [b for b in state.isr if b in bounced]
    assert kept, "some member of the ISR has bounced"
    if state.leader in kept:
        return _lead(state, state.leader, kept)
    return _lead(state, next((b for b in assignment if b in kept), kept[0]), kept)
