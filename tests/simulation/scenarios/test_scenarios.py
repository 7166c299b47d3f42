"""The outage library: the script of each outage of ZooKeeper and similar systems passes without problems."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from zabka.cli import outage_library as cli
from zabka.simulation.scenarios.core_steps import Expect, Start
from zabka.simulation.scenarios.decisive import decisive
from zabka.simulation.scenarios.file_steps import Purge
from zabka.simulation.scenarios.library import LIBRARY, configured, play
from zabka.simulation.scenarios.scenario import CoreScenario, WorldScenario, read_scenario, write_scenario
from zabka.simulation.settings import BadSetting
from zabka.testing.live.running import running_obstacle
from zabka.testing.live.scenarios import LivePlayer

SERIOUS_BUGS = [
    1549, 1558, 4837, 1675, 2136, 3600, 2845, 3104, 3642, 5094, 3911, 3023, 4646, 4643, 4685, 4394, 4785, 4712, 4925,
    4882, 3526, 4352, 2846, 2418, 1154, 1653, 1732, 1805, 1277, 1367, 2355, 3144, 3145, 3127, 3701, 3109, 710, 706,
    4846, 5010, 116690,
]  # fmt: skip


@pytest.mark.parametrize("name", LIBRARY)
def test_scenario_has_no_problem_and_a_decisive_event(name: str) -> None:
    """The decisive event of each script comes after its processes have started."""
    verdict = play(LIBRARY[name])
    assert verdict.problems == []
    found = decisive(LIBRARY[name], verdict)
    assert found.played is not None and found.played > verdict.taken[1].entries
    if verdict.shown is not None:
        assert found.outage is not None and found.outage > verdict.shown.taken[1].entries


def test_every_serious_bug_has_a_scenario() -> None:
    known = " ".join(f"{scenario.name} {scenario.source}" for scenario in LIBRARY.values())
    words = set(known.replace(",", " ").replace("-", " ").split())
    assert [bug for bug in SERIOUS_BUGS if str(bug) not in words] == []


@pytest.mark.parametrize("name", ["zookeeper-4712", "diff-over-a-purge", "zookeeper-710"])
def test_scenario_file_is_read_back_as_the_same_scenario(name: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    write_scenario(LIBRARY[name], path)
    assert read_scenario(path) == LIBRARY[name]
    first, second = play(LIBRARY[name]), play(read_scenario(path))
    assert list(first.lines()) == list(second.lines()) != []


def test_scenarios_command_lists_and_runs_the_library(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.list_all(True, LivePlayer(), running_obstacle) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(listed) == list(LIBRARY)
    assert listed["kafka-6082"]["switches"] == ["unfenced-controller"] and listed["kafka-6082"]["live"]
    assert "real processes" in listed["zookeeper-1549"]["live_obstacle"]
    assert listed["zookeeper-1549"]["running_obstacle"] and not listed["leader-killed"]["running_obstacle"]
    out = tmp_path / "journal.jsonl"
    assert cli.run(["zookeeper-1549", "keeper-116690"], None, cli.PlayOptions(out=out)) == 0
    assert "2 scenarios, 0 with violations" in capsys.readouterr().out
    assert out.read_bytes().count(b"\n") > 50


def test_json_report_of_a_run_has_story_and_replay_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["kafka-708"], None, cli.PlayOptions(7, ("tickTime=500",), as_json=True)) == 0
    [found] = json.loads(capsys.readouterr().out)["runs"]
    assert (found["held"], found["seed"], found["played"]["problems"]) == (True, 7, [])
    assert found["replay"] == "zabka scenarios run kafka-708 --seed 7 --set tickTime=500"
    assert any("LeaderInIsr" in problem for problem in found["outage"]["problems"])
    lines = found["outage"]["story"]
    assert [line["at_ms"] for line in lines] == sorted(line["at_ms"] for line in lines)
    kills = [line["text"] for line in lines if line["who"] == "script" and line["text"].startswith("kill ")]
    assert kills and all("(broker-" in text for text in kills), "the parts are told with who plays them"
    assert any(line["who"].startswith("broker-") and "is controller" in line["text"] for line in lines)


def test_json_report_of_a_run_has_the_hash_of_its_journal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "journal.jsonl"
    assert cli.run(["zookeeper-1549"], None, cli.PlayOptions(as_json=True, out=out)) == 0
    [found] = json.loads(capsys.readouterr().out)["runs"]
    assert found["played"]["journal_sha256"] == sha256(out.read_bytes()).hexdigest()
    assert found["outage"] is None and found["seed"] is None, "over the bare protocol nothing is left to a seed"


def test_valid_settings_override_the_settings_of_a_script() -> None:
    bug = "unclean.leader.election.enable=true"
    with_bug = configured(LIBRARY["jepsen-2013"], [bug, "tickTime=250"])
    assert isinstance(with_bug, WorldScenario)
    assert (with_bug.keys["unclean.leader.election.enable"], with_bug.peer_keys["tickTime"]) == ("true", "250")
    for name, setting in (("zookeeper-1549", bug), ("kafka-708", "peers=5"), ("kafka-708", "no.such.key=1")):
        with pytest.raises(BadSetting):
            configured(LIBRARY[name], [setting])


def test_disk_file_step_fails_in_a_script_without_files() -> None:
    played = play(CoreScenario("wrong", "", "There are files.", steps=(Start(), Purge(1))))
    assert played.problems == ["step 2 (Purge): this script's disks are no files"]


def test_failed_scenario_exits_1_and_prints_its_replay_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "wrong.json"
    write_scenario(CoreScenario("wrong", "", "Nobody holds anything.", steps=(Start(), Expect("log", 1, "1.1"))), path)
    assert cli.run([str(path)], None) == 1
    said = capsys.readouterr().out
    assert "log of 1 is '', the script expects '1.1'" in said and "replay: zabka scenarios run" in said


@pytest.mark.parametrize(
    ("driver", "step", "said"),
    [
        ("cores", '"type":"Expect","what":"tree","peer":1', "1 is down"),
        ("cores", '"type":"Deliver","source":1,"target":2,"link":-1', "nothing is under way"),
        ("files", '"type":"Rot","peer":1,"zxid":"abc"', "'abc' is no zxid"),
        ("files", '"type":"LoseNewestLog","peer":1', "1 has no log"),
        ("files", '"type":"SpoilSnapshot","peer":1', "1 is down"),
    ],
)
def test_impossible_step_is_reported_with_its_reason(
    driver: str, step: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(f'{{"driver":"{driver}","name":"a","title":"","hypothesis":"","steps":[{{{step}}}]}}')
    assert cli.run([str(path)], None) == 1
    assert "step 1" in (told := capsys.readouterr().out) and said in told


def test_script_without_peers_is_rejected(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text('{"driver":"cores","name":"a","title":"","hypothesis":"","peers":0}')
    assert cli.run([str(path)], None) == 2
    assert "there must be a peer" in capsys.readouterr().err


@pytest.mark.parametrize(
    "step", ['{"type":"GiveUp","peer":9}', '{"type":"Elect","peers":[1,2,0]}', '{"type":"Expect","what":"log"}']
)
def test_script_with_an_unknown_peer_is_rejected(step: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    head = '{"driver":"cores","name":"a","title":"","hypothesis":"","steps":[{"type":"Start"},'
    path.write_text(f"{head}{step}]}}")
    assert cli.run([str(path)], None) == 2
    assert "step 2 names peer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "live", "said"),
    [
        ("no-such", False, "no scenario"),
        ("gone.json", False, "holds no scenario"),
        ("zookeeper-1549", True, "run it --simulated"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line(
    name: str, live: bool, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([name], LivePlayer() if live else None) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1
