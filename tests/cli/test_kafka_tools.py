"""Ports of Kafka's command-line tools that need no Java: their inputs and outputs."""

from __future__ import annotations

import argparse
import asyncio
import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from unittest import mock

import pytest
from kio.schema.errors import ErrorCode

from zabka.broker_sim.configs.topic_config import TOPIC_KEYS
from zabka.cli import (
    broker_api_versions,
    consume,
    consumer_groups,
    delete_records,
    elect,
    get_offsets,
    log_dirs,
    produce,
    reassign,
    topics,
)
from zabka.cli.kafka_command import CommandFailed
from zabka.journal.events import TopicPartition
from zabka.kafka import record_batch
from zabka.kafka.client.admin_client import ConfigEntry
from zabka.kafka.client.client import Fetched, Isolation, PartitionInfo, TopicInfo
from zabka.kafka.client.group_admin import GroupInfo, MemberInfo
from zabka.kafka.client.partitioner import murmur2, partition_for
from zabka.kafka.client.reassignment_client import Ongoing
from zabka.kafka.ports import Endpoint
from zabka.kafka.record_batch import BatchUnreadable, Record
from zabka.testing.live.cluster import LiveCluster


def called(main: Callable[[list[str]], int], *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    """Call a tool and return its exit code, standard output and standard error."""
    out, err = io.TextIOWrapper(io.BytesIO(), write_through=True), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin))):
        try:
            code = main(list(arguments))
        except SystemExit as left:
            code = int(left.code or 0)
    assert isinstance(out.buffer, io.BytesIO)
    return code, out.buffer.getvalue().decode(), err.getvalue()


# ---- inputs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patterns", "matching"),
    [
        ("t:1", ["t-1"]),
        ("t:0-2", ["t-0", "t-1"]),
        ("t:1-", ["t-1", "t-2"]),
        ("t:-1", ["t-0"]),
        (":2", ["t-2", "other-2"]),
        ("o.*", ["other-0", "other-1", "other-2"]),
        ("t:0,other:1", ["t-0", "other-1"]),
    ],
)
def test_topic_partition_patterns_match_as_in_kafkas_tool(patterns: str, matching: list[str]) -> None:
    matches = get_offsets.any_of(patterns)
    everything = [TopicPartition(topic, number) for topic in ("t", "other") for number in range(3)]
    assert [str(each) for each in everything if matches(each)] == matching


@pytest.mark.parametrize("pattern", ["t:x", "t:1:2", "t:1-2-3"])
def test_invalid_pattern_is_rejected(pattern: str) -> None:
    with pytest.raises(CommandFailed, match="Invalid rule specification"):
        get_offsets.any_of(pattern)


def test_get_offsets_accepts_names_for_special_timestamps() -> None:
    assert [get_offsets.parse_time(text) for text in ("latest", "earliest", "-3", "12345")] == [-1, -2, -3, 12345]
    with pytest.raises(CommandFailed, match="Malformed time argument soon"):
        get_offsets.parse_time("soon")


def test_keys_are_assigned_to_partitions_as_in_kafka() -> None:
    # These values are from Kafka's own test of its murmur2.
    known = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536}
    assert {text: murmur2(text.encode()) for text in known} == {text: hash_ % 2**32 for text, hash_ in known.items()}
    assert [partition_for(None, 3, turn) for turn in range(4)] == [0, 1, 2, 0]
    assert partition_for(b"21", 3, 0) == partition_for(b"21", 3, 1)


def test_line_with_a_separator_is_split_into_key_and_value() -> None:
    assert produce.parse_line(b"a:b:c", b":", 1)[:2] == (b"a", b"b:c")
    assert produce.parse_line(b"a:b", None, 1)[:2] == (None, b"a:b")
    with pytest.raises(CommandFailed, match="No key separator found on line number 7: 'ab'"):
        produce.parse_line(b"ab", b":", 7)


