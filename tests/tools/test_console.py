"""The console producer and the console consumer as somebody types into them, and ends them with Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from testing.live.cluster import LiveCluster
from tests.tools.test_kafka_tools import called
from tools import produce


@contextmanager
def started(cluster: LiveCluster, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A verb as a process, with its standard input open."""
    command = [sys.executable, "-m", "tools.cli", *arguments, "--data", str(cluster.data)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_line_is_sent_before_the_next_is_typed_and_ctrl_c_ends_it(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("typed")
    with started(zabka_cluster, "produce", "--topic", "typed") as producer:
        assert producer.stdin is not None
        producer.stdin.write(b"one\r\ntwo\nhalf a li")
        producer.stdin.flush()
        zabka_cluster.until(lambda: zabka_cluster.consume("typed") == ["one", "two"], 30, "both lines")
        producer.send_signal(signal.SIGINT)
        # Nothing more is typed: it must not wait for that.
        assert producer.wait(20) == 130
        assert producer.stderr is not None and producer.stderr.read() == b""


def test_what_stands_before_a_line_without_a_key_is_sent(zabka_cluster: LiveCluster) -> None:
    zabka_cluster.topics.create("keyed")
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    here = ("--data", str(zabka_cluster.data))
    code, _, err = called(produce.main, "--topic", "keyed", *keyed, *here, stdin=b"a:1\nb:2\nc\nd:4\n")
    assert code == 1
    assert "No key separator found on line number 3: 'c'" in err
    assert zabka_cluster.consume("keyed") == ["1", "2"]
