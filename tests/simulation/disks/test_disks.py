"""Disk faults in the simulated world: each fault as the real storage meets it, and the seeds of `disks`."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import msgspec
import pytest

from tests.simulation import planted_table
from tests.simulation.disks import planted_disks
from zabka.ensemble.ids import Epoch, LinkId, SessionId, Zxid
from zabka.ensemble.records import OpCode
from zabka.ensemble.tree.service import Service
from zabka.ensemble.txn import SetDataTxn, Txn
from zabka.ensemble.txnlog.sync_pace import WINDOW
from zabka.ensemble.zab.application import EnsembleConfig
from zabka.ensemble.zab.effects import (
    Append,
    Barrier,
    ReadLog,
    SaveAcceptedEpoch,
    SaveCurrentEpoch,
    SaveSnapshot,
    TruncateLog,
)
from zabka.journal.events import LogDamageFound
from zabka.simulation.disks.faulty_disk import FaultyDisk, Flip
from zabka.simulation.disks.faulty_log_directory import (
    FLUSH,
    OPERATIONS,
    READ,
    TEXT,
    WRITE,
    BrokerDisks,
    FaultyLogDirectory,
)
from zabka.simulation.faults.disk_faults import LOG_DIR_FAULTS, PEER_DISK_FAULTS
from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.kernel.scheduler import Scheduler
from zabka.simulation.run import run_seed
from zabka.simulation.seeds.disks import DISKS
from zabka.simulation.seeds.seed_run import SeedRun

CONFIG = EnsembleConfig(my_id=1, voters=(1, 2, 3))
EPOCH_1 = 1 << 32
SEEDS_IN_THE_SUITE = (2, 4)
PEERS_ALONE = 6
SEEDS_TO_FIND_A_BUG = 30
SOON_FOUND = {
    "failed syncs are acknowledged": 0,
    "recovery trusts the kernel after a failed sync": 2,
    "damaged records are served": 21,
    "log directories are used on after an error": 7,
}
"""Bugs that seeds find, each with the seed that is tried first."""


def txn(number: int) -> Txn:
    return Txn(
        SessionId(1), number, Zxid(EPOCH_1 + number), 0, OpCode.SET_DATA, SetDataTxn("/a", b"x" * 100, number), 7
    )


class Machine:
    """A disk, and the reports that the process on it received."""

    def __init__(self, seed: int = 1, *, fragile: bool = False) -> None:
        self.scheduler = Scheduler()
        self.waited_us: list[int] = []
        self.disk = FaultyDisk(self.scheduler, derive_random(seed, "disk"), CONFIG, self.waited_us.append)
        self.disk.is_fragile = fragile
        self.durable: list[int] = []
        self.failures: list[str] = []
        self.start()
        self.disk.submit(SaveAcceptedEpoch(Epoch(1)))
        self.disk.submit(SaveCurrentEpoch(Epoch(1)))
        self.wait()

    def start(self) -> list[int]:
        """Start a process that opens the disk. Return the numbers of the transactions that it finds."""
        found = self.disk.attach(self.durable.append, lambda recovered: None, self.failures.append)
        return [each.zxid - EPOCH_1 for each in found.txns]

    def write(self, *numbers: int) -> None:
        """Log transactions, one turn each, and wait for the disk; barriers have the transactions' numbers."""
        for number in numbers:
            self.disk.submit(Append([txn(number)]))
            self.disk.submit(Barrier(number))
            self.wait()

    def wait(self) -> None:
        self.scheduler.run_until(self.scheduler.now_us + 20_000_000)

    def restart(self, *, power_loss: bool = False) -> list[int]:
        """Kill the process or cut the machine's power, and start again."""
        if power_loss:
            self.disk.power_loss()
        else:
            self.disk.crash()
        return self.start()


def test_synced_writes_are_found_by_the_real_recovery() -> None:
    machine = Machine()
    machine.write(1, 2, 3)
    assert (machine.durable, machine.restart(power_loss=True)) == ([1, 2, 3], [1, 2, 3])
    machine.write(4)
    machine.disk.submit(TruncateLog(Zxid(EPOCH_1 + 2)))
    machine.wait()
    assert machine.restart() == [1, 2]


def test_failed_sync_stops_the_peer_before_it_acknowledges() -> None:
    machine = Machine()
    machine.write(1)
    machine.disk.fail_next_sync()
    machine.write(2, 3)
    assert machine.durable == [1]
    assert machine.failures == ["the disk failed: [Errno 5] Input/output error"]
    assert not machine.disk.holds(Zxid(EPOCH_1 + 2))


def test_restart_makes_writes_of_a_failed_sync_durable() -> None:
    machine = Machine()
    machine.disk.fail_next_sync()
    machine.write(1)
    assert machine.restart() == [1]
    assert machine.disk.holds(Zxid(EPOCH_1 + 1)) and machine.restart(power_loss=True) == [1]


