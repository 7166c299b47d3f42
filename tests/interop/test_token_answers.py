"""Our verification of the tokens of OAUTHBEARER, and Kafka's: equal outcomes."""

from __future__ import annotations

import re
import subprocess
import time
from base64 import b64encode
from pathlib import Path

import pytest

from tests.broker_sim.sasl.token_cases import CASES, SIGNED, key_set
from tests.interop.kafka_jars import classpath

pytestmark = pytest.mark.timeout(300)
ANSWERS = Path(__file__).parent / "kafka_jars" / "TokenAnswers.java"
KAFKA_FAILS = "another scheme"
"""Case in which Kafka's class fails with an exception that its connection does not handle."""


def test_token_outcomes_equal_those_of_kafkas_server(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_bytes(key_set())
    url = {"sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "keys.json").as_uri()}
    now_s = int(time.time())
    lines = []
    for case in CASES:
        options = {**(url if case.kind == SIGNED else {}), **case.options}
        messages = ",".join(b64encode(message).decode() for message in case.messages(now_s))
        lines.append(f"{case.kind}\t{';'.join(map('='.join, options.items()))}\t{messages}\n")
    done = subprocess.run(
        ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classpath(), str(ANSWERS)],
        input="".join(lines), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    answers = [line.removeprefix("answer ") for line in done.stdout.splitlines() if line.startswith("answer ")]
    assert len(answers) == len(CASES), done.stderr[-3000:]
    wrong = {}
    for case, answer in zip(CASES, answers, strict=True):
        answer = re.sub(r"\d{13}$", lambda found: f"+{round(int(found[0]) / 1_000 - now_s)}", answer)
        if case.name == KAFKA_FAILS:
            assert answer.startswith("failed ")
        elif answer != case.outcome:
            wrong[case.name] = answer
    assert wrong == {}
