"""Chaos: selects at random, for each seed, which faults are injected and how often (swarm testing)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random

from zabka.simulation.cluster.world import World
from zabka.simulation.faults import link_faults, node_faults
from zabka.simulation.faults.broker_faults import BROKER_FAULTS
from zabka.simulation.faults.nemesis import Action, Nemesis

GAP_MS_MIN = 200
GAP_MS_MAX = 4_000
_NO_MORE: Mapping[str, Action] = {}
FAULTS: dict[str, Action] = {
    "crash_peer": node_faults.crash_peer,
    "crash_broker": node_faults.crash_broker,
    "power_loss_peer": node_faults.power_loss_peer,
    "power_loss_all_peers": node_faults.power_loss_all_peers,
    "power_loss_broker": node_faults.power_loss_broker,
    "pause": node_faults.pause,
    "zombie_controller": node_faults.zombie_controller,
    "moved_controller": node_faults.moved_controller,
    "cut_one_way": link_faults.cut_one_way,
    "cut_both_ways": link_faults.cut_both_ways,
    "isolate": link_faults.isolate,
    "split_peers": link_faults.split_peers,
    "delay": link_faults.delay,
    "slow_disk": node_faults.slow_disk,
    "cut_client": link_faults.cut_client,
    "depose_leader": link_faults.depose_leader,
    "swizzle_clog": link_faults.swizzle_clog,
    "priorities": link_faults.priorities,
    "flapping_follower": link_faults.flapping_follower,
}
"""Faults that are possible in any world, by name.  The order matters: it determines what a seed draws."""
_ENSEMBLE_ALONE = ("cut_client", "depose_leader", "swizzle_clog", "priorities")


def chaos(world: World, random: Random, more: Mapping[str, Action] = _NO_MORE) -> Nemesis:
    """Return a nemesis that injects some of FAULTS, and at least one of the faults in `more`, chosen at random.

    The faults in `more` have double weight.
    """
    known = {**FAULTS, **BROKER_FAULTS} if world.brokers else FAULTS
    kinds = list(known)
    if world.brokers:
        # Some seeds omit all ensemble faults and others all broker faults, so that the remaining faults are more
        # frequent.
        part = random.random()
        left_out: Iterable[str] = _ENSEMBLE_ALONE if part < 0.4 else BROKER_FAULTS if part > 0.7 else ()
        kinds = [kind for kind in known if kind not in left_out]
    chosen = [kind for kind in kinds if random.random() < 0.5] or [kinds[random.randrange(0, len(kinds))]]
    actions = [known[kind] for kind in chosen]
    drawn_gap_ms = random.randrange(GAP_MS_MIN, GAP_MS_MAX)
    gap_ms = world.settings.faults.gap_ms or drawn_gap_ms
    if more:
        drawn = [action for action in more.values() if random.random() < 0.5]
        actions += 2 * (drawn or [list(more.values())[random.randrange(0, len(more))]])
    return Nemesis(world, random, actions, gap_ms)