def test_power_loss_drops_writes_of_a_failed_sync() -> None:
    """The process takes the write for synced, as the kernel does: the next fsync reports no error."""
    for seed in range(20):
        machine = Machine(seed)
        machine.disk.fail_next_sync()
        with planted_disks.failed_syncs_are_acknowledged():
            machine.write(1)
        assert machine.durable == [1] and not machine.disk.holds(Zxid(EPOCH_1 + 1))
        assert machine.restart(power_loss=True) == []


def test_power_loss_leaves_a_hole_between_failed_and_good_sync() -> None:
    """The record after the hole is intact, but looks like an unacknowledged record, so the peer has no vote."""
    for seed in range(5):
        machine = Machine(seed)
        machine.write(1)
        machine.disk.fail_next_sync()
        with planted_disks.failed_syncs_are_acknowledged():
            machine.write(2)
            machine.write(3)
        assert machine.durable == [1, 2, 3] and not machine.disk.holds(Zxid(EPOCH_1 + 2))
        assert (machine.restart(power_loss=True), machine.disk.complete) == ([1], False)


def test_log_that_starts_with_a_hole_is_not_read_past_it() -> None:
    machine = Machine()
    machine.disk.fail_next_sync()
    with planted_disks.failed_syncs_are_acknowledged():
        machine.write(1)
        machine.write(2)
    assert (machine.restart(power_loss=True), machine.disk.complete) == ([], False)


def test_recovery_without_rewrite_loses_writes_of_a_failed_sync() -> None:
    for seed in range(20):
        machine = Machine(seed)
        machine.disk.fail_next_sync()
        machine.write(1)
        with planted_disks.recovery_trusts_the_kernel():
            assert machine.restart() == [1], "the kernel shows it"
        assert machine.restart(power_loss=True) == []


def test_full_disk_stops_the_peer_with_one_line_and_no_loss() -> None:
    machine = Machine()
    machine.write(1)
    machine.disk.fill()
    machine.write(*range(2, 200))
    acknowledged = list(machine.durable)
    assert 1 <= len(acknowledged) < 199 and len(machine.failures) == 1
    assert machine.failures[0].startswith("the disk is full")
    assert machine.restart() == acknowledged
    machine.disk.submit(SaveAcceptedEpoch(Epoch(2)))
    machine.wait()
    assert len(machine.failures) == 2, "an epoch needs room, too"
    machine.disk.make_room()
    machine.restart()
    machine.write(acknowledged[-1] + 1)
    assert len(machine.failures) == 2 and machine.durable[-1] == acknowledged[-1] + 1


@pytest.mark.parametrize("fragile", [False, True], ids=["sound", "fragile"])
def test_power_loss_tears_only_unsynced_writes(fragile: bool) -> None:
    found = set()
    for seed in range(60):
        machine = Machine(seed, fragile=fragile)
        machine.write(1, 2)
        for number in range(3, 9):
            machine.disk.submit(Append([txn(number)]))
        machine.wait()
        found.add(tuple(machine.restart(power_loss=True)))
        assert machine.disk.complete or fragile, "a peer that only lost power is never in need of others"
    assert all(numbers[:2] == (1, 2) and numbers == tuple(range(1, len(numbers) + 1)) for numbers in found)
    assert len(found) > 4


def test_flipped_bit_is_found_at_the_next_start() -> None:
    for at in range(50):
        machine = Machine()
        machine.write(1, 2, 3)
        machine.disk._flips.append(Flip(Zxid(EPOCH_1 + 2), at / 50, False))
        found = machine.restart()
        assert [type(each) for each in machine.disk.found] == [LogDamageFound]
        closed_again = machine.disk.found[0].action == "closed again"
        assert (machine.disk.complete, found) == ((True, [1, 2, 3]) if closed_again else (False, [1]))


BEHIND_THE_FIRST = ReadLog(LinkId(1), Zxid(EPOCH_1 + 1), Zxid(0), 0.0)


def test_log_read_for_a_learner_stops_at_a_damaged_record() -> None:
    machine = Machine()
    machine.write(1, 2, 3, 4)
    assert [each.cxid for each in machine.disk.read_log(BEHIND_THE_FIRST) or []] == [2, 3, 4]
    machine.disk._flips.append(Flip(Zxid(EPOCH_1 + 3), 0.5, False))
    assert [each.cxid for each in machine.disk.read_log(BEHIND_THE_FIRST) or []] == [2]


def test_damaged_snapshot_is_replaced_by_older_one_and_log() -> None:
    machine = Machine()
    machine.write(1, 2)
    snapshot = msgspec.structs.replace(Service(CONFIG).snapshot(), zxid=Zxid(EPOCH_1 + 2))
    machine.disk.submit(SaveSnapshot(snapshot, replaces_history=False))
    machine.wait()
    machine.write(3)
    assert machine.restart() == [3]
    machine.disk._flips.append(Flip(snapshot.zxid, 0.5, True))
    assert machine.restart() == [1, 2, 3] and machine.disk.complete


