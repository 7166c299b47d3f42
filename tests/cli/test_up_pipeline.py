"""If the stream of `zabka up --pipeline` cannot start, the reason is printed, and the cluster keeps running."""

from __future__ import annotations

from pathlib import Path

import pytest

from zabka.cli import up


def test_missing_spark_extra_error_explains_its_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(up, "is_installed", lambda extra: False)
    assert up._pipeline_of(tmp_path)() == (
        "pipeline  not started: the Spark jobs are not installed: pip install 'zabka[spark]'"
    )
    assert not (tmp_path / "pipeline.log").exists()


def test_missing_java_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "Java 17" in up._pipeline_of(tmp_path)()


def test_unwritable_pipeline_log_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(up, "is_installed", lambda extra: True)
    (tmp_path / "pipeline.log").mkdir()
    output = up._pipeline_of(tmp_path)()
    assert output.startswith("pipeline  not started: ") and output.endswith(
        f"Is a directory: '{tmp_path}/pipeline.log'"
    )
