"""The scenario of read-only mode (readonlymode.enabled): minorities of an ensemble accept reads while faults occur."""

from __future__ import annotations

from random import Random

import msgspec

from zabka.simulation.cluster.world import World
from zabka.simulation.draws import derive_random
from zabka.simulation.seeds.seed_run import SeedRun, SeedScenario
from zabka.simulation.settings import WorldSettings
from zabka.simulation.workloads.reading import MACHINE, Reading
from zabka.simulation.workloads.writer import Writer

CATCHES_UP_MS_MAX = 60_000
SMALL_SNAP_COUNTS = (8, 50, 400)
SPLIT_EVERY_MS = 12_000
SPLIT_MS_MIN, SPLIT_MS_MAX = 5_000, 10_000


class Splits:
    """Repeatedly cuts a minority of peers off from the others, for so long that they accept reads in read-only mode.

    In half of the cases, a client's machine is on the minority's side.  New splits begin only while `active`; a split
    that exists when `active` becomes False is still healed.
    """

    def __init__(self, world: World, client: str) -> None:
        self._world = world
        self._client = client
        self._random = derive_random(world.seed, "splits")
        self.active = True
        self._heal()

    def _heal(self) -> None:
        if self.active:
            self._world.scheduler.after(self._random.randrange(1, SPLIT_EVERY_MS) * 1000, self._split)

    def _split(self) -> None:
        if not self.active:
            return
        names = self._world.peer_names()
        first = self._random.randrange(0, len(names))
        turned = names[first:] + names[:first]
        size = 1 + self._random.randrange(0, len(names) // 2)
        few, most = turned[:size], turned[size:]
        if self._random.random() < 0.5:
            few.append(self._client)
        undos = [self._world.cut(a, b) for a in few for b in most]

        def end_split() -> None:
            for undo in undos:
                undo()
            self._heal()

        self._world.scheduler.after(self._random.randrange(SPLIT_MS_MIN, SPLIT_MS_MAX) * 1000, end_split)


def _shape(settings: WorldSettings, random: Random) -> WorldSettings:
    """Return settings for a world of two to five peers without brokers, in most cases with local sessions."""
    local = random.random() < 0.75
    return msgspec.structs.replace(
        settings,
        brokers=0,
        peers=(2, 3, 3, 4, 5)[random.randrange(0, 5)],
        snap_count=SMALL_SNAP_COUNTS[random.randrange(0, len(SMALL_SNAP_COUNTS))],
        sync_limit=random.randrange(2, 4),
        read_only_mode=True,
        local_sessions=local,
        local_sessions_upgrading=local and random.random() < 0.5,
    )


def _play(run: SeedRun) -> None:
    """Let minorities accept reads under random faults, then recover and check that no local session is left."""
    writer = run.boot_writer()
    world = run.world
    run.reading = reading = Reading(world, writer)
    splits = Splits(world, MACHINE)
    run.inject_faults()
    splits.active = False
    run.recover()
    writes = reading.writes
    world.until(
        lambda: reading.takes_writes and reading.writes > writes + 2, CATCHES_UP_MS_MAX, "a reader that may write"
    )
    world.until(lambda: _only_local_of(world, reading, writer), CATCHES_UP_MS_MAX, "local sessions that have owners")


def _only_local_of(world: World, reading: Reading, writer: Writer) -> bool:
    """Return whether no peer has a local session other than those of the reading and the writing client."""
    owners = (reading.session_id, writer.session_id)
    return all(
        session_id in owners for running in world.running() for session_id, _ in running.service.local_sessions()
    )


READ_ONLY = SeedScenario("read-only", _shape, _play)
