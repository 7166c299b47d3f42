"""Apache Kafka 3.9 brokers in ZooKeeper mode, which can be in one cluster with our brokers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.free_ports import free_ports
from tests.interop.kafka_jars import classpath

HEAP = "-Xmx400m"
STOPS_WITHIN_S = 60.0

LOGGING = """log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={file}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d{{ISO8601}} %p %c %m%n
log4j.logger.state.change.logger=TRACE
log4j.logger.kafka.request.logger=WARN
"""
EXPECTED_WARNINGS = re.compile(
    r"ZooKeeper mode has been deprecated|No meta.properties file|Session 0x\S+ for s\S+ .*(Closing socket|EndOfStream)"
    r"|Connection to node \d+ .* could not be established|connection to broker .* was unsuccessful"
)
"""Warnings in a Kafka broker's log that are not an error.

The second line of the pattern matches a known race: Kafka opens its port after its registration, so a broker can be
elected controller, and try to send itself requests, before the port is open.
"""


class KafkaServer:
    """One Apache Kafka broker in a separate process, with the same methods as `BrokerServer`."""

    def __init__(self, broker_id: int, home: Path, zookeeper: str, **settings: object) -> None:
        home.mkdir(parents=True)
        self.broker_id = broker_id
        self.home = home
        (self.port,) = free_ports(1)
        self.log = home / "server.log"
        self._config = home / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        (home / "log4j.properties").write_text(LOGGING.format(file=self.log))
        keys: dict[str, object] = {
            "broker.id": broker_id,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": 8000,
            "log.dirs": home / "logs",
            "replica.lag.time.max.ms": 3000,
            "num.partitions": 2,
            "offsets.topic.num.partitions": 5,
            "group.initial.rebalance.delay.ms": 0,
            "num.network.threads": 2,
            "num.io.threads": 4,
            "log.cleaner.dedupe.buffer.size": 4 << 20,
        }
        keys.update({name.replace("_", "."): value for name, value in settings.items()})
        lines = "".join(f"{name}={value}\n" for name, value in keys.items())
        self._config.write_text(lines.replace("{home}", str(home)).replace("{port}", str(self.port)))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        with (self.home / "out.log").open("ab") as out:
            self._process = subprocess.Popen(
                [
                    "java", HEAP, f"-Dlog4j.configuration=file:{self.home / 'log4j.properties'}",
                    "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                    "-cp", classpath(), "kafka.Kafka", str(self._config),
                ],
                stdout=out, stderr=out, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    @property
    def is_running(self) -> bool:
        """Return whether the process is running."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Send SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int | None:
        """Send SIGTERM, which causes a controlled shutdown, and return the exit code."""
        return self._end(signal.SIGTERM)

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stand_still(self) -> None:
        """Freeze the process until SIGCONT, and wait until all its threads have stopped."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def _end(self, number: signal.Signals) -> int | None:
        if self._process is None:
            return None
        self._process.send_signal(number)
        code = self._process.wait(STOPS_WITHIN_S)
        self._process = None
        return code

    def output(self) -> str:
        """Return what the broker has printed before it opened its log file, followed by the log."""
        parts = [self.home / "out.log", self.log]
        return "".join(part.read_text(errors="replace") for part in parts if part.exists())

    def complaints(self, expected: re.Pattern[str] = EXPECTED_WARNINGS) -> list[str]:
        """Return the WARN, ERROR and FATAL lines of the broker's log that do not match `expected`."""
        lines = self.output().splitlines()
        return [line for line in lines if re.search(r" (WARN|ERROR|FATAL) ", line) and not expected.search(line)]


class VerifiableProducer:
    """Kafka's VerifiableProducer with acks=all.

    The program prints the acknowledged records, and a thread collects them.
    """

    def __init__(self, bootstrap: Sequence[str], topic: str, records_per_s: int) -> None:
        self.acknowledged: dict[int, dict[int, str]] = defaultdict(dict)
        """Values of the acknowledged records, keyed by partition and offset."""
        self._process = subprocess.Popen(
            [
                "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath(),
                "org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server", ",".join(bootstrap),
                "--topic", topic, "--throughput", str(records_per_s), "--acks", "-1",
            ],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def acknowledged_count(self) -> int:
        return sum(len(values) for values in self.acknowledged.values())

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"{"):
                event = json.loads(line)
                if event["name"] == "producer_send_success":
                    self.acknowledged[event["partition"]][event["offset"]] = event["value"]

    def until_acknowledged(self, count: int, within_s: float = 90) -> None:
        """Wait until `count` records are acknowledged."""
        deadline = time.monotonic() + within_s
        while self.acknowledged_count < count:
            assert time.monotonic() < deadline, f"{self.acknowledged_count} of {count} records are acknowledged"
            time.sleep(0.1)

    def stop(self) -> None:
        """Send SIGTERM, and wait until the producer has flushed its records and ended."""
        self._process.terminate()
        self._process.wait(STOPS_WITHIN_S)
        self._reader.join(STOPS_WITHIN_S)
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def verifiable_producer(bootstrap: Sequence[str], topic: str, records_per_s: int) -> Iterator[VerifiableProducer]:
    """Run Kafka's VerifiableProducer during the `with` block, and yield it."""
    producer = VerifiableProducer(bootstrap, topic, records_per_s)
    try:
        yield producer
    finally:
        producer.stop()
