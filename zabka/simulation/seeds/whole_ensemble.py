"""The scenario `whole`, a run of an ensemble of whole processes: boot, inject faults, heal, recover, check."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack

from zabka.ensemble.client.client import Client
from zabka.ensemble.client.history_clients import check_history
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.journal.checkers.check_counts import CheckCounts
from zabka.simulation.cluster.client_machine import Playing, forever, make_ground
from zabka.simulation.cluster.ensemble_world import ServingWorld
from zabka.simulation.cluster.shape import Shape, draw_shape
from zabka.simulation.draws import derive_random
from zabka.simulation.engine.tap import MessageTap
from zabka.simulation.faults.changing import Changing
from zabka.simulation.faults.episodes import draw_episode
from zabka.simulation.faults.process_faults import draw_nemesis
from zabka.simulation.seeds.whole_run import WholeRun
from zabka.simulation.workloads.watching import Watching
from zabka.simulation.workloads.writer import Writer

WHOLE = "whole"
"""Name of this scenario."""
BOOT_MS_MAX = 60_000
FAULTS_MS = 20_000
RECOVERY_MS_MAX = 120_000
POWERLESS_MS = 300
PLAYERS = 2
PLAYER = "player-"
WRITER_PAUSE_MS = 60

InjectedBug = AbstractContextManager[object]
"""A context manager that injects a bug into the production code."""


class ServingRun(WholeRun):
    """A seed's world with its clients.  `execute` runs it to the end.

    `shape` and `episode` are chosen at random unless they are given; `tap` receives every message.
    """

    scenario = WHOLE

    def __init__(
        self, seed: int, shape: Shape | None = None, episode: str | None = None, tap: MessageTap | None = None
    ) -> None:
        self.episode = episode
        self.shape = shape or draw_shape(derive_random(seed, "serving shape"))
        super().__init__(seed, ServingWorld(seed, self.shape, tap))
        self.playing = Playing(seed)
        self.changing: Changing | None = None
        self.watching: Watching | None = None

    def had_to_check(self) -> CheckCounts:
        """Return how often each invariant was checked.

        For client invariants, this is the number of compared observations.
        """
        every = super().had_to_check()
        every.note("reads and watches", self.watching.watches_fired if self.watching else 0)
        every.note("clients' histories", len(self.playing.history.operations) + len(self.playing.history.seen))
        return every

    def clients_problems(self) -> list[str]:
        """Return the violations that were observed by the watching client and by the clients that record a history."""
        found = [f"reads and watches: {line}" for line in (self.watching.violations if self.watching else [])]
        return found + [f"clients' histories: {line}" for line in check_history(self.playing.history, []).wrong]

    # -- the run -----------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Boot the ensemble, inject faults, heal them, wait for recovery, and then cut the power of every machine."""
        self.boot()
        world = self.world
        nemesis = draw_nemesis(world, derive_random(self.seed, "serving nemesis"))
        nemesis.hush = self._hush
        nemesis.start()
        draw_episode(nemesis, self.episode)
        world.run(FAULTS_MS)
        nemesis.heal_all()
        world.start()
        self._recover()

    def boot(self) -> None:
        """Start every peer and every client, and wait until the clients make progress."""
        world = self.world
        world.start()
        world.add_client("writer", self._write)
        world.until(lambda: self.acknowledged() > 0, BOOT_MS_MAX, "the first write to the ensemble")
        world.add_client("watcher", self._watch)
        world.add_client("setup", make_ground)
        setup = world.clients["setup"]
        world.until(lambda: setup.process is None, BOOT_MS_MAX, "the players' ground")
        for number in range(1, PLAYERS + 1):
            name = f"{PLAYER}{number}"
            world.add_client(name, self.playing.player(name))
        if self.shape.changes_members:
            self.changing = Changing(derive_random(self.seed, "changes"), self.shape.peers)
            world.add_client("operator", self.changing.work)

    async def _write(self, client: Client, runtime: AsyncioRuntime) -> None:
        self.writer = Writer(client, runtime, WRITER_PAUSE_MS)
        await forever(client, runtime)

    async def _watch(self, client: Client, runtime: AsyncioRuntime) -> None:
        self.watching = Watching(client, runtime, self.acknowledged)
        await forever(client, runtime)

    def _hush(self, quiet: bool) -> None:
        """Stop the clients' writes, or resume them."""
        assert self.writer is not None
        self.writer.active = not quiet
        for name, machine in self.world.clients.items():
            if name.startswith(PLAYER):
                if quiet:
                    machine.pause()
                else:
                    machine.resume()

    def _recover(self) -> None:
        """Wait until the ensemble and its clients have recovered, for a bounded time after the last fault."""
        world, before = self.world, self.acknowledged()
        self.recovery_ms = world.until(lambda: self.acknowledged() > before + 2, RECOVERY_MS_MAX, "a serving ensemble")
        if self.changing is None:
            self.recovery_ms += world.until(world.every_peer_serves, RECOVERY_MS_MAX, "every peer back in service")
        if (changing := self.changing) is not None:
            changing.active = False
            self.recovery_ms += world.until(lambda: changing.whole, RECOVERY_MS_MAX, "a membership of all servers")
            self.recovery_ms += world.until(world.every_peer_serves, RECOVERY_MS_MAX, "every member in service")
        self.playing.is_done = True
        world.until(lambda: self.playing.ended == PLAYERS, RECOVERY_MS_MAX, "players that have come to their end")
        assert self.writer is not None
        self.writer.active = False
        world.until(self._all_agree, RECOVERY_MS_MAX, "one tree everywhere")
        self._cut_the_power(self.writer)

    def _cut_the_power(self, writer: Writer) -> None:
        """Cut the power of all peers, restart them, and check that no acknowledged write is lost."""
        world = self.world
        for machine in world.peers.values():
            world.announce("power_loss", machine.name)
            machine.lose_power()
        world.run(POWERLESS_MS)
        world.start()
        self.recovery_ms += world.until(world.every_peer_serves, RECOVERY_MS_MAX, "every peer back after a power cut")
        before, writer.active = writer.acknowledged, True
        world.until(lambda: writer.acknowledged > before + 2, RECOVERY_MS_MAX, "writes after a power cut")
        writer.active = False
        world.until(self._all_agree, RECOVERY_MS_MAX, "one tree everywhere after a power cut")

    def _all_agree(self) -> bool:
        """Return whether all peers have the same tree."""
        trees = [running.service.tree for running in self.world.running()]
        states = {(tree.last_zxid, tree.digest, len(tree.nodes)) for tree in trees}
        return len(trees) == len(self.world.peers) and len(states) == 1


def serve_seed(seed: int, injected_bugs: Iterable[InjectedBug] = ()) -> ServingRun:
    """Run a seed while bugs are injected into the production code.

    `problems()` of the returned run lists the violations.
    """
    with ExitStack() as injected:
        for injected_bug in injected_bugs:
            injected.enter_context(injected_bug)
        run = ServingRun(seed)
        run.outcome = run.execute()
    return run
