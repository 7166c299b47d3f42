"""Audits on Spark find the same violations as the checkers did during the runs.

Some of the runs are correct, and the others have injected bugs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.simulation import injected, injected_ensemble
from tests.simulation.injecting import InjectedBug
from zabka.journal import events as e
from zabka.journal.checkers.cause_chains import broken_chains
from zabka.journal.checkers.invariants import Violation
from zabka.journal.events import Entry
from zabka.journal.reader import BadLine, read_file
from zabka.journal.sentence_file import read_sentences
from zabka.journal.writer import encode_line
from zabka.pipeline import places, versions
from zabka.pipeline.audits.checking import check_history
from zabka.pipeline.audits.histories import History, histories, in_order, lines_of, replay_command
from zabka.pipeline.audits.jobs import INVARIANTS, SHARE_BYTES, _shares, audit, audit_rows, own_place, rows
from zabka.pipeline.entries import ENTRIES
from zabka.pipeline.ranges import FileRange, batches, read_range
from zabka.simulation.run import SCENARIOS
from zabka.simulation.seeds.seed_run import SeedRun
from zabka.simulation.settings import world_settings

CLEAN = [("ensemble", 1, None), ("ensemble", 3, None), ("chaos", 7, None)]
BROKEN = [
    ("ensemble", 20, "established without a quorum"),
    ("ensemble", 20, "replay of what the snapshot holds"),
    ("ensemble", 22, "snapshots of what is not committed"),
    ("chaos", 20, "commit on a minority"),
]
"""For each injected bug, a seed in which it has an effect.

Without an effect, the run would be equal to the correct run, and equal runs count once.
"""
INJECTED: dict[str, InjectedBug] = {**injected.INJECTED, **injected_ensemble.INJECTED}


class Written(NamedTuple):
    """Directory with journals, and the violations found during each run, keyed by journal name."""

    directory: Path
    found: dict[str, list[Violation]]


def play(
    scenario: str, seed: int, bug: str | None, directory: Path, fault_ms: int = 12_000
) -> tuple[str, list[Violation]]:
    settings = world_settings([f"faults.ms={fault_ms}"])
    with INJECTED[bug]() if bug else nullcontext():
        run = SeedRun(seed, SCENARIOS[scenario], settings)
        run.execute()
    name = f"{scenario}-seed-{seed}.jsonl" if bug is None else f"{bug.replace(' ', '-')}-{seed}.jsonl"
    with (directory / name).open("wb") as file:
        file.writelines(run.world.record.lines())
    return name, [*run.world.record.violations, *broken_chains(run.world.record.entries)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    directory = tmp_path_factory.mktemp("histories")
    return Written(directory, dict(play(*one, directory) for one in [*CLEAN, *BROKEN]))


@pytest.fixture(scope="module")
def audited(written: Written, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    out = tmp_path_factory.mktemp("audited")
    checked: list[int] = []
    violations = audit(spark, histories(written.directory), out, checked.append)
    assert checked == list(range(1, len(written.found) + 1))
    table: list[dict[str, Any]] = pq.read_table(out / "audits").to_pylist()
    assert violations == sum(row["verdict"] == "violated" for row in table)
    return table


def key(found: Violation) -> tuple[str, str, str, int, int]:
    return found.invariant, found.detail, found.node, found.node_seq, found.mono_us


def violations_by_run(audited: list[dict[str, Any]]) -> dict[str, list[tuple[Any, ...]]]:
    """Return the violations in an audit's result, keyed by run."""
    found: dict[str, list[tuple[Any, ...]]] = {row["run"]: [] for row in audited}
    for row in audited:
        if row["verdict"] == "violated":
            found[row["run"]].append((row["invariant"], row["detail"], row["node"], row["node_seq"], row["at_us"]))
    return {name: sorted(violations) for name, violations in found.items()}


def test_audit_verdicts_equal_those_of_the_checkers_in_the_run(written: Written, audited: list[dict[str, Any]]) -> None:
    assert violations_by_run(audited) == {name: sorted(map(key, found)) for name, found in written.found.items()}


