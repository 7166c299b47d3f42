"""Steps of a script for a whole simulated cluster (`ClusterWorld`), as data that can be saved to a file.

Nodes have the names of the journal (`peer-1`, `broker-2`) or those that `Stage.node` accepts; a client's machine is
named `client-NAME`. A step that sends a request waits for the reply, in virtual time.
"""

from __future__ import annotations

from functools import partial
from itertools import combinations

import msgspec

from zabka.ensemble.request_fault import ANY, RequestFault
from zabka.simulation.engine.scheduler import Deadlock
from zabka.simulation.faults.event_stops import EventStop
from zabka.simulation.scenarios.stage import Stage
from zabka.simulation.scenarios.step import StepFailed

PATIENCE_MS = 60_000
REQUESTS = "requests"
"""Placeholder for the second node of a request fault in the list of active faults.

The entry of a link fault names two nodes, but a request fault affects only one.
"""


class WorldStep(msgspec.Struct, frozen=True, tag=True):
    """One step. `play` performs it, and raises StepFailed if the step is not possible."""


class Wait(WorldStep, frozen=True):
    """Advance virtual time by `ms`."""

    ms: int

    def play(self, stage: Stage) -> None:
        """Advance virtual time by `ms`."""
        stage.world.run(self.ms)


class At(WorldStep, frozen=True):
    """Wait until `ms` after the beginning of the first step of this type."""

    ms: int

    def play(self, stage: Stage) -> None:
        """Advance virtual time until that moment, unless it has passed."""
        now_ms = stage.world.now_ms
        if stage.clock_began_ms is None:
            stage.clock_began_ms = now_ms
        stage.world.run(max(0, stage.clock_began_ms + self.ms - now_ms))


class Kill(WorldStep, frozen=True):
    """Kill nodes (SIGKILL), or cut their power."""

    nodes: tuple[str, ...]
    power_loss: bool = False

    def play(self, stage: Stage) -> None:
        """Kill all these nodes at the same time."""
        for node in stage.nodes(self.nodes):
            stage.kill(node, power_loss=self.power_loss)


class Restart(WorldStep, frozen=True):
    """Start the nodes with these names that are down, or all nodes that are down if no names are given."""

    nodes: tuple[str, ...] = ()

    def play(self, stage: Stage) -> None:
        """Start those nodes of this step that are down."""
        for node in stage.nodes(self.nodes) or [machine.name for machine in stage.world.servers()]:
            stage.server(node).switch_on()


class Pause(WorldStep, frozen=True):
    """Pause a node (SIGSTOP)."""

    node: str

    def play(self, stage: Stage) -> None:
        """Pause the node's process."""
        stage.pause(stage.node(self.node))


class Resume(WorldStep, frozen=True):
    """Resume a node (SIGCONT)."""

    node: str

    def play(self, stage: Stage) -> None:
        """Resume the node's process."""
        stage.server(stage.node(self.node)).resume()


class Cut(WorldStep, frozen=True):
    """Drop all messages between a node (or a client's machine) and other nodes, until `Heal`."""

    node: str
    others: tuple[str, ...]
    both_ways: bool = True

    def play(self, stage: Stage) -> None:
        """Cut the link to each of the other nodes."""
        node = stage.node(self.node)
        for other in stage.nodes(self.others, but=node):
            stage.heals.append(((node, other), stage.world.cut(node, other, both_ways=self.both_ways)))


class Split(WorldStep, frozen=True):
    """Cut every link between nodes of different sides, until `Heal`."""

    sides: tuple[tuple[str, ...], ...]

    def play(self, stage: Stage) -> None:
        """Cut the links between each two sides."""
        for one, other in combinations(self.sides, 2):
            for node in one:
                Cut(node, other).play(stage)


