"""The outage library: what went wrong in ZooKeeper and its kin holds here, and each script would show if it did not."""

from __future__ import annotations

from pathlib import Path

import planted
import planted_ensemble
import pytest

from compose.live_scenarios import LivePlayer
from simulation.scenarios import cli
from simulation.scenarios.core_steps import Expect, Start
from simulation.scenarios.library import LIBRARY, play
from simulation.scenarios.scenario import CoreScenario, read_scenario, write_scenario

SERIOUS_BUGS = [
    1549, 1558, 4837, 1675, 2136, 3600, 2845, 3104, 3642, 5094, 3911, 3023, 4646, 4643, 4685, 4394, 4785, 4712, 4925,
    4882, 3526, 4352, 2846, 2418, 1154, 1653, 1732, 1805, 1277, 1367, 2355, 3144, 3145, 3127, 3701, 3109, 710, 706,
    4846, 5010, 116690,
]  # fmt: skip
PLANTED = {**planted.PLANTED, **planted_ensemble.PLANTED}
SHOWN_BY = [
    ("zookeeper-1549", "commit on a minority"),
    ("zookeeper-1675", "sync answered by the leader alone"),
    ("ahead-of-its-leader", "who comes back ahead is cut back"),
    ("zookeeper-2845", "votes with what memory knows"),
    ("zookeeper-1154", "zxids go on across epochs"),
    ("zookeeper-3911", "established without a quorum"),
    ("zookeeper-4646", "NEWLEADER acknowledged before the epoch"),
    ("zookeeper-3104", "NEWLEADER acknowledged before the history"),
    ("zookeeper-1653", "NEWLEADER acknowledged before the history"),
    ("zookeeper-4785", "NEWLEADER acknowledged before the history"),
    ("zookeeper-4685", "leader counts itself before its fsync"),
    ("zookeeper-5094", "no truncation on sync"),
    ("zookeeper-3701", "no truncation on sync"),
    ("zookeeper-trunc-fsync", "no truncation on sync"),
    ("zookeeper-1277", "epochs do not rise"),
    ("zookeeper-3109", "votes are sent once"),
    ("zookeeper-1367", "closed sessions keep their ephemerals"),
    ("zookeeper-3144", "ephemerals forgotten in snapshots"),
    ("zookeeper-710", "session owner not checked"),
    ("zookeeper-706", "watches lost on reconnection"),
    ("keeper-116690", "closed sessions keep their ephemerals"),
]


@pytest.mark.parametrize("name", LIBRARY)
def test_a_scenario_holds(name: str) -> None:
    assert play(LIBRARY[name]).problems == []


def test_every_serious_bug_has_its_scenario() -> None:
    known = " ".join(f"{scenario.name} {scenario.source}" for scenario in LIBRARY.values())
    words = set(known.replace(",", " ").replace("-", " ").split())
    assert [bug for bug in SERIOUS_BUGS if str(bug) not in words] == []


@pytest.mark.parametrize(("name", "bug"), SHOWN_BY)
def test_a_scenario_shows_the_bug_it_is_about(name: str, bug: str) -> None:
    with PLANTED[bug]():
        assert not play(LIBRARY[name]).held


@pytest.mark.parametrize("name", ["zookeeper-4712", "zookeeper-710"])
def test_a_scenario_is_the_same_out_of_its_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    write_scenario(LIBRARY[name], path)
    assert read_scenario(path) == LIBRARY[name]
    first, second = play(LIBRARY[name]), play(read_scenario(path))
    assert list(first.lines()) == list(second.lines()) != []


def test_the_library_is_listed_and_played(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.list_all(True, LivePlayer()) == 0
    assert '"zookeeper-1549"' in capsys.readouterr().out
    out = tmp_path / "journal.jsonl"
    assert cli.run(["zookeeper-1549", "keeper-116690"], None, out) == 0
    assert "2 scenarios, 0 with violations" in capsys.readouterr().out
    assert out.read_bytes().count(b"\n") > 50


def test_what_does_not_hold_exits_with_one_and_says_how_to_see_it_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "wrong.json"
    write_scenario(CoreScenario("wrong", "", "Nobody holds anything.", steps=(Start(), Expect("log", 1, "1.1"))), path)
    assert cli.run([str(path)], None, None) == 1
    said = capsys.readouterr().out
    assert "log of 1 is '', the script expects '1.1'" in said and "replay: zabka scenarios run" in said


@pytest.mark.parametrize(
    ("name", "live", "said"),
    [
        ("no-such", False, "no scenario"),
        ("gone.json", False, "holds no scenario"),
        ("zookeeper-1549", True, "run it --simulated"),
    ],
)
def test_bad_arguments_get_one_clear_line(name: str, live: bool, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([name], LivePlayer() if live else None, None) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1
