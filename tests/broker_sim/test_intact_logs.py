"""The log state in a broker's registration: whether the broker lost records since its previous registration
(KIP-966).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker_sim.broker_world import Cluster, Node
from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from zabka.broker_sim.logs.checkpoints import alive, broker_epoch_alive, broker_epoch_of, clean_shutdown
from zabka.broker_sim.logs.file_log_directory import FileLogDirectory
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
    """Cut the node's power, and start a process that stops before it is registered.

    The process waits for its predecessor's session to expire, so no controller assigns it roles.
    """
    node.kill()
    node.directory.power_loss()
    starting = node.boot().start()
    task = node.runtime.spawn(starting, "start")
    cluster.wait(1_000)
    assert node.broker.state == "registering"
    task.cancel()


def test_first_start_of_a_broker_registers_its_log_as_not_intact(cluster: Cluster) -> None:
    assert [is_intact(cluster, node) for node in cluster.nodes.values()] == [False, False, False]


def test_log_is_intact_after_a_clean_shutdown(cluster: Cluster) -> None:
    node = cluster.nodes[3]
    epoch = node.broker.controller.broker_epoch
    cluster.on(node, node.broker.stop())
    assert node.directory.read_text("", MARK) == f'{{"version":0,"brokerEpoch":{epoch}}}'
    restart(cluster, node)
    assert is_intact(cluster, node)


def test_log_is_intact_after_a_kill(cluster: Cluster) -> None:
    node = cluster.nodes[3]
    kill(cluster, node)
    restart(cluster, node)
    assert is_intact(cluster, node)
    kill(cluster, node)
    restart(cluster, node)
    assert is_intact(cluster, node)


def test_log_is_intact_at_the_second_restart_after_power_loss(
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


def test_kill_before_role_assignment_leaves_log_not_intact(cluster: Cluster) -> None:
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
def test_shorter_or_damaged_log_is_not_intact_after_a_kill(
    cluster: Cluster, damage: Callable[[MemoryLogDirectory], None]
) -> None:
    node = cluster.nodes[3]
    kill(cluster, node)
    damage(node.directory)
    restart(cluster, node)
    assert not is_intact(cluster, node)


def test_log_is_not_intact_after_a_disk_was_replaced(cluster: Cluster) -> None:
    node = cluster.nodes[3]
    kill(cluster, node)
    node.directory.wipe()
    restart(cluster, node)
    assert not is_intact(cluster, node)


def test_running_broker_registers_intact_logs_in_a_new_session(cluster: Cluster) -> None:
    node = cluster.nodes[3]
    assert not is_intact(cluster, node)
    cluster.expire(node)
    cluster.wait(2_000)
    assert is_intact(cluster, node)


def test_clean_stop_before_registration_marks_no_log_as_intact(cluster: Cluster) -> None:
    """A process that is stopped before its registration does not report its logs as intact.

    The previous process lost its power, so it may have lost records.
    """
    node = cluster.nodes[3]
    lose_power_and_wait_in_vain(cluster, node)
    cluster.on(node, node.broker.stop())
    assert node.directory.read_text("", MARK) == '{"version":0,"brokerEpoch":-1}'


@pytest.mark.parametrize(
    "text", [None, "", "{}", '{"version":0}', "[]", '{"brokerEpoch":true}', "{", '{"brokerEpoch":"7"}']
)
def test_log_without_epoch_in_clean_shutdown_file_is_not_intact(text: str | None) -> None:
    assert broker_epoch_of(text) == -1


@pytest.mark.parametrize(
    "text", [None, "", "{}", '{"version":0,"brokerEpoch":7}', alive(7, "before"), alive(-1, "now")]
)
def test_clean_shutdown_file_from_before_a_reboot_is_ignored(text: str | None) -> None:
    assert broker_epoch_alive(text, "now") == -1
    assert broker_epoch_alive(alive(7, "now"), "now") == 7
    assert broker_epoch_alive(alive(7, ""), "") == -1


def test_boot_id_is_constant_until_the_system_reboots(tmp_path: Path) -> None:
    assert FileLogDirectory(tmp_path).boot_id == FileLogDirectory(tmp_path).boot_id
    if sys.platform == "linux":
        assert len(FileLogDirectory(tmp_path).boot_id) == 36


def test_clean_shutdown_file_has_kafkas_format() -> None:
    assert clean_shutdown(7) == '{"version":0,"brokerEpoch":7}'
    assert broker_epoch_of(clean_shutdown(7)) == 7
