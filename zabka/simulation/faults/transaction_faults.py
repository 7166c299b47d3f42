"""Faults between the decision of a transaction and its markers, when the loss of a coordinator matters most.

Each fault waits until a transaction coordinator has stored PrepareCommit or PrepareAbort, and occurs a few milliseconds
later.  It kills or pauses the coordinator, cuts it off from other brokers or from the ensemble, or kills a partition
leader that will receive a marker.  Only seeds with transactional clients have these faults.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from zabka.journal.events import Entry, TopicPartition, TransactionChanged
from zabka.simulation.cluster.node_names import broker_name
from zabka.simulation.cluster.world import World
from zabka.simulation.engine.scheduler import Deadlock
from zabka.simulation.faults.actions import LASTS, LASTS_MS, MEASURE, OTHERS, WHICH, ActionNumbers, SearchAction, Stage
from zabka.simulation.faults.nemesis import Action, Nemesis, all_of

PREPARED = ("PrepareCommit", "PrepareAbort")
AFTER_MS = (0, 0, 1, 3, 10, 40)
"""Possible times in ms from a transaction's decision (PrepareCommit or PrepareAbort) to the fault."""
WAITS_MS_MAX = 4_000


class _Decision:
    """Waits until a transaction coordinator stores the next decision (PrepareCommit or PrepareAbort)."""

    def __init__(self, world: World, decided: Callable[[TransactionChanged], None]) -> None:
        self._world = world
        self._decided = decided
        self._is_over = False
        world.record.listeners.append(self._see)

    def _see(self, entry: Entry) -> None:
        event = entry.event
        if isinstance(event, TransactionChanged) and event.state in PREPARED and not self._is_over:
            self._is_over = True
            # Remove this listener later, because the record is iterating over its list of listeners at this moment.
            self._world.scheduler.soon(self.end)
            self._decided(event)

    def end(self) -> None:
        """Stop waiting for a decision."""
        with suppress(ValueError):
            self._world.record.listeners.remove(self._see)


def _others(world: World, name: str) -> list[str]:
    return [each for each in world.broker_names() if each != name]


def _marked(world: World, event: TransactionChanged) -> list[str]:
    """Return the names of the leaders of a transaction's partitions, which will receive its markers."""
    found: dict[str, None] = {}
    for partition in event.partitions:
        topic, _, number = partition.rpartition("-")
        state = world.replication.znodes.states.get(TopicPartition(topic, int(number)))
        if state is not None and state.leader >= 0:
            found[broker_name(state.leader)] = None
    return list(found)


# -- actions of the nemesis ---------------------------------------------------------------------------------------


def _at_decision(inject: Callable[[Nemesis, TransactionChanged], None]) -> Action:
    """Return an action that calls `inject` soon after the next decision of a transaction.

    If no transaction is decided in time, the action does not call it.
    """

    def wait(nemesis: Nemesis) -> None:
        after_ms = AFTER_MS[nemesis.random.randrange(0, len(AFTER_MS))]
        decision = _Decision(nemesis.world, lambda event: nemesis.later(after_ms, lambda: inject(nemesis, event)))
        nemesis.until_healed(decision.end, WAITS_MS_MAX)

    return wait


def _kill_coordinator(nemesis: Nemesis, event: TransactionChanged) -> None:
    """Kill the transaction coordinator.  In half of the cases, its last messages to other brokers are lost."""
    name, world = broker_name(event.broker_id), nemesis.world
    lost = _others(world, name) if nemesis.random.random() < 0.5 else []
    cuts = [world.cut(name, other) for other in lost]
    nemesis.crash([name], power_loss=nemesis.random.random() < 0.3)
    nemesis.until_healed(all_of(cuts))


def _pause_coordinator(nemesis: Nemesis, event: TransactionChanged) -> None:
    name, world = broker_name(event.broker_id), nemesis.world
    if world.is_running(name) and not world.is_paused(name):
        world.pause(name)
        nemesis.until_healed(lambda: world.resume(name))