def test_dates_and_durations_are_read_in_iso_8601() -> None:
    assert consumer_groups.at("1970-01-01T00:00:01.500") == 1500
    assert consumer_groups.at("1970-01-01T01:00:00+01:00") == 0
    assert consumer_groups.since("P1DT1H") < consumer_groups.since("PT30M")
    for text in ("P", "1H", "PT"):
        with pytest.raises(CommandFailed, match="is not a duration"):
            consumer_groups.since(text)
    with pytest.raises(CommandFailed, match="not a date"):
        consumer_groups.at("yesterday")


def test_binary_file_is_reported_by_path_without_its_content(tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    file.write_bytes(b"\xff" * 1_000_000)
    for read, what in ((delete_records.read_offsets, "offsets"), (elect.read_partitions, "partitions")):
        with pytest.raises(CommandFailed) as refused:
            read(file)
        assert str(refused.value) == f"cannot read {what} from {file}: it is not a text file"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a valid JSON"),
        ("[]", "not a valid JSON"),
        ('{"version":2}', "Not supported version field value 2"),
        ('{"partitions":[{"topic":"t"}]}', "cannot be read"),
    ],
)
def test_unreadable_reassignment_plan_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(text)
    with pytest.raises(CommandFailed, match=message):
        reassign.read_plan(plan)


def test_reassignment_throttles_the_old_and_the_added_replicas() -> None:
    assert reassign.move([1, 2], [2, 3]) == ((1, 2), (3,))


# ---- outputs ----------------------------------------------------------------------------------------------------


def test_consumer_group_output_equals_that_of_kafkas_tool(capsys: pytest.CaptureFixture[str]) -> None:
    partitions = (TopicPartition("t", 0), TopicPartition("t", 1))
    member = MemberInfo("reader-1", None, "reader", "/127.0.0.1", partitions)
    group = GroupInfo("g", Endpoint(2, "localhost", 9092), "Stable", "consumer", "range", (member,))
    consumer_groups._show_members(group, verbose=True)
    consumer_groups._show_state(group)
    consumer_groups._show_state(group._replace(state="Dead"))
    assert capsys.readouterr().out.split("\n") == [
        "",
        "GROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     ASSIGNMENT",
        "g               reader-1        /127.0.0.1      reader          2               (0,1)",
        "",
        "GROUP                     COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE           #MEMBERS",
        "g                         localhost:9092  (2)       range                Stable          1",
        "",
        "Error: Consumer group 'g' does not exist.",
        "",
    ]


@pytest.mark.parametrize(
    ("main", "arguments", "message"),
    [
        (consumer_groups.main, ["--list", "--describe"], "not allowed with argument"),
        (consumer_groups.main, ["--describe"], "[group] or [all-groups]"),
        (consumer_groups.main, ["--reset-offsets", "--group", "g", "--topic", "t"], "takes exactly one"),
        (consumer_groups.main, ["--reset-offsets", "--group", "g", "--to-latest"], "reset scopes"),
        (reassign.main, ["--execute"], "[reassignment-json-file]"),
        (reassign.main, ["--generate"], "--broker-list"),
        (consume.main, ["--topic", "t", "--offset", "3"], "partition is required"),
        (log_dirs.main, [], "--describe"),
        (delete_records.main, [], "--offset-json-file"),
    ],
)
def test_missing_option_is_reported_with_exit_code_1(
    main: Callable[[list[str]], int], arguments: list[str], message: str
) -> None:
    code, _, err = called(main, *arguments)
    assert code == 1 and message in err and "usage: zabka" in err


