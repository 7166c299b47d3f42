"""The scenarios made for searches: a short sequence of actions whose targets and times are chosen at random.

`swarm` is a whole cluster with a focus on one partition, `swarm-ensemble` has only peers and clients that connect and
disconnect, and `swarm-disks` is either of them with disk failures.  The choice sequence's stream `actions`
(`zabka.simulation.faults.actions`) defines the actions; `shape` and `kinds` define the settings, the size of the world
and the omitted kinds of actions.  A run omits some kinds (swarm testing), because a run with all kinds of actions
rarely performs one kind many times.
"""

from __future__ import annotations

from random import Random

import msgspec

from zabka.journal.events import AssignmentChanged, ConfigChanged, FaultInjected, LeaderElected, TopicPartition
from zabka.kafka.client.history_clients import TopicPlan
from zabka.simulation.draws import derive_random
from zabka.simulation.faults.actions import ACTIONS, ActionNumbers, SearchAction, Stage
from zabka.simulation.faults.broker_actions import BROKERS, Prompt
from zabka.simulation.faults.disk_actions import DISKS_OF_BROKERS, DISKS_OF_PEERS
from zabka.simulation.faults.node_actions import EVERYWHERE, MENDING, cut_client, rest
from zabka.simulation.faults.transaction_faults import TRANSACTION_ACTIONS
from zabka.simulation.forked_seed import ForkedSeed
from zabka.simulation.seeds.failed_directory import go_on_without_a_directory
from zabka.simulation.seeds.seed_run import BOOT_MS_MAX, SeedRun, SeedScenario
from zabka.simulation.settings import WorldSettings
from zabka.simulation.workloads.producing import Producing
from zabka.simulation.workloads.visiting import Visiting
from zabka.simulation.workloads.watching import MACHINE as WATCHER
from zabka.simulation.workloads.watching import Watching
from zabka.simulation.workloads.writer import MACHINE as WRITER
from zabka.simulation.workloads.writer import Writer

FOCUS = TopicPartition("orders", 0)
WRITER_PAUSE_MS = 400
ACTIONS_MIN, ACTIONS_MAX = 3, 16
FAULTS_MS_MAX = 60_000
CALM_MS = 1_200
MIN_IN_SYNC = "min.insync.replicas"
FORGETTING = ("power_loss", "disk_replaced")
KIND_STAYS = (0.15, 0.3, 0.45, 0.6)
"""A run selects one of these probabilities, and includes each kind of action with that probability.

Some runs have only two or three kinds, and repeat them.
"""
WEATHER_CHANCE = 0.4
WEATHER_MS = (0, 0, 20, 100, 300, 800)
GONE_MS_MAX = 60_000


def _one_of(random: Random, choices: tuple[int, ...]) -> int:
    return choices[random.randrange(0, len(choices))]


def _with_brokers(settings: WorldSettings, random: Random) -> WorldSettings:
    keys = {"controlled.shutdown.enable": "false"} if random.random() < 0.15 else {}
    return msgspec.structs.replace(
        settings,
        peers=_one_of(random, (1, 3, 3)),
        brokers=_one_of(random, (3, 3, 4, 5, 5)),
        replica_lag_time_max_ms=_one_of(random, (1_500, 1_500, 3_000, 6_000)),
        broker_keys={**keys, **settings.broker_keys},
    )


def _peers_alone(settings: WorldSettings, random: Random) -> WorldSettings:
    return msgspec.structs.replace(
        settings,
        brokers=0,
        peers=_one_of(random, (3, 3, 3, 5)),
        snap_count=_one_of(random, (8, 50, 400)),
        sync_limit=random.randrange(2, 6),
    )


def _on_disks(settings: WorldSettings, random: Random) -> WorldSettings:
    shape = _with_brokers if random.random() < 0.5 else _peers_alone
    return msgspec.structs.replace(shape(settings, random), faulty_disks=True, snap_count=_one_of(random, (8, 50, 400)))


def _boot(run: SeedRun) -> None:
    """Start every node and all clients, and wait until all clients make progress."""
    world = run.world
    world.start()
    client, machine = world.zookeeper_client(WRITER)
    pause_ms = WRITER_PAUSE_MS if world.brokers else WRITER_PAUSE_MS // 4
    run.writer = writer = Writer(client, machine.runtime(), pause_ms)
    world.until(lambda: writer.acknowledged > 0, BOOT_MS_MAX, "the first write to the ensemble")
    if world.brokers:
        run.producing = producing = Producing(
            world.run_kafka_client, world.replication, [_topic(run)], world.settings.workload.acks
        )
        world.until(producing.every_topic_took_records, BOOT_MS_MAX, "the first acknowledged records")
        world.until(lambda: world.unsettled() is None, BOOT_MS_MAX, "a settled cluster")
        run.boot_transactions()
        return
    client, machine = world.zookeeper_client(WATCHER)
    run.watching = watching = Watching(client, machine.runtime(), lambda: writer.acknowledged)
    run.visiting = Visiting(world, lambda: writer.acknowledged)
    world.until(lambda: watching.watches_fired > 0, BOOT_MS_MAX, "the first watch")


