"""Random crashes, power losses, link failures and leader changes: acknowledged records survive clean elections."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.broker_sim.replication.replication_cluster import TP, Cluster, batch
from zabka.journal import events as e


class Storm:
    """A controller that only elects cleanly, a producer and a nemesis, all driven by one seed."""

    def __init__(self, seed: int, min_isr: int, power: bool) -> None:
        self.random = Random(seed)
        self.power = power
        self.cluster = Cluster(
            3, min_insync_replicas=min_isr, replica_fetch_max_bytes=self.random.choice((100, 1 << 20))
        )
        self.cluster.latency_ms = self.random.choice((1, 10, 40))
        self.cluster.create([1, 2, 3])
        self.answers: list[tuple[str, Any]] = []

    @property
    def state(self) -> dict[str, Any]:
        return self.cluster.states[TP]

    def step(self) -> None:
        cluster, random = self.cluster, self.random
        draw = random.random()
        alive = sorted(cluster.alive)
        cluster.alter_delay_ms = random.choice((1, 50, 600))
        if draw < 0.5:
            for _ in range(random.randrange(1, 12)):
                self.produce()
        elif draw < 0.6:
            a, b = random.sample([1, 2, 3], 2)
            cluster.cut.add((a, b))
        elif draw < 0.7:
            cluster.heal()
        elif draw < 0.8 and len(alive) > 1:
            self.kill(random.choice(alive))
        elif draw < 0.9 and len(alive) < 3:
            self.start(random.choice([b for b in (1, 2, 3) if b not in alive]))
        elif draw < 0.95:
            self.move()
        cluster.run(random.choice((0, 20, 100, 300, 900)))

    def produce(self) -> None:
        leader = self.state["leader"]
        if leader in self.cluster.alive:
            value = f"v{len(self.answers)}"
            self.answers.append((value, self.cluster.produce_later(leader, batch(value), acks=-1)))

    def kill(self, broker_id: int) -> None:
        power = self.power and self.random.random() < 0.4
        self.cluster.kill(broker_id, power)
        isr = [b for b in self.state["isr"] if b != broker_id] or [broker_id]
        live = [b for b in isr if b in self.cluster.alive]
        if self.state["leader"] == broker_id:
            self.cluster.elect(live[0] if live else -1, isr)
        elif isr != self.state["isr"]:
            self.cluster.elect(self.state["leader"], isr)

    def start(self, broker_id: int) -> None:
        self.cluster.restart(broker_id)
        if self.state["leader"] == -1 and broker_id in self.state["isr"]:
            self.cluster.elect(broker_id, self.state["isr"])

    def move(self) -> None:
        live = [b for b in self.state["isr"] if b in self.cluster.alive]
        if live and self.state["leader"] in self.cluster.alive:
            self.cluster.elect(self.random.choice(live), self.state["isr"])

    def calm(self) -> None:
        self.cluster.heal()
        for broker_id in (1, 2, 3):
            if broker_id not in self.cluster.alive:
                self.start(broker_id)
        self.cluster.until(lambda: sorted(self.state["isr"]) == [1, 2, 3], 120_000)
        self.cluster.produce(self.state["leader"], "the last")
        self.cluster.settle()


def run(seed: int, min_isr: int, power: bool) -> Storm:
    storm = Storm(seed, min_isr, power)
    for _ in range(100):
        storm.step()
    storm.calm()
    return storm


@pytest.mark.parametrize("seed", range(40))
def test_acknowledged_records_survive_crashes_and_broken_links(seed: int) -> None:
    storm = run(seed, min_isr=1 + seed % 2, power=False)
    cluster = storm.cluster
    assert cluster.violations() == []
    assert cluster[1].values == cluster[2].values == cluster[3].values
    acknowledged = [value for value, answer in storm.answers if answer.done() and not answer.result()[0].error]
    assert set(acknowledged) <= set(cluster[1].values)
    assert len(set(cluster[1].values)) == len(cluster[1].values)


@pytest.mark.parametrize("seed", range(100, 120))
def test_logs_converge_after_power_losses(seed: int) -> None:
    storm = run(seed, min_isr=2, power=True)
    cluster = storm.cluster
    assert cluster.violations() == []
    assert cluster[1].values == cluster[2].values == cluster[3].values


def test_same_seed_gives_the_same_journal() -> None:
    first, second = (run(7, 1, True).cluster.journal for _ in range(2))
    assert first == second
    assert any(isinstance(event, e.HighWatermarkMoved) for _, event in first)
