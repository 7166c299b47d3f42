"""What age costs: every figure is measured, and the bytes written follow the pace of snapshots."""

from __future__ import annotations

import msgspec
import pytest
from typer.testing import CliRunner

from bench import aging, growth
from bench.aging import Age, Aged, count_instructions, load, measure, table
from bench.load import CannotMeasure
from zabka.ensemble.txnlog.snapshot_format import encode_tree

SOME = Age(
    0, 330.0, 5.0, 7.0, 1.5, 2.5, snapshot_bytes=200_000, encode_s=0.1, load_s=0.2, log_bytes_a_set=200
)  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aging, "BATCH", 5)
    monkeypatch.setattr(aging, "BATCHES", 2)
    monkeypatch.setattr(aging, "BASE_ZNODES", 40)
    monkeypatch.setattr(growth, "BATCH", 5)
    monkeypatch.setattr(growth, "BATCHES", 2)


def test_every_cost_of_a_tree_is_measured() -> None:
    age = measure(0)
    assert min(age.leader_set_us, age.leader_create_us, age.apply_set_us, age.apply_create_us) > 0
    assert age.snapshot_bytes > 40 * 180 and age.log_bytes_a_set > 150


def test_a_set_changes_a_znode_and_a_create_makes_one() -> None:
    aged = Aged(10)
    assert aged.tree.apply_plain(aged.set()) is not None
    assert aged.tree.apply_plain(aged.create()) is not None
    assert aged.tree.stat("/bench") is not None and len(aged.tree.children("/bench")) == 11


def test_what_is_loaded_is_the_tree_that_was_saved() -> None:
    aged = Aged(30)
    again = load(list(encode_tree(aged.tree.to_snapshot())), aged.zxid)
    assert again.children("/bench") == aged.tree.children("/bench")


@pytest.mark.parametrize(
    ("snapshot_bytes", "written"),
    [
        pytest.param(20_000_000, 400.0, id="as much as the log"),
        pytest.param(1_000_000, 210.0, id="a small tree after the floor"),
        pytest.param(120_000_000, 600.0, id="a large tree at the bound"),
    ],
)
def test_a_set_writes_the_log_and_its_share_of_a_snapshot(snapshot_bytes: int, written: float) -> None:
    age = msgspec.structs.replace(SOME, snapshot_bytes=snapshot_bytes)
    assert age.written_bytes_a_set == written


def test_a_size_is_shown_beside_the_first_one() -> None:
    shown = table([SOME, msgspec.structs.replace(SOME, znodes=500_000, leader_set_us=6.0, instructions=1000.0)])
    cells = [[str(cell) for cell in column.cells] for column in shown.columns]
    assert cells[0] == ["0", "500,000"] and cells[3] == ["1.00", "1.20"]
    assert cells[-2] == ["", "1,000.0"]


def test_without_valgrind_a_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aging.shutil, "which", lambda name: None)
    with pytest.raises(CannotMeasure, match="needs valgrind"):
        count_instructions(0)


def test_a_size_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(znodes: int) -> Age:
        raise CannotMeasure(f"{znodes:,} znodes: out of memory")

    monkeypatch.setattr(aging, "_in_a_process", broken)
    answer = CliRunner().invoke(aging.app, ["--largest", "0"])
    assert answer.exit_code == 1 and "out of memory" in answer.output
