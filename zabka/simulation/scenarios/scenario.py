"""A scenario: a failure as a script of steps, with the expected result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from zabka.ensemble.ids import COUNTER_MAX
from zabka.journal.events import Entry
from zabka.journal.writer import encode_line
from zabka.simulation.scenarios.core_steps import Expect
from zabka.simulation.scenarios.file_steps import FileSteps
from zabka.simulation.scenarios.group_steps import GroupSteps
from zabka.simulation.scenarios.kafka_steps import KafkaSteps
from zabka.simulation.scenarios.stage import Stage
from zabka.simulation.scenarios.subjects import Subject
from zabka.simulation.scenarios.transaction_steps import TransactionSteps
from zabka.simulation.scenarios.world_steps import WorldStep, WorldSteps
from zabka.simulation.steps.bare_ensemble import SNAP_COUNT


class Moment(msgspec.Struct, frozen=True):
    """The first event of a type whose fields have the given values."""

    type: str
    fields: dict[str, str | int | bool] = {}


class Scenario(msgspec.Struct, frozen=True, tag_field="driver", tag="base"):
    """Fields of every scenario.

    `source` is where the failure was reported; `fixed` is the first release without the failure, or `open`.

    `decisive` is the event that settles the outcome of the run without the bug. It is set only if the module `decisive`
    cannot derive this event. `subjects` are what the scenario is about, the most important subject first.
    """

    name: str
    title: str
    hypothesis: str
    source: str = ""
    fixed: str = ""
    decisive: Moment | None = None
    subjects: tuple[Subject, ...] = ()


_PEERS_OF_STEPS = ("peer", "source", "target", "one", "other")


class CoreScenario(Scenario, frozen=True, tag="cores"):
    """A script for the bare protocol, in which every packet and every fsync is a step."""

    peers: int = 3
    snap_count: int = SNAP_COUNT
    cumulative: bool = True
    counter_max: int = COUNTER_MAX
    """Maximum of the zxid counter. ZooKeeper's own maximum would require about four billion writes."""
    steps: tuple[FileSteps, ...] = ()
    """Steps of the script. Steps from `file_steps` require a `FileScenario`."""

    def __post_init__(self) -> None:
        """Raise ValueError if the scenario has no peer, or if a step names an unknown peer."""
        if self.peers < 1:
            raise ValueError(f"there must be a peer, and there are {self.peers}")
        for number, step in enumerate(self.steps, start=1):
            named = [getattr(step, field) for field in _PEERS_OF_STEPS if hasattr(step, field)]
            for peer in (*named, *getattr(step, "peers", ())):
                if not (1 <= peer <= self.peers or (isinstance(step, Expect) and step.what == "answered")):
                    raise ValueError(f"step {number} names peer {peer}; there are {self.peers}")


class FileScenario(CoreScenario, frozen=True, tag="files"):
    """A script for the bare protocol in which each peer's disk is a directory with the production storage."""

    commit_log_count: int = 500
    """The number of transactions that a peer keeps in memory for its learners (zookeeper.commitLogCount)."""


class WithBug(WorldStep, frozen=True):
    """Steps performed only in the run with the bug, because they are the bug, such as a wrong edit of a znode."""

    steps: tuple[WorldSteps | KafkaSteps | TransactionSteps | GroupSteps, ...]

    def play(self, stage: Stage) -> None:
        """Perform the steps if this is the run with the bug."""
        if stage.with_bug:
            for step in self.steps:
                step.play(stage)


AnyWorldStep = WorldSteps | KafkaSteps | TransactionSteps | GroupSteps | WithBug


class WorldScenario(Scenario, frozen=True, tag="world"):
    """A script for a whole simulated cluster with clients.

    A scenario that shows an outage runs twice. Without `bug`, the hypothesis must hold. With `bug`, there must be a
    problem whose message contains `shows`. `bug` contains broker settings (`zabka.historical`,
    `unclean.leader.election.enable`), or `acks` for the producer.
    """

    peers: int = 3
    brokers: int = 0
    snap_count: int = 400
    seed: int = 1
    keys: dict[str, str] = {}
    peer_keys: dict[str, str] = {}
    """Settings for every peer (zoo.cfg keys). Keys in BROKERS_OWN_KEYS are settings for every broker instead."""
    bug: dict[str, str] = {}
    shows: str = ""
    provokes: tuple[str, ...] = ()
    """Substrings of problem messages that are ignored, because this script causes them with or without the bug."""
    steps: tuple[AnyWorldStep, ...] = ()


class StepTaken(msgspec.Struct, frozen=True):
    """A performed step as text, with its time and the number of journal entries at that time.

    On a running cluster, `entries` is the number of the step instead.
    """

    at_ms: int
    text: str
    entries: int


class Verdict(msgspec.Struct):
    """The result of one scenario. `problems` is empty if the run was as expected; `journal` contains the run's events.

    If the scenario has a bug, `shown` is the result of the run with the bug.
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
        """Return each journal entry as a line for a journal file."""
        for entry in self.journal:
            yield encode_line(entry.node, entry.node_seq, entry.wall_us, entry.mono_us, entry.event)

    @property
    def held(self) -> bool:
        """Whether the run had the result that the script expects."""
        return not self.problems


AnyScenario = CoreScenario | FileScenario | WorldScenario


def write_scenario(scenario: AnyScenario, path: Path) -> None:
    """Save the scenario as readable JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(scenario), indent=1) + b"\n")


def decode_scenario(data: bytes) -> AnyScenario:
    """Decode the content of a scenario file. Raises msgspec.ValidationError if it is invalid."""
    found: AnyScenario = msgspec.json.decode(data, type=AnyScenario)
    return found


def read_scenario(path: Path) -> AnyScenario:
    """Read a scenario from its file. Raises msgspec.ValidationError if it is invalid."""
    return decode_scenario(path.read_bytes())
