"""`zabka reassign`: the plans that it computes, and moves of replicas between log directories."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker_sim import broker_world
from tests.broker_sim.logs.memory_log_directory import MemoryLogDirectory
from zabka.cli import reassign
from zabka.cli.kafka_command import CommandFailed, TerseFailure, hash_order
from zabka.cli.log_dir_moves import Place, begin_moves, find_places, is_under_way, status
from zabka.cli.reassign_plan import TopicPartitionReplica, as_json, checked, read_plan
from zabka.journal.events import TopicPartition
from zabka.kafka.client.reassignment_client import Ongoing, alter_reassignments

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LEFT, RIGHT = "/left", "/right"


def plan_file(path: Path, *rows: tuple[str, int, list[int], list[str] | None]) -> Path:
    partitions = [
        {"topic": topic, "partition": number, "replicas": replicas, **({"log_dirs": dirs} if dirs else {})}
        for topic, number, replicas, dirs in rows
    ]
    file = path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return file


# ---- reassignment plans ---------------------------------------------------------------------------------------


def test_plan_ignores_log_directories_given_as_any(tmp_path: Path) -> None:
    plan = read_plan(plan_file(tmp_path, ("t", 0, [1, 2], ["any", LEFT]), ("t", 1, [2], None)))
    assert plan.rows == [(T0, [1, 2]), (T1, [2])]
    assert plan.directories == {TopicPartitionReplica(2, T0): LEFT}


def test_plan_requires_one_log_directory_per_replica(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed) as refused:
        read_plan(plan_file(tmp_path, ("t", 0, [1, 2], [LEFT])))
    assert str(refused.value) == (
        "Size of replicas list [1, 2] is different from size of log dirs list [/left] for partition t-0"
    )


def test_rollback_plan_lets_the_brokers_choose_log_directories() -> None:
    rows = '{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}'
    assert as_json({T0: [1, 2]}) == f'{{"version":1,"partitions":[{rows}]}}'


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "Partition reassignment list cannot be empty"),
        ([("t", 0, [], None)], "Partition replica list cannot be empty"),
        ([("t", 0, [1], None), ("t", 0, [2], None)], "contains duplicate topic partitions: t-0"),
        ([("t", 0, [1, 1], None)], "may not contain duplicate entries: t-0 contains multiple entries for 1"),
    ],
)
def test_invalid_plan_is_rejected(tmp_path: Path, rows: list[tuple[str, int, list[int], None]], message: str) -> None:
    with pytest.raises(CommandFailed, match=message):
        checked(read_plan(plan_file(tmp_path, *rows)))


def test_replica_being_added_is_not_a_source_of_a_move() -> None:
    ongoing = {T0: Ongoing((1, 2, 3), (3,), (1,))}
    found = reassign.moves(ongoing, {T1: [2, 3]}, {T1: [1, 2]})
    assert found == {T0: ((1, 2), (3,)), T1: ((1, 2), (3,))}
    again = reassign.moves(ongoing, {T0: [2, 4]}, {T0: [1, 2, 3]})
    assert again == {T0: ((1, 2), (4,))}


def test_partitions_are_ordered_as_in_a_java_hash_map() -> None:
    names = ["orders", "a", "payments", "b", "x1", "hello", "t.u", "v_w"]
    assert hash_order(names) == ["a", "b", "payments", "x1", "orders", "t.u", "hello", "v_w"]


# ---- a replica's log directory, as Kafka's tool prints it -------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "message", "under_way"),
    [
        (Place(RIGHT), "Reassignment of replica t-0-2 completed successfully.", False),
        (Place(LEFT), "Partition t-0 on broker 2 is not being moved from log dir /left to /right.", False),
        (Place(LEFT, RIGHT), "Reassignment of replica t-0-2 is still in progress.", True),
        (
            Place(LEFT, "/third"),
            "Partition t-0 on broker 2 is being moved to log dir /third instead of /right.",
            True,
        ),
        (
            Place(),
            "Partition t-0 is not found in any live log dir on broker 2. There is likely an offline log directory on "
            "the broker.",
            True,
        ),
    ],
)
def test_move_progress_output_equals_that_of_kafkas_tool(place: Place, message: str, under_way: bool) -> None:
    assert status(TopicPartitionReplica(2, T0), RIGHT, place) == message
    assert is_under_way(place) == under_way


# ---- moves between log directories ----------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Iterator[broker_world.Cluster]:
    made = broker_world.Cluster(2, log_dirs=f"{LEFT},{RIGHT}")
    for node in made.nodes.values():
        node.more_ports = {"log_directories": [node.directory, MemoryLogDirectory()]}
    made.start()
    made.run(made.client.create_topic("t", assignment={0: (1,)}))
    yield made
    made.stop_all()


def lies_in(cluster: broker_world.Cluster, broker_id: int) -> Place:
    replica = TopicPartitionReplica(broker_id, T0)
    places: dict[TopicPartitionReplica, Place] = cluster.run(find_places(cluster.client, {replica: RIGHT}))
    return places[replica]


def refused(cluster: broker_world.Cluster, work: Coroutine[Any, Any, None]) -> tuple[type, str] | None:
    async def attempt() -> tuple[type, str] | None:
        try:
            await work
        except CommandFailed as failure:
            return type(failure), str(failure)
        return None

    found: tuple[type, str] | None = cluster.run(attempt())
    return found


def test_replica_is_moved_to_the_planned_directory(
    cluster: broker_world.Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    here = lies_in(cluster, 1).current
    other = RIGHT if here == LEFT else LEFT
    target = {TopicPartitionReplica(1, T0): other}
    cluster.run(begin_moves(cluster.client, cluster.runtime, target, 10_000))
    assert capsys.readouterr().out == (
        f"Successfully started moving log directory to {other} for replica t-0 with broker 1 \n"
    )
    cluster.wait(3_000)
    assert lies_in(cluster, 1) == Place(other)


def test_move_waits_for_a_replica_that_is_being_added(
    cluster: broker_world.Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    async def work() -> None:
        target = {TopicPartitionReplica(2, T0): RIGHT}
        moving = cluster.runtime.spawn(begin_moves(cluster.client, cluster.runtime, target, 10_000), "moves")
        await cluster.runtime.sleep(300)
        assert not capsys.readouterr().out
        await alter_reassignments(cluster.client, {T0: [2, 1]})
        await cluster.runtime.sleep(1_000)
        assert moving.done()

    cluster.run(work())
    assert "to /right for replica t-0 with broker 2" in capsys.readouterr().out
    cluster.wait(3_000)
    assert lies_in(cluster, 2) == Place(RIGHT)


def test_missing_replicas_are_listed_after_the_timeout(cluster: broker_world.Cluster) -> None:
    target = {TopicPartitionReplica(2, T0): RIGHT}
    began_us = cluster.scheduler.now_us
    assert refused(cluster, begin_moves(cluster.client, cluster.runtime, target, 2_000)) == (
        TerseFailure,
        "Timed out before log directory move could be started for: t-0-2",
    )
    assert 2_000 <= (cluster.scheduler.now_us - began_us) // 1000 < 2_300


def test_log_directory_that_a_broker_lacks_is_rejected(cluster: broker_world.Cluster) -> None:
    target = {TopicPartitionReplica(1, T0): "/elsewhere"}
    assert refused(cluster, begin_moves(cluster.client, cluster.runtime, target, 2_000)) == (
        CommandFailed,
        "Failed to alter dir for t-0-1\nCaused by: LOG_DIR_NOT_FOUND",
    )


def test_replica_in_an_offline_directory_has_no_location(cluster: broker_world.Cluster) -> None:
    assert lies_in(cluster, 2) == Place()