def test_moving_partition_is_not_listed_as_under_replicated() -> None:
    """A partition that is being moved does not count as under-replicated.

    Its line in the output lists the replicas that are being added and removed.
    """
    row = PartitionInfo(
        partition=0, leader=1, leader_epoch=0, replicas=(3, 1, 2), isr=(1, 2), offline=(), error=ErrorCode.none
    )
    moving = {TopicPartition("t", 0): Ongoing((3, 1, 2), (3,), (2,))}
    topic = topics._Topic(TopicInfo("t", "ID", ErrorCode.none, (row,)), {}, 1, moving)
    options = argparse.Namespace(
        under_replicated_partitions=False, unavailable_partitions=False, under_min_isr_partitions=False,
        at_min_isr_partitions=False, topics_with_overrides=False,
    )  # fmt: skip
    head, line = topics.describe(topic, {1, 2, 3}, options)
    assert "ReplicationFactor: 2\t" in head
    assert "\tIsr: 1,2\tAdding Replicas: 3\tRemoving Replicas: 2\tElr: N/A" in line
    options.under_replicated_partitions = True
    assert topics.describe(topic, {1, 2, 3}, options) == []


def test_config_overrides_are_listed_in_java_hash_map_order() -> None:
    # kafka-topics prints these three overrides in this order for a topic with 36 keys.
    names = [*TOPIC_KEYS]
    entries = [
        ConfigEntry(name=name, value="", source=1, read_only=False, is_sensitive=False, type=0, synonyms=())
        for name in names
    ]
    overridden = ("cleanup.policy", "compression.type", "segment.bytes")
    ordered = [entry.name for entry in topics.in_hash_order(entries) if entry.name in overridden]
    assert ordered == ["compression.type", "cleanup.policy", "segment.bytes"]


def test_api_names_equal_those_of_kafka() -> None:
    assert [broker_api_versions.api_name(key) for key in (2, 4, 18, 45)] == [
        "ListOffsets",
        "LeaderAndIsr",
        "ApiVersions",
        "AlterPartitionReassignments",
    ]


def test_record_passes_through_all_console_tools(zabka_cluster: LiveCluster, tmp_path: Path) -> None:
    here = ("--data", str(zabka_cluster.data))
    assert called(topics.main, "--create", "--topic", "t", "--replica-assignment", "1:2,2:3", *here)[0] == 0
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    lines = b"".join(b"k%d:v%d\n" % (n, n) for n in range(10))
    assert called(produce.main, "--topic", "t", *keyed, *here, stdin=lines) == (0, "", "")
    reading = ("--topic", "t", "--from-beginning", "--timeout-ms", "200", "--group", "g")
    code, out, err = called(consume.main, *reading, *here)
    assert (code, sorted(out.split())) == (0, [f"v{n}" for n in range(10)])
    assert err == "Processed a total of 10 messages\n"
    offsets = called(get_offsets.main, "--topic", "t", *here)[1]
    assert sum(int(line.split(":")[2]) for line in offsets.split()) == 10
    described = called(consumer_groups.main, "--describe", "--group", "g", *here)
    assert [line.split()[5] for line in described[1].splitlines()[2:]] == ["0", "0"]
    assert "Consumer group 'g' has no active members." in described[2]

    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": "t", "partition": 0, "replicas": [3, 1]}]}))
    moving = ("--reassignment-json-file", str(plan), *here)
    assert "Successfully started partition reassignment for t-0\n" in called(reassign.main, "--execute", *moving)[1]
    zabka_cluster.until(lambda: "t-0 is completed" in called(reassign.main, "--verify", *moving)[1])
    # The API returns the state that it last read from the ensemble, which may be slightly outdated.
    zabka_cluster.until(lambda: zabka_cluster.topics["t"].partitions[0].replicas == [3, 1])

    def brokers_with_a_log() -> list[int]:
        directories = json.loads(called(log_dirs.main, "--describe", *here)[1].splitlines()[2])
        rows = {broker["broker"]: broker["logDirs"][0]["partitions"] for broker in directories["brokers"]}
        return sorted(broker for broker in rows if any(row["partition"] == "t-0" for row in rows[broker]))

    # The tool returns before broker 2 has deleted its replica, so wait for that.
    zabka_cluster.until(lambda: brokers_with_a_log() == [1, 3])


