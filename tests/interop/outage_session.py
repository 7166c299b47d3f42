"""The producer and consumer of one client library during a whole test, and their results.

Every line that a program prints is stored with its time, so that gaps can be measured.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import IO, NamedTuple

from tests.interop.interop_brokers import tool

CLIENTS = Path(__file__).with_name("outage_clients.py")
KCAT_RATE_PER_S = 25
LAST_CHARS = 600
KCAT_MS = {"message.timeout.ms": 120_000, "session.timeout.ms": 15_000, "auto.commit.interval.ms": 1_000}


class Outcome(NamedTuple):
    """Result of a session. `problems` is empty if no acknowledged record was lost or out of order."""

    library: str
    sent: int
    acknowledged: int
    consumed: int
    read_again: int
    """Number of records that the consumer read twice: after a rebalance it continued from its last committed offset."""
    produce_gap_s: float
    consume_gap_s: float
    """`produce_gap_s` is the longest time without an acknowledgement, and `consume_gap_s` the longest time without a
    record.
    """
    problems: list[str]


class Program:
    """Running program. A thread collects the lines of its output."""

    def __init__(self, command: list[str], errors: Path, stdin: int = subprocess.DEVNULL) -> None:
        self.lines: list[tuple[float, str]] = []
        self._errors = errors
        self._log = errors.open("wb")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, stdin=stdin, text=True)
        assert self.process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, output: IO[str]) -> None:
        for line in output:
            self.lines.append((time.monotonic(), line.strip()))

    def end(self, within_s: float) -> int:
        """Send SIGTERM, and return the exit code."""
        self.process.terminate()
        return self.wait(within_s)

    def wait(self, within_s: float) -> int:
        try:
            code = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            code = -9
        self._reader.join(5)
        return code

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        self._reader.join(5)
        for pipe in (self.process.stdin, self.process.stdout, self._log):
            if pipe is not None and not pipe.closed:
                pipe.close()

    def errors(self) -> str:
        return self._errors.read_text(errors="replace")[-1_000:]


def _longest_gap_s(lines: list[tuple[float, str]]) -> float:
    moments = [moment for moment, _ in lines]
    return max((later - earlier for earlier, later in pairwise(moments)), default=0.0)


class Session:
    """A producer and a consumer of one library, with a separate topic `outage-NAME` and group `group-NAME`."""

    def __init__(self, library: str, bootstrap: str, directory: Path, name: str = "") -> None:
        """Start the producer and the consumer. By default, the library's name is used in the topic and group names."""
        self.library = library
        self.topic = f"outage-{name or library}"
        self.group = f"group-{name or library}"
        self._bootstrap = bootstrap
        self._directory = directory
        self._feeding = True
        self._fed = 0
        self._consumer = self._start("consume")
        self._producer = self._start("produce")
        self._feeder = threading.Thread(target=self._feed, daemon=True)
        if library == "kcat":
            self._feeder.start()

    def _start(self, role: str) -> Program:
        errors = self._directory / f"{self.library}-{role}.err"
        if self.library != "kcat":
            command = [sys.executable, str(CLIENTS), self.library, role, self._bootstrap, self.topic, self.group]
            return Program(command, errors)
        kcat = [tool("kcat"), "-b", self._bootstrap, "-E"]
        if role == "consume":
            settings = [f"{name}={KCAT_MS[name]}" for name in ("session.timeout.ms", "auto.commit.interval.ms")]
            options = [f"-X{each}" for each in (*settings, "auto.offset.reset=earliest")]
            return Program([*kcat, *options, "-u", "-f", "%p %o %s\n", "-G", self.group, self.topic], errors)
        timeout = f"-Xmessage.timeout.ms={KCAT_MS['message.timeout.ms']}"
        options = ["-Xacks=all", "-Xenable.idempotence=true", timeout, "-P", "-t", self.topic]
        return Program([*kcat, *options], errors, subprocess.PIPE)

    def _feed(self) -> None:
        """Write the numbers that are due to kcat's standard input. kcat sends each line as a record."""
        pipe = self._producer.process.stdin
        assert pipe is not None
        begun = time.monotonic()
        while self._feeding:
            time.sleep(max(0.0, begun + self._fed / KCAT_RATE_PER_S - time.monotonic()))
            try:
                pipe.write(f"{self._fed}\n")
                pipe.flush()
            except BrokenPipeError:
                return
            self._fed += 1
        pipe.close()

    # ------ while it runs ------------------------------------------------------------------------------------------

    @property
    def consumed(self) -> int:
        """Return the number of records that the consumer has printed."""
        return len(self._consumer.lines)

    @property
    def acknowledged(self) -> int:
        """Return the number of records that the producer has reported as acknowledged.

        kcat prints acknowledgements only when it ends, so for kcat this is the number of lines written to it.
        """
        return len(self._producer.lines) if self.library != "kcat" else self._fed

    def stands(self) -> str:
        """Return a description of the progress of both programs, with their last lines of output."""
        parts = [f"the {role} printed {program.errors()[-LAST_CHARS:]!r}" for program, role in self._programs()]
        return "\n  ".join([f"{self.library}: {self.acknowledged} acknowledged, {self.consumed} read", *parts])

    def _programs(self) -> tuple[tuple[Program, str], ...]:
        return (self._producer, "producer"), (self._consumer, "consumer")

    def ended_early(self) -> str | None:
        """Return which program has ended by itself, with its last lines, or None if both are running."""
        for program, role in self._programs():
            code = program.process.poll()
            if code is not None:
                return f"the {role} of {self.library} ended with {code}: {program.errors()}"
        return None

    def kill(self) -> None:
        self._feeding = False
        if self._feeder.is_alive():
            self._feeder.join(5)
        self._producer.kill()
        self._consumer.kill()

    # ---- the end --------------------------------------------------------------------------------------------------

    def finish(self, within_s: float = 150.0, read_within_s: float = 90.0) -> Outcome:
        """Stop the producer, wait until the consumer has read all acknowledged records, and return the result."""
        problems = [early] if (early := self.ended_early()) else []
        acknowledged = self._stop_producing(within_s, problems)
        deadline = time.monotonic() + read_within_s
        while not self._has_read(acknowledged) and time.monotonic() < deadline:
            time.sleep(0.1)
        code = self._consumer.end(30)
        if code not in (0, -15):
            problems.append(f"the consumer ended with {code}: {self._consumer.errors()}")
        return self._evaluate(acknowledged, problems)

    def _stop_producing(self, within_s: float, problems: list[str]) -> list[int]:
        self._feeding = False
        if self.library == "kcat":
            self._feeder.join(10)
            code = self._producer.wait(within_s)
        else:
            code = self._producer.end(within_s)
        if code:
            problems.append(f"the producer ended with {code}: {self._producer.errors()}")
        if self.library == "kcat":
            # kcat exits with 0 only if all records were acknowledged.
            return [] if code else list(range(self._fed))
        return [int(line.split()[0]) for _, line in self._producer.lines]

    def _records(self) -> list[tuple[int, int, int]]:
        rows = [line.split() for _, line in list(self._consumer.lines)]
        return [(int(row[0]), int(row[1]), int(row[2])) for row in rows if len(row) == 3]

    def _has_read(self, acknowledged: list[int]) -> bool:
        return not set(acknowledged) - {number for _, _, number in self._records()}

    def _evaluate(self, acknowledged: list[int], problems: list[str]) -> Outcome:
        records = self._records()
        logs: dict[int, dict[int, int]] = {}
        read_to: dict[int, int] = {}
        read_again = 0
        for partition, offset, number in records:
            log = logs.setdefault(partition, {})
            if log.setdefault(offset, number) != number:
                problems.append(f"{partition}@{offset} was {log[offset]}, and {number} later")
            expected = read_to.get(partition, 0)
            read_to[partition] = max(expected, offset + 1)
            if offset > expected:
                problems.append(f"{partition}@{offset} was read before {partition}@{expected}")
            read_again += offset < expected
        for partition, log in logs.items():
            in_order = [log[offset] for offset in sorted(log)]
            if in_order != sorted(set(in_order)):
                problems.append(f"partition {partition} does not hold the numbers in the order they were sent, once")
        lost = sorted(set(acknowledged) - {number for _, _, number in records})
        if lost:
            problems.append(f"{len(lost)} acknowledged and never read: {lost[:10]}")
        return Outcome(
            self.library,
            max(self._fed, len(acknowledged)),
            len(acknowledged),
            len(records) - read_again,
            read_again,
            _longest_gap_s(self._producer.lines),
            _longest_gap_s(self._consumer.lines),
            problems,
        )
