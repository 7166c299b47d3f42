"""Jobs in threads of a simulated process: each step is an event, and none runs after the process has ended."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from tests.simulation.filesystem.workers import STARTS_US_MAX, SimWorkers
from tests.virtual_time.runtime import SimRuntime
from zabka.ensemble.runtime.workers import GO_ON, WAIT, Job, Pause
from zabka.ensemble.txnlog.files import exists, read_bytes, sync_file, write_bytes
from zabka.simulation.engine.scheduler import Scheduler
from zabka.simulation.filesystem.process_files import ProcessFiles
from zabka.simulation.filesystem.volume import Volume

FILE = Path("/file")


class Host:
    """Simulated host with one process."""

    def __init__(self, seed: int = 1) -> None:
        self.scheduler = Scheduler()
        self.volume = Volume(Random(seed), lambda: self.scheduler.now_us)
        self.files = ProcessFiles(self.volume)
        self.lost_power = 0
        self.told: list[tuple[int, str]] = []
        runtime = SimRuntime(self.scheduler, Random(seed))
        self.workers = SimWorkers(self.scheduler, Random(seed), self.files, runtime.future, self._lose)

    def _lose(self) -> None:
        self.lost_power += 1
        self.volume.lose_power()

    def tell(self, what: str) -> None:
        self.told.append((self.scheduler.now_us, what))

    def run(self, until_us: int = 10_000_000) -> None:
        self.scheduler.run_until(until_us)


def test_step_of_a_worker_runs_later_as_one_event() -> None:
    host = Host()

    def job() -> Job:
        host.tell("one")
        yield GO_ON
        host.tell("two")

    work = host.workers.start(job(), "a job")
    assert host.told == []
    host.run()
    assert [what for _, what in host.told] == ["one", "two"] and not work.is_under_way()
    assert all(at <= 2 * STARTS_US_MAX for at, _ in host.told)


def test_callback_of_a_worker_waits_for_its_disk_operations() -> None:
    host = Host()
    host.volume.stall_next_sync(1_000_000)

    def job() -> Job:
        write_bytes(FILE, b"x", host.files)
        host.workers.post(host.tell, "written")
        sync_file(FILE, host.files)
        host.workers.post(host.tell, "synced")
        return
        yield GO_ON

    host.workers.start(job(), "a job")
    host.run()
    (written_us, _), (synced_us, _) = host.told
    assert written_us < 1000 and synced_us > 1_000_000


def test_job_woken_during_a_disk_sync_continues_after_it() -> None:
    host = Host()
    host.volume.stall_next_sync(1_000_000)

    def job() -> Job:
        write_bytes(FILE, b"x", host.files)
        sync_file(FILE, host.files)
        yield WAIT
        host.tell("woken")

    work = host.workers.start(job(), "a job")
    host.run(500_000)
    work.wake()
    host.run()
    assert host.told[0][0] > 1_000_000


def test_waiting_job_continues_only_when_it_is_woken() -> None:
    host = Host()

    def job() -> Job:
        yield WAIT
        host.tell("woken")

    work = host.workers.start(job(), "a job")
    host.run(5_000_000)
    assert host.told == []
    work.wake()
    host.run()
    assert [what for _, what in host.told] == ["woken"]


def test_pause_takes_its_full_time_unless_interruptible() -> None:
    host = Host()

    def job(what: str, pause: Pause) -> Job:
        yield pause
        host.tell(what)

    works = [
        host.workers.start(job("deaf", Pause(2.0)), "a job"),
        host.workers.start(job("heeds", Pause(2.0, heeds=True)), "a job"),
    ]
    host.run(1_000_000)
    for work in works:
        work.wake()
    host.run()
    assert [what for _, what in host.told] == ["heeds", "deaf"]
    assert host.told[0][0] < 1_100_000 and host.told[1][0] >= 2_000_000


def test_joining_a_job_runs_its_steps_immediately() -> None:
    host = Host()

    def job() -> Job:
        for _ in range(3):
            yield Pause(100)
        host.tell("done")

    host.workers.start(job(), "a job").join()
    assert host.told == [(0, "done")]


def test_joining_a_waiting_job_raises_an_error() -> None:
    host = Host()

    def job() -> Job:
        yield WAIT

    with pytest.raises(AssertionError, match="waits itself"):
        host.workers.start(job(), "a job").join()


def test_killed_process_runs_no_further_step_and_gets_no_report() -> None:
    host = Host()

    def job() -> Job:
        write_bytes(FILE, b"x", host.files)
        host.workers.post(host.tell, "written")
        yield GO_ON
        host.tell("went on")

    host.workers.start(job(), "a job")
    host.scheduler.step()
    host.workers.kill()
    host.run()
    assert host.told == []
    assert read_bytes(FILE, ProcessFiles(host.volume)) == b"x"


def test_power_loss_during_a_job_step_ends_its_process_there() -> None:
    host = Host()

    def job() -> Job:
        descriptor = host.files.open(FILE, os.O_RDWR | os.O_CREAT)
        host.files.fsync(descriptor)
        host.tell("went on")
        yield GO_ON

    host.volume.lose_power_after(1)
    host.workers.start(job(), "a job")
    host.run()
    assert host.lost_power == 1 and host.told == []
    exists(FILE, ProcessFiles(host.volume))


def test_worker_call_returns_when_its_disk_operations_are_done() -> None:
    host = Host()
    runtime = SimRuntime(host.scheduler, Random(1))

    async def ask() -> None:
        await host.workers.call(write_bytes, FILE, b"x", host.files)
        host.tell((await host.workers.call(read_bytes, FILE, host.files)).decode())

    runtime.spawn(ask(), "ask")
    host.run()
    assert [what for _, what in host.told] == ["x"]
