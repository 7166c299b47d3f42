"""Last part of a run with disk faults: a broker loses a log directory, and the cluster must continue (KIP-112)."""

from __future__ import annotations

from zabka.journal.events import TopicPartition
from zabka.simulation.cluster.world import World
from zabka.simulation.draws import derive_random
from zabka.simulation.faults.disk_actions import repair

GOES_ON_MS_MAX = 30_000


def go_on_without_a_directory(world: World) -> None:
    """Make one log directory fail on a broker that has several.

    Wait until other brokers lead the directory's partitions, and its replicas have left the ISRs.  Then repair the
    directory.  Raises Deadlock if the cluster does not get that far.
    """
    draw = derive_random(world.seed, "last directory")
    machines = [machine for machine in world.brokers.values() if len(machine.log_dirs) > 1]
    if not machines:
        return
    world.until(lambda: world.unsettled() is None, GOES_ON_MS_MAX, "brokers that agree before another directory fails")
    machine = machines[draw.randrange(0, len(machines))]
    log_dir = machine.log_dirs[draw.randrange(0, len(machine.log_dirs))]
    there = machine.partitions(log_dir)
    stored = [name for name in world.replication.znodes.states if str(name) in there]
    world.leave_directories()
    fault_id = world.announce("log_dir_fails", machine.name)
    machine.volume.break_path(f"{log_dir}/")
    world.until(
        lambda: not any(_is_counted_on(world, machine.broker_id, name) for name in stored),
        GOES_ON_MS_MAX,
        f"partitions that do not count on a failed directory of {machine.name}",
    )
    repair(world, machine, fault_id)
    world.repair_directories()


def _is_counted_on(world: World, broker: int, name: TopicPartition) -> bool:
    """Return whether, in ZooKeeper, the broker is the partition's leader or one of several in-sync replicas."""
    state = world.replication.znodes.states.get(name)
    return state is not None and (state.leader == broker or (broker in state.isr and len(state.isr) > 1))
