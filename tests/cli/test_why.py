"""`zabka why` prints a decision and its chain of causes, back to the first cause."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.journal.golden_files import GOLDEN
from zabka.cli.why import command
from zabka.journal import events as e
from zabka.journal.cause import election_cause, event_cause, timer_cause
from zabka.journal.events import Event, TopicPartition
from zabka.journal.writer import encode_line

ORDERS = TopicPartition("orders", 0)
APP = typer.Typer()
APP.command()(command)
OTHERS = "Leave --about out to see other events of the type"
IT_HAS = "The journal has followership_taken, leader_elected, log_truncated, records_lost"


def journal(path: Path, *events: tuple[str, int, Event]) -> Path:
    lines = [encode_line(node, seq, 1_000_000 * at, 0, event) for at, (node, seq, event) in enumerate(events, 1)]
    path.write_bytes(b"".join(lines))
    return path


@pytest.fixture
def loss(tmp_path: Path) -> Path:
    elected = e.LeaderElected(
        topic="orders", partition=0, leader=2, leader_epoch=3, isr=[2], replicas=[1, 2], partition_epoch=4,
        controller_epoch=1, unclean=True, cause="unclean", previous=1, candidates=[(1, "not_alive"), (2, "elected")],
        caused_by=timer_cause("auto-leader-rebalance"),
    )  # fmt: skip
    return journal(
        tmp_path / "journal.jsonl",
        ("broker-3", 1, elected),
        ("broker-1", 1, e.FollowershipTaken(1, "orders", 0, 2, 3, 9, election_cause(ORDERS, 3))),
        ("broker-1", 2, e.LogTruncated(1, "orders", 0, 9, 6, 3, event_cause("broker-1", 1))),
        ("broker-1", 3, e.RecordsLost(1, "orders", 0, 6, 8, 3, 3, "diverging_epoch", event_cause("broker-1", 2))),
    )


@pytest.mark.parametrize("effect", ["records_lost", "broker-1#3"])
def test_each_cause_is_printed_on_a_line_with_its_inputs(loss: Path, effect: str) -> None:
    result = CliRunner().invoke(APP, [effect, "--journal", str(loss)])
    assert result.exit_code == 0
    assert [line for line in result.output.splitlines() if not line.startswith("    ")] == [
        "00:00:04.000Z broker-1#3: orders-0: 3 records removed, offsets 6 to 8, at least 3 committed (diverging epoch)",
        "because 00:00:03.000Z broker-1#2: orders-0: log truncated from 9 to 6",
        "because 00:00:02.000Z broker-1#1: orders-0: follows broker 2, leader epoch 3",
        "because 00:00:01.000Z broker-3#1: orders-0: leader 2, leader epoch 3, ISR 2, UNCLEAN; "
        "candidates: 1 not alive, 2 elected",
        "because timer auto-leader-rebalance",
        "first cause: timer",
    ]


def test_each_cause_is_followed_by_its_rule_and_sources(loss: Path) -> None:
    lines = CliRunner().invoke(APP, ["leader_elected", "--journal", str(loss)]).output.splitlines()
    assert lines[1].startswith("    rule: If no replica of the ISR is alive, and unclean.leader.election.enable")
    here, _, there = lines[2].partition("; upstream: ")
    assert re.fullmatch(r"    source: controller/election\.py:\d+ \(leader_for_offline\)", here)
    assert there == "Election.leaderForOffline, KIP-704"


def test_about_option_selects_events_by_their_description(loss: Path) -> None:
    result = CliRunner().invoke(APP, ["records_lost", "--about", "payments", "--journal", str(loss)])
    assert (result.exit_code, result.output) == (
        1,
        f"zabka: no event is records_lost with 'payments' in its sentence. {OTHERS}\n",
    )


@pytest.mark.parametrize(("text", "partitions"), [("orders-1", [1]), ("orders-10", [10]), ("orders", [1, 10])])
def test_about_option_matches_whole_words(tmp_path: Path, text: str, partitions: list[int]) -> None:
    losses = [("broker-1", n, e.RecordsLost(1, "orders", n, 6, 8, 3, 3, "diverging_epoch")) for n in (1, 10)]
    lost = journal(tmp_path / "journal.jsonl", *losses)
    result = CliRunner().invoke(APP, ["records_lost", "--about", text, "--last", "9", "--journal", str(lost)])
    named = [line.split()[2] for line in result.output.splitlines() if "Z " in line]
    assert named == [f"orders-{n}:" for n in partitions]


def test_cluster_that_never_ran_has_no_journal(tmp_path: Path) -> None:
    result = CliRunner().invoke(APP, ["records_lost", "--data", str(tmp_path)])
    assert (result.exit_code, result.output) == (1, f"zabka: there is no journal in {tmp_path}\n")


def test_control_characters_in_events_are_not_printed(tmp_path: Path) -> None:
    asked = e.AdminRequested("CreateTopics", [], "me\nbecause 00:00:00.000Z broker-9#1: forged\x1b[2J")
    path = journal(tmp_path / "journal.jsonl", ("broker-1", 1, asked))
    result = CliRunner().invoke(APP, ["admin_requested", "--journal", str(path)])
    assert result.output.splitlines() == [
        "00:00:01.000Z broker-1#1: received CreateTopics from me\\nbecause 00:00:00.000Z broker-9#1: forged\\x1b[2J",
        "first cause: request",
    ]


def test_directory_as_journal_is_rejected(tmp_path: Path) -> None:
    result = CliRunner().invoke(APP, ["records_lost", "--journal", str(tmp_path)])
    assert (result.exit_code, result.output) == (1, f"zabka: {tmp_path} is not a file\n")


@pytest.mark.parametrize(
    ("effect", "message"),
    [
        ("nothing_here", f"no event is nothing_here. {IT_HAS}"),
        ("leader_electd", f"no event is leader_electd; did you mean leader_elected? {IT_HAS}"),
        ("isr_changed", f"no event is isr_changed: none happened. {IT_HAS}"),
        ("broker-1#4", "no event is broker-1#4: the journal has broker-1#1 to broker-1#3"),
        ("broker-9#1", "no event is broker-9#1. The journal has the nodes broker-1, broker-3"),
    ],
)
def test_unknown_event_type_error_lists_the_known_types(loss: Path, effect: str, message: str) -> None:
    result = CliRunner().invoke(APP, [effect, "--journal", str(loss)])
    assert (result.exit_code, result.output) == (1, f"zabka: {message}\n")


def test_why_command_reports_the_time_without_a_controller() -> None:
    history = GOLDEN / "histories" / "controller-gaps.jsonl"
    result = CliRunner().invoke(APP, ["controller_elected", "--journal", str(history), "--last", "2"])
    assert result.exit_code == 0
    gaps = [line for line in result.output.splitlines() if line.startswith("no controller")]
    assert gaps == [
        "no controller for 11,065.0 ms: detection 5,001.9 ms, election 6,003.1 ms, loading 60.0 ms",
        "no controller for 8.0 ms: detection 0.0 ms, election 8.0 ms, loading 0.0 ms",
    ]
