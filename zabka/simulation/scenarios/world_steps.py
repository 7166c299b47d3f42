"""Steps of a script over a whole simulated cluster (`ClusterWorld`), as values that can be written to a file.

Nodes are named as in the journal (`peer-1`, `broker-2`), or as `Stage.node` has it; a client's machine is `client-` and
its name.  A step that
asks something waits for the answer, in virtual time.
"""

from __future__ import annotations

import msgspec

from zabka.simulation.kernel.scheduler import Deadlock
from zabka.simulation.scenarios.stage import Stage
from zabka.simulation.scenarios.step import StepFailed

PATIENCE_MS = 60_000


class WorldStep(msgspec.Struct, frozen=True, tag=True):
    """One step: its `play` takes it, and raises StepFailed where that cannot be."""


class Wait(WorldStep, frozen=True):
    """Time passes."""

    ms: int

    def play(self, stage: Stage) -> None:
        """Let that much virtual time pass."""
        stage.world.run(self.ms)


class Kill(WorldStep, frozen=True):
    """SIGKILL nodes, or cut their power."""

    nodes: tuple[str, ...]
    power_loss: bool = False

    def play(self, stage: Stage) -> None:
        """Kill all of them at the same moment."""
        for node in stage.nodes(self.nodes):
            stage.kill(node, power_loss=self.power_loss)


class Restart(WorldStep, frozen=True):
    """Start nodes that are down; all of them, if none is named."""

    nodes: tuple[str, ...] = ()

    def play(self, stage: Stage) -> None:
        """Boot every one that is named and down."""
        for node in stage.nodes(self.nodes) or [machine.name for machine in stage.world.servers()]:
            stage.server(node).switch_on()


class Pause(WorldStep, frozen=True):
    """SIGSTOP."""

    node: str

    def play(self, stage: Stage) -> None:
        """Stop the node's process."""
        stage.pause(stage.node(self.node))


class Resume(WorldStep, frozen=True):
    """SIGCONT."""

    node: str

    def play(self, stage: Stage) -> None:
        """Let the node's process go on."""
        stage.server(stage.node(self.node)).resume()


class Cut(WorldStep, frozen=True):
    """Nothing passes between one node (or client's machine) and others, until `Heal`."""

    node: str
    others: tuple[str, ...]
    both_ways: bool = True

    def play(self, stage: Stage) -> None:
        """Cut the link to each of the others."""
        node = stage.node(self.node)
        for other in stage.nodes(self.others, but=node):
            stage.heals.append(((node, other), stage.world.cut(node, other, both_ways=self.both_ways)))


class Heal(WorldStep, frozen=True):
    """Every cut or slow link is whole again, or those of these nodes alone; what waited there arrives."""

    nodes: tuple[str, ...] = ()

    def play(self, stage: Stage) -> None:
        """End every fault of these links."""
        stage.heal(stage.nodes(self.nodes) or None)


class Serving(WorldStep, frozen=True):
    """Wait until somebody leads, and everybody who runs serves."""

    def play(self, stage: Stage) -> None:
        """Let time pass until everybody serves."""
        try:
            stage.world.until(stage.everybody_serves, PATIENCE_MS, "an ensemble that serves")
        except Deadlock as stuck:
            raise StepFailed(str(stuck)) from None


class Join(WorldStep, frozen=True):
    """A client connects, to these peers and no others."""

    client: str
    peers: tuple[int, ...] = (1, 2, 3)
    session_timeout_ms: int = 4_000
    read_only: bool = False
    """Is it content with a server that has no leader (canBeReadOnly)?"""

    def play(self, stage: Stage) -> None:
        """Wait until it has its session."""
        stage.join(self.client, self.peers, self.session_timeout_ms, read_only=self.read_only)


class Vanish(WorldStep, frozen=True):
    """A client's machine dies without a word."""

    client: str

    def play(self, stage: Stage) -> None:
        """Stop its process; no connection is closed."""
        stage.vanish(self.client)


class Ask(WorldStep, frozen=True):
    """A client asks, and gets one of the answers in `expect` (any, if there are none): a path made, data read, `yes` or
    `no` for exists, `ok`, or an error's name.  See `operations.OPERATIONS` for the operations."""

    client: str
    operation: str
    path: str = ""
    data: str = ""
    expect: tuple[str, ...] = ()

    def play(self, stage: Stage) -> None:
        """Wait for the answer."""
        answer = stage.ask(self.client, self.operation, self.path, self.data)
        if self.expect and answer not in self.expect:
            raise StepFailed(f"{self.client}: {self.operation} {self.path} answered {answer!r}, not {self.expect}")


class Begin(WorldStep, frozen=True):
    """A client asks, and nobody waits for the answer."""

    client: str
    operation: str
    path: str = ""
    data: str = ""

    def play(self, stage: Stage) -> None:
        """Send the request, and go on."""
        stage.start_operation(self.client, self.operation, self.path, self.data)


class Becomes(WorldStep, frozen=True):
    """Wait until a client's session stands so: `connected`, `connected read-only`, `suspended`, `expired`."""

    client: str
    state: str

    def play(self, stage: Stage) -> None:
        """Let time pass until the session stands so."""
        client = stage.client(self.client)
        try:
            stage.world.until(lambda: client.state.value == self.state, PATIENCE_MS, self.state)
        except Deadlock:
            raise StepFailed(f"{self.client} is {client.state.value}, not {self.state}") from None


class SessionIs(WorldStep, frozen=True):
    """Who knows a client's session: `global` where a peer's tree does, `local` where the server alone does that it is
    on, else `unknown`."""

    client: str
    kind: str

    def play(self, stage: Stage) -> None:
        """Compare the kind that is found with the one that is expected."""
        found = stage.kind_of_session(self.client)
        if found != self.kind:
            raise StepFailed(f"{self.client}'s session is {found}, not {self.kind}")


class Fired(WorldStep, frozen=True):
    """A client's watches have fired `count` times so far."""

    client: str
    count: int

    def play(self, stage: Stage) -> None:
        """Compare the count with the one that is expected."""
        seen = stage.fired.get(self.client, 0)
        if seen != self.count:
            raise StepFailed(f"{self.client}'s watches fired {seen} times, not {self.count}")


class Agree(WorldStep, frozen=True):
    """Every peer answers this the same, and as `expect` says if it does."""

    operation: str
    path: str
    expect: str = ""

    def play(self, stage: Stage) -> None:
        """Ask each peer with a client of its own, behind a sync."""
        answers = {peer: stage.ask_peer(peer, self.operation, self.path) for peer in stage.world.peers}
        first = next(iter(answers.values()))
        if any(answer != first for answer in answers.values()) or (self.expect and first != self.expect):
            raise StepFailed(f"{self.operation} {self.path}: {answers}, expected {self.expect or 'the same'}")


WorldSteps = (
    Wait | Kill | Restart | Pause | Resume | Cut | Heal | Serving | Join | Vanish | Ask | Begin | Becomes | SessionIs
    | Fired | Agree
)  # fmt: skip
