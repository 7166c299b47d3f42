"""A real Spark cluster on this machine: a master and two workers, started by PySpark's own script."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

SCRIPT = Path(pyspark.__file__).parent / "bin" / "spark-class"
READY_S = 90.0
_ADDRESS = re.compile(r"spark://[0-9.]+:[0-9]+")


class Standalone:
    """Processes of a standalone Spark cluster. `master` is the URL of its master."""

    def __init__(self, directory: Path, workers: int) -> None:
        self.directory = directory
        self._all: list[subprocess.Popen[bytes]] = []
        self.master = ""
        self._start("Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.master = self._await_log("master-0.log", _ADDRESS)
        self.workers = [self._start("Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1",
                                    "--memory", "1g", "--work-dir", str(directory / f"work-{number}"), self.master)
                        for number in range(workers)]  # fmt: skip
        for number in range(1, workers + 1):
            self._await_log(f"worker-{number}.log", re.compile("Successfully registered with master"))

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        home = {**os.environ, "SPARK_HOME": str(SCRIPT.parents[1]), "SPARK_LOCAL_IP": "127.0.0.1"}
        # Remove these variables, so that executors can import only code that the driver sends them.
        for name in ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            home.pop(name, None)
        log = self.directory / f"{kind.lower()}-{len(self._all)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [str(SCRIPT), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *arguments],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=home, cwd=self.directory, start_new_session=True,
            )  # fmt: skip
        self._all.append(process)
        return process

    def _await_log(self, log: str, pattern: re.Pattern[str]) -> str:
        deadline = time.monotonic() + READY_S
        while (found := pattern.search((self.directory / log).read_text())) is None:
            assert time.monotonic() < deadline, (self.directory / log).read_text()
            time.sleep(0.2)
        return found[0]

    def kill_a_worker(self) -> None:
        """Send SIGKILL to a worker and its executors, as if its machine had failed."""
        worker = self.workers.pop()
        os.killpg(worker.pid, 9)
        worker.wait()

    def stop(self) -> None:
        """Stop all processes."""
        for process in reversed(self._all):
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait()


@contextmanager
def standalone(directory: Path, workers: int = 2) -> Iterator[Standalone]:
    """Run a standalone Spark cluster during the `with` block."""
    directory.mkdir()
    cluster = Standalone(directory, workers)
    try:
        yield cluster
    finally:
        cluster.stop()
