"""`zabka what-if`: it plays a seed twice, and shows where the fork differs and what the change led to."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from scipy import stats
from typer.testing import CliRunner

from zabka.api.exports.opened import opened
from zabka.cli.damage import course, on_world_clock
from zabka.cli.forked_pair import Asked, AskedChange, BadChange, Pair, play
from zabka.cli.futures import Future, History, numbered, play_futures, table, wilson
from zabka.cli.option_groups import NotGrouped, grouped
from zabka.cli.what_if import command, command_class, report
from zabka.journal import events as e
from zabka.simulation.fork import Change
from zabka.simulation.run import run_forked
from zabka.simulation.settings import world_settings

APP = typer.Typer()
APP.command(cls=command_class)(command)
AT_US = 6_500_000
SHORT = world_settings(["faults.ms=3500", "drawn.topics=false"])
NO_CHANGE = Asked(2, "calm", SHORT, (AskedChange(AT_US),))
FAULTS = Asked(
    4, "chaos", world_settings(["faults.ms=5000", "faults.gap.ms=400", "drawn.topics=false"]),
    (AskedChange(3_000_000),),
)  # fmt: skip


def changed(asked: Asked, *changes: dict[str, Any]) -> Asked:
    """Return the question with other changes, each at the moment of its change by default."""
    return asked._replace(changes=tuple(asked.changes[0]._replace(**each) for each in changes))


@cache
def controller_killed() -> Pair:
    run = run_forked(2, "calm", (), SHORT)
    controller = next(entry.event.broker_id for entry in run.entries if isinstance(entry.event, e.ControllerElected))
    return play(changed(NO_CHANGE, {"kill": (f"broker-{controller}",), "lasts_ms": 9_000}))


def figures(lines: list[str]) -> dict[str, list[str]]:
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines]
    return {row[0]: row[1:] for row in rows if len(row) == 3}


def test_fork_without_change_is_reported_as_identical() -> None:
    pair = play(NO_CHANGE)
    lines = list(report(NO_CHANGE, pair))
    assert lines[0] == "seed 2 of calm, from 6.500 s on: no change"
    assert lines[1] == f"the two runs are identical, byte for byte: {len(pair.run.entries):,} events"
    assert lines[2:] == ["", "the command that repeats it: zabka what-if --seed 2 --scenario calm --at 6.500000s"]


def test_report_shows_differences_figures_and_causes() -> None:
    pair = controller_killed()
    (node,) = pair.changes[-1].killed
    lines = list(report(NO_CHANGE, pair))
    assert lines[0] == f"seed 2 of calm, from 6.500 s on: {node} is killed for 9 s"
    assert lines[1] == f"identical, byte for byte, up to then: the first {pair.same:,} events"
    assert any(re.match(rf"  what if +6\.500 s  world#\d+: crash {node}", line) for line in lines)
    found = figures(lines)
    assert found["time without a controller"][0] == "0.000 s"
    assert float(found["time without a controller"][1].removesuffix(" s")) > 4
    assert found["partitions not writable for a time"] == ["0", "2"]
    assert found["acknowledged records lost"] == ["0", "0"]
    cause = rf"  what if +time without a controller: 6\.500 s crash {node} .*\(world#\d+\)"
    assert any(re.match(cause, line) for line in lines)
    assert not any(line.startswith("  as it was  time without a controller") for line in lines)


def test_recovery_times_of_a_fork_are_taken_from_the_journal() -> None:
    entries = on_world_clock(controller_killed().fork.entries)
    found = course(entries, AT_US, SHORT)
    ready = [each.mono_us for each in entries if isinstance(each.event, e.ControllerReady) and each.mono_us > AT_US]
    assert found.controller_since_us == ready[0]
    assert found.without_controller_us == ready[0] - AT_US
    assert found.writable_since_us is not None and found.writable_since_us > AT_US
    assert max(found.unwritable_us.values()) == found.writable_since_us - AT_US
    undisturbed = course(on_world_clock(controller_killed().run.entries), AT_US, SHORT)
    assert (undisturbed.controller_since_us, undisturbed.writable_since_us) == (AT_US, AT_US)


def test_leaving_out_a_fault_changes_the_run_from_its_injection() -> None:
    pair = play(changed(FAULTS, {"at_us": None, "without": ("f2",)}))
    [at_us] = [
        each.mono_us
        for each in pair.run.entries
        if isinstance(each.event, e.FaultInjected) and each.event.fault_id == "f2"
    ]
    assert pair.changes == (Change(at_us, left_out=("f2",)),)
    assert pair.run.entries[pair.same].mono_us >= at_us
    assert b'"f2"' not in b"".join(pair.fork.lines())


def test_setting_from_the_start_leaves_the_faults_as_they_were() -> None:
    asked = changed(FAULTS, {"at_us": None, "settings": {"replica.lag.time.max.ms": "6000"}})
    pair = play(asked)
    lines = list(report(asked, pair))
    assert lines[0] == "seed 4 of chaos: replica.lag.time.max.ms=6000 from the start"
    assert lines[1].startswith("identical, byte for byte: the first ")
    drawn = [
        [(each.event.fault_id, each.event.kind) for each in run.entries if isinstance(each.event, e.FaultInjected)][:3]
        for run in (pair.run, pair.fork)
    ]
    assert len(drawn[0]) == 3 and drawn[0] == drawn[1]
    started = [each.event.config for each in pair.fork.entries if isinstance(each.event, e.NodeStarted)]
    assert {config["replica.lag.time.max.ms"] for config in started if "broker.id" in config} == {"6000"}


def test_several_faults_of_a_swarm_can_be_left_out_together() -> None:
    pair = play(Asked(1, "swarm", None, (AskedChange(without=("f2", "f5")),)))
    ids = [
        [each.event.fault_id for each in run.entries if isinstance(each.event, e.FaultInjected)]
        for run in (pair.run, pair.fork)
    ]
    assert ids[1][:1] == ids[0][:1] == ["f1"]
    assert {"f2", "f5"} <= set(ids[0]) and not {"f2", "f5"} & set(ids[1])


def test_second_change_is_compared_with_the_fork_of_the_first() -> None:
    asked = changed(FAULTS, {"pause": ("peer-1",), "lasts_ms": 800}, {"at_us": 4_000_000, "kill": ("broker-1",)})
    pair = play(asked)
    added = [[each.event.fault_id for each in run.entries if isinstance(each.event, e.FaultInjected)
              and each.event.requester == "what-if"] for run in (pair.run, pair.fork)]  # fmt: skip
    assert added == [["w1"], ["w1", "w2"]]
    assert pair.same >= sum(entry.mono_us < 4_000_000 for entry in pair.run.entries)
    lines = list(report(asked, pair))
    first = "seed 4 of chaos, from 3.000 s on: peer-1 is paused for 0.8 s; from 4.000 s on: broker-1 is killed for 10 s"
    assert lines[0] == first
    assert lines[-1].endswith(
        "what-if --seed 4 --scenario chaos --at 3.000000s --pause peer-1 --for 0.8s --at 4.000000s --kill broker-1 "
        "--for 10s"
    )


def test_options_after_each_at_are_one_change() -> None:
    order = ["seed", "at", "kill", "for_", "kill", "at", "without"]
    given = {"at": ["3", "4"], "kill": ["broker-1", "broker-2"], "for_": ["1s"], "without": ["f2"], "set_": []}
    assert grouped(order, "at", given) == [
        {"at": ["3"], "kill": ["broker-1", "broker-2"], "for_": ["1s"], "without": [], "set_": []},
        {"at": ["4"], "kill": [], "for_": [], "without": ["f2"], "set_": []},
    ]
    with pytest.raises(NotGrouped, match="without"):
        grouped(order[:-1], "at", given)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kill": ("broker-9",)}, "there is no node broker-9; there are peer-1, peer-2, peer-3, broker-1"),
        ({"at_us": 10**12}, r"--at 1000000.000 s: the run ends at \d+"),
        ({"without": ("f99",)}, r"no fault of the run is f99; there are f\d+ \("),
        ({"without": ("f1",), "at_us": 9_000_000}, "f1 was injected at .* before --at 9.000 s"),
        ({"kill": ("broker-1",), "pause": ("broker-1",)}, "broker-1 is named twice"),
        ({"settings": {"num.io.threads": "100"}}, "--set: the brokers reject it: .*num.io.threads"),
    ],
)
def test_change_that_does_not_fit_the_run_is_rejected(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadChange, match=reason):
        play(changed(FAULTS, change))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "--at is missing"),
        (["--at", "start", "--at", "3s"], "--at start: give --set or --without"),
        (["--at", "noon"], "--at noon: a time in seconds is wanted"),
        (["--at", "3", "--without", "x"], "--without x: the id of a fault is wanted"),
        (["--at", "3", "--kill", "peer-1", "--for", "61s"], "--for 61s: a time of at most 60 s"),
        (["--scenario", "requests", "--set", "acks=1"], "acks: requests decides by itself what it does"),
        (["--set", "tickTime=700", "--scenario", "whole"], "whole draws its settings from the seed"),
        (["--set", "tickTime=700", "--futures", "2"], "--at is missing"),
        (["--at", "3", "--set", "x"], "--set takes KEY=VALUE"),
        (["--at", "3", "--set", "peers=5"], "peers cannot change at a moment"),
        (["--at", "3", "--scenario", "kafka-1211"], "kafka-1211 is no scenario that draws its faults"),
        (["--at", "3", "--without", "f1", "--futures", "2"], "--futures draw faults of their own"),
        (["--at", "3", "--every", "1s"], "--every needs --at and --futures"),
        (["--kill", "peer-1", "--at", "3", "--at", "4"], "--kill: if there are several --at, give each option"),
        (["--at", "3", "--futures", "2", "--every", "1ms"], "--every 1ms: a time in seconds"),
        (["--at", "3", "--futures", "2", "--every", "0.05"], "--every 0.05: at least 0.1 s is wanted"),
    ],
)
def test_invalid_option_gives_one_line_and_exit_code_2(arguments: list[str], reason: str) -> None:
    done = CliRunner().invoke(APP, ["--seed", "3", *arguments])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"zabka: {reason}") and done.stderr.count("\n") == 1


def test_change_before_the_previous_one_is_rejected() -> None:
    with pytest.raises(BadChange, match=r"--at 2\.000 s lies before the previous change, at 3\.000 s"):
        play(changed(FAULTS, {}, {"at_us": 2_000_000}))


def test_exported_what_if_file_has_both_runs_as_a_pair(tmp_path: Path) -> None:
    out = tmp_path / "pair.html"
    asked = ["--seed", "3", "--scenario", "ensemble", "--at", "9s", "--kill", "peer-1", "--for", "4s"]
    done = CliRunner().invoke(APP, [*asked, "--out", str(out)])
    assert done.exit_code == 0, done.output
    fork, run = (each.about for each in opened(out.read_bytes()))
    assert (run.id, run.pair, fork.id, fork.pair) == (
        "ensemble-3", "ensemble-3.what-if", "ensemble-3.what-if", "ensemble-3"
    )  # fmt: skip
    assert fork.variant == "peer-1 is killed for 4 s"
    assert fork.replay == "zabka what-if --seed 3 --scenario ensemble --at 9.000000s --kill peer-1 --for 4s"
    assert run.decisive_seq == fork.decisive_seq is not None
    assert run.sha256 != fork.sha256


def test_futures_of_run_and_fork_are_counted() -> None:
    pair = controller_killed()
    history = History(2, "calm", SHORT, pair.run.seed.drawn)
    columns = [
        (name, play_futures(history, numbered(changes, 2), jobs=1))
        for name, changes in (("no change", (Change(AT_US),)), ("killed", pair.changes))
    ]
    assert len({future.before for _, column in columns for future in column}) == 1
    assert all(future.controller_us == 0 for future in columns[0][1])
    assert all(future.controller_us is not None and future.controller_us > 4_000_000 for future in columns[1][1])
    lines = list(table(columns))
    assert lines[0].split() == ["no", "change", "killed"]
    assert lines[1].startswith("lose acknowledged records") and lines[1].count("0 of 2 (0 to 66 %)") == 2


def test_outcome_table_shows_shares_and_events_that_never_came() -> None:
    column = [
        Future(3, True, 2_000_000, None, ""),
        Future(0, False, 1_000_000, None, ""),
        Future(0, False, 0, None, ""),
    ]
    lines = list(table([("killed", column)]))
    assert lines[1].endswith("1 of 3 (6 to 79 %)")
    assert lines[3].endswith("median 1.000 s, 90 % 2.000 s, longest 2.000 s")
    assert lines[4].endswith("never in 3")


@pytest.mark.parametrize(("count", "of"), [(0, 10), (3, 10), (10, 10), (1, 1), (40, 200)])
def test_confidence_interval_of_a_share_equals_that_of_scipy(count: int, of: int) -> None:
    theirs = stats.binomtest(count, of).proportion_ci(0.95, method="wilson")
    assert wilson(count, of) == pytest.approx((theirs.low, theirs.high))