def _topic(run: SeedRun) -> TopicPlan:
    random = derive_random(run.seed, "topics")
    factor = min(_one_of(random, (1, 2, 2, 3, 3, 4, 4)), len(run.world.brokers))
    configs = {MIN_IN_SYNC: str(min(_one_of(random, (1, 1, 2, 2)), factor))}
    if random.random() < 0.25:
        configs["unclean.leader.election.enable"] = "true"
    return TopicPlan(FOCUS.topic, 1, factor, configs)


def _actions(run: SeedRun, stage: Stage) -> list[SearchAction]:
    """Return the kinds of actions of this run, each repeated according to its random weight."""
    random, world = derive_random(run.seed, "kinds"), run.world
    known: dict[str, SearchAction] = dict(EVERYWHERE)
    if world.brokers:
        known |= BROKERS | Prompt(stage).actions()
    else:
        known["cut_client"] = cut_client
    if world.settings.faulty_disks:
        known.pop("empty_disk", None)
        known |= DISKS_OF_PEERS | (DISKS_OF_BROKERS if world.brokers else {})
    if run.has_transactions:
        known |= TRANSACTION_ACTIONS
    stays = KIND_STAYS[random.randrange(0, len(KIND_STAYS))]
    stay = [action for action in known.values() if random.random() < stays]
    weighted = [action for action in stay for _ in range(1 + random.randrange(0, 3))]
    return [rest, *MENDING, *(weighted or known.values())]


def _weather(run: SeedRun, stage: Stage) -> None:
    """In some runs, delay all messages from one kind of node to brokers, with a different delay on each link.

    Brokers then receive messages in an unusual order.
    """
    random, world = derive_random(run.seed, "weather"), run.world
    if not world.brokers or random.random() >= WEATHER_CHANCE:
        return
    sources = world.peer_names() if random.random() < 0.3 else world.broker_names()
    links = [(source, target) for source in sources for target in world.broker_names() if source != target]
    stage.until_all_heals(world.prioritise({link: _one_of(random, WEATHER_MS) for link in links}))


def _play(run: SeedRun) -> None:
    """Perform random actions on the cluster, then heal all faults and wait for recovery."""
    _boot(run)
    world = run.world
    run.stage = stage = Stage(world, FOCUS)
    actions = _actions(run, stage)
    _weather(run, stage)
    count = derive_random(run.seed, "length").randrange(ACTIONS_MIN, ACTIONS_MAX)
    choices, end_ms = derive_random(run.seed, ACTIONS), world.now_ms + FAULTS_MS_MAX
    for _ in range(count):
        if isinstance(run.seed, ForkedSeed):
            world.fault_number = run.seed.align(choices, world.fault_number)
        stage.perform_step(ActionNumbers(choices), actions)
        if world.now_ms > end_ms:
            break
    world.run(CALM_MS)
    stage.heal_all()
    world.repair_disks()
    if world.settings.faulty_disks:
        go_on_without_a_directory(world)
    run.recover()
    if run.producing is not None:
        run.failures += _lost_for_no_reason(run)
    if run.visiting is not None:
        run.visiting.leave()
        world.until(run.visiting.nothing_is_left, GONE_MS_MAX, "visitors that left and took their ephemerals along")


def _lost_for_no_reason(run: SeedRun) -> list[str]:
    """Return losses of acknowledged records that Kafka does not allow.

    Acknowledged records are on min.insync.replicas disks. So no record can be lost if fewer than min.insync.replicas
    disks have lost data and there was no unclean election and no reassignment (KIP-966).
    """
    assert run.producing is not None
    world, topic = run.world, _topic(run)
    events = [entry.event for entry in world.record.entries]
    forgetful = {e.target: None for e in events if isinstance(e, FaultInjected) and e.kind in FORGETTING}
    brokers = [name for name in forgetful if name in world.broker_names()]
    is_plain = topic.configs.keys() == {MIN_IN_SYNC} and not any(
        isinstance(e, AssignmentChanged)
        or (isinstance(e, ConfigChanged) and e.config != topic.configs)
        or (isinstance(e, LeaderElected) and e.unclean)
        for e in events
    )
    if not is_plain or len(brokers) >= int(topic.configs[MIN_IN_SYNC]):
        return []
    found = run.producing.history.violations()
    return [f"nothing is lost while enough disks remember: {each}" for each in found]


SWARM = SeedScenario("swarm", _with_brokers, _play, transactions_chance=0.065)
SWARM_ENSEMBLE = SeedScenario("swarm-ensemble", _peers_alone, _play)
SWARM_DISKS = SeedScenario("swarm-disks", _on_disks, _play)
