"""Apache ZooKeeper 3.9.5 servers from PySpark's jars, which can be in one ensemble with our peers."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.ensemble.server.peer_processes import Ensemble

JARS = (
    "zookeeper-3*.jar", "zookeeper-jute-*.jar", "slf4j-api-*.jar", "log4j-*.jar", "netty*.jar", "metrics-core-*.jar",
    "snappy-java-*.jar", "commons-io-*.jar", "commons-lang3*.jar", "commons-cli*.jar",
)  # fmt: skip
LOGGING = """rootLogger.level=%s
rootLogger.appenderRef.c.ref=c
appender.c.type=Console
appender.c.name=c
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%%d %%p %%c{1} %%m%%n
"""


def missing() -> str | None:
    """Return what Apache ZooKeeper needs but this machine does not have, or None."""
    if shutil.which("java") is None:
        return "java"
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return "pyspark"
    return None if list((Path(spec.origin).parent / "jars").glob(JARS[0])) else "ZooKeeper's jar in pyspark"


needs_java = pytest.mark.skipif(missing() is not None, reason=f"{missing()} cannot be found")


def classpath() -> str:
    """Return the class path with ZooKeeper's jar and its dependencies."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    jars = Path(spec.origin).parent / "jars"
    return ":".join(str(jar) for pattern in JARS for jar in jars.glob(pattern))


class MixedEnsemble(Ensemble):
    """Ensemble in which each peer can run as ours or as Apache ZooKeeper, with the same configuration and data."""

    log_level = "WARN"
    java_options: tuple[str, ...] = ()
    """System properties of the JVM, for settings that Apache ZooKeeper does not read from zoo.cfg."""

    def start_java(self, *ids: int) -> None:
        logging = self.directory / "log4j2.properties"
        logging.write_text(LOGGING % self.log_level)
        path = classpath()
        for i in ids:
            with (self.directory / str(i) / "java.log").open("ab") as log:
                self.processes[i] = subprocess.Popen(
                    [
                        "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                        "-Dzookeeper.admin.enableServer=false",
                        "-Dzookeeper.4lw.commands.whitelist=*", f"-Dlog4j2.configurationFile={logging}",
                        *self.java_options,
                        "-cp", path, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self.config(i)),
                    ],
                    stdout=log, stderr=log,
                )  # fmt: skip

    def java_log(self, i: int) -> str:
        return (self.directory / str(i) / "java.log").read_text()
