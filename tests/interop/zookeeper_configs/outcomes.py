"""Read configurations with Apache ZooKeeper's jars."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.interop.real_zookeeper import classpath

PROGRAM = Path(__file__).with_name("ConfigOutcomes.java")
TIMEOUT_S = 1200
KINDS = ("read", "refused", "ended")


class Question(NamedTuple):
    """A configuration and the value to read from it: zoo.cfg, system properties and a Java expression.

    See ConfigOutcomes.java. Each zoo.cfg has its own directory.
    """

    directory: Path
    zoo_cfg: str
    properties: tuple[str, ...]
    starts: bool
    expression: str


def ask(questions: Iterable[Question]) -> list[str | None]:
    """Return the value that ZooKeeper uses for each configuration.

    It is None if ZooKeeper refuses to start or exits immediately.
    """
    lines = []
    for question in questions:
        (question.directory / "data").mkdir(parents=True)
        (question.directory / "data" / "myid").write_text("1\n")
        path = question.directory / "zoo.cfg"
        path.write_text(question.zoo_cfg, encoding="iso-8859-1")
        starts = "serve" if question.starts else "parse"
        lines.append("\t".join([str(path), "\x1f".join(question.properties), starts, question.expression]))
    jars = classpath().split(":")
    own = [jar for jar in jars if Path(jar).name.startswith("zookeeper-")]
    done = subprocess.run(
        [
            "java", "-Xmx512m", "-XX:+UseSerialGC", "-Dlog4j2.level=OFF", "-Dzookeeper.jmx.log4j.disable=true",
            "-cp", ":".join(jar for jar in jars if jar not in own), str(PROGRAM), *own,
        ],
        input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=TIMEOUT_S, check=True,
    )  # fmt: skip
    answers = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(answers) == len(lines), done.stderr
    failed = [(line, *answer) for line, answer in zip(lines, answers, strict=True) if answer[0] not in KINDS]
    assert not failed, failed
    return [value if kind == "read" else None for kind, value in answers]