def _cut_markers(nemesis: Nemesis, event: TransactionChanged) -> None:
    name, both_ways = broker_name(event.broker_id), nemesis.random.random() < 0.5
    cuts = [nemesis.world.cut(name, other, both_ways=both_ways) for other in _others(nemesis.world, name)]
    nemesis.until_healed(all_of(cuts))


def _expire_coordinator(nemesis: Nemesis, event: TransactionChanged) -> None:
    world, session_ms = nemesis.world, nemesis.world.settings.session_timeout_ms
    cuts = [world.cut(broker_name(event.broker_id), peer) for peer in world.peer_names()]
    nemesis.until_healed(all_of(cuts), nemesis.random.randrange(session_ms, 2 * session_ms))


def _kill_marked(nemesis: Nemesis, event: TransactionChanged) -> None:
    names = _marked(nemesis.world, event)
    if names:
        nemesis.crash(names, power_loss=nemesis.random.random() < 0.3)


TRANSACTION_FAULTS: dict[str, Action] = {
    "kill_coordinator": _at_decision(_kill_coordinator),
    "pause_coordinator": _at_decision(_pause_coordinator),
    "cut_markers": _at_decision(_cut_markers),
    "expire_coordinator": _at_decision(_expire_coordinator),
    "kill_marked": _at_decision(_kill_marked),
}


# -- actions of the search -------------------------------------------------------------------------------------------


def _await_decision(stage: Stage, words: ActionNumbers) -> TransactionChanged | None:
    """Wait until shortly after the next decision of a transaction, and return the decision; None after WAITS_MS_MAX."""
    found: list[TransactionChanged] = []
    decision = _Decision(stage.world, found.append)
    with suppress(Deadlock):
        stage.world.until(lambda: bool(found), WAITS_MS_MAX)
        stage.world.run(AFTER_MS[words.below(WHICH, len(AFTER_MS))])
    decision.end()
    return found[0] if found else None


def lose_coordinator(stage: Stage, words: ActionNumbers) -> str:
    """Kill or pause the transaction coordinator shortly after it has stored PrepareCommit or PrepareAbort."""
    event, world = _await_decision(stage, words), stage.world
    if event is None or not world.is_running(name := broker_name(event.broker_id)) or world.is_paused(name):
        return ""
    stage.cast.last, for_ms = name, words.time_ms(LASTS, LASTS_MS)
    if words.below(MEASURE, 2):
        world.pause(name)
        stage.until_repaired(lambda: world.resume(name), for_ms)
        return f"pause {name}, which has just decided a transaction of {event.transactional_id}, for {for_ms} ms"
    world.kill(name, power_loss=words.below(OTHERS, 4) == 3)
    stage.until_repaired(lambda: world.start(name), for_ms)
    return f"{name} fails, which has just decided a transaction of {event.transactional_id}, for {for_ms} ms"


def lose_markers(stage: Stage, words: ActionNumbers) -> str:
    """Cut a transaction coordinator off from other brokers shortly after it has stored a decision.

    The links remain cut.
    """
    event, world = _await_decision(stage, words), stage.world
    if event is None:
        return ""
    name = stage.cast.last = broker_name(event.broker_id)
    for other in _others(world, name):
        stage.on_links(world.cut(name, other, both_ways=bool(words.below(OTHERS, 2))))
    return f"cut {name} off, which has just decided a transaction of {event.transactional_id}"


def lose_marked(stage: Stage, words: ActionNumbers) -> str:
    """Kill a partition leader that will soon receive a transaction's marker."""
    event, world = _await_decision(stage, words), stage.world
    names = [] if event is None else [name for name in _marked(world, event) if world.is_running(name)]
    if not names:
        return ""
    name, for_ms = names[words.below(OTHERS, len(names))], words.time_ms(LASTS, LASTS_MS)
    world.kill(name, power_loss=words.below(MEASURE, 4) == 3)
    stage.cast.last = name
    stage.until_repaired(lambda: world.start(name), for_ms)
    return f"{name} fails, which is about to get a marker, for {for_ms} ms"


TRANSACTION_ACTIONS: dict[str, SearchAction] = {
    "lose_coordinator": lose_coordinator,
    "lose_markers": lose_markers,
    "lose_marked": lose_marked,
}
