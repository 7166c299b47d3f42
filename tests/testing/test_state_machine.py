"""The state machine for Hypothesis: it passes on a correct cluster, and finds a lost record."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from zabka.testing import ClusterMachine


class UncleanMachine(ClusterMachine):
    """Machine for a cluster that may elect a leader without the acknowledged records."""

    brokers = 2
    partitions = 1
    settings = {"unclean.leader.election.enable": "true"}


def test_state_machine_passes_on_a_correct_cluster() -> None:
    run_state_machine_as_test(
        ClusterMachine, settings=settings(max_examples=5, stateful_step_count=10, deadline=None, derandomize=True)
    )


def test_state_machine_detects_losses_by_an_unclean_election() -> None:
    machine = UncleanMachine()
    machine.start(seed=1)
    world = machine.world
    leader = world.topics["orders"].partitions[0].leader
    follower = 3 - leader
    world.brokers[follower].kill()
    world.until(lambda: world.topics["orders"].partitions[0].isr == [leader])
    machine.produce(0, 2)
    assert machine.acknowledged == {(0, 0): "0", (0, 1): "1"}
    machine.consume(0)
    world.brokers[leader].kill()
    world.brokers[follower].start()
    world.until_leads(follower, "orders")
    with pytest.raises(AssertionError, match=r"orders-0: acknowledged and read, by offset: \{0: \('0', None\)"):
        machine.consume(0)
    machine.acknowledged.clear()
    machine.teardown()
    assert {broker.process for broker in world.brokers.values()} == {"down"}


def test_state_machine_acknowledges_nothing_without_a_leader() -> None:
    machine = ClusterMachine()
    machine.start(seed=2)
    machine.kill_broker(0)
    machine.kill_broker(0)
    machine.kill_peer(0)
    machine.cut(0, 0)
    machine.let_pass(10)
    machine.produce(1, 3)
    machine.heal()
    machine.restart(0)
    machine.no_checker_found_a_violation()
    machine.teardown()
