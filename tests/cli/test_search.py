"""`zabka search`, and `zabka replay` of the runs that the search found, executed as a user would."""

from __future__ import annotations

import gc
import shutil
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest
import typer
from typer.testing import CliRunner

from zabka.cli import replay as replay_verb
from zabka.cli import search as search_verb
from zabka.cli.explore import explore
from zabka.simulation.cluster.world import World
from zabka.simulation.engine.garbage import SEEDS_A_COLLECTION
from zabka.simulation.search.choices_file import read_choices
from zabka.simulation.search.choices_folder import held
from zabka.simulation.search.explore import Bounds, Exploration

INJECTED_BUG = "tests.simulation.injected_ensemble:leader_counts_itself_before_its_fsync"
PROTOCOL = ["--scenario", "swarm-protocol"]
SEARCH, REPLAY = typer.Typer(), typer.Typer()
SEARCH.command()(search_verb.command)
REPLAY.command()(replay_verb.command)


def search(*options: str) -> tuple[int, str]:
    found = CliRunner().invoke(SEARCH, [*PROTOCOL, *options])
    return found.exit_code, found.output


def replay(*options: str) -> tuple[int, str]:
    found = CliRunner().invoke(REPLAY, list(options))
    return found.exit_code, found.output


def test_search_without_findings_exits_0_and_can_be_resumed(tmp_path: Path) -> None:
    assert search("--runs", "20", "--out", str(tmp_path))[0] == 0
    code, output = search("--runs", "30", "--out", str(tmp_path))
    assert code == 0
    assert "30 runs" in output
    assert list((tmp_path / "kept").glob("*.json"))


def test_interrupted_search_does_not_exit_0(tmp_path: Path) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with mock.patch("zabka.simulation.search.choice_search.ChoiceSearch.record_run", interrupted):
        assert search("--runs", "20", "--out", str(tmp_path))[0] == 130
    nothing = Exploration(
        Bounds(), states=7, transitions=6, depth=2, settled=0, cut=0, turns=6, exhausted=False, steps=(), problems=[],
        cpu_s=0.0,
    )  # fmt: skip
    with mock.patch("zabka.simulation.search.explore.explore", lambda *_: nothing):
        assert explore(Bounds(), None) == 130
        assert explore(Bounds(states_max=7), None) == 0


class Finding(NamedTuple):
    code: int
    output: str
    path: Path


@pytest.fixture(scope="module")
def finding(tmp_path_factory: pytest.TempPathFactory) -> Finding:
    out = tmp_path_factory.mktemp("search")
    code, output = search("--bug", INJECTED_BUG, "--out", str(out))
    (path,) = (out / "found").glob("*.json")
    return Finding(code, output, path)


def test_search_that_finds_a_bug_exits_1_with_a_replayable_file(finding: Finding) -> None:
    code, output, path = finding
    assert code == 1
    assert f"zabka replay {path} --story" in output
    file = read_choices(path)
    assert "committed and durable only on" in file.violated[0]
    assert file.injected_bug == INJECTED_BUG
    code, output = replay(str(path), "--story")
    assert code == 1
    assert all(action in output for action in file.actions)
    assert f"violated: {file.violated[0]}" in output


def test_replayed_choices_give_the_same_journal(finding: Finding, tmp_path: Path) -> None:
    journals = [tmp_path / "first.jsonl", tmp_path / "second.jsonl"]
    for journal in journals:
        assert replay(str(finding.path), "--out", str(journal))[0] == 1
    assert journals[0].read_bytes() == journals[1].read_bytes() != b""


@pytest.mark.long
def test_search_with_two_processes_finds_the_injected_bug(tmp_path: Path) -> None:
    assert search("--bug", INJECTED_BUG, "--jobs", "2", "--out", str(tmp_path))[0] == 1


def test_invalid_search_option_is_reported_in_one_line(tmp_path: Path) -> None:
    out = ("--out", str(tmp_path))
    for options, message in (
        (("--scenario", "nonsense"), "no scenario 'nonsense' to search"),
        (("--bug", "nonsense"), "MODULE:NAME"),
        (("--set", "no.such.key=1"), "no.such.key"),
    ):
        code, output = search(*options, *out)
        assert code == 2
        assert message in output
        assert len(output.splitlines()) == 1


@pytest.mark.long
def test_long_search_frees_memory_of_finished_simulations(tmp_path: Path) -> None:
    gc.collect()
    before = _worlds()
    runs = 2 * SEEDS_A_COLLECTION + 1
    assert search("--scenario", "swarm-ensemble", "--runs", str(runs), "--out", str(tmp_path))[0] == 0
    assert _worlds() - before <= SEEDS_A_COLLECTION


def _worlds() -> int:
    return sum(isinstance(each, World) for each in gc.get_objects())


def test_search_directory_can_be_used_by_only_one_search(tmp_path: Path) -> None:
    search("--runs", "2", "--out", str(tmp_path))
    code, output = search("--runs", "2", "--seed", "7", "--out", str(tmp_path))
    assert code == 2
    assert "another --out" in output


def test_resumed_search_reports_its_earlier_finding(finding: Finding, tmp_path: Path) -> None:
    out = tmp_path / "search"
    shutil.copytree(finding.path.parents[1], out)
    path = out / "found" / finding.path.name
    code, output = search("--bug", INJECTED_BUG, "--out", str(out))
    assert code == 1
    assert f"found before, in run {int(path.stem)}: {read_choices(path).violated[0]}" in output
    assert f"zabka replay {path} --story" in output


def test_killed_search_leaves_no_partial_file(tmp_path: Path) -> None:
    """A search that is killed while it writes a file leaves no partial result file, only a temporary one.

    Readers ignore temporary files.
    """
    with mock.patch.object(Path, "replace", side_effect=KeyboardInterrupt):
        search("--runs", "5", "--out", str(tmp_path))
    assert not [*tmp_path.rglob("*.json")]


def test_damaged_search_file_is_reported_in_one_line(tmp_path: Path) -> None:
    assert search("--runs", "5", "--out", str(tmp_path))[0] == 0
    path = min((tmp_path / "kept").glob("*.json"))
    path.write_bytes(path.read_bytes()[:20])
    code, output = search("--runs", "10", "--out", str(tmp_path))
    assert code == 2
    assert str(path) in output
    assert len(output.splitlines()) == 1


def test_searches_at_the_same_time_need_different_directories(tmp_path: Path) -> None:
    with held(tmp_path):
        code, output = search("--runs", "2", "--out", str(tmp_path))
    assert code == 2
    assert "another process searches" in output


def test_replay_requires_a_seed_or_a_readable_choices_file(tmp_path: Path) -> None:
    assert replay()[0] == 2
    (tmp_path / "choices.json").write_text("{}")
    code, output = replay(str(tmp_path / "choices.json"))
    assert code == 2
    assert "choices.json" in output
