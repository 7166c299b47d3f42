"""What befalls brokers and topics in particular: shutdowns, bounces, lost sessions, and operators at work."""

from __future__ import annotations

from journal.events import TopicPartition
from kafka_protocol.client.admin_client import PREFERRED, UNCLEAN
from simulation.faults.nemesis import Action, Nemesis

CHURNED = "churned"
"""Topics that come and go are named so, with a number; nobody writes to them."""
PARTITIONS_MAX = 5
BACK_MS_MIN = 50
BACK_MS_MAX = 9_000


def stop_broker(nemesis: Nemesis) -> None:
    """SIGTERM: a controlled shutdown; the broker comes back later."""
    name = nemesis.pick(nemesis.world.broker_names())
    if nemesis.world.is_running(name) and not nemesis.world.is_paused(name):
        nemesis.world.stop_broker(name, nemesis.random.randrange(BACK_MS_MIN, BACK_MS_MAX))


def bounce_broker(nemesis: Nemesis) -> None:
    """Killed and started again before anybody can have noticed."""
    name = nemesis.pick(nemesis.world.broker_names())
    if nemesis.world.is_running(name):
        nemesis.world.kill(name, power_loss=nemesis.random.random() < 0.3)
        nemesis.until_healed(lambda: nemesis.world.start(name), nemesis.random.randrange(1, 300))


def expire_session(nemesis: Nemesis) -> None:
    """A broker loses the ensemble for longer than its session lasts, but neither its fellows nor its clients."""
    name = nemesis.pick(nemesis.world.broker_names())
    session_ms = nemesis.world.settings.session_timeout_ms
    cuts = [nemesis.world.cut(name, peer) for peer in nemesis.world.peer_names()]
    nemesis.until_healed(lambda: [heal() for heal in cuts], nemesis.random.randrange(session_ms, 2 * session_ms))


def cut_brokers(nemesis: Nemesis) -> None:
    """Two brokers do not hear each other, or one of them does not; both have the ensemble."""
    names = nemesis.world.broker_names()
    source = nemesis.pick(names)
    others = [name for name in names if name != source]
    if others:
        both_ways = nemesis.random.random() < 0.5
        nemesis.until_healed(nemesis.world.cut(source, nemesis.pick(others), both_ways=both_ways))


def churn_topic(nemesis: Nemesis) -> None:
    """A topic is made, or one that was made so is deleted."""
    draw, brokers = nemesis.random, len(nemesis.world.brokers)
    made = [name for name in nemesis.world.replication.znodes.topics if name.startswith(CHURNED)]
    if made and draw.random() < 0.5:
        nemesis.kafka.delete_topic(made[draw.randrange(0, len(made))])
    else:
        name = f"{CHURNED}-{draw.randrange(0, 4)}"
        nemesis.kafka.create_topic(name, draw.randrange(1, 4), draw.randrange(1, brokers + 1))


def grow_topic(nemesis: Nemesis) -> None:
    """A topic that nobody writes to gets one more partition."""
    topics = nemesis.world.replication.znodes.topics
    made = [name for name in topics if name.startswith(CHURNED)]
    if made:
        name = made[nemesis.random.randrange(0, len(made))]
        if len(topics[name].partitions) < PARTITIONS_MAX:
            nemesis.kafka.create_partitions(name, len(topics[name].partitions) + 1)


def elect_preferred(nemesis: Nemesis) -> None:
    """Preferred elections for all partitions."""
    nemesis.kafka.elect(PREFERRED, None)


def elect_unclean(nemesis: Nemesis) -> None:
    """An unclean election for one partition; it does nothing where there is a leader."""
    nemesis.kafka.elect(UNCLEAN, [_some_partition(nemesis)])


def flip_unclean(nemesis: Nemesis) -> None:
    """A topic may elect anybody for a while."""
    topic = _some_partition(nemesis).topic
    nemesis.kafka.configure_topic(topic, "unclean.leader.election.enable", "true")
    nemesis.until_healed(lambda: nemesis.kafka.configure_topic(topic, "unclean.leader.election.enable", None))


def change_min_isr(nemesis: Nemesis) -> None:
    """A topic asks for another number of replicas in sync."""
    topic = _some_partition(nemesis).topic
    wanted = nemesis.random.randrange(1, len(nemesis.world.brokers) + 1)
    nemesis.kafka.configure_topic(topic, "min.insync.replicas", str(wanted))


def reassign(nemesis: Nemesis) -> None:
    """Replicas move, also while they are moving already; or a move is cancelled."""
    draw, name = nemesis.random, _some_partition(nemesis)
    if draw.random() < 0.2:
        nemesis.kafka.reassign({name: None})
        return
    brokers = list(nemesis.world.brokers)
    shuffled = [broker for _, broker in sorted((draw.random(), broker) for broker in brokers)]
    nemesis.kafka.reassign({name: tuple(shuffled[: draw.randrange(1, len(brokers) + 1)])})


def _some_partition(nemesis: Nemesis) -> TopicPartition:
    known = list(nemesis.world.replication.znodes.states)
    return known[nemesis.random.randrange(0, len(known))] if known else TopicPartition("orders", 0)


BROKER_FAULTS: dict[str, Action] = {
    "stop_broker": stop_broker,
    "bounce_broker": bounce_broker,
    "expire_session": expire_session,
    "cut_brokers": cut_brokers,
    "churn_topic": churn_topic,
    "grow_topic": grow_topic,
    "elect_preferred": elect_preferred,
    "elect_unclean": elect_unclean,
    "flip_unclean": flip_unclean,
    "change_min_isr": change_min_isr,
    "reassign": reassign,
}
