"""A Spark session: its class path, and how it ends after Ctrl-C, which Java receives too.

Also tests that only one module uses private names of PySpark.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from unittest import mock

import pytest
from py4j.protocol import Py4JNetworkError

from zabka import pipeline
from zabka.cli.pipeline import _answered
from zabka.pipeline.session import _FIRST_JARS, _class_path, _is_no_interruption, stop, was_interrupted


def broken_off() -> Exception:
    """Return the exception that PySpark raises if Ctrl-C ends Java during a call."""
    try:
        try:
            raise KeyboardInterrupt
        finally:
            raise Py4JNetworkError("Answer from Java side is empty")
    except Py4JNetworkError as failed:
        return failed


def test_call_interrupted_by_ctrl_c_is_not_a_spark_failure() -> None:
    assert was_interrupted(broken_off())
    assert not was_interrupted(Py4JNetworkError("Answer from Java side is empty"))
    with pytest.raises(KeyboardInterrupt), _answered():
        raise broken_off()


def test_stack_traces_of_interrupted_py4j_calls_are_suppressed() -> None:
    records = [
        logging.makeLogRecord({"msg": f"{what} while sending command."}) for what in ("KeyboardInterrupt", "Exception")
    ]
    assert not any(map(_is_no_interruption, records))
    assert _is_no_interruption(logging.makeLogRecord({"msg": "something else"}))


@pytest.mark.parametrize("failed", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError()])
def test_session_whose_java_process_exited_is_stopped(failed: Exception) -> None:
    stop(mock.Mock(stop=mock.Mock(side_effect=failed)))


def test_only_the_prepared_module_uses_private_pyspark_names() -> None:
    """Only the module `prepared` uses private names of PySpark.

    Such names change between minor versions of PySpark. So the tests of that module decide which versions can be used.
    """
    private = re.compile(r"\._(jvm|jdf|jsc|jc|jsparkSession|getJavaStorageLevel)\b")
    modules = Path(pipeline.__file__).parent.rglob("*.py")
    assert [path.name for path in modules if private.search(path.read_text())] == ["prepared.py"]


def test_class_path_names_an_existing_jar_for_each_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    jars = [Path(jar) for jar in _class_path().split(os.pathsep)]
    assert [next(name for name in _FIRST_JARS if jar.name.startswith(name)) for jar in jars] == [*_FIRST_JARS]
    assert all(jar.is_file() for jar in jars)


@pytest.mark.parametrize("name", ["SPARK_HOME", "SPARK_CONF_DIR"])
def test_class_path_of_a_configured_spark_is_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "/spark")
    assert _class_path() == ""
