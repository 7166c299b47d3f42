"""Live states for tests of mirrored worlds."""

from __future__ import annotations

from typing import Any

import msgspec

from zabka.simulation.mirror.live_state import DOWN, LiveNode, LivePartition, LiveState, LiveTopic

BROKER_KEYS = {"zookeeper.session.timeout.ms": "6000", "replica.lag.time.max.ms": "1500"}
ORDERS = LiveTopic(
    "orders",
    {"min.insync.replicas": "2"},
    (LivePartition(0, (1, 2, 3), 2, (1, 2, 3)), LivePartition(1, (3, 1, 2), 3, (1, 2, 3))),
)
SINGLE = LiveTopic("single", {}, (LivePartition(0, (2,), 2, (2,)),))


def live(*topics: LiveTopic, **changes: Any) -> LiveState:
    """Return a state in which broker 3 is controller and peer 2 leads the ensemble."""
    nodes = tuple(LiveNode(number, "running") for number in (1, 2, 3))
    state = LiveState(
        read_at_us=1_700_000_000_000_000,
        peers=nodes,
        zab_leader=2,
        brokers=nodes,
        controller=3,
        ensemble_keys={"tickTime": "500"},
        broker_keys=BROKER_KEYS,
        topics=topics or (ORDERS,),
    )
    return msgspec.structs.replace(state, **changes)


def lagging(lag: int, **config: str) -> LiveTopic:
    """Return a topic whose leader, broker 2, is alone in the ISR, and whose other replica is behind."""
    partition = LivePartition(0, (2, 1), 2, (2,), {2: 500, 1: 500 - lag})
    return LiveTopic("lagging", config, (partition,))


def with_broker_down(number: int, *, registered: bool) -> tuple[LiveNode, ...]:
    """Return three brokers, one of which is down."""
    return tuple(
        LiveNode(each, DOWN, registered=registered) if each == number else LiveNode(each, "running")
        for each in (1, 2, 3)
    )
