"""The simulated network and disk give the guarantees of real ones, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from zabka.ensemble.ids import Epoch, SessionId, Zxid
from zabka.ensemble.records import OpCode
from zabka.ensemble.txn import DeleteTxn, Txn
from zabka.ensemble.zab.effects import Append, Barrier, SaveAcceptedEpoch, SaveCurrentEpoch
from zabka.simulation.disks.disk import SimDisk
from zabka.simulation.kernel.draws import derive_random
from zabka.simulation.kernel.runtime import SimRuntime
from zabka.simulation.kernel.scheduler import Scheduler
from zabka.simulation.network.network import Endpoint, Network


class Pair:
    """Two hosts, and a connection from a to b."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler, derive_random(1, "network"))
        self.a = self.network.boot("a", SimRuntime(self.scheduler, derive_random(1, "a")))
        self.b = self.network.boot("b", SimRuntime(self.scheduler, derive_random(1, "b")))
        self.got: list[Any] = []
        self.closed: list[str] = []
        self.failed: list[str] = []
        self.client: Endpoint | None = None
        self.network.listen(self.b, "port", self._accept)

    def _accept(self, endpoint: Endpoint) -> None:
        endpoint.on_item = self.got.append
        endpoint.on_close = lambda: self.closed.append("b")

    def _up(self, endpoint: Endpoint) -> None:
        self.client = endpoint
        endpoint.on_close = lambda: self.closed.append("a")

    def dial(self) -> Pair:
        self.network.dial(self.a, "b:port", self._up, self.failed.append)
        self.run()
        return self

    def run(self, ms: int = 100) -> None:
        self.scheduler.run_until(self.scheduler.now_us + ms * 1000)


def test_messages_arrive_in_sending_order() -> None:
    pair = Pair().dial()
    assert pair.client is not None
    for number in range(100):
        pair.client.send(number)
    pair.run()
    assert pair.got == list(range(100))


def test_messages_sent_during_a_cut_arrive_after_it_heals() -> None:
    pair = Pair().dial()
    assert pair.client is not None
    pair.network.cut("a", "b")
    pair.client.send("late")
    pair.run(10_000)
    assert pair.got == []
    pair.network.heal("a", "b")
    pair.run()
    assert pair.got == ["late"]


def test_network_cut_affects_one_direction() -> None:
    pair = Pair().dial()
    assert pair.client is not None
    pair.network.cut("b", "a")
    pair.client.send("through")
    pair.run()
    assert pair.got == ["through"]


def test_connection_attempt_during_a_cut_times_out() -> None:
    pair = Pair()
    pair.network.cut("a", "b")
    pair.dial()
    assert pair.failed == []
    pair.run(5_000)
    assert pair.failed == ["timed out"]


def test_port_without_a_listener_refuses_connections() -> None:
    pair = Pair()
    pair.network.dial(pair.a, "b:other", lambda endpoint: None, pair.failed.append)
    pair.run()
    assert pair.failed == ["refused"]


def test_killed_process_connections_close_after_its_last_message() -> None:
    pair = Pair().dial()
    assert pair.client is not None
    pair.client.send("last")
    assert pair.a.runtime is not None
    pair.a.runtime.stop()
    pair.network.kill("a")
    pair.run()
    assert (pair.got, pair.closed) == (["last"], ["b"])


def test_network_delay_is_added_to_every_message() -> None:
    pair = Pair().dial()
    assert pair.client is not None
    pair.network.delay("a", "b", 500_000)
    pair.client.send("slow")
    pair.run(400)
    assert pair.got == []
    pair.run(200)
    assert pair.got == ["slow"]


def txn(zxid: int) -> Txn:
    return Txn(SessionId(1), 1, Zxid(zxid), 0, OpCode.DELETE, DeleteTxn("/a"))


def disk() -> tuple[Scheduler, SimDisk, list[int]]:
    scheduler, durable = Scheduler(), list[int]()
    made = SimDisk(scheduler, derive_random(1, "disk"))
    made.attach(durable.append, lambda recovered: None)
    return scheduler, made, durable


def test_barrier_is_answered_when_earlier_writes_are_durable() -> None:
    scheduler, made, durable = disk()
    for zxid in (1, 2, 3):
        made.submit(Append([txn(zxid)]))
    made.submit(Barrier(9))
    assert durable == []
    scheduler.run_until(1_000_000)
    assert durable == [9]
    made.power_loss()
    assert [t.zxid for t in made.recover().txns] == [1, 2, 3]


def test_power_loss_can_drop_writes_without_a_barrier() -> None:
    kept = set()
    for seed in range(30):
        scheduler = Scheduler()
        made = SimDisk(scheduler, derive_random(seed, "disk"))
        made.attach(lambda token: None, lambda recovered: None)
        made.submit(Append([txn(1)]))
        scheduler.run_until(1_000_000)
        made.power_loss()
        kept.add(len(made.recover().txns))
    assert kept == {0, 1}


def test_crash_can_tear_an_append_after_any_transaction() -> None:
    kept = set()
    for seed in range(60):
        scheduler = Scheduler()
        made = SimDisk(scheduler, derive_random(seed, "disk"))
        made.attach(lambda token: None, lambda recovered: None)
        made.submit(Append([txn(1), txn(2), txn(3)]))
        made.crash()
        kept.add(tuple(t.zxid for t in made.recover().txns))
    assert kept == {(), (1,), (1, 2), (1, 2, 3)}


def test_process_crash_keeps_written_data() -> None:
    scheduler, made, _ = disk()
    made.submit(Append([txn(1)]))
    made.submit(SaveAcceptedEpoch(Epoch(7)))
    scheduler.run_until(1_000_000)
    made.crash()
    recovered = made.recover()
    assert ([t.zxid for t in recovered.txns], recovered.accepted_epoch) == ([1], 7)


def test_dead_process_gets_no_barrier_answer() -> None:
    scheduler, made, durable = disk()
    made.submit(Append([txn(1)]))
    made.submit(Barrier(1))
    made.crash()
    scheduler.run_until(1_000_000)
    assert durable == []


@pytest.mark.parametrize("factor", [1, 50])
def test_slow_disk_takes_its_factor_longer(factor: int) -> None:
    scheduler, made, durable = disk()
    made.slow_factor = factor
    made.submit(Barrier(1))
    while not durable:
        assert scheduler.step()
    assert 80 * factor <= scheduler.now_us <= 900 * factor


def test_rotten_log_is_incomplete_until_an_epoch_is_saved() -> None:
    scheduler, made, _ = disk()
    made.submit(Append([txn(zxid) for zxid in range(1, 30)]))
    made.submit(Barrier(1))
    scheduler.run_until(1_000_000)
    made.power_loss()
    made.rot()
    left = made.recover()
    assert len(left.txns) < 29 and not left.complete
    made.submit(SaveCurrentEpoch(Epoch(1)))
    scheduler.run_until(2_000_000)
    assert made.recover().complete
