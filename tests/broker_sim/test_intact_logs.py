"""What a broker says of its log when it registers: is it what it was when it was last registered? (KIP-966)"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker_sim.broker_world import Cluster, Node
from zabka.broker_sim.logs.checkpoints import alive, broker_epoch_alive, broker_epoch_of, clean_shutdown
from zabka.broker_sim.logs.file_log_directory import FileLogDirectory
from zabka.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from zabka.kafka.zk import znodes

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


def lose_power_and_wait_in_vain(cluster: Cluster, node: Node) -> None:
    """Another process waits for the session of the one before, so that no controller tells it its part."""
    node.kill()
    node.directory.power_loss()
    starting = node.boot().start()
    task = node.runtime.spawn(starting, "start")
    cluster.wait(1_000)
    assert node.broker.state == "registering"
    task.cancel()


def test_a_broker_that_was_never_stopped_does_not_claim_an_intact_log(cluster: Cluster) -> None:
    assert [is_intact(cluster, node) for node in cluster.nodes.values()] == [False, False, False]


def test_after_a_clean_stop_the_log_is_intact(cluster: Cluster) -> None:
    node = cluster.nodes[3]
    epoch = node.broker.controller.broker_epoch
    cluster.on(node, node.broker.stop())
    assert node.directory.read_text("", MARK) == f'{{"version":0,"brokerEpoch":{epoch}}}'
    restart(cluster, node)
    assert is_intact(cluster, node)


def test_after_a_kill_the_log_is_intact_for_the_kernel_has_what_the_process_wrote(cluster: Cluster) -> None:
    node = cluster.nodes[3]
    kill(cluster, node)
    restart(cluster, node)
    assert is_intact(cluster, node)
    kill(cluster, node)
    restart(cluster, node)
    assert is_intact(cluster, node)


def test_after_a_power_loss_the_log_may_not_be_intact_until_a_controller_has_told_the_broker_its_part(
    cluster: Cluster,
) -> None:
    node = cluster.nodes[3]
    kill(cluster, node)
    node.directory.power_loss()
    restart(cluster, node)
    assert not is_intact(cluster, node)
    kill(cluster, node)
    restart(cluster, node)
    assert is_intact(cluster, node)


def test_a_kill_before_a_controller_has_told_it_its_part_passes_on_what_the_process_found(cluster: Cluster) -> None:
    node = cluster.nodes[3]
    first_session = node.session.session_id
    lose_power_and_wait_in_vain(cluster, node)
    kill(cluster, node)
    cluster.ensemble.end_session(first_session)
    restart(cluster, node)
    assert not is_intact(cluster, node)


def tear(directory: MemoryLogDirectory) -> None:
    (file,) = directory.files("orders-0").values()
    file.append(b"half a batch")


def take_records_away(directory: MemoryLogDirectory) -> None:
    directory.write_text("", "replication-offset-checkpoint", "0\n1\norders 0 5\n")


@pytest.mark.parametrize("damage", [tear, take_records_away])
def test_after_a_kill_the_log_is_not_intact_where_it_is_shorter_or_damaged(
    cluster: Cluster, damage: Callable[[MemoryLogDirectory], None]
) -> None:
    node = cluster.nodes[3]
    kill(cluster, node)
    damage(node.directory)
    restart(cluster, node)
    assert not is_intact(cluster, node)


def test_after_a_kill_the_log_is_not_intact_where_a_disk_was_replaced(cluster: Cluster) -> None:
    node = cluster.nodes[3]
    kill(cluster, node)
    node.directory.wipe()
    restart(cluster, node)
    assert not is_intact(cluster, node)


def test_a_new_session_of_a_process_that_was_told_its_part_says_that_it_is(cluster: Cluster) -> None:
    node = cluster.nodes[3]
    assert not is_intact(cluster, node)
    cluster.expire(node)
    cluster.wait(2_000)
    assert is_intact(cluster, node)


def test_a_clean_stop_of_a_process_that_nobody_told_its_part_passes_on_what_it_found(cluster: Cluster) -> None:
    """It has waited in vain for the session of the process before; what that one lost is lost all the same."""
    node = cluster.nodes[3]
    lose_power_and_wait_in_vain(cluster, node)
    cluster.on(node, node.broker.stop())
    assert node.directory.read_text("", MARK) == '{"version":0,"brokerEpoch":-1}'


@pytest.mark.parametrize(
    "text", [None, "", "{}", '{"version":0}', "[]", '{"brokerEpoch":true}', "{", '{"brokerEpoch":"7"}']
)
def test_a_mark_that_names_no_registration_claims_no_intact_log(text: str | None) -> None:
    assert broker_epoch_of(text) == -1


@pytest.mark.parametrize(
    "text", [None, "", "{}", '{"version":0,"brokerEpoch":7}', alive(7, "before"), alive(-1, "now")]
)
def test_a_mark_from_before_a_reboot_claims_no_intact_log(text: str | None) -> None:
    assert broker_epoch_alive(text, "now") == -1
    assert broker_epoch_alive(alive(7, "now"), "now") == 7
    assert broker_epoch_alive(alive(7, ""), "") == -1


def test_the_boot_id_stays_the_same_while_the_system_runs(tmp_path: Path) -> None:
    assert FileLogDirectory(tmp_path).boot_id == FileLogDirectory(tmp_path).boot_id
    if sys.platform == "linux":
        assert len(FileLogDirectory(tmp_path).boot_id) == 36


def test_the_mark_of_a_clean_shutdown_is_written_as_kafka_writes_it() -> None:
    assert clean_shutdown(7) == '{"version":0,"brokerEpoch":7}'
    assert broker_epoch_of(clean_shutdown(7)) == 7
