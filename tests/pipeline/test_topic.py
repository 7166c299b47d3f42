"""Journals published to a Kafka topic: tables built from the topic have the same rows as tables built from the
files.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from zabka.journal.events import TopicPartition
from zabka.kafka.client.admin_client import AdminClient
from zabka.kafka.client.client_errors import KafkaUnavailable
from zabka.kafka.record_batch import Record
from zabka.pipeline import jobs, places, stream, versions
from zabka.pipeline.gold import TABLES
from zabka.pipeline.places import Uri, below, place_of
from zabka.pipeline.ranges import SCHEMA, FileRange, Row, complete_bytes, read_range
from zabka.pipeline.runs import journal_files
from zabka.pipeline.topic import connection
from zabka.pipeline.topic.alone import NotAlone, alone
from zabka.pipeline.topic.connection import LostRecords, TopicPlace, asked, parse_place, partitions_of, records_between
from zabka.pipeline.topic.publish import Publisher, Recreated, publish
from zabka.pipeline.topic.records import record_of, rows_of_records
from zabka.pipeline.topic.source import LATEST, SPAN_RECORDS, TOPIC_ID, Span, TopicSource, advanced, spans


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("kafka://127.0.0.1:9092/journal", TopicPlace("127.0.0.1:9092", "journal")),
        ("kafka:/a:1,b:2/j.o-u_r", TopicPlace("a:1,b:2", "j.o-u_r")),
        ("s3a://bucket/journals/", Uri("s3a", "bucket/journals")),
        ("file:///tmp/journals", Uri("file", "tmp/journals")),
        ("hdfs:///user/x/", Uri("hdfs", "/user/x")),
    ],
)
def test_storage_backend_is_selected_by_the_scheme_of_the_uri(text: str, place: object) -> None:
    assert place_of(text) == place


@pytest.mark.parametrize(
    "text", ["hdfs:///user/x", "hdfs:///", "hdfs://name:8020/user/x", "s3a://bucket/j", "file:///j"]
)
def test_uri_is_kept_unchanged_with_or_without_authority(text: str) -> None:
    assert str(place_of(text)) == text


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("hdfs:///user/x", "hdfs://name:8020/user/x/a/seed-1.jsonl"),
        ("hdfs://name:8020/user/x", "hdfs://name:8020/user/x/a/seed-1.jsonl"),
        ("file:///user/x", "file:/user/x/a/seed-1.jsonl"),
    ],
)
def test_file_path_is_relative_to_the_root_for_any_form_of_uri(root: str, path: str) -> None:
    assert below(root, path) == "a/seed-1.jsonl"


@pytest.mark.parametrize("text", ["kafka://host/topic", "kafka://host:9092", "kafka://host:9092/a/b", "kafka://:1/t"])
def test_kafka_location_without_a_topic_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"names no topic\. Use kafka://HOST:PORT/TOPIC"):
        parse_place(text)


class Brokers:
    """Fake AdminClient with a topic of two partitions in memory."""

    def __init__(self, topic_id: str | None = None) -> None:
        self.topic_id = topic_id
        self.logs: dict[int, list[Record]] = {0: [], 1: []}
        self.sequences: list[tuple[int, int]] = []

    async def metadata(self, topics: list[str]) -> Any:
        class Info:
            partitions = tuple(TopicPartition("t", number) for number in (0, 1))
            topic_id = self.topic_id

        class Cluster:
            cluster_id = "c"
            topics = {"t": Info}

        return Cluster

    async def list_offset(self, partition: TopicPartition, which: int) -> int:
        return len(self.logs[partition.partition]) if which == LATEST else 0

    async def fetch(self, partition: TopicPartition, offset: int) -> Any:
        class Fetched:
            records = self.logs[partition.partition][offset : offset + 3]
            next_offset = offset + len(records)

        return Fetched

    async def init_producer_id(self) -> tuple[int, int]:
        return 7, 0

    async def produce(self, partition: TopicPartition, records: list[Record], *, producer: tuple[int, ...]) -> int:
        log = self.logs[partition.partition]
        self.sequences.append((partition.partition, producer[2]))
        log += [record._replace(offset=len(log) + place) for place, record in enumerate(records)]
        return len(log)


def published(root: Path, brokers: Brokers) -> int:
    async def run() -> int:
        publisher = Publisher(root, brokers, "t")  # type: ignore[arg-type]
        await publisher.load_published()
        return await publisher.publish_what_is_there()

    return asyncio.run(run())


def of_the_topic(brokers: Brokers) -> list[Row]:
    return sorted((row for log in brokers.logs.values() for row in rows_of_records(log, None)), key=place_in_files)


def place_in_files(row: Row) -> tuple[str, str, int]:
    return row[0], row[7], row[8]


def of_the_files(root: Path) -> list[Row]:
    ranges = [FileRange(file.run, str(file.path), 0, complete_bytes(file.path)) for file in journal_files(root)]
    return sorted((row for part in ranges for row in read_range(part)), key=place_in_files)


def test_topic_and_files_give_equal_rows_even_for_invalid_lines(history: Any, outage: Callable[[Any], None]) -> None:
    outage(history)
    path = history.directory / "peer-1" / "journal" / "peer-1.000000000001.jsonl"
    with path.open("ab") as file:
        file.write(b'\xff\n{"a":' + b"[" * 100_000 + b"\n" + b"x" * 9_000_000 + b'\n\n{"half')
    brokers = Brokers()
    assert published(history.directory, brokers) == len(of_the_files(history.directory))
    found, expected = of_the_topic(brokers), of_the_files(history.directory)
    assert [row[:6] + row[7:] for row in found] == [row[:6] + row[7:] for row in expected]
    assert any(row[-1] == "a line of 9,000,001 bytes" for row in found)


def test_publisher_resumes_at_the_end_of_the_topic(history: Any, outage: Callable[[Any], None]) -> None:
    brokers = Brokers()
    outage(history)
    first = published(history.directory, brokers)
    assert published(history.directory, brokers) == 0
    # Remove the last lines from the topic, as if the publisher had been killed before it sent them.
    del brokers.logs[0][-2:]
    lost = 2 if brokers.logs[0] else 0
    outage(history)
    assert published(history.directory, brokers) == first + lost
    assert len(of_the_topic(brokers)) == len(set(map(place_in_files, of_the_topic(brokers)))) == 2 * first


def test_journal_of_a_recreated_cluster_is_not_appended(tmp_path: Path) -> None:
    old = tmp_path / "peer-1" / "journal" / "peer-1.000000000001.jsonl"
    other = tmp_path / "broker-1" / "journal" / "broker-1.000000000001.jsonl"
    for path in (old, other):
        path.parent.mkdir(parents=True)
    old.write_bytes(b"old first\nold second\n")
    brokers = Brokers()
    assert published(tmp_path, brokers) == 2
    old.write_bytes(b"a new first line that is longer than all of the old ones\nnew second\n")
    other.write_bytes(b"of the new cluster\n")
    with pytest.raises(
        Recreated, match=r"^peer-1/journal/peer-1\.0{11}1\.jsonl .*made anew.*publish to another topic$"
    ):
        published(tmp_path, brokers)
    assert sum(map(len, brokers.logs.values())) == 2


def test_different_journal_with_the_same_first_line_is_rejected(tmp_path: Path) -> None:
    history = tmp_path / "seed-1.jsonl"
    history.write_bytes(b"first\nsecond\n")
    brokers = Brokers()
    assert published(tmp_path, brokers) == 2
    history.write_bytes(b"first\nanother\nand more\n")
    with pytest.raises(Recreated, match="publish to another topic"):
        published(tmp_path, brokers)


def test_line_too_long_for_the_topic_is_not_published_again(tmp_path: Path) -> None:
    history = tmp_path / "seed-1.jsonl"
    history.write_bytes(b"first\n" + b"x" * 1_000_000 + b"\n")
    brokers = Brokers()
    assert published(tmp_path, brokers) == 2
    with history.open("ab") as file:
        file.write(b"third\n")
    assert published(tmp_path, brokers) == 1


def test_file_older_than_the_published_files_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "peer-1.000000000900.jsonl").write_bytes(b"line\n")
    brokers = Brokers()
    assert published(tmp_path, brokers) == 1
    (tmp_path / "peer-1.000000000900.jsonl").rename(tmp_path / "peer-1.000000000001.jsonl")
    with pytest.raises(Recreated):
        published(tmp_path, brokers)


def test_published_batches_have_increasing_sequence_numbers(history: Any, outage: Callable[[Any], None]) -> None:
    brokers = Brokers()
    outage(history)
    published(history.directory, brokers)
    for number, log in brokers.logs.items():
        begun = [first for partition, first in brokers.sequences if partition == number]
        assert begun == sorted(set(begun)) and (not begun or (begun[0] == 0 and begun[-1] < len(log)))


def test_records_that_are_not_journal_lines_are_skipped() -> None:
    line = record_of("a/seed-1.jsonl", "0a0b0c0d", 5, b"{}")
    others = [
        Record(None, b"x"),
        Record(b"k", b"x"),
        Record(b"\xff", b"x", headers=line.headers),
        line._replace(value=None),
        line._replace(headers=(*line.headers, ("size", b"long"))),
        line._replace(headers=(*line.headers, ("size", None))),
        line._replace(headers=(*line.headers, ("size", b"%d" % 2**63))),
        line._replace(headers=(("position", b"%d" % (2**63 - 1)),)),
        line._replace(headers=(("position", b"9" * 5_000),)),
    ]
    assert [(row[0], row[8]) for row in rows_of_records([*others, line], None)] == [("a/seed-1.jsonl", 5)]


def test_records_after_the_last_offset_are_split_into_inputs() -> None:
    found = spans({"0": 10}, {"0": SPAN_RECORDS + 20, "1": 3, "2": 0}, None)
    assert [(each.partition, each.begin, each.end) for each in found] == [
        (0, 10, SPAN_RECORDS + 10), (0, SPAN_RECORDS + 10, SPAN_RECORDS + 20), (1, 0, 3),
    ]  # fmt: skip
    assert all(isinstance(each, Span) for each in found)


def test_stream_advances_to_log_ends_and_keeps_other_offsets() -> None:
    assert advanced("t", {}, {"0": 3, TOPIC_ID: "x"}) == {"0": 3, TOPIC_ID: "x"}
    assert advanced("t", {"0": 3, "1": 2}, {"0": 4, TOPIC_ID: "x"}) == {"0": 4, "1": 2, TOPIC_ID: "x"}
    assert spans({"0": 3, TOPIC_ID: "x"}, {"0": 3, TOPIC_ID: "x"}, None) == []


def test_topic_log_shorter_than_the_read_offset_is_an_error() -> None:
    with pytest.raises(
        LostRecords, match=r"topic t, partition 1: it was read to offset 9, and ends at 4; .*another topic"
    ):
        advanced("t", {"0": 3, "1": 9}, {"0": 3, "1": 4})


def test_recreated_topic_with_more_records_raises_an_error() -> None:
    with pytest.raises(LostRecords, match=r"topic t was made anew .*'0': 3.* x, .*'0': 8.* y\): publish to another"):
        advanced("t", {"0": 3, TOPIC_ID: "x"}, {"0": 8, TOPIC_ID: "y"})


def test_stream_offset_contains_the_topic_id(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def of_memory(place: TopicPlace) -> AsyncIterator[Brokers]:
        yield Brokers("x")

    monkeypatch.setattr(connection, "connected", of_memory)
    reader = TopicSource({"bootstrap": "127.0.0.1:1", "topic": "t"}).streamReader(SCHEMA)
    assert reader.latestOffset({}, ReadAllAvailable()) == {"0": 0, "1": 0, TOPIC_ID: "x"}
    with pytest.raises(LostRecords, match="made anew"):
        reader.latestOffset({"0": 0, TOPIC_ID: "y"}, ReadAllAvailable())


@pytest.mark.parametrize("writable", [True, False])
def test_two_concurrent_publishers_write_each_line_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writable: bool
) -> None:
    (tmp_path / "seed-1.jsonl").write_bytes(b"one\ntwo\n")
    brokers = Brokers()

    @asynccontextmanager
    async def of_memory(place: TopicPlace) -> AsyncIterator[Brokers]:
        yield brokers

    opens = os.open

    def read_only(path: Any, flags: int, *more: Any) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(errno.EROFS, "Read-only file system")
        return opens(path, flags, *more)

    monkeypatch.setattr("zabka.pipeline.topic.publish.connected", of_memory)
    if not writable:
        monkeypatch.setattr(os, "open", read_only)

    def publishing(place: TopicPlace, tell: Callable[[int], None]) -> Awaitable[Any]:
        return publish(tmp_path, place, follow=True, progress=tell)

    async def both() -> None:
        place, begun = TopicPlace("127.0.0.1:1", "t"), asyncio.Event()
        first = asyncio.ensure_future(publishing(place, lambda lines: begun.set()))
        await begun.wait()
        with pytest.raises(NotAlone, match=f"another process publishes {tmp_path} to topic t"):
            await publishing(place, lambda lines: None)
        first.cancel()
        await asyncio.wait([first])
        # The lock was released when the task that held it ended.
        assert (await publish(tmp_path, place, follow=False, progress=lambda lines: None)).lines == 0

    asyncio.run(both())
    assert sum(map(len, brokers.logs.values())) == 2


def test_journals_can_be_published_to_two_topics_concurrently(tmp_path: Path) -> None:
    place = TopicPlace("127.0.0.1:1", "t")
    with alone(tmp_path, place, "a"), alone(tmp_path, place, "b"), alone(tmp_path, place._replace(topic="u"), "a"):
        pass


class LateBrokers(Brokers):
    """Fake brokers that return the topic only after `unheard` metadata requests."""

    def __init__(self, unheard: int) -> None:
        super().__init__()
        self.unheard = unheard

    async def metadata(self, topics: list[str]) -> Any:
        class Nothing:
            topics: ClassVar[dict[str, Any]] = {}

        self.unheard -= 1
        return Nothing if self.unheard >= 0 else await super().metadata(topics)


def test_late_topic_is_found_by_retries_but_missing_topic_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "LOOK_AGAIN_S", 0.0)
    partitions = asyncio.run(partitions_of(LateBrokers(3), "t"))  # type: ignore[arg-type]
    assert partitions == [TopicPartition("t", 0), TopicPartition("t", 1)]
    monkeypatch.setattr(connection, "KNOWN_WITHIN_S", 0.0)
    with pytest.raises(KafkaUnavailable, match="there is no topic t"):
        asyncio.run(partitions_of(LateBrokers(1_000_000), "t"))  # type: ignore[arg-type]


def test_wait_for_missing_topic_records_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "NO_PROGRESS_S", 0.0)
    brokers = Brokers()
    brokers.logs[0] = [Record(b"k", b"x", offset=place) for place in range(5)]

    async def read(end: int) -> int:
        found = records_between(brokers, TopicPartition("t", 0), 1, end)  # type: ignore[arg-type]
        return sum([len(some) async for some in found])

    assert asyncio.run(read(5)) == 4
    with pytest.raises(LostRecords, match=r"topic t, partition 0: .* offset 7 .* offset 5 on none came .*another"):
        asyncio.run(read(7))


@pytest.mark.timeout(600)
@pytest.mark.long
def test_hadoop_uri_gives_the_same_rows_as_the_local_path(
    spark: SparkSession, history: Any, outage: Callable[[Any], None]
) -> None:
    outage(history)
    with (history.directory / "peer-1" / "journal" / "peer-1.000000000001.jsonl").open("ab") as file:
        file.write(b'\xff\nnot one\n{"half')
    types = "controller_elected,session_closed"
    of_uri, of_path = (
        sorted(map(tuple, places.batch(spark, place, types).drop("body").collect()), key=str)
        for place in (place_of(f"file://{history.directory}"), history.directory)
    )
    assert of_uri == of_path
    assert len([row for row in of_uri if row[-1] is not None]) == 2


@pytest.mark.long
@pytest.mark.timeout(900)
def test_rows_read_from_a_topic_are_correct_while_brokers_fail(spark: SparkSession, tmp_path: Path) -> None:
    from tests.interop.interop_brokers import broker_cluster

    (tmp_path / "cluster").mkdir()
    with broker_cluster(tmp_path / "cluster") as cluster:
        place = TopicPlace(cluster.bootstrap, "journal")
        asked(place, lambda client: client.create_topic("journal", 3, 3, configs={"min.insync.replicas": "2"}))
        breaking = threading.Thread(target=breaks, args=[list(cluster.brokers.values())])
        breaking.start()
        rounds = [publish_now(tmp_path / "cluster", place)]
        while breaking.is_alive():
            rounds.append(publish_now(tmp_path / "cluster", place))
        breaking.join()
        # The last round publishes all lines that the files contain at that time. So compare the topic with a copy of
        # the files.
        kept = tmp_path / "kept"
        for file in journal_files(tmp_path / "cluster"):
            copy = kept / file.path.relative_to(tmp_path / "cluster")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.path, copy)
        rounds.append(publish_now(kept, place))
        assert sum(rounds) >= sum(path.read_bytes().count(b"\n") for path in kept.rglob("*.jsonl"))
        expected, found = jobs.read_journal(spark, kept), jobs.read_journal(spark, place)
        assert rows(found.rows.drop("body")) and len(rounds) > 3
        for table in TABLES:
            assert rows(table.build(found)) == rows(table.build(expected)), table.name


@pytest.mark.long
@pytest.mark.timeout(900)
def test_stream_from_a_topic_equals_the_stream_from_its_files(
    spark: SparkSession, history: Any, outage: Callable[[Any], None], tmp_path: Path
) -> None:
    from tests.interop.interop_brokers import broker_cluster

    (tmp_path / "cluster").mkdir()
    with broker_cluster(tmp_path / "cluster") as cluster:
        place = TopicPlace(cluster.bootstrap, "journal")
        asked(place, lambda client: client.create_topic("journal", 3, 3))
        for line in (b"\xff\n", b"no entry\n"):
            # In the second round, the stream continues from its checkpoint.
            outage(history)
            with (history.directory / "peer-1" / "journal" / "peer-1.000000000001.jsonl").open("ab") as file:
                file.write(line)
            published_now = publish_now(history.directory, place)
            for source, lake in ((place, tmp_path / "topic"), (history.directory, tmp_path / "files")):
                with versions.locked(lake):
                    stream.start(spark, source, lake, follow=False).awaitTermination()
            assert published_now and in_lake(tmp_path / "topic") == in_lake(tmp_path / "files")
    for table in TABLES:
        found, expected = (pq.read_table(tmp_path / lake / table.name).to_pylist() for lake in ("topic", "files"))
        assert found == expected, table.name
    assert pq.read_table(tmp_path / "topic" / "bad_lines").num_rows == 2


def in_lake(lake: Path) -> list[str]:
    table = ds.dataset(lake / "bronze", format="parquet", partitioning="hive").to_table()
    return sorted(map(str, table.select(sorted(table.column_names)).to_pylist()))


def publish_now(root: Path, place: TopicPlace) -> int:
    return asyncio.run(publish(root, place, follow=False, progress=lambda lines: None)).lines


def breaks(servers: list[Any]) -> None:
    """Kill and restart each broker once, while another process publishes lines."""
    for server in servers:
        time.sleep(2)
        server.kill()
        time.sleep(4)
        server.start()


def rows(frame: Any) -> list[Any]:
    return sorted(map(tuple, frame.collect()), key=str)


def test_kafka_client_runs_in_its_own_event_loop() -> None:
    async def work(client: AdminClient) -> int:
        return 3

    assert asked(TopicPlace("127.0.0.1:1", "t"), work) == 3