class Disturb(WorldStep, frozen=True):
    """Inject a fault into clients' requests, as often as its rule allows, or until `Heal`.

    `node` is the node that injects the fault, or * for all nodes that handle such requests; `rule` does not name a
    node.
    """

    rule: RequestFault
    node: str = ANY

    def play(self, stage: Stage) -> None:
        """Add the request fault. Raises StepFailed if the rule is not valid."""
        node = stage.node(self.node)
        try:
            fault_id = stage.world.request_fault(msgspec.structs.replace(self.rule, node=node))
        except ValueError as impossible:
            raise StepFailed(str(impossible)) from None
        stage.heals.append(((node, REQUESTS), partial(stage.world.remove_fault, fault_id)))


class Hold(WorldStep, frozen=True):
    """Hold messages of one kind from one node to another, until `Heal`; `message_faults` lists the kinds.

    Later messages on the same connections wait for the held messages.
    """

    source: str
    target: str
    kind: str

    def play(self, stage: Stage) -> None:
        """Hold all messages of that kind from now on."""
        stage.add_message_fault(self.source, self.target, self.kind, stage.messages.hold)


class Drop(WorldStep, frozen=True):
    """Drop the next `count` messages of one kind from one node to another."""

    source: str
    target: str
    kind: str
    count: int = 1

    def play(self, stage: Stage) -> None:
        """Drop the next messages of this step's kind."""
        stage.add_message_fault(self.source, self.target, self.kind, partial(stage.messages.drop, count=self.count))


class DelayMessages(WorldStep, frozen=True):
    """Delay messages of one kind from one node to another, until `Heal`."""

    source: str
    target: str
    kind: str
    delay_ms: int

    def play(self, stage: Stage) -> None:
        """Delay all messages of this step's kind from now on."""
        delay = partial(stage.messages.delay, delay_ms=self.delay_ms)
        stage.add_message_fault(self.source, self.target, self.kind, delay)


class Reorder(WorldStep, frozen=True):
    """Send each of the next `count` messages of one kind from one node to another after the message that follows it."""

    source: str
    target: str
    kind: str
    count: int = 1

    def play(self, stage: Stage) -> None:
        """Send the next messages of this step's kind after the messages that follow them."""
        reorder = partial(stage.messages.reorder, count=self.count)
        stage.add_message_fault(self.source, self.target, self.kind, reorder)


class StopAt(WorldStep, frozen=True):
    """Kill a node at its next journal event of a type, just before or just after it writes the event."""

    node: str
    event: str
    before: bool = False

    def play(self, stage: Stage) -> None:
        """Register the kill.  The step does not wait until it happens."""
        EventStop(stage.world, stage.server(stage.node(self.node)).name, self.event, before=self.before)


class Down(WorldStep, frozen=True):
    """Wait until a node's process has ended."""

    node: str

    def play(self, stage: Stage) -> None:
        """Advance time until the node is down."""
        machine = stage.server(stage.node(self.node))
        try:
            stage.world.until(lambda: machine.process is None, PATIENCE_MS, f"the end of {machine.name}")
        except Deadlock as stuck:
            raise StepFailed(str(stuck)) from None


class Heal(WorldStep, frozen=True):
    """End all faults of links, messages and requests, or only the faults of the given nodes.

    Held and delayed messages then arrive.
    """

    nodes: tuple[str, ...] = ()

    def play(self, stage: Stage) -> None:
        """End all faults, or only the faults of the given nodes."""
        stage.heal(stage.nodes(self.nodes) or None)


class Serving(WorldStep, frozen=True):
    """Wait until there is an established leader that all other running peers follow."""

    def play(self, stage: Stage) -> None:
        """Advance time until all running peers have an established leader."""
        try:
            stage.world.until(stage.everybody_serves, PATIENCE_MS, "an ensemble that serves")
        except Deadlock as stuck:
            raise StepFailed(str(stuck)) from None


