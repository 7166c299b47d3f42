"""One run of a scenario with randomly chosen faults: boot, inject faults, heal, recover, and return the outcome."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from zabka.journal.checkers.cause_chains import CHECKED as DECISIONS
from zabka.journal.checkers.cause_chains import NAME as CAUSE_CHAINS
from zabka.journal.checkers.cause_chains import broken_chains
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.kafka.client.history_clients import TopicPlan
from zabka.simulation.checkers.transaction_logs import TransactionLogs
from zabka.simulation.cluster.world import World
from zabka.simulation.draws import derive_random
from zabka.simulation.engine.scheduler import Deadlock
from zabka.simulation.engine.tap import MessageTap
from zabka.simulation.faults.actions import Stage
from zabka.simulation.faults.chaos import chaos
from zabka.simulation.faults.chosen import ChosenNemesis
from zabka.simulation.faults.nemesis import Action, Nemesis
from zabka.simulation.faults.transaction_faults import TRANSACTION_FAULTS
from zabka.simulation.settings import WorldSettings
from zabka.simulation.workloads.consuming import Consuming
from zabka.simulation.workloads.producing import Producing
from zabka.simulation.workloads.reading import Reading
from zabka.simulation.workloads.transacting import PARTITIONS as TRANSACTED
from zabka.simulation.workloads.transacting import Transacting, broker_keys
from zabka.simulation.workloads.visiting import Visiting
from zabka.simulation.workloads.watching import MACHINE as WATCHER
from zabka.simulation.workloads.watching import Watching
from zabka.simulation.workloads.writer import MACHINE as WRITER
from zabka.simulation.workloads.writer import Writer

BOOT_MS_MAX = 60_000
HANGING_MS = 20_000
"""Time in ms that a run waits for transaction markers if a lost log can leave transactions open forever."""
RECOVERY_MS_MAX = 120_000
TOPIC = "orders"
GROUP_EVERY = 2
"""One in this many seeds has a consumer group. The group takes a fifth of the run's time."""


class Outcome(msgspec.Struct):
    """The outcome of a run. `problems` is empty if no invariant was violated and the cluster recovered."""

    seed: int
    scenario: str
    problems: list[str]
    virtual_ms: int
    recovery_ms: int
    steps: int
    events: int
    acknowledged_writes: int
    acknowledged_records: int
    faults: int
    wall_s: float
    cpu_s: float
    reached: dict[str, int] = {}
    """How often the run reached each rare situation that the scenario counts."""
    checked: dict[str, int] = {}
    """How often each invariant was checked."""

    @property
    def held(self) -> bool:
        """Whether every invariant held and the cluster recovered."""
        return not self.problems


class SeedScenario(NamedTuple):
    """A scenario with randomly chosen faults: the shape of its world, its options, and the function that runs it."""

    name: str
    shape: Callable[[WorldSettings, Random], WorldSettings]
    """Returns the settings of a seed's world: the user's settings, completed by random choices."""
    play: Callable[[SeedRun], None]
    draws_topics: bool = True
    """Whether a run can have randomly shaped topics in addition to the fixed topic."""
    more_faults: Mapping[str, Action] = MappingProxyType({})
    """Kinds of faults with double weight. Each run injects faults of at least one of these kinds."""
    transactions_chance: float = 0.0
    """Share of seeds with transactional clients. The run of such a seed takes twice (chaos) or three times (swarm) as
    long.
    """


def has_transactions(seed: int, scenario: SeedScenario, settings: WorldSettings) -> bool:
    """Return whether a seed's run has transactional clients: always if a configured fault needs them, else at random.

    The random choice uses a separate stream, so that it does not change other choices.
    """
    if not scenario.transactions_chance or not settings.brokers:
        return False
    if any(kind in TRANSACTION_FAULTS for kind, _ in settings.faults.kinds):
        return True
    return (
        settings.workload.draws_topics
        and derive_random(seed, "transactions").random() >= 1 - scenario.transactions_chance
    )


