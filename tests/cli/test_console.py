"""Interactive use of the console producer and consumer: typed lines and Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.test_kafka_tools import called
from zabka.cli import consume, delete_records, produce
from zabka.testing.live.cluster import LiveCluster


@contextmanager
def started(cluster: LiveCluster, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a subcommand as a process, with its standard input open."""
    command = [sys.executable, "-m", "zabka.cli.main", *arguments, "--data", str(cluster.data)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_console_producer_sends_each_line_immediately(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("typed")
    with started(zabka_cluster, "produce", "--topic", "typed") as producer:
        assert producer.stdin is not None
        producer.stdin.write(b"one\r\ntwo\nhalf a li")
        producer.stdin.flush()
        zabka_cluster.until(lambda: zabka_cluster.consume("typed") == ["one", "two"], 30, "both lines")
        producer.send_signal(signal.SIGINT)
        # The producer must exit on Ctrl-C without waiting for another input line.
        assert producer.wait(20) == 130
        assert producer.stderr is not None and producer.stderr.read() == b""


def test_lines_before_a_line_without_the_required_key_are_sent(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("keyed")
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    here = ("--data", str(zabka_cluster.data))
    code, _, err = called(produce.main, "--topic", "keyed", *keyed, *here, stdin=b"a:1\nb:2\nc\nd:4\n")
    assert code == 1
    assert "No key separator found on line number 3: 'c'" in err
    assert zabka_cluster.consume("keyed") == ["1", "2"]


def test_empty_key_separator_gives_an_empty_key() -> None:
    record = produce.parse_line(b"a:1", b"", 1)
    assert (record.key, record.value) == (b"", b"a:1")


def test_console_consumer_prints_its_record_count_on_ctrl_c(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("read")
    zabka_cluster.produce("read", ["one", "two", "three"])
    with started(zabka_cluster, "consume", "--topic", "read", "--from-beginning") as consumer:
        assert consumer.stdout is not None and consumer.stderr is not None
        assert [consumer.stdout.readline() for _ in range(3)] == [b"one\n", b"two\n", b"three\n"]
        consumer.send_signal(signal.SIGINT)
        assert consumer.wait(20) == 130
        assert consumer.stderr.read() == b"Processed a total of 3 messages\n"


def test_offset_option_overrides_the_committed_offset(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("grouped")
    zabka_cluster.produce("grouped", ["one", "two"])
    reading = ("--topic", "grouped", "--group", "g", "--timeout-ms", "200", "--data", str(zabka_cluster.data))
    assert called(consume.main, *reading, "--from-beginning")[1] == "one\ntwo\n"
    assert called(consume.main, *reading, "--from-beginning")[1] == ""
    assert called(consume.main, *reading, "--partition", "0", "--offset", "1")[1] == "two\n"
    refused = called(consume.main, *reading, "--partition", "7", "--offset", "1")
    assert (refused[0], refused[1]) == (1, "") and "Topic grouped has no partition 7" in refused[2]


def test_offset_option_overrides_from_beginning(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("both")
    zabka_cluster.produce("both", ["one", "two"])
    reading = ("--topic", "both", "--from-beginning", "--timeout-ms", "200", "--data", str(zabka_cluster.data))
    assert called(consume.main, *reading)[1] == "one\ntwo\n"
    for offset, printed in (("1", "two\n"), ("latest", ""), ("Earliest", "one\ntwo\n"), ("-1", "two\n")):
        assert called(consume.main, *reading, "--partition", "0", "--offset", offset)[1] == printed


def test_consumer_at_a_deleted_offset_continues_at_the_log_start(zabka_cluster: LiveCluster, tmp_path: Path) -> None:
    zabka_cluster.topics.create("shortened")
    zabka_cluster.produce("shortened", ["one", "two", "three"])
    here = ("--data", str(zabka_cluster.data))
    reading = ("--topic", "shortened", "--group", "s", "--from-beginning", "--timeout-ms", "200", *here)
    assert called(consume.main, *reading, "--max-messages", "1")[1] == "one\n"
    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps({"partitions": [{"topic": "shortened", "partition": 0, "offset": 2}]}))
    assert called(delete_records.main, "--offset-json-file", str(rows), *here)[0] == 0
    code, out, err = called(consume.main, *reading)
    assert (code, out) == (0, "three\n")
    assert "shortened-0: offset 1 is out of range; continuing at 2" in err


def test_delete_records_reports_a_missing_partition_immediately(zabka_cluster: LiveCluster, tmp_path: Path) -> None:
    zabka_cluster.topics.create("small")
    zabka_cluster.produce("small", ["one"])
    rows = tmp_path / "rows.json"
    asked = [("small", 7), ("none", 0), ("small", 0)]
    partitions = [{"topic": topic, "partition": number, "offset": 1} for topic, number in asked]
    rows.write_text(json.dumps({"partitions": partitions}))
    code, out, _ = called(delete_records.main, "--offset-json-file", str(rows), "--data", str(zabka_cluster.data))
    assert code == 0
    assert out.splitlines()[2:] == [
        "partition: small-7\terror: there is no such partition",
        "partition: none-0\terror: there is no such partition",
        "partition: small-0\tlow_watermark: 1",
    ]


def test_consumer_continues_while_one_partition_has_no_leader(zabka_cluster: LiveCluster) -> None:
    lonely = 1 if zabka_cluster.controller is None or zabka_cluster.controller.id != 1 else 2
    zabka_cluster.topics.create("halves", assignment={0: [lonely], 1: [3]})
    with started(zabka_cluster, "consume", "--topic", "halves", "--from-beginning") as consumer:
        assert consumer.stdout is not None and consumer.stderr is not None
        zabka_cluster.produce("halves", ["before"], 0)
        assert consumer.stdout.readline() == b"before\n"
        zabka_cluster.brokers[lonely].kill()
        assert consumer.stderr.readline().startswith(b"halves-0 is not available yet: ")
        zabka_cluster.produce("halves", ["meanwhile"], 1)
        assert consumer.stdout.readline() == b"meanwhile\n"
        zabka_cluster.brokers[lonely].start()
        zabka_cluster.until(lambda: not zabka_cluster.topics["halves"].partitions[0].offline, 60, "a leader")
        zabka_cluster.produce("halves", ["after"], 0)
        assert consumer.stdout.readline() == b"after\n"


def test_consuming_an_unknown_topic_warns_and_suggests_a_name(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("invoices")
    here = ("--timeout-ms", "1000", "--data", str(zabka_cluster.data))
    code, _, err = called(consume.main, "--topic", "invoice", *here)
    assert code == 0
    assert "WARN Topic invoice does not exist; did you mean invoices? Brokers" in err
    code, _, err = called(consume.main, "--topic", "invoices", *here)
    assert (code, "does not exist" in err) == (0, False)
