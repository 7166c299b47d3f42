"""Run Kafka's command-line tools on two clusters to compare the output."""

from __future__ import annotations

import base64
import difflib
import io
import json
import re
import selectors
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from tests.interop.interop_brokers import BrokerCluster, broker_cluster
from tests.interop.interop_servers import running
from tests.interop.kafka_jars import classpath
from tests.interop.real_kafka import KafkaServer

SERVER = Path(__file__).parent / "kafka_jars" / "ToolServer.java"
ANSWER_S = 90.0
STARTS_S = 180.0
SETTLES_S = 60.0
RECORD_SIZE = 1000
TOOLS = {
    "acls": "kafka.admin.AclCommand",
    "broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "kafka.tools.ConsoleProducer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
}
# These tools expect the bootstrap option after their other arguments.
_BOOTSTRAP_LAST = ("cluster",)


class Output(NamedTuple):
    """Exit code, standard output and standard error of a tool."""

    code: int
    out: str
    err: str


class ToolServer:
    """A JVM that stays running and executes all tools, because starting a JVM for each tool takes long."""

    def __init__(self, directory: Path) -> None:
        logging = directory / "tools-log4j.properties"
        logging.write_text("log4j.rootLogger=ERROR, err\nlog4j.appender.err=org.apache.log4j.varia.NullAppender\n")
        self._process = subprocess.Popen(
            ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
             f"-Dlog4j.configuration=file:{logging}", "-cp", classpath(), str(SERVER)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Output:
        """Run one tool in the JVM, and return its output."""
        assert self._process.stdin is not None and self._process.stdout is not None
        call = "\1".join((base64.b64encode(stdin.encode()).decode(), TOOLS[tool], *arguments))
        self._process.stdin.write(call.encode() + b"\n")
        self._process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            assert selector.select(ANSWER_S), f"{tool} {' '.join(arguments)}: no answer within {ANSWER_S} s"
        code, out, err = self._process.stdout.readline().decode().rstrip("\n").split(" ")
        return Output(int(code), base64.b64decode(out).decode(), base64.b64decode(err).decode())

    def close(self) -> None:
        with self._process:
            self._process.kill()


def alone(main_class: str, *arguments: str) -> str:
    """Run a tool in a separate JVM, as its script does, and return its output."""
    done = subprocess.run(
        ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classpath(), main_class, *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=ANSWER_S, check=False,
    )  # fmt: skip
    return done.stdout.decode(errors="replace")


def rows(text: str) -> list[dict[str, object]]:
    """Return the lines of JSON in the output of Kafka's verifiable clients, decoded."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def called(main: Callable[[list[str]], int], *arguments: str) -> Output:
    """Call one of our own tools and return its output."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(list(arguments))
        except SystemExit as left:
            code = int(left.code or 0)
    return Output(code, out.getvalue(), err.getvalue())


_MASKS: tuple[tuple[str, str], ...] = (
    (r"TopicId: \S+", "TopicId: ID"),
    (r"/?127\.0\.0\.1:\d+( +\(\d\))?", "HOST"),
    (r"Cluster ID: \S+", "Cluster ID: ID"),
    (r'"logDir":"[^"]*"', '"logDir":"DIR"'),
    (r"console-consumer-[0-9a-f-]+", "MEMBER"),
    (r"/127\.0\.0\.1", "IP"),
    (r" +", " "),
    # Remove stack frames, because they depend on the JVM.
    (r"(?m)^(\tat |\t\.\.\. ).*\n", ""),
    (r"\[20\d\d-\S+ \S+\]", "[TIME]"),
)


def masked(text: str) -> str:
    """Return a tool's output without the parts that depend on the cluster, such as ids, addresses and times."""
    for pattern, instead in _MASKS:
        text = re.sub(pattern, instead, text)
    # Sort the ISR, because its order depends on which replica has caught up first.
    return re.sub(r"Isr: ([\d,]+)", lambda found: f"Isr: {','.join(sorted(found[1].split(',')))}", text)


def in_any_order(text: str) -> str:
    """Return the text with sorted lines, and sorted words in each line.

    Neither order is guaranteed: Java prints some words from hash maps.
    """
    return "\n".join(sorted(", ".join(sorted(re.split(r", | are ", line))) for line in text.splitlines()))


class TwoClusters:
    """A cluster of Apache Kafka brokers, and a cluster of our brokers."""

    def __init__(self, servers: list[KafkaServer], ours: BrokerCluster, tools: ToolServer, directory: Path) -> None:
        self.servers = servers
        self.kafka = ",".join(server.address for server in servers)
        self.ours = ours
        self.tools = tools
        self.directory = directory

    def file(self, name: str, text: str) -> str:
        """Create a file for a tool to read."""
        path = self.directory / name
        path.write_text(text)
        return str(path)

    def run(self, tool: str, *arguments: str, stdin: str = "") -> tuple[Output, Output]:
        """Run a tool on both clusters and return both outputs, Kafka's first."""
        output = []
        for bootstrap in (self.kafka, self.ours.bootstrap):
            brokers = ("--bootstrap-server", bootstrap)
            all_arguments = (*arguments, *brokers) if tool in _BOOTSTRAP_LAST else (*brokers, *arguments)
            output.append(self.tools.run(tool, *all_arguments, stdin=stdin))
        return output[0], output[1]

    def fill(self, topic: str, partitions: int, size: int) -> None:
        """Produce records with a total of `size` bytes to each partition of a topic, on both clusters."""
        for bootstrap in (self.kafka, self.ours.bootstrap):
            producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.size": 16_384})
            for number in range(partitions * size // RECORD_SIZE):
                producer.produce(topic, b"x" * RECORD_SIZE, partition=number % partitions)
            assert producer.flush(ANSWER_S) == 0

    def homes(self) -> list[tuple[str, dict[int, Path]]]:
        """Return each cluster's address and the directories of its brokers, Kafka's cluster first."""
        return [
            (self.kafka, {server.broker_id: server.home for server in self.servers}),
            (self.ours.bootstrap, {number: broker.home for number, broker in self.ours.brokers.items()}),
        ]

    def until(self, condition: Callable[[str], bool], tool: str, *arguments: str) -> None:
        """Run a tool repeatedly until its output meets the condition on both clusters."""
        self.ours.until(lambda: all(condition(output.out) for output in self.run(tool, *arguments)), SETTLES_S)

    def settles(self, tool: str, *arguments: str) -> str:
        """Run a tool repeatedly until it prints the same for both clusters and all their brokers. Return the masked
        output.
        """
        output: list[str] = []

        def same() -> bool:
            output[:] = [masked(each.out) for each in self.run(tool, *arguments)]
            return output[0] == output[1]

        self.ours.until(same, SETTLES_S)
        return output[1]

    def same(self, tool: str, *arguments: str, stdin: str = "", mask: Callable[[str], str] = lambda text: text) -> str:
        """Run a tool on both clusters. Assert that the masked outputs and exit codes are equal, and return the
        output.
        """
        kafka, ours = self.run(tool, *arguments, stdin=stdin)
        words = [
            mask(masked(f"{output.out}\n--- errors\n{output.err}\n--- exit {output.code}")) for output in (kafka, ours)
        ]
        difference = "\n".join(difflib.unified_diff(words[0].split("\n"), words[1].split("\n"), "kafka", "ours", n=0))
        assert not difference, f"{tool} {' '.join(arguments)}\n{difference}"
        return words[1]


@contextmanager
def two_clusters(directory: Path) -> Iterator[TwoClusters]:
    """Run three Apache Kafka brokers and three of our brokers, each cluster with one of our peers."""
    classpath()
    (directory / "kafka-peers").mkdir()
    (directory / "ours").mkdir()
    settings = {
        "default_replication_factor": 1, "offsets_topic_num_partitions": 5, "auto_leader_rebalance_enable": "false",
        "group_initial_rebalance_delay_ms": 0, "num_io_threads": 4, "log_dirs": "{home}/logs,{home}/more",
        # On a busy machine, a JVM pauses for seconds when it starts, and a Kafka broker does not recover if its session
        # expires.
        "zookeeper_session_timeout_ms": 9_000,
        # Limit the size of a fetch: after each throttled fetch, the next one waits for as long as its bytes need.
        "replica_fetch_max_bytes": 50_000, "replica_fetch_response_max_bytes": 100_000,
    }  # fmt: skip
    with (
        running("ours", 1, directory / "kafka-peers") as ensemble,
        broker_cluster(directory / "ours", **settings) as ours,
    ):
        servers = [
            KafkaServer(number, directory / f"kafka-{number}", ensemble.hosts, **settings) for number in (1, 2, 3)
        ]
        tools = ToolServer(directory)
        try:
            for server in servers:
                server.start()
            both = TwoClusters(servers, ours, tools, directory)
            ours.until(lambda: _answers(tools, both.kafka), STARTS_S)
            yield both
        finally:
            tools.close()
            for server in servers:
                server.kill()


def _answers(tools: ToolServer, bootstrap: str) -> bool:
    output = tools.run("broker-api-versions", "--bootstrap-server", bootstrap)
    return output.out.count("(id: ") == 3