class Join(WorldStep, frozen=True):
    """Connect a client to one of `peers`."""

    client: str
    peers: tuple[int, ...] = (1, 2, 3)
    session_timeout_ms: int = 4_000
    read_only: bool = False
    """Whether the client also connects to a peer that has no leader (canBeReadOnly)."""

    def play(self, stage: Stage) -> None:
        """Wait until the client has a session."""
        stage.join(self.client, self.peers, self.session_timeout_ms, read_only=self.read_only)


class Vanish(WorldStep, frozen=True):
    """Stop a client's machine without closing its connections."""

    client: str

    def play(self, stage: Stage) -> None:
        """Stop the client's machine without closing its connections."""
        stage.vanish(self.client)


class Ask(WorldStep, frozen=True):
    """Send a client's request and wait for the result, which must be in `expect` unless `expect` is empty.

    A result is the path of a created znode, the data of a znode, `yes` or `no` for exists, `ok`, or the name of an
    error. `operations.OPERATIONS` lists the operations.
    """

    client: str
    operation: str
    path: str = ""
    data: str = ""
    expect: tuple[str, ...] = ()

    def play(self, stage: Stage) -> None:
        """Send the request and wait for the reply."""
        answer = stage.ask(self.client, self.operation, self.path, self.data)
        if self.expect and answer not in self.expect:
            raise StepFailed(f"{self.client}: {self.operation} {self.path} answered {answer!r}, not {self.expect}")


class Begin(WorldStep, frozen=True):
    """Start a client's request without waiting for the result."""

    client: str
    operation: str
    path: str = ""
    data: str = ""

    def play(self, stage: Stage) -> None:
        """Send the request without waiting for the result."""
        stage.start_operation(self.client, self.operation, self.path, self.data)


class Becomes(WorldStep, frozen=True):
    """Wait until a client's session has this state: `connected`, `connected read-only`, `suspended` or `expired`."""

    client: str
    state: str

    def play(self, stage: Stage) -> None:
        """Advance time until the client's session has the state `state`."""
        client = stage.client(self.client)
        try:
            stage.world.until(lambda: client.state.value == self.state, PATIENCE_MS, self.state)
        except Deadlock:
            raise StepFailed(f"{self.client} is {client.state.value}, not {self.state}") from None


class SessionIs(WorldStep, frozen=True):
    """Check that a client's session is `global` (in a peer's tree), `local` (known to one peer) or `unknown`."""

    client: str
    kind: str

    def play(self, stage: Stage) -> None:
        """Compare the kind of the client's session with the expected kind."""
        found = stage.kind_of_session(self.client)
        if found != self.kind:
            raise StepFailed(f"{self.client}'s session is {found}, not {self.kind}")


class Fired(WorldStep, frozen=True):
    """Check that a client's watches have fired `count` times so far."""

    client: str
    count: int

    def play(self, stage: Stage) -> None:
        """Compare the number of watch events with the expected count."""
        seen = stage.fired.get(self.client, 0)
        if seen != self.count:
            raise StepFailed(f"{self.client}'s watches fired {seen} times, not {self.count}")


class Agree(WorldStep, frozen=True):
    """Check that an operation has the same result on all peers.

    If `expect` is not empty, the result must also be equal to `expect`.
    """

    operation: str
    path: str
    expect: str = ""

    def play(self, stage: Stage) -> None:
        """For each peer, send a sync and then the request through a separate client."""
        answers = {peer: stage.ask_peer(peer, self.operation, self.path) for peer in stage.world.peers}
        first = next(iter(answers.values()))
        if any(answer != first for answer in answers.values()) or (self.expect and first != self.expect):
            raise StepFailed(f"{self.operation} {self.path}: {answers}, expected {self.expect or 'the same'}")


WorldSteps = (
    Wait | At | Kill | Restart | Pause | Resume | Cut | Split | Hold | Drop | DelayMessages | Reorder | StopAt | Down
    | Heal | Serving | Join | Vanish | Ask | Begin | Becomes | SessionIs | Fired | Agree | Disturb
)  # fmt: skip
