"""Each script of the outage library has the expected problem with its bug, and none without it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.simulation import injected, injected_table
from tests.simulation.injected_bugs import BUGS
from tests.simulation.injecting import InjectedBug, NotServingCode, broken
from tests.simulation.scenarios.pairs import PAIRS, Pair
from zabka.ensemble.zab.quorum import Quorum
from zabka.simulation.filesystem import volume
from zabka.simulation.scenarios.core_steps import Elect, Expect, Run, Start, Write
from zabka.simulation.scenarios.kafka_steps import Cast, Produce, Settled, Topic
from zabka.simulation.scenarios.library import LIBRARY, play
from zabka.simulation.scenarios.scenario import AnyScenario, CoreScenario, FileScenario, WorldScenario
from zabka.simulation.scenarios.world_steps import Agree, Ask, Join

ALL = (1, 2, 3)
AN_ORDINARY_START = (Start(), Elect(ALL), Run(), Write(3), Run(), Expect("log", 1, "1.1"))
CONTROLS: dict[type[AnyScenario], AnyScenario] = {
    CoreScenario: CoreScenario("control", "", "An ordinary start and a write.", steps=AN_ORDINARY_START),
    FileScenario: FileScenario("control", "", "An ordinary start and a write.", steps=AN_ORDINARY_START),
    WorldScenario: WorldScenario(
        "control",
        "",
        "An ordinary day.",
        steps=(Join("a"), Ask("a", "create", "/a", "1", ("/a",)), Agree("get", "/a", "1")),
    ),
}
WITH_BROKERS = WorldScenario(
    "control",
    "",
    "An ordinary day.",
    brokers=3,
    steps=(Cast(), Topic("orders", (("second", "third"),)), Produce("orders-0", 3, expect=("ok",)), Settled()),
)
BUGS_FILES = sorted(Path(injected.__file__).parent.rglob("injected*.py"))


def control_of(scenario: AnyScenario) -> AnyScenario:
    if isinstance(scenario, WorldScenario) and scenario.brokers:
        return WITH_BROKERS
    return CONTROLS[type(scenario)]


def names(pair: Pair) -> str:
    return f"{pair.script}-{pair.injected_bug.replace(' ', '_')}"


@pytest.mark.parametrize("pair", PAIRS, ids=names)
def test_script_detects_its_injected_bug_as_expected(pair: Pair) -> None:
    """A script reports its bug with the expected string.

    The script passes without the bug, and a normal cluster start passes with the bug, so the failure is due to the
    script's steps.
    """
    script = LIBRARY[pair.script]
    assert play(script).problems == []
    with BUGS[pair.injected_bug]():
        assert play(control_of(script)).problems == []
        problems = play(script).problems
    assert any(pair.shows in problem for problem in problems), problems


@pytest.mark.parametrize("name", LIBRARY)
def test_every_script_detects_its_injected_bug(name: str) -> None:
    script = LIBRARY[name]
    by_itself = isinstance(script, WorldScenario) and script.shows
    assert by_itself or any(pair.script == name for pair in PAIRS)


@pytest.mark.parametrize("name", BUGS)
def test_injected_bug_has_expected_messages_and_can_be_applied(name: str) -> None:
    assert BUGS[name].shows and all(BUGS[name].shows)
    with BUGS[name]():
        pass


@pytest.mark.parametrize("path", BUGS_FILES, ids=lambda path: path.stem)
def test_injected_bugs_patch_code_only_through_the_broken_helper(path: Path) -> None:
    tree = ast.parse(path.read_text())
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    if path.stem != "injected_table":
        assert [name for name in imported if name.startswith(("zabka.simulation", "unittest"))] == []
    assert "setattr(" not in path.read_text()


def test_injected_bug_cannot_change_the_simulator() -> None:
    with pytest.raises(NotServingCode), broken(volume.Volume, lose_power=lambda self: None):
        pass
    with pytest.raises(NotServingCode), broken(volume, SYNC_US_MAX=1):
        pass


def test_injected_bug_in_a_missing_method_is_rejected() -> None:
    with pytest.raises(AttributeError), broken(Quorum, no_such_rule=lambda self: None):
        pass


def test_unrelated_problems_do_not_count_as_detecting_a_bug() -> None:
    injected_bug = InjectedBug(injected.commit_on_a_minority, ("durable only on",))
    assert injected_bug.shown(["liveness: nobody leads"]) is None
    assert injected_bug.shown(["liveness: nobody leads", "committed and durable only on [3]"]) is not None


@pytest.mark.parametrize("bug", injected_table.RARE)
def test_bug_that_seeds_rarely_detect_has_a_script(bug: str) -> None:
    assert Pair(injected_table.RARE[bug], bug, injected_table.text_in_script(bug)) in PAIRS


def test_each_of_three_log_reading_bugs_is_detected_by_a_script() -> None:
    """Three bugs in how logs are read have three scripts, and each script fails only with its own bug."""
    with BUGS["the log is read by its numbers"]():
        for script in ("diff-over-bit-rot", "position-behind-a-truncation"):
            assert play(LIBRARY[script]).problems == []
