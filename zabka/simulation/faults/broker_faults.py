"""Broker faults: shutdowns, bounces, expired sessions, cut links, and topic changes by an operator."""

from __future__ import annotations

from zabka.simulation.faults.nemesis import Action, Nemesis
from zabka.simulation.faults.topic_faults import TOPIC_FAULTS

BACK_MS_MIN = 50
BACK_MS_MAX = 9_000


def stop_broker(nemesis: Nemesis) -> None:
    """Send SIGTERM to a broker (a controlled shutdown), and start it again later."""
    name = nemesis.pick(nemesis.world.broker_names())
    if nemesis.world.is_running(name) and not nemesis.world.is_paused(name):
        nemesis.world.stop_broker(name, nemesis.random.randrange(BACK_MS_MIN, BACK_MS_MAX))


def bounce_broker(nemesis: Nemesis) -> None:
    """Kill a broker and start it again before its session expires."""
    name = nemesis.pick(nemesis.world.broker_names())
    if nemesis.world.is_running(name):
        nemesis.world.kill(name, power_loss=nemesis.random.random() < 0.3)
        nemesis.until_healed(lambda: nemesis.world.start(name), nemesis.random.randrange(1, 300))


def expire_session(nemesis: Nemesis) -> None:
    """Cut a broker off from the ensemble for longer than its session timeout, but not from other brokers or clients."""
    name = nemesis.pick(nemesis.world.broker_names())
    session_ms = nemesis.world.settings.session_timeout_ms
    cuts = [nemesis.world.cut(name, peer) for peer in nemesis.world.peer_names()]
    nemesis.until_healed(lambda: [heal() for heal in cuts], nemesis.random.randrange(session_ms, 2 * session_ms))


def cut_brokers(nemesis: Nemesis) -> None:
    """Cut the link between two brokers, in one or both directions.  Both keep their links to the ensemble."""
    names = nemesis.world.broker_names()
    source = nemesis.pick(names)
    others = [name for name in names if name != source]
    if others:
        both_ways = nemesis.random.random() < 0.5
        nemesis.until_healed(nemesis.world.cut(source, nemesis.pick(others), both_ways=both_ways))


BROKER_FAULTS: dict[str, Action] = {
    "stop_broker": stop_broker,
    "bounce_broker": bounce_broker,
    "expire_session": expire_session,
    "cut_brokers": cut_brokers,
    **TOPIC_FAULTS,
}
