"""Does a write cost more where there is more?  `python -m bench.growth` prints the curve.

One peer's service in this process, leading and applying, as ZAB drives it: a client's setData or create comes in as
bytes, becomes a transaction, is encoded, applied and answered.  What grows meanwhile are znodes, open sessions, or
watches on other nodes.  With --live the same question is put to three real servers, empty and full.
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from bench.ensembles import running
from bench.interrupts import interruptible
from bench.load import CannotMeasure, build_zkload, default_cache, fill, run_load
from bench.works import WORKS
from zabka.ensemble.ids import ConnectionId, Epoch, SessionId, Zxid, make_zxid
from zabka.ensemble.ports import Instant
from zabka.ensemble.records import (
    OPEN_ACL,
    ConnectRequest,
    ConnectResponse,
    CreateRequest,
    Frames,
    OpCode,
    PathWatchRequest,
    Request,
    SetDataRequest,
)
from zabka.ensemble.tree.service import Service
from zabka.ensemble.txn import CreateTxn, Txn
from zabka.ensemble.zab.application import EnsembleConfig, Submit
from zabka.ensemble.zab.effects import Answer

ZNODES = (1_000, 10_000, 100_000, 1_000_000)
SESSIONS = (0, 1_000, 5_000, 20_000)
WATCHES = (0, 1_000, 20_000, 200_000)
WATCHERS = 200
BASE_ZNODES = 10_000
BATCH = 500
BATCHES = 9
LIVE_ZNODES = 100_000
LIVE_OPS = 200_000
DATA = b"x" * 100

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


class Cost(NamedTuple):
    """CPU time of one write in this process, in microseconds."""

    set_us: float
    create_us: float


def _frames_in(answer: bytes) -> int:
    """How many replies, each behind its length, leave together."""
    count = position = 0
    while position < len(answer):
        position += 4 + int.from_bytes(answer[position : position + 4], "big")
        count += 1
    return count


class Bench:
    """A service that leads alone, and one client of it."""

    def __init__(self, znodes: int) -> None:
        self.service = Service(EnsembleConfig(1, (1,)))
        self._zxid = make_zxid(1, 0)
        self._connections = 0
        self._made = 0
        self._xid = 0
        self._znodes = znodes
        self.service.start_leading(self._now, Epoch(1))
        self.service.start_serving(self._now, True)
        for n in range(znodes):
            self._apply([self._create_txn(_path(n))])
        self._client = self.connect()

    @property
    def _now(self) -> Instant:
        return Instant(1_000, 1_700_000_000_000)

    def _create_txn(self, path: str) -> Txn:
        self._zxid = Zxid(self._zxid + 1)
        body = CreateTxn(path, DATA, OPEN_ACL, False, -1)
        return Txn(SessionId(0), 0, self._zxid, 1_700_000_000_000, OpCode.CREATE, body)

    def _apply(self, txns: list[Txn]) -> int:
        """Apply; how many replies that made."""
        answers = [effect.message for effect in self.service.apply(self._now, txns) if isinstance(effect, Answer)]
        return sum(_frames_in(answer) if isinstance(answer, bytes) else 1 for answer in answers)

    def connect(self) -> ConnectionId:
        """A client with a session of its own."""
        self._connections += 1
        connection = ConnectionId(self._connections)
        self.service.on_client_connected(self._now, connection)
        asked = self.service.on_client(self._now, connection, ConnectRequest(0, 0, 30_000, 0, None))
        answers = self.service.apply(self._now, self._prepared(asked))
        assert any(isinstance(e, Answer) and isinstance(e.message, ConnectResponse) for e in answers)
        return connection

    def watch(self, connection: ConnectionId, n: int) -> None:
        """Leave a watch on a node that no measured write touches."""
        path = "/watched" + _path(n)
        self.service.on_client(self._now, connection, Request(1, OpCode.EXISTS, PathWatchRequest(path, True)))

    def _prepared(self, effects: list[object] | object) -> list[Txn]:
        assert isinstance(effects, list)
        requests = [effect.request for effect in effects if isinstance(effect, Submit)]
        first = Zxid(self._zxid + 1)
        self._zxid = Zxid(self._zxid + len(requests))
        return self.service.prepare_all(self._now, requests, first, None)

    def _write(self, bodies: list[tuple[OpCode, SetDataRequest | CreateRequest]]) -> float:
        """CPU seconds of these writes, from the client's bytes to its answers."""
        frames = []
        for op, body in bodies:
            self._xid += 1
            frames.append(Request(self._xid, op, body).encode())
        begin = time.process_time()
        txns = self._prepared(self.service.on_client(self._now, self._client, Frames(frames)))
        for txn in txns:
            txn.encoded()
        answered = self._apply(txns)
        took = time.process_time() - begin
        assert answered == len(bodies), f"{answered} of {len(bodies)} writes answered"
        return took

    def _sets(self) -> float:
        step = max(1, self._znodes // BATCH)
        paths = [_path(n * step % self._znodes) for n in range(BATCH)]
        return self._write([(OpCode.SET_DATA, SetDataRequest(path, DATA, -1)) for path in paths])

    def _creates(self) -> float:
        self._made += BATCH
        paths = [f"/new-{n}" for n in range(self._made, self._made + BATCH)]
        return self._write([(OpCode.CREATE, CreateRequest(path, DATA, OPEN_ACL, 0)) for path in paths])

    def cost(self) -> Cost:
        """The best of a few batches: what others do on the machine must not count.  No garbage is collected meanwhile;
        a peer keeps its tree out of the collector's sight."""
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            return Cost(*(min(one() for _ in range(BATCHES)) / BATCH * 1e6 for one in (self._sets, self._creates)))
        finally:
            gc.enable()
            gc.unfreeze()


def _path(n: int) -> str:
    return f"/k{n:07d}"


def with_znodes(count: int) -> Cost:
    """The cost in a tree of so many znodes."""
    return Bench(count).cost()


def with_sessions(count: int) -> Cost:
    """The cost beside so many connected sessions."""
    bench = Bench(BASE_ZNODES)
    for _ in range(count):
        bench.connect()
    return bench.cost()


def with_watches(count: int) -> Cost:
    """The cost beside so many watches of other clients on other nodes."""
    bench = Bench(BASE_ZNODES)
    watchers = [bench.connect() for _ in range(WATCHERS)]
    for n in range(count):
        bench.watch(watchers[n % WATCHERS], n)
    assert len(bench.service.watches) == count
    return bench.cost()


CURVES: tuple[tuple[str, tuple[int, ...], Callable[[int], Cost]], ...] = (
    ("znodes", ZNODES, with_znodes),
    ("sessions", SESSIONS, with_sessions),
    ("watches", WATCHES, with_watches),
)


def curve_table(out: Console, largest: int) -> Table:
    """Measure every point up to `largest`, telling each as it comes."""
    table = Table(title="CPU time of one write in one peer's service", caption="÷ is by the first line of its group.")
    for heading in ("", "how many", "set µs", "÷", "create µs", "÷"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, counts, measure in CURVES:
        first: Cost | None = None
        for count in (c for c in counts if c <= largest):
            out.print(f"{name}: {count:,}", style="dim")
            cost = _in_a_child(measure, count)
            first = first or cost
            ratios = (f"{now / then:.2f}" for now, then in zip(cost, first, strict=True))
            row = (cell for us, ratio in zip(cost, ratios, strict=True) for cell in (f"{us:.1f}", ratio))
            table.add_row(name if cost is first else "", f"{count:,}", *row)
        table.add_section()
    return table


def _in_a_child(measure: Callable[[int], Cost], count: int) -> Cost:
    """Each point in a process of its own: what an earlier one left in the heap must not count."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, " ".join(map(str, measure(count))).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as result:
        said = result.read()
    os.waitpid(child, 0)
    if not said:
        raise CannotMeasure(f"the measurement with {count:,} failed")
    return Cost(*map(float, said.split()))


def live_table(out: Console) -> Table:
    """CPU per set of three real servers, empty and with many znodes."""
    table = Table(title="Three real servers: CPU time of one set, all servers together")
    table.add_column("znodes", justify="right")
    table.add_column("set µs", justify="right")
    program, work = build_zkload(default_cache()), WORKS["set"]
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="zabka-growth-"))
        servers = stack.enter_context(running("ours", Path(directory) / "servers"))
        for count in (0, LIVE_ZNODES):
            if count:
                out.print(f"live: creating {count:,} znodes", style="dim")
                fill(program, WORKS["create"], servers.hosts, count)
            out.print(f"live: set with {count:,} znodes", style="dim")
            sample = run_load(program, work, servers.hosts, servers.pids, LIVE_OPS, LIVE_OPS // 8)
            table.add_row(f"{count:,}", f"{sample.cpu_us:.1f}")
    return table


@app.command()
def main(
    largest: Annotated[int, typer.Option(min=1, help="Leave out points beyond it")] = ZNODES[-1],
    live: Annotated[bool, typer.Option("--live", help="Ask three real servers, too")] = False,
) -> None:
    """Show that a write's cost does not grow with the number of znodes, sessions or watches."""
    out, errors = Console(highlight=False), Console(stderr=True, highlight=False)
    try:
        with interruptible():
            out.print(curve_table(errors, largest))
            if live:
                out.print(live_table(errors))
    except CannotMeasure as reason:
        errors.print(f"growth: {reason}", style="red", markup=False)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


if __name__ == "__main__":
    app(prog_name="growth")
