"""Random operations on a peer's real storage, on a simulated file system with faults. Each start is checked.

The checker knows which operations were submitted and acknowledged. A history is identified by its last transaction,
because a new epoch begins after each truncation, as in ZAB. A start must find, byte for byte, the last acknowledged
history or a later one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from tests.simulation.filesystem.disk_troubles import COMMON, DiskTroubles, Measure
from tests.simulation.filesystem.workers import SimWorkers
from zabka.ensemble.ids import Epoch, LinkId, SessionId, Zxid, epoch_of, zxid_text
from zabka.ensemble.ports import Future
from zabka.ensemble.records import OPEN_ACL, OpCode
from zabka.ensemble.tree.datatree import DataTree
from zabka.ensemble.tree_snapshot import NodeImage, TreeSnapshot
from zabka.ensemble.txn import CreateTxn, SetDataTxn, Txn
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.directory import open_directories
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.files import LOG_PREFIX, SNAPSHOT_PREFIX
from zabka.ensemble.txnlog.recovery import Recovery, RecoveryPolicy, recover
from zabka.ensemble.txnlog.snapshots import WrittenSnapshot, write_snapshot
from zabka.ensemble.txnlog.storage import Storage
from zabka.ensemble.zab.effects import (
    Append,
    Barrier,
    Effect,
    ReadLog,
    SaveAcceptedEpoch,
    SaveCurrentEpoch,
    SaveSnapshot,
    TruncateLog,
)
from zabka.simulation.draws import derive_random
from zabka.simulation.engine.scheduler import Scheduler
from zabka.simulation.filesystem.process_files import ProcessFiles
from zabka.simulation.filesystem.volume import PowerLost, Volume

DATA = Path("/data")
POLICY = RecoveryPolicy(other_voters=2)
NO_SNAPSHOT = "has no snapshot at or before"
"""Part of the error with which the peer stops if it must truncate to a zxid before its oldest snapshot."""
KINDS = (*COMMON, "stall", "rot")
"""Types of disk faults. Each run omits some of them."""


class Violation(AssertionError):
    """The storage has lost or changed acknowledged data, or returned a wrong history."""


class StorageRun:
    """A run of random operations on the real storage of a peer. The seed determines the operations."""

    def __init__(self, seed: int, actions: int = 120, kinds: tuple[str, ...] | None = None) -> None:
        self.random = derive_random(seed, "storage run")
        self.reached: Counter[str] = Counter()
        self._scheduler = Scheduler()
        self._volume = Volume(derive_random(seed, "volume"), lambda: self._scheduler.now_us)
        chosen = tuple(kind for kind in KINDS if self.random.random() < 0.5)
        self._kinds = chosen if kinds is None else kinds
        self._actions = actions
        self._troubles = DiskTroubles(
            self.random,
            self._volume,
            self._kinds,
            Measure(operations=80, room_bytes=60_000, within=[LOG_PREFIX, "version-2"]),
            lose_power=self.lose_power,
            kill=self._end,
            own={"stall": lambda: self._volume.stall_next_sync(200_000), "rot": self._rot},
        )
        self._log_dir = self.random.choice([DATA, Path("/log")])
        self._retain = self.random.choice([1, 2, 3])
        self._suffix = self.random.choice(["", "", ".gz"])
        self._quick_us = self.random.choice([0, 5000])
        self._parents: dict[int, int] = {}
        self._digests: dict[int, int] = {0: DataTree().digest}
        self._trees: dict[int, TreeSnapshot] = {}
        """Trees that a leader sent as snapshots, keyed by the last zxid of their history."""
        self._ends = [0]
        """Last zxid of the history on disk after each submitted operation."""
        self._acknowledged = 0
        """Index in `_ends` of the last acknowledged history. After a start, the peer must have this history or a later
        one.
        """
        self._base = 0
        """Zxid of the snapshot that the history starts with.

        The process has started with this snapshot, or the snapshot has replaced the history since then.
        """
        self._cut: list[int] = []
        """Transactions removed by truncations. A learner may still have them."""
        self._begun: dict[int, int] = {}
        """For each current epoch, the `_ends` index of the earliest history that a start with this epoch may find."""
        self._complete = True
        """Whether the history was complete when the process started last."""
        self._barriers: dict[int, int] = {}
        self._tokens = 0
        self._epoch = 1
        self._accepted_for_certain = 0
        self._tree = DataTree()
        self._waits = False
        self._running: _Process | None = None

    def run(self) -> Counter[str]:
        """Run the operations, and return how often each fault and event occurred. Raises Violation."""
        for _ in range(self._actions):
            if self._running is None:
                self._start()
            else:
                self._guarded(self._act)
            self._guarded(lambda: self._scheduler.run_until(self._scheduler.now_us + self.random.randrange(0, 3000)))
        while self._running is None:
            self._start()
        self._guarded(self._running.storage.close)
        return self.reached

    def _guarded(self, act: Callable[[], object]) -> None:
        try:
            act()
        except PowerLost:
            self.lose_power()

    # -- actions of the peer -----------------------------------------------------------------------------------------

    def _act(self) -> None:
        assert self._running is not None
        draw = self.random.random()
        if draw < 0.25:
            self._troubles.befall(self.reached)
        elif self._waits:
            return
        elif draw < 0.75:
            self._append()
        elif draw < 0.83:
            self.reached["snapshot"] += 1
            self._running.storage.take_snapshot(self._tree.to_snapshot())
        elif draw < 0.88:
            self._truncate()
        elif draw < 0.91:
            self._replace()
        elif draw < 0.95:
            self._read_log()
        else:
            self._begin_epoch()

    def _append(self) -> None:
        assert self._running is not None
        effects: list[Effect] = []
        for _ in range(self.random.choice([1, 1, 1, 2, 3])):
            effects.append(Append([self._txn() for _ in range(self.random.choice([1, 1, 2, 5]))]))
            if self.random.random() < 0.7:
                effects.append(self._barrier())
        storage = self._running.storage
        if storage.is_quick(effects) and self.random.random() < 0.7:
            self.reached["waited in the loop"] += 1
            storage.carry_out(effects)
        else:
            storage.submit(effects)

    def _txn(self) -> Txn:
        end = self._ends[-1]
        zxid = Zxid(end + 1 if epoch_of(end) == self._epoch else (self._epoch << 32) + 1)
        data = self.random.randbytes(self.random.choice([1, 20, 300, 3000]))
        if self._tree.nodes.keys() - {"/"} and self.random.random() < 0.5 and "/n0" in self._tree.nodes:
            body: CreateTxn | SetDataTxn = SetDataTxn("/n0", data, 1)
        else:
            free = next(n for n in range(10_000) if f"/n{n}" not in self._tree.nodes)
            body = CreateTxn(f"/n{free}", data, OPEN_ACL, False, -1)
        kind = OpCode.CREATE if isinstance(body, CreateTxn) else OpCode.SET_DATA
        txn = Txn(SessionId(1), 1, zxid, 1000, kind, body)
        self._tree.apply(txn)
        self._parents[zxid] = end
        self._digests[zxid] = self._tree.digest
        self._ends.append(zxid)
        return txn

    def _barrier(self) -> Barrier:
        self._tokens += 1
        self._barriers[self._tokens] = len(self._ends) - 1
        return Barrier(self._tokens)

    def _begin_epoch(self) -> None:
        """Accept an epoch, and then make it current.

        No transaction of the epoch is written before that.
        """
        assert self._running is not None
        self._power_may_go()
        self._epoch += 1
        self._begun[self._epoch] = len(self._ends) - 1
        self._running.storage.submit(
            [SaveAcceptedEpoch(Epoch(self._epoch)), SaveCurrentEpoch(Epoch(self._epoch)), self._barrier()]
        )
        self.reached["epoch"] += 1

    def _truncate(self) -> None:
        assert self._running is not None
        path = self.path_of(self._ends[-1])
        if len(path) < 3:
            return
        target = self.random.choice(path[-12:-1])
        if self.random.random() < 0.5:
            # For a learner, read transactions that the truncation below removes.
            self._ask(self.random.choice(path[-6:-1]), path)
        # If a crash interrupts the truncation, some of the removed transactions may remain. So the history can end at
        # each of them.
        self._ends += [zxid for zxid in reversed(path) if zxid >= target]
        self._running.cutting = len(self._ends) - 1
        self._running.cut = path[path.index(target) + 1 :]
        self._power_may_go()
        self._waits = True
        self._epoch += 1
        self._running.storage.submit([SaveAcceptedEpoch(Epoch(self._epoch)), TruncateLog(Zxid(target))])
        self.reached["truncation"] += 1

    def _replace(self) -> None:
        """Replace the history with a snapshot from a leader that has more transactions."""
        assert self._running is not None
        self._power_may_go()
        self._epoch += 1
        self._txn()
        self._ends.pop()
        zxid = Zxid((self._epoch << 32) + 1)
        snapshot = self._tree.to_snapshot()
        self._tree = DataTree.from_snapshot(TreeSnapshot(zxid, {}, self._images(), snapshot.digest))
        self._parents[zxid] = -1
        self._digests[zxid] = self._tree.digest
        self._ends.append(zxid)
        self._begun[self._epoch] = len(self._ends) - 1
        self._base = zxid
        self._running.storage.submit(
            [
                SaveAcceptedEpoch(Epoch(self._epoch)),
                SaveSnapshot(TreeSnapshot(zxid, {}, self._images(), self._tree.digest), True),
                SaveCurrentEpoch(Epoch(self._epoch)),
                self._barrier(),
            ]
        )
        self.reached["replacement"] += 1

    def _images(self) -> list[NodeImage]:
        return [node.image("" if path == "/" else path) for path, node in self._tree.nodes.items()]

    def _read_log(self) -> None:
        assert self._running is not None
        path = self.path_of(self._ends[-1])
        path = path[path.index(self._base) if self._base in path else 0 :]
        self._ask(self.random.choice([self.random.choice(path[-20:]), path[0], *self._cut[-1:] * 3]), path)

    def _ask(self, after: int, path: list[int]) -> None:
        assert self._running is not None
        borders = {one: other for one, other in pairwise(path) if epoch_of(one) != epoch_of(other)}
        self._running.storage.read_log(
            ReadLog(LinkId(len(self._ends)), Zxid(after), Zxid(path[0]), 0.0, borders)  # type: ignore[arg-type]
        )

    def path_of(self, end: int) -> list[int]:
        """Return, in order, the known transactions of the history whose last zxid is `end`."""
        path = [end]
        while self._parents.get(path[-1], -1) >= 0:
            path.append(self._parents[path[-1]])
        return path[::-1]

    def _power_may_go(self) -> None:
        """In some runs, schedule a power loss for one of the next file operations.

        The caller then submits the operations that the power loss can interrupt.
        """
        if "power" in self._kinds and self.random.random() < 0.3:
            self._volume.lose_power_after(self.random.randrange(0, 40))

    # -- faults ------------------------------------------------------------------------------------------------------

    def _rot(self) -> None:
        """Flip a bit in a log or a snapshot. The next start must detect the damage."""
        prefixes = (f"{self._log_dir}/version-2/{LOG_PREFIX}.", f"{DATA}/version-2/{SNAPSHOT_PREFIX}.")
        paths = [path for path, node in self._volume.files() if path.startswith(prefixes) and node.blocks]
        if paths:
            path = self.random.choice(paths)
            node = self._volume.find(Path(path))
            number = self.random.choice(list(node.blocks))  # type: ignore[union-attr]
            self._volume.rot(Path(path), number * 8 * 4096 + self.random.randrange(0, 8 * 4096))

    def lose_power(self) -> None:
        """Cut the power of the host, and switch it on again."""
        self.reached["power lost"] += 1
        self._volume.lose_power()
        self._end()

    def _end(self) -> None:
        if self._running is not None:
            self._running.workers.kill()
        self._running = None
        self._waits = False
        self._volume.repair()

    # -- starting the process, and checking what it finds ------------------------------------------------------------

    def _start(self) -> None:
        files = ProcessFiles(self._volume)
        if "power" in self._kinds and self.random.random() < 0.2:
            self._volume.lose_power_after(self.random.randrange(0, 60))
        try:
            directories, _ = open_directories(DATA, self._log_dir, files)
            recovery = recover(directories, POLICY)
            self._check(recovery)
            self._base = recovery.recovered.snapshot.zxid if recovery.recovered.snapshot is not None else 0
            if recovery.recovered.snapshot is None:
                write_snapshot(directories.data, self._tree.to_snapshot(), files)
            self._running = _Process(self, directories, files)
            if recovery.recovered.complete:
                self._begin_epoch()
            else:
                self.reached["incomplete"] += 1
                self._replace()
        except PowerLost:
            self.reached["power lost at a start"] += 1
            self.lose_power()
        except DataDirectoryError as refused:
            raise Violation(f"a start is refused: {refused}") from None

    def _check(self, recovery: Recovery) -> None:
        found = recovery.recovered
        base = found.snapshot.zxid if found.snapshot is not None else 0
        end = found.txns[-1].zxid if found.txns else base
        allowed = self._ends[self._acknowledged :]
        if found.complete and end not in allowed:
            what = zxid_text(allowed[0])
            raise Violation(f"a start says that it is complete with {zxid_text(end)}, but {what} was acknowledged")
        if end not in self._digests:
            raise Violation(f"a start finds {zxid_text(end)}, which nobody wrote")
        if found.complete and end not in self._ends[self._begun.get(found.current_epoch, 0) :]:
            raise Violation(f"epoch {found.current_epoch} was begun behind more than {zxid_text(end)}")
        # A record that was torn during its write can look like a damaged, synced record. So an incomplete history is
        # accepted in this case.
        excused = "rot" in self._kinds or len(allowed) > 1 or not self._complete
        if not found.complete and not excused:
            raise Violation("a history is not complete although all of it was acknowledged and nothing has rotted")
        self._complete = found.complete
        self._check_txns(base, [txn.zxid for txn in found.txns])
        if found.accepted_epoch < self._accepted_for_certain:
            raise Violation(f"acceptedEpoch went back from {self._accepted_for_certain} to {found.accepted_epoch}")
        tree = DataTree.from_snapshot(found.snapshot) if found.snapshot is not None else DataTree()
        for txn in found.txns:
            tree.apply(txn)
        if tree.digest != self._digests[end]:
            raise Violation(f"the tree of {zxid_text(end)} is not what it was")
        self.reached["start"] += 1
        for damage in recovery.damages:
            self.reached[f"found: {damage.reason.split(' behind ')[0].split(', in')[0]}"] += 1
        self._tree = tree
        self._epoch = max(self._epoch, found.accepted_epoch, epoch_of(end)) + 1
        self._ends, self._acknowledged = [end], 0
        self._barriers.clear()
        self._begun.clear()
        self._accepted_for_certain = found.accepted_epoch

    def _check_txns(self, base: int, zxids: list[Zxid]) -> None:
        before = base
        for zxid in zxids:
            if self._parents.get(zxid) != before:
                raise Violation(f"{zxid_text(zxid)} comes behind {zxid_text(before)}")
            before = zxid

    # -- callbacks of the storage --------------------------------------------------------------------------------------

    def acknowledged(self, tokens: list[int]) -> None:
        """Record that the operations before these barriers were acknowledged to the peer."""
        self._acknowledged = max(self._acknowledged, *(self._barriers[token] for token in tokens))
        self._accepted_for_certain = max(self._accepted_for_certain, epoch_of(self._ends[self._acknowledged]))
        self.reached["acknowledged"] += len(tokens)

    def truncated(self, recovery: Recovery, at: int, cut: list[int]) -> None:
        """Check the remaining history, now that a truncation of the log is durable."""
        self._acknowledged = max(self._acknowledged, at)
        self._cut += cut
        epoch = self._epoch
        self._check(recovery)
        self._epoch = epoch
        self._waits = False
        if recovery.damages and not recovery.recovered.complete:
            # The process must be restarted, and must then receive all data from the leader (`PeerDriver.on_truncated`).
            self.reached["damage found by a truncation"] += 1
            self._end()
            return
        assert self._running is not None
        self._running.storage.submit([SaveCurrentEpoch(Epoch(epoch)), self._barrier()])

    def read(self, after: Zxid, txns: list[Txn] | None) -> None:
        """Check the transactions that were read for a learner whose last transaction is `after`."""
        self.reached["log read"] += txns is not None
        path = self.path_of(self._ends[-1])
        if after in path:
            self._check_txns(after, [txn.zxid for txn in txns or []])
        elif after in self._cut and txns:
            raise Violation(f"{zxid_text(txns[0].zxid)} comes behind {zxid_text(after)}, which was cut")

    def failed(self, reason: str) -> None:
        """Stop the peer after a failure of its storage.

        Its host restarts it, in some runs after a power loss.
        """
        self.reached["stopped"] += 1
        if not self._kinds and NO_SNAPSHOT not in reason:
            raise Violation(f"the storage stopped although nothing befell it: {reason}")
        if self.random.random() < 0.5 and "power" in self._kinds:
            self.lose_power()
        else:
            self._end()


class _Process:
    """One process of the tested peer, from its start to its end, with its storage."""

    def __init__(self, run: StorageRun, directories: Directories, files: ProcessFiles) -> None:
        self._run = run
        self.cutting = 0
        self.cut: list[int] = []
        """Transactions that the truncation in progress removes.

        `cutting` is the index in `_ends` of the history that then remains.
        """
        self.workers = SimWorkers(run._scheduler, run.random, files, future=_nobody_waits, power_lost=run.lose_power)
        self.storage = Storage(
            directories,
            self,
            self.workers.post,
            preallocate_bytes=16_384,
            retain_snapshots=run._retain,
            snapshot_suffix=run._suffix,
            policy=POLICY,
            quick_sync_us=run._quick_us,
            clock_ns=self.workers.clock_ns,
            wall_ms=lambda: run._scheduler.now_us // 1000,
            workers=self.workers,
        )

    def on_durable(self, tokens: list[int]) -> None:
        self._run.acknowledged(tokens)

    def on_truncated(self, recovery: Recovery) -> None:
        self._run.truncated(recovery, self.cutting, self.cut)

    def on_snapshot(self, written: WrittenSnapshot) -> None:
        self._run.reached["snapshot written"] += 1

    def on_snapshot_spoiled(self) -> None:
        self._run.reached["snapshot spoiled"] += 1

    def on_log_read(self, link: LinkId, after: Zxid, txns: list[Txn] | None) -> None:
        self._run.read(after, txns)

    def on_storage_warning(self, line: str) -> None:
        self._run.reached["warning"] += 1

    def on_storage_failed(self, reason: str) -> None:
        self._run.failed(reason)


def _nobody_waits() -> Future[object]:
    raise AssertionError("the storage calls nothing of its own")
