"""Actions on brokers and topics: shutdowns, empty disks, and commands of an operator, sensible or not."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from zabka.kafka.client.admin_client import PREFERRED, UNCLEAN
from zabka.simulation.cluster.node_names import broker_name
from zabka.simulation.engine.scheduler import Deadlock
from zabka.simulation.faults.actions import (
    DELAYS_MS,
    LASTS,
    LASTS_MS,
    MEASURE,
    OTHERS,
    WHICH,
    WHO,
    ActionNumbers,
    SearchAction,
    Stage,
)
from zabka.simulation.faults.kafka_operator import operator_in
from zabka.simulation.faults.operator import Operator
from zabka.simulation.faults.roles import parts

CHURNED = "churned"
EPOCH_RISES_BY = 5
CATCHES_UP_MS = 600
COMMITS_MS = 1_000


def stop_broker(stage: Stage, words: ActionNumbers) -> str:
    """Shut a broker down with a controlled shutdown, and start it again later."""
    name, world = stage.subject(words), stage.world
    if name not in world.broker_names() or not world.is_running(name) or world.is_paused(name):
        return ""
    back_ms = words.time_ms(LASTS, LASTS_MS)
    world.stop_broker(name, back_ms)
    stage.cast.last = name
    return f"{name} shuts down, and starts again {back_ms} ms later"


def empty_disk(stage: Stage, words: ActionNumbers) -> str:
    """Cut the power of a broker's machine, and start it again later with an empty disk."""
    name, world = stage.subject(words), stage.world
    machine = next((machine for machine in world.brokers.values() if machine.name == name), None)
    if machine is None:
        return ""
    world.kill(name, power_loss=True)
    world.over(world.announce("disk_replaced", name))
    machine.format()
    stage.cast.last = name
    back_ms = words.time_ms(LASTS, LASTS_MS)
    stage.after(back_ms, lambda: world.start(name))
    return f"{name} loses its disk, and is back after {back_ms} ms"


