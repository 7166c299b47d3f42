"""Reference page of the state machines: a controller's partitions and replicas, and a peer's roles and phases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

import msgspec

from scripts.reference.markdown import code, document, mermaid, sentence, table
from zabka.controller.context import PartitionState, ReplicaState
from zabka.controller.partition_state_machine import VALID_PREVIOUS as PARTITION_STATES
from zabka.controller.replica_state_machine import VALID_PREVIOUS as REPLICA_STATES
from zabka.ensemble.zab.learner import LearnerStep
from zabka.ensemble.zab.learner_link import LearnerLink, Step
from zabka.ensemble.zab.messages import PeerState
from zabka.ensemble.zab.role import Phase
from zabka.simulation.run import run_with_journal

SEEDS = range(12)
SCENARIOS = ("ensemble", "reconfiguring")
Transition = tuple[str, str]

_INTRODUCTION = (
    "The controller's two machines are tables in the code, and the diagrams are made from them. A peer's "
    f"machine is made of its role and its phase; its diagram holds every change that peers made in {len(SEEDS)} "
    f"seeds each of the scenarios {' and '.join(SCENARIOS)}."
)
_PARTITION = (
    "Class `PartitionStateMachine` (Kafka: `ZkPartitionStateMachine`). An offline partition has no leader; entering "
    "*OnlinePartition* elects one. A change that the table does not allow is refused for that partition alone."
)
_REPLICA = (
    "Class `ReplicaStateMachine` (Kafka: `ZkReplicaStateMachine`). The states of deletion are those of a topic that is "
    "being deleted; a replica whose broker is down is ineligible for it until the broker is back."
)
_PEER = (
    "Class `Peer` with its roles `Leader` and `Learner` (ZooKeeper: `QuorumPeer.ServerState` and `ZabState`). "
    "A crash may end any state; the process then starts in *LOOKING*. A lone server, and one that its ensemble "
    "hands leadership to while the membership changes, leads without an election."
)

_PHASES = {
    Phase.ELECTION: ("0, leader election", "", "votes, and waits for a quorum of equal votes"),
    Phase.DISCOVERY: (
        "1, discovery",
        "proposes an epoch above all that a quorum has accepted",
        "promises it with ACKEPOCH, once that is on its disk",
    ),
    Phase.SYNCHRONIZATION: (
        "2, synchronisation",
        "sends what each learner lacks, as DIFF, TRUNC or SNAP; then NEWLEADER",
        "takes it over, and acknowledges NEWLEADER once it is durable",
    ),
    Phase.BROADCAST: (
        "3, broadcast",
        "proposes transactions, and commits what a quorum has on disk",
        "logs, acknowledges and applies them, and answers its clients",
    ),
}


def page() -> str:
    """Return the page of state machines."""
    return document(
        "State machines",
        _INTRODUCTION,
        f"## A partition\n\n{_PARTITION}\n\n{_controller(PARTITION_STATES, PartitionState)}",
        f"## A replica\n\n{_REPLICA}\n\n{_controller(REPLICA_STATES, ReplicaState)}",
        f"## A peer\n\n{_PEER}\n\n{_peer(_observed())}",
        f"## A learner's connection\n\n{_steps()}",
    )


def _controller(valid: Mapping[Enum, tuple[Enum, ...]] | Mapping[PartitionState, tuple[PartitionState, ...]]
                | Mapping[ReplicaState, tuple[ReplicaState, ...]], states: type[Enum]) -> str:  # fmt: skip
    edges = [(str(source.value), str(target.value)) for target, sources in valid.items() for source in sources]
    absent = next(str(state.value) for state in states if state.name == "NON_EXISTENT")
    lines = [f"    [*] --> {absent}", *(f"    {source} --> {target}" for source, target in edges)]
    listed = table(
        ["state", "may be entered from"],
        (
            [code(str(target.value)), ", ".join(code(str(s.value)) for s in sources)]
            for target, sources in valid.items()
        ),
    )
    return mermaid("\n".join(["stateDiagram-v2", *lines])) + "\n" + listed


def _observed() -> dict[Transition, None]:
    """Run some seeds, and return the transitions of role and phase that their peers make, except at a peer's start."""
    found: dict[Transition, None] = {}
    for scenario in SCENARIOS:
        for seed in SEEDS:
            _, lines = run_with_journal(seed, scenario)
            found |= dict.fromkeys(_changes(lines))
    return dict.fromkeys(sorted(found))


def _changes(lines: Iterable[bytes]) -> Iterable[Transition]:
    last: dict[str, str] = {}
    for line in lines:
        event = msgspec.json.decode(line)
        if event["type"] == "node_started":
            last.pop(event["node"], None)
        elif event["type"] == "peer_state_changed":
            now = f"{event['state']}_{event['phase']}"
            before = last.get(event["node"])
            if before not in (None, now):
                assert before is not None
                yield before, now
            last[event["node"]] = now


def _peer(changes: Iterable[Transition]) -> str:
    looking = f"{PeerState.LOOKING.name}_{Phase.ELECTION.value}"
    lines = ["stateDiagram-v2", f"    [*] --> {looking}", *(f"    {before} --> {after}" for before, after in changes)]
    listed = table(
        ["phase", "of the paper", "what a leader does", "what a learner does"],
        ([code(phase.value), *said] for phase, said in _PHASES.items()),
    )
    return mermaid("\n".join(lines)) + "\n" + listed


def _steps() -> str:
    learner = " → ".join(code(step.name) for step in LearnerStep)
    leader = " → ".join(code(step.name) for step in Step)
    return (
        f"How far a connection has come, as each side counts it; a broken link ends it at any step.\n\n"
        f"- As the learner counts (`LearnerStep`): {learner}.\n- As the leader counts (`Step`): {leader}. "
        f"{sentence(LearnerLink.__doc__)}\n"
    )
