"""Inputs that Kafka's tools reject: values that no request can contain, missing objects, and meaningless options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_kafka_tools import called
from zabka.api.kafka.kafka_client import addresses
from zabka.cli import (
    configs,
    consume,
    consumer_groups,
    delete_records,
    elect,
    get_offsets,
    java_numbers,
    produce,
    reassign,
    topics,
)
from zabka.cli.kafka_command import CommandFailed
from zabka.cli.reassign_plan import read_plan, read_topics
from zabka.testing.live.cluster import LiveCluster

NO_BROKER = ("--bootstrap-server", "127.0.0.1:1")
HUGE = "9" * 5000


@pytest.mark.parametrize(
    ("main", "arguments", "message"),
    [
        (topics.main, ["--create", "--topic", "t", "--partitions", "2147483648"], "does not fit into 32 bits"),
        (topics.main, ["--alter", "--topic", "t", "--partitions", HUGE], "is no whole number"),
        (elect.main, ["--election-type", "unclean", "--topic", "t", "--partition", "-2147483649"], "into 32 bits"),
        (consume.main, ["--topic", "t", "--partition", "99999999999", "--offset", "0"], "does not fit into 32 bits"),
        (produce.main, ["--topic", "t", "--timeout", "99999999999"], "does not fit into 32 bits"),
        (produce.main, ["--topic", "t", "--timeout", "0"], "--timeout must be at least 1"),
        (
            consumer_groups.main,
            ["--reset-offsets", "--group", "g", "--topic", "t", "--to-offset", "9223372036854775808"],
            "does not fit into 64 bits",
        ),
    ],
)
def test_number_outside_the_range_of_the_protocol_is_rejected(
    main: Callable[[list[str]], int], arguments: list[str], message: str
) -> None:
    code, out, err = called(main, *arguments, *NO_BROKER)
    assert (code, out) == (1, "")
    assert message in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--alter", "--topic", "t", "--broker", "1"], "may be specified together"),
        (["--alter", "--topic", "t", "--entity-type", "brokers"], "in conjunction with specific entity flags"),
        (["--alter", "--broker", "1", "--entity-default"], "in conjunction with specific entity flags"),
        (["--alter", "--entity-type", "brokers", "--entity-name", "1", "--entity-default"], "not be used together"),
        (["--describe", "--topic", "t"], 'Option "[describe]" can\'t be used with option "[add-config]"'),
    ],
)
def test_command_with_two_entities_is_rejected(arguments: list[str], message: str) -> None:
    code, out, err = called(configs.main, *arguments, "--add-config", "a=b", *NO_BROKER)
    assert (code, out) == (1, "")
    assert message in err


@pytest.mark.parametrize(
    "main_and_arguments",
    [
        (topics.main, "--create", "--topic", "\udcff"),
        (topics.main, "--create", "--topic", "t", "--config", "retention.ms=\udcff"),
        (configs.main, "--describe", "--broker", "\udcff"),
        (consumer_groups.main, "--describe", "--group", "\udcff"),
        (consume.main, "--topic", "\udcff"),
    ],
)
def test_name_that_is_not_utf_8_is_rejected(
    main_and_arguments: tuple[Callable[[list[str]], int], str],
) -> None:
    main, *arguments = main_and_arguments
    _, out, err = called(main, *arguments, *NO_BROKER)
    assert "\\udcff' is no UTF-8" in out + err


def test_numbers_in_arguments_are_parsed_as_in_java() -> None:
    assert java_numbers.java_int("-2147483648") == -(2**31)
    assert java_numbers.java_long("9223372036854775807") == 2**63 - 1
    with pytest.raises(argparse.ArgumentTypeError):
        java_numbers.java_long("-9223372036854775809")
    with pytest.raises(CommandFailed, match="Malformed time argument"):
        get_offsets.parse_time("9223372036854775808")
    with pytest.raises(CommandFailed, match="Invalid rule"):
        get_offsets.any_of(f"t:{HUGE}")


@pytest.mark.parametrize("row", ['{"topic":"t","partition":1e999,"replicas":[1],"offset":0}',
                                 '{"topic":"t","partition":99999999999,"replicas":[1],"offset":0}',
                                 '{"topic":"\\udcff","partition":0,"replicas":[1],"offset":0}',
                                 '{"topic":7,"partition":0,"replicas":[1],"offset":0}', '7'])  # fmt: skip
def test_plan_entry_that_cannot_be_encoded_is_rejected(row: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_text(f'{{"partitions":[{row}],"topics":[{row}]}}')
    for read in (read_plan, elect.read_partitions, delete_records.read_offsets):
        with pytest.raises(CommandFailed):
            read(file)


def test_broker_ids_are_32_bit_and_offsets_64_bit_numbers(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    # The string "12" is the single number 12, not the list of brokers 1 and 2.
    file.write_text('{"partitions":[{"topic":"t","partition":0,"replicas":"12","offset":9223372036854775808}]}')
    for read in (read_plan, delete_records.read_offsets):
        with pytest.raises(CommandFailed):
            read(file)


@pytest.mark.parametrize("text", ['{"topics":["orders"]}', '{"topics":null}', '{"topics":[{"name":"orders"}]}'])
def test_unreadable_file_of_topics_to_move_is_rejected(text: str, tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    file.write_text(text)
    with pytest.raises(CommandFailed, match="cannot be read"):
        read_topics(file)


@pytest.mark.parametrize("text", ["P999999999999D", "PT1.2.3S", "P1000000D"])
def test_invalid_or_too_long_duration_is_rejected(text: str) -> None:
    with pytest.raises(CommandFailed):
        consumer_groups.since(text)


@pytest.mark.parametrize("text", ["localhost:65536", "localhost:99999999", "localhost:0", "localhost:²"])
def test_invalid_port_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        addresses(text)


def test_empty_bootstrap_server_is_rejected_despite_data_option(zabka_cluster: LiveCluster) -> None:
    here = ("--data", str(zabka_cluster.data))
    assert called(topics.main, "--list", "--bootstrap-server", "", *here)[0] == 1


def test_change_of_a_missing_object_fails(zabka_cluster: LiveCluster, tmp_path: Path) -> None:
    here = ("--data", str(zabka_cluster.data))
    for option in ("--partitions", "--replication-factor"):
        code, out, _ = called(topics.main, "--create", "--topic", "none", option, "0", *here)
        assert (code, "Created" in out) == (1, False)
    zabka_cluster.topics.create("there", config={"retention.ms": "1000"})

    reset = ("--reset-offsets", "--group", "g", "--topic", "there:0,7", "--to-earliest", "--execute")
    assert 'The partitions "there-7" do not exist' in called(consumer_groups.main, *reset, *here)[1]
    assert "does not exist" in called(consumer_groups.main, "--describe", "--group", "g", *here)[1]
    assert called(consumer_groups.main, *(each.replace(",7", "") for each in reset), *here)[0] == 0
    deleting = ("--delete-offsets", "--group", "g", "--topic", "there:7")
    output = called(consumer_groups.main, *deleting, *here)[1]
    assert "Encounter some partition level error" in output and "Request succeed" not in output

    altering = ("--alter", "--topic", "there", "--delete-config")
    code, _, err = called(configs.main, *altering, "retention.mss", *here)
    assert (code, "Invalid config(s): retention.mss" in err) == (1, True)
    assert zabka_cluster.topics["there"].config == {"retention.ms": "1000"}
    assert called(configs.main, *altering, "retention.ms", *here)[0] == 0
    zabka_cluster.until(lambda: not zabka_cluster.topics["there"].config, 10)
    added = ("--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "log.retention.ms=9000")
    assert called(configs.main, *added, *here)[0] == 0
    taken = ("--alter", "--entity-type", "brokers", "--entity-default", "--delete-config", "log.retention.ms")
    assert called(configs.main, *taken, *here)[0] == 0
    zabka_cluster.until(lambda: called(configs.main, *taken, *here)[0] == 1, 10)
    plan = tmp_path / "plan.json"
    plan.write_text('{"topics":["there"]}')
    code, out, _ = called(
        reassign.main, "--generate", "--topics-to-move-json-file", str(plan), "--broker-list", "1", *here
    )
    assert code == 1 and "cannot be read" in out