def late_isr_change(stage: Stage, words: ActionNumbers) -> str:
    """Make a follower fall behind and catch up, while the leader's requests to change the ISR are delayed.

    The ISR change is still in flight when the next step begins, because the leader's messages to the controller or to
    the ensemble are delayed.
    """
    world, found = stage.world, parts(stage.world, stage.focus)
    if not found.leader or not found.followers or found.controller in ("", found.leader):
        return ""
    follower = found.followers[words.below(WHICH, len(found.followers))]
    lag_ms, late_ms = world.settings.replica_lag_time_max_ms, words.time_ms(LASTS, DELAYS_MS[3:])
    heal = world.cut(follower, found.leader)
    world.run(3 * lag_ms // 2)
    slow = world.peer_names() if words.below(OTHERS, 3) == 2 else [found.controller]
    for each in slow:
        stage.on_links(world.delay(found.leader, each, late_ms))
    heal()
    world.run(CATCHES_UP_MS + words.below(MEASURE, CATCHES_UP_MS))
    stage.cast.last = follower
    return f"{follower} falls behind and catches up, and what {found.leader} tells {' '.join(slow)} takes {late_ms} ms"


def pause_follower(stage: Stage, words: ActionNumbers) -> str:
    """Cut the link between a follower and its leader, so that the follower leaves the ISR.

    The next step begins when the follower has left the ISR. The link remains cut.
    """
    world, found = stage.world, parts(stage.world, stage.focus)
    state = world.replication.znodes.states.get(stage.focus)
    members = [name for name in found.followers if state is not None and name in map(broker_name, state.isr)]
    if not found.leader or not members:
        return ""
    follower = members[words.below(WHICH, len(members))]
    stage.on_links(world.cut(follower, found.leader))

    def has_left() -> bool:
        now = world.replication.znodes.states.get(stage.focus)
        return now is None or follower not in map(broker_name, now.isr)

    with suppress(Deadlock):
        world.until(has_left, 2 * world.settings.replica_lag_time_max_ms)
    stage.cast.last = follower
    return f"cut {follower} off from {found.leader} until it leaves the ISR"


def commit_alone(stage: Stage, words: ActionNumbers) -> str:
    """Isolate a leader after it has committed records, so that no other replica knows of the commit.

    A follower is cut off from its leader until it leaves the ISR. From then on, everything that the leader sends to
    other replicas is lost, and the next step begins. The links remain cut.
    """
    world, found = stage.world, parts(stage.world, stage.focus)
    state = world.replication.znodes.states.get(stage.focus)
    members = [name for name in found.followers if state is not None and name in map(broker_name, state.isr)]
    if not found.leader or len(members) < 2 or not world.is_running(found.leader):
        return ""
    follower = members[words.below(WHICH, len(members))]
    stage.on_links(world.cut(follower, found.leader))
    begin = world.replication.leader_high_watermark(stage.focus)

    def has_left() -> bool:
        now = world.replication.znodes.states.get(stage.focus)
        return now is None or follower not in map(broker_name, now.isr)

    with suppress(Deadlock):
        world.until(has_left, 2 * world.settings.replica_lag_time_max_ms)
        for other in members:
            if other != follower:
                stage.on_links(world.cut(found.leader, other, both_ways=False))
        world.until(lambda: world.replication.leader_high_watermark(stage.focus) != begin, COMMITS_MS)
    stage.cast.last = found.leader
    return (
        f"cut {follower} off from {found.leader} until it leaves the ISR, and {found.leader} is not heard from then on"
    )


def lose_leader(stage: Stage, words: ActionNumbers) -> str:
    """Kill the partition's leader, and delay what the next leader sends to the other replicas.

    The delays and the next step begin when a new leader is elected.
    """
    world, found = stage.world, parts(stage.world, stage.focus)
    if not found.leader or not world.is_running(found.leader):
        return ""
    late_ms, power_loss = words.time_ms(LASTS, DELAYS_MS[:5]), words.below(MEASURE, 4) == 3
    world.kill(found.leader, power_loss)
    died = f"{found.leader} {'loses power' if power_loss else 'is killed'}"
    stage.cast.last = found.leader
    try:
        world.until(
            lambda: parts(world, stage.focus).leader not in ("", found.leader), 2 * world.settings.session_timeout_ms
        )
    except Deadlock:
        return died
    now = parts(world, stage.focus)
    for other in now.followers:
        stage.on_links(world.delay(now.leader, other, late_ms))
    return f"{died}, and what {now.leader} tells the other replicas, which leads now, takes {late_ms} ms"


def lose_session(stage: Stage, words: ActionNumbers) -> str:
    """Cut a running broker off from the ensemble until its session has expired.

    The next step begins when the session has expired. The links remain cut.
    """
    name, world = stage.subject(words), stage.world
    broker = next((broker for broker, node in world.brokers.items() if node.name == name), None)
    if broker is None or not world.is_running(name) or broker not in world.replication.znodes.brokers:
        return ""
    for peer in world.peer_names():
        stage.on_links(world.cut(name, peer))
    with suppress(Deadlock):
        world.until(lambda: broker not in world.replication.znodes.brokers, 2 * world.settings.session_timeout_ms)
    stage.cast.last = name
    return f"cut {name} off from the ensemble until its session is over"


def relieve(stage: Stage, words: ActionNumbers) -> str:
    """Kill the partition's leader, and at the same time start a replica that is down."""
    world, found = stage.world, parts(stage.world, stage.focus)
    down = [name for name in found.followers if not world.is_running(name)]
    if not found.leader or not world.is_running(found.leader) or not down:
        return ""
    world.kill(found.leader)
    name = down[words.below(WHICH, len(down))]
    world.start(name)
    stage.cast.last = found.leader
    return f"kill {found.leader}, and start {name}"


class Prompt:
    """Commands of an operator who uses ZooKeeper's and Kafka's tools; one instance per run."""

    def __init__(self, stage: Stage) -> None:
        self._kafka = operator_in(stage.world)
        self._zookeeper = Operator(stage.world)

    def move_controller(self, stage: Stage, words: ActionNumbers) -> str:
        """Delete /controller, so that the brokers elect a new controller."""
        self._zookeeper.move_controller()
        return "delete /controller"

    def raise_controller_epoch(self, stage: Stage, words: ActionNumbers) -> str:
        """Increase the controller epoch in /controller_epoch, as if another controller had been elected.

        The controller notices the change at its next write to ZooKeeper.  To cause a write, kill a registered replica
        of the partition for longer than its session timeout.
        """
        world, found = stage.world, parts(stage.world, stage.focus)
        registered = [broker_name(broker) for broker in world.replication.znodes.brokers]
        names = [name for name in (found.leader, *found.followers) if name in registered and world.is_running(name)]
        if not names:
            return ""
        self._zookeeper.raise_controller_epoch(EPOCH_RISES_BY)
        name = names[words.below(WHICH, len(names))]
        world.kill(name)
        stage.until_repaired(lambda: world.start(name), 2 * world.settings.session_timeout_ms)
        return f"raise /controller_epoch by {EPOCH_RISES_BY}, and kill {name}"

    def hold_broker_id(self, stage: Stage, words: ActionNumbers) -> str:
        """Register the id of an unregistered broker in another process's session, so that the broker cannot use it."""
        gone = [each for each in stage.world.brokers if each not in stage.world.replication.znodes.brokers]
        if not gone:
            return ""
        broker, for_ms = gone[words.below(WHICH, len(gone))], words.time_ms(LASTS, LASTS_MS)
        self._zookeeper.hold_broker_id(broker, for_ms)
        return f"a stranger holds the id of {broker_name(broker)} for {for_ms} ms"

    def elect(self, stage: Stage, words: ActionNumbers) -> str:
        """Request a preferred leader election, or in a few cases an unclean one."""
        kind = UNCLEAN if words.below(MEASURE, 4) == 3 else PREFERRED
        self._kafka.elect(kind, [stage.focus])
        return f"ask for {'an unclean' if kind == UNCLEAN else 'a preferred'} election for {stage.focus}"

    def reassign(self, stage: Stage, words: ActionNumbers) -> str:
        """Reassign the partition to other replicas, or cancel its reassignment."""
        brokers = list(stage.world.brokers)
        if words.below(WHO, 5) == 4:
            self._kafka.reassign({stage.focus: None})
            return f"cancel the move of {stage.focus}"
        first, count = words.below(OTHERS, len(brokers)), 1 + words.below(MEASURE, min(3, len(brokers)))
        turned = brokers[first:] + brokers[:first]
        wanted = tuple((turned[::-1] if words.below(WHICH, 2) else turned)[:count])
        self._kafka.reassign({stage.focus: wanted})
        return f"move {stage.focus} to {' '.join(map(str, wanted))}"

    def configure(self, stage: Stage, words: ActionNumbers) -> str:
        """Change the topic's min.insync.replicas, or allow unclean leader elections for a while."""
        topic = stage.focus.topic
        if words.below(MEASURE, 4) == 3:
            for_ms, unclean = words.time_ms(LASTS, LASTS_MS), "unclean.leader.election.enable"
            self._kafka.configure_topic(topic, unclean, "true")
            stage.after(for_ms, partial(self._kafka.configure_topic, topic, unclean, None))
            return f"{topic} may elect anybody for {for_ms} ms"
        wanted = 1 + words.below(WHICH, 3)
        self._kafka.configure_topic(topic, "min.insync.replicas", str(wanted))
        return f"{topic} wants {wanted} in sync"

    def churn(self, stage: Stage, words: ActionNumbers) -> str:
        """Create or delete a topic that has no producers, or add a partition to it."""
        brokers, made = len(stage.world.brokers), stage.world.replication.znodes.topics
        name = f"{CHURNED}-{words.below(WHICH, 2)}"
        if name not in made:
            self._kafka.create_topic(name, 1 + words.below(MEASURE, 2), 1 + words.below(OTHERS, brokers))
            return f"create {name}"
        if words.below(MEASURE, 2):
            self._kafka.delete_topic(name)
            return f"delete {name}"
        self._kafka.create_partitions(name, len(made[name].partitions) + 1)
        return f"grow {name}"

    def actions(self) -> dict[str, SearchAction]:
        """Return all actions of the operator, keyed by name."""
        return {
            "move_controller": self.move_controller,
            "raise_controller_epoch": self.raise_controller_epoch,
            "hold_broker_id": self.hold_broker_id,
            "elect": self.elect,
            "reassign": self.reassign,
            "configure": self.configure,
            "churn": self.churn,
        }


BROKERS: dict[str, SearchAction] = {
    "stop_broker": stop_broker,
    "empty_disk": empty_disk,
    "late_isr_change": late_isr_change,
    "pause_follower": pause_follower,
    "commit_alone": commit_alone,
    "lose_leader": lose_leader,
    "lose_session": lose_session,
    "relieve": relieve,
}
