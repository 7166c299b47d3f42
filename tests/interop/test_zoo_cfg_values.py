"""Our tables of how Java interprets zoo.cfg, compared with Apache ZooKeeper 3.9.5 and java.util.Properties."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from tests.ensemble.java_properties import FILES
from tests.ensemble.server.config.java_outcomes import JAVA
from tests.ensemble.server.config.zookeeper_keys import KEYS, zoo_cfg
from tests.interop.real_zookeeper import needs_java
from tests.interop.zookeeper_configs.outcomes import TIMEOUT_S, Question, ask
from zabka.ensemble.properties import BadProperties, decode_properties, read_properties

pytestmark = needs_java
PRINTER = Path(__file__).parent / "zookeeper_configs" / "PropertiesPrinter.java"
RANDOM_FILES = 3000


@pytest.mark.long
@pytest.mark.timeout(TIMEOUT_S)
def test_java_zookeeper_reads_zoo_cfg_values_as_our_table_says(tmp_path: Path) -> None:
    cases = [(key, text) for key in KEYS for text in key.texts]
    questions = []
    for n, (key, text) in enumerate(cases):
        directory = tmp_path / str(n)
        lines = zoo_cfg(key, text, str(directory / "data"), for_java=True)
        system = (f"{key.system}={text}",) if key.system else ()
        questions.append(Question(directory, lines, system, key.starts, key.java))
    found: dict[str, dict[str, str | None]] = {}
    for (key, text), outcome in zip(cases, ask(questions), strict=True):
        found.setdefault(key.name, {})[text] = outcome
    assert found == JAVA


def test_java_parses_properties_files_as_zabka_does(tmp_path: Path) -> None:
    """Our parser of properties files returns the same as Java's.

    The test uses the files in the table, and files of random characters that have a meaning in properties files.
    """
    draw = random.Random(1)
    alphabet = [b"\\", b"\\", b"\n", b"\r", b" ", b"\t", b"\f", b"=", b":", b"#", b"!", b"u", b"0", b"4", b"a", b"\xe9"]
    files = [*FILES, *(b"".join(draw.choices(alphabet, k=draw.randrange(1, 25))) for _ in range(RANDOM_FILES))]
    for n, data in enumerate(files):
        (tmp_path / str(n)).write_bytes(data)
    done = subprocess.run(
        ["java", str(PRINTER), str(tmp_path), str(len(files))], capture_output=True, text=True, timeout=300, check=True
    )
    for data, line in zip(files, done.stdout.splitlines(), strict=True):
        words = [bytes.fromhex(word).decode("utf-16-be", "replace") for word in line.split(" ")[1:]]
        java = dict(zip(words[::2], words[1::2], strict=True)) if line.startswith("read") else None
        assert _ours(data) == java, data
        if data in FILES:
            assert FILES[data] == java, data


def _ours(data: bytes) -> dict[str, str] | None:
    try:
        return read_properties(decode_properties(data))
    except BadProperties:
        return None
