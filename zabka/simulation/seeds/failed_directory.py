"""The end of a run on disks that fail: a broker loses one of its log directories, and the others go on without it
(KIP-112)."""

from __future__ import annotations

from zabka.journal.events import TopicPartition
from zabka.simulation.disks.faulty_log_directory import OPERATIONS
from zabka.simulation.faults.disk_faults import MENDED_MS
from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.world import World

GOES_ON_MS_MAX = 120_000


def go_on_without_a_directory(world: World) -> None:
    """A broker of two directories loses one: others must lead what lies there, without the replicas that are out of
    reach.  Then it is mended.  Raises what `World.until` raises."""
    draw = derive_random(world.seed, "last directory")
    nodes = [node for node in world.brokers.values() if len(node.directories) > 1]
    if not nodes:
        return
    world.until(lambda: world.unsettled() is None, GOES_ON_MS_MAX, "brokers that agree before another directory fails")
    node = nodes[draw.randrange(0, len(nodes))]
    assert node.disks is not None, "only disks that fail can be told to"
    directory = node.disks.directories[draw.randrange(0, len(node.disks.directories))]
    lying = [name for name in world.replication.znodes.states if str(name) in directory.disk.partitions()]
    ends = world.announce("log_dir_fails", node.name)
    directory.fail(OPERATIONS)
    world.until(
        lambda: not any(_is_counted_on(world, node.broker_id, name) for name in lying),
        GOES_ON_MS_MAX,
        f"partitions that do not count on what lies in a failed directory of {node.name}",
    )
    world.kill(node.name, power_loss=True)
    directory.mend()
    ends()
    world.run(MENDED_MS)
    world.start(node.name)


def _is_counted_on(world: World, broker: int, name: TopicPartition) -> bool:
    """Does the quorum take that broker to lead, or to be in sync where others are?"""
    state = world.replication.znodes.states.get(name)
    return state is not None and (state.leader == broker or (broker in state.isr and len(state.isr) > 1))