def test_verdicts_for_a_uri_equal_the_verdicts_for_its_files(
    written: Written, audited: list[dict[str, Any]], spark: SparkSession, tmp_path: Path
) -> None:
    with versions.locked(own_place(tmp_path)):
        audit_rows(places.batch(spark, places.place_of(f"file://{written.directory}"), ",".join(ENTRIES)), tmp_path)
    found = pq.read_table(tmp_path / "audits").to_pylist()
    assert sorted(found, key=str) == sorted(audited, key=str)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_verdicts_for_1000_runs_equal_those_of_their_checkers(spark: SparkSession, tmp_path: Path) -> None:
    journals = tmp_path / "journals"
    journals.mkdir()
    online: dict[str, list[tuple[Any, ...]]] = {}
    runs = [("ensemble", seed, None) for seed in range(1, 441)] + [("chaos", seed, None) for seed in range(1, 401)]
    # Use different seeds for each bug. If a bug has no effect in a seed, its run is equal to the run without the bug,
    # and equal runs count once.
    buggy_runs = [
        (scenario, seed, bug)
        for first, (scenario, _, bug) in zip(range(1001, 1161, 40), BROKEN, strict=True)
        for seed in range(first, first + 40)
    ]
    for scenario, seed, bug in [*runs, *buggy_runs]:
        name, violations = play(scenario, seed, bug, journals, 12_000 if scenario == "ensemble" else 4_000)
        online[name] = sorted(map(key, violations))
    assert len(online) == 1000
    assert not [name for name, violations in online.items() if violations and "-seed-" in name]
    shown = {bug: sum(bool(online[f"{bug.replace(' ', '-')}-{seed}.jsonl"]) for _, seed, own in buggy_runs
                      if own == bug) for _, _, bug in BROKEN if bug}  # fmt: skip
    assert all(shown.values()), shown
    with versions.locked(own_place(tmp_path)):
        audit(spark, histories(journals), tmp_path)
    assert violations_by_run(pq.read_table(tmp_path / "audits").to_pylist()) == online


def test_injected_bugs_are_detected_and_clean_runs_pass(written: Written, audited: list[dict[str, Any]]) -> None:
    broken = {row["run"] for row in audited if row["verdict"] == "violated"}
    assert {name for name in broken if "-seed-" not in name} == {name for name in written.found if "-seed-" not in name}
    assert not [name for name in broken if "-seed-" in name]


def test_every_run_has_a_verdict_for_every_invariant(written: Written, audited: list[dict[str, Any]]) -> None:
    checked = {(row["run"], row["invariant"]) for row in audited}
    assert checked == {(name, invariant) for name in written.found for invariant in INVARIANTS}


def test_invariant_without_events_is_not_checked(audited: list[dict[str, Any]]) -> None:
    alone = [row for row in audited if row["run"].startswith("ensemble-seed-")]
    of_records = [row for row in alone if row["invariant"] == "committed and acks=all records survive"]
    assert {row["verdict"] for row in of_records} == {"not_checked"}
    assert {row["full"] for row in alone} == {True}


def test_violation_lists_its_chain_of_causes(audited: list[dict[str, Any]]) -> None:
    for row in audited:
        if row["verdict"] == "violated":
            assert row["chain"][0].startswith(f"{row['node']}#{row['node_seq']} ")
            assert row["chain"][-1].startswith("begins with: ")


def test_audited_run_is_listed_with_its_replay_command(audited: list[dict[str, Any]]) -> None:
    commands = {row["run"]: row["command"] for row in audited}
    assert commands["ensemble-seed-3.jsonl"] == "zabka replay --seed 3 --scenario ensemble"
    assert commands["chaos-seed-7.jsonl"] == "zabka replay --seed 7"
    assert commands["commit-on-a-minority-20.jsonl"] is None


def test_replay_command_is_read_from_the_command_file(tmp_path: Path) -> None:
    journal = tmp_path / "any.jsonl"
    journal.touch()
    assert replay_command(journal) is None
    (tmp_path / "any.jsonl.command").write_text("zabka replay --seed 9 --set tickTime=250\n")
    assert replay_command(journal) == "zabka replay --seed 9 --set tickTime=250"


def test_renamed_simulated_run_keeps_its_order_in_a_lake() -> None:
    """The second journal of a simulated run keeps its order in a lake, although it was renamed.

    The stream renames this journal to `seed-7.jsonl~2`. Sorted by their timestamps, its two lines would be reversed.
    """
    entries = [Entry("peer-2", 1, 2_000, 2_000, e.NodeStopped("")), Entry("peer-1", 1, 1_000, 1_000, e.NodeStopped(""))]
    assert list(in_order("seed-7.jsonl~2", iter(entries))) == entries
    assert list(in_order("live~2", iter(entries))) == entries[::-1]


