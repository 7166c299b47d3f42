"""The nemesis: faults drawn from the seed, so that each seed tries another mix (swarm testing).

Every seed first picks which kinds of fault it uses and how often, then draws them one by one.  Each fault ends by
itself after a while; `heal_all` ends what is left, and the world must then recover within bounded time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING

from simulation.faults.kafka_nemesis import KAFKA_KINDS
from simulation.faults.kafka_operator import KafkaOperator
from simulation.faults.operator import Operator

if TYPE_CHECKING:
    from simulation.world import World

Action = Callable[["Nemesis"], None]
_NO_MORE: Mapping[str, Action] = {}

CLIENTS = ("writer", "watcher")
PRIORITY_STEP_MS = 12
PRIORITY_LOWEST_MS = 400
PRIORITY_CHANGES = 3
FAULT_LASTS_MS_MIN = 100
FAULT_LASTS_MS_MAX = 9_000
GAP_MS_MAX = 4_000
LATE_WINDOW_MS = 700


class Nemesis:
    """Draws and applies faults while `active`: those that befall every world, and of the `more` given at least one, at
    double weight."""

    def __init__(self, world: World, random: Random, more: Mapping[str, Action] = _NO_MORE) -> None:
        self.world = world
        self.random = random
        self.operator = Operator(world)
        self.active = False
        known = {**_KINDS, **KAFKA_KINDS} if world.brokers else _KINDS
        kinds = list(known)
        if world.brokers:
            # Some seeds leave out what concerns the ensemble alone, some what concerns brokers alone: more of the rest.
            part = random.random()
            left_out: Iterable[str] = _ENSEMBLE_ALONE if part < 0.4 else KAFKA_KINDS if part > 0.7 else ()
            kinds = [kind for kind in known if kind not in left_out]
        chosen = [kind for kind in kinds if random.random() < 0.5] or [kinds[random.randrange(0, len(kinds))]]
        self._kinds = [known[kind] for kind in chosen]
        self._gap_ms = random.randrange(200, GAP_MS_MAX)
        if more:
            drawn = [action for action in more.values() if random.random() < 0.5]
            self._kinds += 2 * (drawn or [list(more.values())[random.randrange(0, len(more))]])
        self._undo: dict[int, Callable[[], object]] = {}
        self._fault_number = 0

    @cached_property
    def kafka(self) -> KafkaOperator:
        """What an administrator of brokers does; for worlds that have some."""
        return KafkaOperator(self.world)

    def start(self) -> None:
        """Begin to do harm."""
        self.active = True
        self._schedule()

    def _schedule(self) -> None:
        delay_ms = self.random.randrange(1, 2 * self._gap_ms)
        self.world.scheduler.after(delay_ms * 1000, self._strike)

    def _strike(self) -> None:
        if not self.active:
            return
        self._kinds[self.random.randrange(0, len(self._kinds))](self)
        self._schedule()

    def heal_all(self) -> None:
        """Stop, and undo every fault that still holds."""
        self.active = False
        for undo in list(self._undo.values()):
            undo()
        self._undo.clear()

    # -- one fault ---------------------------------------------------------------------------------------------------

    def until_healed(self, undo: Callable[[], object], lasts_ms: int = 0) -> None:
        """Undo it after that time, or after one that is drawn; or at the end, if that comes first."""
        self._fault_number += 1
        number = self._fault_number
        self._undo[number] = undo
        lasts_ms = lasts_ms or self.random.randrange(FAULT_LASTS_MS_MIN, FAULT_LASTS_MS_MAX)

        def end() -> None:
            if self._undo.pop(number, None) is not None:
                undo()

        self.world.scheduler.after(lasts_ms * 1000, end)

    def pick(self, names: list[str]) -> str:
        """One of them."""
        return names[self.random.randrange(0, len(names))]

    def _two(self) -> tuple[str, str]:
        names = self.world.node_names()
        first = self.pick(names)
        return first, self.pick([name for name in names if name != first] or list(CLIENTS))

    def _crash(self, names: list[str], power_loss: bool) -> None:
        name = self.pick(names)
        if self.world.is_running(name):
            self.world.kill(name, power_loss=power_loss)
            self.until_healed(lambda: self.world.start(name))

    def crash_peer(self) -> None:
        """SIGKILL a peer."""
        self._crash(self.world.peer_names(), power_loss=False)

    def crash_broker(self) -> None:
        """SIGKILL a broker."""
        self._crash(self.world.broker_names() or self.world.peer_names(), power_loss=False)

    def power_loss_peer(self) -> None:
        """Pull the plug of one peer."""
        self._crash(self.world.peer_names(), power_loss=True)

    def power_loss_all_peers(self) -> None:
        """A power cut takes the whole ensemble at once."""
        for name in self.world.peer_names():
            if self.world.is_running(name):
                self.world.kill(name, power_loss=True)
                self.until_healed(lambda name=name: self.world.start(name))  # type: ignore[misc]

    def power_loss_broker(self) -> None:
        """Pull the plug of one broker."""
        self._crash(self.world.broker_names() or self.world.peer_names(), power_loss=True)

    def pause(self) -> None:
        """SIGSTOP a node, SIGCONT it later."""
        name = self.pick(self.world.node_names())
        if self.world.is_running(name) and not self.world.is_paused(name):
            self.world.pause(name)
            self.until_healed(lambda: self.world.resume(name))

    def zombie_controller(self) -> None:
        """SIGSTOP the controller for about as long as its session lasts, with a dead broker waiting for it."""
        controller = self.world.record.state.controller_id
        others = [name for name in self.world.broker_names() if name != f"broker-{controller}"]
        if controller < 0 or not others:
            return
        name = f"broker-{controller}"
        if self.world.is_running(name) and not self.world.is_paused(name):
            self._crash(others, power_loss=False)
            session_ms = self.world.settings.session_timeout_ms
            self.world.pause(name)
            self.until_healed(lambda: self.world.resume(name), self.random.randrange(session_ms // 2, 2 * session_ms))

    def moved_controller(self) -> None:
        """An operator deletes /controller while the controller sees no other broker, and the ensemble only late: it
        goes on deciding for a while, on orders of the leader that it is itself."""
        controller = self.world.record.state.controller_id
        if controller < 0:
            return
        name = f"broker-{controller}"
        lasts_ms = 3 * self.world.settings.replica_lag_time_max_ms
        others = [other for other in self.world.broker_names() if other != name]
        self.until_healed(_all_of([self.world.cut(name, other, both_ways=True) for other in others]), lasts_ms)
        late_ms = self.random.randrange(1_000, 3_500)
        delays = [self.world.delay(peer, name, late_ms) for peer in self.world.peer_names()]
        self.until_healed(_all_of(delays), lasts_ms)
        self.operator.move_controller()

    def cut_one_way(self) -> None:
        """One direction between two nodes."""
        source, target = self._two()
        self.until_healed(self.world.cut(source, target, both_ways=False))

    def cut_both_ways(self) -> None:
        """Both directions between two nodes."""
        source, target = self._two()
        self.until_healed(self.world.cut(source, target, both_ways=True))

    def isolate(self) -> None:
        """One node from everybody."""
        name = self.pick(self.world.node_names())
        others = [other for other in self.world.node_names() if other != name]
        self.until_healed(_all_of([self.world.cut(name, other, both_ways=True) for other in others]))

    def split_peers(self) -> None:
        """Two halves of the ensemble that do not see each other."""
        names = self.world.peer_names()
        size = self.random.randrange(1, len(names)) if len(names) > 1 else 1
        left = names[:size]
        self.until_healed(_all_of([self.world.cut(a, b, both_ways=True) for a in left for b in names[size:]]))

    def delay(self) -> None:
        """Slow down one direction."""
        source, target = self._two()
        delay_ms = self.random.randrange(5, 600)
        self.until_healed(self.world.delay(source, target, delay_ms))

    def flapping_follower(self) -> None:
        """A follower falls behind and comes back, while its leader's requests to the controller arrive late or in
        another order; in the end the leader may die."""
        state = self.world.record.state
        led = [
            p
            for p in state.partitions.values()
            if p.leader >= 0 and p.leader != state.controller_id and any(r != p.leader for r in p.replicas)
        ]
        if not led or state.controller_id < 0:
            return
        partition = led[self.random.randrange(0, len(led))]
        followers = [replica for replica in partition.replicas if replica != partition.leader]
        leader, controller = f"broker-{partition.leader}", f"broker-{state.controller_id}"
        follower = f"broker-{followers[self.random.randrange(0, len(followers))]}"
        lag_ms = self.world.settings.replica_lag_time_max_ms
        back_ms = 3 * lag_ms // 2
        self.until_healed(self.world.cut(follower, leader), back_ms)
        # What the leader asks for when the follower is back is under way for long, and asked for again meanwhile ...
        late_ms = self.random.randrange(2 * lag_ms, 4 * lag_ms)
        self.later(
            back_ms - 200, lambda: self.until_healed(self.world.delay(leader, controller, late_ms), LATE_WINDOW_MS)
        )
        # ... and arrives when the follower has fallen out once more.
        self.later(2 * lag_ms, lambda: self.until_healed(self.world.cut(follower, leader), 5 * lag_ms))
        if self.random.random() < 0.7:
            dies_ms = 5 * lag_ms + self.random.randrange(0, 2 * lag_ms)
            self.later(dies_ms, lambda: self._crash([leader], power_loss=False))

    def later(self, delay_ms: int, strike: Callable[[], None]) -> None:
        """Strike once more after that time, unless all is being healed by then."""

        def strike_if_active() -> None:
            if self.active:
                strike()

        self.world.scheduler.after(delay_ms * 1000, strike_if_active)

    def cut_client(self) -> None:
        """A client loses some server, which may still hear late what it was sent."""
        client = CLIENTS[self.random.randrange(0, len(CLIENTS))]
        name = self.pick(self.world.peer_names())
        self.until_healed(self.world.cut(client, name, both_ways=self.random.random() < 0.5))

    def depose_leader(self) -> None:
        """The ensemble's leader loses every other peer, but not its clients."""
        leader = self.world.zab_leader()
        if leader is not None:
            others = [name for name in self.world.peer_names() if name != leader.name]
            self.until_healed(_all_of([self.world.cut(leader.name, other) for other in others]))

    def swizzle_clog(self) -> None:
        """A random part of the links between peers is clogged, one after the other, and unclogged in another order
        (FoundationDB's swizzle)."""
        clogged = [link for link in self._links(self.world.peer_names()) if self.random.random() < 0.5]
        lasts_ms = self.random.randrange(FAULT_LASTS_MS_MIN, FAULT_LASTS_MS_MAX)
        for position, (source, target) in enumerate(self._shuffled(clogged)):
            begins_ms = 1 + lasts_ms * position // (2 * len(clogged))
            ends_ms = lasts_ms + self.random.randrange(0, lasts_ms)

            def clog(source: str = source, target: str = target, for_ms: int = ends_ms - begins_ms) -> None:
                self.until_healed(self.world.cut(source, target, both_ways=False), for_ms)

            self.later(begins_ms, clog)

    def priorities(self) -> None:
        """Every link gets a place in an order, and what is on a later one comes later; a few times the next link in
        turn falls to the very last place (probabilistic concurrency testing)."""
        order = self._shuffled(self._links(self.world.peer_names()))
        ranked = {link: PRIORITY_STEP_MS * rank for rank, link in enumerate(order)}
        lasts_ms = self.random.randrange(FAULT_LASTS_MS_MIN, FAULT_LASTS_MS_MAX)
        self.until_healed(self.world.prioritise(ranked), lasts_ms)
        for _ in range(PRIORITY_CHANGES):
            link = order[self.random.randrange(0, len(order))] if order else None

            def demote(link: tuple[str, str] | None = link) -> None:
                if link is not None:
                    self.until_healed(self.world.delay(*link, PRIORITY_LOWEST_MS))

            self.later(self.random.randrange(1, lasts_ms + 1), demote)

    def _links(self, names: list[str]) -> list[tuple[str, str]]:
        return [(source, target) for source in names for target in names if source != target]

    def _shuffled(self, links: list[tuple[str, str]]) -> list[tuple[str, str]]:
        keyed = [(self.random.random(), link) for link in links]
        return [link for _, link in sorted(keyed)]

    def slow_disk(self) -> None:
        """A peer's disk takes far longer."""
        name = self.pick(self.world.peer_names())
        factor = self.random.randrange(10, 400)
        self.until_healed(self.world.slow_disk(name, factor))


