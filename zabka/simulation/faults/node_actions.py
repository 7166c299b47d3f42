"""Actions on processes, links and disks that the search can use in any world."""

from __future__ import annotations

from functools import partial

from zabka.simulation.faults.actions import (
    DELAYS_MS,
    LASTS,
    LASTS_MS,
    MEASURE,
    OTHERS,
    WHICH,
    ActionNumbers,
    SearchAction,
    Stage,
)

DISK_FACTOR_MAX = 400
CUTS = ("off from", "off from", "off from", "on its way to", "on the way from")
IS_NOT_HEARD, HEARS_NOTHING = 3, 4
"""Indices in CUTS of the one-way cuts: packets from the node are lost, or packets to the node are lost."""
CLIENTS = ("writer", "writer", "watcher", "visitor-1", "visitor-2", "patient")
"""Machines that run clients of the ensemble; a repeated name is chosen more often."""
RETRIES_MS = (0, 3, 30, 300, 1_200)
"""Times in ms after which the links of a paused node heal. The links to the other nodes use these times in turn."""
STOPPED_MS = (400, 1_200, 2_500, 4_000, 8_000)
"""Durations of a pause in ms, below and above the timeouts of the other nodes and of ensemble clients."""
LAST_WORDS_MS = (30, 100, 200)
"""Time in ms that a server continues to run, with its messages delayed, before it is killed."""


def rest(stage: Stage, words: ActionNumbers) -> str:
    """Do nothing in this step."""
    return ""


# -- process faults ----------------------------------------------------------------------------------------------------


def _killed(stage: Stage, words: ActionNumbers, *, power_loss: bool) -> str:
    name = stage.subject(words)
    if not name or not stage.world.is_running(name):
        return ""
    stage.world.kill(name, power_loss)
    stage.cast.last = name
    return name


def kill(stage: Stage, words: ActionNumbers) -> str:
    """Kill a node, which stays down."""
    name = _killed(stage, words, power_loss=False)
    return name and f"kill {name}"


def cut_power(stage: Stage, words: ActionNumbers) -> str:
    """Cut a node's power; the node stays down."""
    name = _killed(stage, words, power_loss=True)
    return name and f"{name} loses power"


def bounce(stage: Stage, words: ActionNumbers) -> str:
    """Kill a node, and start it again soon."""
    name = _killed(stage, words, power_loss=words.below(MEASURE, 3) == 2)
    back_ms = words.time_ms(LASTS, LASTS_MS[:3])
    if name:
        stage.after(back_ms, lambda: stage.world.start(name))
    return name and f"kill {name}, which is back after {back_ms} ms"


def cut_all_power(stage: Stage, words: ActionNumbers) -> str:
    """Kill all peers or all brokers at the same time, with or without a power loss, and start them together later."""
    world = stage.world
    names = world.broker_names() if world.brokers and words.below(WHICH, 2) else world.peer_names()
    power_loss, back_ms = words.below(MEASURE, 2) == 1, words.time_ms(LASTS, LASTS_MS)
    for name in names:
        world.kill(name, power_loss)
    for name in names:
        stage.after(back_ms, partial(world.start, name))
    return f"{' '.join(names)} {'lose power' if power_loss else 'are killed'}, and are back after {back_ms} ms"


def restart(stage: Stage, words: ActionNumbers) -> str:
    """Start all nodes that are down."""
    down = [name for name in stage.world.node_names() if not stage.world.is_running(name)]
    stage.world.start()
    return f"start {' '.join(down)}" if down else ""


def start_one(stage: Stage, words: ActionNumbers) -> str:
    """Start one of the nodes that are down."""
    down = [name for name in stage.world.node_names() if not stage.world.is_running(name)]
    if not down:
        return ""
    name = down[words.below(WHICH, len(down))]
    stage.world.start(name)
    return f"start {name}"


def pause(stage: Stage, words: ActionNumbers) -> str:
    """Pause a node, and resume it later."""
    name = stage.subject(words)
    if not name or not stage.world.is_running(name) or stage.world.is_paused(name):
        return ""
    stage.world.pause(name)
    stage.cast.last = name
    lasts_ms = words.time_ms(LASTS, LASTS_MS)
    stage.after(lasts_ms, lambda: stage.world.resume(name))
    return f"stop {name} for {lasts_ms} ms"