@pytest.mark.parametrize(("quick", "waited"), [(True, [5_000_000]), (False, [])], ids=["quick disk", "slow disk"])
def test_event_loop_waits_for_stalled_sync_only_on_a_quick_disk(quick: bool, waited: list[int]) -> None:
    machine = Machine()
    machine.disk.slow_factor = 1 if quick else 5
    for _ in range(2 * WINDOW):
        machine.disk._pace.note(0, 100_000 if quick else 2_000_000)
    machine.disk.stall_next_sync(5_000_000)
    machine.write(1)
    assert (machine.durable, machine.waited_us) == ([1], waited)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_log_directory_fails_only_in_the_chosen_operation(operation: str) -> None:
    directory = FaultyLogDirectory(derive_random(1, "disk"))
    directory.create_partition("t-0")
    file = directory.open("t-0", "0.log")
    file.append(b"whole")
    actions: dict[str, Callable[[], object]] = {
        READ: lambda: file.read(0, 5),
        WRITE: lambda: file.append(b"more"),
        FLUSH: file.flush,
        TEXT: lambda: directory.write_text("", "checkpoint", "0"),
    }
    directory.fail((operation,))
    for name, action in actions.items():
        if name == operation:
            with pytest.raises(OSError, match=os.strerror(errno.EIO)):
                action()
        else:
            action()
    assert directory.mend() and not directory.mend()
    assert file.read(0, 5) == b"whole"


def test_full_log_directory_keeps_its_data_and_allows_truncation() -> None:
    directory = FaultyLogDirectory(derive_random(1, "disk"))
    directory.create_partition("t-0")
    file = directory.open("t-0", "0.log")
    file.append(b"whole")
    directory.fill()
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        file.append(b"more")
    assert file.read(0, 9) == b"whole"
    file.truncate(2)
    assert file.size() == 2


def test_broker_power_loss_keeps_a_prefix_of_unflushed_bytes() -> None:
    kept = set()
    for seed in range(40):
        disks = BrokerDisks(derive_random(seed, "disks"), 1)
        disks.directories[0].create_partition("t-0")
        file = disks.directories[0].open("t-0", "0.log")
        file.append(b"ab")
        file.flush()
        file.append(b"cde")
        disks.power_loss()
        (left,) = disks.files("t-0").values()
        kept.add(left.read(0, 9))
    assert kept == {b"ab", b"abc", b"abcd", b"abcde"}


@pytest.mark.parametrize("seed", SEEDS_IN_THE_SUITE)
def test_failing_disks_seed_keeps_invariants_and_recovers(seed: int) -> None:
    outcome = run_seed(seed, "disks")
    assert outcome.problems == []
    assert outcome.acknowledged_writes > 0


def test_same_seed_on_failing_disks_gives_the_same_history() -> None:
    first, second = SeedRun(PEERS_ALONE, DISKS), SeedRun(PEERS_ALONE, DISKS)
    assert first.execute().problems == second.execute().problems == []
    assert list(first.world.record.lines()) == list(second.world.record.lines())


@pytest.mark.parametrize("bug", SOON_FOUND)
def test_injected_disk_bug_is_found(bug: str) -> None:
    """Few seeds find these bugs; `planted_table.py` prints how many seeds each bug takes."""
    plant, first = planted_disks.PLANTED[bug], SOON_FOUND[bug]
    found = planted_table.search("disks", plant, SEEDS_TO_FIND_A_BUG, first_seed=first)
    assert found.seeds is not None, f"{bug}: not found in {SEEDS_TO_FIND_A_BUG} seeds"


def test_recovery_that_trusts_the_kernel_loses_a_transaction() -> None:
    """Seeds find this injected bug, too: it loses a transaction that two of three peers have logged."""
    with planted_disks.recovery_trusts_the_kernel():
        machine = Machine()
        machine.disk.fail_next_sync()
        machine.write(1)
        assert machine.restart() == [1]
        assert not machine.disk.holds(Zxid(EPOCH_1 + 1)) and machine.restart(power_loss=True) == []


def test_log_without_checksum_check_returns_a_changed_record() -> None:
    """Seeds find this injected bug as two peers that differ under one zxid."""
    with planted_disks.damaged_records_are_served():
        machine = Machine()
        machine.write(1, 2, 3)
        machine.disk._flips.append(Flip(Zxid(EPOCH_1 + 2), 0.6, False))
        assert (machine.restart(), machine.disk.complete) == ([1, 2, 3], True)
        assert machine.disk._log[1].body != txn(2).body


def test_every_disk_fault_has_a_docstring() -> None:
    assert all(kind.__doc__ for kind in (PEER_DISK_FAULTS | LOG_DIR_FAULTS).values())