def _all_of(undos: list[Callable[[], None]]) -> Callable[[], None]:
    def undo_all() -> None:
        for undo in undos:
            undo()

    return undo_all


_KINDS: dict[str, Action] = {
    "crash_peer": Nemesis.crash_peer,
    "crash_broker": Nemesis.crash_broker,
    "power_loss_peer": Nemesis.power_loss_peer,
    "power_loss_all_peers": Nemesis.power_loss_all_peers,
    "power_loss_broker": Nemesis.power_loss_broker,
    "pause": Nemesis.pause,
    "zombie_controller": Nemesis.zombie_controller,
    "moved_controller": Nemesis.moved_controller,
    "cut_one_way": Nemesis.cut_one_way,
    "cut_both_ways": Nemesis.cut_both_ways,
    "isolate": Nemesis.isolate,
    "split_peers": Nemesis.split_peers,
    "delay": Nemesis.delay,
    "slow_disk": Nemesis.slow_disk,
    "cut_client": Nemesis.cut_client,
    "depose_leader": Nemesis.depose_leader,
    "swizzle_clog": Nemesis.swizzle_clog,
    "priorities": Nemesis.priorities,
    "flapping_follower": Nemesis.flapping_follower,
}
_ENSEMBLE_ALONE = ("cut_client", "depose_leader", "swizzle_clog", "priorities")
