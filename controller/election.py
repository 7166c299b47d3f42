"""Whom to make leader: the selections, as pure functions (kafka.controller.Election, and one of our own).

Each takes a partition's state and its assignment, and answers the state to be written (leader epoch + 1), or None
where nobody can lead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum

from zabka.controller.eligibility import trusted, with_isr, with_nobody_eligible
from zabka.kafka.zk.znodes import LeaderAndIsr


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
    return with_isr(state, isr)._replace(
        leader=leader,
        leader_epoch=state.leader_epoch + 1,
        recovering=state.recovering if recovering is None else recovering,
    )


def leader_for_offline(
    state: LeaderAndIsr, assignment: Sequence[int], live: Collection[int], *, unclean: bool
) -> LeaderAndIsr | None:
    """The first live replica in the ISR, failing that the first one eligible; with `unclean` the first at all, though
    rather one of the ISR that is doubtful.

    A clean election keeps the live part of the ISR, or begins one.  An unclean one leaves an ISR of the leader alone,
    marked as recovering (KIP-704), and nobody who has all that was committed, for that is another history now.
    """
    in_sync = trusted(state)
    for broker_id in assignment:
        if broker_id in live and broker_id in in_sync:
            return _lead(state, broker_id, [b for b in in_sync if b in live])
    for broker_id in assignment:
        if broker_id in live and broker_id in state.eligible:
            return _lead(state, broker_id, [broker_id])
    if unclean:
        for broker_id in sorted(assignment, key=lambda b: b not in state.doubtful):
            if broker_id in live:
                return with_nobody_eligible(_lead(state, broker_id, [broker_id], recovering=True))
    return None


def is_unclean(before: LeaderAndIsr, elected: LeaderAndIsr) -> bool:
    """May what was committed be lost by that election?"""
    return elected.leader not in (*trusted(before), *before.eligible)


def leader_for_reassignment(state: LeaderAndIsr, target: Sequence[int], live: Collection[int]) -> LeaderAndIsr | None:
    """The first target replica that is live and in the ISR, which stays as it is."""
    for broker_id in target:
        if broker_id in live and broker_id in trusted(state):
            return _lead(state, broker_id, state.isr)
    return None


def leader_for_preferred(state: LeaderAndIsr, assignment: Sequence[int], live: Collection[int]) -> LeaderAndIsr | None:
    """The head of the assignment, if it is live and in the ISR, which stays as it is."""
    if assignment and assignment[0] in live and assignment[0] in trusted(state):
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
    state: LeaderAndIsr,
    assignment: Sequence[int],
    live: Collection[int],
    bounced: Collection[int],
    intact: Collection[int] = (),
) -> LeaderAndIsr:
    """The state once live replicas turn out to be other processes than those that the state speaks of.

    The ISR keeps the live members that did not bounce, and only where there is none the bounced ones, so it is never
    empty: they may be all there is, after a restart of the whole cluster say.  Of these it keeps those alone whose logs
    are `intact`, if there are any.  Beside them one that has lost records would count towards the minimum by which the
    leader commits, though not as one that has what was committed.  The leader stays if it is among those kept (a
    bounced leader has the longest log to begin with); else it is the first of them in the assignment.
    """
    in_sync = trusted(state)
    steady = [b for b in in_sync if b in live and b not in bounced]
    back = [b for b in in_sync if b in bounced]
    kept = steady or [b for b in back if b in intact] or back
    if not kept:
        # Nobody of the ISR is live, or none that is not doubtful; one that is eligible has bounced.
        return _lead(state, state.leader, state.isr)
    if state.leader in kept:
        return _lead(state, state.leader, kept)
    return _lead(state, next((b for b in assignment if b in kept), kept[0]), kept)
