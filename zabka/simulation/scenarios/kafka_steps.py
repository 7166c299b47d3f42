"""Steps of a script about Kafka: topics, records, elections, operator commands, and checks of the state in ZooKeeper.

Brokers have the names that `Stage.node` accepts; partitions are named like `topic-0`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from zabka.kafka.client.admin_client import TOPIC_RESOURCE
from zabka.kafka.client.client_errors import KafkaRequestFailed, KafkaUnavailable
from zabka.kafka.ports import ChannelBroken
from zabka.simulation.cluster.client_machine import ScriptedMachine
from zabka.simulation.engine.scheduler import Deadlock
from zabka.simulation.scenarios.kafka_clients import PATIENCE_MS, partition_of
from zabka.simulation.scenarios.stage import Stage
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.scenarios.world_steps import WorldStep

WITHIN_MS = 40_000
OPERATOR = "operator"


def _until(stage: Stage, holds: Callable[[], bool], within_ms: int, what: Callable[[], str]) -> None:
    try:
        stage.world.until(holds, within_ms, "it")
    except Deadlock:
        raise StepFailed(f"{what()}, after {within_ms} ms") from None


def _broker_id(stage: Stage, name: str) -> int:
    return int(stage.node(name).rpartition("-")[2])


def asked(stage: Stage, coroutine: Any, what: str, machine: ScriptedMachine | None = None) -> Any:
    """Wait for the reply to a request of a Kafka client, and return the reply.  The client runs on `machine`.

    Raises StepFailed if the request fails or times out.
    """

    async def answer() -> Any:
        try:
            return await coroutine
        except (KafkaRequestFailed, KafkaUnavailable, ChannelBroken) as refused:
            return StepFailed(f"{what}: {refused}")

    found = stage.finish(machine or stage.kafka_machine, answer(), what)
    if isinstance(found, StepFailed):
        raise found
    return found


class Cast(WorldStep, frozen=True):
    """Wait until all brokers are registered and one is controller; then assign the names that steps use for brokers."""

    controller: str = "first"
    others: tuple[str, ...] = ("second", "third")

    def play(self, stage: Stage) -> None:
        """Wait until the cluster has settled, then assign the brokers' names."""
        _until(stage, lambda: stage.world.unsettled() is None, WITHIN_MS, lambda: str(stage.world.unsettled()))
        controller = stage.node("controller")
        rest = [name for name in stage.broker_names() if name != controller]
        stage.names[self.controller] = controller
        stage.names.update(zip(self.others, rest, strict=False))


class Topic(WorldStep, frozen=True):
    """Create a topic. `replicas` lists the replicas of each partition, with the preferred leader first."""

    topic: str
    replicas: tuple[tuple[str, ...], ...]
    configs: dict[str, str] = {}

    def play(self, stage: Stage) -> None:
        """Wait until all replicas exist."""
        assignment = {
            number: tuple(_broker_id(stage, name) for name in replicas) for number, replicas in enumerate(self.replicas)
        }
        made = stage.kafka.admin.create_topic(
            self.topic, assignment=assignment, configs=self.configs, timeout_ms=PATIENCE_MS
        )
        asked(stage, made, f"create {self.topic}")
        _until(stage, lambda: stage.world.unsettled() is None, WITHIN_MS, lambda: str(stage.world.unsettled()))


class Produce(WorldStep, frozen=True):
    """Send `count` records one after another. Each result must be in `expect`, unless `expect` is empty.

    A result is `ok`, the name of an error, or `unavailable`. With `at`, the producer sends to that broker even if the
    broker is not the leader.
    """

    partition: str
    count: int = 1
    at: str = ""
    expect: tuple[str, ...] = ()

    def play(self, stage: Stage) -> None:
        """Send each record and wait for its reply."""
        broker = stage.node(self.at) if self.at else ""
        for _ in range(self.count):
            sending = stage.kafka.produce(partition_of(self.partition), broker)
            answer = stage.finish(stage.kafka_machine, sending, f"a record to {self.partition}")
            if self.expect and answer not in self.expect:
                raise StepFailed(f"a record to {self.partition} came to {answer}, not {self.expect}")


class Send(WorldStep, frozen=True):
    """Send a record without waiting for the result. With `at`, send to that broker even if the broker is not the
    leader.
    """

    partition: str
    at: str = ""

    def play(self, stage: Stage) -> None:
        """Send the record. Its result matters only for the check of the clients' history at the end."""
        broker = stage.node(self.at) if self.at else ""
        stage.kafka_machine.begin(stage.kafka.produce(partition_of(self.partition), broker), "send")


class Poll(WorldStep, frozen=True):
    """Make the consumer read all available records.

    With `at`, the consumer reads from that broker even if the broker is not the leader.
    """

    partition: str
    at: str = ""

    def play(self, stage: Stage) -> None:
        """Make the consumer read, and wait until it has read."""
        broker = stage.node(self.at) if self.at else ""
        asked(stage, stage.kafka.poll(partition_of(self.partition), broker), f"a poll of {self.partition}")


class Elect(WorldStep, frozen=True):
    """Request an election as an operator: preferred (0) or unclean (1)."""

    partition: str
    kind: int = 0

    def play(self, stage: Stage) -> None:
        """Request the election and wait for the reply.  Any reply is allowed."""
        electing = stage.kafka.admin.elect_leaders(self.kind, [partition_of(self.partition)], timeout_ms=PATIENCE_MS)
        asked(stage, electing, f"an election for {self.partition}")