SHOWN = consume._Shown(
    timestamp=True, partition=True, offset=True, headers=False, key=True, value=True, key_separator=b"\t",
    line_separator=b"\n", headers_separator=b",", null=b"null",
)  # fmt: skip


def test_record_without_a_key_is_printed_with_null_as_its_key() -> None:
    assert SHOWN.line(Record(None, b"v", 5, 7), 3) == b"CreateTime:5\tPartition:3\tOffset:7\tnull\tv\n"
    assert SHOWN._replace(null=b"-").line(Record(b"k", None, 5, 7), 3).endswith(b"\tk\t-\n")


def test_record_is_printed_with_headers_on_request() -> None:
    shown = SHOWN._replace(timestamp=False, partition=False, offset=False, headers=True)
    both = Record(b"k", b"v", headers=(("a", b"1"), ("b", None)))
    assert shown.line(both, 0) == b"a:1,b:null\tk\tv\n"
    assert shown.line(Record(b"k", b"v"), 0) == b"NO_HEADERS\tk\tv\n"


def read(*answers: Fetched | BatchUnreadable) -> tuple[dict[TopicPartition, int], str]:
    """Run a console consumer of t-0 whose fetches get these responses. Return its final positions and its output."""
    client = mock.Mock(fetch=mock.AsyncMock(side_effect=[*answers, CommandFailed("enough")]))
    positions, out = {TopicPartition("t", 0): 0}, io.TextIOWrapper(io.BytesIO(), write_through=True)
    with redirect_stdout(out), suppress(CommandFailed):
        asyncio.run(consume._Reader(client, positions, consume.LATEST, Isolation.READ_UNCOMMITTED).read(SHOWN, -1, -1))
    assert isinstance(out.buffer, io.BytesIO)
    return positions, out.buffer.getvalue().decode()


def test_log_append_time_is_labelled_in_the_output() -> None:
    stamped = record_batch.build_batch([Record(None, b"leader's", 5)], base_offset=1)
    header = record_batch.split_batches(stamped)
    assert header is not None
    marked, _ = record_batch.with_checksum(
        header[0]._replace(attributes=record_batch.LOG_APPEND_TIME), stamped[record_batch.HEADER_SIZE :]
    )
    data = record_batch.build_batch([Record(None, b"producer's", 4)]) + marked
    found = Fetched(record_batch.decode_records(data), 2, 0, 2, record_batch.stamped_offsets(data))
    times = [line.split("\t")[0] for line in read(found)[1].splitlines()]
    assert times == ["CreateTime:4", "LogAppendTime:5"]


def test_consumer_continues_after_compacted_records() -> None:
    assert read(Fetched([Record(None, b"v", 5, 7)], 100, 0, 90), Fetched([], 100, 0, 100))[0] == {
        TopicPartition("t", 0): 100
    }


def test_unreadable_records_are_reported_in_one_line() -> None:
    client = mock.Mock(fetch=mock.AsyncMock(side_effect=BatchUnreadable("a batch is damaged")))
    reader = consume._Reader(client, {TopicPartition("t", 0): 3}, consume.LATEST, Isolation.READ_UNCOMMITTED)
    with pytest.raises(CommandFailed, match="t-0: records from offset 3 cannot be read: a batch is damaged"):
        asyncio.run(reader.read(SHOWN, -1, -1))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--delete-offsets", "--all-groups", "--topic", "t"),
        ("--reset-offsets", "--group", "g", "--topic", "t", "--to-latest", "--execute", "--dry-run"),
    ],
)
def test_consumer_groups_rejects_options_without_effect(arguments: tuple[str, ...]) -> None:
    code, _, err = called(consumer_groups.main, *arguments, "--bootstrap-server", "127.0.0.1:1")
    assert code == 1
    assert err.startswith("Option [")
