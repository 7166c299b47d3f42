"""The files in which all nodes of a host count how often each request fault was injected."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from zabka.ensemble.runtime.fault_ledger import FaultLedger, forget_counts


def at(directory: Path) -> FaultLedger:
    ledger = FaultLedger()
    ledger.move_to(str(directory))
    return ledger


def test_fault_ledgers_in_one_directory_share_their_counts(tmp_path: Path) -> None:
    first, second = at(tmp_path / "uses"), at(tmp_path / "uses")
    assert [first.count("f1.used"), second.count("f1.used"), second.count("f2.used")] == [1, 2, 1]


def test_concurrent_counts_of_a_fault_return_different_numbers(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        numbers = list(threads.map(lambda _: at(tmp_path).count("f1.used"), range(200)))
    assert sorted(numbers) == list(range(1, 201))


def test_counts_of_a_removed_fault_are_deleted(tmp_path: Path) -> None:
    ledger = at(tmp_path)
    ledger.count("f1.used")
    forget_counts(tmp_path, ["f1", "f2"])
    assert list(tmp_path.iterdir()) == []


def test_fault_ledger_without_a_directory_counts_in_memory() -> None:
    ledger = FaultLedger()
    assert [ledger.count("f1.used"), ledger.count("f1.used")] == [1, 2]