class Configure(WorldStep, frozen=True):
    """Set a topic's configuration override as an operator, or remove it if the value is None."""

    topic: str
    key: str
    value: str | None

    def play(self, stage: Stage) -> None:
        """Send the change of the configuration, and wait for the reply."""
        changed = stage.kafka.admin.alter_configs(
            TOPIC_RESOURCE, self.topic, {self.key: self.value}, timeout_ms=PATIENCE_MS
        )
        asked(stage, changed, f"{self.key} of {self.topic}")


class Reassign(WorldStep, frozen=True):
    """Reassign a partition to other replicas as an operator."""

    partition: str
    replicas: tuple[str, ...]

    def play(self, stage: Stage) -> None:
        """Request the reassignment without waiting for its completion."""
        replicas = tuple(_broker_id(stage, name) for name in self.replicas)
        asked(
            stage, stage.kafka.reassign(partition_of(self.partition), replicas), f"a reassignment of {self.partition}"
        )


class Stop(WorldStep, frozen=True):
    """Send SIGTERM to a broker, which starts a controlled shutdown."""

    node: str

    def play(self, stage: Stage) -> None:
        """Start the shutdown without waiting for its completion."""
        stage.stop(stage.node(self.node))


class LoseDisk(WorldStep, frozen=True):
    """Cut the power of a broker's machine, and erase its disk."""

    node: str

    def play(self, stage: Stage) -> None:
        """Cut the power, and erase the log directory."""
        name = stage.node(self.node)
        stage.kill(name, power_loss=True)
        stage.broker(name).format()


class Delay(WorldStep, frozen=True):
    """Delay messages from a node (or a client's machine) to other nodes, until `Heal`."""

    node: str
    others: tuple[str, ...]
    delay_ms: int

    def play(self, stage: Stage) -> None:
        """Delay the links between `node` and each of `others`."""
        node = stage.node(self.node)
        for other in stage.nodes(self.others, but=node):
            stage.heals.append(((node, other), stage.world.delay(node, other, self.delay_ms)))


class Edit(WorldStep, frozen=True):
    """Change one key in a znode's JSON with a ZooKeeper shell, or remove the key if the value is None."""

    path: str
    key: str
    value: int | str | None = None

    def play(self, stage: Stage) -> None:
        """Read the znode, change the key, and write it back."""
        if OPERATOR not in stage.clients:
            stage.join(OPERATOR, tuple(stage.world.peers), 30_000)
        content = json.loads(stage.ask(OPERATOR, "get", self.path, ""))
        content.pop(self.key, None)
        if self.value is not None:
            content[self.key] = self.value
        answer = stage.ask(OPERATOR, "set", self.path, json.dumps(content))
        if answer != "ok":
            raise StepFailed(f"set {self.path}: {answer}")


class State(WorldStep, frozen=True):
    """Wait until a partition's state in ZooKeeper has this leader (`nobody` for none) and this ISR."""

    partition: str
    leader: str = ""
    isr: tuple[str, ...] = ()
    within_ms: int = WITHIN_MS

    def play(self, stage: Stage) -> None:
        """Advance time until the partition has that state in ZooKeeper."""
        leader = -1 if self.leader == "nobody" else _broker_id(stage, self.leader) if self.leader else None
        isr = sorted(_broker_id(stage, name) for name in self.isr)

        def holds() -> bool:
            state = stage.partition_state(self.partition)
            return leader in (None, state.leader) and (not isr or sorted(state.isr) == isr)

        _until(
            stage,
            holds,
            self.within_ms,
            lambda: (
                f"{self.partition} is {stage.partition_state(self.partition)}, not led by {self.leader} with {self.isr}"
            ),
        )


class ControllerTerms(WorldStep, frozen=True):
    """Wait until another broker has become controller, and assign it a name."""

    other_than: str
    name: str
    within_ms: int = WITHIN_MS

    def play(self, stage: Stage) -> None:
        """Advance time until another broker has become controller."""
        old = _broker_id(stage, self.other_than)
        _until(
            stage,
            lambda: stage.world.record.state.controller_id not in (-1, old),
            self.within_ms,
            lambda: f"no broker but {old} became controller",
        )
        stage.names[self.name] = stage.node("controller")
        stage.controller_epoch = stage.world.record.state.controller_epoch


class Undisturbed(WorldStep, frozen=True):
    """Check that no controller was elected after the last `ControllerTerms` step."""

    def play(self, stage: Stage) -> None:
        """Compare the current controller epoch with the epoch that the last `ControllerTerms` step stored."""
        found = stage.world.record.state.controller_epoch
        if found != stage.controller_epoch:
            raise StepFailed(f"controller epoch {found} has begun behind {stage.controller_epoch}")


class Settled(WorldStep, frozen=True):
    """Wait until every partition has a leader and a full ISR, and all brokers know this state."""

    within_ms: int = WITHIN_MS

    def play(self, stage: Stage) -> None:
        """Advance time until the cluster has settled."""
        _until(stage, lambda: stage.world.unsettled() is None, self.within_ms, lambda: str(stage.world.unsettled()))


KafkaSteps = (
    Cast
    | Topic
    | Produce
    | Send
    | Poll
    | Elect
    | Configure
    | Reassign
    | Stop
    | LoseDisk
    | Delay
    | Edit
    | State
    | ControllerTerms
    | Undisturbed
    | Settled
)
