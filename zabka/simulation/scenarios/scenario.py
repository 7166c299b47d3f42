"""A scenario: what somebody fears, as a script, and what is expected of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from zabka.ensemble.ids import COUNTER_MAX
from zabka.journal.events import Entry
from zabka.journal.writer import encode_line
from zabka.simulation.cores.cores import SNAP_COUNT
from zabka.simulation.scenarios.core_steps import Expect
from zabka.simulation.scenarios.file_steps import FileSteps
from zabka.simulation.scenarios.kafka_steps import KafkaSteps
from zabka.simulation.scenarios.stage import Stage
from zabka.simulation.scenarios.world_steps import WorldStep, WorldSteps


class Moment(msgspec.Struct, frozen=True):
    """The first event of that type with these fields."""

    type: str
    fields: dict[str, str | int | bool] = {}


class Scenario(msgspec.Struct, frozen=True, tag_field="driver", tag="base"):
    """What every scenario has.  `source` is where it was seen; `fixed` is the first release without it, or `open`.

    `decisive` names the event at which a play without a bug is settled, where that cannot be derived (`decisive`).
    """

    name: str
    title: str
    hypothesis: str
    source: str = ""
    fixed: str = ""
    decisive: Moment | None = None


_PEERS_OF_STEPS = ("peer", "source", "target", "one", "other")


class CoreScenario(Scenario, frozen=True, tag="cores"):
    """A script over the bare protocol: every packet and every fsync is a step."""

    peers: int = 3
    snap_count: int = SNAP_COUNT
    cumulative: bool = True
    counter_max: int = COUNTER_MAX
    """Where the zxid's counter ends; ZooKeeper's own needs four thousand million writes to get there."""
    steps: tuple[FileSteps, ...] = ()
    """Those of `file_steps` are for a `FileScenario`."""

    def __post_init__(self) -> None:
        """Raises ValueError where there is no peer, or a step names one that there is not."""
        if self.peers < 1:
            raise ValueError(f"there must be a peer, and there are {self.peers}")
        for number, step in enumerate(self.steps, start=1):
            named = [getattr(step, field) for field in _PEERS_OF_STEPS if hasattr(step, field)]
            for peer in (*named, *getattr(step, "peers", ())):
                if not (1 <= peer <= self.peers or (isinstance(step, Expect) and step.what == "answered")):
                    raise ValueError(f"step {number} names peer {peer}; there are {self.peers}")


class FileScenario(CoreScenario, frozen=True, tag="files"):
    """A script over the bare protocol in which each peer's disk is a directory, under the storage that serves."""

    commit_log_count: int = 500
    """How many transactions a peer keeps in memory for its learners (zookeeper.commitLogCount)."""


class WithBug(WorldStep, frozen=True):
    """Steps that belong to the outage alone: what somebody did wrong, and nobody does where the hypothesis holds."""

    steps: tuple[WorldSteps | KafkaSteps, ...]

    def play(self, stage: Stage) -> None:
        """Play them, where the outage is played."""
        if stage.with_bug:
            for step in self.steps:
                step.play(stage)


AnyWorldStep = WorldSteps | KafkaSteps | WithBug


class WorldScenario(Scenario, frozen=True, tag="world"):
    """A script over a whole simulated cluster, with clients.

    One that shows an outage is played twice: as it is, when its hypothesis must hold, and with `bug`, when something
    must go wrong and say `shows`.  `bug` are broker keys (`zabka.historical`, `unclean.leader.election.enable`), or
    `acks` for what the producer asks for.
    """

    peers: int = 3
    brokers: int = 0
    snap_count: int = 400
    seed: int = 1
    keys: dict[str, str] = {}
    peer_keys: dict[str, str] = {}
    """zoo.cfg's, of those that `--set` takes."""
    bug: dict[str, str] = {}
    shows: str = ""
    provokes: tuple[str, ...] = ()
    """What nodes rightly report in a script like this, bug or not."""
    steps: tuple[AnyWorldStep, ...] = ()


class StepTaken(msgspec.Struct, frozen=True):
    """A step of the script in words, when it was taken, and how long the journal was then."""

    at_ms: int
    text: str
    entries: int


class Verdict(msgspec.Struct):
    """What came of one scenario: `problems` is empty when all is as expected; `journal` is what happened.

    `shown` is the outage, where the scenario has one: what went wrong with its bug switched on.
    """

    name: str
    problems: list[str]
    steps: int
    virtual_ms: int
    faults: int
    journal: list[Entry]
    shown: Verdict | None = None
    taken: list[StepTaken] = []

    def lines(self) -> Iterator[bytes]:
        """The journal as it is written to files."""
        for entry in self.journal:
            yield encode_line(entry.node, entry.node_seq, entry.wall_us, entry.mono_us, entry.event)

    @property
    def held(self) -> bool:
        """Whether the run came out as the script expects."""
        return not self.problems


AnyScenario = CoreScenario | FileScenario | WorldScenario


def write_scenario(scenario: AnyScenario, path: Path) -> None:
    """Save it as JSON, to be read by people too."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(scenario), indent=1) + b"\n")


def read_scenario(path: Path) -> AnyScenario:
    """A scenario from its file.  Raises msgspec.ValidationError where it is none."""
    found: AnyScenario = msgspec.json.decode(path.read_bytes(), type=AnyScenario)
    return found
