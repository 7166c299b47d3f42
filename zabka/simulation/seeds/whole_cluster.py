"""The scenario `whole-cluster`, a run with brokers: boot, inject faults, heal, recover, check."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from zabka.ensemble.client.client import Client
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.journal.events import TopicPartition
from zabka.kafka.client.history_clients import TopicPlan
from zabka.simulation.checkers.stored_commits import StoredCommits
from zabka.simulation.cluster.client_machine import forever
from zabka.simulation.cluster.cluster_world import ClusterShape, ClusterWorld, draw_cluster_shape
from zabka.simulation.cluster.reached import ClusterReached
from zabka.simulation.draws import derive_random
from zabka.simulation.engine.scheduler import Deadlock
from zabka.simulation.engine.tap import MessageTap
from zabka.simulation.faults.cluster_faults import draw_cluster_nemesis
from zabka.simulation.seeds.whole_ensemble import InjectedBug
from zabka.simulation.seeds.whole_run import WholeRun
from zabka.simulation.workloads.committing import GROUP as COMMITTING_GROUP
from zabka.simulation.workloads.committing import Committing
from zabka.simulation.workloads.consuming import Consuming
from zabka.simulation.workloads.producing import Producing
from zabka.simulation.workloads.writer import Writer

WHOLE_CLUSTER = "whole-cluster"
"""Name of this scenario."""
BOOT_MS_MAX = 60_000
FAULTS_MS = 15_000
RECOVERY_MS_MAX = 120_000
WRITER_PAUSE_MS = 500
TOPIC = "orders"
GROUP_CHANCE = 0.3
"""Share of seeds with a consumer group."""
COMMITS_CHANCE = 0.4
"""Share of seeds with a consumer that commits offsets without being a group member."""


class ClusterRun(WholeRun):
    """A seed's cluster with its clients.

    `shape` is chosen at random unless it is given; `tap` receives every message.
    """

    scenario = WHOLE_CLUSTER

    def __init__(self, seed: int, shape: ClusterShape | None = None, tap: MessageTap | None = None) -> None:
        self.shape = shape or draw_cluster_shape(derive_random(seed, "cluster shape"))
        self.cluster = ClusterWorld(seed, self.shape, tap)
        super().__init__(seed, self.cluster)
        self._reached = ClusterReached()
        self.cluster.record.listeners.append(self._reached.see)
        self.producing: Producing | None = None
        self.consuming: Consuming | None = None
        self.committing: Committing | None = None

    def acknowledged_records(self) -> int:
        """Return the number of records acknowledged by brokers."""
        return self.producing.acknowledged if self.producing is not None else 0

    def reached(self) -> dict[str, int]:
        """Return how often the run reached each rare situation that it counts."""
        return dict(self._reached.counts)

    def had_to_check(self) -> CheckCounts:
        """Return how often each invariant was checked."""
        every = super().had_to_check()
        every.note("records", self.acknowledged_records())
        every.note("groups", self.consuming.consumed if self.consuming is not None else 0)
        return every

    def clients_problems(self) -> list[str]:
        """Return the violations that producers and consumers observed."""
        found = [f"records: {line}" for line in (self.producing.violations if self.producing is not None else [])]
        return found + [f"groups: {line}" for line in (self.consuming.violations if self.consuming is not None else [])]

    # -- the run -----------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Boot the cluster, inject faults, heal them, wait for recovery, and then read all records back."""
        producing = self.boot()
        world = self.cluster
        nemesis = draw_cluster_nemesis(world, derive_random(self.seed, "cluster nemesis"))
        nemesis.start()
        world.run(FAULTS_MS)
        nemesis.heal_all()
        world.repair_directories()
        world.start()
        self._recover(producing)
        self._end(producing)

    def boot(self) -> Producing:
        """Start every server and every client, and wait until the clients make progress."""
        world = self.cluster
        world.start()
        world.add_client("writer", self._write)
        world.until(lambda: self.acknowledged() > 0, BOOT_MS_MAX, "the first write to the ensemble")
        self.producing = producing = Producing(
            world.run_kafka_client, world.replication, self._topics(), pause_ms=self.shape.pause_ms
        )
        world.until(producing.every_topic_took_records, BOOT_MS_MAX, "the first acknowledged records")
        if derive_random(self.seed, "group").random() < GROUP_CHANCE:
            self.consuming = consuming = Consuming(world.run_kafka_client, world.replication, TOPIC, producing.history)
            world.until(lambda: consuming.consumed > 0, BOOT_MS_MAX, "the first record of a group")
        draw = derive_random(self.seed, COMMITTING_GROUP)
        if draw.random() < COMMITS_CHANCE:
            self.committing = committing = self._commit_offsets()
            world.until(lambda: committing.acknowledged > 0, BOOT_MS_MAX, "the first offset that is kept")
            world.scheduler.after(draw.randrange(1, FAULTS_MS) * 1000, committing.rest)
        return producing

    def _commit_offsets(self) -> Committing:
        world, name = self.cluster, TopicPartition(TOPIC, 0)
        check = StoredCommits(
            COMMITTING_GROUP, name, world.brokers, world.replication, world.record.checked, emit=world.emit
        )
        return Committing(world.run_kafka_client, name, check)

    def _topics(self) -> list[TopicPlan]:
        """Return the fixed topic and in some runs a randomly shaped topic, each with random durability settings."""
        brokers, draw = len(self.cluster.brokers), derive_random(self.seed, "topics")
        topics = [TopicPlan(TOPIC, 2, 3, {"min.insync.replicas": str(draw.randrange(1, 3))})]
        if draw.random() < 0.5:
            factor = draw.randrange(1, brokers + 1)
            topics.append(TopicPlan("drawn", draw.randrange(1, 4), factor, {}))
        return topics

    async def _write(self, client: Client, runtime: AsyncioRuntime) -> None:
        self.writer = Writer(client, runtime, WRITER_PAUSE_MS)
        await forever(client, runtime)

    def _recover(self, producing: Producing) -> None:
        """Wait until the cluster and its clients have recovered, for a bounded time after the last fault."""
        world, before = self.cluster, self.acknowledged()
        self.recovery_ms += world.until(lambda: self.acknowledged() > before, RECOVERY_MS_MAX, "a serving ensemble")
        self.recovery_ms += world.until(world.every_peer_serves, RECOVERY_MS_MAX, "every peer back in service")
        try:
            settled = "brokers that agree, with a leader and a full ISR for every partition"
            self.recovery_ms += world.until(lambda: world.unsettled() is None, RECOVERY_MS_MAX, settled)
        except Deadlock as stuck:
            raise Deadlock(f"{stuck}: {world.unsettled()}") from None
        sent = producing.acknowledged
        self.recovery_ms += world.until(
            lambda: producing.acknowledged > sent + 2, RECOVERY_MS_MAX, "acknowledged records"
        )

    def _end(self, producing: Producing) -> None:
        """Read all records back, and wait until all replicas of each partition have the same log."""
        world = self.cluster
        producing.stop()
        world.until(lambda: producing.verified, RECOVERY_MS_MAX, "reading every record back")
        if (committing := self.committing) is not None:
            committing.ask()
            world.until(lambda: committing.verified, RECOVERY_MS_MAX, "an offset that was kept")
        if (consuming := self.consuming) is not None:
            world.until(
                lambda: consuming.is_whole and consuming.has_read_to(producing.history.ends),
                RECOVERY_MS_MAX,
                "a whole group that has read everything",
            )
        world.until(world.replicas_agree, RECOVERY_MS_MAX, "logs that agree byte for byte")
        world.check_producers()


def serve_cluster(seed: int, injected_bugs: Iterable[InjectedBug] = ()) -> ClusterRun:
    """Run a seed while bugs are injected into the production code.

    `problems()` of the returned run lists the violations.
    """
    with ExitStack() as injected:
        for injected_bug in injected_bugs:
            injected.enter_context(injected_bug)
        run = ClusterRun(seed)
        run.outcome = run.execute()
    return run