class SeedRun:
    """A seed's world with its workloads.  `execute` runs it to the end."""

    def __init__(
        self,
        seed: int,
        scenario: SeedScenario,
        settings: WorldSettings | None = None,
        tap: MessageTap | None = None,
    ) -> None:
        self.seed = seed
        self.scenario = scenario
        shaped = scenario.shape(settings or WorldSettings(), derive_random(seed, "shape"))
        self.has_transactions = has_transactions(seed, scenario, shaped)
        if self.has_transactions:
            shaped = msgspec.structs.replace(shaped, broker_keys={**broker_keys(shaped.brokers), **shaped.broker_keys})
        self.world = World(seed, shaped, tap)
        self.writer: Writer | None = None
        self.watching: Watching | None = None
        self.producing: Producing | None = None
        self.consuming: Consuming | None = None
        self.transacting: Transacting | None = None
        self.reading: Reading | None = None
        self.visiting: Visiting | None = None
        self.stage: Stage | None = None
        self.recovery_ms = 0
        self.harmed_us = (0, 0)
        """Virtual times in µs at which the faults began and ended."""
        self.failures: list[str] = []
        """Failures that are not violations found by a checker."""

    def execute(self) -> Outcome:
        """Run the scenario and return its outcome."""
        begin, cpu_begin = time.perf_counter(), time.process_time()
        try:
            self.scenario.play(self)
        except Deadlock as stuck:
            self.failures.append(f"liveness: {stuck}")
        except AssertionError as broken:
            self.failures.append(f"assertion: {broken}")
        except Exception as crash:  # Any exception is a finding of this seed; other seeds may still run.
            self.failures.append(f"crash: {crash!r}")
        world = self.world
        world.end_world()
        # Taking a snapshot freezes all objects (gc.freeze). Unfreeze them, so that Python can free the ended world.
        gc.unfreeze()
        self.failures += [f"process: {line}" for line in world.ground.failures]
        self.failures += [f"{v.invariant}: {v.detail}" for v in broken_chains(world.record.entries)]
        return Outcome(
            seed=int(self.seed),
            scenario=self.scenario.name,
            problems=self.problems(),
            virtual_ms=world.now_ms,
            recovery_ms=self.recovery_ms,
            steps=world.scheduler.steps,
            events=len(world.record.entries),
            acknowledged_writes=self.writer.acknowledged if self.writer else 0,
            acknowledged_records=self.producing.acknowledged if self.producing else 0,
            faults=world.faults,
            wall_s=time.perf_counter() - begin,
            cpu_s=time.process_time() - cpu_begin,
            checked=self._had_to_check(),
        )

    def _had_to_check(self) -> dict[str, int]:
        """Return how often each invariant was checked.

        For an invariant of clients, this is the number of compared observations.
        """
        every = CheckCounts()
        every.add(self.world.record.had_to_check())
        every.note(CAUSE_CHAINS, sum(isinstance(entry.event, DECISIONS) for entry in self.world.record.entries))
        every.note("linearizable writes", self.writer.acknowledged if self.writer else 0)
        every.note("reads and watches", self.watching.watches_fired if self.watching else 0)
        every.note("read-only service", self.reading.reads if self.reading else 0)
        every.note("records", self.producing.acknowledged if self.producing else 0)
        every.note("groups", self.consuming.consumed if self.consuming else 0)
        if self.transacting is not None:
            every.add(self.transacting.history.checked)
        return every.counts

    def problems(self) -> list[str]:
        """Return all violations so far, one line each."""
        found = [f"{v.invariant}: {v.detail} (at {v.mono_us / 1e6:.3f} s)" for v in self.world.record.violations]
        found += [f"linearizable writes: {line}" for line in (self.writer.violations if self.writer else [])]
        found += [f"reads and watches: {line}" for line in (self.watching.violations if self.watching else [])]
        found += [f"reads and watches: {line}" for line in (self.visiting.violations if self.visiting else [])]
        found += [f"read-only service: {line}" for line in (self.reading.violations if self.reading else [])]
        found += [f"records: {line}" for line in (self.producing.violations if self.producing else [])]
        found += [f"groups: {line}" for line in (self.consuming.violations if self.consuming else [])]
        found += [f"transactions: {line}" for line in (self.transacting.violations if self.transacting else [])]
        return found + self.failures

    # -- building blocks of scenarios --------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start every node, the ensemble's clients and, with brokers, Kafka clients; wait until all make progress."""
        world, writer = self.world, self.boot_writer()
        client, machine = world.zookeeper_client(WATCHER)
        self.watching = watching = Watching(client, machine.runtime(), lambda: writer.acknowledged)
        world.until(lambda: watching.watches_fired > 0, BOOT_MS_MAX, "the first watch")
        if world.brokers:
            self.producing = producing = Producing(
                world.run_kafka_client, world.replication, self._topics(), world.settings.workload.acks
            )
            world.until(producing.every_topic_took_records, BOOT_MS_MAX, "the first acknowledged records")
            if self.seed % GROUP_EVERY == 0:
                self.consuming = consuming = Consuming(
                    world.run_kafka_client, world.replication, TOPIC, producing.history
                )
                world.until(lambda: consuming.consumed > 0, BOOT_MS_MAX, "the first record of a group")
            self.boot_transactions()

    def boot_transactions(self) -> None:
        """Start the transactional clients if the run has them, and wait until they make progress."""
        world = self.world
        if self.has_transactions:
            logs = TransactionLogs(
                world.scheduler, world.brokers, world.replication, world.record.checked, world.emit, TRANSACTED
            )
            world.record.listeners.append(logs.journalled)
            self.transacting = transacting = Transacting(
                world.run_kafka_client, world.replication, logs, self.seed, len(world.brokers)
            )
            world.until(lambda: transacting.moved > 0, BOOT_MS_MAX, "the first records of a transaction that are moved")

    def boot_writer(self) -> Writer:
        """Start every node and the writer, but no other client, and wait until the writer makes progress."""
        world = self.world
        world.start()
        client, machine = world.zookeeper_client(WRITER)
        self.writer = writer = Writer(client, machine.runtime())
        world.until(lambda: writer.acknowledged > 0, BOOT_MS_MAX, "the first write to the ensemble")
        return writer

    def _topics(self) -> list[TopicPlan]:
        """Return the fixed topic and, in chaos, a few randomly shaped topics."""
        brokers, settings = len(self.world.brokers), self.world.settings
        topics = [TopicPlan(TOPIC, settings.workload.partitions, settings.replication_factor, {})]
        if self.scenario.draws_topics and settings.workload.draws_topics:
            draw = derive_random(self.seed, "topics")
            for number in range(draw.randrange(0, 3)):
                factor = draw.randrange(1, brokers + 1)
                configs = {"min.insync.replicas": str(draw.randrange(1, factor + 1))}
                if draw.random() < 0.15:
                    configs["unclean.leader.election.enable"] = "true"
                topics.append(TopicPlan(f"drawn-{number}", draw.randrange(1, 4), factor, configs))
        return topics

    def inject_faults(self, nemesis: Nemesis | None = None) -> None:
        """Let the nemesis inject faults for a while, then undo every fault. The default is the nemesis of `chaos`."""
        nemesis = nemesis or self._nemesis()
        began_us = self.world.scheduler.now_us
        nemesis.start()
        self.world.run(self.world.settings.faults.duration_ms)
        nemesis.heal_all()
        self.world.repair_disks()
        self.harmed_us = began_us, self.world.scheduler.now_us
        self.world.start()

    def _nemesis(self) -> Nemesis:
        if self.world.settings.faults.kinds:
            return ChosenNemesis(self.world, self.seed)
        more = {**self.scenario.more_faults, **(TRANSACTION_FAULTS if self.has_transactions else {})}
        return chaos(self.world, derive_random(self.seed, "nemesis"), more)

    def recover(self) -> None:
        """Check that the cluster and all clients recover within a bounded time after all faults have ended."""
        world, writer, producing = self.world, self.writer, self.producing
        assert writer is not None
        before = writer.acknowledged
        self.recovery_ms = world.until(
            lambda: world.zab_leader() is not None and writer.acknowledged > before + 2,
            RECOVERY_MS_MAX,
            "a serving ensemble",
        )
        self.recovery_ms += world.until(world.every_peer_serves, RECOVERY_MS_MAX, "every peer back in service")
        if self.watching is not None:
            watching, fired = self.watching, self.watching.watches_fired
            world.until(lambda: watching.watches_fired > fired, RECOVERY_MS_MAX, "a watch that fires")
        if producing is not None:
            self._recover_brokers(producing)

    def _recover_brokers(self, producing: Producing) -> None:
        world = self.world
        try:
            self.recovery_ms += world.until(
                lambda: world.unsettled() is None,
                RECOVERY_MS_MAX,
                "brokers that agree, with a leader and a full ISR for every partition",
            )
        except Deadlock as stuck:
            raise Deadlock(f"{stuck}: {world.unsettled()}") from None
        sent = producing.acknowledged
        self.recovery_ms += world.until(
            lambda: producing.acknowledged > sent + 2, RECOVERY_MS_MAX, "acknowledged records"
        )
        producing.stop()
        world.until(lambda: producing.verified, RECOVERY_MS_MAX, "reading every record back")
        consuming = self.consuming
        if consuming is not None:
            world.until(
                lambda: consuming.is_whole and consuming.has_read_to(producing.history.ends),
                RECOVERY_MS_MAX,
                "a whole group that has read everything",
            )
        if self.transacting is not None:
            self._recover_transactions(self.transacting)
        for topic in [*producing.topics, *(TRANSACTED if self.transacting is not None else ())]:
            agreed = partial(world.replicas_agree, topic)
            world.until(agreed, RECOVERY_MS_MAX, "logs that agree byte for byte")
        world.check_producers()

    def _recover_transactions(self, transacting: Transacting) -> None:
        world, committed = self.world, transacting.committed
        if not transacting.may_hang:
            # Wait only if no producer epoch was lost. Otherwise partitions reject the markers, and the transaction
            # remains in PrepareCommit or PrepareAbort forever, as in Kafka.
            world.until(lambda: transacting.committed > committed, RECOVERY_MS_MAX, "a committed transaction")
        transacting.stop()
        world.until(lambda: transacting.is_stopped, RECOVERY_MS_MAX, "the end of the last transactions")
        if transacting.may_hang:
            world.run(HANGING_MS)
        else:
            world.until(lambda: transacting.is_decided, RECOVERY_MS_MAX, "markers for all transactions")
        transacting.read_back()
        world.until(lambda: transacting.verified, RECOVERY_MS_MAX, "reading every transaction back")
        transacting.check_markers()
