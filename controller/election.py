"""Leader selection as pure functions, one per election strategy.

Source: kafka.controller.Election, except `leader_after_bounce`, which exists only in zabka. Each function receives a
partition's state and assignment and returns the state to write (with leader epoch + 1), or None if no replica can lead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum

from zabka.controller.eligibility import trusted, with_isr, without_eligible
from zabka.kafka.zk.znodes import LeaderAndIsr


class ElectionStrategy(Enum):
    """The reason for an election, which selects the algorithm."""

    OFFLINE = "offline"
    """The leader failed. An unclean election is allowed only if the topic's or the broker's configuration enables
    it.
    """
    OFFLINE_UNCLEAN = "offline_unclean"
    """The leader failed. An unclean election is allowed because an administrator requested it."""
    PREFERRED = "preferred"
    REASSIGNMENT = "reassignment"
    """A reassignment removes the leader, or the leader is dead."""
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
    """Elect the first live replica of the ISR, or else the first eligible one. With `unclean`, any live replica can
    lead.

    An unclean election elects the first live replica, but prefers doubtful ISR members, which may have lost records
    (see `zabka.controller.eligibility`). A clean election keeps the live ISR members, or begins a new ISR with an
    eligible leader. After an unclean election, the ISR contains only the leader, the state is marked as recovering
    (KIP-704), and no replica is eligible, because the eligible replicas' committed records belong to a history that is
    no longer valid.
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
                return without_eligible(_lead(state, broker_id, [broker_id], recovering=True))
    return None


def is_unclean(before: LeaderAndIsr, elected: LeaderAndIsr) -> bool:
    """Return whether this election may lose committed records."""
    return elected.leader not in (*trusted(before), *before.eligible)


def leader_for_reassignment(state: LeaderAndIsr, target: Sequence[int], live: Collection[int]) -> LeaderAndIsr | None:
    """Elect the first target replica that is live and in the ISR. The ISR does not change."""
    for broker_id in target:
        if broker_id in live and broker_id in trusted(state):
            return _lead(state, broker_id, state.isr)
    return None


def leader_for_preferred(state: LeaderAndIsr, assignment: Sequence[int], live: Collection[int]) -> LeaderAndIsr | None:
    """Elect the first replica of the assignment if it is live and in the ISR. The ISR does not change."""
    if assignment and assignment[0] in live and assignment[0] in trusted(state):
        return _lead(state, assignment[0], state.isr)
    return None


def leader_for_controlled_shutdown(
    state: LeaderAndIsr,
    assignment: Sequence[int],
    live_or_shutting_down: Collection[int],
    shutting_down: Collection[int],
) -> LeaderAndIsr | None:
    """Elect the first online ISR member that is not shutting down, and remove shutting-down replicas from the ISR."""
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
    """Return the state of a partition with live replicas that have bounced since the state was last written.

    The live members that did not bounce stay in the ISR. If there are none, bounced members stay, because they may be
    the only ones, for example after a restart of the whole cluster, and an ISR is never empty. If some of these have an
    `intact` log, only they stay: a replica that has lost records must not count towards min.insync.replicas. If the
    leader is among the members that stay, it stays leader, because a bounced leader probably has the longest log.
    Otherwise the first such member in the assignment becomes leader.
    """
    in_sync = trusted(state)
    steady = [b for b in in_sync if b in live and b not in bounced]
    back = [b for b in in_sync if b in bounced]
    kept = steady or [b for b in back if b in intact] or back
    if not kept:
        # All ISR members are dead or may have lost records, and an eligible replica has bounced. Do not change the
        # state.
        return _lead(state, state.leader, state.isr)
    if state.leader in kept:
        return _lead(state, state.leader, kept)
    return _lead(state, next((b for b in assignment if b in kept), kept[0]), kept)