def stop_apart(stage: Stage, words: ActionNumbers) -> str:
    """Pause a node and cut it off from all servers.

    The links heal at different times.  So when the node resumes, requests of its clients have already arrived, but it
    does not know yet that other servers have closed their connections to it.
    """
    world = stage.world
    leads = "" if world.brokers or words.below(OTHERS, 2) else stage.cast.zab_leader
    name = leads or stage.subject(words)
    if not name or not world.is_running(name) or world.is_paused(name):
        return ""
    stage.cast.last = name
    first, lasts_ms = words.below(MEASURE, len(RETRIES_MS)), words.time_ms(LASTS, STOPPED_MS)
    for number, other in enumerate((other for other in world.node_names() if other != name), first):
        stage.until_repaired(world.cut(name, other), lasts_ms + RETRIES_MS[number % len(RETRIES_MS)])
    world.pause(name)
    stage.after(lasts_ms, lambda: world.resume(name))
    return f"stop {name} for {lasts_ms} ms, cut off from everybody"


def crash_soon(stage: Stage, words: ActionNumbers) -> str:
    """Kill a peer while its last messages to the leader are delayed, and start it again later."""
    world, leader = stage.world, stage.cast.zab_leader
    servers = [name for name in world.peer_names() if name != leader and world.is_running(name)]
    if not leader or not servers:
        return ""
    name = servers[words.below(WHICH, len(servers))]
    late_ms, dies_ms = words.time_ms(LASTS, DELAYS_MS), words.time_ms(MEASURE, LAST_WORDS_MS)
    back_ms = words.time_ms(OTHERS, LASTS_MS)
    arrive_in_time = world.delay(name, leader, late_ms)

    def die() -> None:
        world.kill(name)
        arrive_in_time()
        stage.after(back_ms, lambda: world.start(name))

    stage.until_repaired(die, dies_ms)
    stage.cast.last = name
    return f"kill {name} in {dies_ms} ms, whose last words to {leader} take {late_ms} ms; it is back {back_ms} ms later"


def slow_disk(stage: Stage, words: ActionNumbers) -> str:
    """Slow down a peer's disk. The disk is fast again when the link faults are undone."""
    peers = stage.world.peer_names()
    name = peers[words.below(WHICH, len(peers))]
    factor = 10 + words.below(MEASURE, DISK_FACTOR_MAX)
    stage.on_links(stage.world.slow_disk(name, factor))
    return f"the disk of {name} is {factor} times as slow"


# -- link faults -------------------------------------------------------------------------------------------------------


def cut(stage: Stage, words: ActionNumbers) -> str:
    """Cut a node off from other nodes, in one or both directions."""
    name = stage.subject(words)
    others = stage.objects(words, name) if name else []
    if not others:
        return ""
    way = words.below(LASTS, len(CUTS))
    for other in others:
        source, target = (other, name) if way == HEARS_NOTHING else (name, other)
        stage.on_links(stage.world.cut(source, target, way not in (IS_NOT_HEARD, HEARS_NOTHING)))
    stage.cast.last = name
    return f"cut {name} {CUTS[way]} {' '.join(others)}"


def delay(stage: Stage, words: ActionNumbers) -> str:
    """Delay the messages that a node sends to other nodes, or the messages that it receives from them."""
    name = stage.subject(words)
    others = stage.objects(words, name) if name else []
    if not others:
        return ""
    late_ms, away = words.time_ms(LASTS, DELAYS_MS), words.below(MEASURE, 2) == 0
    for other in others:
        source, target = (name, other) if away else (other, name)
        stage.on_links(stage.world.delay(source, target, late_ms))
    return f"what {name} {'sends to' if away else 'hears from'} {' '.join(others)} takes {late_ms} ms"


def heal(stage: Stage, words: ActionNumbers) -> str:
    """Undo all link faults."""
    stage.heal_links()
    return "links heal"


def cut_client(stage: Stage, words: ActionNumbers) -> str:
    """Cut a client off from a server.  A one-way cut affects only the direction from client to server."""
    client = CLIENTS[words.below(OTHERS, len(CLIENTS))]
    peers = stage.world.peer_names()
    name = peers[words.below(WHICH, len(peers))]
    both_ways = words.below(LASTS, 3) == 0
    stage.on_links(stage.world.cut(client, name, both_ways))
    return f"cut {client} {'off from' if both_ways else 'towards'} {name}"


EVERYWHERE: dict[str, SearchAction] = {
    "kill": kill,
    "cut_power": cut_power,
    "bounce": bounce,
    "cut_all_power": cut_all_power,
    "pause": pause,
    "stop_apart": stop_apart,
    "crash_soon": crash_soon,
    "slow_disk": slow_disk,
    "cut": cut,
    "delay": delay,
}
"""Actions that are possible in any world.  A run uses a random selection of them."""
MENDING: tuple[SearchAction, ...] = (restart, start_one, heal)
"""Actions that start nodes and heal links.  Every run includes them."""
