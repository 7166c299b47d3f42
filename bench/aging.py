"""What age costs: the same writes in trees of different sizes.  `python -m bench.aging` prints the table.

One process, no sockets and no disk, so that what else the machine does matters little: the leader's whole way of a
write (bytes in, transaction, applied, answer), the tree's part of it as a learner has it, a snapshot of the tree, and
what an operation makes the disk write, log and snapshots together.  Each size is measured in a process of its own.

With --instructions each size runs under valgrind's cachegrind as well: instructions and misses of the last level of
the cache for each operation, which do not depend on what else runs at all.  (A virtual machine often has no counters
of its own.)  That takes minutes for a size.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from random import Random
from statistics import median
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bench.ensembles import resident_bytes
from bench.growth import Bench
from bench.interrupts import interruptible
from bench.load import CannotMeasure
from zabka.ensemble.ids import SessionId, Zxid
from zabka.ensemble.records import OPEN_ACL, OpCode
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.txn import CreateTxn, SetDataTxn, Txn
from zabka.ensemble.txnlog.records import RECORD_OVERHEAD
from zabka.ensemble.txnlog.snapshot_format import TreeDecoder, encode_tree
from zabka.ensemble.zab.snapshot_pace import SNAP_COUNT, SNAP_COUNT_MAX

SIZES = (0, 100_000, 500_000, 1_000_000, 2_000_000)
BASE_ZNODES = 1_000
"""An empty tree has nothing to set: 0 stands for so many."""
BATCH = 1_000
BATCHES = 15
COUNTED_BATCHES = 4
PIECE_BYTES = 1 << 20
CACHEGRIND = ("valgrind", "--tool=cachegrind", "--cachegrind-out-file=/dev/null")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


class Age(msgspec.Struct):
    """The costs in a tree of one size: microseconds of CPU an operation, bytes, seconds."""

    znodes: int
    bytes_a_znode: float
    leader_set_us: float
    leader_create_us: float
    apply_set_us: float
    apply_create_us: float
    snapshot_bytes: int
    encode_s: float
    load_s: float
    log_bytes_a_set: int
    instructions: float | None = None
    misses: float | None = None

    @property
    def written_bytes_a_set(self) -> float:
        """Log and snapshots: one of these comes when the log is as large, or at the ends of what that may take."""
        interval = min(max(self.snapshot_bytes / self.log_bytes_a_set, SNAP_COUNT), SNAP_COUNT_MAX)
        return self.log_bytes_a_set + self.snapshot_bytes / interval


def _path(n: int) -> str:
    return f"/bench/{n:010d}"


class Aged:
    """A tree with so many znodes of 100 bytes below one parent, and writes to it as a learner reads them."""

    def __init__(self, znodes: int) -> None:
        self.tree = DataTree()
        self.zxid = 0
        self.made = 0
        self.random = Random(1)
        self.tree.apply(self.txn(OpCode.CREATE, CreateTxn("/bench", b"", OPEN_ACL, False, 1)))
        for _ in range(znodes):
            self.tree.apply_plain(self.create())

    def txn(self, op: OpCode, body: CreateTxn | SetDataTxn) -> Txn:
        """The next transaction, read from its bytes."""
        self.zxid += 1
        txn = Txn(SessionId(5), 7, Zxid(self.zxid), 1_700_000_000_000 + self.zxid, op, body, digest=5)
        return Txn.decode(txn.encoded())

    def create(self) -> Txn:
        """One more znode, with data of its own."""
        self.made += 1
        data = b"%0100d" % self.made
        return self.txn(OpCode.CREATE, CreateTxn(_path(self.made), data, OPEN_ACL, False, self.made))

    def set(self) -> Txn:
        """Other data for any znode."""
        data = b"%0100d" % self.zxid
        return self.txn(OpCode.SET_DATA, SetDataTxn(_path(self.random.randrange(1, self.made + 1)), data, 5))

    def cost_us(self, make: Callable[[], Txn]) -> float:
        """CPU time of applying one, the median of a few batches."""
        return median(self._batch_us([make() for _ in range(BATCH)]) for _ in range(BATCHES))

    def _batch_us(self, txns: list[Txn]) -> float:
        apply = self.tree.apply_plain
        begin = time.process_time()
        for txn in txns:
            apply(txn)
        return (time.process_time() - begin) / len(txns) * 1e6


def measure(znodes: int) -> Age:
    """All costs at one size."""
    count = znodes or BASE_ZNODES
    before = resident_bytes(os.getpid())
    aged = Aged(count)
    gc.collect()
    taken = resident_bytes(os.getpid()) - before
    gc.freeze()
    gc.disable()
    set_us, create_us = aged.cost_us(aged.set), aged.cost_us(aged.create)
    log_bytes = len(aged.set().encoded()) + RECORD_OVERHEAD
    begin = time.process_time()
    snapshot = list(encode_tree(aged.tree.to_snapshot()))
    encode_s = time.process_time() - begin
    zxid = aged.zxid
    del aged
    begin = time.process_time()
    load(snapshot, zxid)
    load_s = time.process_time() - begin
    leader = Bench(count).cost()
    return Age(
        znodes, taken / count, leader.set_us, leader.create_us, set_us, create_us,
        snapshot_bytes=sum(map(len, snapshot)), encode_s=encode_s, load_s=load_s, log_bytes_a_set=log_bytes,
    )  # fmt: skip


def load(snapshot: list[bytes], zxid: int) -> DataTree:
    """The tree that a start makes of a snapshot's bytes."""
    decoder = TreeDecoder()
    for piece in _pieces(b"".join(snapshot)):
        decoder.feed(piece)
    return DataTree.from_snapshot(decoder.snapshot(zxid, 5))