def test_invalid_lines_are_counted_and_the_rest_is_audited(written: Written, tmp_path: Path) -> None:
    source = (written.directory / "ensemble-seed-1.jsonl").read_bytes()
    (tmp_path / "seed-1.jsonl").write_bytes(b'{"node":1}\n' + source + b"\xff\n" + b'{"type":"torn')
    (history,) = histories(tmp_path)
    assert {row[-1] for row in rows(history)} == {2}
    assert {row[2] for row in rows(history)} == {"held", "not_checked"}


@pytest.mark.parametrize("strange", ['"seq":"x"', f'"of_a_newer_version":{10**30}'])
def test_line_rejected_only_by_the_journal_reader_is_quarantined(tmp_path: Path, strange: str) -> None:
    whole = encode_line("broker-1", 1, 1, 1, e.NodeStopped("shutdown"))
    path = tmp_path / "seed-1.jsonl"
    path.write_bytes(whole.replace(b"{", b"{" + strange.encode() + b",", 1) + whole)
    table = pa.Table.from_batches(batches(read_range(FileRange(path.name, str(path), 0, path.stat().st_size))))
    assert table["problem"].null_count == 2
    of_files: list[BadLine] = []
    of_rows: list[BadLine] = []
    assert list(lines_of(table, of_rows)) == list(read_file(path, of_files))
    assert [bad.reason for bad in of_rows] == [bad.reason for bad in of_files]


def test_invariants_of_an_empty_history_are_not_checked(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    (history,) = histories(tmp_path)
    assert {row[2] for row in rows(history)} == {"not_checked"}


def test_histories_are_grouped_by_size_and_never_split() -> None:
    runs = [History(str(size), (), size * SHARE_BYTES // 10, None) for size in (1, 25, 4, 4, 4, 1)]
    shares = [[json.loads(encoded)["run"] for encoded in share] for share in _shares(runs)]
    assert shares == [["25"], ["4", "4"], ["4", "1", "1"]]


def test_audit_cost_is_linear_in_the_number_of_events(written: Written) -> None:
    from zabka.journal.reader import read_file

    entries = list(read_file(written.directory / "chaos-seed-7.jsonl"))
    calls: list[int] = []
    for share in (4, 1):
        count = [0]
        sys.setprofile(lambda frame, event, argument, count=count: count.__setitem__(0, count[0] + (event == "call")))
        try:
            check_history(entries[: len(entries) // share], read_sentences())
        finally:
            sys.setprofile(None)
        calls.append(count[0])
    # The second history has four times as many events. If each event needed a pass over all earlier ones, there would
    # be nearly sixteen times as many calls.
    assert calls[1] / calls[0] < 7


def test_directory_that_is_no_table_is_not_replaced_by_the_audit(tmp_path: Path) -> None:
    from zabka.cli.audit import audited as command

    (tmp_path / "seed-1.jsonl").touch()
    (tmp_path / "audits").mkdir()
    (tmp_path / "audits" / "mine.txt").write_text("mine")
    assert command(tmp_path, tmp_path, "local[1]") == 2
    assert (tmp_path / "audits" / "mine.txt").read_text() == "mine"


def test_audits_exclude_each_other_but_run_beside_a_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from zabka.cli.audit import audited as command

    (tmp_path / "seed-1.jsonl").touch()
    with versions.locked(own_place(tmp_path)):
        assert command(tmp_path, tmp_path, "local[1]") == 2
    assert "another job writes to" in capsys.readouterr().err
    with versions.locked(tmp_path), versions.locked(own_place(tmp_path)):
        pass


def test_readers_keep_the_previous_version_during_a_new_audit(
    written: Written, audited: list[dict[str, Any]], spark: SparkSession, tmp_path: Path
) -> None:
    (history,) = histories(written.directory / "ensemble-seed-1.jsonl")
    with versions.locked(own_place(tmp_path)):
        audit(spark, [history], tmp_path)
        before = (tmp_path / "audits").resolve()
        audit(spark, [history], tmp_path)
    assert before.is_dir() and before != (tmp_path / "audits").resolve()
    assert pq.read_table(before).num_rows == pq.read_table(tmp_path / "audits").num_rows == len(INVARIANTS)


@pytest.mark.timeout(600)
@pytest.mark.long
def test_audit_command_prints_each_violation_and_exits_1(written: Written, tmp_path: Path) -> None:
    shutil.copy(written.directory / "established-without-a-quorum-20.jsonl", tmp_path / "seed-1.jsonl")
    done = subprocess.run(
        [sys.executable, "-m", "zabka.cli.main", "pipeline", "audit", str(tmp_path)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "replay: zabka replay --seed 1" in done.stdout and "1 runs, 1 with violations" in done.stdout
