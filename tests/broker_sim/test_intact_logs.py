"""What a broker says of its log when it registers: is it what it was when it was last registered? (KIP-966)"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from broker_world import Cluster, Node

from broker_sim.logs.checkpoints import broker_epoch_of, clean_shutdown
from controller import znodes

MARK = ".kafka_cleanshutdown"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    made.start()
    made.run(made.client.create_topic("orders", 1, 3))
    made.wait(500)
    yield made
    made.stop_all()


def is_intact(cluster: Cluster, node: Node) -> bool:
    registered = znodes.decode_broker(
        node.broker.config.broker_id, cluster.ensemble.data(znodes.broker_path(node.broker.config.broker_id))
    )
    assert registered is not None
    return registered.log_intact


def restart(cluster: Cluster, node: Node) -> None:
    cluster.on(node, node.boot().start())
    cluster.wait(500)


def kill(cluster: Cluster, node: Node) -> None:
    session = node.session.session_id
    node.kill()
    cluster.ensemble.end_session(session)


def test_a_broker_that_has_never_been_stopped_cannot_say(cluster: Cluster) -> None:
    assert [is_intact(cluster, node) for node in cluster.nodes.values()] == [False, False, False]


def test_after_a_clean_stop_it_is(cluster: Cluster) -> None:
    node = cluster.nodes[3]
    epoch = node.broker.controller.broker_epoch
    cluster.on(node, node.broker.stop())
    assert node.directory.read_text("", MARK) == f'{{"version":0,"brokerEpoch":{epoch}}}'
    restart(cluster, node)
    assert is_intact(cluster, node)


def test_after_a_kill_it_may_not_be(cluster: Cluster) -> None:
    node = cluster.nodes[3]
    cluster.on(node, node.broker.stop())
    restart(cluster, node)
    kill(cluster, node)
    restart(cluster, node)
    assert not is_intact(cluster, node)


def test_a_new_session_of_a_process_that_was_told_its_part_says_that_it_is(cluster: Cluster) -> None:
    node = cluster.nodes[3]
    assert not is_intact(cluster, node)
    cluster.expire(node)
    cluster.wait(2_000)
    assert is_intact(cluster, node)


def test_a_clean_stop_of_a_process_that_nobody_told_its_part_passes_on_what_it_found(cluster: Cluster) -> None:
    """It has waited in vain for the session of a process that was killed; what that one lost is lost all the same."""
    node = cluster.nodes[3]
    node.kill()
    starting = node.boot().start()
    task = node.runtime.spawn(starting, "start")
    cluster.wait(1_000)
    assert node.broker.state == "registering"
    task.cancel()
    cluster.on(node, node.broker.stop())
    assert node.directory.read_text("", MARK) == '{"version":0,"brokerEpoch":-1}'


@pytest.mark.parametrize(
    "text", [None, "", "{}", '{"version":0}', "[]", '{"brokerEpoch":true}', "{", '{"brokerEpoch":"7"}']
)
def test_a_mark_that_names_no_registration_says_nothing(text: str | None) -> None:
    assert broker_epoch_of(text) == -1


def test_the_mark_is_kafkas() -> None:
    assert clean_shutdown(7) == '{"version":0,"brokerEpoch":7}'
    assert broker_epoch_of(clean_shutdown(7)) == 7
