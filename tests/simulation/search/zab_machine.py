"""Hypothesis state machine of the protocol core. It shrinks a violation, and saves it as a scenario."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from zabka.simulation.scenarios.core_player import recover
from zabka.simulation.scenarios.core_steps import Break, CoreSteps, GiveUp, Run, Start, Write
from zabka.simulation.scenarios.scenario import CoreScenario, write_scenario
from zabka.simulation.scenarios.step import StepFailed
from zabka.simulation.search.explore_steps import crashes, elections, ordinary_steps, patient, restarts, serving
from zabka.simulation.steps.bare_ensemble import BareEnsemble

CHOICES = st.integers(0, 30)


class ZabMachine(RuleBasedStateMachine):
    """Executes any possible step at any time.

    At the end all faults are healed, and the ensemble must recover.
    """

    peers = 3
    save_to: Path = Path(".hypothesis") / "zab-failure.json"

    def __init__(self) -> None:
        super().__init__()
        self.cores = BareEnsemble(self.peers)
        self.steps: list[CoreSteps] = []
        self.take(Start())

    def take(self, step: CoreSteps) -> None:
        """Execute one step, and check the invariants."""
        try:
            step.play(self.cores)
        except StepFailed:
            return  # these peers cannot elect a leader; keep the attempt as a step
        self.steps.append(step)
        self.check(self.cores.problems)

    def check(self, problems: list[str]) -> None:
        """If there are problems, save the run and fail.

        The last saved run is the smallest, because Hypothesis executes the shrunk run last.
        """
        if problems:
            found = CoreScenario("found", "Found by the state machine", problems[0], steps=tuple(self.steps))
            self.save_to.parent.mkdir(exist_ok=True)
            write_scenario(found, self.save_to)
        assert problems == []

    def take_one_of(self, steps: list[CoreSteps], choice: int) -> None:
        if steps:
            self.take(steps[choice % len(steps)])

    @rule(choice=CHOICES)
    def something_arrives(self, choice: int) -> None:
        self.take_one_of(list(ordinary_steps(self.cores)), choice)

    @rule()
    def everything_arrives(self) -> None:
        self.take(Run())

    @rule(choice=CHOICES)
    def some_elect(self, choice: int) -> None:
        self.take_one_of(list(elections(self.cores)), choice)

    @precondition(lambda self: any(serving(self.cores)))
    @rule(choice=CHOICES)
    def a_client_writes(self, choice: int) -> None:
        self.take_one_of([Write(peer) for peer in serving(self.cores)], choice)

    @rule(choice=CHOICES)
    def one_crashes(self, choice: int) -> None:
        self.take_one_of(list(crashes(self.cores)), choice)

    @rule(choice=CHOICES)
    def one_restarts(self, choice: int) -> None:
        self.take_one_of(list(restarts(self.cores)), choice)

    @rule(choice=CHOICES)
    def a_link_breaks(self, choice: int) -> None:
        pairs = [(one, other) for one in self.cores.voters for other in self.cores.voters if one < other]
        self.take(Break(*pairs[choice % len(pairs)]))

    @rule(choice=CHOICES)
    def one_gives_up(self, choice: int) -> None:
        self.take_one_of([GiveUp(peer) for peer in patient(self.cores)], choice)

    def teardown(self) -> None:
        """Heal all faults, and check that the ensemble recovers."""
        if not self.cores.problems:
            self.check(recover(self.cores))