def _pieces(raw: bytes) -> Iterator[bytes]:
    return (raw[at : at + PIECE_BYTES] for at in range(0, len(raw), PIECE_BYTES))


def count_instructions(znodes: int) -> tuple[float, float]:
    """Instructions and last-level misses of applying one setData, by the difference of two runs under cachegrind."""
    if shutil.which(CACHEGRIND[0]) is None:
        raise CannotMeasure("--instructions needs valgrind")
    few, many = (_cachegrind(znodes, batches) for batches in (1, 1 + COUNTED_BATCHES))
    instructions, misses = ((b - a) / (COUNTED_BATCHES * BATCH) for a, b in zip(few, many, strict=True))
    return instructions, misses


def _cachegrind(znodes: int, batches: int) -> tuple[int, int]:
    command = [*CACHEGRIND, sys.executable, "-m", "bench.aging", "--play", f"{znodes or BASE_ZNODES},{batches}"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = (re.search(pattern, told) for pattern in (r"I *refs: *([\d,]+)", r"LL misses: *([\d,]+)"))
    instructions, misses = (int(match[1].replace(",", "")) if match else 0 for match in found)
    return instructions, misses


def play(znodes: int, batches: int) -> None:
    """What runs under cachegrind: a tree, and so many batches of setData; these are made beforehand, so that two runs
    differ in their applying alone."""
    aged = Aged(znodes)
    gc.freeze()
    gc.disable()
    txns = [aged.set() for _ in range((1 + COUNTED_BATCHES) * BATCH)]
    for txn in txns[: batches * BATCH]:
        aged.tree.apply_plain(txn)


def table(ages: list[Age]) -> Table:
    """A line for each size."""
    caption = "CPU µs an operation; ÷ is by the first line.  B/set: log and snapshots."
    made = Table(title="What age costs", caption=caption, caption_justify="left")
    headings = ("znodes", "B/znode", "leader set", "÷", "leader create", "÷", "apply set", "÷", "apply create", "÷")
    for heading in (*headings, "B/set", "encode s", "load s", "instr./set", "misses/set"):
        made.add_column(heading, justify="right")
    first = ages[0]
    for age in ages:
        costs = ("leader_set_us", "leader_create_us", "apply_set_us", "apply_create_us")
        pairs = (
            cell
            for name in costs
            for cell in (f"{getattr(age, name):.2f}", f"{getattr(age, name) / getattr(first, name):.2f}")
        )
        counted = ("" if each is None else f"{each:,.1f}" for each in (age.instructions, age.misses))
        made.add_row(
            f"{age.znodes:,}", f"{age.bytes_a_znode:.0f}", *pairs, f"{age.written_bytes_a_set:.0f}",
            f"{age.encode_s:.2f}", f"{age.load_s:.2f}", *counted,
        )  # fmt: skip
    return made


def _in_a_process(znodes: int) -> Age:
    """In a process of its own: what an earlier size left in the heap must not count."""
    command = [sys.executable, "-m", "bench.aging", "--one", str(znodes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotMeasure(f"{znodes:,} znodes: {done.stderr.strip()[-500:]}")
    return msgspec.json.decode(done.stdout, type=Age)


@app.command()
def main(
    largest: Annotated[int, typer.Option(min=0, help="Leave out sizes beyond it")] = SIZES[-1],
    instructions: Annotated[bool, typer.Option("--instructions", help="Count them, under valgrind")] = False,
    one: Annotated[int | None, typer.Option(hidden=True)] = None,
    play_: Annotated[str | None, typer.Option("--play", hidden=True)] = None,
) -> None:
    """Show what writes, snapshots and starts cost in trees of different sizes."""
    out, errors = Console(highlight=False, width=200), Console(stderr=True, highlight=False)
    if play_ is not None:
        play(*map(int, play_.split(",")))
        return
    if one is not None:
        print(msgspec.json.encode(measure(one)).decode())
        return
    ages = []
    try:
        with interruptible():
            for znodes in (size for size in SIZES if size <= largest):
                errors.print(f"{znodes:,} znodes", style="dim")
                age = _in_a_process(znodes)
                if instructions:
                    age.instructions, age.misses = count_instructions(znodes)
                ages.append(age)
    except CannotMeasure as reason:
        errors.print(f"aging: {reason}", style="red", markup=False)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    finally:
        if ages:
            out.print(table(ages))


if __name__ == "__main__":
    app(prog_name="aging")
